"""Processes that must not outlive the one that began them."""

import ctypes
import signal

PR_SET_PDEATHSIG = 1
"""Option of Linux's prctl: the signal that a process gets when the thread that began it ends."""
_LIBC = ctypes.CDLL(None)  # loaded before a fork, after which it could not be


def end_with_parent() -> None:
    """Lets this process get SIGTERM, so that it saves and ends, when the one that began it is killed."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
