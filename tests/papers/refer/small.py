"""Small runs and random minibatches for the tests of the agents."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paper_configs.refer import figure_1_ddpg, figure_3_naf, figure_4_vracer, recurrent
from repro.papers import find_experiment
from repro.papers.refer.control_trainer import ControlTrainer
from repro.papers.refer.ddpg import Ddpg, DdpgSettings
from repro.papers.refer.naf import Naf, NafSettings
from repro.papers.refer.training import ReferTrainer
from repro.replay.refer import Minibatch
from repro.training.run_directory import RunDirectory

S, A, B = 5, 2, 12
SCALES = ((8, 8), 6**0.5, 0.1)
AGENTS = {
    "ddpg": (Ddpg, DdpgSettings(*SCALES, 0.2, 1e-2, 1e-3, 1e-4, 0.01, "refer")),
    "naf": (Naf, NafSettings(*SCALES, 0.2, 1e-2, 0.01, "refer")),
}
EXPERIMENTS = {"vracer": figure_4_vracer, "ddpg": figure_1_ddpg, "naf": figure_3_naf, "lstm": recurrent}


def small_config(
    task="InvertedPendulum",
    agent="vracer_refer",
    frames=10_000,
    steps_per_call=16,
    max_steps=200,
    time_steps=1.0,
    advantage="none",
    schedule="serial",
):
    config = EXPERIMENTS[agent.split("_")[0]].get_config("smoke")
    config.agent = agent
    config.num_env_steps = frames
    config.window_steps = 2_000
    config.env.task = task
    config.env.max_steps = max_steps
    config.network.units = (32, 32)
    if agent.startswith("vracer"):
        config.network.advantage = advantage
    config.learner.batch_size = 64
    config.learner.learning_rate = 1e-3
    if agent.startswith("lstm"):
        config.network.lstm_units = (32,)
        config.network.window = 4
    if agent.startswith("ddpg"):
        config.learner.policy_learning_rate = 3e-4
    config.learner.steps_per_call = steps_per_call
    if agent.endswith(("_per", "_per_proportional")):  # has its own
        config.variants[agent].learner.steps_per_call = steps_per_call
    config.learner.time_steps_per_gradient = time_steps
    config.refer.beta_step_size = 1e-3
    config.memory.start_steps = 1_000
    config.memory.capacity = 8_192
    config.runtime.schedule = schedule
    config.runtime.checkpoint_seconds = 1e9
    if frames < 1_000:  # a run so short would not make up for its compilation
        config.runtime.compile = "graph"
    return config


def build(path: Path, seed: int = 1, **changes) -> ReferTrainer:
    config = small_config(**changes)
    return find_experiment(config).build_trainer(seed, RunDirectory(path, config.to_dict(), seed), print)


def interrupt_at(training: ControlTrainer, step: int) -> list[int]:
    """Calls `interrupt` in an environment step, counted from 1; returns the numbers of all, also of those to come."""
    numbers: list[int] = []
    make_step = training._environment.step

    def noting(actions):
        numbers.append(len(numbers) + 1)
        if numbers[-1] == step:
            training.interrupt()
        return make_step(actions)

    training._environment.step = noting
    return numbers


def random_batch(size: int, states: int, actions: int, seed: int = 1) -> Minibatch:
    """Steps with ratios on both sides of any bound; every fourth is the last of an episode that terminated."""
    g = np.random.default_rng(seed)

    def normal(*shape):
        return g.normal(size=shape).astype(np.float32)

    mean, std = 0.3 * normal(size, actions), np.exp(0.2 * normal(size, actions))
    action = mean + std * normal(size, actions)
    discount = np.where(np.arange(size) % 4 == 3, 0.0, 0.9).astype(np.float32)
    next_state = np.where(discount[:, None] > 0, normal(size, states), np.float32(np.nan))
    reward, q_ret, v_tbc = normal(size), normal(size), normal(size)
    return Minibatch(normal(size, states), action, mean, std, reward, discount, next_state, q_ret, v_tbc)


def agent_of(name, steps_per_call=1, compile_with_xla=False, **changes):
    kind, settings = AGENTS[name]
    return kind(S, A, settings._replace(**changes), np.random.default_rng(0), steps_per_call, compile_with_xla)


def scalars(k=1, beta=0.7, c_max=3.0, rate=1e-2):
    return np.full(k, beta), np.full(k, c_max), np.full(k, rate)


def own_batch(agent, size=B):
    """A batch whose behaviour is the agent's present policy."""
    batch = random_batch(size, S, A)
    mean = agent.forward(batch.state)[1].numpy()
    std = np.full((size, A), 0.2, np.float32)
    noise = np.random.default_rng(4).normal(size=(size, A)).astype(np.float32)
    return batch._replace(mean=mean, std=std, action=mean + std * noise)
