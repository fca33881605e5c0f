"""Trains the pieces of a population side by side, in processes of their own."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.synchronize import Event

from repro.launch.lineage import PopulationError
from repro.launch.member import Piece, PieceResult, train_piece
from repro.launch.recorded_job import Stopped

LOG = "log.txt"
"""In a member's folder: what its processes print."""
PR_SET_PDEATHSIG = 1
"""Option of Linux's prctl: the signal that a process gets when the thread that began it ends."""


class WorkerPool:
    """Processes of which each trains one piece after the other, new ones for each round of pieces.

    They save and end when asked, and when this process is killed.

    Args:
        processes: side by side.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._context = multiprocessing.get_context("spawn")
        self._stop = self._context.Event()

    def __call__(self, pieces: Sequence[Piece]) -> Iterator[tuple[int, PieceResult]]:
        """See `population.TrainPieces`.

        Raises:
            PopulationError: a process was killed.
            Stopped: by `stop`.
        """
        processes = min(self._processes, len(pieces))
        with futures.ProcessPoolExecutor(processes, self._context, _begin_process, (self._stop,)) as executor:
            waiting = {executor.submit(_train, piece): piece.member for piece in pieces}
            try:
                for future in futures.as_completed(waiting):
                    if (result := future.result()) is None:
                        raise Stopped
                    yield waiting[future], result
            except BrokenProcessPool:
                raise PopulationError(
                    "A member's process was killed, perhaps for want of memory: go on with fewer --jobs."
                ) from None
            finally:
                executor.shutdown(wait=False, cancel_futures=True)

    def stop(self) -> None:
        """Lets members that train save and end, and no other begin; also from a signal's handler."""
        self._stop.set()


class _Process:
    """What one of the processes knows.

    Attributes:
        stop: set by the process that began it.
        orphaned: set when that was killed.
        trains: whether there is something to save.
    """

    stop: Event
    orphaned = threading.Event()
    trains = False


def _begin_process(stop: Event) -> None:
    """Ctrl-C, which reaches all processes of a terminal, is left to the one that began this; SIGTERM saves and ends."""
    _Process.stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _on_end)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _on_end(*_: object) -> None:
    if not _Process.trains:
        os._exit(0)
    _Process.orphaned.set()


def _train(piece: Piece) -> PieceResult | None:
    """`train_piece`, whose output goes to the member's folder."""
    if _Process.stop.is_set():
        return None
    piece.folder.mkdir(parents=True, exist_ok=True)
    with (piece.folder / LOG).open("a") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())
    _Process.trains = True
    try:
        return train_piece(
            piece,
            lambda: _Process.stop.is_set() or _Process.orphaned.is_set(),
            lambda line: print(line, file=sys.stderr),
        )
    finally:
        _Process.trains = False
        if _Process.orphaned.is_set():
            os._exit(0)
