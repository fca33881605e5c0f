"""The adapter to DeepMind Lab, with a stand-in for its engine; test_dmlab_levels.py uses the engine itself."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import ml_collections
import numpy as np
import pytest

from paper_configs.acer import atari as acer_atari
from paper_configs.ctrace import r2d2
from paper_configs.impala import atari_shallow, dmlab_table2
from repro.acting.play import play as play_evaluation
from repro.acting.rollout import Rollout
from repro.benchmarks.dmlab_levels import play as play_at_random
from repro.environments import dmlab, dmlab_language
from repro.environments.dmlab import MAX_FAILURES, make_dmlab
from repro.environments.dmlab_game import ACTIONS
from repro.environments.dmlab_levels import DMLAB30, LEVELS, level_name
from repro.environments.dmlab_module import FOLDER_VARIABLE, MISSING, provenance
from repro.environments.dmlab_process import ROOT, GameProcess
from repro.environments.last_step import WithLastStep
from repro.environments.lookup import MissingModuleError, UnknownTaskError
from repro.environments.make import make_environment, make_evaluation_environment
from repro.environments.names import check_package, task_name
from repro.environments.reward_clips import REWARD_CLIPS
from repro.evidence import published
from repro.papers import find_experiment
from repro.training.run_directory import RunDirectory
from tests.environments.stepping import through_a_file

FAKE = Path(__file__).parents[1] / "support/fake_dmlab"
CONFIG = {
    "name": "dmlab",
    "task": "lt_chasm",
    "frame_skip": 4,
    "height": 72,
    "width": 96,
    "reward_clip": "none",
    "instruction_length": 0,
    "instruction_vocabulary": 1000,
}
STEPS = 3  # of an episode of 10 frames
WORD_IDS = [662, 764, 319, 374, 667]  # of "pick up the red ball", in a vocabulary of 1000


@pytest.fixture(autouse=True)
def fake_engine(monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(FAKE))


@pytest.fixture
def make():
    made = []

    def make(num_envs=1, seed=5, shard=(0, 1), **fields):
        made.append(make_dmlab(CONFIG | fields, num_envs, seed, shard))
        return made[-1]

    yield make
    for env in made:
        env.close()


def config_of(**fields):
    return ml_collections.ConfigDict({"env": CONFIG | fields, "agent": "impala", "runtime": {}})


def seeds_of(frames):
    return [int(frame[0, 0, 1]) + 256 * int(frame[0, 0, 2]) for frame in frames]


def mixers_of(frames):
    low = frames[:, 0, 1].astype(int) @ (1, 256, 65536)
    return (low + (frames[:, 0, 2, 0].astype(int) << 31)).tolist()


def play(env, steps):
    """Steps forward; returns the seeds of all episodes that began."""
    found = []
    for _ in range(steps):
        frames, *_, info = env.step(np.zeros(env.num_envs, np.int32))
        found += [seed for seed, frame in zip(seeds_of(frames), frames, strict=True) if frame[0, 0, 0] == 0]
    return found


# Names


def test_the_levels_are_those_with_published_scores():
    scores = published.normaliser("dmlab30")
    assert set(DMLAB30) == set(scores)
    assert len(DMLAB30) == 30
    assert all(score["human"] > score["random"] for score in scores.values())


def test_two_levels_have_twins_for_tests():
    twins = {name: level for name, level in LEVELS.items() if level.train != level.test}
    assert set(twins) == {"rooms_collect_good_objects_test", "rooms_exploit_deferred_effects_test"}
    for name, level in twins.items():
        assert level.test == f"contributed/dmlab30/{name}"
        assert level.train == level.test.replace("_test", "_train")


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("rooms_collect_good_objects", "rooms_collect_good_objects_test"),
        ("contributed/dmlab30/rooms_collect_good_objects_train", "rooms_collect_good_objects_test"),
        ("Rooms_Watermaze", "rooms_watermaze"),
        ("seekavoid_arena_01", "seekavoid_arena_01"),
    ],
)
def test_spellings(spelling, name):
    assert level_name(spelling) == task_name("dmlab", spelling) == name


def test_an_unknown_level_names_the_nearest():
    with pytest.raises(UnknownTaskError, match="did you mean rooms_watermaze"):
        level_name("rooms_water_maze")


# Actions, rewards and ends


def test_the_actions_are_those_of_table_c_2():
    rows = json.loads((ROOT / "paper_configs/published/impala.json").read_text())["settings"]
    printed = [row["value"] for row in rows if row["table"] == "C.2"]
    assert ACTIONS.tolist() == printed
    assert ACTIONS.dtype == np.intc


def test_each_action_reaches_the_engine(make):
    env = make(len(ACTIONS))
    env.reset()
    frames, *_ = env.step(np.arange(len(ACTIONS)))
    np.testing.assert_array_equal(frames[:, 1, :7, 0].astype(int) - 128, ACTIONS)


def test_rewards_are_summed_over_the_repeat_and_an_episode_ends_inside_it(make):
    env = make()
    first, info = env.reset()
    assert first.shape == (1, 72, 96, 3)
    assert first.dtype == np.uint8
    assert info == {}
    rewards, frames = [], []
    for step in range(1, STEPS + 1):
        frame, reward, terminated, truncated, info = env.step(np.array([0]))
        rewards.append(reward[0])
        frames.append(frame[0, 0, 0, 0])
        assert terminated[0] == info["game_over"][0] == (step == STEPS)
        assert not truncated[0]
        assert info["episode_frames"][0] == 4 * step
    assert rewards == [4.0, 4.0, 2.0]
    assert frames == [4, 8, 8]  # the engine shows nothing once an episode is over
    assert info["episode_return"][0] == 10.0
    frame, reward, terminated, _, info = env.step(np.array([8]))  # not read
    assert frame[0, 0, 0, 0] == reward[0] == 0
    assert not terminated[0]
    assert not info["game_over"][0]
    assert env.step(np.array([8]))[1] == 6.0  # fire


@pytest.mark.parametrize(
    ("clip", "expected"),
    [
        ("none", [-10.0, -1.0, 0.0, 1.0, 10.0]),
        ("unit", [-1.0, -1.0, 0.0, 1.0, 1.0]),
        ("optimistic", [-0.3, -0.3 * 0.761594, 0.0, 5 * 0.761594, 5.0]),
        ("optimistic_released", [-1.5 * 0.964028, -1.5 * 0.197375, 0.0, 5 * 0.197375, 5 * 0.964028]),
    ],
)
def test_clips_of_rewards(clip, expected):
    rewards = np.array([-10.0, -1.0, 0.0, 1.0, 10.0], np.float32)
    np.testing.assert_allclose(REWARD_CLIPS[clip](rewards), expected, atol=1e-5)


def test_returns_are_of_rewards_that_are_not_clipped(make):
    env = make(reward_clip="unit")
    env.reset()
    _, reward, *_, info = env.step(np.array([0]))
    assert (reward[0], info["episode_return"][0]) == (1.0, 4.0)
    assert reward.dtype == np.float32


@pytest.mark.parametrize(
    ("clip", "seen"), [("optimistic", 1.0), ("optimistic_released", 1.0), ("unit", 1.0), ("none", 4.0)]
)
def test_an_observation_shows_the_last_reward_clipped_once(clip, seen):
    """Not the optimistic reward, which is learned from and may be 5."""
    env = make_environment(config_of(reward_clip=clip, last_action_and_reward=True), 1, 5)
    env.reset()
    for reward_of_frames in (4.0, 4.0, 2.0):
        obs, reward, *_ = env.step(np.array([0]))
        assert obs["last_reward"].tolist() == [min(reward_of_frames, seen)]
        assert obs["last_reward"].dtype == np.float32
        np.testing.assert_allclose(reward, REWARD_CLIPS[clip](np.array([reward_of_frames])), rtol=1e-6)
    obs, *_ = env.step(np.array([0]))
    assert obs["last_reward"].tolist() == [0.0]
    env.close()


def test_negative_last_rewards_are_not_shown_as_the_optimistic_ones(make, monkeypatch):
    """-0.3 tanh(4) would be seen in place of -1."""
    env = WithLastStep(make(reward_clip="optimistic"))
    env.reset()
    monkeypatch.setattr(env._env._tasks[0], "answer", negated(env._env._tasks[0].answer))
    obs, reward, *_ = env.step(np.array([0]))
    assert obs["last_reward"].tolist() == [-1.0]
    np.testing.assert_allclose(reward, [-0.3 * np.tanh(4.0)], rtol=1e-6)


def negated(answer):
    """Answers of a level with rewards of the other sign."""

    def answers():
        reward, *others = answer()
        return -reward, *others

    return answers


def test_actions_outside_their_range_are_refused(make):
    env = make()
    env.reset()
    with pytest.raises(ValueError, match=r"lie in \[0, 9\)"):
        env.step(np.array([9]))


# Instructions and the interface


def test_ids_of_words_are_the_same_in_every_process():
    assert [dmlab_language.word_id(word, 1000) for word in ("pick", "up", "the", "red", "ball")] == WORD_IDS
    code = "from repro.environments.dmlab_language import word_id; print(word_id('pick', 1000))"
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": str(ROOT)}
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True).stdout
    assert int(printed) == WORD_IDS[0]


def test_instructions_end_in_zeros_and_are_cut():
    ids = dmlab_language.encode("Pick  up\tthe red Ball", 1000, 7)
    assert ids.tolist() == [*WORD_IDS, 0, 0]
    assert ids.dtype == np.int32
    assert dmlab_language.encode("pick up the red ball", 1000, 2).tolist() == WORD_IDS[:2]
    assert dmlab_language.encode("", 1000, 3).tolist() == [0, 0, 0]


def test_all_ids_lie_in_the_vocabulary():
    ids = [dmlab_language.word_id(f"word{i}", 10) for i in range(200)]
    assert set(ids) == set(range(1, 10))


def test_observations_with_instruction_last_action_and_reward(make):
    fields = {
        "task": "language_execute_random_task",
        "instruction_length": 8,
        "last_action_and_reward": True,
        "reward_clip": "unit",
    }
    env = make_environment(config_of(**fields), 2, 5, is_continuous=False)
    obs, _ = env.reset()
    spec = env.time_step_spec.observation
    assert set(spec) == set(obs) == {"frame", "instruction", "last_action", "last_reward"}
    for name, array in obs.items():
        assert array.shape == (2, *spec[name].shape)
        assert array.dtype == spec[name].dtype.as_numpy_dtype
    expected = [dmlab_language.encode(f"pick up the red ball {seed}", 1000, 8) for seed in (0, 1)]
    np.testing.assert_array_equal(obs["instruction"], expected)
    obs, *_ = env.step(np.array([8, 1]))
    assert obs["last_action"].tolist() == [8, 1]
    assert obs["last_reward"].tolist() == [1.0, 1.0]
    env.close()


def test_it_steps_in_a_rollout(make):
    rollout = Rollout(make(2), lambda obs, step_type: (np.zeros(2, np.int32), ()))
    rollout.reset()
    games = [episode for _ in range(9) for _, episode in rollout.step().episodes]
    assert [(game.score, game.frames) for game in games] == [(10.0, 12)] * 4


def test_a_seed_of_tests_is_no_seed_of_training(make):
    with pytest.raises(ValueError, match=r"seed must be below 2\^31, got 2147483653"):
        make().reset(seed=2**31 + 5)


def test_agents_for_vectors_or_continuous_actions_are_refused(make):
    with pytest.raises(ValueError, match="takes Box actions"):
        make_environment(config_of(), 1, 0, is_continuous=True)
    with pytest.raises(ValueError, match="needs vectors"):
        _ = make().state_size
    with pytest.raises(ValueError, match="episodes have no known time limit, and this agent needs one"):
        _ = make().max_steps


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("frame_skip", 0, "frame_skip must be at least 1"),
        ("reward_clip", "tanh", "reward_clip must be one of none, unit"),
        ("instruction_vocabulary", 1, "at least 2"),
        ("timeout", 0.0, "timeout must be above 0"),
        ("level_set", 2**31, "below 2"),
        ("fps", 30, "a field 'fps' that nothing reads"),
    ],
)
def test_wrong_settings_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        make_dmlab(CONFIG | {field: value}, 1, 0)


def test_pictures_and_their_rate(make):
    env = make()
    frames, _ = env.reset()
    np.testing.assert_array_equal(env.render_first(), frames[0])
    assert env.metadata["render_fps"] == 15


# Seeds and maps


def test_no_seed_is_used_twice(make):
    env = make(3)
    seeds = seeds_of(env.reset()[0]) + play(env, 41)
    state = through_a_file(env.get_state())
    again = make(3)
    again.set_state(state)
    seeds += play(again, 20)
    seeds += seeds_of(again.reset()[0])
    assert len(seeds) == len(set(seeds)) > 45


def test_batches_and_tests_have_episodes_of_their_own(make):
    mixers = [mixers_of(make(seed=seed, test=test).reset()[0]) for seed in (5, 6) for test in (False, True)]
    assert mixers == [[5], [2**31 + 5], [6], [2**31 + 6]]


def test_batches_of_a_run_take_turns_in_a_level_set(make):
    batches = [make(2, seed=seed, shard=(seed, 3), level_set=7) for seed in range(3)]
    seeds = []
    for env in batches:
        frames, _ = env.reset()
        assert mixers_of(frames) == [7, 7]
        seeds += seeds_of(frames) + play(env, 12)
    assert sorted(seeds) == list(range(len(seeds)))


def test_a_seed_given_to_reset_begins_the_sequence_again(make):
    env = make()
    env.reset()
    play(env, 8)
    frames, _ = env.reset(seed=9)
    assert (seeds_of(frames), mixers_of(frames)) == ([0], [9])
    assert seeds_of(env.reset()[0]) == [1]


def test_an_evaluation_plays_the_twin_for_tests(make):
    config = config_of(task="rooms_collect_good_objects")
    with_twin = make_evaluation_environment(config, 1, 5)
    assert with_twin.config.label == "contributed/dmlab30/rooms_collect_good_objects_test"
    assert make_environment(config, 1, 5).config.label.endswith("_train")
    assert mixers_of(with_twin.reset()[0]) == [2**31 + 5]
    with_twin.close()


def test_maps_are_compiled_once_for_all_runs(make, tmp_path):
    def fetched(**fields):
        return bool(make(level_cache=str(tmp_path / "maps"), **fields).reset()[0][0, 0, 2, 1])

    assert [fetched(seed=5), fetched(seed=5), fetched(seed=6)] == [False, True, False]
    assert [fetched(seed=5, level_set=3), fetched(seed=6, level_set=3)] == [False, True]
    assert not fetched(seed=5, test=True)
    assert not list((tmp_path / "maps").glob("*.part"))


def test_runs_that_were_started_in_different_folders_have_the_same_cache(make, tmp_path, monkeypatch):
    monkeypatch.setattr(dmlab, "ROOT", tmp_path)
    fetched = []
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        fetched.append(bool(make(level_cache="maps").reset()[0][0, 0, 2, 1]))
    assert fetched == [False, True]
    assert len(list((tmp_path / "maps").iterdir())) == 1


# Failures


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids_of(env):
    """Numbers of the processes of an environment's levels, all of which run."""
    return [game._process.pid for game in env._tasks]


