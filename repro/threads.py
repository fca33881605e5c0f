"""A thread that makes calls for other threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class CallThread:
    """A thread that makes calls one after the other; a call that hangs does not keep the process from ending.

    The thread starts with the first call.

    Args:
        name: name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
        """Schedules a call of a function; returns a future of its result or exception."""
        if self._thread.ident is None:
            self._thread.start()
        future: Future = Future()
        self._calls.put((future, lambda: function(*args, **kwargs)))
        return future

    def end(self) -> None:
        """Ends the thread after all scheduled calls."""
        self._calls.put(None)

    def join(self, seconds: float) -> None:
        """Waits until the thread has ended, at most `seconds`."""
        if self._thread.ident is not None:
            self._thread.join(timeout=seconds)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised where the result is read
                future.set_exception(error)
