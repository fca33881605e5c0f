"""PPO's training: it learns, repeats and resumes bit for bit, and its rollouts hold what was played."""

import threading

import numpy as np
import pytest
from tf_agents.trajectories import time_step as ts

from paper_configs.refer import figure_1_ddpg, figure_4_vracer
from repro.acting.supervision import EnvironmentFailedError
from repro.papers import find_experiment
from repro.papers.refer import ppo_loss
from repro.papers.refer.control_trainer import EnvironmentReplacedError
from repro.training.learner import NonFiniteLossError
from tests.papers.refer.small import interrupt_at


def _config(task="InvertedPendulum", steps=128, updates=5, max_steps=50, compile_="graph", learning_rate=1e-3):
    config = figure_4_vracer.get_config("smoke")
    config.agent = "ppo"
    config.num_env_steps = steps * updates
    config.window_steps = 2_000
    config.env.task = task
    config.env.max_steps = max_steps
    config.ppo.steps = steps
    config.ppo.policy_learning_rate = config.ppo.value_learning_rate = learning_rate
    config.memory.start_steps = 500
    config.runtime.compile = compile_
    config.runtime.checkpoint_seconds = 1e9
    return config


def _build(path, seed=1, **changes):
    class Run:
        actors, checkpoints = path / "actors", path / "checkpoints"

    return find_experiment(_config(**changes)).build_trainer(seed, Run(), print)


def _run(training, updates=None):
    trail = []
    for update in training:
        trail.append((update.frames, update.mean_return, *update.scalars.values()))
        if updates and len(trail) == updates:
            break
    return np.array(trail)


LEARNING = {"steps": 512, "updates": 30, "max_steps": 200, "compile_": "xla", "learning_rate": 3e-3}


@pytest.mark.slow
def test_it_learns_to_balance(tmp_path):
    training = _build(tmp_path, **LEARNING)
    _run(training)
    assert training.summary()["evaluation"]["mean"] > 60  # of 200; random play falls after some 6 steps


@pytest.mark.slow
def test_with_the_sign_of_its_policy_gradient_turned_it_does_not(tmp_path, monkeypatch):
    right = ppo_loss.clipped_surrogate
    monkeypatch.setattr(ppo_loss, "clipped_surrogate", lambda *arguments: -right(*arguments))
    training = _build(tmp_path, **LEARNING)
    _run(training)
    assert training.summary()["evaluation"]["mean"] < 10


@pytest.mark.slow
def test_same_seed_same_bits(tmp_path):
    first, again, other = (_run(_build(tmp_path / name, seed)) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["InvertedPendulum", "HalfCheetah"])
def test_resumed_run_continues_bit_identically(tmp_path, task):
    whole = _run(_build(tmp_path / "whole", task=task))
    stopped = _build(tmp_path / "cut", task=task)
    first = _run(stopped, updates=2)
    stopped.save()
    stopped.close()
    resumed = _build(tmp_path / "cut", task=task)
    assert resumed.updates == 2
    np.testing.assert_array_equal(np.concatenate([first, _run(resumed)]), whole)
    assert resumed.complete


