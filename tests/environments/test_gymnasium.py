"""Gymnasium environments: equal to bare gymnasium, kinds of ends, spaces, seeds, saved states, errors, the guide."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import ml_collections
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from tf_agents.trajectories import StepType

from repro.acting.actor import Actor
from repro.acting.rollout import Episode, next_step_type
from repro.acting.unrolls import UnrollGroup
from repro.acting.weights import WeightsPublisher
from repro.environments import names
from repro.environments.gymnasium import (
    GymnasiumEnvironment,
    episode_seed,
    is_restored_by_pickle,
    make_gymnasium,
    task_name,
)
from repro.environments.lookup import UnknownTaskError
from repro.networks.actor_critic import ActorCritic
from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.networks.dense import dense_torso
from tests.environments.stepping import flat, through_a_file
from tests.support import custom_environments
from tests.support.custom_environments import LENGTH, Clock

ROOT = Path(__file__).resolve().parents[2]
OWN = "tests.support.custom_environments:repro_tests"
BUILT_IN = ("CartPole-v1", "Acrobot-v1", "MountainCarContinuous-v0", "Pendulum-v1", "Taxi-v4", "Blackjack-v1")
NEW_EPISODES = ("WithLock", "PicklesArguments", "GlobalRandom")


def make(task: str = "CartPole-v1", num_envs: int = 2, seed: int = 0, **fields: Any) -> GymnasiumEnvironment:
    return make_gymnasium({"name": "gymnasium", "task": task, **fields}, num_envs, seed)


def make_own(name: str, num_envs: int = 2, seed: int = 0, max_steps: int = 0, **kwargs: Any) -> GymnasiumEnvironment:
    return make(f"{OWN}/{name}-v0", num_envs, seed, max_steps=max_steps, kwargs=kwargs)


def actions_for(environment: GymnasiumEnvironment, steps: int) -> np.ndarray:
    """Beyond the bounds now and then, as a Gaussian policy's."""
    rng, n = np.random.default_rng(1), environment.num_envs
    if environment.discrete:
        return rng.integers(environment.num_actions, size=(steps, n), dtype=np.int32)
    return rng.normal(size=(steps, n, environment.num_actions)).astype(np.float32)


def given(observations: gymnasium.Space, actions: gymnasium.Space | None = None) -> GymnasiumEnvironment:
    return make_own("Given", observations=observations, actions=actions or spaces.Discrete(2))


def taken(environment: GymnasiumEnvironment, actions: Any) -> list[Any]:
    """What each environment got for one step's actions."""
    environment.reset()
    environment.step(np.asarray(actions))
    return [task.taken[-1] for task in environment._tasks]


@pytest.mark.parametrize("task", BUILT_IN)
def test_equals_bare_gymnasium(task: str) -> None:
    """Two environments against two of gymnasium's own with all its wrappers, over ends and resets."""
    environment = make(task, max_steps=30)
    bare = [gymnasium.make(task, max_episode_steps=30) for _ in range(2)]
    space, box = bare[0].observation_space, bare[0].action_space

    def encoded(observation: Any) -> np.ndarray:
        return spaces.utils.flatten(space, observation).astype(np.float32)

    def decoded(action: Any) -> Any:
        if environment.discrete:
            return action
        return np.clip(action * (box.high - box.low) / 2 + (box.high + box.low) / 2, box.low, box.high)

    first, info = environment.reset()
    assert (info, first.dtype) == ({}, np.float32)
    for row, env in enumerate(bare):
        np.testing.assert_array_equal(first[row], encoded(env.reset(seed=episode_seed(0, row, 0))[0]))
    over, returns, ends = [False, False], [0.0, 0.0], 0
    for actions in actions_for(environment, 90):
        found = flat(environment.step(actions))
        for row, env in enumerate(bare):
            if over[row]:
                observation, reward, terminated, truncated = *env.reset()[:1], 0.0, False, False
                returns[row] = 0.0
            else:
                observation, reward, terminated, truncated, _ = env.step(decoded(actions[row]))
                returns[row] += float(reward)
            np.testing.assert_array_equal(found["observation"][row], encoded(observation))
            assert found["reward"][row] == np.float32(reward)
            assert found["terminated"][row] == terminated
            assert found["truncated"][row] == (truncated and not terminated)
            over[row] = terminated or truncated
            ends += over[row]
            assert found["game_over"][row] == over[row]
            assert found["episode_return"][row] == np.float32(returns[row])
    assert ends >= 4


def test_sizes_and_specs() -> None:
    cart, pendulum = make(num_envs=3), make("Pendulum-v1", num_envs=3)
    assert (cart.num_actions, cart.state_size, cart.max_steps) == (2, 4, 500)
    assert (cart.discrete, cart.image) == (True, False)
    assert (cart.action_spec.shape, cart.action_spec.dtype.name) == ((), "int32")
    assert (cart.action_spec.minimum, cart.action_spec.maximum) == (0, 1)
    assert (cart.observation_spec.shape, cart.observation_spec.dtype.name) == ((4,), "float32")
    assert cart.time_step_spec.observation == cart.observation_spec
    assert cart.observation_space.shape == cart.reset()[0].shape == (3, 4)
    assert (pendulum.num_actions, pendulum.state_size, pendulum.max_steps) == (1, 3, 200)
    assert not pendulum.discrete
    assert (pendulum.action_spec.shape, pendulum.action_spec.dtype.name) == ((1,), "float32")
    assert pendulum.action_space.shape == (3, 1)
    assert make(max_steps=7).max_steps == 7


