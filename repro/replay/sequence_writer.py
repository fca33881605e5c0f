"""Writes the steps of one environment to Reverb as overlapping sequences."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import reverb
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from repro.replay.frame_stacks import OLDER
from repro.replay.step_layout import FRAME, STATE, STEP, StepLayout

CHUNK = 8
"""Steps that are compressed together; fewer would compress worse, more would be decompressed in vain."""

IN_FLIGHT = 32
"""Sequences that may be on their way to the server."""

Priority: TypeAlias = Callable[[Trajectory], float]
"""Priority of a new sequence, from its rows: arrays [rows, ...], frames and core states left out."""


def write_group(writers: Iterable[SequenceWriter], arrays: Trajectory) -> None:
    """Each writer takes the unroll of its environment: of arrays [N, T + 1, ...], whose last row is the next first."""
    for i, writer in zip(range(len(arrays.reward)), writers):  # the range first: it ends without taking a writer
        writer.append(tf.nest.map_structure(lambda x, i=i: x[i, :-1], arrays))


class SequenceWriter:
    """Steps in the order of play go in; sequences of `rows` steps, `period` steps apart, come out.

    A sequence's first `lead` rows are there to burn in. What follows them begins at the first, the `period`-th, the
    2 `period`-th .. step of a game and holds a transition of it. No sequence goes over a game's end: where it would,
    rows LAST, which are no transition, fill it up, so that a game's last transitions are in as many sequences as those
    before them. Rows LAST before its first step leave no transition to the burn-in alone.

    Steps that begin in the middle of a game, as in a resumed run, have nothing before them: the core's state would not
    survive it. The first `lead` of them are burn-in alone.

    Args:
        client: of the Reverb server.
        table: its name.
        layout: of a step.
        rows: of a sequence.
        period: steps between two starts.
        lead: rows to burn in.
        priority: see `Priority`; None: 1 for all.
    """

    def __init__(
        self,
        client: reverb.Client,
        table: str,
        layout: StepLayout,
        rows: int,
        period: int,
        lead: int,
        priority: Priority | None = None,
    ) -> None:
        self._layout = layout
        self._table = table
        self._rows, self._period, self._lead = rows, period, lead
        self._frames = OLDER + rows
        keep = self._frames + CHUNK
        self._writer = client.trajectory_writer(num_keep_alive_refs=keep)
        for column in layout.signature(rows):
            self._writer.configure(
                (column,), num_keep_alive_refs=keep, max_chunk_length=1 if column == STATE else CHUNK
            )
        self._count = 0  # rows of this game so far
        self._priority = priority
        self._records: deque[np.ndarray] = deque(maxlen=rows)  # of the last rows

    def append(self, unroll: Trajectory) -> None:
        """Takes steps of one environment, arrays [T, ...] and `Frames`, which follow those of the call before."""
        leaves = tf.nest.flatten(unroll)
        records = self._layout.pack(leaves)
        images = leaves[self._layout.image] if self._layout.image is not None else None
        for row, step_type in enumerate(unroll.step_type):
            if self._count == 0:
                # FIRST in the midst of a game, with frames before it that are not black, is a lost life.
                starts = step_type == StepType.FIRST and not (row == 0 and images is not None and images[:OLDER].any())
                self._begin_game(leaves, row, images, self._lead if starts else 0)
            frame = images[OLDER + row] if images is not None else None
            self._append_row(leaves, row, records[row], frame)
            if step_type == StepType.LAST:
                self._end_game(leaves, row, records[row], frame)

    def flush(self) -> None:
        """Waits until the server has every sequence."""
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _begin_game(self, leaves: list[np.ndarray], row: int, images: np.ndarray | None, lead: int) -> None:
        frames: list[np.ndarray | None] = [None] * (lead + OLDER)
        if images is not None:  # so that the first stack is whole, whatever leads to it
            older = images[:OLDER] if row == 0 else np.zeros_like(images[:OLDER])  # black where a game starts
            frames = [older[0]] * lead + list(older)
            for frame in frames[:OLDER]:
                self._writer.append({FRAME: frame})
        for frame in frames[OLDER:]:
            self._append_row(leaves, row, self._as_last(leaves, row), frame)

    def _end_game(self, leaves: list[np.ndarray], row: int, record: np.ndarray, frame: np.ndarray | None) -> None:
        transition = self._count - 2  # number of the row before the LAST one
        final_start = (transition - self._lead) // self._period * self._period  # the last with a transition to learn
        if final_start >= 0:
            while self._count < final_start + self._rows:
                self._append_row(leaves, row, record, frame)
        self._writer.end_episode()
        self._count = 0

    def _append_row(self, leaves: list[np.ndarray], row: int, record: np.ndarray, frame: np.ndarray | None) -> None:
        data: dict[str, Any] = {STEP: record}
        if frame is not None:
            data[FRAME] = frame
        if self._layout.states and self._count % self._period == 0:
            data[STATE] = self._layout.pack_state(leaves, row)
        self._writer.append(data)
        self._records.append(record)
        self._count += 1
        start = self._count - self._rows
        if start >= 0 and start % self._period == 0:
            history = self._writer.history
            sequence = {STEP: history[STEP][-self._rows :]}
            if frame is not None:
                sequence[FRAME] = history[FRAME][-self._frames :]
            if self._layout.states:
                sequence[STATE] = history[STATE][-self._rows]
            self._writer.create_item(self._table, self._priority_of_rows(), sequence)
            self._writer.flush(IN_FLIGHT)

    def _priority_of_rows(self) -> float:
        if self._priority is None:
            return 1.0
        leaves = self._layout.unpack(np.stack(self._records), None)
        return self._priority(tf.nest.pack_sequence_as(self._layout.spec, leaves))

    def _as_last(self, leaves: list[np.ndarray], row: int) -> np.ndarray:
        """The record of a row, its step type LAST."""
        step = tf.nest.pack_sequence_as(self._layout.spec, [leaf[row : row + 1] for leaf in leaves])
        step = step._replace(step_type=np.full_like(step.step_type, StepType.LAST))
        return self._layout.pack(tf.nest.flatten(step))[0]
