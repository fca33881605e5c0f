"""The end of a process that waits for other learners with Python's lock held."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WAIT = """
import ctypes
from repro.training.devices import _killed_after
hold = ctypes.PyDLL(None).usleep  # as TensorFlow does, with Python's lock held
with _killed_after({seconds}, "They did not meet."):
    hold({waited})
    {then}
print("met")
"""


def run(**parts):
    code = WAIT.format(**{"then": "pass"} | parts)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_a_process_that_waits_too_long_is_killed_with_the_reason():
    ended = run(seconds=1.0, waited=60_000_000)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "")
    assert ended.stderr.endswith("They did not meet.\n")


@pytest.mark.parametrize(
    ("then", "code", "said"), [("pass", 0, "met\n"), ("raise SystemExit(3)", 3, "")], ids=["ends", "fails"]
)
def test_a_process_that_waits_no_longer_than_it_may_goes_on(then, code, said):
    ended = run(seconds=20.0, waited=1, then=then)
    assert (ended.returncode, ended.stdout) == (code, said)
    assert "They did not meet." not in ended.stderr