def test_an_end_and_the_time_limit_are_told_apart() -> None:
    """CartPole falls after more than 5 steps; the pendulum is never terminated."""
    cart, pendulum = make(num_envs=1, max_steps=5), make("Pendulum-v1", num_envs=1)
    cart.reset()
    steps = [flat(cart.step(np.ones(1, np.int32))) for _ in range(12)]
    assert [bool(x["truncated"][0]) for x in steps] == [i in (4, 10) for i in range(12)]
    assert not any(x["terminated"][0] for x in steps)
    assert [int(x["episode_frames"][0]) for x in steps] == [*range(1, 6), 0, *range(1, 6), 0]
    assert [float(x["reward"][0]) for x in steps] == [*5 * [1.0], 0.0, *5 * [1.0], 0.0]
    falling = make(num_envs=1)
    falling.reset()
    last = next(x for x in (flat(falling.step(np.ones(1, np.int32))) for _ in range(50)) if x["game_over"][0])
    assert (last["terminated"][0], last["truncated"][0]) == (True, False)
    assert last["episode_return"][0] == last["episode_frames"][0] > 5
    pendulum.reset()
    steps = [flat(pendulum.step(actions)) for actions in actions_for(pendulum, 200)]
    assert [i for i, x in enumerate(steps) if x["truncated"][0]] == [199]
    assert not any(x["terminated"][0] for x in steps)


@pytest.mark.parametrize(
    ("end", "cut", "max_steps", "expected"),
    [
        (3, 9, 0, (3, True)),
        (9, 3, 0, (3, False)),  # the environment's own truncation, as of a wrapper in it
        (9, 9, 3, (3, False)),
        (3, 9, 3, (3, True)),  # an end in the last step is no truncation
        (3, 3, 0, (3, True)),
    ],
)
def test_each_kind_of_end(end: int, cut: int, max_steps: int, expected: tuple[int, bool]) -> None:
    environment = make_own("Clock", num_envs=1, max_steps=max_steps, end=end, cut=cut)
    environment.reset()
    steps = [flat(environment.step(np.zeros(1, np.int32))) for _ in range(4)]
    length, terminated = expected
    last, after = steps[length - 1], steps[length]
    assert [bool(x["game_over"][0]) for x in steps] == [i == length - 1 for i in range(4)]
    assert (last["terminated"][0], last["truncated"][0]) == (terminated, not terminated)
    assert last["observation"][0].tolist() == [length, 1]
    assert after["observation"][0].tolist() == [0, 2]
    assert (after["reward"][0], after["episode_return"][0], after["episode_frames"][0]) == (0, 0, 0)


def test_the_registered_time_limit_and_none() -> None:
    limited, without = make_own("Limited"), make_own("Clock")
    assert limited.max_steps == 6
    with pytest.raises(ValueError, match=r"Clock-v0 has no time limit and this agent needs one; set env\.max_steps"):
        _ = without.max_steps
    without.reset()
    assert not any(without.step(np.zeros(2, np.int32))[4]["game_over"].any() for _ in range(300))


def test_discrete_actions_begin_at_their_start() -> None:
    environment = given(spaces.Discrete(3), spaces.Discrete(4, start=-2))
    assert environment.num_actions == 4
    assert taken(environment, [0, 3]) == [-2, 1]
    for wrong in ([0, 4], [-1, 0]):
        with pytest.raises(ValueError, match=r"actions must lie in \[0, 4\)"):
            environment.step(np.array(wrong))


def test_box_actions_are_scaled_to_bounds_on_both_sides_and_clipped() -> None:
    """Bounded, not centred at 0, without bounds, bounded on one side, and the largest float for infinity."""
    largest = np.finfo(np.float32).max
    low = np.array([-2, 0, -np.inf, 1, -largest], np.float32)
    high = np.array([2, 10, np.inf, np.inf, largest], np.float32)
    environment = given(spaces.Discrete(3), spaces.Box(low, high))
    assert environment.num_actions == 5
    assert environment.action_spec.shape == (5,)
    inside, outside = taken(environment, [[0.5, 0.5, 3, 4, 5], [-3, 3, -30, -4, 50]])
    np.testing.assert_array_equal(inside, np.float32([1, 7.5, 3, 4, 5]))
    np.testing.assert_array_equal(outside, np.float32([-2, 10, -30, 1, 50]))
    ends = taken(environment, [[1, 1, 0, 1, 0], [-1, -1, 0, 1, 0]])
    np.testing.assert_array_equal(np.array(ends)[:, :2], np.float32([[2, 10], [-2, 0]]))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_the_largest_number_of_float32_or_of_the_box_stands_for_no_bound(dtype: type) -> None:
    largest = min(np.finfo(dtype).max, np.finfo(np.float32).max)
    low, high = np.array([-largest, -2], dtype), np.array([largest, 2], dtype)
    environment = given(spaces.Discrete(3), spaces.Box(low, high, dtype=dtype))
    np.testing.assert_array_equal(taken(environment, [[0.5, 0.5], [-3, 0.25]]), [[0.5, 1], [-3, 0.5]])


