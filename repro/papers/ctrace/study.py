"""What a study gives back, and how its pieces are shared out over the cores."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

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


def map_pieces(function: Callable[..., Any], pieces: Sequence[tuple], workers: int, advance: Advance) -> list[Any]:
    """`[function(*piece) for piece in pieces]`, in processes of their own when there are several workers.

    Args:
        function: importable by its name.
        pieces: arguments of each call; they hold their own seeds, so that workers change nothing.
        workers: 1 or more.
        advance: called after each piece.
    """
    if workers == 1:
        results = []
        for piece in pieces:
            results.append(function(*piece))
            advance(len(results), len(pieces))
        return results
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, context, _leave_interrupts_to_the_parent) as pool:
        try:
            futures = [pool.submit(function, *piece) for piece in pieces]
            for done, _ in enumerate(concurrent.futures.as_completed(futures), 1):
                advance(done, len(pieces))
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
