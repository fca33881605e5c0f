"""STAC and STACX in control tasks, with a recurrent network and overlapping unrolls."""

from __future__ import annotations

import ml_collections

from repro.environments.batched import BatchedEnvironment
from repro.papers.stac.action_distribution import SquashedGaussian
from repro.papers.stac.experiment import StacExperiment
from repro.training.experiment import Experiment


class ContinuousExperiment(StacExperiment):
    """Builds a run in an environment with Box actions.

    Args:
        config: resolved.

    Raises:
        ValueError: rows that are learned from do not share themselves out evenly over overlapping unrolls.
    """

    TORSOS = ("strided",)
    is_continuous = True

    def __init__(self, config: ml_collections.ConfigDict) -> None:
        super().__init__(config)
        learner = config.learner
        learned, new = learner.unroll_length - learner.burn_in, learner.unroll_length - learner.overlap
        if not 0 <= learner.burn_in < learner.unroll_length or not 0 < new <= learner.unroll_length or learned % new:
            raise ValueError(
                f"learner.unroll_length={learner.unroll_length}, overlap={learner.overlap} and "
                f"burn_in={learner.burn_in}: every step is learned from (unroll_length - burn_in) / (unroll_length - "
                "overlap) times, which must be a whole number above 0."
            )

    def make_distribution(self, environment: BatchedEnvironment) -> SquashedGaussian:
        network = self.config.network
        return SquashedGaussian(environment.num_actions, network.log_std_min, network.log_std_max)


def make_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a resolved configuration."""
    return ContinuousExperiment(config)
