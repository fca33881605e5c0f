"""Runs programs in turns, one while the others are stopped, so that changes of the machine's speed affect all alike.

Each program prints a count of its work on a terminal, from which the count is read. Only the time of its turns counts.
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
"""Regular expression of the count in this suite's progress lines."""
SIZES = {"k": 1e3, "M": 1e6, "G": 1e9}
READ_BYTES = 1 << 16
KEPT_CHARACTERS = 4096
"""Length of the last part of a program's output, in which the newest count is searched."""
COLUMNS = 200
"""Width of a program's terminal."""
CONFIDENCE = 0.95
POLL_SECONDS = 0.1
SETTLING_SECONDS = 0.05
"""Seconds without output after which a stopped program has no more output."""


class ProgramError(RuntimeError):
    """A program ended, or counted nothing."""


class Turn(NamedTuple):
    """One turn of one program.

    seconds: length of the turn.
    counted: all work that the program had counted at its end.
    """

    seconds: float
    counted: float


class Program:
    """Program that prints a count of its work, and is stopped except during its turns.

    Args:
        command: shell command.
        count: regular expression whose first group is the count: digits with a decimal point, commas between thousands,
            or a last letter k, M or G.
        size: work per unit of the count, such as 0.25 agent steps per frame.
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
        """Work that the program has counted; None before its first count."""
        return self._count

    def warm_up(self, seconds: float, limit: float) -> None:
        """Lets the program run until its first count and for `seconds` more; then stops it.

        Raises:
            ProgramError: the program ended, or has not counted after `limit` seconds.
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
        """Lets the program run for `seconds` seconds.

        Raises:
            ProgramError: the program ended.
        """
        start = time.monotonic()
        self.resume()
        self._run(seconds)
        self.stop()
        assert self._count is not None, "it has counted while it warmed up"
        return Turn(time.monotonic() - start, self._count)

    def resume(self) -> None:
        """Continues the program and all of its descendants."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Stops the program and all of its descendants, and reads its remaining output."""
        before: set[int] = set()
        while (now := self._signal(signal.SIGSTOP)) != before:  # repeated for processes that were started meanwhile
            before = now
        while self._read(SETTLING_SECONDS):
            pass

    def end(self) -> None:
        """Kills the program and all of its descendants; a second call does nothing."""
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
        """Sends a signal to the program and its descendants, and returns their process ids."""
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
        """Waits for output of the program and reads it; returns whether there was any."""
        ready, _, _ = select.select([self._screen], [], [], seconds)
        try:
            data = os.read(self._screen, READ_BYTES) if ready else b""
        except OSError:  # EIO: no process is left that could write
            data = b""
        self._text = (self._text + data.decode(errors="replace"))[-KEPT_CHARACTERS:]
        for found in self._pattern.finditer(self._text):
            if found.end() < len(self._text):  # or more digits may follow
                self._count = parse_count(found[1]) * self._size
        return bool(data)


def parse_count(text: str) -> float:
    """Returns the number of a count such as `12,800`, `3.2` or `1.25M`."""
    digits = text.rstrip("".join(SIZES))
    return float(digits.replace(",", "")) * SIZES.get(text[len(digits) :], 1.0)


def alternate(
    programs: Sequence[Program], seconds: float, rounds: int, on_round: Callable[[int], None] = lambda _: None
) -> list[list[Turn]]:
    """Gives each program its turns, in order and then in reverse order, so that a drift affects all alike.

    Args:
        programs: programs that are warmed up and stopped.
        seconds: length of a turn.
        rounds: number of rounds; in each round every program has two turns.
        on_round: function that is called with the number of rounds so far.

    Returns:
        For each program its turns, after a first entry of zero seconds with its count before them.

    Raises:
        ProgramError: a program ended.
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

    The interval is a bootstrap of rounds, since both had the same share of the machine in each; it needs two rounds.

    Args:
        first, second: turns of each program, as returned by `alternate`.

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
    """Returns the work and seconds of each round, summed over its two turns, [rounds, 2]."""
    counted = np.diff([turn.counted for turn in turns])
    return np.stack([counted, [turn.seconds for turn in turns[1:]]], axis=1).reshape(-1, 2, 2).sum(axis=1)