@pytest.mark.parametrize("shape", [(), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_box_actions_of_any_rank(shape: tuple[int, ...], dtype: type) -> None:
    environment = given(spaces.Discrete(3), spaces.Box(-4, 4, shape, dtype))
    size = int(np.prod(shape))
    actions = np.linspace(-1, 1, 2 * size, dtype=np.float32).reshape(2, size)
    for got, action in zip(taken(environment, actions), actions):
        assert (got.shape, got.dtype) == (shape, dtype)
        np.testing.assert_allclose(got.ravel(), 4 * action)


def test_discrete_observations_are_one_hot() -> None:
    environment = given(spaces.Discrete(5, start=3))
    found = np.concatenate([environment.reset(seed=seed)[0] for seed in range(20)])
    assert (environment.state_size, found.dtype) == (5, np.float32)
    np.testing.assert_array_equal(np.sort(found), np.tile([0, 0, 0, 0, 1], (40, 1)))
    assert found.any(axis=0).all()
    environment._tasks[0].observation_space.seed(3)
    expected = environment._tasks[0].observation_space.sample() - 3
    environment._tasks[0].observation_space.seed(3)
    assert environment.step(np.zeros(2))[0][0].argmax() == expected


@pytest.mark.parametrize(
    ("space", "size"),
    [
        (spaces.Box(-1, 1, (3,), np.float64), 3),
        (spaces.Box(0, 255, (128,), np.uint8), 128),
        (spaces.Box(-5, 5, (), np.float32), 1),
        (spaces.Box(-5, 5, (2, 3), np.float32), 6),
        (spaces.MultiDiscrete([2, 3]), 5),
        (spaces.MultiBinary(4), 4),
        (spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (3,), np.float32)]), 5),
        (spaces.Dict(a=spaces.Discrete(2), b=spaces.Dict(c=spaces.Box(0, 255, (2, 2, 1), np.uint8))), 6),
    ],
)
def test_vectors_are_the_flattened_observations(space: gymnasium.Space, size: int) -> None:
    environment = given(space)
    assert environment.state_size == size
    assert environment.observation_spec.shape == (size,)
    environment.reset()
    environment._tasks[1].observation_space.seed(7)
    observation = environment.step(np.zeros(2, np.int32))[0]
    assert (observation.shape, observation.dtype) == ((2, size), np.float32)
    space.seed(7)
    np.testing.assert_array_equal(observation[1], spaces.utils.flatten(space, space.sample()).astype(np.float32))


@pytest.mark.parametrize(
    ("shape", "seen"),
    [
        ((8, 6), (8, 6, 1)),
        ((8, 6, 3), (8, 6, 3)),
        ((3, 8, 6), (8, 6, 3)),
        ((8, 8, 8), (8, 8, 8)),
        ((1, 8, 6), (8, 6, 1)),
    ],
)
def test_images_have_their_channels_last(shape: tuple[int, ...], seen: tuple[int, ...]) -> None:
    environment = given(spaces.Box(0, 255, shape, np.uint8))
    assert environment.image
    assert (environment.observation_spec.shape, environment.observation_spec.dtype.name) == (seen, "uint8")
    environment.reset()
    space = environment._tasks[1].observation_space
    space.seed(7)
    observation = environment.step(np.zeros(2, np.int32))[0]
    assert (observation.shape, observation.dtype) == ((2, *seen), np.uint8)
    space.seed(7)
    image = space.sample()
    expected = image.transpose(1, 2, 0) if shape == (3, 8, 6) else image.reshape(seen)
    np.testing.assert_array_equal(observation[1], expected)
    with pytest.raises(ValueError, match="is observed by images of shape .* and this agent needs vectors"):
        _ = environment.state_size


def test_rewards_are_those_of_the_environment() -> None:
    environment = given(spaces.Discrete(2))
    environment.reset()
    steps = [flat(environment.step(np.zeros(2))) for _ in range(LENGTH + 1)]
    assert [x["reward"].tolist() for x in steps] == [*LENGTH * [[1.5, 1.5]], [0.0, 0.0]]
    assert steps[LENGTH - 1]["episode_return"].tolist() == [1.5 * LENGTH] * 2


def test_seeds() -> None:
    first = make(num_envs=3).reset()[0]
    np.testing.assert_array_equal(make(num_envs=3).reset()[0], first)
    assert len(np.unique(first[:, 0])) == 3
    assert (make(num_envs=3, seed=1).reset()[0] != first).any()
    environment = make(num_envs=3, seed=1)
    np.testing.assert_array_equal(environment.reset(seed=0)[0], first)
    np.testing.assert_array_equal(environment.reset()[0], first)
    own = given(spaces.Discrete(2))
    own.reset()
    assert [task.resets for task in own._tasks] == [[episode_seed(0, row, 0)] for row in range(2)]
    seeds = [episode_seed(*x) for x in np.ndindex(3, 3, 3)]
    assert len(set(seeds)) == 27
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_observations_are_not_written_to_afterwards() -> None:
    environment = make()
    kept = [environment.reset()[0]]
    kept += [environment.step(actions)[0] for actions in actions_for(environment, 5)]
    copies = [x.copy() for x in kept]
    for actions in actions_for(environment, 5):
        environment.step(actions)
    for a, b in zip(kept, copies):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("task", [*BUILT_IN, f"{OWN}/Clock-v0"])
