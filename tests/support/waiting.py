"""Waiting for other threads and processes, and a process that itself only waits."""

import threading
import time


def wait(condition, seconds=60.0, otherwise="waited too long"):
    """Waits until something is so, and returns what the condition returned then."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, otherwise
        time.sleep(0.02)
    return found


class IdleProcess:
    """Does nothing until it is ended; see `ActorProcess`."""

    def __init__(self, may_wait=False):
        self.may_wait, self.ended = may_wait, threading.Event()

    def wait(self):
        self.ended.wait()
        return "it ended with code -9"

    def kill(self):
        self.ended.set()

    terminate = kill
