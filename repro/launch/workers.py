"""Trains the pieces of a population side by side, in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.synchronize import Event

from repro import cli
from repro.launch.lineage import PopulationError
from repro.launch.pieces import Piece, PieceResult
from repro.launch.recorded_job import Stopped
from repro.processes import end_with_parent

LOG = "log.txt"
"""In a member's folder: what its processes print."""
ROUNDS_PER_PROCESS = 10
"""After so many comparisons processes are replaced, for what TensorFlow keeps of the graphs that it has built."""


class WorkerPool:
    """Processes of which each trains one piece after the other; a context that ends them.

    They save and end when asked, and when this process is killed.

    Args:
        processes: side by side.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._context = multiprocessing.get_context("spawn")
        self._stop = self._context.Event()
        self._stopping = False
        self._executor: futures.ProcessPoolExecutor | None = None
        self._rounds = 0

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None

    def __call__(self, pieces: Sequence[Piece]) -> Iterator[tuple[int, PieceResult]]:
        """See `pieces.TrainPieces`.

        Raises:
            PopulationError: a process was killed, or a member cannot go on.
            ValueError: a field of the configuration has an impossible value.
            Stopped: by `stop`.
        """
        if self._rounds % ROUNDS_PER_PROCESS == 0:
            self.__exit__()
            self._executor = futures.ProcessPoolExecutor(self._processes, self._context, _begin, (self._stop,))
        assert self._executor is not None, "the first round makes one"
        self._rounds += 1
        waiting = {self._executor.submit(_train, piece): piece.member for piece in pieces}
        try:
            for future in futures.as_completed(waiting):
                if (result := future.result()) is None:
                    raise Stopped
                yield waiting[future], result
        except BrokenProcessPool:
            self.stop()
            raise PopulationError(
                "A member's process was killed, perhaps for want of memory: go on with fewer --jobs."
            ) from None
        except Exception:
            self.stop()  # the others save and end now, as after a signal
            raise

    def stop(self) -> None:
        """Lets members that train save and end, and no other begin; also from a signal's handler."""
        if not self._stopping:  # an event that is set while it is set waits for itself
            self._stopping = True
            self._stop.set()


class _Process:
    """What one of the processes knows.

    Attributes:
        stop: set by the process that began it.
        orphaned: whether that was killed; no event, which a second signal would set while the first sets it.
        trains: whether there is something to save.
    """

    stop: Event
    orphaned = False
    trains = False


def _begin(stop: Event) -> None:
    """Ctrl-C, which reaches all processes of a terminal, is left to the one that began this; SIGTERM saves and ends."""
    cli.quiet()
    _Process.stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _on_end)
    end_with_parent()


def _on_end(*_: object) -> None:
    if not _Process.trains:
        os._exit(0)
    _Process.orphaned = True


def _train(piece: Piece) -> PieceResult | None:
    """`train_piece`, whose output goes to the member's folder.

    Raises:
        PopulationError: the member cannot go on.
        ValueError: a field of the configuration has an impossible value.
    """
    if _Process.stop.is_set():
        return None
    from repro.environments.batched import one_line  # TensorFlow is for these processes alone
    from repro.launch.member import train_piece

    piece.folder.mkdir(parents=True, exist_ok=True)
    with (piece.folder / LOG).open("a") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())
    _Process.trains = True
    try:
        return train_piece(
            piece,
            lambda: _Process.stop.is_set() or _Process.orphaned,
            lambda line: print(line, file=sys.stderr),
        )
    except ValueError:
        raise
    except Exception as error:  # of an actor, an environment, the disk or TensorFlow
        traceback.print_exc()
        raise PopulationError(
            f"Member {piece.member} failed with {type(error).__name__}: {one_line(error)}; see {piece.folder / LOG}."
        ) from None
    finally:
        _Process.trains = False
        if _Process.orphaned:
            os._exit(0)
