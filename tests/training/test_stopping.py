"""Signals: a process ends in a bounded time whatever its main thread does, and a checkpoint is finished first."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from repro.training import stopping

SECONDS = 60.0
"""Longest wait in a test, for a machine that is busy."""

PROGRAM = """
import pathlib, sys, threading, time
from repro.training import stopping

class Trainer:
    saving, updates, saved_updates = threading.Lock(), 7, {saved_updates}
    interrupted = threading.Event()
    def interrupt(self):
        self.interrupted.set()

stopping.STOP_SECONDS, stopping.SAVE_SECONDS, stopping.GOODBYE_SECONDS = {stop_seconds}, {save_seconds}, 1.0
stop = stopping.StopSignal(lambda: print("heard", file=sys.stderr, flush=True), lambda unended: print("unbuilt"))
trainer, written = Trainer(), pathlib.Path(sys.argv[1])
{attach}
print("ready", flush=True)
{main}
"""
ATTACH = "stop.attach(trainer, lambda unended: print(unended or 'saved'))"
SAVE = "with trainer.saving:\n    trainer.interrupted.wait()\n    time.sleep(2.0)\n    written.touch()\n"


def start(
    tmp_path, main, *, saved_updates=7, stop_seconds=0.5, save_seconds=stopping.SAVE_SECONDS, attach=ATTACH, stderr=None
):
    """A process that has said that it is ready."""
    fields = {"saved_updates": saved_updates, "stop_seconds": stop_seconds, "save_seconds": save_seconds}
    program = PROGRAM.format(**fields, attach=attach, main=main)
    command = [sys.executable, "-c", program, str(tmp_path / "written")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("saved_updates", "code", "output"), [(7, 0, "saved\n"), (6, 1, f"{stopping.UPDATE}\n")])
def test_a_main_thread_that_hangs_is_ended(tmp_path, number, saved_updates, code, output):
    process = start(tmp_path, "time.sleep(1000)", saved_updates=saved_updates)
    process.send_signal(number)
    stdout, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, stdout) == (code, output)


def test_a_second_signal_while_python_ends_changes_nothing(tmp_path):
    main = (
        "import os\nclass Slow:\n    def __del__(self, write=os.write, sleep=time.sleep):\n"
        "        write(1, b'late\\n')\n        sleep(2)\n"
    )
    main += "sys.slow = Slow()\nprint('set', flush=True)\ntrainer.interrupted.wait()\nsys.exit(5)"
    process = start(tmp_path, main)
    assert process.stdout.readline() == "set\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "late\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 5


def test_a_process_that_ends_by_itself_is_not_ended(tmp_path):
    main = "trainer.interrupted.wait()\nassert stop.is_set()\nprint('goodbye')\nsys.exit(5)"
    process = start(tmp_path, main, stop_seconds=1000)
    process.send_signal(signal.SIGTERM)
    stdout, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, stdout) == (5, "goodbye\n")


def test_a_checkpoint_that_is_being_written_is_finished_whatever_signals_follow(tmp_path):
    process = start(tmp_path, SAVE + "time.sleep(1000)")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
        time.sleep(0.3)
    assert process.wait(SECONDS) == 0
    assert (tmp_path / "written").exists()


def test_a_checkpoint_that_hangs_is_not_waited_for_for_ever(tmp_path):
    """As on a disk on a network that is gone."""
    process = start(tmp_path, SAVE.replace("2.0", "1000"), saved_updates=6, save_seconds=1.0)
    process.send_signal(signal.SIGTERM)
    stdout, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, stdout) == (1, f"{stopping.CHECKPOINT}\n")
    assert not (tmp_path / "written").exists()


def test_last_words_that_hang_are_not_waited_for(tmp_path):
    """As in a log on the same disk."""
    attach = "stop.attach(trainer, lambda unended: time.sleep(1000))"
    process = start(tmp_path, "time.sleep(1000)", saved_updates=6, attach=attach)
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 1


def test_a_signal_before_there_is_a_trainer_is_told_to_it(tmp_path):
    main = "while not stop.is_set():\n    time.sleep(0.01)\n" + ATTACH + "\ntrainer.interrupted.wait()\nsys.exit(5)"
    process = start(tmp_path, main, attach="", stop_seconds=1000)
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 5


def test_a_signal_of_the_environments_own_ends_nothing(tmp_path):
    main = "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)\nprint('set', flush=True)\n"
    process = start(tmp_path, main + "time.sleep(3)\nassert not stop.is_set()\nsys.exit(5)")
    assert process.stdout.readline() == "set\n"
    process.send_signal(signal.SIGUSR1)
    assert process.wait(SECONDS) == 5


def test_without_a_trainer_nothing_is_lost(tmp_path):
    process = start(tmp_path, "time.sleep(1000)", attach="")
    process.send_signal(signal.SIGTERM)
    stdout, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, stdout) == (0, "unbuilt\n")


def test_the_first_signal_alone_is_answered_at_once(tmp_path):
    process = start(tmp_path, "time.sleep(1000)", stop_seconds=3.0, stderr=subprocess.PIPE)
    for number in (signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
    began = time.monotonic()
    assert process.stderr.readline() == "heard\n"
    assert process.poll() is None
    assert process.communicate(timeout=SECONDS)[1] == ""
    assert time.monotonic() - began > 2.0


def test_a_terminal_that_is_gone_keeps_no_process_alive(tmp_path):
    process = start(tmp_path, "time.sleep(1000)", stderr=subprocess.PIPE)
    process.stderr.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0
