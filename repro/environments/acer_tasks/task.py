"""What the six control tasks have in common."""

from __future__ import annotations

import functools
import importlib.resources
from typing import Any, ClassVar

import gymnasium
import mujoco
import numpy as np

CONTROL_COSTS = ("executed", "chosen")
"""Actions whose control cost a task may charge."""

WIDTH, HEIGHT = 480, 360
"""Pixels of a picture."""

# These tasks read positions and velocities alone, and computing sensors and energies costs time.
_NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
_NO_ENERGY = ~int(mujoco.mjtEnableBit.mjENBL_ENERGY)


def suite_file(name: str) -> str:
    """The path of a model of DeepMind's control suite, as installed: `cheetah.xml`."""
    return str(importlib.resources.files("dm_control") / "suite" / name)


class ControlTask(gymnasium.Env):
    """One simulation of one task, with actions in [-1, 1]^A and without a time limit.

    Observation, reward and end are functions of the positions and velocities at the end of a step (and of its
    action), so that MuJoCo's own state is the whole state. The model is shared by all instances of a task, which
    never write to it.

    An action beyond [-1, 1] is clipped to it, as the actuators' range demands. `control_cost_of` says which of the
    two the control cost charges: `executed`, the action after the clip, so that a step costs what it did, or
    `chosen`, the action before it, whose cost grows without bound though the movement stays the same.

    Args:
        control_cost_of: one of `CONTROL_COSTS`.

    Attributes:
        metadata: Gymnasium's, with the control steps in a second.
        substeps: simulation steps per action.
        camera: the model's camera that pictures are taken with.
        model: MuJoCo's model.
        data: this simulation's own state.
    """

    substeps: ClassVar[int]
    camera: ClassVar[str]

    def __init__(self, control_cost_of: str) -> None:
        if control_cost_of not in CONTROL_COSTS:
            raise ValueError(f"control_cost_of must be one of {', '.join(CONTROL_COSTS)}, got {control_cost_of!r}.")
        self._charges_executed = control_cost_of == "executed"
        self.model = self._shared_model()
        fps = round(1 / (self.model.opt.timestep * self.substeps))
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": fps}
        self._renderer: Any = None
        self.data = mujoco.MjData(self.model)
        mujoco.mj_kinematics(self.model, self.data)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, self.observe().shape, np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.model.nu,), np.float32)

    @classmethod
    def build(cls) -> mujoco.MjModel:
        """Returns the task's model."""
        raise NotImplementedError

    @classmethod
    @functools.cache
    def _shared_model(cls) -> mujoco.MjModel:
        model = cls.build()
        model.opt.disableflags |= _NO_SENSORS
        model.opt.enableflags &= _NO_ENERGY
        return model

    def begin(self, rng: np.random.Generator) -> None:
        """Samples the first state of an episode into `data`, which holds the model's default state at rest."""
        raise NotImplementedError

    def observe(self) -> np.ndarray:
        """Returns the observation of the current state, float64 in new memory."""
        raise NotImplementedError

    def reward(self, action: np.ndarray) -> float:
        """Returns the reward of a step that ended in the current state.

        Args:
            action: float32 [A], which a control cost charges.
        """
        raise NotImplementedError

    def failed(self) -> bool:
        """Whether the current state ends the episode. Most tasks have only their time limit."""
        return False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode; a seed makes a new rng. Options are not read."""
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.begin(self.np_random)
        mujoco.mj_kinematics(self.model, self.data)
        return self.observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Holds the action, float32 [A], for `substeps` simulation steps; `truncated` is always False."""
        executed = np.clip(action, -1.0, 1.0)
        self.data.ctrl[:] = executed
        mujoco.mj_step(self.model, self.data, self.substeps)
        # MuJoCo leaves the bodies' places of the last simulation step's beginning.
        mujoco.mj_kinematics(self.model, self.data)
        charged = executed if self._charges_executed else action
        return self.observe(), self.reward(charged), self.failed(), False, {}

    def render(self) -> np.ndarray:
        """Returns a picture of the current state, uint8 [HEIGHT, WIDTH, 3], red first, which leaves that as it is."""
        if self._renderer is None:
            from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer

            self._renderer = MujocoRenderer(
                self.model, self.data, width=WIDTH, height=HEIGHT, camera_name=self.camera, max_geom=10_000
            )
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)
        return self._renderer.render("rgb_array")

    def close(self) -> None:
        """Frees what pictures were rendered with."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


def wrapped(angle: np.ndarray | float) -> Any:
    """Angles in radians brought to [-pi, pi)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi
