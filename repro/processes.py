"""Processes that must not outlive their parents."""

import ctypes
import signal

PR_SET_PDEATHSIG = 1
"""Option of Linux's prctl for the signal that a process gets when the thread that started it ends."""
_LIBC = ctypes.CDLL(None)  # loaded before a fork, since it could not be loaded after it


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Makes this process receive a signal when its parent is killed; at SIGTERM it saves and ends."""
    _LIBC.prctl(PR_SET_PDEATHSIG, number)
