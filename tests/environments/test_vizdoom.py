"""Batches of ViZDoom scenarios on the engine itself, if it is installed."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import ml_collections
import numpy as np
import pytest

from paper_configs.impala import vizdoom as vizdoom_config
from repro.environments import vizdoom_module
from repro.environments.lookup import MissingModuleError, UnknownTaskError
from repro.environments.make import make_environment
from repro.environments.names import task_name
from repro.environments.vizdoom import make_vizdoom
from repro.environments.vizdoom_game import Game
from repro.environments.vizdoom_module import MISSING
from repro.environments.vizdoom_scenarios import SCENARIOS, actions_of
from repro.launch import jobs, recording
from repro.launch.plan import Run
from tests.environments.stepping import flat, through_a_file

ROOT = Path(__file__).parents[2]
CONFIG = {"name": "vizdoom", "task": "basic", "frame_skip": 4, "height": 72, "width": 96, "reward_clip": "none"}
NOTHING, LEFT, RIGHT, ATTACK = range(4)  # of basic
FORWARD = 4  # of deadly_corridor


@pytest.fixture
def engine():
    """The package; tests that need it are skipped where it is missing."""
    return pytest.importorskip("vizdoom", reason=MISSING)


@pytest.fixture
def make(engine):
    made = []

    def make(num_envs=1, seed=5, **fields):
        made.append(make_vizdoom(CONFIG | fields, num_envs, seed))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.fixture
def make_game(engine):
    made = []

    def make_game(scenario):
        made.append(Game(scenario, 72, 96, 4, 35 / 4))
        return made[-1]

    yield make_game
    for game in made:
        game.close()


@pytest.fixture
def bare(engine):
    """An engine as the package has it, with its own time limit."""
    made = []

    def bare(scenario, seed):
        game = engine.DoomGame()
        made.append(game)
        game.load_config(f"{engine.scenarios_path}/{scenario}.cfg")
        game.set_screen_format(engine.ScreenFormat.RGB24)
        game.set_screen_resolution(engine.ScreenResolution.RES_160X120)
        game.set_window_visible(False)
        game.set_doom_config_path(os.devnull)
        game.set_seed(seed)
        game.init()
        return game

    yield bare
    for game in made:
        game.close()


def config_of(**fields):
    return ml_collections.ConfigDict({"env": CONFIG | fields, "agent": "vtrace", "runtime": {}})


def act(env, action):
    return env.step(np.full(env.num_envs, action, np.int32))


def all_equal(left, right):
    return all(np.array_equal(left[name], right[name]) for name in left)


# Names and actions


@pytest.mark.parametrize("spelling", ["my_way_home", "MyWayHome", "my way home"])
def test_spellings(spelling):
    assert task_name("vizdoom", spelling) == "my_way_home"


def test_an_unknown_scenario_names_the_nearest():
    with pytest.raises(UnknownTaskError, match="No scenario of ViZDoom is called 'basics'; did you mean basic"):
        task_name("vizdoom", "basics")


def test_forward_goes_with_turns_where_there_are_both():
    assert actions_of(["TURN_LEFT", "ATTACK"]) == ((), ("TURN_LEFT",), ("ATTACK",))
    assert actions_of(["TURN_RIGHT", "MOVE_FORWARD"]) == (
        (),
        ("TURN_RIGHT",),
        ("MOVE_FORWARD",),
        ("MOVE_FORWARD", "TURN_RIGHT"),
    )


def test_the_page_lists_the_actions_and_the_limit_of_every_scenario(engine):
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (\w+) \|", (ROOT / "docs/vizdoom.md").read_text(), re.MULTILINE)
    found = []
    for scenario in SCENARIOS:
        game = engine.DoomGame()
        game.load_config(f"{engine.scenarios_path}/{scenario}.cfg")
        buttons = game.get_available_buttons()
        assert all(engine.is_binary_button(button) for button in buttons)
        actions = actions_of([button.name for button in buttons])
        limit = game.get_episode_timeout()
        names = " / ".join(" + ".join(action) or "-" for action in actions)
        found.append((scenario, names, str(limit // 4) if limit else "none"))
    assert rows == found


# Episodes


def test_one_seed_gives_the_same_pictures_and_rewards(make):
    def episode(seed):
        env = make(2, seed=seed, task="health_gathering")
        rng = np.random.default_rng(0)
        return [env.reset()[0], *(flat(env.step(rng.integers(env.num_actions, size=2))) for _ in range(30))]

    first, second, third = episode(5), episode(5), episode(6)
    assert np.array_equal(first[0], second[0])
    assert all(all_equal(left, right) for left, right in zip(first[1:], second[1:], strict=True))
    assert not np.array_equal(first[0], third[0])
    assert not np.array_equal(first[0][0], first[0][1])  # environments have seeds of their own
    assert first[0].dtype == np.uint8
    assert first[0].shape == (2, 72, 96, 3)
    assert first[0].std() > 5


def test_an_episode_does_not_depend_on_those_before_it(make_game):
    """The engine keeps the swing of the weapon of a player who runs, unless it is brought to rest."""

    def frames(game):
        return [game.begin(5), *(game.step(FORWARD)[1] for _ in range(6))]

    fresh, used = make_game("deadly_corridor"), make_game("deadly_corridor")
    for seed in (9, 11):
        used.begin(seed)
        for _ in range(12):
            used.step(FORWARD)
    np.testing.assert_array_equal(frames(used), frames(fresh))


@pytest.mark.parametrize("scenario", ["basic", pytest.param("my_way_home", marks=pytest.mark.slow)])
def test_rewards_pictures_and_the_time_limit_are_the_engine_s(make, bare, scenario):
    """Frame by frame; 5 x 5 pixels of the engine, each three times as wide and high, are one pixel of 3 x 3."""
    env = make(task=scenario)
    own, _ = env.reset()
    game = bare(scenario, env._episode_seed(0))
    for step in range(env.max_steps):
        thrice = game.get_state().screen_buffer.repeat(3, axis=0).repeat(3, axis=1).astype(float)
        area = thrice.reshape(72, 5, 96, 5, 3).mean(axis=(1, 3))
        assert np.abs(own[0] - area).max() <= 0.5 + 1e-4
        assert not game.is_episode_finished()
        action = 1 + step // 2 % 2  # left, left, right, right
        pressed = [button.name in env.actions[action] for button in game.get_available_buttons()]
        reward = sum(game.make_action(pressed, 1) for _ in range(4))
        own, own_reward, terminated, truncated, info = act(env, action)
        np.testing.assert_allclose(own_reward, [reward], rtol=1e-5)
        assert not terminated[0]
        assert truncated[0] == info["game_over"][0] == (step + 1 == env.max_steps)
    assert game.is_episode_timeout_reached()
    assert info["episode_frames"][0] == game.get_episode_timeout() == 4 * env.max_steps
    np.testing.assert_allclose(info["episode_return"], [game.get_total_reward()], rtol=1e-4)


def test_a_death_is_an_end_and_shows_the_frame_before_it(make):
    """Health falls by 8 of 100 in 32 frames of acid; a frame is worth 1, the death costs 100."""
    env = make(task="health_gathering")
    before, _ = env.reset()
    while True:
        frame, reward, terminated, truncated, info = act(env, 0)
        if terminated[0]:
            break
        assert reward[0] == 4.0
        before = frame
    assert not truncated[0]
    assert info["game_over"][0]
    assert -100 < reward[0] <= -96
    assert 284 <= info["episode_return"][0] == info["episode_frames"][0] - 100 + (reward[0] + 96) <= 316
    np.testing.assert_array_equal(frame, before)
    first, reward, terminated, truncated, info = act(env, FORWARD)  # not read
    assert reward[0] == info["episode_return"][0] == 0
    assert not any(array[0] for array in (terminated, truncated, info["game_over"]))
    assert not np.array_equal(first, before)
    assert act(env, 0)[1][0] == 4.0


def test_a_map_s_end_is_an_end(make):
    """With this seed the monster of basic stands where the first shots go; it is worth 106."""
    env = make(seed=5)
    env.reset()
    for step in range(20):
        _, reward, terminated, truncated, _ = act(env, (LEFT, ATTACK)[step % 2])
        assert not truncated[0]
        if terminated[0]:
            break
    assert terminated[0]
    assert reward[0] > 90


# The interface


def test_rewards_are_clipped_and_returns_are_not(make):
    env = make(reward_clip="unit")
    env.reset()
    _, reward, *_, info = act(env, NOTHING)
    assert reward.dtype == np.float32
    assert (reward[0], info["last_reward"][0], info["episode_return"][0]) == (-1.0, -1.0, -4.0)


def test_observations_with_last_action_and_reward(engine):
    env = make_environment(config_of(reward_clip="unit", last_action_and_reward=True), 2, 5, is_continuous=False)
    obs, _ = env.reset()
    spec = env.time_step_spec.observation
    assert set(spec) == set(obs) == {"frame", "last_action", "last_reward"}
    obs, *_ = env.step(np.array([LEFT, ATTACK]))
    assert obs["last_action"].tolist() == [LEFT, ATTACK]
    assert obs["last_reward"].tolist() == [-1.0, -1.0]
    env.close()


def test_a_restored_batch_goes_on_the_same(make):
    """One environment is within an episode, the other at the end of one; neither is in its first."""
    env, rng = make(2, seed=1, task="predict_position"), np.random.default_rng(0)
    env.reset()
    ended = game_over = np.zeros(2, int)
    while ended.min() == 0 or game_over.sum() != 1:
        game_over = env.step(rng.integers(4, size=2))[-1]["game_over"]
        ended = ended + game_over
    state, actions = through_a_file(env.get_state()), rng.integers(4, size=(40, 2))
    expected = [flat(env.step(action)) for action in actions]
    other = make(2, seed=8, task="predict_position")
    np.testing.assert_array_equal(other.set_state(state), state["observation"])
    found = [flat(other.step(action)) for action in actions]
    assert all(all_equal(left, right) for left, right in zip(expected, found, strict=True))
    assert sum(step["game_over"].sum() for step in expected) > 2


def test_a_state_whose_episode_comes_out_differently_is_refused(make):
    env = make()
    env.reset()
    for _ in range(3):
        act(env, LEFT)
    state = env.get_state()
    state["played"]["0"][1] = RIGHT
    with pytest.raises(ValueError, match="the saved basic cannot be replayed, perhaps because the version of ViZDoom"):
        make().set_state(state)
    with pytest.raises(ValueError, match="the state is of basic, the environment is take_cover"):
        make(task="take_cover").set_state(state)


def test_no_episode_is_played_twice(make):
    env = make()
    seen = [env.reset()[0], env.reset()[0]]
    counters = env.get_counters()
    again = make()
    again.set_counters(counters)
    seen.append(again.reset()[0])
    assert len({frame.tobytes() for frame in seen}) == 3
    np.testing.assert_array_equal(again.reset(seed=5)[0], seen[0])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("frame_skip", 0, "frame_skip must be at least 1"),
        ("height", 121, "height must lie between 1 and 120"),
        ("width", 0, "width must lie between 1 and 160"),
        ("reward_clip", "tanh", "reward_clip must be one of none, unit"),
        ("fps", 35, "a field 'fps' that nothing reads"),
    ],
)
def test_wrong_settings_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        make_vizdoom(CONFIG | {field: value}, 1, 0)


def test_actions_and_agents_that_do_not_fit_are_refused(make):
    env = make(task="take_cover")
    env.reset()
    with pytest.raises(ValueError, match=r"actions must lie in \[0, 3\)"):
        act(env, 3)
    with pytest.raises(ValueError, match="take_cover has no time limit, and this agent needs one"):
        _ = env.max_steps
    with pytest.raises(ValueError, match="needs vectors"):
        _ = env.state_size
    with pytest.raises(ValueError, match="takes Box actions"):
        make_environment(config_of(), 1, 0, is_continuous=True)


def test_pictures_and_their_rate(make):
    env = make()
    frames, _ = env.reset()
    np.testing.assert_array_equal(env.render_first(), frames[0])
    assert env.metadata["render_fps"] == 35 / 4


# Engines


def state_of(number):
    """The letter of a process's state."""
    return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]


