"""A thread that makes calls."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class CallThread:
    """A thread that makes the calls it is given, one after the other; one that hangs does not keep the process.

    It starts with its first call.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
        """Returns what will be the function's result, or what it raises."""
        if self._thread.ident is None:
            self._thread.start()
        future: Future = Future()
        self._calls.put((future, lambda: function(*args, **kwargs)))
        return future

    def end(self) -> None:
        """Ends the thread after the calls that it was given."""
        self._calls.put(None)

    def join(self, seconds: float) -> None:
        """Waits for the thread's end, at most so long."""
        if self._thread.ident is not None:
            self._thread.join(timeout=seconds)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                future.set_exception(error)
