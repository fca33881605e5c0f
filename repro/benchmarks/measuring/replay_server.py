"""Replay on Reverb in a separate process, for benchmarks."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from tf_agents.trajectories import Trajectory

from repro.replay.sequence_writer import SequenceSettings
from repro.replay.sequences import SequenceReplay

_spawning = multiprocessing.get_context("spawn")


@contextlib.contextmanager
def serving(spec: Trajectory, settings: SequenceSettings, working: Path) -> Iterator[tuple[str, int]]:
    """Runs a `SequenceReplay` in another process; yields the address of its server and the id of the process.

    Raises:
        RuntimeError: the process ended before its server had started; its traceback is in the output.
    """
    here, there = _spawning.Pipe()
    process = _spawning.Process(target=_serve, args=(spec, settings, working, there), daemon=True)
    process.start()
    there.close()  # otherwise the end of the process would not end the wait
    try:
        try:
            address = here.recv()
        except EOFError:
            process.join()
            raise RuntimeError(f"The replay's process ended with code {process.exitcode}.") from None
        assert process.pid is not None, "it was started"
        yield address, process.pid
    finally:
        process.kill()
        process.join()


def _serve(spec: Trajectory, settings: SequenceSettings, working: Path, parent: Connection) -> None:
    """Serves the replay until this process is killed or its parent ends."""
    replay = SequenceReplay(spec, settings, working)
    replay.start()
    parent.send(replay.address)
    with contextlib.suppress(EOFError):
        parent.recv()