def kill(pid):
    """Ends a level's process, and waits until it has ended."""
    os.kill(pid, 9)
    while Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        time.sleep(0.01)


def test_a_killed_process_costs_its_episode_alone(make):
    env = make(2)
    env.reset()
    env.step(np.array([0, 0]))
    old = pids_of(env)
    kill(old[0])
    frames, reward, terminated, truncated, info = env.step(np.array([0, 0]))
    assert (truncated.tolist(), terminated.tolist()) == ([True, False], [False, False])
    assert reward.tolist() == [0.0, 4.0]
    assert frames[:, 0, 0, 0].tolist() == [4, 8]  # where the lost one was, and the next
    assert info["game_over"].tolist() == [True, False]
    assert info["lost"].tolist() == [True, False]  # its return does not count
    frames, reward, *_, info = env.step(np.array([0, 0]))
    assert not info["lost"].any()
    assert seeds_of(frames) == [2, 1]
    assert reward.tolist() == [0.0, 2.0]
    assert env.failures == 1
    assert pids_of(env)[0] != old[0]
    assert pids_of(env)[1] == old[1]
    assert env.step(np.array([0, 0]))[1][0] == 4.0


@pytest.mark.parametrize(
    ("fault", "message"),
    [("raise", "RuntimeError: The level script failed"), ("exit", "Segmentation fault"), ("hang", "no answer for 3 s")],
)
def test_failures_inside_the_process(make, monkeypatch, caplog, fault, message):
    monkeypatch.setenv("FAKE_DMLAB", f"{fault}:0")
    env = make(timeout=3.0)
    env.reset()
    pid = pids_of(env)[0]
    *_, truncated, info = env.step(np.array([0]))
    assert truncated[0]
    assert info["game_over"][0]
    assert message in caplog.text
    assert not alive(pid)
    assert seeds_of(env.step(np.array([0]))[0]) == [1]
    assert env.step(np.array([0]))[1] == 4.0
    assert env.failures == 1


