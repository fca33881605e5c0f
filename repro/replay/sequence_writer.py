"""Cuts the steps of one environment into overlapping sequences and stores them; `ReverbWriter` stores on Reverb."""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import reverb
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from repro.replay.frame_stacks import OLDER
from repro.replay.step_layout import FRAME, STATE, STEP, StepLayout

TABLE = "sequences"
"""Name of the Reverb table."""

CHUNK = 8
"""Number of steps compressed together; fewer compress worse, and more decompress steps that no sequence needs."""

IN_FLIGHT = 32
"""Maximum number of sequences that are on their way to the server."""

Priority: TypeAlias = Callable[[Trajectory], float]
"""Computes the priority of a new sequence from its rows: arrays [rows, ...], without frames and core states."""


class SequenceSettings(NamedTuple):
    """Shape of sequences, and how they are stored and sampled.

    Attributes:
        steps: T, the number of transitions of a sequence, which has T + 1 rows.
        period: number of steps between the starts of two sequences; 1 starts one at each step.
        lead: number of padding rows without a transition before a game's first row, so that a burn-in of that many
            rows costs no transitions.
        capacity: number of sequences stored; a new one replaces the oldest.
        priority_exponent: alpha, the exponent of the priorities; 0 samples uniformly.
    """

    steps: int
    period: int
    lead: int
    capacity: int
    priority_exponent: float


def write_group(writers: Iterable[SequenceWriter], arrays: Trajectory) -> None:
    """Passes each writer the unroll of its environment.

    Args:
        writers: writers of the environments, in the order of the environments.
        arrays: unrolls [N, T + 1, ...]. The last row is dropped, as it is also the first row of the next unroll.
    """
    for i, writer in zip(range(len(arrays.reward)), writers):  # the range is first, so that it takes no writer too many
        writer.append(tf.nest.map_structure(lambda x, i=i: x[i, :-1], arrays))


class SequenceWriter(abc.ABC):
    """Turns steps in the order of play into sequences of `steps` + 1 rows that start `period` steps apart.

    A sequence's first `lead` rows are burn-in. The rows after them start at step 0, `period`, 2 `period` and so on of a
    game and contain at least one of its transitions. No sequence extends over a game's end: it is padded with rows
    LAST, which are no transitions, so that a game's last transitions are in as many sequences as earlier ones. Rows
    LAST before the game's first step ensure that no transition is in the burn-in only.

    Steps that begin in the middle of a game, as in a run resumed without its games, have no such rows before them,
    which would reset the core's state. The first `lead` of these steps are burn-in only.

    Subclasses store the rows and sequences.

    Args:
        layout: how a step is stored.
        settings: see `SequenceSettings`.
        priority: see `Priority`; None for priority 1.
    """

    def __init__(self, layout: StepLayout, settings: SequenceSettings, priority: Priority | None) -> None:
        self._layout = layout
        self._rows, self._period, self._lead = settings.steps + 1, settings.period, settings.lead
        self._num_frames = OLDER + self._rows
        self._priority = priority
        self._count = 0  # rows of this game so far

    def append(self, unroll: Trajectory) -> None:
        """Appends steps of one environment, arrays [T, ...] and `Frames`, that follow those of the previous call."""
        leaves = tf.nest.flatten(unroll)
        images = leaves[self._layout.image] if self._layout.image is not None else None
        self._begin_unroll(leaves)
        for row, step_type in enumerate(unroll.step_type.tolist()):
            if self._count == 0:
                older = images[:OLDER] if images is not None and row == 0 and images[:OLDER].any() else None
                self._begin_game(older)
                # FIRST after frames that are not black is a lost life in the middle of a game.
                for _ in range(self._lead if step_type == StepType.FIRST and older is None else 0):
                    self._append_row(row, is_lead=True)
            self._append_row(row)
            if step_type == StepType.LAST:
                self._fill_up(row)
                self._end_game()
                self._count = 0
        self._end_unroll()

    @abc.abstractmethod
    def _begin_unroll(self, leaves: list[np.ndarray]) -> None:
        """Receives the leaves [T, ...] of the unroll whose rows are stored next."""

    @abc.abstractmethod
    def _begin_game(self, older: np.ndarray | None) -> None:
        """Receives the frames before a game's first row, uint8 [OLDER, height, width]; None if black or absent."""

    @abc.abstractmethod
    def _store_row(self, row: int, is_lead: bool, begins: bool) -> None:
        """Appends a row of the unroll to the rows of the game.

        Args:
            row: number of the row in the unroll; consecutive calls may repeat it.
            is_lead: whether to append it as padding before the game, with a black frame and the step type LAST.
            begins: whether a sequence begins with it, which then stores the core's state before this row.
        """

    @abc.abstractmethod
    def _store_sequence(self) -> None:
        """Stores the latest rows as a sequence."""

    @abc.abstractmethod
    def _get_rows(self) -> list[Any]:
        """Returns the leaves [rows, ...] of the latest rows; those of frames and core states are None."""

    @abc.abstractmethod
    def _end_game(self) -> None:
        """Ends the game: rows that follow share no sequence with earlier ones."""

    def _end_unroll(self) -> None:  # noqa: B027 - a subclass that stores its rows one by one has nothing to do
        """Ends the unroll: the next row belongs to another one."""

    def _append_row(self, row: int, is_lead: bool = False) -> None:
        self._store_row(row, is_lead, self._count % self._period == 0)
        self._count += 1
        start = self._count - self._rows
        if start >= 0 and start % self._period == 0:
            self._store_sequence()

    def _fill_up(self, row: int) -> None:
        """Repeats the row LAST after the game's last transition until every transition is in all its sequences."""
        transition = self._count - 2  # number of the row before the LAST one
        final_start = (transition - self._lead) // self._period * self._period  # last one with a transition to learn
        if final_start >= 0:
            while self._count < final_start + self._rows:
                self._append_row(row)

    def _get_priority(self) -> float:
        """Returns the priority of a sequence of the latest rows."""
        if self._priority is None:
            return 1.0
        return self._priority(tf.nest.pack_sequence_as(self._layout.spec, self._get_rows()))


