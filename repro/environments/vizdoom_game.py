"""One scenario of ViZDoom with its own engine, a process that ends with this one."""

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
"""Number of tics after which a weapon no longer swings: by up to 16 pixels at first, by at least one less each tic."""

STARTER = """#!/bin/sh
cd '{folder}' && exec '{python}' -IS -c '
import ctypes, os, sys
os.setsid()
ctypes.CDLL(None).prctl({end_with_parent}, {kill})
os.execv(sys.argv[1], sys.argv[1:])' '{engine}' "$@"
"""
"""Script that starts the engine in a folder for its files and in a new session, and ends it with its parent process.

Ctrl-C then reaches only the run, which saves, and no engine outlives a run that is killed.
"""


class Game:
    """One scenario. An episode depends only on its seed and actions, not on earlier episodes.

    The engine renders 160 x 120 pixels, its smallest size, which are averaged over areas. Scenario, rewards, difficulty
    and first tics are as in the package's settings. The engine's time limit is turned off, so that there is a frame of
    the last state; the caller applies `time_limit`. The graphics are those of Freedoom, which comes with the package.

    Args:
        scenario: one of `SCENARIOS`.
        height, width: size of a frame in pixels, at most that of the engine's frames.
        frame_skip: number of tics for which an action is held; at least 1.
        render_fps: number of agent steps in a second of play.

    Raises:
        MissingModuleError: ViZDoom is not installed.

    Attributes:
        metadata: Gymnasium's metadata with `render_fps`.
        actions: names of the buttons that each action presses.
        time_limit: number of tics after which the scenario ends; 0 for no limit.
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
        game.set_doom_game_path(str(package / "freedoom2.wad"))  # also if the original is installed
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
        self._end = weakref.finalize(self, game.close)  # runs before the folder's older finalizer

    def begin(self, seed: int) -> np.ndarray:
        """Begins an episode; returns its first frame, uint8 [height, width, 3].

        The engine carries the swing of a weapon over to the next episode; some tics without an action reset it.

        Args:
            seed: seed of the episode, in [0, 2^31).
        """
        self._game.new_episode()
        for _ in range(SETTLING_PICTURES):
            self._game.make_action(self._presses[0], 1)
        self._game.set_seed(seed)
        self._game.new_episode()
        return self._frame()

    def step(self, action: int) -> tuple[float, np.ndarray | None]:
        """Holds an action; returns the sum of rewards and the frame, or None if the player died or the map ended.

        Args:
            action: index of one of `actions`.
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
