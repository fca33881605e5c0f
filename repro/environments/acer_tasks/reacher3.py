"""A planar arm of three links that must find a target; the reward is sparse."""

from __future__ import annotations

import importlib.resources

import mujoco
import numpy as np

from repro.environments.acer_tasks.task import ControlTask, wrapped

NEAR_TARGET = 0.05
"""Metres."""

TARGET_RADIUS = 0.25
"""Targets lie at most this far from the shoulder; the arm reaches 0.3 m."""


class Reacher3(ControlTask):
    """Three torques are the action; the reward is sparse (Appendix E.1).

        r = 1 if |target - tip| <= 0.05, else 0
        observation [8] = three joint angles (the shoulder's in [-pi, pi)), their velocities, target - tip in the plane

    The target is a body that no force moves (`mocap`), so that its place is part of MuJoCo's state.
    """

    substeps = 2
    camera = "above"

    @classmethod
    def build(cls) -> mujoco.MjModel:
        """Our own model, in the proportions of the control suite's arm of two links."""
        folder = importlib.resources.files("repro.environments.acer_tasks")
        return mujoco.MjModel.from_xml_string((folder / "reacher3.xml").read_text())

    def begin(self, rng: np.random.Generator) -> None:
        """The arm in any position, at rest; the target uniform over the disc."""
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
        """1 near the target, else 0."""
        del action
        return float(np.linalg.norm(self._displacement()) <= NEAR_TARGET)

    def _displacement(self) -> np.ndarray:
        return self.data.mocap_pos[0, :2] - self.data.site_xpos[0, :2]
