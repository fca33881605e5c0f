"""Ends a step of an environment that hangs in the main thread."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from repro.acting.supervision import AWAY_SECONDS, PatientClock

SIGNAL = signal.SIGUSR2
LOOKS = 10
"""Number of checks within the longest duration of a step, if that is short."""


class StepHungError(Exception):
    """A step took longer than it may; its outcome is not known."""


class StepWatch:
    """A thread that checks whether the main thread is in a step for too long, and raises `StepHungError` there.

    It does so by a signal, which ends a wait for a lock, a socket or a clock, and a loop in Python. A C library that
    neither waits nor returns goes on, since Python handles signals only between its own instructions.

    Args:
        silent_seconds: longest duration of a step.

    Attributes:
        changes: counted up by the main thread before and after each step, so that it is odd in a step.
    """

    def __init__(self, silent_seconds: float) -> None:
        self.changes = 0
        self._hung = -1  # `changes` in the last step that hung
        self._silent_seconds = silent_seconds
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the checks; to be called in the main thread, without effect in any other."""
        if self._thread is None and threading.current_thread() is threading.main_thread():
            signal.signal(SIGNAL, self._on_signal)
            self._thread = threading.Thread(target=self._look, name="step watch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends the checks."""
        self._stop.set()

    def _look(self) -> None:
        clock, seen, since = PatientClock(self._silent_seconds), -1, 0.0
        while not self._stop.wait(min(self._silent_seconds / LOOKS, AWAY_SECONDS)):
            now, changes = clock.look(), self.changes
            if changes != seen or changes % 2 == 0:
                seen, since = changes, now
            elif now - since > self._silent_seconds:
                self._hung = changes
                signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.changes == self._hung:  # or it ended just now, and another step may have begun
            self.changes += 2  # the step in its place has as long
            raise StepHungError(f"no step for {self._silent_seconds:g} seconds")
