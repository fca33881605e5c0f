"""One agent for several games: what its runs learn from, log, restore and evaluate."""

from __future__ import annotations

import collections
import json
import math
import types

import numpy as np
import pytest

from paper_configs.impala import (
    atari_57,
    atari_shallow,
    dmlab_30,
    dmlab_30_experts,
    dmlab_population,
    dmlab_table1_throughput,
    dmlab_table2,
)
from repro.config import budget, flatten, of_task, resolve, tasks, total_budget
from repro.environments.dmlab_levels import DMLAB30
from repro.environments.names import configs_by_task
from repro.evidence import published
from repro.evidence.records import plain_config
from repro.evidence.staleness import config_difference
from repro.papers import find_experiment
from repro.training import evaluation
from repro.training.experiment import TrainedPolicy
from repro.training.run_directory import RunDirectory
from tests.support.training import save_elsewhere

UPDATES = 8


def small_config(*names: str):
    config = atari_57.get_config("smoke")
    config.env.tasks = names or ("breakout", "pong")
    config.env.update({"max_frames": 400, "noop_max": 3})
    config.network.torso = "shallow"
    config.learner.update({"batch_size": 4, "unroll_length": 16, "learning_rate": 3e-3})
    config.runtime.update({"num_actors": 1, "envs_per_actor": 4, "schedule": "lockstep", "compile": "graph"})
    config.num_env_frames = UPDATES * 4 * 16 * 4 // 2  # of each game
    return config


def build(config, folder):
    return find_experiment(config).build_trainer(3, RunDirectory(folder, config.to_dict(), 3), print)


def train(trainer, midway=None):
    """Trains and closes, and returns what each update gave; a folder gets what is saved after half of them."""
    updates = []
    for update in trainer:
        updates.append(update)
        if midway and update.updates == UPDATES // 2:
            save_elsewhere(trainer, midway)
    trainer.close()
    return updates


def weights(trainer):
    return [x.numpy() for x in trainer._learner.agent.variables]


