"""Base class of ReF-ER's and PPO's trainers, which step one environment themselves."""

from __future__ import annotations

import abc
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from repro.acting.rollout import Rollout, Transition
from repro.acting.supervision import MAX_FAILURES, EnvironmentFailedError, Interrupted, Supervision, log_traceback
from repro.environments.batched import VectorEnvironment, one_line
from repro.rng import pack_rng, unpack_rng
from repro.training.learner import NonFiniteLossError
from repro.training.step_watch import StepWatch
from repro.training.trailing_returns import BEFORE_LEARNING
from repro.training.trainer import EpisodeLog, RunSettings, Trainer, Update


class EnvironmentReplacedError(Exception):
    """The environment failed and was replaced by another one, which is at the first step of an episode."""


class ControlTrainer(Trainer):
    """Plays one environment. Subclasses choose the actions, in NumPy, and learn.

    An environment that raises an error is replaced, and so is one that hangs if the main thread steps it. Its open
    episode is lost.

    Args:
        variables: all TensorFlow state that a checkpoint saves.
        environment: environment to play; its first episode begins here.
        remake: function that returns another environment, given the number of environments before it in the run; may
            raise any error.
        supervision: settings by which the environment is watched, and where replacements are reported.
        rng: source of sampled actions, and of what subclasses sample.
        episodes: log of finished episodes, with the window on which the evaluation is based.
        run, frames_per_update: as for `Trainer`.
    """

    def __init__(
        self,
        variables: tf.train.Checkpoint,
        environment: VectorEnvironment,
        remake: Callable[[int], VectorEnvironment],
        supervision: Supervision,
        rng: np.random.Generator,
        episodes: EpisodeLog,
        run: RunSettings,
        frames_per_update: int,
    ) -> None:
        super().__init__(variables, episodes, run, frames_per_update)
        self._remake = remake
        self._supervision = supervision
        self._rng = rng
        self._replaced = 0  # environments replaced in this process
        self._failures = 0  # failures since an episode last ended and was followed by another
        self._watch = StepWatch(supervision.silent_seconds)
        self._interrupted = threading.Event()
        self._begin_with(environment)

    @abc.abstractmethod
    def _act(self, observation: np.ndarray, step_type: np.ndarray) -> tuple[np.ndarray, Any]:
        """The rollout's `Act`, for one environment; does not sample where the step type is LAST."""

    def __iter__(self) -> Iterator[Update]:
        if not self._steps_aside:
            self._watch.start()
        if not self.updates:
            self._episodes.frames = BEFORE_LEARNING
        return super().__iter__()

    def interrupt(self) -> None:
        self._interrupted.set()

    def close(self) -> None:
        self._watch.stop()
        self._environment.close()

    @property
    def _steps_aside(self) -> bool:
        """Whether the environment is stepped in a separate thread, in which it cannot be watched."""
        return False

    @property
    def _restarts(self) -> int:
        return self._replaced

    def _check_interrupted(self) -> None:
        """Raises Interrupted if the run is to end; for steps before the first update, which are not saved."""
        if self._interrupted.is_set():
            raise Interrupted

    def _begin_with(self, environment: VectorEnvironment) -> None:
        self._environment = environment
        self._rollout = Rollout(environment, self._act)
        self._rollout.reset()

    def _step(self) -> Transition:
        """Makes one environment step, and logs the episode if the step ends one that counts.

        The rollout's step type is then LAST, and `_begin_episode` begins the next episode.

        Raises:
            EnvironmentReplacedError, EnvironmentFailedError, NonFiniteLossError: as for `_roll`.
        """
        transition = self._roll()
        for _, episode in transition.episodes:
            self._episodes.append(episode)
        return transition

    def _begin_episode(self) -> Any:
        """Begins the next episode, in a step that does not count; returns the `info` of `_act` at the last state.

        Raises:
            EnvironmentReplacedError, EnvironmentFailedError, NonFiniteLossError: as for `_roll`.
        """
        info = self._roll().info
        self._failures = 0
        return info

    def _roll(self) -> Transition:
        """Steps the rollout.

        Raises:
            EnvironmentReplacedError: the environment raised an error or hung, and was replaced; the step is lost.
            EnvironmentFailedError: the environment failed `MAX_FAILURES` times, without an episode in between that
                ended and was followed by another. The state saved then contains no environment.
            NonFiniteLossError: the output of the acting network is NaN.
        """
        self._watch.changes += 1
        try:
            return self._rollout.step()
        except NonFiniteLossError:
            raise
        except Exception as error:  # an environment may raise anything, and the watch raises if it hangs
            fault = self._replace_environment(error)
        finally:
            self._watch.changes += 1
        # After the watched step, as printing may block on a paused terminal.
        self._supervision.warn(f"The environment was restarted (restart {self._replaced} by this process): {fault}.")
        raise EnvironmentReplacedError

    def _replace_environment(self, error: Exception) -> str:
        """Replaces an environment that failed with an error; returns a description of the last failure.

        Raises:
            EnvironmentFailedError: as for `_roll`.
        """
        log = log_traceback(self._supervision.logs / "actor_0.txt")
        fault = f"{type(error).__name__}: {one_line(error)}{log}"
        self._failures += 1
        if self._failures >= MAX_FAILURES:
            raise EnvironmentFailedError(
                f"The environment failed {self._failures} times in a row, the last time with {fault}"
            ) from error
        with contextlib.suppress(Exception):  # it may be broken
            self._environment.close()
        try:
            self._begin_with(self._remake(self.actor_restarts + 1))
        except Exception as again:  # noqa: BLE001 - whatever an environment may raise, it has failed again
            return self._replace_environment(again)
        self._replaced += 1
        return fault

    def _get_state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"rng": pack_rng(self._rng)}
        if self._failures < MAX_FAILURES:  # otherwise it is broken, and its open episode is lost
            state["environment"] = self._environment.get_state()
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        if "environment" in state:
            # Never saved between the end of an episode and `_begin_episode`, so the step type is not LAST.
            self._rollout.set_state({"environment": state["environment"], "step_type": self._rollout.step_type})
        else:
            self._environment.close()
            self._begin_with(self._remake(self.actor_restarts + 1))
            self._replaced += 1
        unpack_rng(self._rng, state["rng"])
