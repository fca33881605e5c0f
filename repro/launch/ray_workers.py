"""Trains the pieces of a population on a Ray cluster; requires the extra `[cluster]`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from repro import cli
from repro.launch import ray_cluster
from repro.launch.lineage import PopulationError
from repro.launch.pieces import Piece, PieceResult
from repro.launch.recorded_job import Stopped

STOP = "stop"
"""File in a population's folder that tells its members to save and end."""
BEGUN = "begun"
"""Folder in a population's folder with a file for each member that has a machine."""
POLL_SECONDS = 1.0
"""Seconds between two checks of the members."""


class Worker:
    """A process of the cluster that trains one piece."""

    def train(self, piece: Piece, stop: Path, begun: Path) -> PieceResult | None:
        """Calls `train_piece`; creates the file `begun` before, so that the process is not killed while it saves."""
        cli.quiet()
        begun.touch()
        if stop.exists():
            return None
        from repro.launch.member import train_piece  # only these processes load TensorFlow

        return train_piece(piece, stop.exists, lambda line: print(line, file=sys.stderr))


class RayPool:
    """Trains each piece in a process of a Ray cluster; a context manager that disconnects from the cluster.

    The machines share the population's folder under the same path, and have this suite installed.

    Args:
        address: address of the cluster, see `ray_cluster.join`; `local` starts one on this machine.
        path: absolute path of the population's folder.
        cores: number of cores of a piece.

    Raises:
        PopulationError: Ray is not installed, there is no cluster at the address, or no machine has enough cores.
    """

    def __init__(self, address: str, path: Path, cores: int) -> None:
        try:
            ray = self._ray = ray_cluster.join(address)
        except ray_cluster.ClusterError as error:
            raise PopulationError(str(error)) from None
        largest = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
        if largest < cores:
            ray.shutdown()
            raise PopulationError(
                f"a member needs {cores} cores, but no machine of the Ray cluster at {address} has more than "
                f"{largest:.0f}: raise --jobs, which divides the cores of this machine among members."
            )
        self._stop, self._begun = path / STOP, path / BEGUN
        self._worker = ray.remote(num_cpus=cores, **ray_cluster.OWN_PROCESS)(Worker)

    def __enter__(self) -> RayPool:
        self._stop.unlink(missing_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()
        self._stop.unlink(missing_ok=True)
        shutil.rmtree(self._begun, ignore_errors=True)

    def __call__(self, pieces: Sequence[Piece]) -> Iterator[tuple[int, PieceResult]]:
        """Trains pieces; see `pieces.TrainPieces`.

        Raises:
            PopulationError: a piece failed, or its machine is gone.
            Stopped: `stop` was called, and the members are saved.
        """
        shutil.rmtree(self._begun, ignore_errors=True)  # files of the previous pieces
        self._begun.mkdir()
        begun = {piece.member: self._begun / str(piece.member) for piece in pieces}
        workers = {piece.member: self._worker.remote() for piece in pieces}
        running = {
            workers[piece.member].train.remote(piece, self._stop, begun[piece.member]): piece.member for piece in pieces
        }
        stopped = False
        while running:
            ended, _ = self._ray.wait(list(running), timeout=POLL_SECONDS)
            for task in ended:
                member = running.pop(task)
                try:
                    result = self._ray.get(task)
                except self._ray.exceptions.RayError as error:
                    reason = ray_cluster.reason_of(error).rstrip(".")
                    raise PopulationError(f"member {member} failed: {reason}.") from error
                self._ray.kill(workers[member])  # else it would keep its cores
                if result is None:
                    stopped = True
                else:
                    yield member, result
            if self._stop.exists():
                for task in [task for task, member in running.items() if not begun[member].exists()]:
                    self._ray.kill(workers[running.pop(task)])  # it still waits for cores, or has not started to train
                    stopped = True
        if stopped:
            raise Stopped

    def stop(self) -> None:
        """Asks training members to save and end, and starts no others; may be called from a signal handler."""
        self._stop.touch()
