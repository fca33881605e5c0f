"""Keeps off the screen what libraries in C++ write there without a switch to turn it off."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def suppress_stderr() -> Iterator[None]:
    """Discards what this process writes to its standard error, also from outside of Python."""
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
