"""ACER's control tasks: sizes, rewards and observations at states set by hand, ends, exact restores, independence."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from repro.environments import names
from repro.environments.acer_tasks import TASKS, cartpole, humanoid, make_acer_task, task_name
from repro.environments.acer_tasks.task import ControlTask
from repro.environments.lookup import UnknownTaskError
from repro.environments.mujoco import MujocoEnvironment
from tests.environments.stepping import flat, through_a_file

ROOT = Path(__file__).resolve().parents[2]
SIZES = {
    "cartpole": (1, 10, 2),
    "reacher3": (3, 8, 3),
    "cheetah": (6, 17, 9),
    "fish": (5, 24, 13),
    "walker": (6, 24, 9),
    "humanoid": (21, 94, 27),
}
"""Actions, observations and degrees of freedom. The paper leaves out the observations of cartpole and cheetah."""

TURN = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))
"""The quaternion of 90 degrees about the vertical: what pointed along x points along y, what along y along -x."""


def make(
    task: str, num_envs: int = 2, seed: int = 0, max_steps: int = 500, control_cost_of: str = "executed"
) -> MujocoEnvironment:
    config = {"name": "acer_tasks", "task": task, "max_steps": max_steps, "control_cost_of": control_cost_of}
    return make_acer_task(config, num_envs, seed)


def at(task: str, qpos: dict[int, Any] | None = None, qvel: dict[int, float] | None = None) -> ControlTask:
    """The task in the model's default state with some entries of its positions and velocities replaced."""
    simulation = TASKS[task]("executed")
    for index, value in (qpos or {}).items():
        simulation.data.qpos[index : index + np.size(value)] = value
    for index, value in (qvel or {}).items():
        simulation.data.qvel[index] = value
    mujoco.mj_kinematics(simulation.model, simulation.data)
    return simulation


def actions_for(environment: MujocoEnvironment, steps: int) -> np.ndarray:
    shape = (steps, environment.num_envs, environment.num_actions)
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def zeros(task: ControlTask) -> np.ndarray:
    return np.zeros(task.model.nu, np.float32)


@pytest.mark.parametrize("task", SIZES)
def test_sizes(task: str) -> None:
    actions, observations, freedoms = SIZES[task]
    environment = make(task, 3)
    assert environment.reset()[0].shape == (3, observations)
    assert environment.action_spec.shape == (actions,)
    assert environment.time_step_spec.observation.shape == (observations,)
    assert (environment.num_actions, environment.state_size, environment.max_steps) == (actions, observations, 500)
    np.testing.assert_array_equal(environment.action_scale, np.ones(actions))
    assert environment._tasks[0].model.nv == freedoms
    np.testing.assert_array_equal(environment._tasks[0].model.actuator_ctrlrange, [(-1, 1)] * actions)


@pytest.mark.parametrize(
    ("task", "seconds"),
    [("cartpole", 0.05), ("reacher3", 0.02), ("cheetah", 0.02), ("fish", 0.04), ("walker", 0.025), ("humanoid", 0.025)],
)
def test_length_of_a_step(task: str, seconds: float) -> None:
    simulation = at(task)
    simulation.step(zeros(simulation))
    assert simulation.data.time == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(
    ("x", "degrees", "reward"),
    [
        (0.0, 0.0, 1),
        (0.049, 4.9, 1),
        (-0.049, -4.9, 1),
        (0.0, 360 - 4.9, 1),
        (0.051, 0.0, 0),
        (-0.051, 0.0, 0),
        (0.0, 5.1, 0),
        (0.0, -5.1, 0),
        (0.0, 180.0, 0),
    ],
)
def test_reward_of_cartpole(x: float, degrees: float, reward: float) -> None:
    task = at("cartpole", {0: (x, math.radians(degrees))})
    assert task.reward(np.array([0.7])) == reward
    assert not task.failed()