def test_a_level_that_always_fails_ends_the_run(make, monkeypatch):
    monkeypatch.setenv("FAKE_DMLAB", "broken")
    env = make()
    with pytest.raises(RuntimeError, match=f"lt_chasm failed .*level script failed; it was failure {MAX_FAILURES}"):
        env.reset()
    assert env.failures == MAX_FAILURES


def test_closing_ends_the_processes_and_removes_their_files(make, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    env = make(2)
    env.reset()
    pids = pids_of(env)
    assert all(map(alive, pids))
    assert list(tmp_path.iterdir())
    env.close()
    assert not any(map(alive, pids))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("x", 2)])
def test_the_program_of_a_level_says_what_it_takes(argument, code):
    command = [sys.executable, "-m", "repro.environments.dmlab_game", argument]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code
    assert (done.stdout or done.stderr).startswith("usage: python -m repro.environments.dmlab_game [-h] descriptor\n")
    assert "Traceback" not in done.stderr


def test_a_process_ends_with_the_one_that_started_it(tmp_path):
    code = """
import os
from repro.environments.dmlab_process import GameProcess
settings = {"height": "72", "width": "96", "mixerSeed": "0"}
game = GameProcess("lt_chasm", settings, None, 600, 15)
game.request("begin", 0)
game.answer()
print(game._process.pid, flush=True)
os._exit(1)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    pid = int(subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=False).stdout)
    until = time.monotonic() + 20
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(pid)
    assert not list(tmp_path.iterdir())


# Saved states


def test_open_episodes_are_cut_where_a_saved_state_goes_on(make):
    env = make(2)
    env.reset()
    env.step(np.array([0, 0]))
    state = through_a_file(env.get_state())
    again = make(2)
    np.testing.assert_array_equal(again.set_state(state), state["observation"])
    _, reward, terminated, truncated, info = again.step(np.array([0, 0]))
    assert truncated.all()
    assert not terminated.any()
    assert not reward.any()
    assert info["episode_return"].tolist() == [4.0, 4.0]
    assert info["lost"].tolist() == [True, True]
    assert seeds_of(again.step(np.array([0, 0]))[0]) == [2, 3]


def test_a_state_of_another_level_is_refused(make):
    env = make()
    env.reset()
    with pytest.raises(ValueError, match="the state is of lt_chasm"):
        make(task="seekavoid_arena_01").set_state(env.get_state())


def ends_of(env, steps):
    """Steps, from 1, in which each environment's episodes end, and whether each of these ends is a cut."""
    ends, cuts = [[] for _ in range(env.num_envs)], [[] for _ in range(env.num_envs)]
    for step in range(1, steps + 1):
        _, _, terminated, truncated, info = env.step(np.zeros(env.num_envs, np.int32))
        assert (terminated | truncated).tolist() == info["game_over"].tolist()
        for row in info["game_over"].nonzero()[0]:
            ends[row].append(step)
            cuts[row].append(bool(truncated[row]))
    return ends, cuts


