"""Threads of a source of batches, which pass memory to each other until the source is closed."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from repro.acting.batches import CLOSE_SECONDS, POLL_SECONDS


class Workers:
    """Threads that end together; the first error in one of them is raised in the learner's thread."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []

    @property
    def stopped(self) -> bool:
        """Whether the threads are to end."""
        return self._stop.is_set()

    def start(self, name: str, body: Callable[[], None]) -> None:
        """Runs `body` in a thread of its own."""
        thread = threading.Thread(target=self._guard, args=(body,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def check(self) -> None:
        """Raises the first error of a thread, in the learner's."""
        if self._error is not None:
            raise self._error

    def get(self, source: queue.Queue) -> Any:
        """Waits for the next item of a queue; returns None if the threads are to end."""
        while not self.stopped:
            try:
                return source.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
        return None

    def put(self, sink: queue.Queue, item: Any) -> None:
        """Puts an item into a queue, waiting for room, unless the threads are to end."""
        while not self.stopped:
            try:
                sink.put(item, timeout=POLL_SECONDS)
            except queue.Full:
                continue
            return

    def stop(self) -> None:
        """Tells the threads to end."""
        self._stop.set()

    def close(self) -> None:
        """Ends the threads; one that hangs ends with the process."""
        self.stop()
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))

    def _guard(self, body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - handed to the learner's thread, which raises it
            if not self.stopped:
                self._error = error
            self._stop.set()
