"""Reverb replay of sequences of steps, sampled uniformly or by priority, for R2D2 with actors in processes."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import reverb
import tensorflow as tf
from reverb.platform.default.checkpointers import DefaultCheckpointer
from tf_agents.trajectories import Trajectory

from repro.quiet import suppress_stderr
from repro.replay import saved_replay
from repro.replay.frame_stacks import Frames
from repro.replay.saved_replay import Totals, read_totals, write_totals
from repro.replay.sequence_writer import TABLE, Priority, ReverbWriter, SequenceSettings
from repro.replay.step_layout import FRAME, STATE, STEP, StepLayout


class EmptyReplayError(RuntimeError):
    """The replay stayed empty for longer than a sample may wait."""


class Sample(NamedTuple):
    """A batch from the replay.

    Attributes:
        sequences: `Trajectory` of arrays [B, T + 1, ...] with `Frames` in place of stacks; its core state is the state
            before the first row, [B, units].
        keys: keys of the sequences for `set_priorities`, uint64 [B].
        probabilities: probability with which each sequence was sampled, float64 [B].
        size: number of sequences in the replay when each was sampled, int64 [B].
    """

    sequences: Trajectory
    keys: np.ndarray
    probabilities: np.ndarray
    size: np.ndarray


class PriorityError(ValueError):
    """A priority is negative or not finite."""


def check_priorities(priorities: np.ndarray) -> None:
    """Raises PriorityError if a priority is negative or not finite."""
    if not (np.isfinite(priorities) & (priorities >= 0)).all():
        raise PriorityError(f"Priorities must be numbers of 0 or more, got {priorities.tolist()}.")


def make_writer(
    client: reverb.Client, spec: Trajectory, settings: SequenceSettings, priority: Priority | None
) -> ReverbWriter:
    """Returns a writer for one environment, which may be in any process.

    Args:
        client: client of the replay's server.
        spec, settings: as for `SequenceReplay`.
        priority: function that computes the priority of a new sequence; None for priority 1.
    """
    return ReverbWriter(client, StepLayout(spec), settings, priority)


class StoredSequences:
    """Client of the table of a `SequenceReplay`, whose server may be in any process.

    Args:
        layout: how a step is stored.
        address: host and port of the server.
        empty_seconds: maximum number of seconds to wait for a sequence while the table is empty; None for no limit.
        is_here: whether the server is in this process; a line that it prints at the first sample is then suppressed.
    """

    def __init__(
        self, layout: StepLayout, address: str, empty_seconds: float | None = None, is_here: bool = True
    ) -> None:
        self._layout, self._is_here = layout, is_here
        self._empty_ms = -1 if empty_seconds is None else int(1000 * empty_seconds)
        self._address = address
        self._client = reverb.Client(address)
        self._batches: dict[int, Iterator[Any]] = {}

    def __len__(self) -> int:
        """Number of sequences that can be sampled."""
        return int(self._client.server_info()[TABLE].current_size)

    def sample(self, size: int) -> Sample:
        """Samples `size` sequences; waits while the replay is empty.

        Raises:
            EmptyReplayError: the replay stayed empty for `empty_seconds`.
        """
        try:
            if size not in self._batches:
                with suppress_stderr() if self._is_here else contextlib.nullcontext():
                    self._batches[size] = self._begin_sampling(size)
            info, columns = next(self._batches[size])
        except Exception as error:
            self._batches.pop(size, None)  # an iterator that raised returns no more batches
            if isinstance(error, StopIteration):
                raise EmptyReplayError from error
            raise
        states = columns[STATE].numpy() if STATE in columns else None
        leaves = self._layout.unpack(columns[STEP].numpy(), states)
        if self._layout.image is not None:
            leaves[self._layout.image] = Frames(columns[FRAME])
        sequences = tf.nest.pack_sequence_as(self._layout.spec, leaves)
        count, probability = info.table_size.numpy(), info.probability.numpy()
        # Where every priority is 0, Reverb samples uniformly but reports each probability as 0.
        return Sample(sequences, info.key.numpy(), np.where(probability > 0, probability, 1 / count), count)

    def set_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """Sets priorities; see `SequenceReplay.set_priorities`."""
        check_priorities(priorities)
        self._client.mutate_priorities(TABLE, dict(zip(keys.tolist(), priorities.tolist())))

    def close(self) -> None:
        """Ends the sampling; call it before the server is stopped."""
        self._batches.clear()

    def _begin_sampling(self, size: int) -> Iterator[Any]:
        dataset = reverb.TrajectoryDataset.from_table_signature(
            self._address,
            TABLE,
            max_in_flight_samples_per_worker=size,
            num_workers_per_iterator=1,
            rate_limiter_timeout_ms=self._empty_ms,
        )
        batches = iter(dataset.batch(size, drop_remainder=True))
        # The first sample opens the server's stream, which prints a line on the screen.
        first = next(batches)
        return itertools.chain([first], batches)


class SequenceReplay:
    """A Reverb server in this process with one table of sequences.

    Overlapping sequences share their steps, and stacks of frames are stored frame by frame, so that a step takes the
    compressed memory of one frame and some bytes. Sampling cannot be seeded: runs with this replay are reproducible in
    distribution only.

    Reverb's server cannot be bound to this machine's loopback interface, even where all clients are local: it listens
    on every interface and trusts every client. A firewall has to keep others out.

    Args:
        spec: spec of one step of one environment, such as an agent's `collect_data_spec`.
        settings: see `SequenceSettings`.
        working: folder for a checkpoint while it is being written, on the disk of the run's checkpoints.
        more_tables: further tables of the server, which are saved with the sequences.
        port: port of the server; None for a free one.

    Attributes:
        restarts, lost: totals of a restored replay that ran in a process of its own before; see `ServedReplay`.
    """

    def __init__(
        self,
        spec: Trajectory,
        settings: SequenceSettings,
        working: Path,
        more_tables: Sequence[reverb.Table] = (),
        port: int | None = None,
    ) -> None:
        self._layout = StepLayout(spec)
        self._settings = settings
        self._working = working
        self._more_tables = list(more_tables)
        self._port = port
        self._totals = Totals()
        self._server: reverb.Server | None = None

    @property
    def restarts(self) -> int:
        return self._totals.restarts

    @property
    def lost(self) -> int:
        return self._totals.lost

    def start(self, saved: Path | None = None) -> None:
        """Starts the server, either empty or with the sequences that `save` wrote to a folder.

        Tables of the checkpoint that this server does not have, such as an earlier evaluator's, are dropped.
        """
        settings, exponent = self._settings, self._settings.priority_exponent
        self._totals = read_totals(saved) if saved else Totals()
        saved = saved if saved and saved_replay.has_sequences(saved) else None
        table = reverb.Table(
            TABLE,
            sampler=reverb.selectors.Prioritized(exponent) if exponent else reverb.selectors.Uniform(),
            remover=reverb.selectors.Fifo(),
            max_size=settings.capacity,
            rate_limiter=reverb.rate_limiters.MinSize(1),
            signature=self._layout.signature(settings.steps + 1),
        )
        shutil.rmtree(self._working, ignore_errors=True)
        checkpointer = DefaultCheckpointer(str(self._working), fallback_checkpoint_path=str(saved) if saved else None)
        tables = [table, *self._more_tables]
        dropped = saved_replay.find_names(saved) - {table.name for table in tables} if saved else set()
        with suppress_stderr():
            tables += saved_replay.make_tables(dropped)
            self._server = reverb.Server(tables, self._port, checkpointer=checkpointer)
        self._client = reverb.Client(self.address)
        for name in dropped:
            self._client.reset(name)
        self._stored = StoredSequences(self._layout, self.address)

    @property
    def address(self) -> str:
        """Address of the server, for writers in other processes.

        Raises:
            RuntimeError: the server was not started.
        """
        if self._server is None:
            raise RuntimeError("The replay was not started.")
        return f"localhost:{self._server.port}"

    def __len__(self) -> int:
        """Number of sequences that can be sampled."""
        return len(self._stored)

    @property
    def num_written(self) -> int:
        """Number of sequences ever written, including those before the checkpoint that the server started from."""
        return int(self._client.server_info()[TABLE].rate_limiter_info.insert_stats.completed)

    def sample(self, size: int) -> Sample:
        """Samples `size` sequences; waits while the replay is empty."""
        return self._stored.sample(size)

    def set_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """Sets the priorities, float [B], 0 or more, of sampled sequences; sequences since removed are skipped.

        Raises:
            ValueError: a priority is negative or not finite; none is set.
        """
        self._stored.set_priorities(keys, priorities)

    def save(self, folder: Path) -> None:
        """Writes all sequences to `folder`, which must not exist yet; flush every writer before.

        Raises:
            OSError: the disk is full or not writable.
        """
        try:
            with suppress_stderr():
                written = Path(self._client.checkpoint())
        except (reverb.errors.ReverbError, RuntimeError) as error:
            raise OSError(str(error)) from error
        write_totals(written, self._totals)
        written.rename(folder)

    def confirm_saved(self, folder: Path) -> None:
        """Does nothing: this replay runs in this process and is never restarted."""

    def get_state(self) -> dict[str, Any]:
        """Returns nothing: `save` writes everything."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Does nothing: `start` reads everything."""

    def close(self) -> None:
        if self._server is not None:
            self._stored.close()
            with suppress_stderr():
                self._server.stop()
            self._server = None
        shutil.rmtree(self._working, ignore_errors=True)
