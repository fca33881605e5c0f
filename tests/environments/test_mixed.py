"""Batches of several tasks: shares, which step belongs to which task, exact restoring, and errors in a sentence."""

import collections
import math
import threading

import ml_collections
import numpy as np
import pytest

from paper_configs.impala import atari_57, dmlab_30, dmlab_table2
from repro.acting.rollout import Rollout
from repro.environments import mixed
from repro.environments.atari import make_atari
from repro.environments.dmlab_levels import LEVELS
from repro.environments.dmlab_module import FOLDER_VARIABLE
from repro.environments.make import make_environment, make_evaluation_environment
from repro.environments.mixed import MixedTasks, Share, share_of
from repro.environments.names import run_task, task_names
from tests.environments.stepping import flat, through_a_file
from tests.environments.test_dmlab import FAKE, seeds_of
from tests.support.catch import Catch

GAMES = ("breakout", "pong")


def atari(*tasks, **fields):
    config = atari_57.get_config("smoke")
    config.env.tasks = tasks or GAMES
    config.env.update(fields)
    return config


def dmlab(*levels, **fields):
    config = dmlab_30.get_config("smoke")
    config.env.update({"tasks": levels, "level_cache": "", **fields})
    return config


@pytest.fixture
def make():
    made = []

    def make(*arguments, **keywords):
        made.append(make_environment(*arguments, **keywords))
        return made[-1]

    yield make
    for env in made:
        env.close()


class Marked(Catch):
    """Its games all end at each step with the return that it was made with, and it keeps its actions."""

    def __init__(self, num_envs, score, num_actions=3):
        super().__init__(num_envs, seed=0)
        self.num_actions, self.metadata = num_actions, {"render_fps": 1}
        self._score, self.actions = score, []

    def step(self, actions):
        self.actions.append(np.array(actions).tolist())
        observation, reward, over, truncated, info = super().step(actions)
        observation[:] = self._score
        info["game_over"] = np.ones(self.num_envs, bool)
        info["episode_return"] = self._score + 0.1 * np.arange(self.num_envs, dtype=np.float32)
        return observation, reward, over, truncated, info


