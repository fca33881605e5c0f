"""Runs of DQN and R2D2 as their configs describe them: the memory of their replay."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from paper_configs.ctrace import gymnasium
from repro import machine_memory
from repro.config import resolve
from repro.papers import find_experiment
from repro.papers.ctrace import experiment as experiment_module
from repro.replay.sequence_memory import SequenceMemory
from repro.training import actor_experiment, devices
from repro.training.run_directory import RunDirectory


def build(folder, agent, **replay):
    config = gymnasium.get_config("smoke")
    config.agent, config.env.task = agent, "repro.regression.environments:repro/Catch-v0"
    config = resolve(config)
    config.replay.update(replay)
    experiment = find_experiment(config)
    return experiment, experiment.build_trainer(1, RunDirectory(folder, config.to_dict(), 1), print)


@pytest.mark.parametrize(("agent", "field"), [("retrace", "frames"), ("r2d2_retrace", "sequences")])
def test_a_replay_that_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch, agent, field):
    experiment, trainer = build(tmp_path / "fits", agent)
    size = experiment.config.replay[field]
    spec, settings = trainer._learner.agent.collect_data_spec, experiment.sequence_settings
    num_envs, steps = experiment.num_actors * experiment.envs_per_actor, experiment.config.learner.steps_per_update
    needed = trainer._replay.nbytes(spec, settings, num_envs, steps)
    trainer.close()
    monkeypatch.setattr(machine_memory, "available_bytes", lambda: needed)
    build(tmp_path / "just", agent)[1].close()
    monkeypatch.setattr(machine_memory, "available_bytes", lambda: needed - 1)
    with pytest.raises(ValueError, match=rf"replay\.{field}={size} takes .* choose at most {size - 1}\."):
        build(tmp_path / "not", agent)


@pytest.mark.parametrize(("agent", "field"), [("retrace", "frames"), ("r2d2_retrace", "sequences")])
def test_a_replay_that_the_system_does_not_grant_is_refused(tmp_path, monkeypatch, agent, field):
    def refuse(*args):
        raise MemoryError("Unable to allocate")

    monkeypatch.setattr(experiment_module, "SequenceMemory", type("Refused", (SequenceMemory,), {"__init__": refuse}))
    with pytest.raises(ValueError, match=rf"replay\.{field}=(\d+): the system cannot allocate .* choose at most"):
        build(tmp_path, agent)


def test_a_batch_that_replicas_cannot_share_is_refused(tmp_path, monkeypatch):
    strategy = SimpleNamespace(scope=contextlib.nullcontext, num_replicas_in_sync=3)
    monkeypatch.setattr(devices, "make_strategy", lambda: strategy)
    with pytest.raises(ValueError, match=r"learner\.batch_size=8 must be a multiple of the number of GPUs, 3: "):
        build(tmp_path, "retrace")


def test_only_the_environments_of_actors_stay_open(tmp_path, monkeypatch):
    made, closed = [], []

    def make_noting(*args, **kwargs):
        environment = make_environment(*args, **kwargs)
        made.append(environment)
        monkeypatch.setattr(environment, "close", lambda: closed.append(environment))
        return environment

    make_environment = actor_experiment.make_environment
    monkeypatch.setattr(actor_experiment, "make_environment", make_noting)
    experiment, trainer = build(tmp_path, "retrace")
    assert len(made) - len(closed) == experiment.num_actors
    trainer.close()
    assert set(map(id, made)) == set(map(id, closed))


@pytest.mark.parametrize(("agent", "num_envs"), [("retrace", 1), ("double_dqn", 3)])
def test_dqn_plays_as_many_environments_as_are_given(tmp_path, agent, num_envs):
    config = gymnasium.get_config("smoke")
    config.agent, config.env.task = agent, "repro.regression.environments:repro/Catch-v0"
    config.runtime.envs_per_actor, config.runtime.compile = num_envs, "graph"
    config.learner.steps_per_update, config.replay.first_frames, config.num_env_steps = 2, 60, 120
    config = resolve(config)
    trainer = find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)
    updates = list(trainer)
    trainer.close()
    assert len(updates) == len({update.frames for update in updates}) == 120 // (2 * num_envs)
    assert updates[-1].frames == 120


@pytest.mark.parametrize(
    ("agent", "field", "size", "held"),
    [("retrace", "frames", 31, 7), ("r2d2_retrace", "sequences", 0, 0), ("double_dqn", "frames", 127, 127)],
)
def test_a_replay_of_less_than_a_batch_is_refused(tmp_path, agent, field, size, held):
    with pytest.raises(ValueError, match=rf"^replay\.{field}={size} holds {held} sequences, less than one batch \("):
        build(tmp_path, agent, **{field: size})


@pytest.mark.parametrize(
    ("agent", "section", "field", "value", "sentence"),
    [
        ("retrace", "loss", "discount", 1.0, "choose a number that is 0 or more and below 1"),
        ("n_step_5", "loss", "n", 17, "sequences have replay.steps=16 steps; choose at most 16"),
        ("r2d2_n_step_5", "loss", "n", 11, "sequences have replay.steps=10 steps; choose at most 10"),
        ("retrace", "replay", "first_frames", 10_000, "the budget, num_env_steps=10000, ends before"),
        ("retrace", "replay", "steps", 1_251, "in the budget, num_env_steps=10000, each of 8 environments plays 1250"),
        ("r2d2_retrace", "network", "core_units", 0, "choose 1 or more"),
        ("r2d2_retrace", "replay", "first_frames", 10**9, "the budget, num_env_steps=10000, ends before"),
    ],
)
def test_settings_that_do_not_fit_each_other_are_refused(tmp_path, agent, section, field, value, sentence):
    config = gymnasium.get_config("smoke")
    config.agent = agent
    config = resolve(config)
    config[section][field] = value
    with pytest.raises(ValueError, match=rf"^{section}\.{field}={value}: {sentence}"):
        find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)


@pytest.mark.parametrize(("schedule", "size"), [("lockstep", 1.0), ("processes", -1.0), ("processes", float("inf"))])
def test_a_replay_in_a_process_of_its_own_needs_actors_in_processes(tmp_path, schedule, size):
    config = gymnasium.get_config("smoke")
    config.agent = "r2d2_retrace"
    config = resolve(config)
    config.runtime.schedule, config.runtime.replay_gb = schedule, size
    with pytest.raises(ValueError, match=rf"^runtime\.replay_gb={size:g}: choose 0 .* with .*=processes or --cluster"):
        find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)