def test_restored_episodes_go_on_exactly(task: str) -> None:
    """From the middle of an episode, through a checkpoint's file, past its end and the next resets."""
    original = make(task, num_envs=3, seed=3, max_steps=25)
    assert original.saves_episodes
    original.reset()
    actions = actions_for(original, 120)
    for step in range(40):
        before = original.step(actions[step])[0]
        if step == 38:
            middle = through_a_file(original.get_state())
    restored = make(task, num_envs=3, seed=99, max_steps=25)
    restored.set_state(middle)
    np.testing.assert_array_equal(restored.step(actions[39])[0], before)
    for step in range(40, 120):
        expected, found = flat(original.step(actions[step])), flat(restored.step(actions[step]))
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{name} of step {step}")
            assert found[name].dtype == expected[name].dtype
    np.testing.assert_array_equal(restored.reset()[0], original.reset()[0])


def test_the_observation_of_a_restored_end() -> None:
    environment = make(max_steps=5)
    environment.reset()
    for _ in range(5):
        last = environment.step(np.ones(2, np.int32))
    assert last[4]["game_over"].all()
    restored = make(seed=8, max_steps=5)
    np.testing.assert_array_equal(restored.set_state(environment.get_state()), last[0])
    assert flat(restored.step(np.zeros(2)))["episode_frames"].tolist() == [0, 0]


def test_the_check_of_pickle_leaves_the_environments_as_they_are() -> None:
    environment = make_own("Clock")
    assert environment.saves_episodes
    assert [task.resets for task in environment._tasks] == [0, 0]


@pytest.mark.parametrize("fails", [False, True])
def test_the_check_of_pickle_closes_its_copies(monkeypatch, fails: bool) -> None:
    closed = []

    def close(env: Any) -> None:
        closed.append(env)
        if fails:
            raise OSError("it was closed before")

    monkeypatch.setattr(custom_environments.Clock, "close", close, raising=False)
    environment = make_own("Clock")
    assert environment.saves_episodes
    assert len({id(env) for env in closed}) == len(closed) == 2
    assert not any(env is task.unwrapped for env in closed for task in environment._tasks)


def test_a_pickle_of_arguments_is_no_state() -> None:
    """Also where a few steps cannot tell, and inside a wrapper."""
    assert not make_own("Constant").saves_episodes
    for task, expected in (("repro_tests/Constant-v0", False), ("CartPole-v1", True)):
        wrapped = gymnasium.make(task, max_episode_steps=10)
        assert isinstance(wrapped, gymnasium.Wrapper)
        assert is_restored_by_pickle(wrapped, np.asarray) == expected


def test_a_state_does_not_change_as_episodes_go_on() -> None:
    environment = make()
    environment.reset()
    environment.step(np.ones(2, np.int32))
    state = environment.get_state()
    copies = {name: np.copy(value) for name, value in state.items()}
    for _ in range(5):
        environment.step(np.ones(2, np.int32))
    for name, value in state.items():
        np.testing.assert_array_equal(value, copies[name])


@pytest.mark.parametrize("name", NEW_EPISODES)
def test_episodes_that_cannot_be_saved_are_cut_and_new_ones_begin(name: str) -> None:
    """The first environment is in the middle of an episode, the second at the end of one."""
    original = make_own(name, max_steps=6)
    assert not original.saves_episodes
    original.reset()
    for _ in range(4):
        before = flat(original.step(np.zeros(2, np.int32)))
    state = original.get_state()
    state["over"][1] = True
    restored = make_own(name, max_steps=6)
    restored.reset()
    np.testing.assert_array_equal(restored.set_state(through_a_file(state)), before["observation"])
    first, second, third = (flat(restored.step(np.zeros(2, np.int32))) for _ in range(3))
    # The open episode is cut by a step that does nothing; the one that was over is followed by a new one.
    assert first["game_over"].tolist() == first["truncated"].tolist() == [True, False]
    assert not first["terminated"].any()
    assert first["reward"].tolist() == [0.0, 0.0]
    assert first["episode_frames"].tolist() == [5, 0]
    assert first["episode_return"][0] == pytest.approx(before["episode_return"][0])
    np.testing.assert_array_equal(first["observation"][0], before["observation"][0])
    assert first["observation"][1, 0] == 0.0
    assert [x["lost"].tolist() for x in (first, second)] == [[True, False], [False, False]]
    assert not second["game_over"].any()
    assert second["observation"][:, 0].tolist() == [0.0, 1.0]
    assert second["episode_frames"].tolist() == [0, 1]
    assert third["observation"][:, 0].tolist() == [1.0, 2.0]
    # What an actor makes of it: the cut observation is LAST, the next FIRST.
    types = [np.array([1, 2], np.int32)]
    for x in (first, second, third):
        types.append(next_step_type(types[-1], x["terminated"], x["game_over"]))
    assert np.array(types).T.tolist() == [[1, 2, 0, 1], [2, 0, 1, 1]]


