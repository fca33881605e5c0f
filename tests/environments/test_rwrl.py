"""The Real-World RL challenges: numbers, each effect's distribution, changed models, seeds, exact restores."""

from __future__ import annotations

import dataclasses
import importlib
import re
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from repro.environments import rwrl_models
from repro.environments.batched import RenderError
from repro.environments.dm_control import DmControlEnvironment, make_dm_control
from repro.environments.dm_control_task import SuiteTask
from repro.environments.lookup import UnknownTaskError
from repro.environments.names import task_name
from repro.environments.rwrl import DOMAINS, LEVELS, TASKS, Challenges, DelayLine, Level, RwrlTask, Spells, make_rwrl
from repro.environments.rwrl_models import PERTURBATIONS, perturbed_physics
from tests.environments.stepping import flat, through_a_file

PAGE = Path(__file__).resolve().parents[2] / "docs" / "control_tasks.md"
IDLE = Level("easy", 0, 0, 0, 0.0, 0.0, 0.0, 1, 0.0, 1, 1, 0)
"""No effect but the perturbation."""

SPECIFICATION: dict[str, dict[str, dict[str, Any]]] = {
    "easy": {
        "delay": {"actions": 3, "observations": 3, "rewards": 10},
        "gaussian noise": {"actions": 0.1, "observations": 0.1},
        "dropped": {"observations_prob": 0.01, "observations_steps": 1},
        "stuck": {"observations_prob": 0.01, "observations_steps": 1},
        "repetition": {"actions_prob": 1.0, "actions_steps": 1},
        "perturb": {"period": 1, "scheduler": "uniform"},
        "dimensionality": {"num_random_state_observations": 10},
    },
    "medium": {
        "delay": {"actions": 6, "observations": 6, "rewards": 20},
        "gaussian noise": {"actions": 0.3, "observations": 0.3},
        "dropped": {"observations_prob": 0.05, "observations_steps": 5},
        "stuck": {"observations_prob": 0.05, "observations_steps": 5},
        "repetition": {"actions_prob": 1.0, "actions_steps": 2},
        "perturb": {"period": 1, "scheduler": "uniform"},
        "dimensionality": {"num_random_state_observations": 20},
    },
    "hard": {
        "delay": {"actions": 9, "observations": 9, "rewards": 40},
        "gaussian noise": {"actions": 1.0, "observations": 1.0},
        "dropped": {"observations_prob": 0.1, "observations_steps": 10},
        "stuck": {"observations_prob": 0.1, "observations_steps": 10},
        "repetition": {"actions_prob": 1.0, "actions_steps": 3},
        "perturb": {"period": 1, "scheduler": "uniform"},
        "dimensionality": {"num_random_state_observations": 50},
    },
}
"""google-research/realworldrl_suite, docs/README.md, commit be7a51c."""


def make(task: str, num_envs: int = 1, seed: int = 0, max_steps: int = 0) -> DmControlEnvironment:
    return make_rwrl({"name": "rwrl", "task": task, "max_steps": max_steps}, num_envs, seed)


def challenges(features: int = 1, actions: int = 1, seed: int = 0, **effects: Any) -> Challenges:
    level = dataclasses.replace(IDLE, **effects)
    return Challenges(level, features, -np.ones(actions), np.ones(actions), np.random.default_rng(seed))


