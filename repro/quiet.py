"""Keeps off the screen what libraries in C++ write there without a switch to turn it off."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_saved: list[int] = []  # a copy of the standard error for each thread inside


@contextlib.contextmanager
def suppress_stderr() -> Iterator[None]:
    """Discards what this process writes to its standard error, also from outside of Python and from other threads.

    Where threads meet in it, the last one to leave brings the standard error back.
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
