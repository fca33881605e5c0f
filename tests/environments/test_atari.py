"""The Atari environment's protocol: each field has its effect, the step contract holds, errors are clear."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

import ale_py
import ml_collections
import numpy as np
import pytest
import tensorflow as tf

from paper_configs.impala import atari_shallow
from repro.environments.atari import AtariEnvironment, make_atari
from repro.environments.lookup import UnknownTaskError
from repro.environments.make import make_environment, make_evaluation_environment
from tests.environments.reference import PROTOCOL


def make(num_envs: int = 2, seed: int = 3, **overrides: Any) -> AtariEnvironment:
    return make_atari({**PROTOCOL, "task": "breakout", **overrides}, num_envs, seed)


def play(environment: AtariEnvironment, steps: int, actions_seed: int = 0) -> dict[str, Any]:
    """Plays at random from a reset; returns everything seen, [steps, N, ...]."""
    environment.reset()
    random = np.random.default_rng(actions_seed)
    shape = (steps, environment.num_envs)
    seen = [environment.step(a) for a in random.integers(environment.num_actions, size=shape, dtype=np.int32)]
    observation, reward, terminated, truncated, info = zip(*seen)
    columns = {"observation": observation, "reward": reward, "terminated": terminated, "truncated": truncated}
    columns |= {name: [entry[name] for entry in info] for name in info[0]}
    return {name: np.stack(column) for name, column in columns.items()}


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    """300 steps of two Breakout games, with every field as in the paper."""
    return play(make(), 300)


def test_shapes_types_and_memory() -> None:
    environment = make(3)
    observation, info = environment.reset()
    assert info == {}
    stepped, reward, terminated, truncated, info = environment.step(np.zeros(3, np.int32))
    for frames in (observation, stepped):
        assert (frames.shape, frames.dtype, frames.flags.c_contiguous) == ((3, 84, 84, 4), np.uint8, True)
        assert environment.observation_space.contains(frames)
    assert (reward.shape, reward.dtype) == ((3,), np.float32)
    for flag in (terminated, truncated, info["game_over"]):
        assert (flag.shape, flag.dtype) == ((3,), bool)
    assert (info["episode_return"].dtype, info["episode_frames"].dtype) == (np.float32, np.int32)


def test_closing_ends_the_emulators() -> None:
    environment = make(1)
    emulators = weakref.ref(environment._ale)
    environment.close()
    assert emulators() is None


def test_what_a_step_returned_stays_as_it_was() -> None:
    environment = make()
    environment.reset()
    returned = environment.step(np.zeros(2, np.int32))
    copies = [np.copy(array) for array in (*returned[:4], *returned[4].values())]
    for _ in range(5):
        environment.step(np.ones(2, np.int32))
    for array, copy in zip((*returned[:4], *returned[4].values()), copies):
        np.testing.assert_array_equal(array, copy)


def test_the_newest_frame_is_the_last_channel() -> None:
    environment = make(1)
    first, _ = environment.reset()
    second, *_ = environment.step(np.zeros(1, np.int32))
    assert not first[..., :3].any()
    assert first[..., 3].any()
    np.testing.assert_array_equal(second[..., 2], first[..., 3])


def test_specs() -> None:
    environment = make(5)
    assert environment.observation_spec.shape == (84, 84, 4)
    assert environment.observation_spec.dtype == tf.uint8
    assert environment.num_actions == environment.action_spec.maximum + 1 == 4
    assert environment.time_step_spec.observation == environment.observation_spec
    assert environment.time_step_spec.reward.dtype == tf.float32


def test_the_full_action_set_is_the_same_for_all_games_with_and_without_a_button() -> None:
    assert make(1, task="skiing").num_actions == 3
    without, with_button = (make(1, task="skiing", full_action_set=True, noop_max=0) for _ in range(2))
    assert with_button.num_actions == make(1, full_action_set=True).num_actions == 18
    names = [action.name for action in sorted(ale_py.Action.__members__.values(), key=lambda a: a.value)]
    for environment in (without, with_button):
        environment.reset()
    for name in ("RIGHT", "LEFT", "DOWNRIGHT", "UPLEFT", "NOOP") * 4:
        fired = "FIRE" if name == "NOOP" else f"{name}FIRE"
        frames = [
            environment.step(np.array([names.index(n)]))[0]
            for environment, n in ((without, name), (with_button, fired))
        ]
        np.testing.assert_array_equal(*frames)


def test_full_action_set() -> None:
    environment = make(1, full_action_set=True)
    assert environment.num_actions == environment.action_spec.maximum + 1 == 18
    environment.reset()
    environment.step(np.array([17]))


def test_life_loss_ends_only_the_learning_episode(plain: dict[str, Any]) -> None:
    whole_games = play(make(life_loss_ends=False), 300)
    for name in ("observation", "reward", "game_over", "episode_return", "episode_frames"):
        np.testing.assert_array_equal(plain[name], whole_games[name])
    np.testing.assert_array_equal(whole_games["terminated"], whole_games["game_over"])
    lost = plain["terminated"] & ~plain["game_over"]
    games = plain["game_over"].sum()
    assert games >= 2
    assert 4 * games <= lost.sum() <= 4 * (games + 2)  # a game has five lives; the last one is its end
    assert not plain["truncated"].any()
    assert not (lost[:-1] & (plain["episode_frames"][1:] <= plain["episode_frames"][:-1])).any()  # it goes on


def test_the_last_life_counts_where_the_game_runs_on_without_lives() -> None:
    """Bank Heist begins with four lives and plays on for a while at none."""
    seen = play(make(num_envs=1, task="bank_heist"), 1500)
    first_game = np.flatnonzero(seen["game_over"][:, 0])[0]
    assert seen["terminated"][:first_game, 0].sum() == 4


def test_returns_are_of_whole_games_and_unclipped() -> None:
    seen = play(make(num_envs=1, task="space_invaders", reward_clip=0.0), 900)
    ends = np.flatnonzero(seen["game_over"][:, 0])
    assert len(ends) >= 1
    assert (seen["terminated"][: ends[0], 0]).any()  # lives were lost before
    assert seen["episode_return"][ends[0], 0] == seen["reward"][: ends[0] + 1, 0].sum() > 10


def test_reward_clip() -> None:
    raw = play(make(task="space_invaders", reward_clip=0.0), 200)
    assert raw["reward"].max() > 1
    for bound in (1.0, 7.5):
        clipped = play(make(task="space_invaders", reward_clip=bound), 200)
        np.testing.assert_array_equal(clipped["reward"], np.clip(raw["reward"], -bound, bound))
        np.testing.assert_array_equal(clipped["episode_return"], raw["episode_return"])


def test_the_step_after_a_game_begins_the_next_and_takes_no_action(plain: dict[str, Any]) -> None:
    after = np.zeros_like(plain["game_over"])
    after[1:] = plain["game_over"][:-1]
    assert after.sum() >= 2
    for name in ("reward", "terminated", "truncated", "game_over", "episode_return", "episode_frames"):
        assert not plain[name][after].any()
    first = plain["observation"][after]
    assert not first[..., :3].any()
    assert first[..., 3].any(axis=(1, 2)).all()

    one, other = make(max_frames=40), make(max_frames=40)
    for environment, action in ((one, 1), (other, 3)):
        environment.reset()
        for step in range(10):
            *_, info = environment.step(np.full(2, step % 4, np.int32))
        assert info["game_over"].all()
        environment.step(np.full(2, action, np.int32))
    for _ in range(5):
        left, right = (environment.step(np.full(2, 2, np.int32)) for environment in (one, other))
        np.testing.assert_array_equal(left[0], right[0])


@pytest.mark.parametrize("terminal", [True, False])
def test_time_limit(plain: dict[str, Any], terminal: bool) -> None:
    environment = make(max_frames=82, time_limit_is_terminal=terminal)  # reached in the 21st step of 4 frames
    seen = play(environment, 45)
    np.testing.assert_array_equal(np.flatnonzero(seen["game_over"][:, 0]), [20, 42])
    assert (seen["episode_frames"][20] == 84).all()
    lives_lost = plain["terminated"][:21]
    np.testing.assert_array_equal(seen["terminated"][:20], lives_lost[:20])
    assert (seen["terminated"][20] == (terminal | lives_lost[20])).all()
    np.testing.assert_array_equal(seen["truncated"][20], ~seen["terminated"][20])
    np.testing.assert_array_equal(seen["observation"][:21], plain["observation"][:21])  # the last one included
    assert not seen["episode_frames"][21].any()


def test_a_game_that_is_lost_in_the_step_of_the_time_limit_is_terminated() -> None:
    def last_step(max_frames: int) -> tuple[bool, bool, int]:
        environment = make(1, task="pong", max_frames=max_frames, time_limit_is_terminal=False)
        environment.reset()
        while True:
            *_, terminated, truncated, info = environment.step(np.zeros(1, np.int32))
            if info["game_over"][0]:
                return bool(terminated[0]), bool(truncated[0]), int(info["episode_frames"][0])

    terminated, truncated, frames = last_step(108_000)
    assert (terminated, truncated) == (True, False)
    assert last_step(frames) == (True, False, frames)
    assert last_step(frames - 4)[:2] == (False, True)


def noops_of(environment: AtariEnvironment, games: int) -> np.ndarray:
    """Emulator frames before the first observation of so many games in every environment."""
    environment.reset()
    frames = []
    for _ in range(games):
        frames.append(environment._first_frame.copy())
        *_, info = environment.step(np.zeros(environment.num_envs, np.int32))
        assert info["game_over"].all()
        environment.step(np.zeros(environment.num_envs, np.int32))
    return np.stack(frames)


@pytest.mark.slow
@pytest.mark.parametrize("fire", [0, 1])
def test_noops_are_uniform_from_one(fire: int) -> None:
    noops = noops_of(make(2, noop_max=3, max_frames=1, fire_on_reset=bool(fire)), 90) - fire
    values, counts = np.unique(noops, return_counts=True)
    np.testing.assert_array_equal(values, [1, 2, 3])
    assert (np.abs(counts - 60) < 25).all(), counts  # four standard deviations


def test_no_noops_at_all_and_no_fire() -> None:
    assert not noops_of(make(1, noop_max=0, max_frames=1), 3).any()
    assert (noops_of(make(1, noop_max=0, max_frames=1, fire_on_reset=True), 3) == 1).all()
    # Freeway has no FIRE among its own actions, but among the console's.
    freeway = {"task": "freeway", "noop_max": 0, "max_frames": 1, "fire_on_reset": True}
    assert not noops_of(make(1, **freeway), 2).any()
    assert (noops_of(make(1, **freeway, full_action_set=True), 2) == 1).all()


def test_fire_starts_the_ball() -> None:
    def rewards(fire: bool) -> float:
        environment = make(2, fire_on_reset=fire, life_loss_ends=True)
        environment.reset()
        return sum(environment.step(np.zeros(2, np.int32))[2].sum() for _ in range(60))

    assert rewards(fire=False) == 0  # without FIRE no ball, so no life is lost
    assert rewards(fire=True) == 2


def test_sticky_actions_hold_the_previous_one(plain: dict[str, Any]) -> None:
    sticky = play(make(sticky_probability=0.9), 30)
    assert (sticky["observation"][1:] != plain["observation"][1:30]).any()
    again = play(make(sticky_probability=0.9), 30)
    np.testing.assert_array_equal(sticky["observation"], again["observation"])


def test_last_action_and_reward(plain: dict[str, Any]) -> None:
    environment = make(task="space_invaders", last_action_and_reward=True, max_frames=400)
    assert set(environment.observation_spec) == {"frame", "last_action", "last_reward"}
    first, _ = environment.reset()
    assert not first["last_action"].any()
    assert not first["last_reward"].any()
    random = np.random.default_rng(0)
    over, rewards, games = np.zeros(2, bool), 0, 0
    for _ in range(250):
        actions = random.integers(6, size=2, dtype=np.int32)
        observation, reward, _, _, info = environment.step(actions)
        assert environment.observation_space.contains(observation)
        assert (observation["last_action"].dtype, observation["last_reward"].dtype) == (np.int32, np.float32)
        np.testing.assert_array_equal(observation["last_action"], np.where(over, 0, actions))
        np.testing.assert_array_equal(observation["last_reward"], reward)
        games += over.sum()
        over = info["game_over"]
        rewards += (reward == 1).sum()
    assert games >= 4
    assert rewards >= 5
    environment.step(np.full(2, 3, np.int32))
    again, _ = environment.reset()
    assert not again["last_action"].any()
    assert not again["last_reward"].any()


def test_games_follow_from_the_seed_alone(plain: dict[str, Any]) -> None:
    again = play(make(), 60)
    np.testing.assert_array_equal(again["observation"], plain["observation"][:60])
    environment = make(seed=4)
    np.testing.assert_array_equal(play(make(seed=3), 5)["observation"], plain["observation"][:5])
    environment.reset()
    other = environment.get_state()["seeds"]
    environment.reset(seed=3)
    same = environment.get_state()["seeds"]
    assert len({*other, *same}) == 4  # environments of one run differ, and so do runs
    random = np.random.default_rng(0)
    for row in range(5):
        observation, *_ = environment.step(random.integers(4, size=2, dtype=np.int32))
        np.testing.assert_array_equal(observation, plain["observation"][row])


def test_two_threads_play_as_if_alone(plain: dict[str, Any]) -> None:
    seen: dict[int, dict[str, Any]] = {}
    environments = {seed: make(seed=seed) for seed in (3, 4)}

    def act(seed: int) -> None:
        seen[seed] = play(environments[seed], 100)

    threads = [threading.Thread(target=act, args=(seed,)) for seed in environments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(seen[3]["observation"], plain["observation"][:100])
    np.testing.assert_array_equal(seen[4]["observation"], play(make(seed=4), 100)["observation"])
    assert (seen[3]["observation"] != seen[4]["observation"]).any()


def test_number_of_threads_changes_nothing(plain: dict[str, Any]) -> None:
    environment = make_atari({**PROTOCOL, "task": "breakout"}, 2, seed=3, num_threads=1)
    assert environment.num_threads == 1
    np.testing.assert_array_equal(play(environment, 60)["observation"], plain["observation"][:60])
    assert make(1).num_threads == 1


def test_config_dict_and_name(capfd: pytest.CaptureFixture[str]) -> None:
    config = ml_collections.ConfigDict({**PROTOCOL, "name": "atari", "task": "ALE/Breakout-v5"})
    environment = make_atari(config, 1, seed=3)
    environment.reset()
    assert environment.config.task == "breakout"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"frame_skip": 0}, "frame_skip must be at least 1, got 0"),
        ({"height": 0}, "height must be at least 1, got 0"),
        ({"width": -1}, "width must be at least 1, got -1"),
        ({"stack": 0}, "stack must be at least 1, got 0"),
        ({"noop_max": -1}, "noop_max must be at least 0, got -1"),
        ({"height": 10_001}, "height must be at most 10000, got 10001"),
        ({"noop_max": 2**40}, f"noop_max must be at most 10000, got {2**40}"),
        ({"reward_clip": -1.0}, "reward_clip must be at least 0, got -1.0"),
        ({"reward_clip": float("nan")}, "reward_clip must be at least 0, got nan"),
        ({"max_frames": 0}, "max_frames must be at least 1, got 0"),
        ({"max_pool": 3}, "max_pool must be 1 or 2 frames, got 3"),
        ({"frame_skip": 1}, "max_pool 2 needs a frame_skip of at least 2, got 1"),
        ({"sticky_probability": 1.0}, r"sticky_probability must lie in \[0, 1\), got 1.0"),
        ({"framskip": 4}, "'framskip' that nothing reads"),
    ],
)
def test_wrong_fields(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**overrides)


@pytest.mark.parametrize("name", sorted(PROTOCOL))
def test_every_field_must_be_given(name: str) -> None:
    protocol = {key: value for key, value in PROTOCOL.items() if key != name}
    with pytest.raises(ValueError, match=f"has no field '{name}', which is required"):
        make_atari(protocol, 1, seed=0)


def test_unknown_game() -> None:
    with pytest.raises(UnknownTaskError, match="breakout"):
        make(task="brekout")


@pytest.mark.parametrize(
    ("num_envs", "seed", "num_threads", "message"),
    [(0, 0, 0, "num_envs"), (1, -1, 0, "seed"), (1, 0, -1, "num_threads")],
)
def test_wrong_sizes(num_envs: int, seed: int, num_threads: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"{message} must be at least"):
        make_atari(PROTOCOL, num_envs, seed, num_threads)


def test_wrong_calls() -> None:
    environment = make()
    with pytest.raises(RuntimeError, match="before reset"):
        environment.step(np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="reset takes no options"):
        environment.reset(options={"mask": None})
    with pytest.raises(ValueError, match="seed must be at least 0"):
        environment.reset(seed=-1)
    environment.reset()
    with pytest.raises(ValueError, match=r"shape \(2,\), got \(3,\)"):
        environment.step(np.zeros(3, np.int32))
    for wrong in (-1, 4):
        with pytest.raises(ValueError, match=r"lie in \[0, 4\)"):
            environment.step(np.array([0, wrong]))


def test_an_evaluation_has_all_cores(monkeypatch):
    """Whatever share of them one of the actors had in training."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(3)))
    config = atari_shallow.get_config("smoke")
    config.runtime.env_threads = 1
    for make, threads in ((make_environment, 1), (make_evaluation_environment, 3)):
        environment = make(config, 4, 0)
        assert environment.num_threads == threads
        environment.close()
    assert config.runtime.env_threads == 1


def test_an_evaluation_goes_on_after_a_lost_life() -> None:
    config = atari_shallow.get_config("smoke")
    made = make_environment(config, 1, 0), make_evaluation_environment(config, 1, 0)
    assert [environment.config.life_loss_ends for environment in made] == [True, False]
    for environment in made:
        environment.close()
    assert config.env.life_loss_ends
