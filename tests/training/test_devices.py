"""A learner that waits for another one which does not come: what it hears meanwhile, and its end."""

from __future__ import annotations

import subprocess
import sys

from repro.training.devices import NOT_MET

WAIT = """
import os, signal, socket, sys, threading, time
from repro.training import devices
from repro.training.learner_group import free_port

HANDLERS = {signal.SIGTERM: lambda *_: os._exit(7), signal.SIGINT: signal.SIG_IGN}
for number, handler in HANDLERS.items():
    signal.signal(number, handler)
addresses = [f"localhost:{free_port()}" for _ in range(2)]

def ask():
    while socket.socket().connect_ex(("localhost", int(addresses[0].split(":")[1]))):
        time.sleep(0.1)  # until TensorFlow's server is there
    time.sleep(1.0)
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.5)

"""
MEET = "devices.make_learners_strategy(0, addresses)"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WAIT + code], capture_output=True, text=True, timeout=150)


def test_a_learner_that_finds_no_other_one_ends_with_a_sentence():
    ended = run(f"devices.MEETING_SECONDS = 1.0\n{MEET}")
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.endswith(f"{NOT_MET}\n")


def test_a_learner_that_waits_for_another_one_hears_of_signals():
    """TensorFlow's server has a handler of its own, and its wait for the others lets no thread of Python run."""
    ended = run(f"devices.MEETING_SECONDS = 60.0\nthreading.Thread(target=ask, daemon=True).start()\n{MEET}")
    assert ended.returncode == 7, ended.stderr


def test_a_server_that_cannot_start_is_an_error_and_handlers_of_signals_stay():
    ended = run(
        f"""
taken = socket.create_server(("", 0))
addresses[0] = f"localhost:{{taken.getsockname()[1]}}"
try:
    {MEET}
except devices.tf.errors.OpError as error:
    print(type(error).__name__)
    sys.exit(0 if all(signal.getsignal(x) is HANDLERS[x] for x in HANDLERS) else 1)
"""
    )
    assert (ended.returncode, ended.stdout) == (0, "UnknownError\n"), ended.stderr
