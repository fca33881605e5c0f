"""MuJoCo tasks: equal to bare gymnasium, kinds of ends, exact save and restore, names, silence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest

from repro.environments import mujoco as environments
from repro.environments.lookup import UnknownTaskError
from repro.environments.mujoco import TASKS, MujocoEnvironment, make_mujoco, task_name
from repro.training import checkpoint
from tests.environments.stepping import flat, through_a_file

CONFIG = {"task": "Hopper", "version": "v5", "max_steps": 0}
TASKS_BY_POSITIONS = ("HalfCheetah", "Hopper", "InvertedPendulum", "Swimmer", "Walker2d")
BY_POSITIONS = [f"{task}-{version}" for task in TASKS_BY_POSITIONS for version in environments.VERSIONS]
BY_POSITIONS.append("Ant-v4")
CLIPPED = ("Hopper", "Walker2d")
"""Tasks that observe velocities cut at 10."""


def make(seed: int = 0, num_envs: int = 2, **overrides: Any) -> MujocoEnvironment:
    return make_mujoco({**CONFIG, **overrides}, num_envs, seed)


def actions_for(environment: MujocoEnvironment, steps: int) -> np.ndarray:
    """Beyond the bounds now and then, as a Gaussian policy's."""
    shape = (steps, environment.num_envs, environment.num_actions)
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("version", environments.VERSIONS)
@pytest.mark.parametrize("task", TASKS)
def test_equals_bare_gymnasium(task: str, version: str) -> None:
    """Two environments against two of gymnasium's own with the action scaled by hand, over ends and resets."""
    environment = make(task=task, version=version, max_steps=30)
    bare = [gymnasium.make(f"{task}-{version}", max_episode_steps=30, disable_env_checker=True) for _ in range(2)]
    first, _ = environment.reset()
    assert first.shape == (2, *bare[0].observation_space.shape)
    seeds = [int(np.random.SeedSequence((0, row)).generate_state(1)[0]) for row in range(2)]
    for row, env in enumerate(bare):
        observation, _ = env.reset(seed=seeds[row])
        np.testing.assert_array_equal(first[row], observation.astype(np.float32))
    over, returns, ends = [False, False], [0.0, 0.0], 0
    for actions in actions_for(environment, 70):
        found = flat(environment.step(actions))
        for row, env in enumerate(bare):
            high = env.action_space.high
            if over[row]:
                observation, reward, terminated, truncated = *env.reset()[:1], 0.0, False, False
                returns[row] = 0.0
            else:
                observation, reward, terminated, truncated, _ = env.step(actions[row] * high)
                returns[row] += reward
            np.testing.assert_array_equal(found["observation"][row], observation.astype(np.float32))
            assert found["reward"][row] == np.float32(reward)
            assert found["terminated"][row] == terminated
            assert found["truncated"][row] == (truncated and not terminated)
            over[row] = terminated or truncated
            ends += over[row]
            assert found["game_over"][row] == over[row]
            assert found["episode_return"][row] == np.float32(returns[row])
    assert ends >= 4


def test_action_scales_and_sizes() -> None:
    """Gymnasium's bounds: 0.4 for Humanoid tasks, 3 for InvertedPendulum (the paper says 8), 1 for all others."""
    scales = {"Humanoid": 0.4, "HumanoidStandup": 0.4, "InvertedPendulum": 3.0}
    for task in TASKS:
        environment = make(task=task)
        np.testing.assert_allclose(environment.action_scale, scales.get(task, 1.0), rtol=1e-6)
        assert environment.action_spec.shape == (environment.num_actions,)
        assert environment.action_spec.dtype.name == "float32"
        assert environment.time_step_spec.observation.shape == environment.single_observation_space.shape
        assert environment.max_steps == (50 if task == "Reacher" else 1000)
    assert make(task="Humanoid").num_actions == 17


@pytest.mark.parametrize("version", environments.VERSIONS)
@pytest.mark.parametrize("task", TASKS)
def test_positions_alone_hide_all_velocities_or_are_refused(task: str, version: str) -> None:
    """What stays of an observation are positions of the simulation, what goes its velocities."""
    if f"{task}-{version}" not in BY_POSITIONS:
        with pytest.raises(ValueError, match=f"{task}-{version} cannot be observed by its positions alone: .*Ant-v4"):
            make(task=task, version=version, observed="positions")
        return
    whole, shown = (make(task=task, version=version, observed=x, max_steps=20) for x in environments.OBSERVED)
    model = whole._tasks[0].model
    assert shown.state_size == whole.state_size - model.nv
    assert shown.observation_space.shape == (2, shown.state_size) == shown.reset()[0].shape
    assert shown.time_step_spec.observation.shape == (shown.state_size,)
    np.testing.assert_array_equal(shown.reset()[0], whole.reset()[0][:, : shown.state_size])
    for actions in actions_for(whole, 30):
        expected, found = flat(whole.step(actions)), flat(shown.step(actions))
        observation = expected["observation"]
        expected["observation"] = observation[:, : shown.state_size]
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
        for row, one in enumerate(whole._tasks):
            velocities = np.clip(one.data.qvel, -10, 10) if task in CLIPPED else one.data.qvel
            hidden = observation[row, shown.state_size :]
            np.testing.assert_allclose(hidden, velocities, rtol=1e-6)
            np.testing.assert_allclose(
                found["observation"][row], one.data.qpos[model.nq - shown.state_size :], rtol=1e-6
            )


