"""STAC and STACX in control tasks, with a recurrent network and overlapping unrolls."""

from __future__ import annotations

import ml_collections

from repro.environments.batched import BatchedEnvironment
from repro.papers.stac.action_distribution import SquashedGaussian
from repro.papers.stac.experiment import StacExperiment
from repro.training.experiment import Experiment


class ContinuousExperiment(StacExperiment):
    TORSOS = ("strided",)
    is_continuous = True

    def make_distribution(self, environment: BatchedEnvironment) -> SquashedGaussian:
        network = self.config.network
        if network.log_std_min > network.log_std_max:
            raise ValueError(
                f"network.log_std_min={network.log_std_min} is above network.log_std_max={network.log_std_max}."
            )
        return SquashedGaussian(environment.num_actions, network.log_std_min, network.log_std_max)


def make_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a resolved configuration."""
    return ContinuousExperiment(config)
