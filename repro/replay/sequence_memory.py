"""Sequences of steps in this process, sampled uniformly or by priority: the replay of DQN and R2D2 in lockstep."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.replay.frame_stacks import OLDER, Frames
from repro.replay.sequence_writer import Priority, SequenceSettings, SequenceWriter, lead_row
from repro.replay.sequences import Sample, check_priorities
from repro.replay.shared_rows import SharedRows, taken
from repro.replay.step_layout import StepLayout
from repro.replay.sum_tree import SumTree
from repro.rng import pack_rng, unpack_rng

BLACK = 0
"""Number of the frame that stands before a game's first."""


class SequenceMemory:
    """The sequences of `SequenceReplay`, first in first out, in plain arrays: no server, and samples repeat.

        P(i) = p_i^alpha / sum_j p_j^alpha,    uniform where alpha or every p_j is 0

    A step and a frame are stored once, whatever number of sequences they are in, and not compressed; memory is taken up
    as they come. Sequences are numbered from the first that ever came.

    Args:
        spec: of one step of one environment, as `collect_data_spec` of an agent.
        settings: see `SequenceSettings`.
        num_envs: environments, each of which has a writer.
        unroll_length: most steps that a writer is given at once.
        rng: samples.
        priority: of new sequences; None: 1 for all.

    Attributes:
        layout, settings: of a step, and as given.
        steps, frames: what sequences share; `frames` is None without stacks of frames.
        writers: of the environments, in their order.
    """

    def __init__(
        self,
        spec: Trajectory,
        settings: SequenceSettings,
        num_envs: int,
        unroll_length: int,
        rng: np.random.Generator,
        priority: Priority | None = None,
    ) -> None:
        self.layout, self.settings = StepLayout(spec), settings
        self._rng = rng
        capacity, rows = settings.capacity, settings.steps + 1
        # A game of n sequences has at most n period + 1 rows, and one for the lead.
        open_rows = self._open_rows(settings, num_envs, unroll_length)
        leaves = [(tuple(leaf.shape), leaf.dtype.as_numpy_dtype) for leaf in tf.nest.flatten(spec)]
        self.steps = SharedRows(capacity * (settings.period + 2) + open_rows, [leaves[i] for i in self.layout.small])
        self._step_rows = np.zeros((capacity, rows), np.int32)
        self.frames: SharedRows | None = None
        self._frame_rows = np.zeros((capacity, 0), np.int32)
        if self.layout.image is not None:
            shape = leaves[self.layout.image][0][:2]
            self.frames = SharedRows(capacity * (settings.period + 1) + open_rows + 1, [(shape, np.uint8)])
            self.frames.store([np.zeros((1, *shape), np.uint8)])  # BLACK, which stays
            self._frame_rows = np.zeros((capacity, OLDER + rows), np.int32)
        self._states = [np.zeros((capacity, *leaves[i][0]), leaves[i][1]) for i in self.layout.states]
        self._weights = SumTree(capacity if settings.priority_exponent else 1)
        self._first = self._end = 0  # numbers of the oldest sequence and of the next; number i lies at i % capacity
        self.writers = [MemoryWriter(self, priority) for _ in range(num_envs)]

    @staticmethod
    def _open_rows(settings: SequenceSettings, num_envs: int, unroll_length: int) -> int:
        """Rows of open games, one of each environment: some of its sequences have left, and its writer holds others."""
        return num_envs * (2 * (settings.steps + 1) + settings.period + 2 * unroll_length + OLDER)

    @classmethod
    def nbytes(cls, spec: Trajectory, settings: SequenceSettings, num_envs: int, unroll_length: int) -> int:
        """Memory of a full replay of games that are long beside `settings.period`.

        More is reserved, which only games that are shorter take up.
        """
        layout, leaves, rows = StepLayout(spec), tf.nest.flatten(spec), settings.steps + 1
        sizes = [leaf.shape.num_elements() * leaf.dtype.size for leaf in leaves]
        step, numbers = sum(sizes[i] for i in layout.small), rows
        if layout.image is not None:
            step, numbers = step + int(np.prod(leaves[layout.image].shape[:2])), numbers + OLDER + rows
        own = np.int32().nbytes * numbers + sum(sizes[i] for i in layout.states)
        open_rows = cls._open_rows(settings, num_envs, unroll_length)
        return settings.capacity * (settings.period * step + own) + open_rows * step

    def start(self, saved: Path | None = None) -> None:
        """Begins empty; what was saved comes by `set_state`.

        Raises:
            ValueError: `saved` has the files of a replay on Reverb, which earlier versions wrote.
        """
        if saved is not None and saved.exists():
            raise ValueError(
                f"{saved} is a replay on Reverb, as lockstep runs of earlier versions had it: start again in a new "
                "run_dir, or go on with the version that wrote it."
            )

    def __len__(self) -> int:
        """Sequences that can be sampled."""
        return self._end - self._first

    def store(self, shared: SharedRows, values: list[np.ndarray]) -> np.ndarray:
        """Stores rows of `steps` or `frames`, held once by the caller; returns their numbers.

        Should there be no room, as after many games that were broken off, the oldest sequences leave.
        """
        while shared.room < len(values[0]) and len(self):
            self._remove_oldest()
        return shared.store(values)

    def add(self, step_rows: np.ndarray, frame_rows: np.ndarray, state: list[np.ndarray], priority: float) -> None:
        """Adds a sequence, in place of the oldest where there are as many as may be.

        Args:
            step_rows: numbers of its rows in `steps`, int32 [rows].
            frame_rows: numbers of its frames, int32 [OLDER + rows]; empty without frames.
            state: leaves of the core's state before its first row.
            priority: not negative.

        Raises:
            ValueError: the priority is negative or not finite.
        """
        if len(self) == self.settings.capacity:
            self._remove_oldest()
        place = self._end % self.settings.capacity
        self._step_rows[place], self._frame_rows[place] = step_rows, frame_rows
        self._hold(place)
        for states, part in zip(self._states, state):
            states[place] = part
        self._end += 1
        self.set_priorities(np.array([self._end - 1]), np.array([priority]))

    def sample(self, size: int) -> Sample:
        """Samples `size` sequences with replacement; their arrays are in aligned memory of their own.

        Raises:
            ValueError: nothing is stored yet.
        """
        if not len(self):
            raise ValueError("The replay is empty.")
        total = self._weights.total
        if total > 0.0:
            places = self._weights.sample(self._rng, size)
            probabilities = self._weights.weights[places] / total
        else:
            places = self._rng.integers(self._first, self._end, size) % self.settings.capacity
            probabilities = np.full(size, 1.0 / len(self))
        numbers = self._first + (places - self._first) % self.settings.capacity
        leaves: list[Any] = [None] * len(tf.nest.flatten(self.layout.spec))
        for i, leaf in zip(self.layout.small, self.steps.take(self._step_rows[places])):
            leaves[i] = leaf
        for i, states in zip(self.layout.states, self._states):
            leaves[i] = taken(states, places)
        if self.frames is not None and self.layout.image is not None:
            leaves[self.layout.image] = Frames(*self.frames.take(self._frame_rows[places]))
        sequences = tf.nest.pack_sequence_as(self.layout.spec, leaves)
        return Sample(sequences, numbers.astype(np.uint64), probabilities, np.full(size, len(self)))

    def set_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """Gives sampled sequences new priorities, float [B], not negative; those that left are passed over.

        Raises:
            ValueError: a priority is negative or not finite; none was set.
        """
        check_priorities(priorities)
        exponent, numbers = self.settings.priority_exponent, keys.astype(np.int64)
        if exponent:
            here = numbers >= self._first
            weights = priorities[here].astype(np.float64) ** exponent
            self._weights.set(numbers[here] % self.settings.capacity, weights)

    def confirm_saved(self, folder: Path) -> None:
        """Nothing: it is in this process, and is not started again."""

    def save(self, folder: Path) -> None:
        """Writes no files; everything is in `get_state`."""

    def close(self) -> None:
        """Nothing is open."""

    def check_valid(self) -> None:
        """Checks the books against each other.

        Raises:
            RuntimeError: they are not as they must be; the message says where.
        """
        if not 0 <= len(self) <= self.settings.capacity:
            raise RuntimeError(f"Sequences {self._first} to {self._end - 1} are more than {self.settings.capacity}.")
        self.steps.check_valid(self._held_steps)
        if self.frames is not None:
            self.frames.check_valid(self._held_frames)
        self._weights.check_valid()
        empty = np.delete(self._weights.weights, self._places) if self.settings.priority_exponent else np.zeros(0)
        if empty.any():
            raise RuntimeError("A sequence that has left can be sampled.")

    def get_state(self) -> dict[str, Any]:
        """Everything that samples and new sequences depend on; the arrays are the replay's own, not copies."""
        filled = min(self._end, self.settings.capacity)
        return {
            "numbers": np.array([self._first, self._end]),
            "rng": pack_rng(self._rng),
            "step_rows": self._step_rows[:filled],
            "frame_rows": self._frame_rows[:filled],
            "states": {str(i): states[:filled] for i, states in enumerate(self._states)},
            "weights": self._weights.weights[:filled],
            "writers": {str(i): writer.get_state() for i, writer in enumerate(self.writers)},
            "steps": self.steps.get_state(),
            "frames": self.frames.get_state() if self.frames is not None else {},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues exactly where `get_state` was taken; nothing was stored before."""
        self._first, self._end = map(int, state["numbers"])
        unpack_rng(self._rng, state["rng"])
        for name, rows in (("step_rows", self._step_rows), ("frame_rows", self._frame_rows)):
            rows[: len(state[name])] = state[name]
        for i, states in enumerate(self._states):
            saved = state["states"][str(i)]
            states[: len(saved)] = saved
        self._weights.set_all(state["weights"])
        for i, writer in enumerate(self.writers):
            writer.set_state(state["writers"][str(i)])
        self.steps.set_state(state["steps"], self._held_steps)
        if self.frames is not None:
            self.frames.set_state(state["frames"], self._held_frames)

    @property
    def _places(self) -> np.ndarray:
        """Where the sequences lie, the oldest first."""
        return np.arange(self._first, self._end) % self.settings.capacity

    @property
    def _held_steps(self) -> list[np.ndarray]:
        return [self._step_rows[self._places], *(writer.held_steps for writer in self.writers)]

    @property
    def _held_frames(self) -> list[np.ndarray]:
        return [np.array([BLACK]), self._frame_rows[self._places], *(writer.held_frames for writer in self.writers)]

    def _hold(self, place: int) -> None:
        self.steps.hold(self._step_rows[place])
        if self.frames is not None:
            self.frames.hold(self._frame_rows[place])

    def _remove_oldest(self) -> None:
        place = self._first % self.settings.capacity
        self.set_priorities(np.array([self._first]), np.zeros(1))
        self.steps.release(self._step_rows[place])
        if self.frames is not None:
            self.frames.release(self._frame_rows[place])
        self._first += 1


class MemoryWriter(SequenceWriter):
    """A `SequenceWriter` to a `SequenceMemory`.

    It holds the rows of its game that later sequences need, each once.

    Args:
        memory: that it writes to.
        priority: see `SequenceWriter`.

    Attributes:
        held_steps, held_frames: numbers of the rows that it holds, int32 [N].
    """

    def __init__(self, memory: SequenceMemory, priority: Priority | None) -> None:
        super().__init__(memory.layout, memory.settings, priority)
        self._memory = memory
        self._step_rows: list[int] = []  # of the game, the last ones; some several times in a row
        self._frame_rows: list[int] = []
        self.held_steps = self.held_frames = np.zeros(0, np.int32)
        self._states: deque[list[np.ndarray]] = deque()  # of the sequences that have begun

    def restart(self) -> None:
        """Ends the present game as it is: the steps that come follow none of those before."""
        self._end_game()
        self._end_unroll()
        self._count = 0

    def get_state(self) -> dict[str, Any]:
        """Everything that the next unroll's sequences depend on besides what is stored."""
        states = {str(i): np.array([state[i] for state in self._states]) for i in range(len(self._layout.states))}
        rows = {"steps": np.array(self._step_rows, np.int32), "frames": np.array(self._frame_rows, np.int32)}
        return {"count": self._count, "states": states} | rows

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues exactly where `get_state` was taken."""
        self._count = state["count"]
        self._step_rows, self._frame_rows = state["steps"].tolist(), state["frames"].tolist()
        self.held_steps = np.unique(state["steps"])
        self.held_frames = np.setdiff1d(state["frames"], BLACK)
        self._states = deque(map(list, zip(*(state["states"][str(i)] for i in range(len(state["states"]))))))

    def _begin_unroll(self, leaves: list[np.ndarray]) -> None:
        self._leaves = leaves
        self._unroll_steps = self._store_steps(leaves)
        if self._layout.image is not None:
            self._unroll_frames = self._store_frames(leaves[self._layout.image][OLDER:])

    def _begin_game(self, older: np.ndarray | None) -> None:
        if self._layout.image is not None:
            self._frame_rows += [BLACK] * OLDER if older is None else self._store_frames(older).tolist()

    def _store_row(self, row: int, is_lead: bool, begins: bool) -> None:
        if is_lead and self._count == 0:
            (self._lead_row,) = self._store_steps(lead_row(self._layout.spec, self._leaves, row))
        self._step_rows.append(self._lead_row if is_lead else self._unroll_steps[row])
        if self._layout.image is not None:
            self._frame_rows.append(BLACK if is_lead else self._unroll_frames[row])
        if self._layout.states and begins:
            self._states.append([self._leaves[i][row].copy() for i in self._layout.states])

    def _store_sequence(self) -> None:
        steps = np.array(self._step_rows[-self._rows :], np.int32)
        frames = np.array(self._frame_rows[-self._num_frames :], np.int32)
        state = self._states.popleft() if self._layout.states else []
        self._memory.add(steps, frames, state, self._get_priority())

    def _get_rows(self) -> list[Any]:
        leaves: list[Any] = [None] * len(self._leaves)
        rows = np.array(self._step_rows[-self._rows :], np.int32)
        for i, leaf in zip(self._layout.small, self._memory.steps.take(rows)):
            leaves[i] = leaf
        return leaves

    def _end_game(self) -> None:
        self._step_rows, self._frame_rows = [], []
        self._states.clear()

    def _end_unroll(self) -> None:
        """Gives up the rows that no later sequence needs."""
        self._step_rows = self._step_rows[-(self._rows - 1) :]
        self.held_steps = _release(self._memory.steps, self.held_steps, self._step_rows)
        if self._memory.frames is not None:
            self._frame_rows = self._frame_rows[-(self._num_frames - 1) :]
            self.held_frames = _release(self._memory.frames, self.held_frames, self._frame_rows)

    def _store_steps(self, leaves: list[np.ndarray]) -> np.ndarray:
        rows = self._memory.store(self._memory.steps, [leaves[i] for i in self._layout.small])
        self.held_steps = np.concatenate([self.held_steps, rows])
        return rows

    def _store_frames(self, frames: np.ndarray) -> np.ndarray:
        assert self._memory.frames is not None
        rows = self._memory.store(self._memory.frames, [frames])
        self.held_frames = np.concatenate([self.held_frames, rows])
        return rows


def _release(shared: SharedRows, held: np.ndarray, needed: list[int]) -> np.ndarray:
    """Releases the rows that are held and not needed; returns the others."""
    is_needed = np.isin(held, np.array(needed, np.int32))
    shared.release(held[~is_needed])
    return held[is_needed]
