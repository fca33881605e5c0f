"""The standard error, while threads redirect it."""

from __future__ import annotations

import os
import threading

from repro.quiet import suppress_stderr


def test_the_last_thread_to_leave_brings_the_standard_error_back(capfd):
    """One enters while another is inside, and leaves after it."""
    entered, left = threading.Event(), threading.Event()

    def other():
        with suppress_stderr():
            entered.set()
            left.wait()

    thread = threading.Thread(target=other)
    with suppress_stderr():
        thread.start()
        entered.wait()
    os.write(2, b"lost")
    left.set()
    thread.join()
    os.write(2, b"shown")
    assert capfd.readouterr().err == "shown"
