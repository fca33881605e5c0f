"""In-process replay of sequences of steps, sampled uniformly or by priority, for DQN and R2D2 in lockstep."""

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
"""Row number of the black frame, which precedes a game's first frame."""


class SequenceMemory:
    """Stores the same sequences as `SequenceReplay`, first in, first out, in plain arrays, with reproducible samples.

        P(i) = p_i^alpha / sum_j p_j^alpha,    uniform where alpha or every p_j is 0

    A step or a frame is stored once, uncompressed, however many sequences contain it; memory is taken up as they
    arrive. Sequences are numbered from 0 in the order of their arrival.

    Args:
        spec: spec of one step of one environment, such as an agent's `collect_data_spec`.
        settings: see `SequenceSettings`.
        num_envs: number of environments, each of which has a writer.
        unroll_length: maximum number of steps passed to a writer at once.
        rng: random number generator that samples sequences.
        priority: function that computes the priority of a new sequence; None for priority 1.

    Attributes:
        layout: how a step is stored.
        settings: the settings as given.
        steps, frames: rows that sequences share; `frames` is None where observations have no stack of frames.
        writers: writers of the environments, in the order of the environments.
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
        # A game of n sequences has at most n period + 1 rows, and one more for the lead.
        open_rows = self._open_rows(settings, num_envs, unroll_length)
        leaves = [(tuple(leaf.shape), leaf.dtype.as_numpy_dtype) for leaf in tf.nest.flatten(spec)]
        self.steps = SharedRows(capacity * (settings.period + 2) + open_rows, [leaves[i] for i in self.layout.small])
        self._step_rows = np.zeros((capacity, rows), np.int32)
        self.frames: SharedRows | None = None
        self._frame_rows = np.zeros((capacity, 0), np.int32)
        if self.layout.image is not None:
            shape = leaves[self.layout.image][0][:2]
            self.frames = SharedRows(capacity * (settings.period + 1) + open_rows + 1, [(shape, np.uint8)])
            self.frames.store([np.zeros((1, *shape), np.uint8)])  # BLACK, which is never released
            self._frame_rows = np.zeros((capacity, OLDER + rows), np.int32)
        self._states = [np.zeros((capacity, *leaves[i][0]), leaves[i][1]) for i in self.layout.states]
        self._weights = SumTree(capacity if settings.priority_exponent else 1)
        self._first = self._end = 0  # numbers of the oldest and of the next sequence; i is stored at i % capacity
        self.writers = [MemoryWriter(self, priority) for _ in range(num_envs)]

    @staticmethod
    def _open_rows(settings: SequenceSettings, num_envs: int, unroll_length: int) -> int:
        """Returns the number of rows for the unfinished games, one of each environment, beyond those of whole games.

        Such a game may have lost sequences whose rows others still share, and its writer holds rows for later ones.
        """
        return num_envs * (2 * (settings.steps + 1) + settings.period + 2 * unroll_length + OLDER)

    @classmethod
    def nbytes(cls, spec: Trajectory, settings: SequenceSettings, num_envs: int, unroll_length: int) -> int:
        """Returns the bytes of a full replay of games that are long compared to `settings.period`.

        More memory is reserved, which only shorter games take up.
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
        """Starts empty; a saved replay is restored by `set_state`.

        Raises:
            ValueError: the folder `saved` exists: it has the files of a Reverb replay, which earlier versions wrote.
        """
        if saved is not None and saved.exists():
            raise ValueError(
                f"{saved} is a replay on Reverb, from a lockstep run of an earlier version: start again in a new "
                "run_dir, or continue with that version."
            )

    def __len__(self) -> int:
        """Number of sequences that can be sampled."""
        return self._end - self._first

    def store(self, shared: SharedRows, values: list[np.ndarray]) -> np.ndarray:
        """Stores rows in `steps` or `frames`, held once by the caller, and returns their numbers.

        If there is no room, for example after many interrupted games, the oldest sequences are removed.

        Raises:
            ValueError: there is no room although all sequences were removed.
        """
        while shared.room < len(values[0]) and len(self):
            self._remove_oldest()
        return shared.store(values)

    def add(self, step_rows: np.ndarray, frame_rows: np.ndarray, state: list[np.ndarray], priority: float) -> None:
        """Adds a sequence; it replaces the oldest one if the replay is full.

        Args:
            step_rows: numbers of its rows in `steps`, int32 [rows].
            frame_rows: numbers of its rows in `frames`, int32 [OLDER + rows]; empty without frames.
            state: leaves of the core's state before its first row.
            priority: priority, 0 or more.

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
        """Samples `size` sequences with replacement and copies them into aligned arrays.

        Raises:
            ValueError: no sequence is stored yet.
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
        """Sets the priorities, float [B], 0 or more, of sampled sequences; sequences since removed are skipped.

        Raises:
            ValueError: a priority is negative or not finite; none is set.
        """
        check_priorities(priorities)
        exponent, numbers = self.settings.priority_exponent, keys.astype(np.int64)
        if exponent:
            here = numbers >= self._first
            weights = priorities[here].astype(np.float64) ** exponent
            self._weights.set(numbers[here] % self.settings.capacity, weights)

    def confirm_saved(self, folder: Path) -> None:
        """Does nothing: this replay runs in this process and is never restarted."""

    def save(self, folder: Path) -> None:
        """Writes no files: `get_state` returns everything."""

    def close(self) -> None:
        """Does nothing: nothing is open."""

    def check_valid(self) -> None:
        """Checks the invariants of rows, frames and priorities.

        Raises:
            RuntimeError: an invariant is broken; the message says which.
        """
        if not 0 <= len(self) <= self.settings.capacity:
            raise RuntimeError(
                f"Sequences {self._first} to {self._end - 1} are more than the capacity of {self.settings.capacity}."
            )
        self.steps.check_valid(self._held_steps)
        if self.frames is not None:
            self.frames.check_valid(self._held_frames)
        self._weights.check_valid()
        empty = np.delete(self._weights.weights, self._places) if self.settings.priority_exponent else np.zeros(0)
        if empty.any():
            raise RuntimeError("A sequence that has left can be sampled.")

    def get_state(self) -> dict[str, Any]:
        """Returns everything that samples and new sequences depend on; arrays are views of the replay, not copies."""
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
        """Restores a state from `get_state` into a replay that is still empty, which then continues exactly."""
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
        """Positions of the stored sequences, oldest first."""
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
    """A `SequenceWriter` that writes to a `SequenceMemory`.

    It holds, once each, the rows of its current game that later sequences need.

    Args:
        memory: replay to write to.
        priority: see `SequenceWriter`.

    Attributes:
        held_steps, held_frames: numbers of the rows that this writer holds, int32 [N].
    """

    def __init__(self, memory: SequenceMemory, priority: Priority | None) -> None:
        super().__init__(memory.layout, memory.settings, priority)
        self._memory = memory
        self._step_rows: list[int] = []  # the game's latest rows; padding repeats a number
        self._frame_rows: list[int] = []
        self.held_steps = self.held_frames = np.zeros(0, np.int32)
        self._states: deque[list[np.ndarray]] = deque()  # core states at the starts of sequences still incomplete

    def restart(self) -> None:
        """Breaks the current game off: steps that follow do not continue it."""
        self._end_game()
        self._end_unroll()
        self._count = 0

    def get_state(self) -> dict[str, Any]:
        """Returns everything that the next unroll's sequences depend on besides the stored rows."""
        states = {str(i): np.array([state[i] for state in self._states]) for i in range(len(self._layout.states))}
        rows = {"steps": np.array(self._step_rows, np.int32), "frames": np.array(self._frame_rows, np.int32)}
        return {"count": self._count, "states": states} | rows

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state from `get_state`, from which the writer continues exactly."""
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
        """Releases the rows that no later sequence needs."""
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
    """Releases the held rows that are not needed, and returns the others."""
    is_needed = np.isin(held, np.array(needed, np.int32))
    shared.release(held[~is_needed])
    return held[is_needed]