@pytest.mark.parametrize(
    ("tasks", "envs", "actors"), [(2, 2, 1), (2, 8, 3), (3, 1, 3), (3, 1, 6), (30, 30, 2), (30, 1, 150), (30, 6, 10)]
)
def test_each_task_has_as_many_environments_and_batches_of_a_task_have_numbers_of_their_own(tasks, envs, actors):
    environments, shards = collections.Counter(), collections.defaultdict(list)
    for actor in range(actors):
        share = share_of(tasks, envs, (actor, actors))
        assert share.tasks * share.num_envs == envs
        for task in range(share.first, share.first + share.tasks):
            environments[task] += share.num_envs
            shards[task].append(share.shard)
    assert environments == dict.fromkeys(range(tasks), actors * envs // tasks)
    for of_task in shards.values():
        assert of_task == [(i, len(of_task)) for i in range(len(of_task))]


def test_actors_with_one_environment_take_turns():
    assert [share_of(3, 1, (i, 6)) for i in (0, 1, 2, 3, 5)] == [
        Share(0, 1, 1, (0, 2)),
        Share(1, 1, 1, (0, 2)),
        Share(2, 1, 1, (0, 2)),
        Share(0, 1, 1, (1, 2)),
        Share(2, 1, 1, (1, 2)),
    ]


@pytest.mark.parametrize(("envs", "actors"), [(8, 2), (1, 2), (7, 30), (45, 2), (10, 2)])
def test_unequal_shares_are_refused(envs, actors):
    with pytest.raises(
        ValueError, match=rf"^30 tasks cannot share .*num_actors={actors} times .*envs_per_actor={envs} env"
    ):
        share_of(30, envs, (0, actors))


def test_actions_and_returns_are_those_of_the_right_task():
    """Environment i plays task i mod 3, whose returns are 10, 20 and 30, and 0.1 more in its second environment."""
    parts = [Marked(2, score) for score in (10, 20, 30)]
    env = MixedTasks(("a", "b", "c"), parts, first=4)
    rollout = Rollout(env, lambda observation, step_type: (np.array([0, 1, 2, 2, 1, 0]), None))
    rollout.reset()
    step = rollout.step()
    assert [part.actions for part in parts] == [[[0, 2]], [[1, 1]], [[2, 0]]]
    assert rollout.observation[:, 0, 0, 0].tolist() == [10, 20, 30, 10, 20, 30]
    assert [i for i, _ in step.episodes] == list(range(6))
    assert [(round(e.score, 1), e.task) for _, e in step.episodes] == [
        (10, 4),
        (20, 5),
        (30, 6),
        (10.1, 4),
        (20.1, 5),
        (30.1, 6),
    ]
    with pytest.raises(ValueError, match="5 actions for 6 environments"):
        env.step(np.zeros(5, np.int32))
    env.close()


def test_each_task_is_what_a_batch_of_its_own_would_be(make):
    """Double loop over tasks and their environments, with the seeds that the batch derives."""
    config = atari(max_frames=40, noop_max=3)
    env = make(config, 4, 7)
    env.reset()
    seeds = np.random.SeedSequence(7).generate_state(2) % 2**31
    alone = []
    for task, seed in zip(GAMES, seeds):
        alone.append(make_atari({**config.env.to_dict(), "task": task}, 2, int(seed)))
        alone[-1].reset()
    actions = np.random.default_rng(0).integers(0, 18, (30, 4)).astype(np.int32)
    for action in actions:
        step = flat(env.step(action))
        assert step.pop("task").tolist() == [0, 1, 0, 1]
        for i, part in enumerate(alone):
            of_part = flat(part.step(action[i::2]))
            assert step.keys() == of_part.keys()
            for name, values in of_part.items():
                np.testing.assert_array_equal(step[name][i::2], values, err_msg=name)
    for part in alone:
        part.close()


def test_it_goes_on_exactly_where_it_was_saved_and_only_there(make):
    config = atari(max_frames=60, noop_max=3)
    env, other = make(config, 2, 7), make(config, 2, 8)
    env.reset()
    actions = np.random.default_rng(1).integers(0, 18, (40, 2)).astype(np.int32)
    for action in actions[:20]:
        env.step(action)
    state = through_a_file(env.get_state())
    whole = [flat(env.step(action)) for action in actions[20:]]
    other.set_state(state)
    for action, expected in zip(actions[20:], whole):
        for name, values in flat(other.step(action)).items():
            np.testing.assert_array_equal(values, expected[name], err_msg=name)
    with pytest.raises(ValueError, match="the state is of the tasks pong,breakout, the environment of breakout,pong"):
        other.set_state(state | {"tasks": "pong,breakout"})


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"tasks": ("pong", "pnog")}, "No Atari game is called 'pnog'; did you mean pong"),
        ({"tasks": ("pong", "ALE/Pong-v5")}, "the task pong is given twice"),
        ({"full_action_set": False}, "minimal action sets differ: set env.full_action_set=True"),
        (
            {"tasks": ("pong", "breakout", "qbert")},
            "^3 tasks cannot share runtime.num_actors=1 times runtime.envs_per_actor=4 environments equally: ",
        ),
    ],
)
def test_what_cannot_be_learned_together_is_a_sentence(fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_environment(atari(**fields), 4, 1)


def test_tasks_with_other_actions_or_observations_are_refused():
    with pytest.raises(ValueError, match="env.tasks: a has 3 actions and b has 4"):
        MixedTasks(("a", "b"), [Marked(1, 0), Marked(1, 0, num_actions=4)])
    larger = Marked(1, 0)
    larger.time_step_spec = larger.time_step_spec._replace(observation=None)
    with pytest.raises(ValueError, match="env.tasks: a and b have different observations"):
        MixedTasks(("a", "b"), [Marked(1, 0), larger])


class Hung(Marked):
    """Steps once it may, and is closed only between two steps."""

    def __init__(self):
        super().__init__(1, 0)
        self.inside, self.awake, self.closed = threading.Event(), threading.Event(), threading.Event()

    def step(self, actions):
        self.inside.set()
        assert self.awake.wait(60)
        self.inside.clear()
        return super().step(actions)

    def close(self):
        assert not self.inside.is_set()
        self.closed.set()


def test_a_task_that_hangs_keeps_neither_the_others_nor_the_process(monkeypatch):
    monkeypatch.setattr(mixed, "CLOSE_SECONDS", 0.2)
    before = set(threading.enumerate())
    healthy, hung = Hung(), Hung()
    healthy.awake.set()
    env = MixedTasks(("healthy", "hung"), [healthy, hung])
    env.reset()
    playing = threading.Thread(target=env.step, args=(np.zeros(2, np.int32),), daemon=True)
    playing.start()
    assert hung.inside.wait(60)
    closing = threading.Thread(target=env.close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()
    assert healthy.closed.is_set()
    assert not hung.closed.is_set()
    assert all(thread.daemon for thread in set(threading.enumerate()) - before)
    hung.awake.set()
    assert hung.closed.wait(60)
    playing.join(60)
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()


def test_an_error_of_a_task_is_raised_and_the_others_have_made_their_step():
    class Failing(Marked):
        def step(self, actions):
            raise OSError("gone")

    other = Marked(1, 0)
    env = MixedTasks(("a", "b"), [Failing(1, 0), other])
    env.reset()
    with pytest.raises(OSError, match="gone"):
        env.step(np.zeros(2, np.int32))
    env.close()
    assert other.actions == [[0]]


def test_tasks_of_a_flag_stand_with_commas_between(make):
    env = make(atari("pong,ALE/Breakout-v5"), 2, 1)
    env.reset()
    assert env.get_state()["tasks"] == "pong,breakout"


def test_a_set_of_tasks_has_one_name():
    config = atari_57.get_config("desk")
    assert run_task(config, "atari_57") == "atari_57"
    with pytest.raises(ValueError, match="atari_57 learns 10 tasks together, so 'pong' has no run of its own"):
        run_task(config, "pong")
    assert run_task(dmlab_table2.get_config("desk"), "contributed/dmlab30/rooms_watermaze") == "rooms_watermaze"


@pytest.mark.parametrize("config", [module.get_config(s) for module in (atari_57, dmlab_30) for s in ("desk", "paper")])
def test_configs_have_canonical_names(config):
    """Records of tasks are compared with the configuration's own names."""
    assert task_names(config.env.name, config.env.tasks) == config.env.tasks


@pytest.fixture
def fake_engine(monkeypatch):
    """The stand-in for DeepMind Lab."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(FAKE))


def test_levels_have_instructions_and_clipped_rewards_of_their_own(fake_engine, make):
    env = make(dmlab("language_select_described_object", "rooms_watermaze"), 4, 3)
    observation, _ = env.reset()
    words = observation["instruction"]
    assert words.shape == (4, 16)
    assert (words[::2, :6] > 0).all()
    assert not words[1::2].any()
    assert not np.array_equal(words[0], words[2])  # the stand-in's instructions have the seed
    _, reward, _, _, info = env.step(np.zeros(4, np.int32))
    np.testing.assert_allclose(reward, 5 * math.tanh(4.0), rtol=1e-6)  # Figure C.1
    np.testing.assert_array_equal(info["episode_return"], 4.0)


def test_no_two_actors_play_the_same_episode_of_a_level(fake_engine, make):
    found = collections.defaultdict(list)
    for actor in range(4):
        env = make(dmlab("rooms_watermaze", "lt_chasm"), 1, 3, shard=(actor, 4))
        observation, _ = env.reset()
        task = int(env.step(np.zeros(1, np.int32))[-1]["task"][0])
        found[task] += seeds_of(observation["frame"])
    assert found == {0: [0, 1], 1: [0, 1]}


def test_evaluation_plays_test_levels(fake_engine, make):
    config = ml_collections.ConfigDict(dmlab("rooms_collect_good_objects_test", "rooms_watermaze").to_dict())
    played = make_evaluation_environment(config, 2, 3)
    labels = [part.get_state()["env"]["task"] for part in played._parts]
    assert labels == [LEVELS[task].test for task in ("rooms_collect_good_objects_test", "rooms_watermaze")]
    assert labels[0].endswith("_test")
    played.close()


def test_counters_of_episodes_are_those_of_the_tasks_that_count_them():
    class Counting:
        def __init__(self, begun):
            self.begun = begun

        def get_counters(self):
            return {"episodes": np.array(self.begun)}

        def set_counters(self, counters):
            self.begun = counters["episodes"].tolist()

    mixed = MixedTasks.__new__(MixedTasks)
    mixed._parts = (Counting([3, 4]), object(), Counting([5, 6]))
    counters = mixed.get_counters()
    assert {place: x["episodes"].tolist() for place, x in counters.items()} == {"0": [3, 4], "2": [5, 6]}
    of_before = {place: x["episodes"] for place, x in counters.items()}  # as older checkpoints have them
    for state in (counters, of_before):
        again = MixedTasks.__new__(MixedTasks)
        again._parts = (Counting([0, 0]), object(), Counting([0, 0]))
        again.set_counters(state)
        assert [part.begun for part in again._parts[::2]] == [[3, 4], [5, 6]]


def test_tasks_that_count_nothing_may_have_the_last_action_and_reward(make):
    """They have counters, as `WithLastStep` always has, which are empty."""
    env = {"name": "gymnasium", "task": "", "tasks": ("CartPole-v0", "CartPole-v1"), "last_action_and_reward": True}
    config = ml_collections.ConfigDict({"env": env})
    played, other = make(config, 2, 0), make(config, 2, 1)
    np.testing.assert_array_equal(played.reset(seed=1)[0]["frame"], other.reset()[0]["frame"])
    assert (played.reset(seed=0)[0]["frame"] != other.reset()[0]["frame"]).all()
    assert set(played.time_step_spec.observation) == {"frame", "last_action", "last_reward"}
    assert played.get_counters() == {}