@pytest.mark.slow
def test_a_run_that_was_interrupted_is_the_same_to_the_bit_and_logs_each_game(tmp_path):
    whole = build(small_config(), tmp_path / "whole")
    updates = train(whole, midway=tmp_path / "halves/checkpoints")
    assert whole.complete
    assert whole.frames == whole.total_updates * 256 == 2 * small_config().num_env_frames

    second = build(small_config(), tmp_path / "halves")
    assert second.updates == UPDATES // 2
    rest = train(second)
    for a, b in zip(weights(whole), weights(second), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(updates[UPDATES // 2 :], rest, strict=True):
        np.testing.assert_equal((a.scalars, a.mean_return, a.games), (b.scalars, b.mean_return, b.games))
    np.testing.assert_equal(whole.episodes.get_state(), second.episodes.get_state())

    last = updates[-1].scalars  # 100 steps a game: balls are served and lost without FIRE in pong alone
    assert last["return/breakout"] >= 0 > last["return/pong"]
    references = published.normaliser("atari57")
    scores = [
        min(1, (last[f"return/{game}"] - references[game]["random"]) / (human - references[game]["random"]))
        for game, human in ((game, references[game]["human"]) for game in ("breakout", "pong"))
    ]
    assert last["capped_score"] == pytest.approx(50 * sum(scores))
    assert math.isnan(updates[0].scalars["capped_score"])
    assert second.progress_scalars[0] == "capped_score"


def test_each_batch_has_as_many_unrolls_of_each_game(tmp_path):
    """Games are told apart by what they look like: the mean of their frames."""
    trainer = build(small_config(), tmp_path)
    shares = collections.Counter()
    for _ in range(3):
        batch = trainer._source.next()
        brightness = batch.trajectory.observation.pixels.numpy()[:, -1].mean(axis=(1, 2))
        shares.update(np.digitize(brightness, [60]).tolist())
        trainer._source.release(batch)
    trainer.close()
    assert shares == {0: 6, 1: 6}


def test_scores_to_normalise_by_that_there_are_not_are_refused():
    config = small_config()
    config.evaluation.normaliser = "atari58"
    with pytest.raises(ValueError, match=r"^evaluation\.normaliser='atari58': choose atari57, "):
        find_experiment(config)._make_episode_log()


@pytest.mark.slow
def test_a_worker_of_a3c_plays_one_of_the_games(tmp_path):
    """As on DMLab-30, where 210 workers are 7 for each level; an update learns from one of them."""
    config = small_config()
    config.learner.batch_size = 1
    config.runtime.update({"num_actors": 4, "envs_per_actor": 1, "schedule": "a3c"})
    trainer = build(config, tmp_path)
    games = collections.defaultdict(set)
    for _ in range(24):
        batch = trainer._source.next()
        (brightness,) = batch.trajectory.observation.pixels.numpy()[:, -1].mean(axis=(1, 2))
        games[batch.groups[0].actor].add(int(brightness > 60))
        trainer._source.release(batch)
    trainer.close()
    assert games == {0: {0}, 1: {1}, 2: {0}, 3: {1}}


def test_an_evaluation_plays_each_game_alone():
    config = small_config("pong", "breakout")
    by_task = configs_by_task(config)
    assert list(by_task) == ["pong", "breakout"]
    for game, own in by_task.items():
        assert (own.env.task, tasks(own)) == (game, ())
        assert find_experiment(own).describe_evaluation(4, "then").startswith("4 games then")
    assert tasks(config) == ("pong", "breakout")
    assert list(configs_by_task(config, ["ALE/Breakout-v5"])) == ["breakout"]
    assert list(configs_by_task(atari_shallow.get_config("smoke"))) == ["pong"]
    with pytest.raises(ValueError, match="--task=qbert: choose from the tasks that the run learned, pong, breakout"):
        configs_by_task(config, ["qbert"])
    with pytest.raises(ValueError, match="--task=pong: the run has one task, pong; leave the flag out"):
        configs_by_task(atari_shallow.get_config("smoke"), ["pong"])


def test_an_error_on_a_task_is_a_sentence_and_the_tasks_before_it_are_kept(tmp_path, monkeypatch):
    def play(experiment, *_):
        if experiment.config == "qbert":
            raise RuntimeError("the level\nis gone")
        return {"mean": 1.0}

    environment = types.SimpleNamespace(num_envs=2, close=lambda: None)
    monkeypatch.setattr(evaluation, "evaluate_task", play)
    monkeypatch.setattr(evaluation, "make_evaluation_environment", lambda *_: environment)
    experiments = {name: types.SimpleNamespace(config=name) for name in ("pong", "qbert")}
    fault = "RuntimeError: the level is gone; see .*"
    sentence = f"the evaluation on qbert failed with {fault}; .* has the results of the tasks before it"
    with pytest.raises(evaluation.EvaluationError, match=sentence):
        evaluation.evaluate_tasks(experiments, TrainedPolicy(None, environment, 7), 2, 1, tmp_path, together=True)
    kept = {"updates": 7, "tasks": {"pong": {"mean": 1.0}}}
    assert json.loads((tmp_path / "evaluation.json").read_text()) == kept
    assert "Traceback" in (tmp_path / "evaluation_errors.txt").read_text()


def test_budgets_are_of_each_task():
    config = atari_57.get_config("paper")
    assert budget(config) == ("frames", 200_000_000)  # Section 5.3.2
    assert total_budget(config) == ("frames", 11_400_000_000)
    assert total_budget(of_task(config, "pong")) == ("frames", 200_000_000)
    assert total_budget(dmlab_30.get_config("paper"))[1] == pytest.approx(1e10, rel=1e-8)
    experts = dmlab_30_experts.get_config("paper")
    assert budget(experts) == total_budget(experts) == budget(dmlab_30.get_config("paper"))


@pytest.mark.parametrize(
    ("module", "agent", "updates"),
    [
        (atari_shallow, "impala_shallow", 78_125),  # 200M frames by 32 unrolls of 20 steps of 4 frames
        (atari_57, "impala_multitask", 57 * 78_125),
        (dmlab_table2, "vtrace", 78_125),  # 1e9 frames by 32 unrolls of 100 steps of 4 frames
        (dmlab_table2, "vtrace_replay", 2 * 78_125),  # half of the unrolls are new
    ],
)
def test_the_learning_rate_falls_to_0_over_the_new_frames_of_all_tasks(module, agent, updates):
    config = module.get_config("paper")
    config.agent = agent
    config = resolve(config)
    rate = find_experiment(config).make_optimizer()._learning_rate
    shares = [float(rate(k)) / config.learner.learning_rate for k in (0, updates // 5, updates // 2, updates)]
    assert shares == pytest.approx([1.0, 0.8, 0.5, 0.0], abs=1e-4)


def test_the_configs_have_the_suites_and_the_actors_of_the_paper():
    assert set(atari_57.get_config("paper").env.tasks) == set(published.normaliser("atari57"))
    config = dmlab_30.get_config("paper")
    assert config.env.tasks == tuple(DMLAB30)
    assert set(config.env.tasks) == set(published.normaliser("dmlab30"))
    for agent, number in (("impala_shallow", 210), ("impala_deep", 150), ("a3c_deep", 210)):  # Section 5.3.1
        config.agent = agent
        runtime = resolve(config).runtime
        assert runtime.num_actors * runtime.envs_per_actor == number
        assert number % 30 == 0


@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_experts_are_the_agent_of_all_levels_on_one(scale):
    together = dmlab_30.get_config(scale)
    together.agent = "impala_deep"
    experts = plain_config(dmlab_30_experts.get_config(scale))
    assert set(config_difference(experts, plain_config(resolve(together)))) == {"experiment"}
    lost = set(flatten(plain_config(resolve(together)))) - set(flatten(experts))
    assert lost == {"env.tasks", "evaluation.normaliser"}


@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
@pytest.mark.parametrize("module", [dmlab_30, dmlab_30_experts, dmlab_population, dmlab_table1_throughput])
def test_only_table_2_samples_its_settings(module, scale):
    config = module.get_config(scale)
    experiment = find_experiment(resolve(config))
    assert experiment.sample_hparams(1) == {}
    assert dmlab_table2.get_config("paper").sweep.sampled
