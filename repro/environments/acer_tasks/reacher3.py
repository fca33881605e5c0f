"""A planar arm of three links that has to reach a target, with a sparse reward."""

from __future__ import annotations

import importlib.resources

import mujoco
import numpy as np

from repro.environments.acer_tasks.task import ControlTask, wrapped

NEAR_TARGET = 0.05
"""Largest distance between the arm's tip and the target with a reward, in metres."""

TARGET_RADIUS = 0.25
"""Largest distance of a target from the shoulder in metres; the arm reaches 0.3 m."""


class Reacher3(ControlTask):
    """Reaching a target; the action is three torques, and the reward is sparse (Appendix E.1).

        r = 1 if |target - tip| <= 0.05, else 0
        observation [8] = three joint angles (the shoulder's in [-pi, pi)), their velocities, target - tip in the plane

    The target is a `mocap` body, which no force moves, so that its position is part of MuJoCo's state.
    """

    substeps = 2
    camera = "above"

    @classmethod
    def build(cls) -> mujoco.MjModel:
        """Returns this suite's model, which has the proportions of the control suite's arm of two links."""
        folder = importlib.resources.files("repro.environments.acer_tasks")
        return mujoco.MjModel.from_xml_string((folder / "reacher3.xml").read_text())

    def begin(self, rng: np.random.Generator) -> None:
        """Samples the arm's joint angles, at rest, and a target that is uniform over the disc."""
        limits = self.model.jnt_range.copy()
        limits[0] = (-np.pi, np.pi)
        self.data.qpos[:] = rng.uniform(limits[:, 0], limits[:, 1])
        radius, direction = TARGET_RADIUS * np.sqrt(rng.uniform()), rng.uniform(-np.pi, np.pi)
        self.data.mocap_pos[0, :2] = radius * np.cos(direction), radius * np.sin(direction)

    def observe(self) -> np.ndarray:
        """Returns the eight entries in the order above."""
        angles = self.data.qpos.copy()
        angles[0] = wrapped(angles[0])
        return np.concatenate((angles, self.data.qvel, self._displacement()))

    def reward(self, action: np.ndarray) -> float:
        """Returns 1 if the tip is near the target, else 0."""
        del action
        return float(np.linalg.norm(self._displacement()) <= NEAR_TARGET)

    def _displacement(self) -> np.ndarray:
        return self.data.mocap_pos[0, :2] - self.data.site_xpos[0, :2]
