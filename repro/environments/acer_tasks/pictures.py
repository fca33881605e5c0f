"""Renders the pictures of docs/acer_tasks: `python -m repro.environments.acer_tasks.pictures docs/acer_tasks`."""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2

from repro.environments.acer_tasks import TASKS
from repro.environments.rendering import render_task

WIDTH, HEIGHT = 240, 180
SEED = 3


def main(folder: Path) -> None:
    """Writes a picture of the first state of an episode for each task."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in TASKS.items():
        task = kind("executed")
        task.reset(seed=SEED)
        picture = cv2.resize(render_task(task, name), (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
        task.close()
        path = folder / f"{name}.png"
        if not cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)):
            raise OSError(f"{path} cannot be written.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m repro.environments.acer_tasks.pictures", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="folder for the pictures, such as docs/acer_tasks")
    main(parser.parse_args().folder)
