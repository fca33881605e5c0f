"""Small runs and random minibatches, as the tests of the agents need them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paper_configs.refer import figure_1_ddpg, figure_3_naf, figure_4_vracer
from repro.papers.refer import experiment
from repro.papers.refer.training import ReferTraining
from repro.replay.refer import Minibatch
from repro.runtime.run_directory import RunDirectory

EXPERIMENTS = {"vracer": figure_4_vracer, "ddpg": figure_1_ddpg, "naf": figure_3_naf}


def small_config(task="InvertedPendulum", agent="vracer_refer", frames=16_000, steps_per_call=16, max_steps=200):
    config = EXPERIMENTS[agent.split("_")[0]].get_config("smoke")
    config.agent = agent
    config.frames = frames
    config.window_steps = 2_000
    config.env.task = task
    config.env.max_steps = max_steps
    config.network.units = (32, 32)
    config.learner.batch_size = 64
    config.learner.learning_rate = 1e-3
    if agent.startswith("ddpg"):
        config.learner.policy_learning_rate = 3e-4
    config.learner.steps_per_call = steps_per_call
    config.refer.beta_step_size = 1e-3
    config.memory.start_steps = 1_000
    config.memory.capacity = 8_192
    config.runtime.checkpoint_seconds = 1e9
    return config


def build(path: Path, seed: int = 1, **changes) -> ReferTraining:
    config = small_config(**changes)
    return experiment.build_training(config, seed, RunDirectory(path, config.to_dict(), seed), print)


def random_batch(size: int, states: int, actions: int, seed: int = 1) -> Minibatch:
    """Steps with ratios on both sides of any bound; every fourth is the last of an episode that terminated."""
    g = np.random.default_rng(seed)

    def normal(*shape):
        return g.normal(size=shape).astype(np.float32)

    mean, deviation = 0.3 * normal(size, actions), np.exp(0.2 * normal(size, actions))
    action = mean + deviation * normal(size, actions)
    discount = np.where(np.arange(size) % 4 == 3, 0.0, 0.9).astype(np.float32)
    next_state = np.where(discount[:, None] > 0, normal(size, states), np.float32(np.nan))
    reward, q_ret, v_tbc = normal(size), normal(size), normal(size)
    return Minibatch(normal(size, states), action, mean, deviation, reward, discount, next_state, q_ret, v_tbc)
