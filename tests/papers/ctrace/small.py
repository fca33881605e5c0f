"""Small agents of C-trace on Catch, batches of sequences, and a whole run with its replay."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import reverb
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory
from tf_agents.trajectories import time_step as ts

from repro.acting.actor import Actor
from repro.acting.actor_pool import ActorPool, LocalActorPool
from repro.acting.actor_processes import ActorProcesses
from repro.acting.batches import GroupSizes
from repro.acting.lockstep_source import LockstepSource
from repro.acting.machines import own_machine
from repro.acting.remote import PulledWeights, RemoteWeights, Reporter, make_tables
from repro.acting.remote_actor import end_with, run_actor
from repro.acting.remote_actor_pool import RemoteActorPool
from repro.acting.supervision import SupervisedActors, Supervision
from repro.acting.unrolls import UnrollGroup
from repro.acting.weights import WeightsPublisher
from repro.networks.epsilon_greedy_policy import EpsilonGreedyPolicy
from repro.networks.q_network import QNetwork
from repro.networks.recurrent_q import RecurrentQ
from repro.papers.ctrace.agent import SCALARS, CtraceAgent, OptimizationConfig
from repro.papers.ctrace.exploration import LinearEpsilon
from repro.papers.ctrace.initial_priority import InitialPriority
from repro.papers.ctrace.loss import SequenceLossSettings
from repro.replay.sequence_memory import SequenceMemory
from repro.replay.sequence_writer import SequenceSettings
from repro.replay.sequences import SequenceReplay
from repro.training.learner import Learner
from repro.training.sequence_trainer import Replay, ReplayTrainingConfig, SequenceTrainer
from repro.training.trainer import EpisodeLog, RunSettings
from tests.support.catch import Catch
from tests.support.forked_train import ForkedCall
from tests.support.training import dense_torso

GAMMA, N, STEPS, BURN_IN, ENVIRONMENTS = 0.9, 3, 5, 2, 4
ACTORS, FIRST_FRAMES = 2, 100


def make_agent(
    method: str = "c_trace",
    seed: int = 0,
    *,
    recurrent: bool = False,
    learning_rate: float = 0.01,
    target_period: int = 3,
    time_reduction: str = "mean",
    clip_error: float = 1.0,
    clip_global_norm: float = 0.0,
) -> CtraceAgent:
    environment = Catch(1, 0)

    def make_network():
        torso = dense_torso(seed)
        return RecurrentQ(torso, 3, 8, 8, seed=seed) if recurrent else QNetwork(torso, 3, seed=seed)

    spec = environment.time_step_spec
    if recurrent:
        observation = {
            "frame": spec.observation,
            "last_action": tf.TensorSpec((), tf.int32),
            "last_reward": tf.TensorSpec((), tf.float32),
        }
        spec = ts.time_step_spec(observation)
    return CtraceAgent(
        spec,
        environment.action_spec,
        network=make_network(),
        target_network=make_network(),
        optimization=OptimizationConfig(
            tf.keras.optimizers.Adam(learning_rate),
            target_period,
            GAMMA**N,
            clip_global_norm,
            BURN_IN if recurrent else 0,
            time_reduction=time_reduction,
        ),
        loss_settings=SequenceLossSettings(method, N, GAMMA, clip_error, rescaling=1e-3 if recurrent else None),
        evaluation_epsilon=0.0,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False),
    )


def random_batch(agent: CtraceAgent, batch: int, seed: int) -> Trajectory:
    """Sequences of random observations and actions, with ends; the first row is no boundary."""
    rng = np.random.default_rng(seed)
    rows = STEPS + 1 + agent._optimization.burn_in

    def sample(spec):
        shape = (batch, rows, *spec.shape)
        return rng.normal(size=shape).astype(spec.dtype.as_numpy_dtype)

    sampled = tf.nest.map_structure(sample, agent.collect_data_spec)
    step_type = np.where(rng.random((batch, rows)) < 0.2, StepType.LAST, StepType.MID).astype(np.int32)
    step_type[:, 0] = StepType.FIRST
    info = sampled.policy_info | {
        "greedy_action": rng.integers(0, 3, (batch, rows), np.int32),
        "epsilon": rng.choice(np.float32([0.1, 0.6]), (batch, rows)),
    }
    if "core_state" in info:
        info["core_state"] = tuple(part[:, 0] for part in info["core_state"])
    observation = sampled.observation
    if isinstance(observation, dict):
        observation = observation | {"last_action": rng.integers(0, 3, (batch, rows), np.int32)}
    return sampled._replace(
        step_type=step_type,
        observation=observation,
        action=rng.integers(0, 3, (batch, rows), np.int32),
        discount=(rng.random((batch, rows)) > 0.2).astype(np.float32),
        policy_info=info,
    )


class CountingCatch(Catch):
    """Keeps the number of steps that its games were played in a file."""

    def __init__(self, num_envs: int, seed: int, file: Path) -> None:
        super().__init__(num_envs, seed)
        self._file, self._steps = os.open(file, os.O_CREAT | os.O_WRONLY), 0

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self._steps += self.num_envs
        os.pwrite(self._file, f"{self._steps:12d}".encode(), 0)  # at once: the process may be ended at any time
        return super().step(actions)


def initial_priority(n: int) -> InitialPriority | None:
    """That of `make_loop`."""
    return InitialPriority(n, GAMMA, 1e-3, 0.9, 0) if n else None


def make_policy(environment: Catch, epsilon: tf.Variable | float) -> EpsilonGreedyPolicy:
    """A collect policy with variables of its own."""
    network = QNetwork(dense_torso(0), 3, seed=0)
    network.build_variables(environment.time_step_spec.observation)
    return EpsilonGreedyPolicy(environment.time_step_spec, environment.action_spec, network, epsilon)


def make_loop(
    folder: Path,
    *,
    updates: int,
    method: str = "c_trace",
    seed: int = 1,
    steps_per_update: int = 5,
    prioritised: bool = False,
    schedule: str = "lockstep",
    period: int = 1,
    capacity: int = 2000,
    initial_n: int = N,
    publish_period: int = 1,
    replay_seed: int = 1,
    frames_per_step: int = 1,
    warn: object = print,
) -> tuple[SequenceTrainer, EpisodeLog, CtraceAgent]:
    """A run on Catch, with a Reverb server where actors are in processes.

    The steps that were played are in files `played_*` of its folder. `initial_n` is that of `InitialPriority`, 0 gives
    all new sequences 1. `frames_per_step` is what actors in processes count a step for; other values than 1 are wrong.
    """
    agent = make_agent(method, seed, target_period=20)
    learner, spec = Learner(agent, tf.distribute.get_strategy()), agent.collect_data_spec
    variables, episodes = agent.collect_policy.variables(), EpisodeLog()
    watched = Supervision(warn, folder / "actors", 600.0)
    settings = SequenceSettings(STEPS, period, 0, capacity, 0.6 if prioritised else 0.0)
    actor_pool: ActorPool
    replay: Replay
    if schedule == "lockstep":
        weights, exploration = WeightsPublisher(variables), LinearEpsilon(1.0, 0.1, 4000, begin=FIRST_FRAMES)
        folder.mkdir(exist_ok=True)
        environment = CountingCatch(ENVIRONMENTS, seed, folder / "played_local")
        policy = make_policy(environment, exploration.epsilon)
        actor = Actor(environment, policy, weights, steps_per_update, seed, episodes.append)

        def remake(index: int, start: int) -> Actor:
            again = CountingCatch(ENVIRONMENTS, seed + start, folder / f"played_local_{start}")
            again_policy = make_policy(again, exploration.epsilon)
            return Actor(again, again_policy, weights, steps_per_update, seed + start, episodes.append)

        source = LockstepSource(
            SupervisedActors([actor], remake, watched),
            lambda: UnrollGroup(spec, ENVIRONMENTS, steps_per_update),
            GroupSizes(ENVIRONMENTS, ENVIRONMENTS),
            1,
            to_device=None,
        )
        rng = np.random.default_rng(replay_seed)
        replay = SequenceMemory(spec, settings, ENVIRONMENTS, steps_per_update, rng, initial_priority(initial_n))
        actor_pool = LocalActorPool(source, replay, exploration.set_frames)
    else:
        weights = RemoteWeights(variables)
        replay = SequenceReplay(spec, settings, folder / "saving", make_tables(variables, waiting_unrolls=ACTORS))

        def launch(index: int, start: int, address: str) -> ForkedCall:
            own = (address, index, start, steps_per_update, period, initial_n, folder / f"played_{index}_{start}")
            return ForkedCall(play_catch, own, watched.logs / f"actor_{index}.txt")

        launch.home = None
        actors = ActorProcesses(launch, ACTORS, watched)
        actor_pool = RemoteActorPool(replay, weights, actors, ENVIRONMENTS // ACTORS, episodes.append, frames_per_step)
    frames = ENVIRONMENTS * steps_per_update
    loop = SequenceTrainer(
        learner,
        actor_pool,
        weights,
        episodes,
        RunSettings(updates * frames, "frames", folder / "checkpoints", 1e9, warn),
        frames,
        replay,
        ReplayTrainingConfig(16, FIRST_FRAMES, publish_period, 0.4 if prioritised else None),
        SCALARS,
    )
    return loop, episodes, agent


def play_catch(address: str, index: int, start: int, steps: int, period: int, initial_n: int, file: Path) -> None:
    """What an actor of `make_loop` with processes does."""
    end_with(address)
    environment = CountingCatch(ENVIRONMENTS // ACTORS, 100 * index + start, file)
    policy, machine = make_policy(environment, 0.5), own_machine(address)
    reporter = Reporter(reverb.Client(address), index, start, machine)
    actor = Actor(environment, policy, PulledWeights(address), steps, index, reporter.append)
    settings = SequenceSettings(STEPS, period, 0, 1, 0.0)  # capacity and exponent are the server's
    run_actor(actor, policy.trajectory_spec, settings, initial_priority(initial_n), reporter, address, steps)
