"""Tasks of the control suite: equal to the suite, actions, limits, seeds, exact restores, pixels, wrong settings."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pytest

from repro.environments import dm_control_task, names, offscreen, rendering
from repro.environments.batched import RenderError
from repro.environments.dm_control import TASKS, DmControlEnvironment, make_dm_control, task_name
from repro.environments.dm_control_task import SuiteTask, import_suite
from repro.environments.lookup import UnknownTaskError
from repro.environments.make import make_environment
from tests.environments.stepping import flat, through_a_file

PAGE = Path(__file__).resolve().parents[2] / "docs" / "control_tasks.md"
ROW = r"^\| (\w+) \| (\d+) \| (\d+) \| ([\d.]+) s, \d+ \| ([\d.]+) ± ([\d.]+) \|"


def page_rows() -> dict[str, tuple[float, ...]]:
    """Actions, features, control step, random play's mean return and its standard error by task."""
    return {task: tuple(map(float, values)) for task, *values in re.findall(ROW, PAGE.read_text(), re.MULTILINE)}


def make(task: str, num_envs: int = 1, seed: int = 0, max_steps: int = 0, **fields: Any) -> DmControlEnvironment:
    config = {"name": "dm_control", "task": task, "observed": "features", "max_steps": max_steps, **fields}
    try:
        return make_dm_control(config, num_envs, seed)
    except RenderError as error:
        if "neither is installed" in str(error):
            pytest.skip(str(error))
        raise


def actions_for(environment: DmControlEnvironment, steps: int) -> np.ndarray:
    shape = (steps, environment.num_envs, environment.num_actions)
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def assert_same_steps(a: DmControlEnvironment, b: DmControlEnvironment, actions: np.ndarray) -> None:
    for step, action in enumerate(actions):
        expected, found = flat(a.step(action)), flat(b.step(action))
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{name} of step {step}")


def test_tasks_are_the_suite_s_benchmark_and_the_quadruped() -> None:
    assert len(import_suite().BENCHMARKING) == 28
    assert {*import_suite().BENCHMARKING, ("quadruped", "walk"), ("quadruped", "run")} == set(TASKS.values())


def test_the_page_lists_all_tasks_with_their_sizes() -> None:
    rows = page_rows()
    assert list(rows) == list(TASKS)
    for task, (actions, features, control_step, *_) in rows.items():
        simulation = SuiteTask(*TASKS[task])
        assert (simulation.low.size, simulation.num_features) == (actions, features)
        assert simulation.metadata["render_fps"] == round(1 / control_step)


@pytest.mark.parametrize("task", TASKS)
def test_restored_episodes_go_on_exactly(task: str) -> None:
    """From the middle of an episode, through a checkpoint's file, past its end and the next start."""
    original, restored = make(task, seed=3, max_steps=9), make(task, seed=99, max_steps=9)
    original.reset()
    actions = actions_for(original, 30)
    for action in actions[:15]:
        before = original.step(action)[0]
    original._tasks[0]._task.random.randn()  # which keeps a second Gaussian for the next call
    np.testing.assert_array_equal(restored.set_state(through_a_file(original.get_state())), before)
    assert_same_steps(original, restored, actions[15:])


@pytest.mark.parametrize("task", TASKS)
def test_a_task_has_no_other_state_than_what_is_saved(task: str) -> None:
    """It writes into no other field of its model and into no field of its own."""

    def fields() -> dict[str, np.ndarray]:
        model = {name: getattr(simulation.model, name) for name in dir(simulation.model) if not name.startswith("_")}
        arrays = {name: value.copy() for name, value in model.items() if isinstance(value, np.ndarray)}
        own = {name: repr(value) for name, value in vars(simulation._task).items() if name != "_random"}
        return {**{name: arrays[name] for name in set(arrays) - set(dm_control_task._MODEL_FIELDS)}, **own}

    simulation = SuiteTask(*TASKS[task])
    before = fields()
    assert len(before) > 200
    for episode in range(2):
        simulation.begin(7 if episode == 0 else None)
        simulation.step(simulation.high)
    after = fields()
    # Progress that nothing reads; the suite sets it when an episode begins.
    after.pop("_timeout_progress", None), before.pop("_timeout_progress", None)
    for name in before:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)


