"""Pictures of every kind of environment: they show the present state, change nothing, or an error says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import gymnasium
import ml_collections
import numpy as np
import pytest

from paper_configs.impala import atari_shallow
from repro.environments import rendering
from repro.environments.batched import BatchedEnvironment, RenderError
from repro.environments.make import make_environment
from tests.support.custom_environments import Clock

KINDS: dict[str, dict[str, Any]] = {
    "mujoco": {"name": "mujoco", "task": "HalfCheetah", "version": "v5", "max_steps": 0},
    "acer_tasks": {"name": "acer_tasks", "task": "cartpole", "max_steps": 500, "control_cost_of": "executed"},
    "dm_control": {"name": "dm_control", "task": "pendulum_swingup", "observed": "features", "max_steps": 0},
    "gymnasium": {"name": "gymnasium", "task": "CartPole-v1"},
    "last_step": {"name": "gymnasium", "task": "CartPole-v1", "last_action_and_reward": True},
}

PIXELS = {**KINDS["dm_control"], "observed": "pixels"}


def make(env: dict[str, Any], num_envs: int = 2) -> BatchedEnvironment:
    return make_environment(ml_collections.ConfigDict({"env": env, "agent": "any"}), num_envs, seed=1)


def render(environment: BatchedEnvironment) -> np.ndarray:
    try:
        return environment.render_first()
    except RenderError as error:
        if "neither is installed" in str(error):
            pytest.skip(str(error))
        raise


def steps(environment: BatchedEnvironment, count: int) -> None:
    for _ in range(count):
        environment.step(np.ones((2, *environment.action_spec.shape), environment.action_spec.dtype.as_numpy_dtype))


@pytest.mark.parametrize(
    ("kind", "fps"), [("mujoco", 20), ("acer_tasks", 20), ("dm_control", 50), ("gymnasium", 50), ("last_step", 50)]
)
def test_a_picture_shows_the_first_environment_as_it_is(kind: str, fps: int) -> None:
    environment = make(KINDS[kind])
    assert environment.metadata["render_fps"] == fps
    environment.reset()
    before = render(environment)
    assert (before.dtype, before.ndim, before.shape[2]) == (np.uint8, 3, 3)
    assert np.array_equal(before, render(environment))
    assert len(np.unique(before.reshape(-1, 3), axis=0)) > 3  # more than an empty background
    steps(environment, 5)
    assert not np.array_equal(before, render(environment))
    environment.close()


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_change_nothing(kind: str) -> None:
    shown, plain = make(KINDS[kind]), make(KINDS[kind])
    shown.reset(), plain.reset()
    for _ in range(20):
        render(shown)
        steps(shown, 1), steps(plain, 1)
    actions = np.zeros((2, *plain.action_spec.shape), plain.action_spec.dtype.as_numpy_dtype)
    first, second = shown.step(actions), plain.step(actions)
    for a, b in zip(first[:4], second[:4]):
        for key in a if isinstance(a, dict) else [...]:
            assert np.array_equal(a[key], b[key])
    shown.close(), plain.close()


@pytest.mark.parametrize("grey", [True, False])
def test_an_atari_game_is_shown_as_the_agent_sees_it(grey: bool) -> None:
    config = atari_shallow.get_config("smoke")
    config.env.grey = grey
    environment = make_environment(config, 2, seed=1)
    observation, _ = environment.reset()
    assert environment.metadata["render_fps"] == 15
    for _ in range(30):
        observation, *_ = environment.step(np.ones(2, np.int32))
    expected = observation[0, ..., -1:] if grey else observation[0, ..., -3:]
    assert np.array_equal(environment.render_first(), np.broadcast_to(expected, (84, 84, 3)))
    environment.close()


class Blank(Clock):
    metadata = {"render_modes": ["rgb_array"]}

    def render(self) -> Any:
        return None


class Broken(Blank):
    def render(self) -> Any:
        raise OSError("The lens\nis missing.")


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Clock(), "it has no render mode rgb_array"),
        (Blank(), r"its rgb_array is no uint8 array \[H, W, 3\]"),
        (Broken(), "The lens is missing"),
    ],
)
def test_why_there_is_no_picture_is_one_sentence(task: gymnasium.Env, message: str) -> None:
    task.reset()
    with pytest.raises(RenderError, match=f"^Mine cannot be shown: {message}\\.$"):
        rendering.render_task(task, "Mine")


@pytest.mark.parametrize(("gl", "message"), [("osmosis", "MUJOCO_GL=osmosis"), ("", "neither is installed")])
def test_without_a_graphics_library_the_reason_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, gl: str, message: str
) -> None:
    monkeypatch.setenv("MUJOCO_GL", gl)
    monkeypatch.setattr(rendering.ctypes.util, "find_library", lambda name: None)
    rendering.choose_gl.cache_clear()
    environment = make(KINDS["mujoco"])
    environment.reset()
    with pytest.raises(RenderError, match=message) as error:
        environment.render_first()
    assert "\n" not in str(error.value)
    rendering.choose_gl.cache_clear()


@pytest.mark.slow
def test_nothing_is_printed_and_no_display_is_needed() -> None:
    """In a process of its own, where no library is chosen yet."""
    code = f"""
from repro import cli
cli.quiet()
import ml_collections
from repro.environments.batched import RenderError
from repro.environments.make import make_environment
for kind in {[KINDS["acer_tasks"], KINDS["dm_control"], KINDS["mujoco"], KINDS["gymnasium"]]}:
    environment = make_environment(ml_collections.ConfigDict({{"env": kind, "agent": "any"}}), 1, 1)
    environment.reset()
    try:
        environment.render_first()
    except RenderError as error:
        assert "neither is installed" in str(error), error
    environment.close()
try:
    left_open = make_environment(ml_collections.ConfigDict({{"env": {PIXELS}, "agent": "any"}}), 1, 1)
    left_open.reset()
except RenderError as error:
    assert "neither is installed" in str(error), error
"""
    plain = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MUJOCO_GL")}
    done = subprocess.run([sys.executable, "-c", code], env=plain, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
