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
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read by the processes at their start: matrices are small
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(len(cores), context, os.sched_setaffinity, (0, cores))
    try:
        # Ctrl-C reaches all processes of a terminal and is the parent's to handle: workers inherit that it is blocked.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        futures = [pool.submit(function, *piece) for piece in pieces]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for done, _ in enumerate(concurrent.futures.as_completed(futures), 1):
            advance(done, len(pieces))
        return [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)