@pytest.mark.parametrize("task", ["cartpole_swingup", "fish_swim", "quadruped_walk", "humanoid_run"])
def test_equals_the_suite(task: str) -> None:
    """Two environments of a batch against two of the suite with the same seeds; actions are of the whole range."""
    environment = make(task, num_envs=2, seed=5)
    observation, _ = environment.reset()
    actions = np.clip(actions_for(environment, 20), -1, 1)
    for row in range(2):
        seed = np.random.SeedSequence((5, row)).generate_state(1)[0]
        suite = import_suite().load(*TASKS[task], {"random": int(seed)})
        assert environment.metadata["render_fps"] == round(1 / suite.control_timestep())
        spec = suite.action_spec()
        first = suite.reset().observation.values()
        np.testing.assert_array_equal(observation[row], np.concatenate([np.ravel(x) for x in first]).astype(np.float32))
        environment.reset()
        for action in actions:
            obs, reward, *_ = environment.step(action)
            scaled = (spec.maximum + spec.minimum) / 2 + (spec.maximum - spec.minimum) / 2 * action[row].astype(float)
            expected = suite.step(scaled)
            features = np.concatenate([np.ravel(x) for x in expected.observation.values()])
            np.testing.assert_array_equal(obs[row], features.astype(np.float32))
            assert reward[row] == np.float32(expected.reward)


def test_actions_are_scaled_to_their_bounds_and_clipped() -> None:
    """The quadruped's bounds are neither 1 nor all symmetric."""
    environment = make("quadruped_walk")
    environment.reset()
    task = environment._tasks[0]
    assert task.high.max() == 1.1
    assert task.low.min() == -1.0
    for action, expected in ((1.0, task.high), (-1.0, task.low), (7.0, task.high), (0.0, (task.low + task.high) / 2)):
        environment.step(np.full((1, 12), action))
        np.testing.assert_allclose(task.data.ctrl, expected)


def test_the_time_limit_is_no_end() -> None:
    environment = make("pendulum_swingup")
    environment.reset()
    for step in range(1000):
        observation, reward, terminated, truncated, info = environment.step(np.ones((1, 1)))
        assert bool(truncated[0]) == bool(info["game_over"][0]) == (step == 999)
        assert not terminated[0]
    assert info["episode_frames"][0] == environment.max_steps == 1000
    observation, reward, _, _, info = environment.step(np.ones((1, 1)))
    assert (reward[0], info["episode_frames"][0]) == (0, 0)
    assert make("pendulum_swingup", max_steps=7).max_steps == 7


@pytest.mark.parametrize("task", ["cartpole_balance", pytest.param("walker_walk", marks=pytest.mark.slow)])
def test_random_play_scores_what_the_page_says(task: str) -> None:
    environment = make(task, num_envs=5, seed=100)
    environment.reset()
    rng = np.random.default_rng(0)
    for _ in range(1000):
        info = environment.step(rng.uniform(-1, 1, (5, environment.num_actions)))[4]
    found, (mean, error) = info["episode_return"], page_rows()[task][3:]
    assert info["game_over"].all()
    assert abs(found.mean() - mean) < 4 * np.hypot(error, error * 2)  # a quarter of the page's episodes


def test_seeds_and_independence() -> None:
    """Rows differ and are the same from the same seed, whatever else runs between the steps."""
    alone, beside, other = (make("reacher_easy", num_envs=2, seed=seed) for seed in (0, 0, 7))
    first, _ = alone.reset()
    np.testing.assert_array_equal(beside.reset()[0], first)
    assert (first[0] != first[1]).any()
    assert (other.reset()[0] != first).any()
    actions = actions_for(alone, 5)
    expected = [alone.step(action) for action in actions]
    for action, wanted in zip(actions, expected):
        other.step(-action)
        np.testing.assert_array_equal(beside.step(action)[0], wanted[0])


