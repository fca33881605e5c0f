"""PPO's training, which alternates a rollout with fixed weights and several passes over it (Appendix A)."""

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
    """Fields of a configuration that the training loop reads.

    steps: T, number of environment steps in a rollout, a multiple of `batch_size`.
    epochs: number of passes over a rollout.
    batch_size: B, number of steps in a minibatch.
    start_steps: N_start, number of steps played before the first rollout, for the statistics of states.
    policy_learning_rate, value_learning_rate: learning rates for the first rollout.
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
    """Trains PPO; an update is one rollout and the passes over it.

    Args:
        agent: agent that acts and learns.
        environment: environment to play.
        remake, supervision: as for `ControlTrainer`.
        settings: see `PpoTrainerSettings`.
        rng: source of sampled actions and minibatches.
        episodes: log of finished episodes, with the window on which the evaluation is based.
        run: see `RunSettings`; the budget does not include the steps before the first rollout.

    Raises:
        ValueError: `steps` is not a multiple of `batch_size`.
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
            raise ValueError(f"ppo.steps={settings.steps} must be a multiple of ppo.batch_size={settings.batch_size}.")
        super().__init__(agent.checkpoint(), environment, remake, supervision, rng, episodes, run, settings.steps)
        self._agent = agent
        self._settings = settings
        self._noise = np.zeros(environment.num_actions, np.float32)  # noise of the next action
        self._restore()

    @property
    def gradient_steps(self) -> int:
        """Number of gradient steps so far, one per minibatch."""
        return self.frames * self._settings.epochs // self._settings.batch_size

    def _begin(self) -> None:
        """Plays N_start steps before the first rollout; their statistics standardise all later states (Appendix B)."""
        if self.updates:
            return
        states = self._play(self._settings.start_steps, self._check_interrupted).state
        self._agent.set_state_statistics(states.mean(axis=0, dtype=np.float64), states.std(axis=0, dtype=np.float64))

    def _update(self) -> tuple[dict[str, float], float]:
        settings, first = self._settings, self.frames
        self._agent.sync_acting_weights()
        if np.isnan(self._agent.act(self._rollout.observation[0])).any():
            raise NonFiniteLossError(f"the network outputs NaN after the update before step {first}")
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
        """Plays with the acting weights and actions from the truncated normal (Appendix A).

        A step in which the environment fails is made in its replacement; the episode that was open is cut.

        Args:
            steps: number of environment steps.
            before_step: function called before each step.
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
