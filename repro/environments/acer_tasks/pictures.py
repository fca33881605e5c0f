"""The pictures of docs/acer_tasks: `MUJOCO_GL=egl python -m repro.environments.acer_tasks.pictures docs/acer_tasks`."""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import mujoco
import numpy as np

from repro.environments.acer_tasks import TASKS
from repro.environments.acer_tasks.task import ControlTask

WIDTH, HEIGHT = 240, 180
SEED = 3
SUPERSAMPLING = 2


def picture(task: ControlTask) -> np.ndarray:
    """Returns the current state as uint8 [HEIGHT, WIDTH, 3], red first; the simulation is left as it is."""
    mujoco.mj_comPos(task.model, task.data)
    mujoco.mj_camlight(task.model, task.data)
    with mujoco.Renderer(task.model, HEIGHT * SUPERSAMPLING, WIDTH * SUPERSAMPLING) as renderer:
        renderer.update_scene(task.data, task.camera)
        return cv2.resize(renderer.render(), (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)


def main(folder: Path) -> None:
    """Writes the first state of an episode of each task."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in TASKS.items():
        task = kind()
        task.reset(seed=SEED)
        path = folder / f"{name}.png"
        if not cv2.imwrite(str(path), cv2.cvtColor(picture(task), cv2.COLOR_RGB2BGR)):
            raise OSError(f"{path} cannot be written.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
