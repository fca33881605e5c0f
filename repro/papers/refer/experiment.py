"""Base class of ReF-ER's experiments: one control task, evaluated on the last episodes of training."""

from __future__ import annotations

import abc
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import ml_collections
import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.environments.batched import VectorEnvironment
from repro.environments.make import make_vector_environment
from repro.training import checkpoint
from repro.training.evaluation import describe_games, describe_window, score_unit
from repro.training.experiment import Evaluation, TrainedPolicy, Warn
from repro.training.trailing_returns import TrailingReturns
from repro.training.trainer import EpisodeLog

EPISODES = 10
"""Number of episodes of an evaluation after training."""


class Checkpointed(Protocol):
    """The part of an agent's interface that experiments use."""

    def checkpoint(self) -> tf.train.Checkpoint: ...


Agent = TypeVar("Agent", bound=Checkpointed)


class ControlExperiment(abc.ABC, Generic[Agent]):
    """Builds environments, the evaluation on training episodes, and the trained policy.

    Args:
        config: resolved configuration of `paper_configs/refer`.
    """

    def __init__(self, config: ml_collections.ConfigDict) -> None:
        self.config = config

    @abc.abstractmethod
    def make_agent(self, environment: VectorEnvironment, rng: np.random.Generator) -> Agent:
        """Returns the agent with newly initialised weights.

        Raises:
            ValueError: a field has an impossible value; the message names it.
        """

    @abc.abstractmethod
    def make_policy(self, environment: VectorEnvironment, agent: Agent) -> tf_policy.TFPolicy:
        """Returns the policy that takes the mean action."""

    def load_policy(self, checkpoints: Path, num_envs: int, seed: int, warn: Warn) -> TrainedPolicy:
        environment = self.make_environment(num_envs, seed)
        agent = self.make_agent(environment, np.random.default_rng(0))
        updates = checkpoint.restore_trained(checkpoints, agent.checkpoint(), warn)
        return TrainedPolicy(self.make_policy(environment, agent), environment, updates)

    @property
    def evaluation(self) -> Evaluation:
        """Settings of `repro.evaluate`; the paper's own evaluation needs no further episodes."""
        return Evaluation(EPISODES, EPISODES, score_unit(self.config.env))

    def describe_evaluation(self, episodes: int, when: str) -> str:
        return describe_games(self.config.env, episodes, "mean actions", when)

    def make_environment(self, num_envs: int, seed: int) -> VectorEnvironment:
        return make_vector_environment(self.config, num_envs, seed, is_continuous=True)

    def make_environment_and_rng(self, seed: int) -> tuple[VectorEnvironment, np.random.Generator]:
        """Returns a run's environment, and the rng for its weights, actions and minibatches."""
        environment_seed, agent_seed = np.random.SeedSequence(seed).generate_state(2)
        return self.make_environment(1, int(environment_seed)), np.random.default_rng(int(agent_seed))

    def remake_environment(self, seed: int, restart: int) -> VectorEnvironment:
        """Returns a run's replacement for a failed environment, given the number of environments before it."""
        (environment_seed,) = np.random.SeedSequence([seed, restart]).generate_state(1)
        return self.make_environment(1, int(environment_seed))

    def make_episode_log(self) -> EpisodeLog:
        return EpisodeLog(
            TrailingReturns(self.config.window_steps, describe_window(self.config.env), self.evaluation.unit)
        )

    @property
    def use_xla(self) -> bool:
        """Whether gradient steps are compiled with XLA.

        Raises:
            ValueError: `runtime.compile` is neither xla nor graph.
        """
        compile_ = self.config.runtime.compile
        if compile_ not in ("xla", "graph"):
            raise ValueError(f"runtime.compile={compile_!r}: choose xla or graph.")
        return compile_ == "xla"