def test_first_episodes_are_cut_at_steps_of_their_own(make):
    """Episodes of three steps, and one between two. Six environments of two batches: cuts at 0 to 5 sixths of 6."""
    for index, expected in ((0, [[3, 7, 11], [2, 6, 10], [3, 7, 11]]), (1, [[1, 5, 9], [3, 7, 11], [3, 7, 11]])):
        env = make(3, shard=(index, 2), stagger_steps=6)
        env.reset()
        ends, cuts = ends_of(env, 12)
        assert ends == expected
        assert cuts == [[row[0] < STEPS, False, False] for row in expected]  # an end in the step of a cut is an end
    never = make(3, shard=(1, 2), stagger_steps=0)
    never.reset()
    assert ends_of(never, 8)[0] == [[3, 7]] * 3


def test_a_cut_keeps_the_step_s_reward_and_its_return(make):
    env = make(2, stagger_steps=4)
    env.reset()
    env.step(np.zeros(2, np.int32))
    _, reward, _, truncated, info = env.step(np.zeros(2, np.int32))
    assert truncated.tolist() == [False, True]
    assert reward.tolist() == [4.0, 4.0]
    assert (info["episode_return"][1], info["episode_frames"][1]) == (8.0, 8)
    assert seeds_of(env.step(np.zeros(2, np.int32))[0]) == [0, 3]
    assert env.failures == 0


