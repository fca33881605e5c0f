"""Renders MuJoCo simulations from a camera of their model, without a display and from any thread."""

from __future__ import annotations

import atexit
import importlib
import os
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

from repro.environments.batched import RenderError, one_line
from repro.environments.rendering import choose_gl
from repro.threads import CallThread

MAX_GEOMS = 1000
"""Largest number of shapes in a scene; scenes of the control suite have fewer."""


class OffscreenRenderer:
    """Renders simulations whose models were built from the same assets, from their first camera.

    OpenGL binds a context to a thread, and environments may move from one thread to another. Rendering therefore
    happens in a separate thread, and any thread may call `render`. A renderer that is not closed is closed at exit.

    Args:
        model: model of one of the simulations.
        height, width: size of a picture in pixels, at most that of the model's offscreen buffer.
        label: name of the task, for messages.

    Raises:
        RenderError: no graphics library works without a display.
    """

    def __init__(self, model: mujoco.MjModel, height: int, width: int, label: str) -> None:
        choose_gl()
        self._label = label
        self._is_closed = False
        self._thread = CallThread("renderer")
        try:
            self._call(self._open, model, height, width)
        except RenderError:
            self._thread.end()
            raise
        atexit.register(self.close)  # runs before MuJoCo's older hook, which closes the display

    def render(self, model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
        """Returns an RGB picture of a simulation, uint8 [H, W, 3].

        Args:
            model, data: the simulation, with the bodies' positions up to date.

        Raises:
            RenderError: the graphics library fails, or the renderer is closed.
        """
        if self._is_closed:
            raise RenderError(f"{self._label} cannot be shown: its environments are closed.")
        return self._call(self._draw, model, data)

    def close(self) -> None:
        """Frees the context; further calls have no effect."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self.close)
        try:
            self._call(self._free)
        finally:
            self._thread.end()

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a function in the renderer's thread; raises RenderError if it fails."""
        try:
            return self._thread.call(function, *args).result()
        except Exception as error:  # noqa: BLE001 - each graphics library has errors of its own
            raise RenderError(f"{self._label} cannot be shown: {one_line(error)}.") from error

    def _open(self, model: mujoco.MjModel, height: int, width: int) -> None:
        self._gl = importlib.import_module(f"mujoco.{os.environ['MUJOCO_GL']}").GLContext(width, height)
        self._gl.make_current()
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._scene, self._options = mujoco.MjvScene(model, MAX_GEOMS), mujoco.MjvOption()
        self._viewport = mujoco.MjrRect(0, 0, width, height)
        self._camera = mujoco.MjvCamera()
        self._camera.type, self._camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, 0

    def _draw(self, model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
        every = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(model, data, self._options, None, self._camera, every, self._scene)
        mujoco.mjr_render(self._viewport, self._scene, self._context)
        picture = np.empty((self._viewport.height, self._viewport.width, 3), np.uint8)
        mujoco.mjr_readPixels(picture, None, self._viewport, self._context)
        return picture[::-1]  # OpenGL's first row is the lowest

    def _free(self) -> None:
        self._context.free()
        self._gl.free()