def test_observation_of_cartpole() -> None:
    """The tip of a pole of one metre, 30 degrees from upright and one turn on, from the geometry of the model too."""
    task = at("cartpole", {0: (0.3, 2 * math.pi + math.pi / 6)}, {0: 0.5, 1: 2.0})
    root = math.sqrt(3) / 2
    expected = (0.3, 0.5, math.pi / 6, 2.0, 0.5, root, 0.3 + 0.5, root, 0.5 + 2 * root, -2 * 0.5)
    np.testing.assert_allclose(task.observe(), expected, atol=1e-12)
    assert 2 * task.model.geom("pole_1").size[1] == 1
    pole = task.data.body("pole_1")
    tip = pole.xpos + pole.xmat.reshape(3, 3)[:, 2] - (0, 0, task.data.body("cart").xpos[2])
    np.testing.assert_allclose((tip[0], tip[2]), task.observe()[6:8], atol=1e-12)


def test_the_track_of_cartpole_ends_after_2_4_metres() -> None:
    places = []
    for force in (-1.0, 1.0):
        task = at("cartpole")
        for _ in range(200):
            observation = task.step(np.array([force], np.float32))[0]
        places.append(observation[0])
    np.testing.assert_allclose(places, (-1.2, 1.2), atol=0.05)


def test_an_action_of_one_is_a_force_of_20_newtons() -> None:
    """On cart and hanging pole: the pole's inertia leaves the cart an acceleration between F / 1.1 kg and F / 1 kg."""
    task = at("cartpole", {1: math.pi})
    speed = task.step(np.array([0.1], np.float32))[0][1]
    assert 2.0 / 1.1 <= speed / 0.05 <= 2.0


def swing_up(observation: np.ndarray) -> np.ndarray:
    """A hand-written controller of cartpole: a linear one near upright, else a cart that feeds the pole energy.

    Args:
        observation: [N, 10].

    Returns:
        Actions [N, 1], in part beyond the bounds.
    """
    x, speed, angle, turning, _, cosine = observation[:, :6].T
    balance = 4.5 * x + 3.4 * speed + 12.7 * angle + 3.3 * turning
    missing = 0.5 * (0.1 * 0.5**2 + 0.0094) * turning**2 + 0.1 * 9.81 * 0.5 * (cosine - 1) - 0.04  # joules
    pump = np.where(np.abs(turning) < 1e-3, 20.0, np.clip(5.0 * missing * turning * cosine, -20, 20))
    acceleration = pump - 2.1 * x - 2.0 * speed
    near = (np.abs(angle) < 1) & (np.abs(balance) < 5.3)
    return np.where(near, balance, 1.1 * acceleration / 20)[:, np.newaxis]


def reach(observation: np.ndarray) -> np.ndarray:
    """A hand-written controller of reacher3: the transposed Jacobian, [N, 8] to [N, 3]."""
    shoulder, elbow, wrist = np.cumsum(observation[:, :3], axis=1).T
    joints = [np.zeros((2, len(observation)))]
    for angle in (shoulder, elbow):
        joints.append(joints[-1] + 0.1 * np.array([np.cos(angle), np.sin(angle)]))
    tip = joints[-1] + 0.1 * np.array([np.cos(wrist), np.sin(wrist)])
    lever = tip - np.array(joints)
    pull = lever[:, 0] * observation[:, 7] - lever[:, 1] * observation[:, 6]
    return 60 * pull.T - 0.3 * observation[:, 3:6]


def returns_of(task: str, controller: Callable[[np.ndarray], np.ndarray], episodes: int) -> np.ndarray:
    """Returns of the first episode of each of so many simulations, the starts of seed 0."""
    environment = make(task, episodes)
    observation, _ = environment.reset()
    returns, playing = np.zeros(episodes), np.ones(episodes, bool)
    for _ in range(500):
        observation, reward, terminated, _, _ = environment.step(controller(observation))
        returns += playing * reward
        playing &= ~terminated
    return returns


