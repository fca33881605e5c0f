"""What an evaluation leaves behind."""

import json
import types

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