def run_lengths(active: np.ndarray) -> np.ndarray:
    """Lengths of the runs of True in [T], without one that is cut by an end."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], active, [False])).astype(int)))
    runs = edges.reshape(-1, 2)
    return np.diff(runs[(runs[:, 0] > 0) & (runs[:, 1] < len(active))], axis=1).ravel()


@pytest.mark.parametrize("name", LEVELS)
def test_levels_are_those_of_the_specification(name: str) -> None:
    level, spec = LEVELS[name], SPECIFICATION[name]
    assert (level.action_delay, level.observation_delay, level.reward_delay) == tuple(spec["delay"].values())
    assert (level.action_noise, level.observation_noise) == tuple(spec["gaussian noise"].values())
    assert (level.dropped_prob, level.dropped_steps) == tuple(spec["dropped"].values())
    assert (level.stuck_prob, level.stuck_steps) == tuple(spec["stuck"].values())
    assert spec["repetition"] == {"actions_prob": 1.0, "actions_steps": level.repeated_steps}
    assert spec["dimensionality"] == {"num_random_state_observations": level.dummies}


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_delay_shifts_exactly(steps: int) -> None:
    line = DelayLine(steps)
    given = np.arange(20.0)
    found = [line.pass_on(np.array([x]))[0] for x in given]
    np.testing.assert_array_equal(found, [max(x - steps, 0) for x in given])


@pytest.mark.parametrize(("prob", "steps"), [(0.01, 1), (0.05, 5), (0.1, 10)])
def test_spells_have_their_share_and_their_length(prob: float, steps: int) -> None:
    """A component works for (1 - p) / p steps on average between spells of s: the share is p s / (p s + 1 - p).

    Spells that follow each other at once make runs of a multiple of s.
    """
    spells, rng = Spells(50, prob, steps), np.random.default_rng(0)
    fails = np.array([spells.sample(rng) for _ in range(4000)])
    share = prob * steps / (prob * steps + 1 - prob)
    np.testing.assert_allclose(fails[200:].mean(), share, rtol=0.03)
    lengths = np.concatenate([run_lengths(column) for column in fails.T])
    assert (lengths % steps == 0).all()
    np.testing.assert_allclose((lengths == steps).mean(), 1 - prob, atol=0.01)
    together = np.corrcoef(fails[:, 0], fails[:, 1])[0, 1]
    assert abs(together) < 0.15  # each component for itself


def test_noise_of_observations() -> None:
    some = challenges(features=3, observation_noise=0.3)
    found = np.array([some.observe(np.array([1.0, -2.0, 0.0])) for _ in range(4000)])
    np.testing.assert_allclose(found.mean(0), [1, -2, 0], atol=0.03)
    np.testing.assert_allclose(found.std(0), 0.3, rtol=0.05)
    np.testing.assert_allclose(np.corrcoef(found.T), np.eye(3), atol=0.06)


def test_noise_of_actions_is_brought_within_their_bounds() -> None:
    some = challenges(actions=2, action_noise=0.3)
    found = np.array([some.act(np.array([0.0, 1.0])) for _ in range(4000)])
    np.testing.assert_allclose(found[:, 0].std(), 0.3, rtol=0.05)
    assert found.max() == 1
    np.testing.assert_allclose((found[:, 1] == 1).mean(), 0.5, atol=0.03)  # whose noise would lead beyond


def test_dropped_components_read_zero() -> None:
    some = challenges(features=10, dropped_prob=0.1, dropped_steps=10)
    found = np.array([some.observe(np.full(10, 5.0)) for _ in range(2000)])
    assert set(np.unique(found)) == {0.0, 5.0}
    np.testing.assert_allclose((found == 0).mean(), 1 / 1.9, atol=0.03)
    assert np.concatenate([run_lengths(column == 0) for column in found.T]).min() == 10


def test_stuck_components_keep_their_last_reading() -> None:
    """The reading of step t is t, so a stuck component repeats the number that it had before."""
    some = challenges(features=10, stuck_prob=0.1, stuck_steps=10)
    found = np.array([some.observe(np.full(10, float(t))) for t in range(2000)])
    stuck = found != np.arange(2000)[:, None]
    assert not stuck[0].any()  # before the first reading there is none to be stuck at
    np.testing.assert_array_equal(found[1:][stuck[1:]], found[:-1][stuck[1:]])
    np.testing.assert_allclose(stuck.mean(), 1 / 1.9, atol=0.03)
    # From step 1 on, since what sticks at step 0 has no reading to show it by.
    assert np.concatenate([run_lengths(column) for column in stuck[1:].T]).min() == 10


def test_a_dropped_reading_may_be_stuck_at() -> None:
    """Readings are dropped first: a component that is dropped when it sticks reads 0 for as long as it does."""
    some = challenges(features=20, dropped_prob=0.05, dropped_steps=1, stuck_prob=0.05, stuck_steps=10)
    found = np.array([some.observe(np.full(20, 5.0)) for _ in range(2000)])
    zeros = np.concatenate([run_lengths(column == 0) for column in found.T])
    assert np.isin([1, 11], zeros).all()


def test_dummies_are_unit_gaussians_that_are_not_delayed() -> None:
    delayed, prompt = (challenges(features=2, dummies=20, observation_delay=delay) for delay in (5, 0))
    pairs = [(delayed.observe(np.full(2, t)), prompt.observe(np.full(2, t))) for t in range(1000)]
    late, found = (np.array(column) for column in zip(*pairs))
    assert late.shape == (1000, 22)
    np.testing.assert_array_equal(late[:, 2:], found[:, 2:])
    np.testing.assert_array_equal(late[5:, :2], found[:-5, :2])
    np.testing.assert_allclose(found[:, 2:].std(), 1, rtol=0.03)
    np.testing.assert_allclose(found[:, 2:].mean(), 0, atol=0.03)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_an_action_acts_for_some_steps(steps: int) -> None:
    some = challenges(repeated_steps=steps)
    chosen = np.linspace(-1, 1, 30)
    found = [some.act(np.array([x]))[0] for x in chosen]
    np.testing.assert_array_equal(found, [chosen[t - t % steps] for t in range(30)])


def test_noise_comes_before_what_is_dropped_and_before_what_is_held() -> None:
    some = challenges(features=10, observation_noise=0.3, dropped_prob=0.1, dropped_steps=5)
    found = np.array([some.observe(np.full(10, 5.0)) for _ in range(1000)])
    np.testing.assert_allclose((found == 0).mean(), 0.5 / 1.4, atol=0.03)
    assert found[found != 0].min() > 3
    some = challenges(action_noise=0.3, repeated_steps=3)
    acted = np.array([some.act(np.zeros(1))[0] for _ in range(30)]).reshape(10, 3)
    assert (acted == acted[:, :1]).all()
    assert len(set(acted[:, 0])) == 10


def test_an_action_is_delayed_before_it_is_held() -> None:
    some = challenges(action_delay=3, repeated_steps=2)
    chosen = np.linspace(-1, 1, 30)
    found = [some.act(np.array([x]))[0] for x in chosen]
    np.testing.assert_array_equal(found, [chosen[max(t - t % 2 - 3, 0)] for t in range(30)])


def test_actions_and_rewards_come_late() -> None:
    some = challenges(action_delay=3, reward_delay=10)
    chosen = np.linspace(-1, 1, 30)
    found = [(some.act(np.array([x]))[0], some.pay(x)) for x in chosen]
    np.testing.assert_array_equal([action for action, _ in found], [chosen[max(t - 3, 0)] for t in range(30)])
    np.testing.assert_array_equal([reward for _, reward in found], [chosen[max(t - 10, 0)] for t in range(30)])


def test_effects_act_on_an_environment() -> None:
    """A delayed task is the same task with actions given later and readings and rewards taken earlier."""
    late = RwrlTask(
        "cartpole", "swingup", dataclasses.replace(IDLE, action_delay=2, observation_delay=3, reward_delay=4)
    )
    plain = RwrlTask("cartpole", "swingup", IDLE)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (40, 1))
    found = [late.begin(3)] + [late.step(action) for action in actions]
    expected = [plain.begin(3)] + [plain.step(actions[max(t - 2, 0)]) for t in range(40)]
    observations, wanted = ([steps[0], *(step[0] for step in steps[1:])] for steps in (found, expected))
    np.testing.assert_array_equal(observations[3:], wanted[:-3])
    np.testing.assert_array_equal([step[1] for step in found[5:]], [step[1] for step in expected[1:-4]])


def test_effects_go_on_in_the_next_episode() -> None:
    """What is delayed at an episode's end comes in the next one; a new seed begins without it."""
    late = RwrlTask("cartpole", "swingup", dataclasses.replace(IDLE, observation_delay=2, reward_delay=3))
    plain = RwrlTask("cartpole", "swingup", IDLE)

    def play(task: RwrlTask) -> tuple[list[np.ndarray], list[float]]:
        observations, rewards = [], []
        for episode in range(3):
            observations.append(task.begin(0 if episode == 0 else None))
            for _ in range(4):
                observation, reward, *_ = task.step(np.ones(1))
                observations.append(observation), rewards.append(reward)
        return observations, rewards

    (found, paid), (expected, earned) = play(late), play(plain)
    np.testing.assert_array_equal(found[2:], expected[:-2])
    np.testing.assert_array_equal(paid[3:], earned[:-3])
    assert len(set(paid[3:])) == 9
    np.testing.assert_array_equal(late.begin(0), plain.begin(0))