REFERENCES = {
    ("cartpole", "hand"): (100, 457.6, 1.9),
    ("reacher3", "hand"): (100, 345.5, 18.4),
    ("cartpole", "gaussian"): (100, 0.31, 0.1),
    ("reacher3", "gaussian"): (100, 6.3, 4.1),
    ("cheetah", "gaussian"): (20, -63.1, 1.7),
    ("fish", "gaussian"): (20, -211.1, 15.6),
    ("walker", "gaussian"): (20, -18.5, 0.7),
    ("humanoid", "gaussian"): (20, -1199.6, 13.6),
}
"""Episodes, their mean return, and its standard error: the reference scores of docs/acer_tasks.md."""


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        pytest.param(task, kind, marks=[pytest.mark.slow] if task in ("cartpole", "humanoid", "walker") else [])
        for task, kind in REFERENCES
    ],
)
def test_reference_scores(task: str, kind: str) -> None:
    """Scores of hand-written controllers, and of a zero-mean Gaussian with the paper's stddev of 0.3."""
    rng = np.random.default_rng(0)
    controllers: dict[tuple[str, str], Callable[[np.ndarray], np.ndarray]] = {
        ("cartpole", "hand"): swing_up,
        ("reacher3", "hand"): reach,
    }
    size = TASKS[task]("executed").model.nu
    controller = controllers.get((task, kind), lambda observation: 0.3 * rng.normal(size=(len(observation), size)))
    episodes, expected, error = REFERENCES[task, kind]
    returns = returns_of(task, controller, episodes)
    assert returns.mean() == pytest.approx(expected, abs=3 * error)


def test_the_page_has_the_sizes_and_steps_of_the_tasks() -> None:
    page = (ROOT / "docs/acer_tasks.md").read_text()
    for task, (actions, observations, freedom) in SIZES.items():
        stated = " (not stated)" if task in ("cartpole", "cheetah") else ""
        simulation = TASKS[task]("executed")
        steps = f"{simulation.model.opt.timestep * simulation.substeps:g} s, {simulation.substeps}"
        ends = "falls" if task == "walker" else "never"
        assert f"\n| {task} | {actions} | {observations}{stated} | {freedom} | {steps} | {ends} | " in page


def test_the_page_has_the_reference_scores() -> None:
    """So has that of the paper, where it repeats them."""
    page = (ROOT / "docs/acer_tasks.md").read_text()
    scores = {key: f"{mean:.1f} ± {error:.1f}" for key, (_, mean, error) in REFERENCES.items()}
    for task in SIZES:
        by_hand = scores.get((task, "hand"), "")
        assert f"\n| {task} | {scores[task, 'gaussian']} | {by_hand}" in page
    repeated = (ROOT / "repro/papers/acer/README.md").read_text()
    by_hand, noise = (REFERENCES["cartpole", kind][1] for kind in ("hand", "gaussian"))
    sentence = f"A hand-written controller has {by_hand} and a zero-mean Gaussian {noise:.1f} (`docs/acer_tasks.md`)."
    assert sentence in " ".join(repeated.split())
    assert repeated.count(f" | {by_hand} | {noise:.1f} |\n") == repeated.count("\n| cartpole | ") > 0
    assert f" | {REFERENCES['reacher3', 'hand'][1]} | {scores['reacher3', 'gaussian']} |\n" in repeated
    assert f" | | {REFERENCES['cheetah', 'gaussian'][1]:.0f} |\n" in repeated


