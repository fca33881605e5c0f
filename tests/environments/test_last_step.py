"""Observations with the last action and reward, on any Gymnasium environment."""

import ml_collections
import numpy as np
import pytest

from repro.environments.make import make_environment

CATCH = "repro.regression.environments:repro/Catch-v0"


def make(**fields):
    env = {"name": "gymnasium", "task": CATCH, "last_action_and_reward": True, **fields}
    return make_environment(ml_collections.ConfigDict({"env": env}), 3, 0)


def test_the_last_action_and_reward_lead_to_the_frame_and_are_0_where_an_episode_begins():
    env, plain = make(), make(last_action_and_reward=False)
    obs, _ = env.reset()
    frame, _ = plain.reset()
    begins, game_over = np.ones(3, bool), np.zeros(3, bool)
    action = reward = np.zeros(3)
    rng = np.random.default_rng(0)
    for _ in range(30):
        np.testing.assert_array_equal(obs["frame"], frame)
        np.testing.assert_array_equal(obs["last_action"], np.where(begins, 0, action))
        np.testing.assert_array_equal(obs["last_reward"], np.where(begins, 0.0, reward))
        begins, action = game_over, rng.integers(1, 3, 3)
        obs, reward, *_, info = env.step(action)
        frame, *_ = plain.step(action)
        game_over = info["game_over"]


def test_reset_takes_another_seed():
    env, plain = make(), make(last_action_and_reward=False)
    first, other = env.reset()[0]["frame"], env.reset(seed=1)[0]["frame"]
    np.testing.assert_array_equal(other, plain.reset(seed=1)[0])
    assert (first != other).any()


def test_specs_are_those_of_what_is_observed():
    env = make()
    obs, _ = env.reset()
    spec = env.time_step_spec.observation
    assert set(spec) == set(obs) == {"frame", "last_action", "last_reward"}
    for name, array in obs.items():
        assert array.shape == (3, *spec[name].shape)
        assert array.dtype == spec[name].dtype.as_numpy_dtype


def test_a_saved_state_goes_on_exactly_there():
    env = make()
    env.reset()
    for _ in range(9):
        env.step(np.array([1, 2, 0]))
    again = make()
    restored = again.set_state(env.get_state())
    assert set(restored) == {"frame", "last_action", "last_reward"}
    for _ in range(9):
        actions = np.array([2, 0, 1])
        for left, right in zip(env.step(actions)[0].values(), again.step(actions)[0].values(), strict=True):
            np.testing.assert_array_equal(left, right)


def test_a_state_saved_at_the_end_of_an_episode_begins_the_next_with_action_0():
    env, over = make(), np.zeros(3, bool)
    env.reset()
    while not over.any():
        over = env.step(np.array([1, 2, 0]))[-1]["game_over"]
    again = make()
    again.set_state(env.get_state())
    actions = np.array([1, 1, 1])
    found = again.step(actions)[0]["last_action"]
    np.testing.assert_array_equal(found, np.where(over, 0, 1))
    np.testing.assert_array_equal(found, env.step(actions)[0]["last_action"])


def test_continuous_actions_are_refused():
    with pytest.raises(ValueError, match="Discrete actions"):
        make(task="Pendulum-v1")


def test_counters_and_closing_are_those_of_the_environment(monkeypatch):
    env = make()
    assert env.get_counters() == {}
    env.set_counters({})
    taken, closed = [], []
    monkeypatch.setattr(env._env, "get_counters", lambda: {"episodes": 7}, raising=False)
    monkeypatch.setattr(env._env, "set_counters", taken.append, raising=False)
    monkeypatch.setattr(env._env, "close", lambda **kwargs: closed.append(kwargs))
    env.set_counters(env.get_counters())
    env.close(terminate=True)
    assert (taken, closed) == ([{"episodes": 7}], [{"terminate": True}])