def test_a_state_of_another_observation_is_refused() -> None:
    whole, shown = make(), make(observed="positions")
    whole.reset()
    with pytest.raises(ValueError, match=r"the state has observations of shape \(11,\), the environment of \(5,\)\."):
        shown.set_state(whole.get_state())


def test_a_fall_and_the_time_limit_are_told_apart() -> None:
    """Hopper falls within 100 random steps; HalfCheetah never does."""
    hopper, cheetah = make(num_envs=1), make(num_envs=1, task="HalfCheetah", max_steps=7)
    hopper.reset()
    for actions in actions_for(hopper, 100):
        last = flat(hopper.step(actions))
        if last["game_over"][0]:
            break
    assert (last["terminated"][0], last["truncated"][0]) == (True, False)
    cheetah.reset()
    steps = [flat(cheetah.step(actions)) for actions in actions_for(cheetah, 16)]
    assert [bool(x["truncated"][0]) for x in steps] == [i in (6, 14) for i in range(16)]
    assert not any(x["terminated"][0] for x in steps)
    assert [int(x["episode_frames"][0]) for x in steps] == [*range(1, 8), 0, *range(1, 8), 0]
    assert steps[7]["reward"][0] == 0.0
    total = np.sum([x["reward"][0] for x in steps[:7]], dtype=np.float64)
    assert steps[6]["episode_return"][0] == pytest.approx(total, rel=1e-6)


def test_a_fall_in_the_last_step_is_no_truncation() -> None:
    falling = make(num_envs=1)
    falling.reset()
    actions = actions_for(falling, 100)
    length = next(i for i, a in enumerate(actions, 1) if falling.step(a)[2][0])
    cut = make(num_envs=1, max_steps=length)
    cut.reset()
    last = [flat(cut.step(a)) for a in actions[:length]][-1]
    assert (last["terminated"][0], last["truncated"][0]) == (True, False)


@pytest.mark.parametrize("version", environments.VERSIONS)
@pytest.mark.parametrize("task", TASKS)
def test_restored_episodes_go_on_exactly(task: str, version: str) -> None:
    """From the middle of an episode, through a checkpoint's file, past its end and the next resets."""
    original = make(3, task=task, version=version, max_steps=60)
    original.reset()
    actions = actions_for(original, 150)
    for step in range(40):
        before = original.step(actions[step])[0]
        if step == 38:
            middle = through_a_file(original.get_state())
    restored = make(99, task=task, version=version, max_steps=60)
    restored.set_state(middle)
    np.testing.assert_array_equal(restored.step(actions[39])[0], before)
    for step in range(40, 150):
        expected, found = flat(original.step(actions[step])), flat(restored.step(actions[step]))
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{name} of step {step}")
            assert found[name].dtype == expected[name].dtype
    np.testing.assert_array_equal(restored.reset()[0], original.reset()[0])