class ReverbWriter(SequenceWriter):
    """A `SequenceWriter` that writes to the table of a Reverb server.

    Args:
        client: client of the server.
        layout, settings, priority: as for `SequenceWriter`.
    """

    def __init__(
        self, client: reverb.Client, layout: StepLayout, settings: SequenceSettings, priority: Priority | None
    ) -> None:
        super().__init__(layout, settings, priority)
        keep = self._num_frames + CHUNK
        self._writer = client.trajectory_writer(num_keep_alive_refs=keep)
        for column in layout.signature(self._rows):
            self._writer.configure(
                (column,), num_keep_alive_refs=keep, max_chunk_length=1 if column == STATE else CHUNK
            )
        self._last_records: deque[np.ndarray] = deque(maxlen=self._rows)  # small values of the latest rows, as bytes

    def flush(self) -> None:
        """Waits until the server has every sequence."""
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _begin_unroll(self, leaves: list[np.ndarray]) -> None:
        self._leaves = leaves
        self._records = self._layout.pack(leaves)
        self._images = leaves[self._layout.image] if self._layout.image is not None else None

    def _begin_game(self, older: np.ndarray | None) -> None:
        if self._images is not None:  # so that the first row has a complete stack
            for frame in np.zeros_like(self._images[:OLDER]) if older is None else older:
                self._writer.append({FRAME: frame})

    def _store_row(self, row: int, is_lead: bool, begins: bool) -> None:
        record = self._layout.pack(lead_row(self._layout.spec, self._leaves, row))[0] if is_lead else self._records[row]
        data: dict[str, Any] = {STEP: record}
        if self._images is not None:
            data[FRAME] = np.zeros_like(self._images[0]) if is_lead else self._images[OLDER + row]
        if self._layout.states and begins:
            data[STATE] = self._layout.pack_state(self._leaves, row)
        self._writer.append(data)
        self._last_records.append(record)

    def _store_sequence(self) -> None:
        history = self._writer.history
        sequence = {STEP: history[STEP][-self._rows :]}
        if self._layout.image is not None:
            sequence[FRAME] = history[FRAME][-self._num_frames :]
        if self._layout.states:
            sequence[STATE] = history[STATE][-self._rows]
        self._writer.create_item(TABLE, self._get_priority(), sequence)
        self._writer.flush(IN_FLIGHT)

    def _get_rows(self) -> list[Any]:
        return self._layout.unpack(np.stack(self._last_records), None)

    def _end_game(self) -> None:
        self._writer.end_episode()


def lead_row(spec: Trajectory, leaves: list[np.ndarray], row: int) -> list[np.ndarray]:
    """Returns the leaves [1, ...] of a row with its step type changed to LAST."""
    step = tf.nest.pack_sequence_as(spec, [leaf[row : row + 1] for leaf in leaves])
    return tf.nest.flatten(step._replace(step_type=np.full_like(step.step_type, StepType.LAST)))
