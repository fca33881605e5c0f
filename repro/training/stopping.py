"""Ctrl-C and SIGTERM: a run is saved and ends, in a bounded time whatever it does."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from repro.training.trainer import Trainer

STOP_SECONDS = 25.0
"""Time from the signal until a process that does not end by itself is ended. A checkpoint that is being written then is
finished first."""
SAVE_SECONDS = 600.0
"""Longest wait for that checkpoint, since a network disk may hang: gigabytes of a replay take minutes at most."""
GOODBYE_SECONDS = 5.0
"""Longest wait for the last message, which may go to a log on the same disk."""
UPDATE, CHECKPOINT = "the update after it did not end", "the one after it could not be written"
"""What a process that was ended did not wait for, in the words of its last message."""


class StopSignal:
    """Receives Ctrl-C and SIGTERM from its creation on, and ends the process.

    A thread of its own receives them, also while the main thread is in a compiler or in an environment. It ends the
    wait for actors, so that the iteration of the trainer returns. A process that has not ended after `STOP_SECONDS` is
    ended then, with what its last checkpoint has, or after the checkpoint that it is writing, at most `SAVE_SECONDS`
    later. A second signal changes nothing, also while Python ends.

    Args:
        heard: called when the first signal comes, in that thread.
        goodbye: called, with None, before a process that has no trainer yet is ended.
    """

    def __init__(self, heard: Callable[[], None], goodbye: Callable[[str | None], None]) -> None:
        self._received = threading.Event()
        self._trainer: Trainer | None = None
        self._heard = heard
        self._goodbye = goodbye
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)  # the thread receives it, and the main thread goes on
        atexit.register(self._ignore_signals)
        self._signals, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._wait, name="stop", daemon=True).start()

    def is_set(self) -> bool:
        """Returns whether a signal came."""
        return self._received.is_set()

    def attach(self, trainer: Trainer, goodbye: Callable[[str | None], None]) -> None:
        """Sets the trainer that a signal ends.

        Args:
            trainer: trainer of the run.
            goodbye: called before the process is ended by force, with what did not end, `UPDATE` or `CHECKPOINT`, or
                None if everything is saved.
        """
        self._goodbye = goodbye
        self._trainer = trainer
        if self.is_set():
            trainer.interrupt()

    def _ignore_signals(self) -> None:
        """Keeps a second signal from killing a process that ends, since Python resets its handlers then."""
        if self.is_set():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)

    def _wait(self) -> None:
        while os.read(self._signals, 1)[0] not in (signal.SIGINT, signal.SIGTERM):
            pass  # a signal of the environment's own
        self._received.set()
        if self._trainer is not None:
            self._trainer.interrupt()
        with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
            self._heard()
        threading.Event().wait(STOP_SECONDS)
        self._end()

    def _end(self) -> NoReturn:
        unended: str | None = None
        if self._trainer is not None and not self._trainer.saving.acquire(timeout=SAVE_SECONDS):
            unended = CHECKPOINT
        elif self._trainer is not None and self._trainer.saved_updates < self._trainer.updates:
            unended = UPDATE
        code = 1 if unended else 0
        last_words = threading.Timer(GOODBYE_SECONDS, os._exit, (code,))
        last_words.daemon = True
        last_words.start()
        try:
            self._goodbye(unended)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:  # the terminal may be gone
            os._exit(code)