def test_books(tmp_path, monkeypatch):
    threads = set(threading.enumerate())
    training = _build(tmp_path, updates=3)
    begin, before = training._begin, []

    def noting_begin():
        begin()
        before.append(training._episodes.games)

    monkeypatch.setattr(training, "_begin", noting_begin)
    trail = _run(training)
    np.testing.assert_array_equal(trail[:, 0], [128, 256, 384])
    summary = training.summary()
    assert (summary["num_env_steps"], summary["gradient_steps"]) == (384, 384 * 10 // 64)
    assert int(training._agent.train_step_counter) == 60
    assert 0 < before[0] < summary["games"]  # N_start steps have episodes that no window has
    assert summary["evaluation"]["episodes"] == len(summary["evaluation"]["returns"]) == summary["games"] - before[0]
    training.close()
    for thread in set(threading.enumerate()) - threads:
        thread.join(10.0)
        assert not thread.is_alive()  # nothing watches its steps


def test_states_are_standardised_by_those_of_the_first_steps_and_no_others(tmp_path, monkeypatch):
    training = _build(tmp_path, updates=3)
    played, play = [], training._play
    monkeypatch.setattr(training, "_play", lambda *arguments: played.append(play(*arguments)) or played[-1])
    _run(training)
    assert [len(rollout.reward) for rollout in played] == [500, 128, 128, 128]
    states, agent = played[0].state, training._agent
    np.testing.assert_allclose(agent.state_mean, states.mean(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(agent.state_std, states.std(axis=0), rtol=1e-4)
    standard = (played[1].state[0] - states.mean(axis=0)) / (states.std(axis=0) + 1e-7)
    assert np.abs(agent._scale * (played[1].state[0] - agent._offset) - standard).max() < 1e-3
    assert not np.allclose(states.std(axis=0), played[3].state.std(axis=0), rtol=1e-2)


@pytest.mark.parametrize(("task", "falls"), [("InvertedPendulum", True), ("HalfCheetah", False)])
def test_rollouts_hold_what_was_played(tmp_path, task, falls):
    training = _build(tmp_path, task=task)
    training._agent.sync_acting_weights()
    rollout = training._play(120)
    last = rollout.last
    assert last.sum() >= 2
    assert (rollout.terminated == last).mean() > 0.99 if falls else not rollout.terminated.any()  # a cheetah is cut
    if not falls:
        np.testing.assert_array_equal(np.flatnonzero(last), [49, 99])
    inside = ~last[:-1]
    np.testing.assert_array_equal(rollout.next_state[:-1][inside], rollout.state[1:][inside])
    assert (rollout.next_state[:-1][~inside] != rollout.state[1:][~inside]).any(axis=1).all()
    np.testing.assert_array_equal(rollout.mean, np.stack([training._agent.act(state) for state in rollout.state]))
    noise = np.abs(rollout.action - rollout.mean) / rollout.std
    assert 1 < noise.max() <= 3 + 1e-5
    going_on = training._play(1)
    np.testing.assert_array_equal(going_on.state[0], rollout.next_state[-1])


@pytest.mark.parametrize(("call", "ends"), [(0, [49, 99]), (30, [29, 79]), (50, [49, 99])])
def test_a_rollout_in_which_the_environment_fails_is_whole_and_the_episode_before_is_cut(
    tmp_path, monkeypatch, call, ends
):
    """Call 50 is to begin the second episode; the step before it stays the last one of the first."""
    training = _build(tmp_path, task="HalfCheetah")
    training._agent.sync_acting_weights()
    first, calls = training._environment, []
    step = first.step

    def fail(actions):
        calls.append(1)
        if len(calls) == call + 1:
            raise OSError("the simulator is gone")
        return step(actions)

    monkeypatch.setattr(first, "step", fail)
    rollout = training._play(120)
    assert training._environment is not first
    assert len(calls) == call + 1
    np.testing.assert_array_equal(np.flatnonzero(rollout.last), ends)
    assert not rollout.terminated.any()
    inside = ~rollout.last[:-1]
    np.testing.assert_array_equal(rollout.next_state[:-1][inside], rollout.state[1:][inside])
    assert (rollout.next_state[:-1][~inside] != rollout.state[1:][~inside]).any(axis=1).all()
    np.testing.assert_array_equal(rollout.mean, np.stack([training._agent.act(state) for state in rollout.state]))
    assert training.actor_restarts == 1


def test_learning_rates_anneal_with_environment_steps(tmp_path, monkeypatch):
    training = _build(tmp_path, updates=2)
    rates = []
    monkeypatch.setattr(training._agent, "train", lambda *arguments: rates.append(arguments[2:]) or {"loss": 0.0})
    training._settings = training._settings._replace(annealing=1e-2, value_learning_rate=3e-3)
    _run(training)
    np.testing.assert_allclose(rates, [(1e-3, 3e-3), (1e-3 / 2.28, 3e-3 / 2.28)])


def test_every_epoch_sees_every_step_once(tmp_path, monkeypatch):
    training = _build(tmp_path, updates=1)
    sampled = []
    monkeypatch.setattr(training._agent, "train", lambda *arguments: sampled.append(arguments[1]) or {"loss": 0.0})
    _run(training)
    epochs = sampled[0].reshape(10, 128)
    assert sampled[0].shape == (20, 64)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(128), (10, 1)))
    assert len({tuple(epoch) for epoch in epochs}) == 10


def test_a_run_that_diverges_stops_with_its_step(tmp_path):
    training = _build(tmp_path)
    steps = iter(training)
    next(steps)
    training._agent.weights.assign(np.nan * training._agent.weights)
    with pytest.raises(NonFiniteLossError, match="the network outputs NaN after the update before step 128"):
        next(steps)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path, monkeypatch):
    training = _build(tmp_path)
    monkeypatch.setattr(training._agent, "train", lambda *arguments: {"loss": float("inf")})
    with pytest.raises(NonFiniteLossError, match="the update after step 0 gave loss=inf"):
        _run(training)


