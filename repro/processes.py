"""Processes that must not outlive the one that began them."""

import ctypes
import signal

PR_SET_PDEATHSIG = 1
"""Option of Linux's prctl: the signal that a process gets when the thread that began it ends."""
_LIBC = ctypes.CDLL(None)  # loaded before a fork, after which it could not be


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Lets this process get a signal when the one that began it is killed: SIGTERM, so that it saves and ends."""
    _LIBC.prctl(PR_SET_PDEATHSIG, number)