@pytest.mark.parametrize(
    ("force", "step", "near", "rewarded"),
    [(20.0, 0.05, 70, 11), pytest.param(10.0, 0.02, 18, 2, marks=pytest.mark.slow)],
)
def test_how_far_noise_lifts_the_pole(
    monkeypatch: pytest.MonkeyPatch, force: float, step: float, near: int, rewarded: int
) -> None:
    """Percent of the episodes, as the page has them; of 100 here, to four standard errors."""
    model = cartpole.Cartpole.build()
    model.actuator("slide").gear[0], model.opt.timestep = force, step / 2
    monkeypatch.setattr(cartpole.Cartpole, "_shared_model", staticmethod(lambda: model))
    rng, episodes = np.random.default_rng(0), 100
    environment = make("cartpole", episodes)
    environment.reset()
    lifted, paid = np.zeros(episodes, bool), np.zeros(episodes, bool)
    for count in range(1, 501):
        observation, reward, *_ = environment.step(0.3 * rng.normal(size=(episodes, 1)))
        if count > 50:
            lifted |= np.abs(observation[:, 2]) <= math.radians(12)
            paid |= reward > 0
    for found, percent in ((lifted, near), (paid, rewarded)):
        share = percent / 100
        assert found.mean() == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / episodes))
    text = " ".join((ROOT / "docs/acer_tasks.md").read_text().split())
    assert f"in {near} % of the episodes and {rewarded} % of them" in text or f"it is {near} % and {rewarded} %" in text


def test_a_cart_that_only_swings_the_pole_up_earns_little() -> None:
    """Without its linear part the controller passes upright and does not stay; with the wrong sign it never does."""
    assert returns_of("cartpole", lambda x: swing_up(x) * (x[:, 5:6] < 0.5), 10).mean() < 50
    assert returns_of("cartpole", lambda x: -swing_up(x), 10).mean() < 50


@pytest.mark.parametrize(("target", "reward"), [((0.13, 0.239), 1), ((0.13, 0.241), 0), ((0.1, 0.2), 1), ((0, 0), 0)])
def test_reacher3_at_a_right_angle(target: tuple[float, float], reward: float) -> None:
    """The upper arm along x and the others along y: the tip is at (0.1, 0.2)."""
    task = at("reacher3", {0: (0.0, math.pi / 2, 0.0)}, {0: 1.0, 1: 2.0, 2: 3.0})
    task.data.mocap_pos[0, :2] = target
    assert task.reward(zeros(task)) == reward
    displacement = (target[0] - 0.1, target[1] - 0.2)
    np.testing.assert_allclose(task.observe(), (0, math.pi / 2, 0, 1, 2, 3, *displacement), atol=1e-9)


def test_starts_of_reacher3() -> None:
    """Targets spread evenly over the disc, so a quarter of them lie within half its radius."""
    task = TASKS["reacher3"]("executed")
    starts, targets = [], []
    for seed in range(400):
        starts.append(task.reset(seed=seed)[0])
        targets.append(np.linalg.norm(task.data.mocap_pos[0, :2]))
    angles = np.array(starts)[:, :3]
    assert (np.abs(angles[:, 0]) <= math.pi).all()
    assert (np.abs(angles[:, 1:]) <= math.radians(160)).all()
    assert (np.ptp(angles, axis=0) > 5).all()
    assert max(targets) <= 0.25
    assert np.mean(np.array(targets) < 0.125) == pytest.approx(0.25, abs=0.06)
    np.testing.assert_array_equal(np.array(starts)[:, 3:6], 0)


def test_cheetah_pays_for_its_controls() -> None:
    """The paper's formula prints the control cost with the sign of a gain: 2 - 0.1 * 2.25 by hand."""
    task = at("cheetah", {0: 3.0, 1: 0.25, 2: 0.5}, {0: 2.0, 1: 7.0, 8: 4.0})
    assert task.reward(np.float32([1, -1, 0.5, 0, 0, 0])) == pytest.approx(1.775)
    expected = [0.25, 0.5, *[0] * 6, 2.0, 7.0, *[0] * 6, 4.0]
    np.testing.assert_array_equal(task.observe(), expected)


