"""Waiting for other threads and processes, and a process that only waits."""

import threading
import time


def wait(condition, seconds=60.0, otherwise="waited too long"):
    """Waits until a condition returns something true, and returns it; fails with `otherwise` after `seconds`."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, otherwise
        time.sleep(0.02)
    return found


class IdleProcess:
    """Process that does nothing until it is ended; an `ActorProcess`."""

    def __init__(self, may_wait=False):
        self.may_wait, self.ended = may_wait, threading.Event()

    def wait(self):
        self.ended.wait()
        return "it ended with code -9"

    def kill(self):
        self.ended.set()

    terminate = kill
