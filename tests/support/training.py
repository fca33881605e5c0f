"""Whole IMPALA run on Catch, for tests of runtime and agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.trajectories import Trajectory
from tf_agents.trajectories.time_step import time_step_spec

from repro.acting.async_source import AsyncSource
from repro.acting.batches import GroupSizes
from repro.acting.evaluator_process import Evaluator
from repro.acting.inference import DynamicBatching
from repro.acting.lockstep_source import LockstepSource
from repro.acting.supervision import SILENT_SECONDS, Supervision, make_actors
from repro.acting.unrolls import UnrollGroup
from repro.acting.weights import WeightsPublisher
from repro.networks.actor_critic import ActorCritic
from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.optimizers.schedules import LinearOnFrames
from repro.papers.impala.agent import ImpalaAgent
from repro.papers.impala.loss import VtraceLossSettings
from repro.replay.mixed_batches import MixedBatches
from repro.replay.unrolls import UnrollReplay
from repro.training.learner import Learner
from repro.training.mixed_replay_trainer import MixedReplayTrainer
from repro.training.replay_trainer import ReplaySettings, ReplayTrainer
from repro.training.trainer import EpisodeLog, RunSettings, Trainer, Update
from repro.training.unroll_trainer import UnrollTrainer
from tests.support.catch import Catch

SETTINGS = VtraceLossSettings("vtrace", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.01, 0.5, True)
UNROLL = 10


def dense_torso(seed: int) -> tf.keras.layers.Layer:
    """Returns a torso from uint8 [N, H, W, C] to float32 [N, 32]."""
    return tf.keras.Sequential(
        [
            tf.keras.layers.Lambda(lambda x: tf.cast(x, tf.float32) / 255.0),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(32, "relu", kernel_initializer=tf.keras.initializers.GlorotUniform(seed=seed)),
        ]
    )


def make_network(seed: int) -> ActorCritic:
    return ActorCritic(dense_torso(seed), 3, seed=seed)


def make_policy(environment: Catch, seed: int = 0) -> ActorCriticPolicy:
    """Returns a policy with its own network."""
    network = make_network(seed)
    network.build_variables(environment.time_step_spec.observation)
    return ActorCriticPolicy(environment.time_step_spec, environment.action_spec, network)


class ReplayImpala(ImpalaAgent):
    """IMPALA whose on-policy update uses the present weights; V-trace corrects for weights that acted before."""

    def train_on_policy(self, experience: Trajectory, acting: Sequence[tf.Tensor]) -> tf_agent.LossInfo:
        assert len(acting) == len(self.acting_variables)
        return self.train(experience)


def make_agent(
    environment: Catch,
    seed: int = 0,
    settings: VtraceLossSettings = SETTINGS,
    learning_rate: float = 0.005,
    updates: int = 10_000,
    kind: type[ImpalaAgent] = ReplayImpala,
    clip_global_norm: float = 40.0,
) -> ImpalaAgent:
    return kind(
        environment.time_step_spec,
        environment.action_spec,
        network=make_network(seed),
        optimizer=RMSPropTF1(LinearOnFrames(learning_rate, 0.0, updates, 1), epsilon=0.01),
        discount=0.99,
        loss_settings=settings,
        clip_global_norm=clip_global_norm,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False),
    )


def make_recurrent_agent(seed: int = 0) -> ImpalaAgent:
    """Returns an agent with an LSTM of four units that reads frames of Catch, the last action and the last reward."""
    frame = Catch(1, 0).time_step_spec.observation
    last = {"last_action": tf.TensorSpec((), tf.int32), "last_reward": tf.TensorSpec((), tf.float32)}
    return ImpalaAgent(
        time_step_spec({"frame": frame} | last),
        Catch(1, 0).action_spec,
        network=ActorCritic(dense_torso(seed), 3, 4, seed=seed),
        optimizer=RMSPropTF1(0.005, epsilon=0.01),
        discount=0.99,
        loss_settings=SETTINGS,
        clip_global_norm=40.0,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False),
    )


def make_loop(
    checkpoints: Path,
    *,
    updates: int,
    schedule: str = "lockstep",
    lag: int = 1,
    seed: int = 0,
    num_actors: int = 2,
    envs_per_actor: int = 8,
    batch_size: int = 8,
    warn: object = print,
    silent_seconds: float = SILENT_SECONDS,
    dynamic_batching: bool = False,
    replay_settings: ReplaySettings | None = None,
    num_replayed: int = 0,
    capacity: int = 100,
    delay: int = 0,
    make_evaluator: Callable[[ImpalaAgent], Evaluator | None] = lambda agent: None,
    **agent_arguments: object,
) -> tuple[UnrollTrainer, EpisodeLog, ImpalaAgent]:
    environments = [Catch(envs_per_actor, seed + 100 * i) for i in range(num_actors)]
    agent = make_agent(environments[0], seed, **agent_arguments)
    learner = Learner(agent, tf.distribute.get_strategy())
    weights = WeightsPublisher(agent.collect_policy.variables(), acting=agent.acting_variables, delay=delay)
    episodes = EpisodeLog()
    shared = None
    if dynamic_batching:
        shared = DynamicBatching(make_policy(environments[0]), weights, num_actors * envs_per_actor, seed)
    actors = make_actors(
        environments,
        lambda index, number: Catch(envs_per_actor, number),
        lambda environment, _: shared or make_policy(environment),
        weights,
        UNROLL,
        [seed + i for i in range(num_actors)],
        episodes.append,
        Supervision(warn, checkpoints / "actors", silent_seconds),
    )
    sizes = GroupSizes(envs_per_actor, batch_size)

    def make_group() -> UnrollGroup:
        return UnrollGroup(agent.collect_data_spec, sizes.group, UNROLL)

    to_device = None if num_replayed else learner.to_device
    if schedule == "lockstep":
        source = LockstepSource(actors, make_group, sizes, lag, to_device)
    else:
        source = AsyncSource(actors, make_group, sizes, 1, to_device, own_memory=schedule == "a3c")
    frames = batch_size * UNROLL
    run = RunSettings(updates * frames, "frames", checkpoints, 1e9, warn, make_evaluator(agent))
    parts = (learner, source, weights, episodes, run, frames)
    rng = np.random.default_rng(seed)
    if num_replayed:
        batches = MixedBatches(agent.collect_data_spec, UNROLL, capacity, num_replayed)
        return MixedReplayTrainer(*parts, batches, rng), episodes, agent
    if replay_settings is None:
        return UnrollTrainer(*parts, at_acting_weights=schedule == "a3c"), episodes, agent
    replay = UnrollReplay(agent.collect_data_spec, UNROLL, capacity) if replay_settings.ratio else None
    return ReplayTrainer(*parts, replay, replay_settings, rng), episodes, agent


def save_elsewhere(loop: Trainer, folder: Path) -> None:
    """Saves a run to another folder, where another run can resume it; the run itself continues."""
    own = loop._run
    loop._run = own._replace(checkpoints=folder)
    loop.save()
    loop._run = own


def games_of(updates: Sequence[Update], episodes: EpisodeLog) -> list[object]:
    """Returns what updates log about finished games, and what a checkpoint would keep of them."""
    return [[(update.mean_return, update.games) for update in updates], episodes.get_state()]


def weights_of(agent: ImpalaAgent) -> list[np.ndarray]:
    """Returns weights of the network, optimiser slots and counters."""
    return [variable.numpy() for variable in [*agent.variables, *agent._optimizer.variables]]
