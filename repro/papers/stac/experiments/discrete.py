"""STAC and STACX in environments with discrete actions."""

from __future__ import annotations

import ml_collections

from repro.environments.batched import BatchedEnvironment
from repro.papers.stac.action_distribution import Softmax
from repro.papers.stac.experiment import StacExperiment
from repro.training.experiment import Experiment


class DiscreteExperiment(StacExperiment):
    TORSOS = ("shallow", "deep")

    def make_distribution(self, environment: BatchedEnvironment) -> Softmax:
        return Softmax(environment.num_actions)


def make_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a resolved configuration."""
    return DiscreteExperiment(config)
