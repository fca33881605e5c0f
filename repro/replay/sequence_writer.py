"""Cuts the steps of one environment into overlapping sequences, and stores them; on Reverb, in `ReverbWriter`."""

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
"""Name of the table on Reverb."""

CHUNK = 8
"""Steps that are compressed together; fewer would compress worse, more would be decompressed in vain."""

IN_FLIGHT = 32
"""Sequences that may be on their way to the server."""

Priority: TypeAlias = Callable[[Trajectory], float]
"""Priority of a new sequence, from its rows: arrays [rows, ...], frames and core states left out."""


class SequenceSettings(NamedTuple):
    """What a sequence is, and how it is sampled.

    steps: T, transitions of a sequence; it has T + 1 rows.
    period: steps between the starts of two sequences, 1 for one from each step.
    lead: rows without a transition before a game's first, so that a burn-in of so many rows has something to burn.
    capacity: sequences; the oldest is replaced.
    priority_exponent: 0 for uniform sampling.
    """

    steps: int
    period: int
    lead: int
    capacity: int
    priority_exponent: float


def write_group(writers: Iterable[SequenceWriter], arrays: Trajectory) -> None:
    """Each writer takes the unroll of its environment: of arrays [N, T + 1, ...], whose last row is the next first."""
    for i, writer in zip(range(len(arrays.reward)), writers):  # the range first: it ends without taking a writer
        writer.append(tf.nest.map_structure(lambda x, i=i: x[i, :-1], arrays))


class SequenceWriter(abc.ABC):
    """Steps in the order of play go in; sequences of `steps` + 1 rows, `period` steps apart, come out.

    A sequence's first `lead` rows are there to burn in. What follows them begins at the first, the `period`-th, the
    2 `period`-th .. step of a game and holds a transition of it. No sequence goes over a game's end: where it would,
    rows LAST, which are no transition, fill it up, so that a game's last transitions are in as many sequences as those
    before them. Rows LAST before its first step leave no transition to the burn-in alone.

    Steps that begin in the middle of a game, as in a resumed run without its games, have nothing before them: the
    core's state would not survive it. The first `lead` of them are burn-in alone.

    Subclasses say where rows and sequences are stored.

    Args:
        layout: of a step.
        settings: see `SequenceSettings`.
        priority: see `Priority`; None: 1 for all.
    """

    def __init__(self, layout: StepLayout, settings: SequenceSettings, priority: Priority | None) -> None:
        self._layout = layout
        self._rows, self._period, self._lead = settings.steps + 1, settings.period, settings.lead
        self._num_frames = OLDER + self._rows
        self._priority = priority
        self._count = 0  # rows of this game so far

    def append(self, unroll: Trajectory) -> None:
        """Takes steps of one environment, arrays [T, ...] and `Frames`, which follow those of the call before."""
        leaves = tf.nest.flatten(unroll)
        images = leaves[self._layout.image] if self._layout.image is not None else None
        self._begin_unroll(leaves)
        for row, step_type in enumerate(unroll.step_type.tolist()):
            if self._count == 0:
                older = images[:OLDER] if images is not None and row == 0 and images[:OLDER].any() else None
                self._begin_game(older)
                # FIRST in the midst of a game, with frames before it that are not black, is a lost life.
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
        """Takes the leaves [T, ...] of the rows that follow."""

    @abc.abstractmethod
    def _begin_game(self, older: np.ndarray | None) -> None:
        """Takes the frames before the first row, uint8 [OLDER, height, width]; None: black, or there are none."""

    @abc.abstractmethod
    def _store_row(self, row: int, is_lead: bool, begins: bool) -> None:
        """Adds a row of the unroll to those of the game.

        Args:
            row: its number in the unroll; a row may come several times in a row.
            is_lead: whether it stands before the game, black and LAST.
            begins: whether a sequence begins with it, which keeps the core's state before it.
        """

    @abc.abstractmethod
    def _store_sequence(self) -> None:
        """Makes a sequence of the last rows."""

    @abc.abstractmethod
    def _get_rows(self) -> list[Any]:
        """Leaves of the last rows, [rows, ...], frames and core states left out."""

    @abc.abstractmethod
    def _end_game(self) -> None:
        """No row that follows is in a sequence with those before."""

    def _end_unroll(self) -> None:  # noqa: B027 - one that packs its rows one by one has nothing to do
        """The next row is of another unroll."""

    def _append_row(self, row: int, is_lead: bool = False) -> None:
        self._store_row(row, is_lead, self._count % self._period == 0)
        self._count += 1
        start = self._count - self._rows
        if start >= 0 and start % self._period == 0:
            self._store_sequence()

    def _fill_up(self, row: int) -> None:
        """Repeats the LAST row, behind the game's last transition, until every transition is in all its sequences."""
        transition = self._count - 2  # number of the row before the LAST one
        final_start = (transition - self._lead) // self._period * self._period  # the last with a transition to learn
        if final_start >= 0:
            while self._count < final_start + self._rows:
                self._append_row(row)

    def _get_priority(self) -> float:
        """That of a sequence of the last rows."""
        if self._priority is None:
            return 1.0
        return self._priority(tf.nest.pack_sequence_as(self._layout.spec, self._get_rows()))


class ReverbWriter(SequenceWriter):
    """A `SequenceWriter` to the table of a Reverb server.

    Args:
        client: of the server.
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
        self._last_records: deque[np.ndarray] = deque(maxlen=self._rows)  # of the last rows

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
        if self._images is not None:  # so that the first stack is whole, whatever leads to it
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
    """Leaves [1, ...] of a row, its step type LAST."""
    step = tf.nest.pack_sequence_as(spec, [leaf[row : row + 1] for leaf in leaves])
    return tf.nest.flatten(step._replace(step_type=np.full_like(step.step_type, StepType.LAST)))
