"""Modules that run as forks of one process that has loaded TensorFlow, which saves each of them some seconds."""

from __future__ import annotations

import ctypes
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from repro.acting import actor_processes
from repro.acting.actor_processes import LocalLauncher
from repro.papers.ctrace import experiment as ctrace_experiment
from repro.processes import end_with_parent
from repro.training import unroll_experiment
from tests.support.network import enter

AGAIN = 75
"""Exit code of a first fork that replaces itself by the same command."""
LONGEST_REQUEST = 2**17


class ForkedProcess:
    """Module in a fork, with the methods of `LocalProcess`.

    Args:
        replies: stream with the id of the process, and then its exit code.
        log: file of its output.
    """

    may_wait = False

    def __init__(self, replies: io.TextIOBase, log: Path) -> None:
        self._replies, self._log = replies, log
        self._pid = int(replies.readline())

    def wait(self) -> str:
        with self._replies:
            return f"it ended with code {self._replies.readline().strip()}; see {self._log}"

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)


class Forks:
    """Server of forks of this process. Each fork may ask for further ones, which outlive it."""

    def __init__(self) -> None:
        self._requests, self._asking = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._children: dict[int, tuple[int, int]] = {}  # pidfd to process id and descriptor for replies

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        log: Path,
        variables: Mapping[str, str] | None = None,
        namespace: str | None = None,
    ) -> ForkedProcess:
        """Asks for a fork that runs a module; called in any of the forks.

        Args:
            module: module with an `if __name__ == "__main__"`.
            arguments: its flags.
            log: file that its output is appended to.
            variables: environment variables in addition to those of the caller.
            namespace: network namespace; None for that of the process that is forked.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        request = [module, list(arguments), {**os.environ, **(variables or {})}, namespace]
        reading, writing = os.pipe()
        with log.open("a") as output:
            socket.send_fds(self._asking, [json.dumps(request).encode()], [output.fileno(), writing])
        os.close(writing)
        return ForkedProcess(os.fdopen(reading), log)

    def run(self, first: Callable[[], None]) -> int:
        """Forks a process, and further ones that it asks for, until it ends; returns its exit code.

        Signals to end this process are passed on to it, and it does not outlive this process.
        """
        code = AGAIN
        while code == AGAIN:
            pid = _fork(lambda: (end_with_parent(signal.SIGKILL), first()))
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda number, _, pid=pid: os.kill(pid, number))
            code = self._serve_until_end(pid)
        return code

    def _serve_until_end(self, first: int) -> int:
        first_end = os.pidfd_open(first)
        while True:
            ready = select.select([self._requests, first_end, *self._children], [], [])[0]
            for end in set(ready) & set(self._children):
                pid, replies = self._children.pop(end)
                with suppress(BrokenPipeError):  # no process waits for the reply
                    os.write(replies, f"{_exit_code(pid)}\n".encode())
                os.close(end)
                os.close(replies)
            if first_end in ready:
                os.close(first_end)
                return _exit_code(first)
            if self._requests in ready:
                self._fork_as_asked()

    def _fork_as_asked(self) -> None:
        asked, (output, replies), _, _ = socket.recv_fds(self._requests, LONGEST_REQUEST, 2)
        module, arguments, environment, namespace = json.loads(asked)

        def run() -> None:
            os.setsid()
            os.dup2(output, 1)
            os.dup2(output, 2)
            for file in (output, replies, *self._children, *(replies for _, replies in self._children.values())):
                os.close(file)
            if namespace is not None:
                enter(namespace)
            replace_environment(environment)
            sys.argv = [module, *arguments]
            _rename([sys.executable, "-m", *sys.argv])
            runpy.run_module(module, run_name="__main__", alter_sys=True)

        pid = _fork(run)
        os.write(replies, f"{pid}\n".encode())
        os.close(output)
        self._children[os.pidfd_open(pid)] = pid, replies


FORKS = Forks()
OWN_VARIABLE = "REPRO_TESTS_NAMESPACE"
"""Variable with the network namespace of a fork, if it is not that of the process that is forked."""


class ForkedLauncher(LocalLauncher):
    """Starts `repro.actor` and `repro.learner` as forks, beside the process that starts them."""

    def _start(self, module, flags, log, variables=None):
        return self._fork(module, flags, log, variables, os.environ.get(OWN_VARIABLE))

    def _fork(
        self,
        module: str,
        flags: Mapping[str, Any],
        log: str,
        variables: Mapping[str, str] | None,
        namespace: str | None,
    ) -> ForkedProcess:
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        own = {OWN_VARIABLE: namespace} if namespace else {}
        return FORKS.start(module, arguments, self._logs / log, (variables or {}) | own, namespace)


def train_as_forks(launcher: type[LocalLauncher], train: Callable[[], None]) -> None:
    """Trains in a fork of this process, and exits with its code when it ends.

    Args:
        launcher: launcher of the run.
        train: function of the run, which may replace its process by another one with the same command.
    """
    actor_processes.LocalLauncher = ForkedLauncher  # the launcher of further learners
    unroll_experiment.LocalLauncher = ctrace_experiment.LocalLauncher = launcher

    def first() -> None:
        os.execv = lambda *_: os._exit(AGAIN)
        train()

    sys.exit(FORKS.run(first))


def _fork(run: Callable[[], object]) -> int:
    """Runs a function in a fork, which ends after it, and returns the id of the process."""
    if pid := os.fork():
        return pid
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    code = 1
    try:
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def replace_environment(environment: Mapping[str, str]) -> None:
    """Replaces the environment variables of this process."""
    os.environ.clear()
    os.environ.update(environment)


def _rename(command: Sequence[str]) -> None:
    """Makes the system show another command for this process, which may not be longer than its own."""
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    title = "\0".join(command).encode()
    assert len(title) < end - start, title
    ctypes.memmove(start, title.ljust(end - start, b"\0"), end - start)


def _exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
