"""PPO's training: a rollout with fixed weights, several passes over it in minibatches, in turn (Appendix A)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from repro.acting.rollout import LAST
from repro.acting.supervision import Supervision
from repro.distributions import gaussian
from repro.environments.batched import VectorEnvironment
from repro.papers.refer.control_trainer import ControlTrainer, EnvironmentReplacedError
from repro.papers.refer.ppo import Ppo, RolloutBatch
from repro.papers.refer.refer_rules import annealed_learning_rate
from repro.training.learner import NonFiniteLossError
from repro.training.trainer import EpisodeLog, RunSettings


class PpoTrainerSettings(NamedTuple):
    """Fields of a configuration that the loop reads.

    steps: T, environment steps of a rollout, a multiple of `batch_size`.
    epochs: passes over a rollout.
    batch_size: B, steps of a minibatch.
    start_steps: N_start, steps played before the first rollout, of whose states the statistics are taken.
    policy_learning_rate, value_learning_rate: of the first rollout.
    annealing: A of both learning rates (Eq. 13).
    """

    steps: int
    epochs: int
    batch_size: int
    start_steps: int
    policy_learning_rate: float
    value_learning_rate: float
    annealing: float


class PpoTrainer(ControlTrainer):
    """An update is one rollout and the passes over it.

    Args:
        agent: acts and learns.
        environment: one task.
        remake, supervision: as for `ControlTrainer`.
        settings: see `PpoTrainerSettings`.
        rng: samples actions and minibatches.
        episodes: log of finished episodes, with the window that the evaluation is of.
        run: its budget are the steps that are learned from; those before the first rollout come on top.

    Raises:
        ValueError: the steps of a rollout are not whole minibatches.
    """

    progress_scalars = ("kl", "clipped", "std")

    def __init__(
        self,
        agent: Ppo,
        environment: VectorEnvironment,
        remake: Callable[[int], VectorEnvironment],
        supervision: Supervision,
        settings: PpoTrainerSettings,
        rng: np.random.Generator,
        episodes: EpisodeLog,
        run: RunSettings,
    ) -> None:
        if settings.steps % settings.batch_size:
            raise ValueError(f"ppo.steps={settings.steps} is no multiple of ppo.batch_size={settings.batch_size}.")
        super().__init__(agent.checkpoint(), environment, remake, supervision, rng, episodes, run, settings.steps)
        self._agent = agent
        self._settings = settings
        self._noise = np.zeros(environment.num_actions, np.float32)  # of the next action
        self._restore()

    @property
    def gradient_steps(self) -> int:
        """One for each minibatch."""
        return self.frames * self._settings.epochs // self._settings.batch_size

    def _begin(self) -> None:
        """Before the first rollout: N_start steps, by whose states all later ones are standardised (Appendix B)."""
        if self.updates:
            return
        states = self._play(self._settings.start_steps, self._check_interrupted).state
        self._agent.set_state_statistics(states.mean(axis=0, dtype=np.float64), states.std(axis=0, dtype=np.float64))

    def _update(self) -> tuple[dict[str, float], float]:
        settings, first = self._settings, self.frames
        self._agent.sync_acting_weights()
        if np.isnan(self._agent.act(self._rollout.observation[0])).any():
            raise NonFiniteLossError(f"the update before step {first} left a network that gives NaN")
        rollout = self._play(settings.steps)
        passes = np.tile(np.arange(settings.steps), (settings.epochs, 1))
        indices = self._rng.permuted(passes, axis=1).reshape(-1, settings.batch_size)
        rates = (settings.policy_learning_rate, settings.value_learning_rate)
        scalars = self._agent.train(
            rollout, indices, *(annealed_learning_rate(first, r, settings.annealing) for r in rates)
        )
        if not np.isfinite(scalars["loss"]):
            raise NonFiniteLossError(f"the update after step {first} gave loss={scalars['loss']}")
        return scalars, 0.0

    def _act(self, observation: np.ndarray, step_type: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = self._agent.act(observation[0])
        if step_type.item() == LAST:
            return mean[None], mean
        return (mean + self._noise)[None], mean

    def _play(self, steps: int, before_step: Callable[[], None] = lambda: None) -> RolloutBatch:
        """Environment steps with the acting weights, actions of the truncated normal (Appendix A).

        A step in which the environment fails is made in another one; the episode before is cut.

        Args:
            steps: how many.
            before_step: called before each of them.
        """
        agent, environment = self._agent, self._environment
        state, next_state = (np.empty((steps, environment.state_size), np.float32) for _ in range(2))
        action, mean = (np.empty((steps, environment.num_actions), np.float32) for _ in range(2))
        reward, last, terminated = np.empty(steps, np.float32), np.empty(steps, bool), np.empty(steps, bool)
        noise = gaussian.sample_truncated(self._rng, np.zeros_like(action), np.ones(environment.num_actions))
        noise = noise * agent.std  # [T, A]
        t = 0
        while t < steps:
            before_step()
            state[t], self._noise = self._rollout.observation[0], noise[t]
            try:
                step = self._step()
                action[t], mean[t], next_state[t] = step.action[0], step.info, self._rollout.observation[0]
                reward[t], terminated[t] = step.reward[0], step.terminated[0]
                last[t] = self._rollout.step_type.item() == LAST
                t += 1
                if last[t - 1]:
                    self._begin_episode()
            except EnvironmentReplacedError:
                last[max(0, t - 1) : t] = True
        return RolloutBatch(state, next_state, action, mean, agent.std, reward, last, terminated)
