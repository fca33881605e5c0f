"""The trainer of agents that learn from a replay, and optionally from each new batch as well (ACER, Algorithm 1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from repro.acting.batches import BatchSource
from repro.acting.weights import WeightsPublisher
from repro.replay.unrolls import UnrollReplay
from repro.rng import pack_rng, unpack_rng
from repro.training.learner import Learner
from repro.training.trainer import EpisodeLog, RunSettings
from repro.training.unroll_trainer import UnrollTrainer


class ReplaySettings(NamedTuple):
    """How often new and replayed batches are learned from.

    on_policy: whether each new batch is learned from when the actors bring it, by `train_on_policy` of the agent.
    ratio: mean number of batches replayed for each new one; the number is Poisson-distributed.
    batch_size: unrolls of a replayed batch; None: as many as in a new one.
    steps_per_call: largest number of replayed batches that one compiled call learns from, one after the other; above 1
        only on a single device. The updates are the same.
    """

    on_policy: bool
    ratio: float
    batch_size: int | None = None
    steps_per_call: int = 1


class ReplayTrainer(UnrollTrainer):
    """An update stores one batch of new unrolls and makes the gradient steps that follow.

    Args:
        learner, source, weights, episodes, run, frames_per_update: as for `UnrollTrainer`. For on-policy updates the
            agent has a `train_on_policy(experience, acting)`, and `weights` keeps what it needs as `acting`.
        replay: replay of such unrolls; None for a ratio of 0, when nothing is stored.
        settings: see `ReplaySettings`.
        rng: samples the number of replayed batches, and the batches.

    Raises:
        ValueError: a ratio above 0 without a replay, nothing to learn from, or an impossible `steps_per_call`.
    """

    def __init__(
        self,
        learner: Learner,
        source: BatchSource,
        weights: WeightsPublisher,
        episodes: EpisodeLog,
        run: RunSettings,
        frames_per_update: int,
        replay: UnrollReplay | None,
        settings: ReplaySettings,
        rng: np.random.Generator,
    ) -> None:
        if settings.ratio > 0 and replay is None:
            raise ValueError(f"A replay ratio of {settings.ratio} needs a replay.")
        if settings.ratio == 0 and not settings.on_policy:
            raise ValueError("replay.ratio=0 leaves nothing to learn from: set learner.on_policy=True.")
        if settings.steps_per_call < 1:
            raise ValueError(f"runtime.steps_per_call={settings.steps_per_call}: choose 1 or more.")
        self._on_policy = learner.with_train(learner.agent.train_on_policy) if settings.on_policy else None
        self._replay = replay
        self._settings = settings
        self._rng = rng
        self._scalars: dict[str, float] = {}
        super().__init__(learner, source, weights, episodes, run, frames_per_update)  # last: it restores

    def _update(self) -> tuple[dict[str, float], float]:
        batch = self._source.next()
        lag = self._lag(batch)
        steps = []
        if self._on_policy is not None:
            steps.append(self._on_policy.step(batch.trajectory, batch.acting).scalars)
        if self._replay is not None:
            for group in batch.groups:
                self._replay.add(group.arrays)
        size = self._settings.batch_size or sum(len(group.arrays.reward) for group in batch.groups)
        self._source.release(batch)
        steps += self._learn_again(size)
        self._gradient_steps += len(steps)
        self._publish()
        if steps:  # otherwise the last scalars are repeated
            self._scalars = {name: float(np.mean([step[name] for step in steps])) for name in steps[0]}
        return self._scalars, lag

    def _learn_again(self, size: int) -> list[dict[str, float]]:
        """Makes the gradient steps on replayed batches of `size` unrolls; returns their scalars."""
        if self._replay is None:
            return []
        count = int(self._rng.poisson(self._settings.ratio))
        if not self._settings.on_policy and not self._gradient_steps:
            count = max(count, 1)  # a log needs its columns from the first update on
        sampled = [self._replay.sample_numbers(self._rng, size) for _ in range(count)]
        most = self._settings.steps_per_call
        steps = []
        for i in range(0, count, most):
            steps += self._learn_from(self._replay, sampled[i : i + most])
        return steps

    def _learn_from(self, replay: UnrollReplay, sampled: list[np.ndarray]) -> list[dict[str, float]]:
        """Makes a gradient step on each of at most `steps_per_call` batches, given the numbers of their unrolls."""
        to_device, most = self._learner.to_device, self._settings.steps_per_call
        if most == 1:
            return [self._learner.step(to_device(replay.take(numbers))).scalars for numbers in sampled]
        padding = [sampled[0]] * (most - len(sampled))  # not learned from
        unrolls = replay.take(np.concatenate([*sampled, *padding]))
        batches = tf.nest.map_structure(lambda x: x.reshape(most, len(sampled[0]), *x.shape[1:]), unrolls)
        return self._learner.steps(to_device(batches), len(sampled))

    def _get_state(self) -> dict[str, Any]:
        own = {"rng": pack_rng(self._rng), "scalars": self._scalars}
        replay = {"replay": self._replay.get_state()} if self._replay is not None else {}
        return super()._get_state() | own | replay

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        unpack_rng(self._rng, state["rng"])
        self._scalars = state["scalars"]
        if self._replay is not None:
            self._replay.set_state(state["replay"])
