"""The record of a random player: its names, its contents, and that it is not immediately stale."""

import contextlib
import importlib
import os

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import BoundedTensorSpec
from tf_agents.trajectories import time_step as ts

from repro.acting.uniform_policy import UniformPolicy
from repro.environments import make
from repro.evidence import random_player, records, rows, staleness
from repro.launch import random_job
from repro.launch.random_job import RandomJob
from repro.launch.recorded_job import Stopped
from repro.training import devices


@pytest.fixture(autouse=True)
def few_games(monkeypatch):
    monkeypatch.setattr(random_job, "EPISODES", 4)
    monkeypatch.setattr(random_job, "NUM_ENVS", 2)


@pytest.fixture(autouse=True)
def kept_to(monkeypatch):
    """The cores that a thread is kept to, in place of those of the tests after these."""
    found = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: found.append((pid, cores)))
    return found


def _record(tmp_path, module, task, seed=1):
    config = importlib.import_module(f"paper_configs.{module}").get_config("desk")
    job = RandomJob(config, task, seed, tmp_path)
    job.run([0], quiet=True)
    assert job.share_done() == 1.0
    assert job.recorded()
    return records.read_record(job.record_paths[0])


def test_a_random_player_of_a_control_task_is_recorded(tmp_path, monkeypatch):
    hidden = []
    monkeypatch.setattr(devices, "hide_gpus", lambda: hidden.append(True))
    record = _record(tmp_path, "refer.figure_4_vracer", "hopper")
    assert (record["agent"], record["task"], record["gradient_steps"]) == ("random", "Hopper", 0)
    evaluation = record["evaluation"]
    assert evaluation["episodes"] == 4
    assert len(set(evaluation["returns"])) == 4
    assert 0 < evaluation["mean"] < 60  # a hopper that falls at once
    assert record["num_env_steps"] == record["agent_steps"]
    assert hidden, "a random player computes on cores"
    assert staleness.stale_reason(record) is None
    stored = records.StoredRecord(tmp_path / "seed_1.json", record)
    (row,) = [row for row in rows.rows_for([stored]) if row.seeds]
    assert "AGENT=random TASK=Hopper" in row.command
    assert random_player.levels([record])[random_player.game_of(record)].upper > evaluation["mean"]


def test_the_same_seed_plays_the_same_games_and_another_one_others(tmp_path):
    returns = [
        _record(tmp_path / name, "refer.figure_4_vracer", "Hopper", seed)["evaluation"]["returns"]
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert returns[0] == returns[1] != returns[2]


def test_its_emulators_have_the_cores_that_it_was_given(tmp_path, monkeypatch, kept_to):
    """Their threads begin on those of the thread that makes them."""
    make_evaluation_environment = make.make_evaluation_environment

    def make_there(*arguments):
        assert kept_to == [(0, [3])]
        return make_evaluation_environment(*arguments)

    monkeypatch.setattr(make, "make_evaluation_environment", make_there)
    config = importlib.import_module("paper_configs.refer.figure_4_vracer").get_config("desk")
    RandomJob(config, "Hopper", 1, tmp_path).run([3], quiet=True)
    assert kept_to


def test_a_player_stops_in_the_midst_of_its_games(tmp_path, monkeypatch):
    config = importlib.import_module("paper_configs.refer.figure_4_vracer").get_config("desk")
    job, steps = RandomJob(config, "Hopper", 1, tmp_path), []
    make_evaluation_environment = make.make_evaluation_environment

    def make_stopping(*arguments):
        environment = make_evaluation_environment(*arguments)
        step = environment.step
        monkeypatch.setattr(environment, "step", lambda actions: steps.append(job.stop()) or step(actions))
        return environment

    monkeypatch.setattr(make, "make_evaluation_environment", make_stopping)
    with pytest.raises(Stopped):
        job.run([0], quiet=True)
    assert len(steps) == 1


def test_a_stopped_player_leaves_no_record(tmp_path):
    config = importlib.import_module("paper_configs.refer.figure_4_vracer").get_config("desk")
    job = RandomJob(config, "Hopper", 1, tmp_path)
    job.stop()
    with pytest.raises(Stopped):
        job.run([0], quiet=True)
    assert not job.recorded()


@pytest.mark.parametrize("stopped", [False, True])
def test_it_closes_its_environment(tmp_path, monkeypatch, stopped):
    closed = []

    def make_noting(config, num_envs, seed):
        environment = make_evaluation_environment(config, num_envs, seed)
        monkeypatch.setattr(environment, "close", lambda: closed.append(num_envs))
        return environment

    make_evaluation_environment = make.make_evaluation_environment
    monkeypatch.setattr(make, "make_evaluation_environment", make_noting)
    config = importlib.import_module("paper_configs.refer.figure_4_vracer").get_config("desk")
    job = RandomJob(config, "Hopper", 1, tmp_path)
    if stopped:
        job.stop()
    with pytest.raises(Stopped) if stopped else contextlib.nullcontext():
        job.run([0], quiet=True)
    assert closed == [2]


def test_a_changed_environment_makes_it_stale(tmp_path):
    record = _record(tmp_path, "refer.figure_4_vracer", "Hopper")
    record["config"]["env"]["version"] = "v4"
    assert "env.version was 'v4'" in staleness.stale_reason(record)


def _sample(spec, count=4000):
    policy = UniformPolicy(ts.time_step_spec(tf.TensorSpec([1], tf.float32)), spec)
    step = ts.restart(tf.zeros([count, 1]), count)
    return policy.action(step, (), tf.constant([3, 4], tf.int32)).action.numpy()


def test_every_action_is_as_likely_as_another():
    actions = _sample(BoundedTensorSpec((), tf.int32, 0, 3))
    np.testing.assert_allclose(np.bincount(actions) / 4000, [0.25] * 4, atol=0.03)


@pytest.mark.parametrize(("low", "high", "ends"), [(-2.0, 1.0, (-2, 1)), (-np.inf, np.inf, (-1, 1))])
def test_a_continuous_action_lies_evenly_between_its_bounds(low, high, ends):
    actions = _sample(BoundedTensorSpec((2,), tf.float32, low, high))
    assert actions.shape == (4000, 2)
    assert (actions >= ends[0]).all()
    assert (actions <= ends[1]).all()
    np.testing.assert_allclose(actions.mean(axis=0), np.mean(ends), atol=0.06)
    np.testing.assert_allclose(actions.std(axis=0), (ends[1] - ends[0]) / np.sqrt(12), rtol=0.05)
