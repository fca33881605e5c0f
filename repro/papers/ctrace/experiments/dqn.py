"""DQN with C-trace or one of its baselines (Section 4.2, Appendix E.2)."""

from __future__ import annotations

from collections.abc import Sequence

import ml_collections

from repro.config import frames_per_step
from repro.environments.batched import BatchedEnvironment
from repro.networks.initializers import distinct_seeds
from repro.networks.q_network import QNetwork
from repro.networks.torsos import make_torso
from repro.papers.ctrace.experiment import SequenceExperiment
from repro.papers.ctrace.exploration import Exploration, LinearEpsilon
from repro.papers.ctrace.loss import SequenceLossSettings
from repro.replay.sequence_writer import SequenceSettings
from repro.training.experiment import Experiment
from repro.training.sequence_trainer import ReplayTrainingConfig

TORSOS = ("nature", "shallow")


class DqnExperiment(SequenceExperiment):
    """DQN with a single actor, in one environment or in several that share its epsilon."""

    CAPACITY = "frames"
    num_actors = 1

    @property
    def loss_settings(self) -> SequenceLossSettings:
        return super().loss_settings._replace(clip_error=self.config.loss.clip_error)

    @property
    def sequence_settings(self) -> SequenceSettings:
        replay = self.config.replay
        return SequenceSettings(
            steps=replay.steps,
            period=replay.period,
            lead=0,
            capacity=replay.frames // frames_per_step(self.config) // replay.period,
            priority_exponent=0.0,
        )

    @property
    def replay_training(self) -> ReplayTrainingConfig:
        return ReplayTrainingConfig(
            batch_size=self.config.learner.batch_size,
            first_frames=self.config.replay.first_frames,
            publish_period=1,
            importance_exponent=None,
        )

    def make_network(self, environment: BatchedEnvironment, seed: int) -> QNetwork:
        seeds = distinct_seeds(seed)
        torso = make_torso(self.config.network, next(seeds), TORSOS, environment.time_step_spec.observation)
        return QNetwork(torso, environment.num_actions, seed=next(seeds))

    def make_exploration(self) -> Sequence[Exploration]:
        exploration, begin = self.config.exploration, self.config.replay.first_frames
        return [LinearEpsilon(exploration.first, exploration.last, exploration.frames, begin=begin)]


def make_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a resolved configuration."""
    return DqnExperiment(config)
