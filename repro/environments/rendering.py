"""Renders tasks without a display."""

from __future__ import annotations

import ctypes.util
import functools
import importlib
import os
from typing import Any

import mujoco
import numpy as np

from repro.environments.batched import RenderError, one_line

LIBRARIES = {"egl": "EGL", "osmesa": "OSMesa"}
"""Values of MUJOCO_GL that need no display, the preferred one first, and the system library that each uses."""

QUIET_PYGAME = {"PYGAME_HIDE_SUPPORT_PROMPT": "1", "SDL_AUDIODRIVER": "dummy"}
"""Environment variables that suppress pygame's greeting and its warnings on machines without sound."""


def render_task(task: Any, label: str) -> np.ndarray:
    """Returns an RGB picture of a task's current state, uint8 [H, W, 3], without changing what follows.

    Args:
        task: a `gymnasium.Env`, made with any render mode.
        label: name of the task, for messages.

    Raises:
        RenderError: the task has no render mode `rgb_array`, its rendering fails or returns something else, or no
            graphics library works without a display.
    """
    if "rgb_array" not in (task.metadata.get("render_modes") or ()):
        raise RenderError(f"{label} cannot be shown: it has no render mode rgb_array.")
    for name, value in QUIET_PYGAME.items():
        os.environ.setdefault(name, value)
    if isinstance(getattr(task.unwrapped, "model", None), mujoco.MjModel):
        choose_gl()
    # Gymnasium's environments read the mode when they render, so it need not be set when they are made.
    task.unwrapped.render_mode = "rgb_array"
    try:
        picture = task.render()
    except Exception as error:  # noqa: BLE001 - whatever a user's class or a graphics library raises
        raise RenderError(f"{label} cannot be shown: {one_line(error)}.") from error
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.shape[2:] != (3,):
        raise RenderError(f"{label} cannot be shown: its rgb_array is no uint8 array [H, W, 3].")
    return picture


@functools.cache
def choose_gl() -> None:
    """Sets MUJOCO_GL to a library that needs no display, unless the user has set it.

    Raises:
        RenderError: no such library is installed, or the chosen one does not work.
    """
    found = [name for name, library in LIBRARIES.items() if ctypes.util.find_library(library)]
    name = os.environ.get("MUJOCO_GL") or next(iter(found), None)
    if name is None:
        raise RenderError(
            "MuJoCo renders with EGL or OSMesa where there is no display, and neither is installed; on Debian and "
            "Ubuntu: apt install libegl1 libgl1-mesa-dri."
        )
    try:
        importlib.import_module(f"mujoco.{name}").GLContext(16, 16).free()
    except Exception as error:  # noqa: BLE001 - each library has errors of its own
        raise RenderError(f"MuJoCo cannot render with MUJOCO_GL={name}: {one_line(error)}.") from error
    os.environ["MUJOCO_GL"] = name
