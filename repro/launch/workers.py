"""Trains the pieces of a population in parallel, in separate processes of this machine."""

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
"""File in a member's folder with the output of its processes."""
ROUNDS_PER_PROCESS = 10
"""Number of comparisons after which processes are replaced, because TensorFlow keeps the graphs it built."""


class WorkerPool:
    """Processes that train one piece after the other; a context manager that ends them.

    They save and end when `stop` is called and when this process is killed.

    Args:
        processes: number of processes.
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
        """Trains pieces; see `pieces.TrainPieces`.

        Raises:
            PopulationError: a process was killed, or a member cannot continue.
            ValueError: a field of the configuration has an impossible value.
            Stopped: `stop` was called, and the members are saved.
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
                "A member's process was killed, perhaps because memory ran out: continue with fewer --jobs."
            ) from None
        except Exception:
            self.stop()  # the other members save and end now, as after a signal
            raise

    def stop(self) -> None:
        """Asks training members to save and end, and starts no others; may be called from a signal handler."""
        if not self._stopping:  # setting an event while it is being set would deadlock
            self._stopping = True
            self._stop.set()


class _Process:
    """State of one of the processes.

    Attributes:
        stop: event that the parent process sets to stop the training.
        orphaned: whether the parent was killed or SIGTERM was received; not an event, which could deadlock if a second
            signal arrives while it is set.
        trains: whether the process is training and has something to save.
    """

    stop: Event
    orphaned = False
    trains = False


def _begin(stop: Event) -> None:
    """Initializes a process: it ignores Ctrl-C, which its parent handles for all, and saves and ends at SIGTERM."""
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
    """Calls `train_piece`, with output to a file in the member's folder.

    Raises:
        PopulationError: the member cannot continue.
        ValueError: a field of the configuration has an impossible value.
    """
    if _Process.stop.is_set():
        return None
    from repro.environments.batched import one_line  # only these processes load TensorFlow
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
    except Exception as error:  # an error of an actor, an environment, the disk or TensorFlow
        traceback.print_exc()
        raise PopulationError(
            f"Member {piece.member} failed with {type(error).__name__}: {one_line(error)}; see {piece.folder / LOG}."
        ) from None
    finally:
        _Process.trains = False
        if _Process.orphaned:
            os._exit(0)
