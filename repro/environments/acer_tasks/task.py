"""The common base of the six control tasks."""

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
"""Size of a picture in pixels."""

# These tasks read positions and velocities only, and computing sensors and energies takes time.
_NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
_NO_ENERGY = ~int(mujoco.mjtEnableBit.mjENBL_ENERGY)


def suite_file(name: str) -> str:
    """Returns the path of a model file of DeepMind's control suite, such as `cheetah.xml`, as installed."""
    return str(importlib.resources.files("dm_control") / "suite" / name)


class ControlTask(gymnasium.Env):
    """One simulation of one task, with actions in [-1, 1]^A and without a time limit.

    Observation, reward and termination are functions of the positions and velocities at the end of a step (and of its
    action), so that MuJoCo's state is the complete state. All instances of a task share one model and never write to
    it.

    Actions are clipped to [-1, 1], the actuators' range. `control_cost_of` selects the action that the control cost
    charges: `executed`, the clipped action, or `chosen`, the action before clipping, whose cost grows without bound
    although the movement stays the same.

    Args:
        control_cost_of: one of `CONTROL_COSTS`.

    Attributes:
        metadata: Gymnasium's metadata, with the number of control steps per second as `render_fps`.
        substeps: number of simulation steps per action.
        camera: the model's camera that takes pictures.
        model: MuJoCo's model.
        data: the state of this simulation.

    Raises:
        ValueError: `control_cost_of` has another value.
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
            action: the action that a control cost charges, float32 [A].
        """
        raise NotImplementedError

    def failed(self) -> bool:
        """Returns whether the current state ends the episode; most tasks end by their time limit only."""
        return False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode; a seed replaces the rng, and options are ignored."""
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
        # After mj_step, the bodies' positions are those at the beginning of the last simulation step.
        mujoco.mj_kinematics(self.model, self.data)
        charged = executed if self._charges_executed else action
        return self.observe(), self.reward(charged), self.failed(), False, {}

    def render(self) -> np.ndarray:
        """Returns an RGB picture of the current state, uint8 [HEIGHT, WIDTH, 3], without changing the state."""
        if self._renderer is None:
            from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer

            self._renderer = MujocoRenderer(
                self.model, self.data, width=WIDTH, height=HEIGHT, camera_name=self.camera, max_geom=10_000
            )
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)
        return self._renderer.render("rgb_array")

    def close(self) -> None:
        """Frees the renderer of pictures."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


def wrapped(angle: np.ndarray | float) -> Any:
    """Returns angles in radians wrapped to [-pi, pi)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi
