"""Standing up from the ground."""

from __future__ import annotations

import math

import mujoco
import numpy as np

from repro.environments.acer_tasks.task import ControlTask, suite_file

STANDING_HEAD_HEIGHT = 1.475
"""Height of the head in metres with straight legs and the feet on the ground."""

UPRIGHT_WEIGHT = 0.25
"""Weight of the torso's tilt and of the pelvis's tilt."""

CONTROL_COST = 0.01

SETTLING_STEPS = 200
"""Number of simulation steps without control before an episode, one second."""


class Humanoid(ControlTask):
    """Standing up; the action is twenty-one torques (Appendix E.1).

    With h the head's height and u the cosine between a body's z-axis and the world's:
        r = -(h - 1.475)^2 - 0.25 (1 - u_torso) - 0.25 (1 - u_pelvis) - 0.01 |a|^2
        observation [94] = 21 joint angles, h, positions of 14 bodies relative to the torso in its frame [14 * 3],
                           the world's z-axis in that frame [3], velocity and angular velocity of the torso in that
                           frame [6], 21 joint velocities

    The 14 bodies are all except the torso and the head, which is fixed to the torso.
    """

    substeps = 5
    camera = "side"

    @classmethod
    def build(cls) -> mujoco.MjModel:
        """Returns the control suite's model, unchanged."""
        return mujoco.MjModel.from_xml_path(suite_file("humanoid.xml"))

    def begin(self, rng: np.random.Generator) -> None:
        """Lays the body down on any side, with any heading and joints within half their limits, and lets it settle."""
        data, model = self.data, self.model
        low, high = model.jnt_range[1:].T
        data.qpos[7:] = rng.uniform(low, high) / 2
        heading, side = rng.uniform(-math.pi, math.pi, 2)
        data.qpos[3:7] = _lying(heading, side)
        mujoco.mj_kinematics(model, data)
        data.qpos[2] -= _lowest_point(model, data)
        mujoco.mj_step(model, data, SETTLING_STEPS)
        data.qvel[:] = 0

    def observe(self) -> np.ndarray:
        """Returns the ninety-four entries in the order above."""
        data = self.data
        torso, velocity = data.body("torso"), data.qvel
        frame = torso.xmat.reshape(3, 3)
        # The model's bodies are the world, the torso, the head and then the 14 others.
        limbs = (data.xpos[3:] - torso.xpos) @ frame
        # A free joint's velocity is in the world's frame, its angular velocity in the body's.
        return np.concatenate(
            (data.qpos[7:], data.body("head").xpos[2:], limbs.ravel(), frame[2], velocity[:3] @ frame, velocity[3:])
        )

    def reward(self, action: np.ndarray) -> float:
        """Returns minus the squared error of the head's height, the weighted tilts and the control cost."""
        body = self.data.body
        low = (body("head").xpos[2] - STANDING_HEAD_HEIGHT) ** 2
        tilt = 2 - body("torso").xmat[8] - body("pelvis").xmat[8]
        return float(-low - UPRIGHT_WEIGHT * tilt - CONTROL_COST * action.dot(action))


def _lying(heading: float, side: float) -> np.ndarray:
    """Returns the quaternion that turns by `side` about the body's axis, lays that axis down and turns by `heading`."""
    half_sum, half_difference = (heading + side) / 2, (heading - side) / 2
    parts = (math.cos(half_sum), -math.sin(half_difference), math.cos(half_difference), math.sin(half_sum))
    return math.sqrt(0.5) * np.array(parts)


def _lowest_point(model: mujoco.MjModel, data: mujoco.MjData) -> float:
    """Returns the height of the body's lowest point; its geoms are spheres and capsules, and the floor is geom 0."""
    half_length = np.where(model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE, model.geom_size[:, 1], 0.0)
    lowest = data.geom_xpos[:, 2] - model.geom_size[:, 0] - half_length * np.abs(data.geom_xmat[:, 8])
    return float(lowest[1:].min())