@pytest.mark.parametrize("task", ["Ant", "Humanoid"])
def test_body_positions_are_part_of_a_state(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next reward of these tasks is computed from positions that the physics state does not hold."""
    original = make(3, num_envs=1, task=task)
    original.reset()
    actions = actions_for(original, 6)
    for step in range(5):
        original.step(actions[step])
    state = original.get_state()
    expected = original.step(actions[5])
    restored = make(99, num_envs=1, task=task)
    restored.set_state(state)
    np.testing.assert_array_equal(restored.step(actions[5])[1], expected[1])
    monkeypatch.setattr(environments, "_POSES", ())
    restored.set_state(state)
    wrong = restored.step(actions[5])
    np.testing.assert_array_equal(wrong[0], expected[0])
    assert wrong[1] != expected[1]


def test_the_observation_of_a_restored_end() -> None:
    environment = make(max_steps=5)
    environment.reset()
    for actions in actions_for(environment, 5):
        last = environment.step(actions)
    assert last[4]["game_over"].all()
    restored = make(8, max_steps=5)
    np.testing.assert_array_equal(restored.set_state(environment.get_state()), last[0])
    assert flat(restored.step(np.zeros((2, 3))))["episode_frames"].tolist() == [0, 0]


def test_a_state_does_not_change_as_episodes_go_on() -> None:
    environment = make()
    environment.reset()
    environment.step(np.ones((2, 3)))
    state = environment.get_state()
    before = dict(checkpoint._flatten(state))
    copy = {name: np.copy(value) for name, value in before.items()}
    for _ in range(5):
        environment.step(np.ones((2, 3)))
    for name, value in dict(checkpoint._flatten(state)).items():
        np.testing.assert_array_equal(value, copy[name])


def test_seeds() -> None:
    first = make(0).reset()[0]
    np.testing.assert_array_equal(make(0).reset()[0], first)
    assert (first[0] != first[1]).any()
    assert (make(1).reset()[0] != first).any()
    np.testing.assert_array_equal(make(1).reset(seed=0)[0], first)


def test_several_environments_in_one_process_do_not_disturb_each_other() -> None:
    alone, beside, other = make(0), make(0), make(5, task="Walker2d")
    for environment in (alone, beside, other):
        environment.reset()
    for actions, others in zip(actions_for(alone, 30), actions_for(other, 30)):
        expected = alone.step(actions)
        other.step(others)
        np.testing.assert_array_equal(beside.step(actions)[0], expected[0])


@pytest.mark.parametrize(
    ("task", "name"), [("HalfCheetah", "HalfCheetah"), ("half_cheetah", "HalfCheetah"), ("walker2D", "Walker2d")]
)
def test_usual_spellings(task: str, name: str) -> None:
    assert task_name(task) == name


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("HalfChetah", "No MuJoCo task is called 'HalfChetah'; did you mean HalfCheetah?"),
        ("Humanoids", "did you mean Humanoid or HumanoidStandup?"),
        ("Pong", "No MuJoCo task is called 'Pong'; there are Ant, HalfCheetah, "),
        ("HalfCheetah-v5", "did you mean HalfCheetah?"),
    ],
)
def test_unknown_names_give_one_sentence(task: str, message: str) -> None:
    with pytest.raises(UnknownTaskError) as error:
        task_name(task)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_wrong_settings_and_arguments() -> None:
    with pytest.raises(ValueError, match=r"version must be one of v5, v4, got 'v3'"):
        make(version="v3")
    with pytest.raises(ValueError, match="max_steps must be at least 0, got -1"):
        make(max_steps=-1)
    with pytest.raises(ValueError, match="has no field 'version', which is required"):
        make_mujoco({"task": "Ant", "max_steps": 0}, 1, 0)
    with pytest.raises(ValueError, match="has a field 'frame_skip' that nothing reads"):
        make(frame_skip=4)
    with pytest.raises(ValueError, match="observed must be one of all, positions, got 'angles'"):
        make(observed="angles")
    with pytest.raises(ValueError, match="num_envs must be at least 1, got 0"):
        make(num_envs=0)
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        make(seed=-1)
    environment = make()
    with pytest.raises(RuntimeError, match="step was called before reset"):
        environment.step(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="reset takes no options"):
        environment.reset(options={"x": 1})
    with pytest.raises(ValueError, match="seed must be at least 0, got -2"):
        environment.reset(seed=-2)
    environment.reset()
    with pytest.raises(ValueError, match=r"actions must have shape \(2, 3\), got \(3, 2\)"):
        environment.step(np.zeros((3, 2)))
    state = environment.get_state()
    with pytest.raises(ValueError, match="the state is of Hopper-v5, the environment is Hopper-v4"):
        make(version="v4").set_state(state)
    with pytest.raises(ValueError, match="the state is of 2 environments, the batch has 1"):
        make(num_envs=1).set_state(state)


@pytest.mark.slow
def test_the_first_unstable_simulation_reaches_the_screen_and_nothing_else_or_the_directory(tmp_path: Path) -> None:
    """Old versions, a deprecated model file and two simulations that diverge, in a process of its own."""
    program = """
from repro import cli
cli.quiet()
import numpy as np
from absl import logging
from repro.environments.acer_tasks import TASKS, make_acer_task
from repro.environments.mujoco import make_mujoco
logging.set_verbosity(logging.WARNING)  # importing TF-Agents may send MuJoCo's warnings there
for version in ("v5", "v4"):
    cheetah = make_mujoco({"task": "HalfCheetah", "version": version, "max_steps": 0}, 1, 0)
    cheetah.reset()
    cheetah._tasks[0].data.qvel[:] = 1e30
    cheetah.step(np.zeros((1, 6)))
    assert sum(warning.number for warning in cheetah._tasks[0].data.warning) > 0
for task in TASKS:
    make_acer_task({"task": task, "max_steps": 500}, 1, 0).reset()
"""
    root = Path(environments.__file__).parents[2]
    process = {"args": [sys.executable, "-c", program], "cwd": tmp_path, "env": {"PYTHONPATH": str(root)}}
    ran = subprocess.run(**process, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("MuJoCo: Nan, Inf or huge value in QVEL at DOF 0. The simulation is unstable.")
    assert line.endswith(" Later warnings are not shown.")
    with open("/dev/full", "w") as full:
        ran = subprocess.run(**process, stdout=full, stderr=full)
    assert ran.returncode == 120  # Python's own, of what it cannot write at its end
    assert list(tmp_path.iterdir()) == []


def test_the_saved_state_is_the_whole_of_the_physics() -> None:
    environment = make(num_envs=1)
    environment.reset()
    size = environment.get_state()["tasks"]["0"]["simulation"].size
    model = environment._tasks[0].model
    assert size == mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION)
    assert size > mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
