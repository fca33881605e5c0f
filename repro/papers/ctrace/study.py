"""What a study gives back, and how its pieces are shared out over the cores."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from repro.papers.ctrace import figures

Advance = Callable[[int, int], None]
"""Called with the pieces done and all pieces; it may raise to stop the study."""


class Answer(NamedTuple):
    """The numbers that answer one statement of the paper.

    Attributes:
        unit: of the values.
        values: one for each MDP or repetition.
        protocol: how a value came about, in words.
        series: the numbers of the figure, `{"columns": [..], "rows": [[..], ..]}`, or None.
    """

    unit: str
    values: np.ndarray
    protocol: str
    series: dict[str, Any] | None = None


class Study(NamedTuple):
    """What a study found: answers by name, environment steps simulated, the figure."""

    answers: dict[str, Answer]
    steps: int
    figure: Figure

    def save_figure(self, folder: Path) -> None:
        """Writes `figure.png` and `figure.svg`."""
        figures.save(self.figure, folder)


def map_pieces(
    function: Callable[..., Any], pieces: Sequence[tuple], cores: Sequence[int], advance: Advance
) -> list[Any]:
    """`[function(*piece) for piece in pieces]`, in a process of its own for each core.

    Args:
        function: importable by its name.
        pieces: arguments of each call; they hold their own seeds, so that the number of cores changes nothing.
        cores: numbers of the processor cores to use.
        advance: called after each piece.
    """
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(len(cores), context, _start_worker, (cores,))
    try:
        futures = [pool.submit(function, *piece) for piece in pieces]
        for done, _ in enumerate(concurrent.futures.as_completed(futures), 1):
            advance(done, len(pieces))
        return [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker(cores: Sequence[int]) -> None:
    """Pins the process; Ctrl-C is the parent's to handle, which reaches all processes of a terminal."""
    os.sched_setaffinity(0, cores)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
