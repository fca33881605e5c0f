"""Swimming to a target."""

from __future__ import annotations

import mujoco
import numpy as np

from repro.environments.acer_tasks.task import ControlTask, suite_file

UPRIGHT_WEIGHT = 0.05
CONTROL_COST = 0.01


class Fish(ControlTask):
    """Swimming to a target; the action is the target positions of tail and fins (Appendix E.1).

    With d the vector from the mouth to the target and u the cosine between the torso's z-axis and the world's:
        r = -|d| - 0.05 (1 - u) - 0.01 |a|^2
        observation [24] = d in the torso's frame, seven joint angles, their velocities, u, velocity and angular
                           velocity of the torso in its own frame

    The target is a `mocap` body, which no force moves, so that its position is part of MuJoCo's state.
    """

    substeps = 10
    camera = "tracking_top"

    @classmethod
    def build(cls) -> mujoco.MjModel:
        """Returns the control suite's model with the target, there a part of the world, as a separate body."""
        spec = mujoco.MjSpec.from_file(suite_file("fish.xml"))
        target = spec.geom("target")
        size, material = target.size.copy(), target.material
        spec.delete(target)
        body = spec.worldbody.add_body(name="target", mocap=True)
        body.add_geom(name="target", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=size, material=material)
        return spec.compile()

    def begin(self, rng: np.random.Generator) -> None:
        """Samples any orientation, joints within 0.2 rad of straight, and a target as in the control suite's `swim`.

        The fish starts at rest.
        """
        orientation = rng.normal(size=4)
        self.data.qpos[3:7] = orientation / np.linalg.norm(orientation)
        self.data.qpos[7:] = rng.uniform(-0.2, 0.2, 7)
        self.data.mocap_pos[0] = rng.uniform((-0.4, -0.4, 0.1), (0.4, 0.4, 0.3))

    def observe(self) -> np.ndarray:
        """Returns the twenty-four entries in the order above."""
        velocity, frame = self.data.qvel, self._frame()
        # A free joint's velocity is in the world's frame, its angular velocity in the body's.
        return np.concatenate(
            (
                self._to_target() @ frame,
                self.data.qpos[7:],
                velocity[6:],
                frame[2, 2:],
                velocity[:3] @ frame,
                velocity[3:6],
            )
        )

    def reward(self, action: np.ndarray) -> float:
        """Returns the negative sum of the distance, the weighted tilt and the control cost."""
        distance, tilt = np.linalg.norm(self._to_target()), 1 - self._frame()[2, 2]
        return float(-distance - UPRIGHT_WEIGHT * tilt - CONTROL_COST * action.dot(action))

    def _to_target(self) -> np.ndarray:
        return self.data.mocap_pos[0] - self.data.geom("mouth").xpos

    def _frame(self) -> np.ndarray:
        """Returns the torso's axes as columns [3, 3]; `vector @ frame` is a world vector in the torso's frame."""
        return self.data.body("torso").xmat.reshape(3, 3)
