"""Pieces of training of a population's members, from one comparison to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Piece(NamedTuple):
    """The training of a member between two comparisons.

    Attributes:
        member: index of the member.
        number: index of the piece, from 0.
        folder: folder of the member's run.
        config: resolved configuration with the member's hyper-parameters for this piece.
        seed: seed of the member's run.
        start: number of updates that the member had made at the previous comparison; 0 for the first piece.
        end: number of frames at the next comparison, or of steps if the budget is in steps.
        parent: checkpoint whose weights the member adopts at `start`; None if it keeps its own weights.
        collects_from_none: whether to discard the returns collected before `start`, so that they do not count towards
            the member's fitness.
        threads: number of TensorFlow's threads if the configuration does not set it; 0 for one per core.
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
    """Result of a piece.

    Attributes:
        updates: number of updates that the member has made.
        episodes: number of episodes whose returns the member has collected.
        mean_returns: mean of these returns for each task that is learned; empty until each task has a return.
        diverged: whether the loss was not finite, so that the member can continue only with another member's weights.
    """

    updates: int
    episodes: int
    mean_returns: list[float]
    diverged: bool


TrainPieces = Callable[[Sequence[Piece]], Iterator[tuple[int, PieceResult]]]
"""Trains pieces in parallel or one after the other, and yields each member's index and result when its piece ends.
Raises `recorded_job.Stopped` if it was interrupted and the members are saved."""
