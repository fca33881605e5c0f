"""Suppresses output of C++ libraries that have no setting for it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_saved: list[int] = []  # a copy of standard error for each active context


@contextlib.contextmanager
def suppress_stderr() -> Iterator[None]:
    """Discards everything that this process writes to standard error, also outside Python and in other threads.

    If several threads are in this context, the last one to leave restores standard error.
    """
    with _lock:
        _saved.append(os.dup(_saved[0] if _saved else 2))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
    try:
        yield
    finally:
        with _lock:
            saved = _saved.pop()
            if not _saved:
                os.dup2(saved, 2)
            os.close(saved)