def test_a_first_episode_that_fails_leaves_its_cut_to_no_other(make):
    env = make(2, stagger_steps=4)
    env.reset()
    kill(pids_of(env)[1])
    assert ends_of(env, 5) == ([[3], [1, 5]], [[False], [True, False]])


def test_episodes_are_staggered_again_where_they_begin_together_but_not_in_tests(make):
    env = make(3, stagger_steps=3)
    for _ in range(2):
        env.reset()
        assert ends_of(env, 4)[0] == [[3], [1], [2]]
    again = make(3, stagger_steps=3)
    again.set_state(through_a_file(env.get_state()))
    assert ends_of(again, 5)[0] == [[1, 5], [1, 3], [1, 4]]  # open ones are cut, and the next ones begin together
    test = make(3, stagger_steps=3, test=True)
    test.reset()
    assert ends_of(test, 3)[0] == [[3]] * 3


def test_a_run_that_begins_new_episodes_repeats_none(make):
    env = make(3)
    seeds = seeds_of(env.reset()[0]) + play(env, 17)
    counters = through_a_file(env.get_counters())
    again = make(3)
    again.set_counters(counters)
    seeds += seeds_of(again.reset()[0]) + play(again, 9)
    assert len(seeds) == len(set(seeds)) > 20


# Agents