def test_new_episodes_are_not_those_that_the_run_began_with() -> None:
    """Each restart has seeds of its own, the same in every run."""

    def rewards(state: dict[str, Any] | None) -> list[float]:
        environment = make_own("WithLock")
        if state is None:
            environment.reset()
        else:
            environment.set_state(state)
            environment.step(np.zeros(2, np.int32))
            environment.step(np.zeros(2, np.int32))
        found = environment.step(np.zeros(2, np.int32))[1].tolist()
        states.append(environment.get_state())
        return found

    states: list[dict[str, Any]] = []
    begun, once = rewards(None), rewards(states[0])
    twice, again = rewards(states[1]), rewards(states[0])
    assert len({*begun, *once, *twice}) == 6
    assert once == again
    assert [state["restarts"] for state in states] == [0, 1, 2, 1]


def test_a_pickle_that_fails_later_loses_the_episodes_and_not_the_run(caplog) -> None:
    environment = make_own("LateLock")
    assert environment.saves_episodes
    environment.reset()
    state = environment.get_state()
    assert not environment.saves_episodes
    assert state["pickled"].size == 0
    environment.get_state()
    (line,) = [record.getMessage() for record in caplog.records]  # once
    assert line == (
        "Gymnasium: repro_tests/LateLock-v0 can no longer be pickled (cannot pickle '_thread.lock' object): episodes "
        "that have not ended are not saved, and a resumed run differs from an uninterrupted one."
    )
    restored = make_own("LateLock")
    restored.set_state(through_a_file(state))
    assert restored.step(np.zeros(2, np.int32))[3].all()


def test_saving_a_restored_batch_before_its_first_step() -> None:
    """The cut that is to come is part of the state, whatever the batch can save."""
    original = make_own("WithLock")
    original.reset()
    original.step(np.zeros(2, np.int32))
    state = original.get_state()
    state["task"] = "repro_tests/Clock-v0"
    clock = make_own("Clock")
    clock.set_state(state)
    restored = make_own("Clock")
    restored.set_state(through_a_file(clock.get_state()))
    for _ in range(4):
        expected, found = (flat(x.step(np.zeros(2, np.int32))) for x in (clock, restored))
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])
    assert expected["episode_frames"].tolist() == [2, 2]


def make_actor(task: str, seed: int, games: list[Episode]) -> tuple[Actor, UnrollGroup]:
    environment = make(task, num_envs=3, seed=seed, max_steps=15)
    network = ActorCritic(dense_torso((16,), seed=1), environment.num_actions, seed=2)
    network.build_variables(environment.time_step_spec.observation)
    policy = ActorCriticPolicy(environment.time_step_spec, environment.action_spec, network)
    weights = WeightsPublisher(policy.variables())
    weights.publish(0)
    actor = Actor(environment, policy, weights, 20, seed, games.append)
    return actor, UnrollGroup(policy.trajectory_spec, 3, 20)


@pytest.mark.parametrize("task", ["CartPole-v1", f"{OWN}/WithLock-v0"])
def test_an_actor_goes_on_where_it_was_saved(task: str) -> None:
    """Exactly where episodes are saved; elsewhere no transition leads from an old episode into a new one."""
    games: list[Episode] = []
    (original, group), (restored, other) = make_actor(task, 3, games), make_actor(task, 99, games)
    original.collect([group])
    restored.set_state(through_a_file(original.get_state()))
    restored.collect([other])
    last = tf.nest.map_structure(np.copy, group.arrays)
    original.collect([group])
    np.testing.assert_array_equal(other.arrays.observation[:, 0], last.observation[:, -1])
    np.testing.assert_array_equal(other.arrays.step_type[:, 0], last.step_type[:, -1])
    assert games[0].frames == games[0].score or task != "CartPole-v1"
    if task != "CartPole-v1":  # those that were open do not count
        assert [game.frames for game in games] == [15] * len(games)
    if original.environment.saves_episodes:
        for a, b in zip(tf.nest.flatten(group.arrays), tf.nest.flatten(other.arrays)):
            np.testing.assert_array_equal(a, b)
        return
    assert (other.arrays.step_type[:, :3] == [StepType.MID, StepType.LAST, StepType.FIRST]).all()
    np.testing.assert_array_equal(other.arrays.reward[:, :2], np.zeros((3, 2)))
    np.testing.assert_array_equal(other.arrays.discount[:, 0], np.ones(3))
    np.testing.assert_array_equal(other.arrays.observation[:, 1], other.arrays.observation[:, 0])
    np.testing.assert_array_equal(other.arrays.observation[:, 2, 0], np.zeros(3))


