"""Commands in processes forked from one that has loaded TensorFlow, which saves each of them some seconds."""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from repro import cli
from repro.training import stopping

cli.load_tensorflow()
for name in ("repro.training.unroll_experiment", "repro.report.page", "scipy.stats"):
    importlib.import_module(name)

FORKING = multiprocessing.get_context("forkserver")
"""Context whose server forks the processes."""
FORKING.set_forkserver_preload([__name__, "tests.support.preloaded"])  # no command, since their flags share names
SECONDS = 600.0
"""Longest time of a command."""
HOURS = (5.0, -7.0, 11.0, 0.0)
"""Errors of the machine's clock in hours, from call to call."""


def run_train(arguments: Sequence[str], stderr: Path, environment: Mapping[str, str], jumping_clock: bool) -> None:
    """Does the same as `python -m repro.train`, except that it is never ended by force 25 seconds after a signal.

    Args:
        arguments: flags.
        stderr: file for the output of the run.
        environment: environment variables of this run; those of the process that it is forked from are the first run's.
        jumping_clock: whether `time.time` jumps back and forth by hours.
    """
    from repro import train  # not in the tests' process, where other commands may define the same flags

    file = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 2)
    stopping.STOP_SECONDS = 1e6
    os.environ.update(environment)
    sys.argv = ["repro.train", *arguments]
    if jumping_clock:
        wrong, right = itertools.cycle(HOURS), time.time
        time.time = lambda: right() + 3600.0 * next(wrong)
    cli.run(train.main)


def run_command(
    folder: Path, command: str, *arguments: str, cwd: Path = Path.cwd()
) -> subprocess.CompletedProcess[str]:
    """Does the same as `subprocess.run` of `python -m <command>`, with 200 columns; the output is in `folder`."""
    return _fork(folder, cwd, _run_module, command, arguments)


def run_program(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Does the same as `run_command`, with `python -c <program>`."""
    return _fork(folder, Path.cwd(), _run_program, program, arguments)


class ForkedCall:
    """Call of a function in a fork, with the methods of `LocalProcess`.

    Args:
        function: function that is called in the fork.
        arguments: its arguments.
        log: file that its output is appended to.
    """

    may_wait = False

    def __init__(self, function: Callable[..., object], arguments: Sequence[object], log: Path) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self._process = FORKING.Process(target=_call, args=(function, arguments, log), daemon=True)
        self._process.start()
        self.kill, self.terminate = self._process.kill, self._process.terminate

    def wait(self) -> str:
        self._process.join()
        return f"it ended with code {self._process.exitcode}; see {self._log}"


def _call(function: Callable[..., object], arguments: Sequence[object], log: Path) -> None:
    with log.open("a") as output:
        for number in (1, 2):
            os.dup2(output.fileno(), number)
    function(*arguments)


def _fork(
    folder: Path, cwd: Path, run: Callable[[str], None], what: str, arguments: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    process = FORKING.Process(target=_run, args=(folder, cwd, run, what, arguments))
    process.start()
    process.join(SECONDS)
    if process.exitcode is None:  # otherwise the tests would wait for it at their end
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired([what, *arguments], SECONDS)
    printed = [(folder / name).read_text() for name in ("stdout.txt", "stderr.txt")]
    return subprocess.CompletedProcess([what, *arguments], process.exitcode, *printed)


def _run(folder: Path, cwd: Path, run: Callable[[str], None], what: str, arguments: Sequence[str]) -> None:
    for number, name in ((1, "stdout.txt"), (2, "stderr.txt")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(cwd)
    os.environ["COLUMNS"] = "200"
    sys.argv = [what, *arguments]
    run(what)


def _run_module(name: str) -> None:
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_program(program: str) -> None:
    sys.argv[0] = "-c"
    exec(program, {"__name__": "__main__"})