def test_delayed_and_held_actions_go_on_in_the_next_episode() -> None:
    late = RwrlTask("cartpole", "swingup", dataclasses.replace(IDLE, action_delay=2, repeated_steps=3))
    plain = RwrlTask("cartpole", "swingup", IDLE)
    chosen = np.linspace(-1, 1, 12)
    for t in range(12):
        if t % 4 == 0:  # an action that begins to act at step 3 is held over the end of the first episode
            for task in (late, plain):
                task.begin(0 if t == 0 else None)
            challenges_of_run = late._challenges
        found = late.step(chosen[t : t + 1])
        begun = t - t % 3
        np.testing.assert_array_equal(found[0], plain.step(chosen[[max(begun - 2, 0)]])[0])
        assert late._challenges is challenges_of_run
    late.begin(None)
    assert late._challenges is challenges_of_run  # spells and the last reading with it
    late.begin(0)
    assert late._challenges is not challenges_of_run


def test_ranges_are_those_of_the_suite_s_code() -> None:
    expected = {
        "cartpole": {"easy": (0.9, 1.1), "medium": (0.7, 1.7), "hard": (0.5, 2.3)},
        "walker": {"easy": (0.225, 0.25), "medium": (0.225, 0.4), "hard": (0.225, 0.55)},
        "quadruped": {"easy": (0.25, 0.3), "medium": (0.25, 0.8), "hard": (0.25, 1.4)},
        "humanoid": {"easy": (0.6, 0.8), "medium": (0.5, 0.9), "hard": (0.4, 1.0)},
    }
    assert {domain: dict(x.ranges) for domain, x in PERTURBATIONS.items()} == expected