def test_states_that_do_not_fit() -> None:
    environment = make()
    environment.reset()
    state = environment.get_state()
    with pytest.raises(ValueError, match=r"the state is of CartPole-v1, the environment is Pendulum-v1\."):
        make("Pendulum-v1").set_state(state)
    with pytest.raises(ValueError, match=r"the state is of 2 environments, the batch has 3\."):
        make(num_envs=3).set_state(state)
    wide = given(spaces.Box(-1, 1, (3,), np.float32))
    wide.reset()
    with pytest.raises(ValueError, match=r"the state has observations of shape \(3,\), the environment of \(2,\)\."):
        given(spaces.Box(-1, 1, (2,), np.float32)).set_state(wide.get_state())
    state["pickled"] = state["pickled"][:-10]
    with pytest.raises(
        ValueError, match=r"the saved CartPole-v1 cannot be loaded, perhaps because its code has changed: "
    ):
        make().set_state(state)


@pytest.mark.parametrize("task", ["CartPole-v1", f"{OWN}/Clock-v0"])
def test_names(task: str) -> None:
    assert task_name(task) == names.task_name("gymnasium", task) == task


@pytest.mark.parametrize(
    ("package", "task", "kind"),
    [
        ("gymnasium", "pong", "an Atari game: choose a configuration such as paper_configs/impala/atari_shallow.py"),
        ("gymnasium", "PongNoFrameskip-v9", "an Atari game"),
        ("atari", "CartPole-v1", "a Gymnasium environment: choose a configuration such as paper_configs/impala/gym"),
        ("mujoco", "my_module:MyEnv-v0", "a Gymnasium environment"),
    ],
)
def test_a_task_of_other_configurations_is_named_as_such(package: str, task: str, kind: str) -> None:
    with pytest.raises(UnknownTaskError, match=f"^'{task}' is {kind}"):
        names.task_name(package, task)


def test_a_colon_alone_does_not_make_a_task_of_gymnasium() -> None:
    with pytest.raises(
        UnknownTaskError, match="^No task of DM Control is called 'walker:wlak'; did you mean walker_walk"
    ):
        names.task_name("dm_control", "walker:wlak")