def test_fish_turned_to_the_side() -> None:
    """Facing -x, the mouth 0.0745 m before the torso; the target 0.3 m ahead and 0.4 m to the right (world's +y)."""
    task = at("fish", {0: (1.0, 2.0, 0.1, *TURN)}, {0: -1.0, 4: 5.0, 12: 0.5})
    task.data.mocap_pos[0] = (1.0 - 0.0745 - 0.3, 2.0 + 0.4, 0.1)
    assert task.reward(zeros(task)) == pytest.approx(-0.5)
    assert task.reward(np.float32([1, 0, -1, 0, 0])) == pytest.approx(-0.52)
    seen = task.observe()
    np.testing.assert_allclose(seen[:3], (0.4, 0.3, 0.0), atol=1e-9)
    np.testing.assert_allclose(seen[3:18], [*[0] * 13, 0.5, 1.0], atol=1e-12)
    np.testing.assert_allclose(seen[18:], (0, 1, 0, 0, 5, 0), atol=1e-12)


def test_a_fish_on_its_back_pays_for_it() -> None:
    task = at("fish", {3: (0.0, 0.0, 1.0, 0.0), 7: (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)})
    task.data.mocap_pos[0] = task.data.geom("mouth").xpos + (0, 0, 0.2)
    assert task.reward(zeros(task)) == pytest.approx(-0.2 - 0.1)
    np.testing.assert_allclose(task.observe()[:3], (0, 0, -0.2), atol=1e-9)
    np.testing.assert_allclose(task.observe()[3:10], np.arange(1, 8) / 10)
    assert task.observe()[17] == pytest.approx(-1)


def test_starts_of_fish() -> None:
    task = TASKS["fish"]("executed")
    starts = np.array([task.reset(seed=seed)[0] for seed in range(100)])
    directions = starts[:, :3] / np.linalg.norm(starts[:, :3], axis=1, keepdims=True)
    assert np.abs(directions.mean(0)).max() < 0.25  # facing the target and away from it alike
    assert np.ptp(starts[:, 17]) > 1.8  # upright and on its back
    np.testing.assert_array_equal(starts[:, 10:17], 0)


@pytest.mark.parametrize(
    ("height", "pitch", "reward", "failed"),
    [
        (1.25, 0.0, 1.5, False),
        (1.35, 0.2, 1.5 - 5 * 0.01 - 0.04, False),
        (1.15, -0.2, 1.5 - 5 * 0.01 - 0.04, False),
        (0.81, 0.99, 1.5 - 5 * 0.1936 - 0.9801, False),
        (1.99, -0.99, 1.5 - 5 * 0.5476 - 0.9801, False),
        (0.79, 0.0, -10, True),
        (2.01, 0.0, -10, True),
        (1.25, 1.01, -10, True),
        (1.25, -1.01, -10, True),
    ],
)
def test_rewards_and_falls_of_walker(height: float, pitch: float, reward: float, failed: bool) -> None:
    task = at("walker", {0: height - 1.3, 1: 40.0, 2: pitch}, {1: 1.5})
    assert task.reward(zeros(task)) == pytest.approx(reward)
    assert task.failed() == failed
    if not failed:
        assert task.reward(np.float32([1, -1, 0, 0, 0.5, 0])) == pytest.approx(reward - 0.0225)


def test_observation_of_walker() -> None:
    """Joints turn the other way round than the torso, and each body turns with those above it."""
    task = at("walker", {0: (0.1, 9.0, 0.5, 0.1, 0.2, 0.4, -0.1, -0.2, -0.4)}, {i: float(i) for i in range(9)})
    pitches = np.array((0.5, 0.4, 0.2, -0.2, 0.6, 0.8, 1.2))
    turned = np.stack((np.cos(pitches), np.sin(pitches)), 1).ravel()
    np.testing.assert_allclose(task.observe(), (1.4, *range(9), *turned), atol=1e-9)
    assert task.observe()[0] == pytest.approx(task.data.body("torso").xpos[2])


