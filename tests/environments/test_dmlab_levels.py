"""The adapter on DeepMind Lab itself, if it is built; test_dmlab.py tests the adapter's logic everywhere."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from repro.environments.dmlab import make_dmlab
from repro.environments.dmlab_module import module_folder
from repro.environments.dmlab_process import ROOT
from repro.environments.lookup import MissingModuleError
from tests.environments.test_dmlab import CONFIG, pids_of, train_and_evaluate

try:
    module_folder()
except MissingModuleError as error:
    pytest.skip(str(error), allow_module_level=True)

LEVEL = "seekavoid_arena_01"
FRAMES = 20 * 60  # of an episode of this level, which takes 20 seconds
COMPILED = "language_select_described_object"  # compiles a map in seconds


@pytest.fixture
def make():
    made = []

    def make(task=LEVEL, num_envs=1, seed=5, **fields):
        made.append(make_dmlab(CONFIG | {"task": task} | fields, num_envs, seed))
        return made[-1]

    yield make
    for env in made:
        env.close()


def actions(steps, seed=0):
    return np.random.default_rng(seed).integers(9, size=(steps, 1))


def test_one_seed_gives_the_same_pictures_and_rewards(make):
    def episode(seed):
        env = make(seed=seed)
        found = [env.reset()[0]]
        for action in actions(100):
            found += env.step(action)[:2]
        return found

    first = episode(5)
    for left, right in zip(first, episode(5), strict=True):
        np.testing.assert_array_equal(left, right)
    other = episode(6)
    assert any((left != right).any() for left, right in zip(first, other, strict=True))
    assert first[0].shape == (1, 72, 96, 3)
    assert all(frame.std() > 5 for frame in (first[0], *first[1::2]))


def test_looking_left_and_right_moves_the_picture_there(make):
    def shift(before, after):
        """Columns that what was seen has moved by, to the right; the lowest rows show the player's state."""
        old, new = (frame[0, :60].astype(float).mean(axis=(0, 2)) for frame in (before, after))
        return min(range(-12, 13), key=lambda k: np.abs(old[12 - k : 84 - k] - new[12:84]).mean())

    env = make()
    env.reset()
    for _ in range(5):  # the player falls to the ground first
        before, *_ = env.step(np.array([8]))
    left, *_ = env.step(np.array([4]))
    again, *_ = env.step(np.array([5]))
    assert 5 <= shift(before, left) <= 9
    assert -9 <= shift(left, again) <= -5


def test_the_engine_does_what_table_c_2_says_of_each_action():
    """By the player's speed: forward and to the left, and that of looking up or down and to the left."""
    code = f"""
import json, sys
sys.path.insert(0, {module_folder()!r})
import deepmind_lab
from repro.environments.dmlab_game import ACTIONS
size = dict(width="8", height="8", fps="60")
lab = deepmind_lab.Lab({LEVEL!r}, ["VEL.TRANS", "VEL.ROT"], config=size, renderer="software")
def speeds(action):
    lab.reset(seed=1)
    lab.step(0 * action, num_steps=30)  # the player falls to the ground first
    lab.step(action, num_steps=12)
    return [lab.observations()[name].tolist() for name in ("VEL.TRANS", "VEL.ROT")]
print(json.dumps([lab.action_spec()[4]["name"], [speeds(action) for action in ACTIONS]]))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True).stdout
    fifth, speeds = json.loads(printed.splitlines()[-1])
    assert fifth == "FIRE"  # moves nothing
    moves, looks = np.sign(np.array(speeds).round()).swapaxes(0, 1)
    turns_and_walks = [6, 7]  # drifts to the side
    moves[turns_and_walks, 1] = 0
    walks = [(1, 0), (-1, 0), (0, 1), (0, -1), (0, 0), (0, 0), (1, 0), (1, 0), (0, 0)]
    np.testing.assert_array_equal(moves, [(*walk, 0) for walk in walks])
    np.testing.assert_array_equal(looks, [(0, turn, 0) for turn in (0, 0, 0, 0, 1, -1, 1, -1, 0)])


def test_an_episode_ends_by_the_clock(make):
    env = make()
    env.reset()
    total = 0.0
    for step, action in enumerate(actions(FRAMES), 1):
        _, reward, terminated, truncated, info = env.step(action)
        total += float(reward[0])
        if info["game_over"][0]:
            break
    assert terminated[0]
    assert not truncated[0]
    assert info["episode_frames"][0] == 4 * step
    assert abs(4 * step - FRAMES) <= 8
    assert info["episode_return"][0] == total
    _, reward, *_, info = env.step(action)
    assert reward[0] == 0
    assert not info["game_over"][0]


def test_instructions_and_the_cache_of_maps(make, tmp_path):
    cache = tmp_path / "maps"

    def first_observation(seed):
        env = make(COMPILED, seed=seed, instruction_length=8, level_cache=str(cache))
        obs, _ = env.reset()
        return obs, env.instructions, sorted(path.name for path in cache.iterdir())

    obs, instructions, maps = first_observation(5)
    assert np.count_nonzero(obs["instruction"]) == len(instructions[0].split()) > 0
    assert maps
    again, instructions_again, maps_again = first_observation(5)
    assert (instructions_again, maps_again) == (instructions, maps)
    np.testing.assert_array_equal(again["frame"], obs["frame"])


def test_a_killed_level_costs_its_episode_alone(make):
    env = make(num_envs=2)
    env.reset()
    env.step(np.array([0, 0]))
    os.kill(pids_of(env)[0], 9)
    *_, truncated, info = env.step(np.array([0, 0]))
    assert truncated.tolist() == info["game_over"].tolist() == [True, False]
    for _ in range(3):
        frames, *_, info = env.step(np.array([0, 0]))
    assert info["episode_frames"].tolist() == [8, 20]
    assert frames[0].std() > 5
    assert env.failures == 1


def test_levels_for_training_and_tests_differ(make):
    train, test = (make("rooms_collect_good_objects", test=test).reset()[0] for test in (False, True))
    assert (train != test).any()


def test_a_level_that_the_engine_lacks_is_one_sentence(make, monkeypatch):
    from repro.environments import dmlab_levels

    monkeypatch.setitem(dmlab_levels.LEVELS, LEVEL, dmlab_levels.Level("not_there", "not_there"))
    with pytest.raises(RuntimeError, match="not_there failed in episode 3 of environment 0: .*not_there"):
        make().reset()


@pytest.mark.slow
@pytest.mark.parametrize("instruction_length", [0, 8])
def test_impala_trains_on_a_level_and_is_evaluated(tmp_path, instruction_length):
    games = train_and_evaluate(tmp_path, "vtrace", LEVEL, instruction_length)
    assert len(games) == 4
    assert all(abs(game.frames - FRAMES) <= 8 for game in games)
