"""What ReF-ER's and PPO's training share: one environment, which the trainer steps itself."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
import tensorflow as tf

from repro.acting.rollout import Rollout, Transition
from repro.acting.supervision import EnvironmentFailedError
from repro.environments.batched import VectorEnvironment, one_line
from repro.replay.rng_state import pack_rng, unpack_rng
from repro.training.learner import NonFiniteLossError
from repro.training.trainer import EpisodeLog, RunSettings, Trainer


class ControlTrainer(Trainer):
    """Plays one environment. Subclasses choose the actions, in NumPy, and learn.

    Args:
        variables: everything TensorFlow that a checkpoint keeps.
        environment: one task; its first episode begins here.
        rng: samples actions, and what subclasses say.
        episodes: log of finished episodes, with the window that the evaluation is of.
        run, frames_per_update: as for `Trainer`.
    """

    def __init__(
        self,
        variables: tf.train.Checkpoint,
        environment: VectorEnvironment,
        rng: np.random.Generator,
        episodes: EpisodeLog,
        run: RunSettings,
        frames_per_update: int,
    ) -> None:
        super().__init__(variables, episodes, run, frames_per_update)
        self._environment = environment
        self._rng = rng
        self._rollout = Rollout(environment, self._act)
        self._rollout.reset()

    @abc.abstractmethod
    def _act(self, observation: np.ndarray, step_type: np.ndarray) -> tuple[np.ndarray, Any]:
        """The rollout's `Act`, of one environment; samples nothing where the step type is LAST."""

    def close(self) -> None:
        self._environment.close()

    def _step(self) -> Transition:
        """One environment step; an episode that it ends is logged, and the next begins with `_begin_episode`."""
        transition = self._roll()
        for _, episode in transition.episodes:
            self._episodes.append(episode)
        return transition

    def _begin_episode(self) -> Any:
        """Begins the next episode, in a step that does not count; returns `_act`'s info on the last state."""
        return self._roll().info

    def _roll(self) -> Transition:
        """Steps the rollout.

        Raises:
            EnvironmentFailedError: that raised an error; the update under way is lost.
            NonFiniteLossError: the network that acts gives NaN.
        """
        try:
            return self._rollout.step()
        except NonFiniteLossError:
            raise
        except Exception as error:  # an environment may raise anything
            raise EnvironmentFailedError(
                f"The environment failed with {type(error).__name__}: {one_line(error)}"
            ) from error

    def _get_state(self) -> dict[str, Any]:
        return {"environment": self._environment.get_state(), "rng": pack_rng(self._rng)}

    def _set_state(self, state: dict[str, Any]) -> None:
        # Never saved between the end of an episode and `_begin_episode`, so the step type is not LAST.
        self._rollout.set_state({"environment": state["environment"], "step_type": self._rollout.step_type})
        unpack_rng(self._rng, state["rng"])