def engines_of(parent):
    """Numbers of the engines that a process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, number = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(number) == parent and state != "Z" and "/vizdoom" in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return found


def test_an_engine_has_a_session_of_its_own_and_leaves_no_files(make, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(engines_of(os.getpid()))
    env = make()
    env.reset()
    (folder,) = tmp_path.iterdir()
    (number,) = set(engines_of(os.getpid())) - before
    assert os.getsid(number) != os.getsid(0)  # Ctrl-C in a terminal does not reach it
    env.close()
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []
    assert number not in engines_of(os.getpid())


def test_an_engine_ends_with_a_process_that_is_killed(engine):
    code = (
        "from repro.environments.vizdoom_game import Game; import time\n"
        "game = Game('basic', 72, 96, 4, 1.0); print('ready', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    (number,) = engines_of(process.pid)
    process.kill()
    process.wait()
    process.stdout.close()
    try:
        for _ in range(200):
            os.kill(number, 0)
            time.sleep(0.01)
    except ProcessLookupError:
        return
    if state_of(number) != "Z":  # ended, but nobody collects it
        os.kill(number, signal.SIGKILL)
        pytest.fail("The engine lives on.")


def test_a_missing_module_is_named_before_anything_begins(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingModuleError, match="run make vizdoom, which leaves out"):
        make_vizdoom(CONFIG, 1, 0)
    job = jobs.make_job(Run("impala", "vizdoom", "vtrace", "basic", "smoke", 1), tmp_path, tmp_path)
    with pytest.raises(MissingModuleError, match="run make vizdoom"):
        jobs.check_modules([job])
    job.config.study = "closed_form"  # which plays nothing
    jobs.check_modules([job])


def test_records_name_the_version(engine, monkeypatch):
    monkeypatch.setattr(vizdoom_module.importlib.metadata, "version", {"vizdoom": "1.3.2"}.get)
    assert recording.circumstances(1, "vizdoom")["versions"]["vizdoom"] == "1.3.2"


def test_the_experiment_has_the_sizes_of_single_levels_of_deepmind_lab():
    config = vizdoom_config.get_config("paper")
    assert (config.env.height, config.env.width, config.env.frame_skip, config.env.reward_clip) == (72, 96, 4, "unit")
    assert (config.network.torso, config.network.core_units) == ("shallow", 256)
    assert config.env.last_action_and_reward
