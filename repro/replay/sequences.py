"""Sequences of steps on Reverb, sampled uniformly or by priority: the replay of R2D2 where actors are processes."""

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
    """There was nothing to sample for a while."""


class Sample(NamedTuple):
    """A batch from the replay.

    sequences: `Trajectory` of arrays [B, T + 1, ...], and `Frames` of tensors in place of stacks; a core state is that
        before the first row, [B, units].
    keys: of the sequences, uint64 [B], for `set_priorities`.
    probabilities: with which each was sampled, float64 [B].
    size: sequences that there were to sample from, int64 [B].
    """

    sequences: Trajectory
    keys: np.ndarray
    probabilities: np.ndarray
    size: np.ndarray


def check_priorities(priorities: np.ndarray) -> None:
    """Raises ValueError where a priority is negative or not finite."""
    if not (np.isfinite(priorities) & (priorities >= 0)).all():
        raise ValueError(f"A priority must be a number of at least 0; given were {priorities.tolist()}.")


def make_writer(
    client: reverb.Client, spec: Trajectory, settings: SequenceSettings, priority: Priority | None
) -> ReverbWriter:
    """A writer for one environment, in whatever process.

    Args:
        client: of the replay's server.
        spec, settings: of the replay.
        priority: of new sequences; None: 1 for all.
    """
    return ReverbWriter(client, StepLayout(spec), settings, priority)


class StoredSequences:
    """The table of a `SequenceReplay`, in whatever process its server is.

    Args:
        layout: of a step.
        address: of the server.
        empty_seconds: longest wait for the first sequence; None: for ever.
        is_here: whether the server is in this process, whose line on the screen is left out.
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
        """Sequences that can be sampled."""
        return int(self._client.server_info()[TABLE].current_size)

    def sample(self, size: int) -> Sample:
        """See `SequenceReplay`.

        Raises:
            EmptyReplayError: see there.
        """
        try:
            if size not in self._batches:
                with suppress_stderr() if self._is_here else contextlib.nullcontext():
                    self._batches[size] = self._begin_sampling(size)
            info, columns = next(self._batches[size])
        except Exception as error:
            self._batches.pop(size, None)  # it would bring no more
            if isinstance(error, StopIteration):
                raise EmptyReplayError from error
            raise
        states = columns[STATE].numpy() if STATE in columns else None
        leaves = self._layout.unpack(columns[STEP].numpy(), states)
        if self._layout.image is not None:
            leaves[self._layout.image] = Frames(columns[FRAME])
        sequences = tf.nest.pack_sequence_as(self._layout.spec, leaves)
        count, probability = info.table_size.numpy(), info.probability.numpy()
        # Where every priority is 0, Reverb samples uniformly and calls each probability 0.
        return Sample(sequences, info.key.numpy(), np.where(probability > 0, probability, 1 / count), count)

    def set_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """See `SequenceReplay`."""
        check_priorities(priorities)
        self._client.mutate_priorities(TABLE, dict(zip(keys.tolist(), priorities.tolist())))

    def close(self) -> None:
        """Ends the sampling; to be called before the server ends."""
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
        # The first sample opens the server's stream, which writes a line on the screen.
        first = next(batches)
        return itertools.chain([first], batches)


class SequenceReplay:
    """A Reverb server in this process with one table of sequences.

    Sequences that overlap share their steps, and stacks of frames are stored frame by frame, so that a step
    costs one frame and some bytes, compressed. Sampling cannot be seeded: a run with this replay repeats in
    distribution.

    Reverb's server cannot be bound to this machine, even where all clients are on it: it listens on every interface and
    trusts whoever connects. A firewall has to keep others out.

    Attributes:
        restarts, lost: see `ServedReplay`; of a replay that was in a process of its own before.

    Args:
        spec: of one step of one environment, as `collect_data_spec` of an agent.
        settings: see `SequenceSettings`.
        working: folder for a checkpoint that is being written, on the disk of the run's checkpoints.
        more_tables: that the server has besides, and saves with the sequences.
        port: of the server; None: a free one.
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
        """Starts the server, empty or with what `save` wrote to a folder.

        What is in other tables there is dropped, as of an evaluator that is no more.
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
            RuntimeError: it was not started.
        """
        if self._server is None:
            raise RuntimeError("The replay was not started.")
        return f"localhost:{self._server.port}"

    def __len__(self) -> int:
        """Sequences that can be sampled."""
        return len(self._stored)

    @property
    def num_written(self) -> int:
        """Sequences that were ever written, before a checkpoint that it began with, too."""
        return int(self._client.server_info()[TABLE].rate_limiter_info.insert_stats.completed)

    def sample(self, size: int) -> Sample:
        """Samples `size` sequences; waits while the replay is empty."""
        return self._stored.sample(size)

    def set_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """Gives sampled sequences new priorities, float [B], not negative; those that left are passed over.

        Raises:
            ValueError: a priority is negative or not finite; none was set.
        """
        self._stored.set_priorities(keys, priorities)

    def save(self, folder: Path) -> None:
        """Writes all sequences to `folder`, which must not exist yet. Call it when every writer was flushed.

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
        """Nothing: it is in this process, and is not started again."""

    def get_state(self) -> dict[str, Any]:
        """Nothing: `save` writes it all."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Nothing: `start` reads it all."""

    def close(self) -> None:
        if self._server is not None:
            self._stored.close()
            with suppress_stderr():
                self._server.stop()
            self._server = None
        shutil.rmtree(self._working, ignore_errors=True)