@pytest.fixture
def begun(monkeypatch):
    """Seeds of all episodes that begin, in their order."""
    seeds, request = [], GameProcess.request

    def record(self, *what):
        if what[0] == "begin":
            seeds.append(what[1])
        request(self, *what)

    monkeypatch.setattr(GameProcess, "request", record)
    return seeds


@pytest.mark.slow
def test_an_interrupted_run_repeats_no_episode(tmp_path, begun):
    config = dmlab_table2.get_config("smoke")
    config.env.update({"task": "lt_chasm", "level_set": 3, "level_cache": "", "stagger_steps": 2})
    config.learner.update({"batch_size": 2, "unroll_length": 5})
    config.runtime.update({"num_actors": 2, "envs_per_actor": 2, "schedule": "async"})
    config.num_env_frames = 2 * 4 * 5 * 8
    for updates in (4, 8):
        trainer = find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)
        for update in trainer:
            if update.updates == updates:
                break
        trainer._source.close()  # the actors stop, so that what they have begun is what is counted
        trainer.save()
        if updates == 4:
            before = len(begun)
    assert len(begun) > before + 4
    assert len(begun) == len(set(begun))


def episodes_of(batch):
    """Mixer and seed of the episodes that begin in a batch's unrolls, whose last rows begin the next ones."""
    frames = np.concatenate([group.arrays.observation["frame"][:, :-1] for group in batch.groups])
    frames = frames.reshape(-1, *frames.shape[2:])
    first = frames[frames[:, 0, 0, 0] == 0]
    return list(zip(mixers_of(first), seeds_of(first), strict=True))


