"""One scenario of ViZDoom in an engine of its own, which is a process that ends with this one."""

from __future__ import annotations

import signal
import sys
import tempfile
import weakref
from pathlib import Path

import cv2
import numpy as np

from repro.environments.vizdoom_module import check_module
from repro.environments.vizdoom_scenarios import actions_of
from repro.processes import PR_SET_PDEATHSIG

SETTLING_PICTURES = 16
"""Pictures until a weapon has stopped to swing: by at most 16 pixels, of which each takes one or more."""

STARTER = """#!/bin/sh
cd '{folder}' && exec '{python}' -IS -c '
import ctypes, os, sys
os.setsid()
ctypes.CDLL(None).prctl({end_with_parent}, {kill})
os.execv(sys.argv[1], sys.argv[1:])' '{engine}' "$@"
"""
"""Starts the engine in a folder for its files and a session of its own, and lets it end with whoever started it.

Ctrl-C then reaches the run alone, which saves, and no engine outlives a run that was killed.
"""


class Game:
    """One scenario. An episode depends on its seed and actions alone, not on those before it.

    The engine draws 160 x 120 pixels, its smallest size, which are averaged over areas. Scenario, rewards, difficulty
    and first tics are those of the package's settings, but for the time limit: `time_limit` is for the caller to keep,
    so that there is a picture of the last state. The pictures are those of Freedoom, which comes with the package.

    Args:
        scenario: one of `SCENARIOS`.
        height, width: of a frame, in pixels, at most those of the engine.
        frame_skip: tics for which an action is held; at least 1.
        render_fps: see `metadata`.

    Raises:
        MissingModuleError: ViZDoom is not installed.

    Attributes:
        metadata: `render_fps`, agent steps in a second of play.
        actions: names of the buttons that each action presses.
        time_limit: tics after which the scenario ends; 0 for never.
    """

    def __init__(self, scenario: str, height: int, width: int, frame_skip: int, render_fps: float) -> None:
        check_module()
        import vizdoom

        self.metadata = {"render_fps": render_fps}
        self._size, self._frame_skip = (width, height), frame_skip
        self._folder = tempfile.TemporaryDirectory(prefix="vizdoom_", ignore_cleanup_errors=True)
        self._game = game = vizdoom.DoomGame()
        package = Path(vizdoom.root_path)
        game.load_config(str(package / "scenarios" / f"{scenario}.cfg"))
        game.set_doom_game_path(str(package / "freedoom2.wad"))  # also where there is the original
        game.set_vizdoom_path(self._write_starter(Path(vizdoom.exe_path)))
        game.set_mode(vizdoom.Mode.PLAYER)
        game.set_window_visible(False)
        game.set_sound_enabled(False)
        game.set_screen_format(vizdoom.ScreenFormat.RGB24)
        game.set_screen_resolution(vizdoom.ScreenResolution.RES_160X120)
        self.time_limit = int(game.get_episode_timeout())
        game.set_episode_timeout(0)
        buttons = [button.name for button in game.get_available_buttons()]
        self.actions = actions_of(buttons)
        self._presses = [[button in action for button in buttons] for action in self.actions]
        game.init()
        self._end = weakref.finalize(self, game.close)  # at exit it comes before the folder's, which is older

    def begin(self, seed: int) -> np.ndarray:
        """Begins an episode; returns its first frame, uint8 [height, width, 3].

        How far a weapon swings outlives an episode in the engine. It settles in a few tics of standing still.

        Args:
            seed: in [0, 2^31).
        """
        self._game.new_episode()
        for _ in range(SETTLING_PICTURES):
            self._game.make_action(self._presses[0], 1)
        self._game.set_seed(seed)
        self._game.new_episode()
        return self._frame()

    def step(self, action: int) -> tuple[float, np.ndarray | None]:
        """Holds an action; returns the sum of rewards and the frame, None where the player died or the map ended.

        Args:
            action: number among `actions`.
        """
        reward = self._game.make_action(self._presses[action], self._frame_skip)
        return reward, None if self._game.is_episode_finished() else self._frame()

    def close(self) -> None:
        """Ends the engine."""
        self._end()
        self._folder.cleanup()

    def _frame(self) -> np.ndarray:
        return cv2.resize(self._game.get_state().screen_buffer, self._size, interpolation=cv2.INTER_AREA)

    def _write_starter(self, engine: Path) -> str:
        path = Path(self._folder.name, "start")
        path.write_text(
            STARTER.format(
                folder=self._folder.name,
                python=sys.executable,
                engine=engine,
                end_with_parent=PR_SET_PDEATHSIG,
                kill=int(signal.SIGKILL),
            )
        )
        path.chmod(0o700)
        return str(path)
