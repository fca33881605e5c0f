"""CartPole with faults that files in a folder cause, registered as `repro_tests/Faulty-v0`."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from pathlib import Path
from typing import Any, NoReturn, TextIO

import gymnasium
import psutil
from gymnasium.envs.classic_control import CartPoleEnv

FOLDER_VARIABLE = "REPRO_TESTS_FAULTS"
TASK = f"{__name__}:repro_tests/Faulty-v0"
STEP_SECONDS = 1e-3
"""Seconds of sleep in each step, so that a run that a test watches leaves the cores to other tests."""

ROOM = 2**28
"""Bytes of memory that a process may still take before its memory runs out."""


class Faulty(CartPoleEnv):
    """CartPole that checks in each step for the files `raise_once`, `raise`, `hang_once`, `hang` and `fill_once`.

    When it is created, it checks for the file `leak`. If it leaks, it keeps one more MiB and one more open file every
    second.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._leaks = (Path(os.environ[FOLDER_VARIABLE]) / "leak").exists()
        self._kept: list[tuple[bytes, TextIO]] = []
        self._leaked = time.monotonic()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        folder = Path(os.environ[FOLDER_VARIABLE])
        if self._leaks and time.monotonic() > self._leaked + 1.0:
            self._leaked = time.monotonic()
            self._kept.append((os.urandom(2**20), Path(__file__).open()))  # noqa: SIM115
        with contextlib.suppress(FileNotFoundError):
            (folder / "raise_once").unlink()
            raise OSError("the simulator is gone for once")
        if (folder / "raise").exists():
            raise OSError("the simulator is gone")
        with contextlib.suppress(FileNotFoundError):
            (folder / "hang_once").unlink()
            time.sleep(1e6)
        while (folder / "hang").exists():
            time.sleep(0.1)
        with contextlib.suppress(FileNotFoundError):
            (folder / "fill_once").unlink()
            fill_memory()
        time.sleep(STEP_SECONDS)
        return super().step(action)


def fill_memory() -> NoReturn:
    """Takes memory until the system grants no more, which raises MemoryError. The process keeps the limit."""
    used = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.getrlimit(resource.RLIMIT_AS)[1]))
    taken = []
    while True:
        taken.append(bytearray(2**20))


gymnasium.register("repro_tests/Faulty-v0", entry_point=Faulty, max_episode_steps=200)