def test_a_walker_without_control_falls() -> None:
    """The end of its episode is no time limit, and brings the negative reward once."""
    environment = make("walker", 1)
    first, _ = environment.reset()
    assert abs(first[0, 0] - 1.3) < 1e-6
    steps = [flat(environment.step(np.zeros((1, 6)))) for _ in range(500)]
    end = next(i for i, step in enumerate(steps) if step["game_over"][0])
    assert (bool(steps[end]["terminated"][0]), bool(steps[end]["truncated"][0])) == (True, False)
    assert steps[end]["reward"][0] == -10
    assert all(step["reward"][0] > -5 for step in steps[:end])
    assert (steps[end + 1]["reward"][0], steps[end + 1]["episode_frames"][0]) == (0, 0)


def test_humanoid_in_the_air_upright() -> None:
    """The model's default: the head at 1.69 m, torso and pelvis upright but for 0.008 rad."""
    task = at("humanoid")
    assert task.reward(zeros(task)) == pytest.approx(-(0.215**2), abs=1e-4)
    assert task.reward(np.ones(21, np.float32)) == pytest.approx(-(0.215**2) - 0.21, abs=1e-4)
    height = 1.69 - humanoid._lowest_point(task.model, task.data)
    assert height == pytest.approx(humanoid.STANDING_HEAD_HEIGHT, abs=1e-3)


def test_humanoid_on_its_back_and_head_down() -> None:
    """Lying: (0.1 - 1.475)^2 and both tilts 1; head down at 0.2 m: (0.2 - 1.475)^2 and both tilts 2."""
    lying = at("humanoid", {2: (0.1, math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)})
    assert lying.reward(zeros(lying)) == pytest.approx(-(1.375**2) - 0.5, abs=4e-3)
    upside_down = at("humanoid", {2: (0.39, 0.0, 1.0, 0.0, 0.0)})
    assert upside_down.reward(zeros(upside_down)) == pytest.approx(-(1.275**2) - 1.0, abs=4e-3)


def test_observation_of_humanoid() -> None:
    """The parts one after the other, in a state turned by 90 degrees: the body walks along world's y, its own x."""
    angles, speeds = np.linspace(-0.2, 0.2, 21), np.linspace(1, 2, 21)
    task = at("humanoid", {0: (5.0, -3.0, 1.2, *TURN), 7: angles}, {1: 4.0, 5: 0.5} | dict(enumerate(speeds, 6)))
    seen = task.observe()
    np.testing.assert_array_equal(seen[:21], angles)
    assert seen[21] == pytest.approx(1.39)
    np.testing.assert_allclose(seen[64:73], (0, 0, 1, 4, 0, 0, 0, 0, 0.5), atol=1e-12)
    np.testing.assert_array_equal(seen[73:], speeds)
    limbs = seen[22:64].reshape(14, 3)
    names_of_limbs = [task.model.body(i).name for i in range(3, 17)]
    foot = task.data.body("right_foot").xpos - task.data.body("torso").xpos
    np.testing.assert_allclose(limbs[names_of_limbs.index("right_foot")], (foot[1], -foot[0], foot[2]), atol=1e-9)
    waist = at("humanoid", {3: TURN}).observe()[22:25]
    np.testing.assert_allclose(waist, (-0.01, 0, -0.26), atol=1e-9)


def test_humanoids_start_lying_in_many_ways() -> None:
    task = TASKS["humanoid"]("executed")
    sides = []
    for seed in range(30):
        first = task.reset(seed=seed)[0]
        assert first[21] < 0.45
        assert abs(first[66]) < 0.5
        assert humanoid._lowest_point(task.model, task.data) == pytest.approx(0, abs=0.02)
        np.testing.assert_array_equal(task.data.qvel, 0)
        sides.append(first[64])
    assert min(sides) < -0.8  # on its back
    assert max(sides) > 0.8  # face down
    assert np.ptp([task.reset(seed=seed)[0][:21] for seed in range(10)], axis=0).min() > 0.05


