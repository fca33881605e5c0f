"""Run whose processes are all forks of one that has loaded TensorFlow, which saves each of them some seconds."""

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
    """Run as by `repro.train`, where a process that starts again is another fork.

    Its processes skip the shutdown of Python, such as waiting for threads. Tests of a process that hangs there use a
    `CommandedRun`.
    """

    def _open(self, command: Sequence[str]) -> Started:
        return Started(_run_forks, command[3:], self.stderr, self._environment)


class Started:
    """Fork with the methods of `subprocess.Popen` that tests use.

    Args:
        function: function that is called in the fork.
        arguments: its arguments.
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
    """Gives this process the flags, the file for its output and the environment variables of a command."""
    with stderr.open("w") as file:
        os.dup2(file.fileno(), 2)
    replace_environment(environment)
    sys.argv = ["repro.train", *arguments]


def _run_forks(arguments: Sequence[str], stderr: Path, environment: Mapping[str, str]) -> None:
    become(arguments, stderr, environment)
    train_as_forks(ForkedLauncher, _train)


def _train() -> None:
    from repro import train  # not before the forks, whose modules define flags with the same names

    cli.run(train.main)
