"""Keeps off the screen what libraries in C++ write there without a switch to turn it off."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def suppress_stderr() -> Iterator[None]:
    """Sends what this process writes to its standard error nowhere, also what comes from outside of Python."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
