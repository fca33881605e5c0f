"""PPO's training: a rollout with fixed weights, several passes over it in minibatches, in turn (Appendix A)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from repro.acting.actor import Episode
from repro.distributions import gaussian
from repro.environments.batched import VectorEnvironment
from repro.papers.refer.ppo import Ppo, RolloutBatch
from repro.papers.refer.refer_rules import annealed_learning_rate
from repro.training.learner import NonFiniteLossError
from repro.training.rng_state import pack_rng, unpack_rng
from repro.training.trainer import EpisodeLog, RunSettings, Trainer


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


class PpoTrainer(Trainer):
    """An update is one rollout and the passes over it.

    Args:
        agent: acts and learns.
        environment: one task.
        settings: see `PpoTrainerSettings`.
        generator: draws actions and minibatches.
        episodes: log of finished episodes, with the window that the evaluation is of.
        run: its budget are the steps that are learned from; those before the first rollout come on top.

    Raises:
        ValueError: the steps of a rollout are not whole minibatches.
    """

    shown = ("kl", "clipped", "deviation")

    def __init__(
        self,
        agent: Ppo,
        environment: VectorEnvironment,
        settings: PpoTrainerSettings,
        generator: np.random.Generator,
        episodes: EpisodeLog,
        run: RunSettings,
    ) -> None:
        if settings.steps % settings.batch_size:
            raise ValueError(f"ppo.steps={settings.steps} is no multiple of ppo.batch_size={settings.batch_size}.")
        super().__init__(agent.checkpoint(), episodes, run, settings.steps)
        self._agent = agent
        self._environment = environment
        self._settings = settings
        self._generator = generator
        self._observation = environment.reset()[0][0]
        self._restore()

    def summary(self) -> dict[str, Any]:
        """Totals of the run so far, and its evaluation."""
        steps = self.frames * self._settings.epochs // self._settings.batch_size
        return super().summary() | {"gradient_steps": steps}

    def close(self) -> None:
        self._environment.close()

    def _begin(self) -> None:
        """Before the first rollout: N_start steps, by whose states all later ones are standardised (Appendix B)."""
        if self.updates:
            return
        states = self._play(self._settings.start_steps).state
        self._agent.set_state_statistics(states.mean(axis=0, dtype=np.float64), states.std(axis=0, dtype=np.float64))

    def _update(self) -> tuple[dict[str, float], float]:
        settings, first = self._settings, self.frames
        self._agent.refresh()
        if np.isnan(self._agent.act(self._observation)).any():
            raise NonFiniteLossError(f"the update before step {first} left a network that gives NaN")
        rollout = self._play(settings.steps)
        passes = np.tile(np.arange(settings.steps), (settings.epochs, 1))
        indices = self._generator.permuted(passes, axis=1).reshape(-1, settings.batch_size)
        rates = (settings.policy_learning_rate, settings.value_learning_rate)
        scalars = self._agent.train(
            rollout, indices, *(annealed_learning_rate(first, r, settings.annealing) for r in rates)
        )
        if not np.isfinite(scalars["loss"]):
            raise NonFiniteLossError(f"the update after step {first} gave loss={scalars['loss']}")
        return scalars, 0.0

    def _play(self, steps: int) -> RolloutBatch:
        """Environment steps with the weights of the last `refresh`, actions of the truncated normal (Appendix A)."""
        agent, environment = self._agent, self._environment
        state, next_state = (np.empty((steps, environment.state_size), np.float32) for _ in range(2))
        action, mean = (np.empty((steps, environment.num_actions), np.float32) for _ in range(2))
        reward, last, terminated = np.empty(steps, np.float32), np.empty(steps, bool), np.empty(steps, bool)
        noise = gaussian.sample_truncated(self._generator, np.zeros_like(action), np.ones(environment.num_actions))
        noise *= agent.std  # [T, A]
        for t in range(steps):
            state[t] = self._observation
            mean[t] = agent.act(self._observation)
            action[t] = mean[t] + noise[t]
            observations, rewards, terminations, _, info = environment.step(action[t : t + 1])
            next_state[t] = self._observation = observations[0]
            reward[t], terminated[t], last[t] = rewards[0], terminations[0], info["game_over"][0]
            if last[t]:
                self._episodes.append(Episode(float(info["episode_return"][0]), int(info["episode_frames"][0])))
                self._observation = environment.step(action[t : t + 1])[0][0]  # the next episode begins
        return RolloutBatch(state, next_state, action, mean, agent.std, reward, last, terminated)

    def _get_state(self) -> dict[str, Any]:
        return {
            "environment": self._environment.get_state(),
            "generator": pack_rng(self._generator),
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        self._observation = self._environment.set_state(state["environment"])[0]
        unpack_rng(self._generator, state["generator"])
