"""Actors that fill a replay: what the learner needs of them, and actors in threads of its own process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from repro.acting.lockstep_source import LockstepSource
from repro.replay.sequence_memory import SequenceMemory
from repro.replay.sequence_writer import write_group


class ActorPool(Protocol):
    """What the training loop needs of the actors that fill its replay."""

    @property
    def can_save(self) -> bool: ...

    @property
    def restarts(self) -> int:
        """Number of actors that were replaced in this process."""

    def start(self) -> None:
        """Begins to play; the replay must have been started."""

    def play(self, gradient_steps: int, frames: int) -> float:
        """Waits until all steps up to `frames` are stored; returns the newest steps' mean lag, in gradient steps.

        Args:
            gradient_steps: gradient steps of the learner so far.
            frames: units of the budget to have been played by then, in the whole run.

        Raises:
            ActorPoolError: the actors cannot go on.
            Interrupted: see `interrupt`.
        """

    def interrupt(self) -> None:
        """Ends a wait in `play`, from any thread; to be called before the run is saved for the last time."""

    def totals(self) -> dict[str, Any]:
        """Returns what the summary of the whole run says about the actors besides their restarts."""

    def get_state(self) -> dict[str, Any]: ...
    def set_state(self, state: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


class LocalActorPool:
    """Actors in threads of this process, which play a fixed number of steps between two updates.

    With a lockstep lag of 1, the source plays the next steps while the learner learns.

    Args:
        source: source whose batches hold one unroll of every environment, always in the same order.
        replay: the replay to fill, with a writer for each of these environments.
        on_frames: called with the `frames` of each `play`, while no actor plays; sets the actors' epsilon.
    """

    def __init__(self, source: LockstepSource, replay: SequenceMemory, on_frames: Callable[[int], None]) -> None:
        self._source = source
        self._replay = replay
        self._on_frames = on_frames

    @property
    def can_save(self) -> bool:
        return self._source.between_rounds

    @property
    def restarts(self) -> int:
        return self._source.restarts

    def start(self) -> None:
        """Does nothing: the actors begin at the first call of `play`."""

    def play(self, gradient_steps: int, frames: int) -> float:
        self._source.finish_playing()
        self._on_frames(frames)
        batch = self._source.next()
        begin = 0
        for group in batch.groups:
            end = begin + len(group.arrays.reward)
            writers = self._replay.writers[begin:end]
            if group.new_games:  # they do not continue the steps of these writers
                for writer in writers:
                    writer.restart()
            write_group(writers, group.arrays)
            begin = end
        self._source.release(batch)
        return gradient_steps - float(np.mean(batch.versions))

    def interrupt(self) -> None:
        self._source.interrupt()

    def totals(self) -> dict[str, Any]:
        return self._source.totals()

    def get_state(self) -> dict[str, Any]:
        return self._source.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        self._source.set_state(state)

    def close(self) -> None:
        self._source.close()
