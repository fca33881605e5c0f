"""One simulation of a task of DeepMind's control suite, with exact save and restore."""

from __future__ import annotations

import functools
import importlib
import math
import os
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np

_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)

_MODEL_FIELDS = (
    "body_pos",
    "body_quat",
    "dof_damping",
    "geom_pos",
    "geom_rgba",
    "geom_size",
    "light_pos",
    "site_pos",
    "site_rgba",
    "site_size",
)
"""Fields of the model that tasks change when an episode begins, mainly positions and sizes of targets."""


@functools.cache
def import_suite() -> Any:
    """Returns the module `dm_control.suite`.

    It is imported without a renderer, because `OffscreenRenderer` does not use it. Loading one takes as long as
    everything else, prints warnings where there is no display, and fails where the library that MUJOCO_GL names is
    missing.
    """
    before = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = "disable"
    try:
        suite = importlib.import_module("dm_control.suite")
    finally:
        del os.environ["MUJOCO_GL"]
        if before is not None:
            os.environ["MUJOCO_GL"] = before
    mujoco.set_mju_user_warning(lambda message: None)  # the suite would log them, although it also raises an error
    return suite


class SuiteTask:
    """One simulation of one task, without a time limit.

    With seed s, its episodes are those of `suite.load(domain, task, {"random": s})`.

    Args:
        domain, task: names in the suite, such as `cartpole` and `swingup`.

    Attributes:
        metadata: Gymnasium's metadata, with the number of control steps per second as `render_fps`.
        low, high: bounds of the actuators, float64 [A].
        num_features: S, the number of features of an observation.
    """

    def __init__(self, domain: str, task: str) -> None:
        environment = import_suite().load(domain, task, {"random": 0, "time_limit": math.inf})
        self._task, self._physics = environment.task, environment.physics
        self._substeps = round(environment.control_timestep() / self._physics.timestep())
        self.metadata = {"render_fps": round(1 / environment.control_timestep())}
        actions = environment.action_spec()
        self.low, self.high = np.array(actions.minimum), np.array(actions.maximum)
        self._features = self._observe()
        self.num_features = self._features.size
        self._broken: type[Exception] = importlib.import_module("dm_control.rl.control").PhysicsError

    @property
    def model(self) -> mujoco.MjModel:
        """MuJoCo's model, which other simulations do not share."""
        return self._physics.model.ptr

    @property
    def data(self) -> mujoco.MjData:
        """MuJoCo's state."""
        return self._physics.data.ptr

    def begin(self, seed: int | None) -> np.ndarray:
        """Begins an episode.

        Args:
            seed: new seed of the task's rng; None continues with the current rng.

        Returns:
            The first observation, float64 [S]: the suite's arrays in the suite's order, flattened.
        """
        if seed is not None:
            self._task.random.seed(seed)
        with self._physics.reset_context():
            self._initialize()
        self._features = self._observe()
        return self._features

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        """Holds an action for one control step.

        Args:
            action: float64 [A], within `low` and `high`.

        Returns:
            observation: float64 [S].
            reward: reward in [0, 1].
            terminated: whether the task ended.
            truncated: whether the simulation became unstable; the observation is then the previous one, and the reward
                is 0.
        """
        try:
            self._task.before_step(action, self._physics)
            self._physics.step(self._substeps)
            self._task.after_step(self._physics)
        except self._broken:
            return self._features, 0.0, False, True
        reward = float(self._task.get_reward(self._physics))
        self._features = self._observe()
        return self._features, reward, self._task.get_termination(self._physics) == 0, False

    def get_state(self) -> dict[str, Any]:
        """Returns what `set_state` needs to continue exactly from here: arrays and numbers."""
        rng = self._task.random.get_state(legacy=False)
        return {
            "simulation": self._physics.get_state(_STATE),
            "model": np.concatenate([np.ravel(getattr(self.model, name)) for name in _MODEL_FIELDS]),
            "features": self._features.copy(),
            "rng": {**rng["state"], "has_gauss": rng["has_gauss"], "gauss": rng["gauss"]},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `get_state` of a simulation of the same task."""
        sizes = [getattr(self.model, name).size for name in _MODEL_FIELDS]
        for name, values in zip(_MODEL_FIELDS, np.split(state["model"], np.cumsum(sizes)[:-1])):
            field = getattr(self.model, name)
            field[:] = values.reshape(field.shape)
        mujoco.mj_resetData(self.model, self.data)
        mujoco.mj_setState(self.model, self.data, state["simulation"], _STATE)
        mujoco.mj_step1(self.model, self.data)  # the suite's steps begin after this first half of MuJoCo's
        self._features = np.array(state["features"], np.float64)
        rng = state["rng"]
        self._task.random.set_state(
            {
                "bit_generator": "MT19937",
                "state": {"key": rng["key"], "pos": rng["pos"]},
                "has_gauss": rng["has_gauss"],
                "gauss": rng["gauss"],
            }
        )

    def close(self) -> None:
        """Frees the simulation."""
        self._physics.free()

    def _initialize(self) -> None:
        """Samples the first state of an episode."""
        self._task.initialize_episode(self._physics)

    def _observe(self) -> np.ndarray:
        arrays = self._task.get_observation(self._physics).values()
        return np.concatenate([np.ravel(array) for array in arrays]).astype(np.float64)
