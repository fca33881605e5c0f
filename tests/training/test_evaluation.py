"""What an evaluation leaves behind."""

import json
import types

import ml_collections
import pytest

from repro.training import evaluation
from repro.training.experiment import TrainedPolicy


@pytest.mark.parametrize("tasks", [("pong",), ("pong", "qbert")])
def test_the_environment_of_each_task_is_closed(tmp_path, monkeypatch, tasks):
    closed = []

    def make(task, *_):
        return types.SimpleNamespace(num_envs=2, close=lambda: closed.append(task))

    monkeypatch.setattr(evaluation, "evaluate_task", lambda *_: {"mean": 1.0})
    monkeypatch.setattr(evaluation, "make_evaluation_environment", make)
    experiments = {task: types.SimpleNamespace(config=task) for task in tasks}
    several = len(tasks) > 1
    trained = TrainedPolicy(None, make(tasks[0]), updates=7)
    evaluation.evaluate_tasks(experiments, trained, 2, 1, tmp_path, together=several)
    assert closed == list(tasks)
    assert json.loads((tmp_path / "evaluation.json").read_text())["updates"] == 7


@pytest.mark.parametrize(("name", "unit"), [("atari", "game"), ("dmlab", "episode"), ("gymnasium", "episode")])
def test_a_protocol_counts_its_games(name, unit):
    env = ml_collections.ConfigDict({"name": name, "task": "x", "noop_max": 30, "max_frames": 9})
    one, two = (evaluation.describe_games(env, episodes, "sampled actions") for episodes in (1, 2))
    assert one.startswith(f"1 {unit} ")
    assert two.startswith(f"2 {unit}s ")
    assert "after training" in one


def test_returns_of_an_evaluation_keep_nine_digits(monkeypatch):
    games = [types.SimpleNamespace(score=score) for score in (1 / 3, 2 / 3)]
    monkeypatch.setattr(evaluation, "play", lambda *_: games)
    experiment = types.SimpleNamespace(
        config=types.SimpleNamespace(env=types.SimpleNamespace(task="pong")),
        describe_evaluation=lambda episodes: f"{episodes} games",
        evaluation=types.SimpleNamespace(unit="points"),
    )
    found = evaluation.evaluate_task(experiment, None, None, 2, 1)
    assert found["returns"] == [0.333333333, 0.666666667]
    assert (found["protocol"], found["episodes"], found["unit"], found["mean"]) == ("2 games", 2, "points", 0.5)
