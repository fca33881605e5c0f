"""A small V-RACER run, as the tests of its parts need it."""

from __future__ import annotations

from pathlib import Path

from paper_configs.refer import figure_4_vracer
from repro.papers.refer import experiment
from repro.papers.refer.training import ReferTraining
from repro.runtime.run_directory import RunDirectory


def small_config(task="InvertedPendulum", agent="vracer_refer", frames=16_000, steps_per_call=16, max_steps=200):
    config = figure_4_vracer.get_config("smoke")
    config.agent = agent
    config.frames = frames
    config.window_steps = 2_000
    config.env.task = task
    config.env.max_steps = max_steps
    config.network.units = (32, 32)
    config.learner.batch_size = 64
    config.learner.learning_rate = 1e-3
    config.learner.steps_per_call = steps_per_call
    config.refer.beta_step_size = 1e-3
    config.memory.start_steps = 1_000
    config.memory.capacity = 8_192
    config.runtime.checkpoint_seconds = 1e9
    return config


def build(path: Path, seed: int = 1, **changes) -> ReferTraining:
    config = small_config(**changes)
    return experiment.build_training(config, seed, RunDirectory(path, config.to_dict(), seed), print)
