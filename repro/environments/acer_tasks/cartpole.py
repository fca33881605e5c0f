"""Sparse swing-up of a pole on a cart."""

from __future__ import annotations

import math

import mujoco
import numpy as np

from repro.environments.acer_tasks.task import ControlTask, suite_file, wrapped

HALF_TRACK = 1.2
"""Half the length of the track in metres."""

POLE_LENGTH = 1.0
"""Length of the pole in metres."""

MAX_FORCE = 20.0
"""Force of an action of 1 in newtons."""

SIMULATION_STEP = 0.025
"""Length of a simulation step in seconds."""

NEAR_CENTRE = 0.05
"""Largest distance of the cart from the middle of the track with a reward, in metres."""

NEAR_UPRIGHT = math.radians(5)
"""Largest angle of the pole from upright with a reward, in radians."""


class Cartpole(ControlTask):
    """Swing-up of a pole; the action is the force on the cart, and the reward is sparse (Appendix E.1).

    With x the cart's position and theta the pole's angle from upright:
        r = 1 if |theta| <= 5 degrees and |x| <= 0.05, else 0
        observation [10] = x, x', theta in [-pi, pi), theta', sin theta, cos theta, position (x, z) of the pole's tip
                           relative to the middle of the track, its velocity (x, z)
    """

    substeps = 2
    camera = "fixed"

    @classmethod
    def build(cls) -> mujoco.MjModel:
        """Returns the control suite's model with a track of 2.4 m instead of 3.6 m, twice its force and longer steps.

        With control steps of 0.05 s and 20 N, the paper's exploration finds the reward: zero-mean Gaussian actions with
        a std of 0.3 lift the pole from any start in most episodes, whereas they hardly ever do with 10 N and 0.02 s.
        """
        model = mujoco.MjModel.from_xml_path(suite_file("cartpole.xml"))
        model.opt.timestep = SIMULATION_STEP
        model.actuator("slide").gear[0] = MAX_FORCE
        model.joint("slider").range = (-HALF_TRACK, HALF_TRACK)
        for rail in ("rail1", "rail2"):
            model.geom(rail).size[1] = HALF_TRACK
        return model

    def begin(self, rng: np.random.Generator) -> None:
        """Places the cart in the middle and the pole at a uniformly sampled angle, both at rest."""
        self.data.qpos[1] = rng.uniform(-math.pi, math.pi)

    def observe(self) -> np.ndarray:
        """Returns the ten entries in the order above."""
        (x, angle), (speed, turning) = self.data.qpos.tolist(), self.data.qvel.tolist()
        sine, cosine = math.sin(angle), math.cos(angle)
        tip = (x + POLE_LENGTH * sine, POLE_LENGTH * cosine)
        tip_velocity = (speed + POLE_LENGTH * cosine * turning, -POLE_LENGTH * sine * turning)
        return np.array((x, speed, wrapped(angle), turning, sine, cosine, *tip, *tip_velocity))

    def reward(self, action: np.ndarray) -> float:
        """Returns 1 if the pole is near upright and the cart near the middle, else 0."""
        del action
        x, angle = self.data.qpos.tolist()
        return float(abs(wrapped(angle)) <= NEAR_UPRIGHT and abs(x) <= NEAR_CENTRE)
