"""Running with a planar cheetah."""

from __future__ import annotations

import mujoco
import numpy as np

from repro.environments.acer_tasks.task import ControlTask, suite_file

CONTROL_COST = 0.1


class Cheetah(ControlTask):
    """Running forwards; the action is six torques (Appendix E.1).

        r = v_x - 0.1 |a|^2
        observation [17] = height of the torso relative to 0.7 m, angle of the torso, six joint angles,
                           velocities of all nine degrees of freedom (x, z, the seven angles)

    The paper prints `v_x + 0.1 |a|^2` and calls the second term a control cost, so its sign is a misprint. `v_x` is
    the torso's velocity at the end of the step.
    """

    substeps = 2
    camera = "side"

    @classmethod
    def build(cls) -> mujoco.MjModel:
        """Returns the control suite's model, unchanged."""
        return mujoco.MjModel.from_xml_path(suite_file("cheetah.xml"))

    def begin(self, rng: np.random.Generator) -> None:
        """Samples every angle within 0.1 rad of its default, at standing height and at rest."""
        self.data.qpos[2:] = rng.uniform(-0.1, 0.1, 7)

    def observe(self) -> np.ndarray:
        """Returns the seventeen entries in the order above."""
        return np.concatenate((self.data.qpos[1:], self.data.qvel))

    def reward(self, action: np.ndarray) -> float:
        """Returns the velocity minus the control cost."""
        return float(self.data.qvel[0] - CONTROL_COST * action.dot(action))
