"""R2D2 with C-trace or one of its baselines (Section 4.1, Appendix E.1)."""

from __future__ import annotations

from collections.abc import Sequence

import ml_collections
import numpy as np

from repro.environments.batched import BatchedEnvironment
from repro.networks.epsilon_greedy_policy import ape_x_epsilons
from repro.networks.initializers import distinct_seeds
from repro.networks.recurrent_q import RecurrentQ
from repro.networks.torsos import make_torso
from repro.papers.ctrace.agent import OptimizationConfig
from repro.papers.ctrace.experiment import SequenceExperiment
from repro.papers.ctrace.exploration import ConstantEpsilons, Exploration
from repro.papers.ctrace.loss import SequenceLossSettings
from repro.replay.sequence_writer import SequenceSettings
from repro.training.experiment import Experiment
from repro.training.sequence_trainer import ReplayTrainingConfig

TORSOS = ("nature_convolutions", "shallow")


class R2d2Experiment(SequenceExperiment):
    """R2D2 with actors that each have a batch of environments, in threads or in processes of their own."""

    SCHEDULES = ("lockstep", "processes")
    CAPACITY = "sequences"

    @property
    def loss_settings(self) -> SequenceLossSettings:
        return super().loss_settings._replace(rescaling=self.config.loss.rescaling)

    @property
    def optimization(self) -> OptimizationConfig:
        replay = self.config.replay
        return super().optimization._replace(burn_in=replay.burn_in, priority_of_max=replay.priority_of_max)

    @property
    def sequence_settings(self) -> SequenceSettings:
        replay = self.config.replay
        return SequenceSettings(
            steps=replay.burn_in + replay.steps,
            period=replay.period,
            lead=replay.burn_in,
            capacity=replay.sequences,
            priority_exponent=replay.priority_exponent,
        )

    @property
    def replay_training(self) -> ReplayTrainingConfig:
        """Settings of training from the replay; weights are published every `learner.publish_steps` actor steps.

        The period is rounded down to whole updates, at least one.
        """
        learner, replay = self.config.learner, self.config.replay
        return ReplayTrainingConfig(
            batch_size=learner.batch_size,
            first_frames=replay.first_frames,
            publish_period=max(1, learner.publish_steps // learner.steps_per_update),
            importance_exponent=replay.importance_exponent,
        )

    def make_network(self, environment: BatchedEnvironment, seed: int) -> RecurrentQ:
        network, seeds = self.config.network, distinct_seeds(seed)
        if network.core_units < 1:
            raise ValueError(f"network.core_units={network.core_units}: choose 1 or more.")
        observation_spec = environment.time_step_spec.observation
        torso = make_torso(network, next(seeds), TORSOS, observation_spec, reads_entries=True)
        return RecurrentQ(torso, environment.num_actions, network.core_units, network.dueling_units, seed=next(seeds))

    def make_exploration(self) -> Sequence[Exploration]:
        """Returns the constant epsilons of each actor's environments, from one sequence over all environments."""
        exploration, total = self.config.exploration, self.num_actors * self.envs_per_actor
        epsilons = ape_x_epsilons(total, base=exploration.base, spread=exploration.spread)
        return [ConstantEpsilons(part) for part in np.split(epsilons, self.num_actors)]


def make_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a resolved configuration."""
    return R2d2Experiment(config)
