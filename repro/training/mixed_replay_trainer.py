"""The trainer of agents that learn from batches of new and replayed unrolls (IMPALA, Section 5.2.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from repro.acting.sources import BatchSource
from repro.acting.weights import WeightsPublisher
from repro.replay.mixed_batches import MixedBatches
from repro.rng import pack_rng, unpack_rng
from repro.training.learner import Learner
from repro.training.trainer import EpisodeLog, RunSettings
from repro.training.unroll_trainer import UnrollTrainer


class MixedReplayTrainer(UnrollTrainer):
    """An update is one gradient step on the new unrolls that the actors bring and on replayed ones.

    The policy lag is that of the new unrolls. The lag of the replayed ones is the scalar `replay_lag`, their mean in a
    batch, and `replay_lag` of the summary.

    Args:
        learner, weights, episodes, run: as for `UnrollTrainer`.
        source: source of the new unrolls, which are stored and not placed on devices.
        frames_per_update: units of the budget in the new unrolls of a batch.
        batches: adds the replayed ones.
        rng: samples the replayed ones.
    """

    def __init__(
        self,
        learner: Learner,
        source: BatchSource,
        weights: WeightsPublisher,
        episodes: EpisodeLog,
        run: RunSettings,
        frames_per_update: int,
        batches: MixedBatches,
        rng: np.random.Generator,
    ) -> None:
        self._batches = batches
        self._rng = rng
        self._replay_lag_sum = self._replay_lag_max = 0.0
        super().__init__(learner, source, weights, episodes, run, frames_per_update)

    def summary(self) -> dict[str, Any]:
        """Returns totals of the run so far, with mean and maximum of the replayed unrolls' lag."""
        made = self.made_updates
        mean = self._replay_lag_sum / made if made else 0.0
        return super().summary() | {"replay_lag": {"mean": mean, "max": self._replay_lag_max}}

    def _update(self) -> tuple[dict[str, float], float]:
        batch = self._source.next()
        lag = self._lag(batch)
        mixed = self._batches.mix([group.arrays for group in batch.groups], batch.versions, self._rng)
        self._source.release(batch)  # its unrolls are copied
        replay_lags = self._gradient_steps - mixed.replayed_versions
        scalars = self._learner.step(self._learner.to_device(mixed.trajectory)).scalars
        self._gradient_steps += 1
        self._publish()
        replay_lag = float(replay_lags.mean())
        self._replay_lag_sum += replay_lag
        self._replay_lag_max = max(self._replay_lag_max, float(replay_lags.max()))
        return scalars | {"replay_lag": replay_lag}, lag

    def _get_state(self) -> dict[str, Any]:
        own = {
            "rng": pack_rng(self._rng),
            "batches": self._batches.get_state(),
            "replay_lag": np.array([self._replay_lag_sum, self._replay_lag_max]),
        }
        return super()._get_state() | own

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        unpack_rng(self._rng, state["rng"])
        self._batches.set_state(state["batches"])
        self._replay_lag_sum, self._replay_lag_max = map(float, state["replay_lag"])