def test_humanoids_are_laid_down_and_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(humanoid, "SETTLING_STEPS", 0)
    task = TASKS["humanoid"]("executed")
    for seed in range(10):
        first = task.reset(seed=seed)[0]
        assert first[66] == pytest.approx(0, abs=1e-9)
        assert humanoid._lowest_point(task.model, task.data) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("task", ["reacher3", "fish", "walker", "humanoid"])
def test_observations_are_of_the_end_of_a_step(task: str) -> None:
    """MuJoCo by itself leaves the bodies where they were at the beginning of the last simulation step."""
    simulation = TASKS[task]("executed")
    simulation.reset(seed=0)
    action = np.ones(simulation.model.nu, np.float32)
    for _ in range(5):
        observation, reward, *_ = simulation.step(action)
    mujoco.mj_forward(simulation.model, simulation.data)
    np.testing.assert_array_equal(simulation.observe(), observation)
    assert simulation.reward(action) == reward


@pytest.mark.parametrize("task", TASKS)
def test_a_random_policy_for_an_episode(task: str) -> None:
    """Finite throughout; only the walker's episodes end before the time limit; sparse rewards are 0 or 1."""
    environment = make(task, 1)
    environment.reset()
    steps = [flat(environment.step(0.3 * action)) for action in actions_for(environment, 500)]
    assert all(np.isfinite(step["observation"]).all() and np.isfinite(step["reward"]).all() for step in steps)
    rewards = {float(step["reward"][0]) for step in steps}
    assert (rewards <= {0.0, 1.0}) == (task in ("cartpole", "reacher3"))
    terminated = any(step["terminated"][0] for step in steps)
    assert terminated == (task == "walker")
    if not terminated:
        assert [bool(step["truncated"][0]) for step in steps] == [False] * 499 + [True]
        assert steps[-1]["episode_frames"][0] == 500
    assert sum(warning.number for warning in environment._tasks[0].data.warning) == 0


CONTROL_COSTS = {"cartpole": 0.0, "reacher3": 0.0, "cheetah": 0.1, "fish": 0.01, "walker": 0.01, "humanoid": 0.01}
"""What a unit of |a|^2 costs."""


@pytest.mark.parametrize("task", TASKS)
def test_an_action_beyond_the_bounds_costs_what_is_executed(task: str) -> None:
    """A step with three times the bounds is the step with the bounds: same state, same reward."""
    bound, beyond = make(task, 1), make(task, 1)
    bound.reset()
    beyond.reset()
    one = np.ones((1, bound.num_actions))
    expected, found = bound.step(one), beyond.step(3 * one)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    assert not np.array_equal(expected[0], make(task, 1).reset()[0])


@pytest.mark.parametrize("task", TASKS)
def test_the_cost_of_the_chosen_action_remains_available(task: str) -> None:
    """The same step under both readings: they differ by the cost of 9 instead of 1 for each component."""
    executed, chosen = make(task, 1), make(task, 1, control_cost_of="chosen")
    executed.reset()
    chosen.reset()
    beyond = 3 * np.ones((1, executed.num_actions))
    expected, found = executed.step(beyond), chosen.step(beyond)
    np.testing.assert_array_equal(found[0], expected[0])
    difference = CONTROL_COSTS[task] * executed.num_actions * (9 - 1)
    assert expected[1][0] - found[1][0] == pytest.approx(difference, rel=1e-5)


@pytest.mark.parametrize("task", ["cheetah", "fish", "walker", "humanoid"])
def test_no_action_makes_an_episode_cost_five_digits(task: str) -> None:
    """A mean of 28 cost the cheetah 235 000 an episode for movements that never happened."""
    returns = {}
    for control_cost_of in ("executed", "chosen"):
        environment = make(task, 1, control_cost_of=control_cost_of)
        environment.reset()
        action = np.full((1, environment.num_actions), 28.0)
        rewards = [environment.step(action)[1][0] for _ in range(500)]
        returns[control_cost_of] = float(np.sum(rewards))
    assert returns["executed"] > -10_000
    assert returns["chosen"] < returns["executed"] - 10_000