@pytest.mark.parametrize("name", TASKS)
def test_each_episode_has_a_parameter_of_the_level_s_range(name: str) -> None:
    domain, task, level = TASKS[name]
    assert name == f"{domain}_{level.name}"
    low, high = PERTURBATIONS[domain].ranges[level.name]
    environment = make(name, max_steps=1)
    environment.reset()
    simulation = environment._tasks[0]
    assert environment.state_size == SuiteTask(domain, task).num_features + level.dummies
    found = []
    for _ in range(6):
        found.append(simulation.parameter)
        environment.step(np.zeros((1, environment.num_actions)))
        environment.step(np.zeros((1, environment.num_actions)))
    assert len(set(found)) == 6
    assert low <= min(found) < max(found) <= high
    assert max(found) - min(found) > (high - low) / 4


def test_parameters_are_uniform() -> None:
    task = RwrlTask("cartpole", "swingup", LEVELS["hard"])
    task._build = lambda parameter: setattr(task, "parameter", parameter)  # type: ignore[method-assign]
    found = []
    for episode in range(2000):
        task.begin(0 if episode == 0 else None)
        found.append(task.parameter)
    counts, _ = np.histogram(found, 4, (0.5, 2.3))
    assert counts.sum() == 2000
    np.testing.assert_allclose(counts, 500, rtol=0.15)


@pytest.mark.parametrize(("domain", "value"), zip(DOMAINS, (1.0, 0.225, 0.25, 0.7)))
def test_the_suite_s_own_value_gives_the_suite_s_model(domain: str, value: float) -> None:
    suite, changed = SuiteTask(domain, DOMAINS[domain]), perturbed_physics(domain, value).model.ptr
    for name in (
        "body_pos",
        "body_mass",
        "body_inertia",
        "geom_pos",
        "geom_size",
        "geom_quat",
        "jnt_pos",
        "dof_damping",
    ):
        np.testing.assert_allclose(getattr(changed, name), getattr(suite.model, name), rtol=1e-6, atol=1e-9)
    if domain != "humanoid":
        np.testing.assert_array_equal(changed.geom_friction, suite.model.geom_friction)


