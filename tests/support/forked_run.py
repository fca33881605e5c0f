"""A run all of whose processes are forks of one that has loaded TensorFlow, which saves each of them its seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from repro import cli
from tests.support.commanded_run import CommandedRun
from tests.support.forked_train import FORKING
from tests.support.forks import ForkedLauncher, replace_environment, train_as_forks


class ForkedRun(CommandedRun):
    """A run as `repro.train` makes it, where one that starts again is another fork.

    Nothing of Python's own end is in it, as waiting for threads: a test of what hangs there has a `CommandedRun`.
    """

    def _open(self, command: Sequence[str]) -> Started:
        return Started(_run_forks, command[3:], self.stderr, self._environment)


class Started:
    """What is used of `subprocess.Popen`, of a fork.

    Args:
        function: is called there.
        arguments: of it.
    """

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._process = FORKING.Process(target=function, args=arguments)
        self._process.start()
        self.pid = self._process.pid
        self.kill = self._process.kill

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("repro.train", timeout or 0.0)
        return self._process.exitcode


def become(arguments: Sequence[str], stderr: Path, environment: Mapping[str, str]) -> None:
    """Gives this process what a command would have: flags, a file for what it says, and variables."""
    with stderr.open("w") as file:
        os.dup2(file.fileno(), 2)
    replace_environment(environment)
    sys.argv = ["repro.train", *arguments]


def _run_forks(arguments: Sequence[str], stderr: Path, environment: Mapping[str, str]) -> None:
    become(arguments, stderr, environment)
    train_as_forks(ForkedLauncher, _train)


def _train() -> None:
    from repro import train  # not before the forks, whose modules have flags with the same names

    cli.run(train.main)
