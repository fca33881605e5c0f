"""Signals without an effect.

They come during the handler of an earlier one, as if a terminal and a parent both send one, or to a learner that the
chief ends.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

HANDLERS = {
    "worker": """
from repro.launch import workers
workers._begin(threading.Event())
workers._Process.trains = True
done = lambda: workers._Process.orphaned
""",
    "pool": """
from repro.launch.workers import WorkerPool
pool = WorkerPool(1)
signal.signal(signal.SIGTERM, lambda *_: pool.stop())
done = pool._stop.is_set
""",
    "scheduler": """
from repro.launch.scheduler import _ending
ending = _ending()
end = ending.__enter__()
done = lambda: end.asked
""",
}
SIGNALS = """
import os, signal, sys, threading
{handler}
for calls in range(20):
    left = calls
    def look(frame, event, argument):
        global left
        if event == "call":
            if left == 0:
                os.kill(os.getpid(), signal.SIGTERM)
            left -= 1
    sys.setprofile(look)
    os.kill(os.getpid(), signal.SIGTERM)
    sys.setprofile(None)
sys.exit(0 if done() else 1)
"""
"""A second signal after each number of the calls that the handler makes."""


@pytest.mark.parametrize("name", HANDLERS)
def test_a_second_signal_while_a_handler_runs_changes_nothing(name):
    code = SIGNALS.format(handler=HANDLERS[name])
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


LEARNER = """
import os, signal, sys
from repro import cli, learner
from repro.training import run_directory

def read_settings(run_dir):
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
    ended = os.system("kill -TERM $$")  # a process that it starts ends, as its actors do
    raise run_directory.RunDirectoryError(f"It goes on; its actor ended with {ended}")

run_directory.read_settings = read_settings
cli.run(learner.main)
"""


def test_a_learner_is_ended_by_the_chief_alone():
    command = [sys.executable, "-c", LEARNER, "--run_dir=x", "--address=localhost:1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert "It goes on; its actor ended with 15" in ended.stderr
    assert ended.returncode == 2
