"""Evaluations: environments are closed whatever happens, and what their protocol records."""

import json
import types

import ml_collections
import pytest

from repro.training import evaluation
from repro.training.experiment import TrainedPolicy
from repro.training.run_directory import RunDirectoryError


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


@pytest.mark.parametrize(
    ("fault", "failing", "expected"),
    [
        ("game", "pong", ["pong"]),
        ("game", "qbert", ["pong", "qbert"]),
        ("file", "pong", ["pong"]),
        ("making", "qbert", ["pong"]),
    ],
)
def test_environments_are_closed_when_an_evaluation_fails(tmp_path, monkeypatch, fault, failing, expected):
    """Also one that fails again when it is closed."""
    closed = []

    def fail(at, task, error):
        if (at, task) == (fault, failing):
            raise error

    def close(task):
        closed.append(task)
        fail("game", task, OSError("broken pipe"))

    def make(task, *_):
        fail("making", task, RuntimeError("no such game"))
        return types.SimpleNamespace(num_envs=2, close=lambda: close(task))

    def evaluate(own, *_):
        fail("game", own.config, RuntimeError("the game is gone"))
        return {"mean": 1.0}

    monkeypatch.setattr(evaluation, "evaluate_task", evaluate)
    monkeypatch.setattr(evaluation, "make_evaluation_environment", make)
    monkeypatch.setattr(evaluation, "write_json", lambda *_: fail("file", failing, RunDirectoryError("disk full")))
    experiments = {task: types.SimpleNamespace(config=task) for task in ("pong", "qbert")}
    trained = TrainedPolicy(None, make("pong"), updates=7)
    kind = RunDirectoryError if fault == "file" else evaluation.EvaluationError
    with pytest.raises(kind, match="disk full|the game is gone|no such game"):
        evaluation.evaluate_tasks(experiments, trained, 2, 1, tmp_path, together=True)
    assert closed == expected


@pytest.mark.parametrize(("name", "unit"), [("atari", "game"), ("dmlab", "episode"), ("gymnasium", "episode")])
def test_a_protocol_counts_its_games(name, unit):
    env = ml_collections.ConfigDict({"name": name, "task": "x", "noop_max": 30, "max_frames": 9})
    one, two = (evaluation.describe_games(env, episodes, "sampled actions") for episodes in (1, 2))
    assert one.startswith(f"1 {unit} ")
    assert two.startswith(f"2 {unit}s ")
    assert "after training" in one


def _run(path, rows):
    lines = [f"{updates},{frames}" for updates, frames in rows]
    path.joinpath("progress.csv").write_text("\n".join(["updates,num_env_frames", *lines]) + "\n")
    path.joinpath("checkpoints/checkpoint_000000300").mkdir(parents=True)
    return ml_collections.ConfigDict({"env": {"task": "x"}, "num_env_frames": 3_000_000})


@pytest.mark.parametrize(
    ("rows", "updates", "complete", "expected"),
    [
        ([], 1, False, "after update 1"),
        ([(100, 1_000_000), (200, 2_000_000)], 120, False, "after 1.20M of 3.00M frames"),
        ([(100, 1_000_000), (200, 2_000_000)], 120, True, "after 1.20M of 3.00M frames"),  # of a broken later one
        ([(100, 1_000_000), (200, 2_000_000)], 300, False, "after training"),  # before complete.json is there
        ([(100, 1_000_000)], 300, True, "after training"),
    ],
)
def test_a_protocol_says_when_in_training_its_games_were_played(tmp_path, rows, updates, complete, expected):
    config = _run(tmp_path, rows)
    if complete:
        (tmp_path / "complete.json").write_text("{}")
    when = evaluation.describe_time(tmp_path, config, updates)
    assert when == expected
    env = ml_collections.ConfigDict({"name": "gymnasium", "task": "x"})
    assert evaluation.describe_games(env, 2, "sampled actions", when) == f"2 episodes of x {expected}, sampled actions"


def test_a_run_that_diverged_is_at_its_end(tmp_path):
    config = _run(tmp_path, [(100, 1_000_000)])
    found = [evaluation.describe_time(tmp_path, config, 300)]
    config.num_env_frames = 30_000_000
    found.append(evaluation.describe_time(tmp_path, config, 300))
    (tmp_path / "complete.json").write_text('{"diverged": "NaN"}')
    found.append(evaluation.describe_time(tmp_path, config, 300))
    assert found == ["after training", "after 3.00M of 30.0M frames", "after training"]


def test_an_evaluation_plays_its_episodes_and_keeps_nine_digits_of_returns(monkeypatch):
    scores = (1 / 3, 2 / 3)

    def play(_, environment, episodes, seed, on_episode):
        assert (environment, seed) == (None, 1)
        games = [types.SimpleNamespace(score=score) for score in scores[:episodes]]
        for game in games:
            on_episode(game)
        return games

    monkeypatch.setattr(evaluation, "play", play)
    experiment = types.SimpleNamespace(
        config=types.SimpleNamespace(env=types.SimpleNamespace(task="pong")),
        describe_evaluation=lambda episodes, when: f"{episodes} games {when}",
        evaluation=types.SimpleNamespace(unit="points"),
    )
    found = evaluation.evaluate_task(experiment, None, None, 2, 1)
    assert found["returns"] == [0.333333333, 0.666666667]
    assert (found["protocol"], found["episodes"]) == ("2 games after training", 2)
    assert (found["unit"], found["mean"]) == ("points", 0.5)