def test_models_have_what_their_parameter_says() -> None:
    cart = perturbed_physics("cartpole", 1.7).named.model
    assert cart.geom_size["pole_1", 1] == 0.85  # half of its length
    assert cart.geom_pos["pole_1", 2] == 0.85
    np.testing.assert_allclose(cart.body_mass["pole_1"], 0.17)
    walker = perturbed_physics("walker", 0.5).named.model
    for side in ("left", "right"):
        assert walker.geom_size[f"{side}_thigh", 1] == 0.5
        assert walker.geom_pos[f"{side}_thigh", 2] == -0.5
        assert walker.body_pos[f"{side}_leg", 2] == -1.25
    quadruped = perturbed_physics("quadruped", 0.8).named.model
    for foot in ("front_left", "front_right", "back_left", "back_right"):
        np.testing.assert_allclose(quadruped.body_pos[f"ankle_{foot}"], (0.8, 0, -0.8))
        np.testing.assert_allclose(quadruped.geom_size[f"shin_{foot}", 1], 0.8 * np.sqrt(2) / 2)
    humanoid = perturbed_physics("humanoid", 0.5).named.model
    np.testing.assert_allclose(humanoid.geom_friction["torso"], (0.5, 0.1, 0.1))
    np.testing.assert_allclose(humanoid.geom_friction["floor"], (0.5, 0.1, 0.1))


def test_the_quadruped_s_heading_is_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the torso about the vertical axis by an angle that is uniform over the whole circle."""
    quadruped, found = importlib.import_module("dm_control.suite.quadruped"), []
    monkeypatch.setattr(quadruped, "_find_non_contacting_height", lambda _, orientation: found.append(orientation))
    task = types.SimpleNamespace(random=np.random.RandomState(0))
    for _ in range(1000):
        rwrl_models.upright_start(task, None)
    w, x, y, z = np.transpose(found)
    np.testing.assert_array_equal([x, y], 0.0)
    assert scipy.stats.kstest(2 * np.arctan2(z, w) % (2 * np.pi) / (2 * np.pi), "uniform").pvalue > 1e-3


def test_the_quadruped_begins_upright() -> None:
    """And the control suite's in any orientation. Its own reading of uprightness, without the noise."""
    upright = make("quadruped_easy", num_envs=3)
    upright.reset()
    assert all(task._physics.torso_upright() > 0.99 for task in upright._tasks)
    tumbled = make_dm_control({"task": "quadruped_walk", "observed": "features", "max_steps": 0}, 3, 0)
    tumbled.reset()
    assert not all(task._physics.torso_upright() > 0.99 for task in tumbled._tasks)


@pytest.mark.parametrize(
    ("task", "num_envs"), [("cartpole_hard", 2), ("walker_medium", 1), ("quadruped_easy", 1), ("humanoid_hard", 1)]
)
def test_restored_episodes_go_on_exactly(task: str, num_envs: int) -> None:
    """From the middle of an episode, with spells, delays and a held action, and past the next two starts."""
    original, restored = (make(task, num_envs, seed=seed, max_steps=25) for seed in (3, 99))
    original.reset()
    rng = np.random.default_rng(1)
    actions = rng.normal(size=(75, original.num_envs, original.num_actions)).astype(np.float32)
    for action in actions[:20]:
        before = original.step(action)[0]
    np.testing.assert_array_equal(restored.set_state(through_a_file(original.get_state())), before)
    for step, action in enumerate(actions[20:]):
        expected, found = flat(original.step(action)), flat(restored.step(action))
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{name} of step {step}")


def test_a_state_before_the_first_step_is_restored() -> None:
    original, restored = (make("cartpole_medium", seed=seed) for seed in (3, 99))
    original.reset()
    restored.set_state(through_a_file(original.get_state()))
    for action in np.random.default_rng(1).normal(size=(30, 1, 1)):
        np.testing.assert_array_equal(restored.step(action)[0], original.step(action)[0])


