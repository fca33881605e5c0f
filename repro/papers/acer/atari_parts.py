"""ACER's parts for Atari: games, network and agent from a configuration of `paper_configs/acer/atari.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import ml_collections
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.environments.atari import AtariEnvironment, make_atari
from repro.networks import atari
from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.networks.initializers import distinct_seeds
from repro.networks.policy_q import PolicyQ
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers.acer.agent import AcerAgent
from repro.papers.acer.loss import LossSettings
from repro.papers.acer.unroll_agent import Learning
from repro.training.replay_trainer import ReplaySettings

SCORE_UNIT = "game score"
"""Unit of returns in records."""

PROTOCOL = "games that ended in the last {} frames of training, actions sampled"
"""Of the evaluation that training brings along (Section 4)."""

TORSOS = {"nature": atari.nature_torso, "shallow": atari.shallow_torso}

AGENT = re.compile(r"acer_ratio_(?P<ratio>\d+)(?P<way>_no_trust_region)?")
"""Names of agents say their replay ratio, and whether they do without the trust region."""


def draw_setting(config: ml_collections.ConfigDict, seed: int) -> dict[str, float]:
    """{}: every seed has the same hyper-parameters (Section 4)."""
    return {}


def replay_settings(config: ml_collections.ConfigDict) -> ReplaySettings:
    """Every batch is learned from when it comes, and as many as the agent's name says are replayed (Algorithm 1)."""
    return ReplaySettings(on_policy=True, ratio=float(_agent(config)["ratio"]))


def make_environment(config: ml_collections.ConfigDict, num_envs: int, seed: int) -> AtariEnvironment:
    return make_atari(config.env, num_envs, seed, config.runtime.env_threads)


def make_network(config: ml_collections.ConfigDict, num_actions: int, seed: int) -> PolicyQ:
    """Raises ValueError for an unknown torso."""
    if config.network.torso not in TORSOS:
        raise ValueError(f"network.torso={config.network.torso!r}: choose {' or '.join(TORSOS)}.")
    seeds = distinct_seeds(seed)
    return PolicyQ(TORSOS[config.network.torso](seed=next(seeds)), num_actions, seed=next(seeds))


def make_agent(
    config: ml_collections.ConfigDict, environment: AtariEnvironment, seed: int, setting: Mapping[str, float]
) -> AcerAgent:
    """The agent with newly initialised weights; call it under the strategy's scope."""
    learner, loss = config.learner, config.loss
    has_trust_region = _agent(config)["way"] is None
    return AcerAgent(
        environment.time_step_spec,
        environment.action_spec,
        network=make_network(config, environment.num_actions, seed),
        average_network=make_network(config, environment.num_actions, seed) if has_trust_region else None,
        learning=Learning(
            RMSPropTF1(learner.learning_rate, decay=learner.rmsprop_decay, epsilon=learner.rmsprop_epsilon),
            loss.discount,
            loss.average_decay,
            learner.clip_global_norm,
        ),
        loss_settings=LossSettings(loss.truncation, loss.delta, loss.entropy_cost),
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False, name="updates"),
    )


def make_local_policy(config: ml_collections.ConfigDict, environment: AtariEnvironment) -> tf_policy.TFPolicy:
    """A collect policy with variables of its own, which the actor overwrites with the published ones."""
    network = make_network(config, environment.num_actions, seed=0)
    network.build_variables(environment.time_step_spec.observation)
    return ActorCriticPolicy(environment.time_step_spec, environment.action_spec, network)


def describe_evaluation(config: ml_collections.ConfigDict, episodes: int) -> str:
    """The protocol of an evaluation after training, in one line."""
    return f"{episodes} games after training, 1 to {config.env.noop_max} no-ops, actions sampled"


def _agent(config: ml_collections.ConfigDict) -> re.Match[str]:
    """Raises ValueError for an agent that the experiment does not have."""
    match = AGENT.fullmatch(config.agent)
    if match is None or config.agent not in config.agents:
        raise ValueError(f"agent={config.agent!r}: choose {', '.join(config.agents)}.")
    return match
