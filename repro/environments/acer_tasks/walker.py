"""Walking in the plane without falling."""

from __future__ import annotations

import mujoco
import numpy as np

from repro.environments.acer_tasks.task import ControlTask, suite_file

PREFERRED_HEIGHT = 1.25
HEIGHT_WEIGHT = 5.0
PITCH_WEIGHT = 1.0
CONTROL_COST = 0.01

HEIGHTS = (0.8, 2.0)
"""Smallest and largest height of the torso in metres; an episode ends outside this range."""

MAX_PITCH = 1.0
"""Largest pitch of the torso forwards or backwards in radians; an episode ends beyond it."""

FALL_REWARD = -10.0

_DEFAULT_HEIGHT = 1.3


class Walker(ControlTask):
    """Walking forwards; the action is six torques (Appendix E.1).

    With h the torso's height and p its pitch:
        r = v_x - 5 (h - 1.25)^2 - p^2 - 0.01 |a|^2, or -10 with the episode's end
            when h is outside [0.8, 2.0] or |p| > 1
        observation [24] = h, velocities of all nine degrees of freedom (z, x, pitch, six joints), cosine and sine
                           of the pitch of each of the seven bodies
    """

    substeps = 10
    camera = "side"

    @classmethod
    def build(cls) -> mujoco.MjModel:
        """Returns the control suite's model, unchanged."""
        return mujoco.MjModel.from_xml_path(suite_file("walker.xml"))

    def begin(self, rng: np.random.Generator) -> None:
        """Samples pitch and joint angles within 0.05 rad of standing straight, at rest."""
        self.data.qpos[2:] = rng.uniform(-0.05, 0.05, 7)

    def observe(self) -> np.ndarray:
        """Returns the twenty-four entries in the order above."""
        # Rows of rotations about the y-axis begin with the cosine and end with the sine.
        pitches = self.data.xmat[1:, (0, 2)]
        return np.concatenate(((self._height(),), self.data.qvel, pitches.ravel()))

    def reward(self, action: np.ndarray) -> float:
        """Returns the velocity minus the costs of height, pitch and control, or `FALL_REWARD` after a fall."""
        if self.failed():
            return FALL_REWARD
        height, pitch = self._height() - PREFERRED_HEIGHT, self.data.qpos[2]
        costs = HEIGHT_WEIGHT * height**2 + PITCH_WEIGHT * pitch**2 + CONTROL_COST * action.dot(action)
        return float(self.data.qvel[1] - costs)

    def failed(self) -> bool:
        """Returns whether the torso's height or pitch is outside its limits."""
        low, high = HEIGHTS
        return not (low <= self._height() <= high and abs(self.data.qpos[2]) <= MAX_PITCH)

    def _height(self) -> float:
        return _DEFAULT_HEIGHT + self.data.qpos[0]
