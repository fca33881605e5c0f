"""Jobs that run until a test lets them end."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import ml_collections

from repro.launch.recorded_job import RecordedJob, Stopped


class FakeJob(RecordedJob):
    """Runs until `finish` is set, or until it is asked to stop.

    Attributes:
        begun: how often it was begun.
        cores: that it had each time.
        killed: whether it had to be.

    Args:
        label: its name.
        error: raised at once, in place of running.
        obeys: whether it ends when asked.
    """

    def __init__(self, label: str, error: Exception | None = None, obeys: bool = True, finished: bool = False) -> None:
        super().__init__(ml_collections.ConfigDict({"scale": "smoke"}), 1, [Path("/nowhere") / label])
        self.label = label
        self.finish, self._stop = threading.Event(), threading.Event()
        self.begun, self.killed = 0, False
        self.cores: list[list[int]] = []
        self._error, self._obeys = error, obeys
        if finished:
            self.finish.set()

    def run(self, cores: list[int], quiet: bool) -> None:
        self.cores.append(cores)
        self.begun += 1
        if self._error is not None:
            raise self._error
        while not self.finish.is_set():
            if self._stop.is_set() and (self._obeys or self.killed):
                raise Stopped
            time.sleep(0.001)

    def stop(self) -> None:
        self._stop.set()

    def take_back_stop(self) -> None:
        self._stop.clear()

    def kill(self) -> None:
        self.killed = True

    def share_done(self) -> float:
        return 0.5

    def recorded(self) -> bool:
        return False


def wait_for(condition, seconds: float = 20.0) -> None:
    """Returns once a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)
