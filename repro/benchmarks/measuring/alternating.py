"""Two programs in turn, one stopped while the other runs, so that a machine whose speed changes is the same for both.

Each program counts its work on its screen. What it says while it runs is read, and its turns are the time that counts:
a machine that is slow for a minute is slow for both.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import psutil
import scipy

COUNT = r"([\d.,]+[kMG]?)/[\d.,]+[kMG]? (?:frames|steps|updates)"
"""Finds the count in this suite's own progress lines."""
SIZES = {"k": 1e3, "M": 1e6, "G": 1e9}
READ_BYTES = 1 << 16
KEPT_CHARACTERS = 4096
"""Last part of a program's output, in which the newest count is looked for."""
COLUMNS = 200
"""Width of the terminal that a program writes on."""
CONFIDENCE = 0.95
POLL_SECONDS = 0.1
SETTLING_SECONDS = 0.05
"""Without output, after which a program that was stopped has none left."""


class ProgramError(RuntimeError):
    """A program ended, or counts nothing."""


class Turn(NamedTuple):
    """One turn of one program.

    seconds: for which it ran. counted: all that it had counted at the end.
    """

    seconds: float
    counted: float


class Program:
    """A program that counts on its screen, stopped except where it has its turn.

    Args:
        command: for the shell.
        count: regular expression whose first group is the count: digits with a decimal point, commas between
            thousands, or a last letter k, M or G.
        size: work of one count, as 0.25 steps of a frame.
    """

    def __init__(self, command: str, count: str = COUNT, size: float = 1.0) -> None:
        self.command = command
        self._size = size
        self._pattern = re.compile(count)
        self._text = ""
        self._count: float | None = None
        self._ended = False
        self._screen, terminal = pty.openpty()
        environment = os.environ | {"COLUMNS": str(COLUMNS), "TERM": "xterm"}
        self._process = subprocess.Popen(
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            env=environment,
            start_new_session=True,
        )
        os.close(terminal)

    @property
    def count(self) -> float | None:
        """The work that it has counted; None before its first count."""
        return self._count

    def warm_up(self, seconds: float, limit: float) -> None:
        """Lets it run until it counts, and so many seconds more; then stops it.

        Raises:
            ProgramError: it ended, or has not counted after `limit` seconds.
        """
        self.resume()
        deadline = time.monotonic() + limit
        while self._count is None:
            self._run(POLL_SECONDS)
            if time.monotonic() > deadline:
                raise ProgramError(
                    f"no count for {limit:g} seconds from the program: {self.command}{self._last_words()}"
                )
        self._run(seconds)
        self.stop()

    def take_turn(self, seconds: float) -> Turn:
        """Lets it run for a while.

        Raises:
            ProgramError: it ended.
        """
        start = time.monotonic()
        self.resume()
        self._run(seconds)
        self.stop()
        assert self._count is not None, "it has counted while it warmed up"
        return Turn(time.monotonic() - start, self._count)

    def resume(self) -> None:
        """Lets it and all that it has started go on."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Stops it and all that it has started, and reads what it has written by then."""
        before: set[int] = set()
        while (now := self._signal(signal.SIGSTOP)) != before:  # what it started meanwhile is stopped as well
            before = now
        while self._read(SETTLING_SECONDS):
            pass

    def end(self) -> None:
        """Kills it and all that it has started; a second call does nothing."""
        if self._ended:
            return
        self._ended = True
        self.stop()  # so that nothing is started meanwhile
        self._signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._screen)

    def _run(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._read(min(left, POLL_SECONDS))
            if (code := self._process.poll()) is None:
                continue
            while self._read(SETTLING_SECONDS):
                pass
            raise ProgramError(f"a program ended with code {code}: {self.command}{self._last_words()}")

    def _last_words(self) -> str:
        lines = [line.strip() for line in re.split(r"[\r\n]+", self._text) if line.strip()]
        return f" ({lines[-1]})" if lines else ""

    def _signal(self, number: signal.Signals) -> set[int]:
        """Sends a signal to the program and its descendants; returns their numbers."""
        try:
            root = psutil.Process(self._process.pid)
            processes = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return set()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        return {process.pid for process in processes}

    def _read(self, seconds: float) -> bool:
        """Waits for something that it writes, and reads it; returns whether there was anything."""
        ready, _, _ = select.select([self._screen], [], [], seconds)
        try:
            data = os.read(self._screen, READ_BYTES) if ready else b""
        except OSError:  # EIO: nobody is left who could write
            data = b""
        self._text = (self._text + data.decode(errors="replace"))[-KEPT_CHARACTERS:]
        for found in self._pattern.finditer(self._text):
            if found.end() < len(self._text):  # or more digits may follow
                self._count = parse_count(found[1]) * self._size
        return bool(data)


def parse_count(text: str) -> float:
    """Returns the number that a count says, such as `12,800`, `3.2` or `1.25M`."""
    digits = text.rstrip("".join(SIZES))
    return float(digits.replace(",", "")) * SIZES.get(text[len(digits) :], 1.0)


def alternate(
    programs: Sequence[Program], seconds: float, rounds: int, on_round: Callable[[int], None] = lambda _: None
) -> list[list[Turn]]:
    """Gives each program its turns, in their order and then in the reverse order, so that a drift weighs on all alike.

    Args:
        programs: stopped, and warm.
        seconds: of a turn.
        rounds: two turns each.
        on_round: called with the number of rounds so far.

    Returns:
        of each program, the turn before the first one, with no seconds, and its turns.

    Raises:
        ProgramError: one ended.
    """
    turns: list[list[Turn]] = [[Turn(0.0, program.count or 0.0)] for program in programs]
    for i in range(rounds):
        order = list(range(len(programs)))
        for j in order + order[::-1]:
            turns[j].append(programs[j].take_turn(seconds))
        on_round(i + 1)
    return turns


def compare(first: Sequence[Turn], second: Sequence[Turn]) -> dict[str, Any]:
    """Returns rates of both programs, and the ratio of the first to the second with its interval.

    The interval is a bootstrap of the rounds, in which both had as much of the machine.

    Args:
        first, second: turns as `alternate` returns them.

    Raises:
        ProgramError: the second program has counted nothing in its turns.
    """
    work = np.array([_of_rounds(turns) for turns in (first, second)])  # [program, round, (count, seconds)]
    if not work[1, :, 0].any():
        raise ProgramError("the second program counted nothing in its turns; choose longer turns")

    def ratio(rounds: np.ndarray) -> float:
        (count, time_), (other_count, other_time) = work[:, rounds].sum(axis=1)
        return float((count / time_) / (other_count / other_time)) if other_count else float("inf")

    every = np.arange(work.shape[1])
    result: dict[str, Any] = {
        "rates": (work[:, :, 0].sum(axis=1) / work[:, :, 1].sum(axis=1)).tolist(),
        "ratio": ratio(every),
        "rounds": len(every),
    }
    if len(every) > 1:
        found = scipy.stats.bootstrap(
            (every,), ratio, vectorized=False, confidence_level=CONFIDENCE, method="percentile", rng=0
        )
        result["interval"] = [float(bound) for bound in found.confidence_interval]
    return result


def _of_rounds(turns: Sequence[Turn]) -> np.ndarray:
    """Work and seconds of the two turns of each round, [rounds, 2]."""
    counted = np.diff([turn.counted for turn in turns])
    return np.stack([counted, [turn.seconds for turn in turns[1:]]], axis=1).reshape(-1, 2, 2).sum(axis=1)
