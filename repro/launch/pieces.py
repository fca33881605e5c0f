"""What the members of a population train between two comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Piece(NamedTuple):
    """What a member is to train, between two comparisons.

    member: its number.
    number: of the piece, from 0.
    folder: of its run.
    config: resolved, with its hyper-parameters of this piece.
    seed: of its run.
    start: updates that it had made at the comparison before; 0 at first.
    end: frames at the comparison to come, or steps where its budget is in steps.
    parent: checkpoint whose weights it adopts at `start`; None where it keeps its own.
    collects_from_none: whether the returns before `start` do not count in its fitness.
    threads: of TensorFlow where the configuration leaves them open; 0: as many as there are cores.
    """

    member: int
    number: int
    folder: Path
    config: dict[str, Any]
    seed: int
    start: int
    end: int
    parent: Path | None
    collects_from_none: bool
    threads: int = 0


class PieceResult(NamedTuple):
    """How a piece ended.

    updates: that the member has made.
    episodes: whose returns it has collected.
    mean_returns: of these, of each task that is learned; empty until each has one.
    diverged: whether its loss was not finite, so that it goes on only with the weights of another.
    """

    updates: int
    episodes: int
    mean_returns: list[float]
    diverged: bool


TrainPieces = Callable[[Sequence[Piece]], Iterator[tuple[int, PieceResult]]]
"""Trains pieces, side by side or in turn, and yields each member's number and result as they end.
Raises `recorded_job.Stopped` where it was interrupted and the members are saved."""