def test_keyword_arguments_and_time_limit() -> None:
    kwargs = ml_collections.ConfigDict({"end": 3})
    environment = make(f"{OWN}/Clock-v0", kwargs=kwargs, max_steps=9)
    assert environment._tasks[0].unwrapped.end == 3
    assert (environment.config.label, environment.config.kwargs) == ("repro_tests/Clock-v0", {"end": 3})
    config = ml_collections.ConfigDict({"name": "gymnasium", "task": "CartPole-v1", "max_steps": 0, "kwargs": {}})
    assert make_gymnasium(config.lock(), 1, 0).max_steps == 500


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("registered = gymnasum.register", "NameError: name 'gymnasum' is not defined"),
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
    ],
)
def test_a_module_that_fails_is_named_with_line_and_error(tmp_path, monkeypatch, line: str, error: str) -> None:
    file = tmp_path / "failing_module.py"
    file.write_text(f"import gymnasium\n\n{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownTaskError) as raised:
        task_name("failing_module:MyEnv-v0")
    assert str(raised.value) == (
        f"The module 'failing_module' of 'failing_module:MyEnv-v0' cannot be imported ({file}, line 3: {error})."
    )


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("CartPol-v1", "No Gymnasium environment is called 'CartPol-v1'; did you mean CartPole-v1"),
        ("cartpole-v1", "did you mean CartPole-v1"),
        ("CartPole", "did you mean CartPole-v1 or CartPole-v0"),
        (
            "NoSuchThing-v9",
            "it must be registered with gymnasium.register. Give an environment of your own with its",
        ),
        (
            f"{OWN}/Clok-v0",
            "No Gymnasium environment is called 'repro_tests/Clok-v0'; did you mean repro_tests/Clock-v0",
        ),
        (
            "no_such_module:MyEnv-v0",
            "The module 'no_such_module' of 'no_such_module:MyEnv-v0' cannot be imported (No mod",
        ),
    ],
)
def test_unknown_names_give_one_sentence(task: str, message: str) -> None:
    with pytest.raises(UnknownTaskError) as error:
        task_name(task)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("task", "kwargs", "message"),
    [
        (
            "HalfCheetah-v2",
            {},
            "HalfCheetah-v2 cannot be made: The mujoco v2 and v3 based environments have been moved",
        ),
        ("CartPole-v1", {"gravity": 1}, r"CartPole-v1 does not take the keyword arguments in env.kwargs \(gravity\): "),
        (f"{OWN}/Given-v0", {}, r"does not take the keyword arguments in env.kwargs \(none\): .* missing 2 required"),
        (
            "CartPole-v1",
            {"max_episode_steps": 9},
            "env.kwargs cannot set 'max_episode_steps'; env.task and env.max_ste",
        ),
    ],
)
def test_environments_that_cannot_be_made_give_one_sentence(task: str, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        make(task, kwargs=kwargs)
    assert "\n" not in str(error.value)


class OldReset(Clock):
    def reset(self, **kwargs: Any) -> Any:
        return super().reset(**kwargs)[0]


class NoSeed(Clock):
    def reset(self) -> Any:
        return super().reset()


class OldStep(Clock):
    def step(self, action: int) -> Any:
        observation, reward, *_ = super().step(action)
        return observation, reward, False, {}


class NoReward(Clock):
    def step(self, action: int) -> Any:
        observation, _, *others = super().step(action)
        return observation, None, *others


class Incomplete(Clock):
    observation_space = spaces.Dict(a=spaces.Box(0, 1e6, (2,), np.float32), b=spaces.Discrete(2))

    def observe(self) -> Any:
        return {"a": super().observe()}


def observing(space: gymnasium.Space, observation: Any) -> type[Clock]:
    """An environment with one observation, whatever its space."""

    class Observing(Clock):
        observation_space = space

        def observe(self) -> Any:
            return observation

    return Observing


class NoSpaces(gymnasium.Env):
    pass


class NoFile(Clock):
    def __init__(self) -> None:
        raise RuntimeError("no map")


class WrongNumber(Clock):
    def __init__(self) -> None:
        self.size = float(None)


FAULTY = {
    OldReset: "reset of Faulty-v0 must return observation and info.",
    NoSeed: (
        "reset of Faulty-v0 must take the keywords seed and options: NoSeed.reset() got an unexpected keyword argument"
    ),
    OldStep: "step of Faulty-v0 must return observation, reward, terminated, truncated and info.",
    Incomplete: "Faulty-v0 gave an observation that does not fit its space (KeyError: 'b').",
    NoSpaces: "Faulty-v0 needs an attribute action_space that is a space of gymnasium.spaces.",
    NoFile: f"Faulty-v0 cannot be made ({__file__}, line LINE: RuntimeError: no map).",
    WrongNumber: f"Faulty-v0 cannot be made ({__file__}, line LINE: TypeError: float() argument must be ",
}


@pytest.mark.parametrize("environment", FAULTY)
def test_faults_of_an_environment_give_one_sentence(monkeypatch: pytest.MonkeyPatch, environment: type) -> None:
    spec = gymnasium.envs.registration.EnvSpec("Faulty-v0", entry_point=environment)
    monkeypatch.setitem(gymnasium.registry, "Faulty-v0", spec)
    with pytest.raises(ValueError, match=r"^Gymnasium: ") as error:
        batch = make("Faulty-v0", 1)
        batch.reset()
        batch.step(np.zeros(1, np.int32))
    assert FAULTY[environment] in re.sub(r"line \d+", "line LINE", str(error.value))
    assert "\n" not in str(error.value)


IMAGES, FITS = spaces.Box(0, 255, (8, 8, 3), np.uint8), "Faulty-v0 gave an observation that does not fit its space"
PAIR = spaces.Dict(a=spaces.Box(-1, 1, (2,), np.float32), b=spaces.Box(-1, 1, (2,), np.float32))


@pytest.mark.parametrize(
    ("space", "observation", "message"),
    [
        (IMAGES, np.full((8, 8, 3), 0.5), "gave an observation of type float64, and its space has uint8."),
        (IMAGES, np.full((8, 8, 3), 300), "gave an observation of values from 300 to 300, which are not all in its"),
        (spaces.Dict(a=IMAGES), {"a": np.full((8, 8, 3), 0.7)}, f"{FITS} (in 'a', type float64, and its space has uin"),
        (PAIR, {"a": np.zeros(2), "b": np.zeros(1)}, f"{FITS} (in 'b', shape (1,), and its space has (2,))."),
        (PAIR, {"a": np.zeros(3), "b": np.zeros(1)}, f"{FITS} (in 'a', shape (3,), and its space has (2,))."),
        (spaces.Discrete(4), -1, f"{FITS} (values from -1 to -1, which are not all in its space Discrete(4))."),
        (spaces.Discrete(4, start=1), 5, f"{FITS} (values from 5 to 5, which are not all in its"),
        (spaces.MultiDiscrete([2, 3]), np.array([2, 1]), f"{FITS} (values from 1 to 2, which are not all in its"),
        (spaces.MultiBinary(2), np.array([0, 2]), f"{FITS} (values from 0 to 2, which are not all in its"),
        (spaces.MultiBinary(2), np.array([0, 0.5]), f"{FITS} (type float64, and its space has int8)."),
        (
            spaces.Box(0, 9, (2,), np.int64),
            np.array([0, 10]),
            "gave an observation of values from 0 to 10, which are n",
        ),
        (spaces.Box(0, 9, (2,), np.int64), np.array([0, 0.5]), "of type float64, and its space has int64."),
        (spaces.Box(0, 9, (2,), np.uint8), np.array([0, 10], np.uint8), "of values from 0 to 10, which are not all"),
        (spaces.Tuple([spaces.Discrete(2)]), (2,), f"{FITS} (in 0, values from 2 to 2, which are not all in its"),
    ],
)
def test_an_observation_outside_its_space_is_an_error(monkeypatch, space, observation, message) -> None:
    """What is no number of the space's type would otherwise be cast, broadcast or read as another one."""
    spec = gymnasium.envs.registration.EnvSpec("Faulty-v0", entry_point=observing(space, observation))
    monkeypatch.setitem(gymnasium.registry, "Faulty-v0", spec)
    with pytest.raises(ValueError, match="^Gymnasium: ") as error:
        make("Faulty-v0", 1).reset()
    assert message in str(error.value)
    monkeypatch.setitem(
        gymnasium.registry,
        "Faulty-v0",
        gymnasium.envs.registration.EnvSpec("Faulty-v0", entry_point=observing(space, space.sample())),
    )
    make("Faulty-v0", 1).reset()


def test_a_reward_that_is_no_number_is_an_error_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one of the check of pickle, which compares rewards."""
    spec = gymnasium.envs.registration.EnvSpec("Faulty-v0", entry_point=NoReward)
    monkeypatch.setitem(gymnasium.registry, "Faulty-v0", spec)
    batch = make("Faulty-v0", 1)
    batch.reset()
    assert not batch.saves_episodes
    with pytest.raises(ValueError, match=r"^Gymnasium: Faulty-v0 gave a reward that is not a number: None\.$"):
        batch.step(np.zeros(1, np.int32))


UNSUPPORTED = (
    "Given-v0 has observations .*; supported are Box .*uint8 of a higher rank is not supported, everything else .*"
    "Dict or Tuple"
)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Graph(spaces.Discrete(2), None),
        spaces.Box(0, 255, (4, 8, 8, 3), np.uint8),
        spaces.Dict(a=spaces.Discrete(2), mission=spaces.Text(5)),
        spaces.Tuple([spaces.Sequence(spaces.Discrete(2))]),
    ],
)
def test_observations_that_are_not_supported(space: gymnasium.Space) -> None:
    with pytest.raises(ValueError, match=UNSUPPORTED):
        given(space)


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(2),
        spaces.Box(0, 4, (2,), np.int64),
        spaces.Tuple([spaces.Discrete(2)]),
    ],
)
def test_actions_that_are_not_supported(space: gymnasium.Space) -> None:
    with pytest.raises(ValueError, match="Given-v0 has actions .*; supported are Discrete, and Box of floating-point"):
        given(spaces.Discrete(2), space)


def test_wrong_settings_and_arguments() -> None:
    with pytest.raises(ValueError, match="Gymnasium: the environment's config has no field 'task', which is required"):
        make_gymnasium({"max_steps": 0}, 1, 0)
    with pytest.raises(ValueError, match="has a field 'frame_skip' that nothing reads: delete it"):
        make(frame_skip=4)
    with pytest.raises(ValueError, match="max_steps must be at least 0, got -1"):
        make(max_steps=-1)
    with pytest.raises(ValueError, match="num_envs must be at least 1, got 0"):
        make(num_envs=0)
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        make(seed=-1)
    environment = make()
    with pytest.raises(RuntimeError, match="step was called before reset"):
        environment.step(np.zeros(2))
    with pytest.raises(ValueError, match="reset takes no options"):
        environment.reset(options={"x": 1})
    environment.reset()
    with pytest.raises(ValueError, match=r"actions must have shape \(2,\), got \(2, 1\)"):
        environment.step(np.zeros((2, 1)))
    pendulum = make("Pendulum-v1")
    pendulum.reset()
    with pytest.raises(ValueError, match=r"actions must have shape \(2, 1\), got \(2,\)"):
        pendulum.step(np.zeros(2))
    with pytest.raises(ValueError, match=r"gave an observation of shape \(1,\), and its space has \(2,\)"):
        make_own("WrongShape").reset()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_an_error_of_the_environment(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    """Unless the agent's own actions are not finite: then its loss says that it diverged."""

    def with_step(task: str, obs: float, reward: float) -> GymnasiumEnvironment:
        environment = make(task)
        environment.reset()
        shape = environment.single_observation_space.shape
        step = np.full(shape, obs, np.float32), reward, False, False, {}
        monkeypatch.setattr(environment._tasks[1], "step", lambda action: step)
        return environment

    with pytest.raises(ValueError, match=r"^Gymnasium: CartPole-v1 gave an observation that is NaN or infinite\.$"):
        with_step("CartPole-v1", value, 1.0).step(np.zeros(2))
    with pytest.raises(ValueError, match=r"^Gymnasium: CartPole-v1 gave a reward that is NaN or infinite\.$"):
        with_step("CartPole-v1", 0.0, value).step(np.zeros(2))
    assert np.isnan(with_step("Pendulum-v1", np.nan, np.nan).step(np.full((2, 1), np.nan))[1][1])
    environment = make()
    monkeypatch.setattr(environment._tasks[0], "reset", lambda **_: (np.full(4, value, np.float32), {}))
    with pytest.raises(ValueError, match="gave an observation that is NaN or infinite"):
        environment.reset()


def test_emulators_print_no_banner(capfd: pytest.CaptureFixture[str]) -> None:
    assert make("ale_py:ALE/Pong-v5", num_envs=1).image
    assert capfd.readouterr() == ("", "")


def test_the_example_of_the_guide(tmp_path: Path) -> None:
    """Its module, from the folder of the command; the check that it recommends; and its claim on saved episodes."""
    guide = (ROOT / "docs" / "custom_environment.md").read_text()
    (module,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "my_module.py").write_text(module)
    check = guide[guide.index("    from repro import cli") :].split("\n\n")[0]
    program = "\n".join(line[4:] for line in check.splitlines()) + "\nassert batch.saves_episodes\n"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "shape=(2,)" in ran.stdout
    assert "maximum=array(2" in ran.stdout