def test_an_unstable_simulation_is_cut() -> None:
    environment = make("walker_walk", num_envs=2)
    environment.reset()
    before = environment.step(np.zeros((2, 6)))[0].copy()
    environment._tasks[0].data.qvel[:] = 1e30
    observation, reward, terminated, truncated, info = environment.step(np.zeros((2, 6)))
    np.testing.assert_array_equal(observation[0], before[0])
    assert (reward[0], bool(terminated[0]), truncated.tolist()) == (0.0, False, [True, False])
    assert info["game_over"].tolist() == [True, False]
    for _ in range(3):
        observation, reward, _, truncated, _ = environment.step(np.zeros((2, 6)))
        assert np.isfinite(observation).all()
        assert not truncated.any()


@pytest.mark.parametrize(("discount", "terminated"), [(None, False), (0.0, True)])
def test_a_task_ends_where_the_suite_s_discount_is_0(discount: float | None, terminated: bool) -> None:
    simulation = SuiteTask(*TASKS["cartpole_swingup"])
    simulation.begin(7)
    simulation._task.get_termination = lambda physics: discount
    _, _, *ended = simulation.step(simulation.high)
    assert ended == [terminated, False]


def test_pixels_show_what_is_and_are_restored_exactly() -> None:
    """The pole's pixels, which have more red than blue, are in the upper half where it stands, and rows differ."""
    original, restored = (make("pendulum_swingup", 2, seed, max_steps=4, observed="pixels") for seed in (3, 99))
    first, _ = original.reset()
    assert (first.shape, first.dtype) == ((2, 84, 84, 3), np.uint8)
    assert (first[0] != first[1]).any()
    for angle, upper in ((0.0, True), (np.pi, False)):
        original._tasks[0].data.qpos[0] = angle
        original._tasks[0].data.qvel[0] = 0
        picture = original.step(np.zeros((2, 1)))[0][0].astype(int)
        rows, _ = np.nonzero(picture[..., 0] > picture[..., 2] + 30)
        assert (rows.mean() < 42) == upper
    np.testing.assert_array_equal(restored.set_state(through_a_file(original.get_state())), original._observation)
    assert_same_steps(original, restored, actions_for(original, 4))
    with pytest.raises(ValueError, match=r"is observed by pixels, and this agent needs vectors; set env\.observed"):
        _ = original.state_size
    original.close(), restored.close()


def test_a_smaller_map_of_shadows_hardly_changes_a_picture() -> None:
    suite, fast = (make("walker_walk", observed="pixels", shadow_size=size) for size in (0, 256))
    difference = np.abs(suite.reset()[0].astype(float) - fast.reset()[0])
    assert 0 < difference.mean() < 1
    suite.close(), fast.close()
    with pytest.raises(ValueError, match="shadow_size must lie between 0 and 8192, got -1"):
        make("walker_walk", shadow_size=-1)


def test_a_closed_batch_may_be_closed_again_and_shows_nothing() -> None:
    environment = make("cartpole_swingup", observed="pixels", image_size=32)
    eye, model, data = environment._eye, environment._tasks[0].model, environment._tasks[0].data
    assert eye is not None
    environment.close()
    environment.close()
    with pytest.raises(RenderError, match="cartpole_swingup cannot be shown: its environments are closed"):
        eye.render(model, data)


def test_pixels_may_be_seen_from_any_thread() -> None:
    """A batch that is stepped in another thread shows what one shows that stays here, and so it does back here."""
    stays, moves = (make("cartpole_swingup", observed="pixels", image_size=32) for _ in range(2))
    assert stays.reset()[0].shape == moves.reset()[0].shape == (1, 32, 32, 3)
    actions = actions_for(stays, 4)
    seen: list[np.ndarray] = []

    def play(chosen: np.ndarray) -> None:
        seen.extend(moves.step(action)[0] for action in chosen)

    thread = threading.Thread(target=play, args=(actions[:2],))
    thread.start()
    expected = [stays.step(action)[0] for action in actions]
    thread.join()
    play(actions[2:])
    np.testing.assert_array_equal(seen, expected)
    stays.close(), moves.close()