def test_rollouts_are_whole_minibatches(tmp_path):
    with pytest.raises(ValueError, match="ppo.steps=100 must be a multiple of ppo.batch_size=64"):
        _build(tmp_path, steps=100)


def test_it_has_no_overlap(tmp_path):
    """It learns from what it has just played."""
    config = _config()
    config.runtime.schedule = "overlap"
    with pytest.raises(ValueError, match="runtime.schedule='overlap': choose serial"):
        find_experiment(config).build_trainer(1, None, print)


def test_other_experiments_have_no_ppo(tmp_path):
    config = figure_1_ddpg.get_config("smoke")
    config.agent = "ppo"
    with pytest.raises(ValueError, match="agent='ppo': choose ddpg_er"):
        find_experiment(config)


def test_a_trained_policy_takes_the_mean_action(tmp_path):
    training = _build(tmp_path, updates=1)
    _run(training)
    training._agent.sync_acting_weights()
    policy, environment, _ = find_experiment(_config()).load_policy(tmp_path / "checkpoints", 1, 5, print)
    observation, _ = environment.reset()
    action = policy.action(ts.restart(observation, batch_size=1), (), np.array([5, 0], np.int32)).action
    np.testing.assert_allclose(action[0], training._agent.act(observation[0]), rtol=1e-4, atol=1e-6)
    environment.close()


def test_a_step_that_ended_an_episode_is_kept_where_the_next_one_fails_to_begin(tmp_path, monkeypatch):
    training = _build(tmp_path)
    begin, ended = training._begin_episode, []

    def fail_once():
        ended.append(True)
        if len(ended) == 1:
            training._begin_with(training._environment)
            raise EnvironmentReplacedError
        return begin()

    monkeypatch.setattr(training, "_begin_episode", fail_once)
    played = training._play(120)
    training.close()
    assert len(ended) > 2
    assert played.terminated.sum() == played.last.sum() == len(ended)  # a pole that falls ends each of them


def test_a_run_whose_environment_always_fails_is_saved_without_it_and_goes_on(tmp_path, monkeypatch):
    training = _build(tmp_path)
    environment = type(training._environment)

    def fail(*_):
        raise OSError("the simulator is gone")

    with pytest.raises(EnvironmentFailedError, match="3 times in a row, .* OSError: the simulator is gone"):
        for update in training:
            if update.updates == 2:
                monkeypatch.setattr(environment, "step", fail)
                monkeypatch.setattr(environment, "get_state", fail)
    training.close()
    monkeypatch.undo()
    assert training.saved_updates == 2
    resumed = _build(tmp_path)
    assert (resumed.updates, resumed.episodes.games, resumed.actor_restarts) == (2, training.episodes.games, 3)
    np.testing.assert_array_equal(resumed._agent.weights, training._agent.weights)
    np.testing.assert_array_equal(_run(resumed)[:, 0], [384, 512, 640])
    resumed.close()


def test_an_episode_that_a_resume_cuts_ends_and_does_not_count(tmp_path):
    training = _build(tmp_path, max_steps=5)
    environment, step = training._environment, training._environment.step

    def losing(actions):
        *found, info = step(actions)
        return *found, info | {"lost": info["game_over"].copy()}

    environment.step = losing
    assert np.flatnonzero(training._play(12).last)[-1] >= 9
    assert training.episodes.games == 0


def test_the_steps_before_the_first_update_end_with_a_signal(tmp_path):
    training = _build(tmp_path)
    steps = interrupt_at(training, 20)
    assert list(training) == []
    assert 20 <= len(steps) <= 21  # an episode that ends is followed by a step that begins the next
    assert (training.updates, training.has_checkpoint) == (0, False)
    training.close()
