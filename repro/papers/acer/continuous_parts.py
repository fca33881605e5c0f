"""ACER's parts for control tasks, from a configuration of `paper_configs/acer/continuous.py`."""

from __future__ import annotations

from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.environments.acer_tasks import make_acer_task
from repro.environments.mujoco import MujocoEnvironment
from repro.networks.gaussian_actor_critic import GaussianActorCritic
from repro.networks.gaussian_policy import GaussianPolicy
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers.acer.continuous_agent import BASELINES, ContinuousAgent
from repro.papers.acer.continuous_loss import LossSettings
from repro.papers.acer.unroll_agent import Learning
from repro.training.replay_trainer import ReplaySettings

SCORE_UNIT = "episode return"
"""Unit of returns in records."""

PROTOCOL = "episodes that ended in the last {} steps of training, actions sampled"
"""Of the evaluation that training brings along."""


def draw_setting(config: ml_collections.ConfigDict, seed: int) -> dict[str, float]:
    """The hyper-parameters of a seed (Section 6): `learning_rate`, and `delta`, read where there is a trust region.

    They are the same for all agents and tasks.
    """
    generator = np.random.default_rng(seed)
    low, high = np.log(config.sweep.learning_rate)
    learning_rate = float(np.exp(generator.uniform(low, high)))
    return {"learning_rate": learning_rate, "delta": float(generator.uniform(*config.sweep.delta))}


def replay_settings(config: ml_collections.ConfigDict) -> ReplaySettings:
    """A3C learns from what is new alone, the others from what is replayed alone.

    Raises:
        ValueError: an agent that the experiment does not have.
    """
    if config.agent not in config.agents:
        raise ValueError(f"agent={config.agent!r}: choose {', '.join(config.agents)}.")
    on_policy = config.agent.endswith("a3c")
    return ReplaySettings(on_policy, 0.0 if on_policy else config.replay.ratio)


def make_environment(config: ml_collections.ConfigDict, num_envs: int, seed: int) -> MujocoEnvironment:
    return make_acer_task(config.env, num_envs, seed)


def make_network(config: ml_collections.ConfigDict, environment: MujocoEnvironment, seed: int) -> GaussianActorCritic:
    network = config.network
    advantage_units = () if config.agent in BASELINES else tuple(network.advantage_units)
    sizes = environment.state_size, environment.num_actions
    # Configs without the field, older ones and those of ReF-ER's baseline, leave the mean unbounded.
    bound = network.get("mean_bound", 0.0)
    return GaussianActorCritic(*sizes, tuple(network.units), advantage_units, seed=seed, mean_bound=bound)


def make_agent(
    config: ml_collections.ConfigDict, environment: MujocoEnvironment, seed: int, setting: Mapping[str, float]
) -> ContinuousAgent:
    """The agent with newly initialised weights; call it under the strategy's scope."""
    learner, loss = config.learner, config.loss
    return ContinuousAgent(
        environment.time_step_spec,
        environment.action_spec,
        method=config.agent,
        network=make_network(config, environment, seed),
        deviation=config.network.deviation,
        dueling_samples=config.network.dueling_samples,
        learning=Learning(
            RMSPropTF1(setting["learning_rate"], decay=learner.rmsprop_decay, epsilon=learner.rmsprop_epsilon),
            loss.discount,
            loss.average_decay,
            learner.clip_global_norm,
        ),
        loss_settings=LossSettings(loss.truncation, setting["delta"]),
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False, name="updates"),
        seed=seed,
    )


def make_local_policy(config: ml_collections.ConfigDict, environment: MujocoEnvironment) -> tf_policy.TFPolicy:
    """A collect policy with variables of its own, which the actor overwrites with the published ones."""
    network = make_network(config, environment, seed=0)
    return GaussianPolicy(
        environment.time_step_spec,
        environment.action_spec,
        network.policy_weights,
        config.network.deviation,
        mean_bound=network.mean_bound,
    )


def describe_evaluation(config: ml_collections.ConfigDict, episodes: int) -> str:
    """The protocol of an evaluation after training, in one line."""
    return f"{episodes} episodes of {config.env.max_steps} steps after training, mean actions"