@pytest.mark.slow
def test_an_actor_in_a_process_that_is_started_again_repeats_no_episode(tmp_path):
    config = dmlab_table2.get_config("smoke")
    config.env.update({"task": "lt_chasm", "level_set": 3, "level_cache": "", "stagger_steps": 0})
    config.learner.update({"batch_size": 2, "unroll_length": 8})
    config.runtime.update({"num_actors": 1, "envs_per_actor": 2, "schedule": "processes"})
    config.num_env_frames = 10**9
    trainer = find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)
    source, played = trainer._source, []
    trainer._weights.publish(0)
    timer = threading.Timer(180.0, trainer.interrupt)
    timer.start()

    def play_until(number):
        while len(played) < number:
            batch = source.next()
            played.extend(episodes_of(batch))
            source.release(batch)

    try:
        play_until(4)
        source._actors._processes[0].kill()
        play_until(len(played) + 40)  # more than may have waited in the queue
    finally:
        timer.cancel()
        trainer.close()
    assert source.restarts == 1
    assert len(played) == len(set(played))
    assert {mixer for mixer, _ in played} == {3, 4}


def _acer():
    config = acer_atari.get_config("smoke")
    config.replay.frames = 2_000
    config.runtime.update({"num_actors": 2, "envs_per_actor": 2})
    return config


def _r2d2():
    config = r2d2.get_config("smoke")
    config.replay.first_frames = 800
    config.runtime.update({"num_actors": 2, "envs_per_actor": 2})
    return config


@pytest.mark.slow
@pytest.mark.parametrize("make_config", [_acer, _r2d2])
def test_actors_of_other_agents_take_turns_in_a_level_set_as_well(tmp_path, begun, make_config):
    config = make_config()
    config.env = ml_collections.ConfigDict(CONFIG | {"level_set": 3, "last_action_and_reward": make_config is _r2d2})
    config.num_env_frames = 2_000
    trainer = find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)
    next(iter(trainer))
    trainer.close()
    assert len(begun) >= 8
    assert len(begun) == len(set(begun))