def test_random_play_scores_what_the_page_says() -> None:
    """On the quadruped, where its level is told from the others; `tests/docs` has the table beside records."""
    row = re.search(r"^\| quadruped_walk \| .+ \| ([\d.]+) ± ([\d.]+) \| .+ \| .+ \|$", PAGE.read_text(), re.MULTILINE)
    assert row is not None
    mean, error = map(float, row.groups())
    environment = make("quadruped_easy", num_envs=3, seed=100)
    environment.reset()
    rng = np.random.default_rng(0)
    for _ in range(1000):
        info = environment.step(rng.uniform(-1, 1, (3, environment.num_actions)))[4]
    assert info["game_over"].all()
    of_three = error * (20 / 3) ** 0.5  # the page has 20 episodes
    assert abs(info["episode_return"].mean() - mean) < 4 * np.hypot(error, of_three)


def test_seeds() -> None:
    """One seed gives the same bits twice; rows, seeds and the noise of successive episodes differ."""
    first, again, other = (make("cartpole_easy", num_envs=2, seed=seed, max_steps=3) for seed in (0, 0, 1))
    begun = [environment.reset()[0] for environment in (first, again, other)]
    np.testing.assert_array_equal(begun[0], begun[1])
    assert (begun[0][0] != begun[0][1]).all()
    assert (begun[0] != begun[2]).all()
    for _ in range(9):
        steps = [environment.step(np.ones((2, 1)))[0] for environment in (first, again)]
        np.testing.assert_array_equal(*steps)
    np.testing.assert_array_equal(first.reset()[0], begun[0])
    assert (first.reset(seed=1)[0] == begun[2]).all()


@pytest.mark.parametrize(
    "effects",
    [
        {"action_noise": 0.3},
        {"observation_noise": 0.3},
        {"dropped_prob": 0.2, "dropped_steps": 5},
        {"stuck_prob": 0.2, "stuck_steps": 5},
        {"dummies": 3},
    ],
    ids=lambda effects: next(iter(effects)),
)
def test_every_random_effect_follows_its_seed_and_a_saved_state(effects: dict[str, Any]) -> None:
    def play(some: Challenges, first: int) -> np.ndarray:
        """Actions and readings of 30 steps from the given one on."""
        steps = range(first, first + 30)
        return np.array([np.concatenate((some.act(np.zeros(2)), some.observe(np.full(4, 1.0 + t)))) for t in steps])

    one, same, other, restored = (challenges(4, 2, seed, **effects) for seed in (3, 3, 4, 5))
    begun = play(one, 0)
    np.testing.assert_array_equal(play(same, 0), begun)
    assert (play(other, 0) != begun).any()
    restored.set_state(through_a_file(one.get_state()))
    np.testing.assert_array_equal(play(restored, 30), play(one, 30))


def test_a_picture_after_a_new_model() -> None:
    environment = make("walker_hard", max_steps=2)
    environment.reset()
    for _ in range(4):
        try:
            picture = environment.render_first()
        except RenderError as error:
            pytest.skip(str(error))
        environment.step(np.zeros((1, 6)))
        assert (picture != environment.render_first()).any()
    environment.close()


def test_tasks_have_a_level_in_their_names() -> None:
    assert task_name("rwrl", "cartpole.Easy") == "cartpole_easy"
    assert make("quadruped_easy").config.label == "rwrl/quadruped_easy"
    with pytest.raises(
        UnknownTaskError, match="Real-World RL challenge is called 'walker_mediums'; did you mean walker_m"
    ):
        make("walker_mediums")
    with pytest.raises(UnknownTaskError, match="No task of the Real-World RL challenge is called 'cartpole_swingup'"):
        make("cartpole_swingup")
    with pytest.raises(UnknownTaskError, match="No task of DM Control is called 'walker_easy'"):
        task_name("dm_control", "walker_easy")
    with pytest.raises(ValueError, match="Real-World RL: max_steps must be at least 0, got -1"):
        make("walker_easy", max_steps=-1)