@pytest.mark.parametrize("task", TASKS)
def test_restored_episodes_go_on_exactly(task: str) -> None:
    """From the middle of an episode, through a checkpoint's file, past its end and the next start."""
    original = make(task, seed=3, max_steps=25)
    original.reset()
    actions = actions_for(original, 60)
    for step in range(20):
        before = original.step(actions[step])[0]
    restored = make(task, seed=99, max_steps=25)
    np.testing.assert_array_equal(restored.set_state(through_a_file(original.get_state())), before)
    for step in range(20, 60):
        expected, found = flat(original.step(actions[step])), flat(restored.step(actions[step]))
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{name} of step {step}")


@pytest.mark.parametrize("task", TASKS)
def test_seeds_and_independence(task: str) -> None:
    """Rows differ and are the same from the same seed, whatever else runs on the shared model between the steps."""
    alone, beside, other = make(task), make(task), make(task, seed=7)
    first, _ = alone.reset()
    np.testing.assert_array_equal(beside.reset()[0], first)
    assert (first[0] != first[1]).any()
    assert (other.reset()[0] != first).any()
    actions = actions_for(alone, 30)
    expected = [alone.step(action) for action in actions]
    for action, wanted in zip(actions, expected):
        other.step(-action)
        found = beside.step(action)
        np.testing.assert_array_equal(found[0], wanted[0])
        np.testing.assert_array_equal(found[1], wanted[1])


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("reacher", "No control task of ACER is called 'reacher'; did you mean reacher3?"),
        ("cheeta", "did you mean cheetah?"),
        ("Pong", "there are cartpole, reacher3, cheetah, fish, walker, humanoid."),
    ],
)
def test_unknown_names_give_the_nearest(task: str, message: str) -> None:
    with pytest.raises(UnknownTaskError) as error:
        task_name(task)
    assert message in str(error.value)


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), ([], 2)])
def test_the_pictures_need_a_folder_and_have_help(tmp_path: Path, arguments: list[str], code: int) -> None:
    module = "repro.environments.acer_tasks.pictures"
    path = {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
    called = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(called, cwd=tmp_path, env=os.environ | path, capture_output=True, text=True)
    assert (done.returncode, list(tmp_path.iterdir())) == (code, [])
    assert f"usage: python -m {module}" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_names_and_wrong_settings() -> None:
    assert names.task_name("acer_tasks", "Reacher_3") == "reacher3"
    with pytest.raises(ValueError, match="choose atari, mujoco, acer_tasks, dm_control, rwrl, gymnasium, dmlab or"):
        names.task_name("gym", "walker")
    with pytest.raises(ValueError, match="max_steps must be at least 1, got 0"):
        make("walker", max_steps=0)
    with pytest.raises(ValueError, match="control_cost_of must be one of executed, chosen, got 'asked'"):
        make("walker", control_cost_of="asked")
    with pytest.raises(ValueError, match="control_cost_of must be one of executed, chosen, got 'asked'"):
        TASKS["walker"]("asked")
    with pytest.raises(ValueError, match="has no field 'max_steps', which is required"):
        make_acer_task({"task": "walker"}, 1, 0)
    with pytest.raises(ValueError, match="has a field 'version' that nothing reads"):
        make_acer_task({"task": "walker", "max_steps": 500, "version": "v5"}, 1, 0)
    walker = make("walker")
    walker.reset()
    with pytest.raises(ValueError, match="the state is of acer_tasks/walker, the environment is acer_tasks/cheetah"):
        make("cheetah").set_state(walker.get_state())