def train_and_evaluate(folder, agent, task, instruction_length):
    """Three updates of an agent of Table 2 and four games of its policy, which are returned."""
    config = dmlab_table2.get_config("smoke")
    config.agent = agent
    config.env.update({"task": task, "instruction_length": instruction_length, "level_set": 3, "level_cache": ""})
    config.learner.update({"batch_size": 4, "unroll_length": 5})
    config.runtime.update({"num_actors": 2, "envs_per_actor": 2})
    config.num_env_frames = 4 * 4 * 5 * 3
    experiment = find_experiment(config)
    trainer = experiment.build_trainer(1, RunDirectory(folder / "run", config.to_dict(), 1), print)
    shapes = [tuple(variable.shape) for variable in trainer._variables.agent.trainable_variables]
    assert ((1000, 20) in shapes) == ((20 + 64, 256) in shapes) == (instruction_length > 0)
    losses = [update.scalars["loss"] for update in trainer]
    trainer.save()
    trainer.close()
    assert len(losses) == 3
    assert np.isfinite(losses).all()
    policy, environment, _ = experiment.load_policy(folder / "run/checkpoints", 2, 1, print)
    games = play_evaluation(policy, environment, 4, 0, lambda game: None)
    environment.close()
    return games


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "task", "instruction_length"),
    [("vtrace", "lt_chasm", 0), ("vtrace_deep", "language_execute_random_task", 8)],
)
def test_impala_trains_and_is_evaluated(tmp_path, agent, task, instruction_length):
    games = train_and_evaluate(tmp_path, agent, task, instruction_length)
    assert [game.frames for game in games] == [12] * 4


def test_an_agent_without_a_width_for_instructions_refuses_them():
    config = atari_shallow.get_config("smoke")
    with config.unlocked():
        config.env = CONFIG | {"last_action_and_reward": True, "instruction_length": 8}
        config.network.core_units = 8
    experiment = find_experiment(config)
    environment = experiment.make_environment(1, 0)
    with pytest.raises(ValueError, match="the network does not read instruction: leave it out"):
        experiment.make_agent(environment, 0)
    environment.close()


# Without the module


def test_a_missing_module_is_one_sentence_that_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(MissingModuleError, match="make dmlab SOURCE=") as error:
        make_environment(config_of(), 1, 0)
    assert str(error.value) == MISSING
    assert isinstance(error.value, ValueError)  # what commands print as one sentence
    with pytest.raises(MissingModuleError, match="make dmlab SOURCE="):
        check_package("dmlab")
    check_package("atari")


def test_records_say_what_the_module_was_built_from(monkeypatch, tmp_path):
    from repro.launch.recording import circumstances

    (tmp_path / "deepmind_lab").mkdir()
    (tmp_path / "provenance.json").write_text('{"text": "commit b1db91a, stand-ins for 2 of 9 textures"}')
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert circumstances(1, "dmlab")["versions"]["deepmind_lab"] == "commit b1db91a, stand-ins for 2 of 9 textures"
    assert "deepmind_lab" not in circumstances(1, "atari")["versions"]
    monkeypatch.setenv(FOLDER_VARIABLE, str(FAKE))
    assert provenance() is None


# The command that plays levels at random


def play_levels(*arguments):
    command = [sys.executable, "-m", "repro.benchmarks.dmlab_levels", "--levels=lt_chasm", "--level_cache=maps"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_levels_are_played_until_all_is_reached(tmp_path):
    done = play_levels("--steps=2", "--episodes=1", f"--level_cache={tmp_path}", f"--json={tmp_path / 'out.json'}")
    assert (done.returncode, done.stderr) == (0, "")
    (level,) = json.loads((tmp_path / "out.json").read_text())["levels"]
    assert done.stdout.startswith(level["task"])
    assert len(level["returns"]) == 1
    assert level["steps"] >= STEPS


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "give --steps or --episodes."),
        (("--steps=1", "--levels=rooms_watermase"), "did you mean rooms_watermaze"),
        (("--steps=1", "--processes=0"), "--processes=0: 0 is not a positive integer"),
        (("--steps=1",), MISSING),
    ],
)
def test_levels_that_cannot_be_played_are_one_sentence(tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    done = play_levels(*arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert sentence in done.stderr


def test_no_time_at_all_is_one_step():
    assert play_at_random("lt_chasm", level_cache="")["steps"] == 1