def test_a_renderer_that_cannot_begin_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no display")

    monkeypatch.setattr(offscreen, "choose_gl", lambda: None)
    monkeypatch.setattr(offscreen.OffscreenRenderer, "_open", fail)
    before = set(threading.enumerate())
    with pytest.raises(RenderError, match="^pendulum cannot be shown: no display"):
        offscreen.OffscreenRenderer(None, 32, 32, "pendulum")
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize(("gl", "message"), [("osmosis", "MUJOCO_GL=osmosis"), ("", "neither is installed")])
def test_without_a_graphics_library_pixels_are_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, gl: str, message: str
) -> None:
    monkeypatch.setenv("MUJOCO_GL", gl)
    monkeypatch.setattr(rendering.ctypes.util, "find_library", lambda name: None)
    rendering.choose_gl.cache_clear()
    with pytest.raises(RenderError, match=message) as error:
        make_dm_control({"task": "cartpole_swingup", "observed": "pixels", "max_steps": 0}, 1, 0)
    assert "\n" not in str(error.value)
    make("cartpole_swingup").reset()
    rendering.choose_gl.cache_clear()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("cartpole_swing_up_sparce", "did you mean cartpole_swingup_sparse or cartpole_swingup"),
        ("cup_catch", "No task of DM Control is called 'cup_catch'; did you mean ball_in_cup_catch"),
        ("Pong", "there are acrobot_swingup, acrobot_swingup_sparse, ball_in_cup_catch,"),
    ],
)
def test_unknown_names_give_the_nearest(task: str, message: str) -> None:
    with pytest.raises(UnknownTaskError) as error:
        task_name(task)
    assert message in str(error.value)


def test_names_and_wrong_settings() -> None:
    assert names.task_name("dm_control", "CartpoleSwingup") == "cartpole_swingup"
    assert names.task_name("dm_control", "ball in cup catch") == "ball_in_cup_catch"
    for fields, message in (
        ({"observed": "positions"}, "observed must be one of features, pixels, got 'positions'"),
        ({"max_steps": -1}, "max_steps must be at least 0, got -1"),
        ({"image_size": 241}, "image_size must lie between 1 and 240, got 241"),
        ({"version": "v5"}, "has a field 'version' that nothing reads"),
    ):
        with pytest.raises(ValueError, match=message):
            make("walker_walk", **fields)
    with pytest.raises(ValueError, match="has no field 'observed', which is required"):
        make_dm_control({"task": "walker_walk", "max_steps": 0}, 1, 0)
    walker = make("walker_walk")
    walker.reset()
    with pytest.raises(ValueError, match=r"the state is of dm_control/walker_walk/features, the environment is dm_con"):
        make("walker_run").set_state(walker.get_state())


def test_a_config_s_environment_must_fit_the_agent() -> None:
    env = {"name": "dm_control", "task": "cheetah_run", "observed": "features", "max_steps": 0}
    config = ml_collections.ConfigDict({"env": env, "agent": "mine"})
    environment = make_environment(config, 2, seed=1, is_continuous=True)
    assert (environment.num_actions, environment.time_step_spec.observation.shape) == (6, (17,))
    with pytest.raises(ValueError, match=r"agent mine takes Discrete actions, but those of cheetah_run are Box\(6,\)"):
        make_environment(config, 2, seed=1, is_continuous=False)


@pytest.mark.parametrize("chosen", [None, "osmesa"])
def test_the_suite_is_imported_without_a_renderer(monkeypatch: pytest.MonkeyPatch, chosen: str | None) -> None:
    """Whatever MUJOCO_GL says, which keeps its value."""
    if chosen is None:
        monkeypatch.delenv("MUJOCO_GL", raising=False)
    else:
        monkeypatch.setenv("MUJOCO_GL", chosen)
    seen = []
    monkeypatch.setattr(dm_control_task.importlib, "import_module", lambda name: seen.append(os.environ["MUJOCO_GL"]))
    import_suite.__wrapped__()
    assert (seen, os.environ.get("MUJOCO_GL")) == (["disable"], chosen)
