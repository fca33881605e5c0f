"""The training of Algorithm 1, which alternates F environment steps and a gradient step on a memory of episodes.

F K environment steps are made with the same weights, then K gradient steps in one compiled call, on minibatches sampled
before it; ratios, values and priorities are written back to the memory after it. With K = 1 this is the paper's
algorithm, except for the order of operations (deviation 3 of the README). In prioritised replay the K minibatches of a
call are sampled by the same ranks: a step sampled several times in a call gets its new priority, that of the last time,
for the next call.

With `overlap` both are made at the same time, on two cores: the same steps with the same weights, but an episode that
ends among them enters the memory after the gradient steps and not before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from repro.acting.rollout import LAST
from repro.acting.supervision import EnvironmentFailedError, Supervision
from repro.config import whole_product
from repro.environments.batched import VectorEnvironment
from repro.papers.refer.beta_update import update_beta
from repro.papers.refer.control_trainer import ControlTrainer, EnvironmentReplacedError
from repro.papers.refer.exploration import explore
from repro.papers.refer.fused import FusedAgent, PolicyOutput
from repro.papers.refer.prioritised import Prioritised, sample_minibatches
from repro.papers.refer.refer_rules import annealed_c_max, annealed_learning_rate
from repro.replay.refer import ReferMemory
from repro.rng import pack_rng, unpack_rng
from repro.training.learner import NonFiniteLossError
from repro.training.trainer import EpisodeLog, RunSettings

REWARD_SCALE_EVERY = 1000
"""Number of gradient steps between two updates of the reward scale (Appendix B)."""


class ReferSettings(NamedTuple):
    """Fields of a configuration that the training loop reads.

    batch_size: B, number of steps sampled for one gradient step.
    time_steps_per_gradient: F.
    start_steps: N_start, number of steps in complete episodes that enter the memory before the first gradient step, at
        most its capacity.
    learning_rate: eta at the first gradient step.
    beta_step_size: eta of Eq. (12), annealed by `annealing`.
    c, annealing, max_far_policy_fraction: C, A and D.
    learning_rate_annealing: A of the learning rate, which equals `annealing` except for plain DDPG.
    noise_theta: theta of Ornstein-Uhlenbeck noise; None for independent noise.
    initial_beta: beta before the first gradient step.
    prioritised: settings of prioritised replay; None for uniform sampling.
    refresh_last_value: whether V(s_T) of a cut episode is computed again whenever its last step is sampled.
    overlap: whether gradient steps are made while the environment is stepped.
    """

    batch_size: int
    time_steps_per_gradient: float
    start_steps: int
    learning_rate: float
    beta_step_size: float
    c: float
    annealing: float
    max_far_policy_fraction: float
    learning_rate_annealing: float
    noise_theta: float | None
    initial_beta: float
    prioritised: Prioritised | None
    refresh_last_value: bool
    overlap: bool


class OpenEpisode:
    """An episode that is being played, in arrays for the longest possible one.

    Attributes:
        length: number of steps so far.
        terminated: whether the task ended the episode, rather than a time limit; set when it is over.
    """

    NAMES = ("states", "actions", "rewards", "means", "stds", "values", "coefficients")

    def __init__(self, max_steps: int, state_size: int, action_size: int, coefficients: int) -> None:
        self.states = np.zeros((max_steps + 1, state_size), np.float32)
        self.actions, self.means, self.stds = (np.zeros((max_steps, action_size), np.float32) for _ in range(3))
        self.rewards, self.values = np.zeros(max_steps, np.float32), np.zeros(max_steps + 1, np.float32)
        self.coefficients = np.zeros((max_steps, coefficients), np.float32)
        self.length = 0
        self.terminated = False

    def store_in(self, memory: ReferMemory, agent: FusedAgent) -> None:
        """Stores the complete episode, whose last state and value are at `length`, in the memory."""
        n = self.length
        policy = self.actions[:n], self.means[:n], self.stds[:n]
        memory.add_episode(
            self.states[: n + 1],
            self.actions[:n],
            self.rewards[:n],
            self.means[:n],
            self.stds[:n],
            self.values[: n + 1],
            self.terminated,
            agent.advantages(self.coefficients[:n], *policy),
        )

    def get_state(self) -> dict[str, Any]:
        return {"length": self.length} | {name: getattr(self, name)[: self.length + 1] for name in self.NAMES}

    def set_state(self, state: dict[str, Any]) -> None:
        self.length = state["length"]
        for name in self.NAMES:
            getattr(self, name)[: len(state[name])] = state[name]


class ReferTrainer(ControlTrainer):
    """Trains an agent; an update is F K environment steps and one call of K gradient steps.

    Args:
        agent: agent that acts and learns.
        environment: environment to play.
        remake, supervision: as for `ControlTrainer`.
        memory: memory for the task's sizes of states and actions.
        settings: see `ReferSettings`.
        rng: source of sampled actions and minibatches; with `overlap`, minibatches are sampled by a child of it.
        episodes: log of finished episodes, with the window on which the evaluation is based.
        run: see `RunSettings`; the budget does not include the steps before the first gradient step.

    Raises:
        ValueError: F K is not a whole number of steps, or is 0.
    """

    progress_scalars = ("kl", "beta", "far_policy_fraction")

    def __init__(
        self,
        agent: FusedAgent,
        environment: VectorEnvironment,
        remake: Callable[[int], VectorEnvironment],
        supervision: Supervision,
        memory: ReferMemory,
        settings: ReferSettings,
        rng: np.random.Generator,
        episodes: EpisodeLog,
        run: RunSettings,
    ) -> None:
        steps_per_update = whole_product(settings.time_steps_per_gradient, agent.steps_per_call)
        if steps_per_update is None or steps_per_update < 1:
            raise ValueError(
                f"learner.time_steps_per_gradient={settings.time_steps_per_gradient} times "
                f"learner.steps_per_call={agent.steps_per_call} must be a whole number of environment steps."
            )
        super().__init__(agent.checkpoint(), environment, remake, supervision, rng, episodes, run, steps_per_update)
        self._agent = agent
        self._memory = memory
        self._settings = settings
        self._beta = settings.initial_beta
        self._sampling_rng = rng.spawn(1)[0] if settings.overlap else rng
        self._player = ThreadPoolExecutor(1, "player") if settings.overlap else None
        self._episode = self._new_episode()
        self._finished: list[OpenEpisode] = []  # episodes that are over, but not yet in the memory
        self._restore()

    def close(self) -> None:
        if self._player is not None:
            self._player.shutdown()
        super().close()

    @property
    def gradient_steps(self) -> int:
        """k of Algorithm 1: number of gradient steps made so far."""
        return self.updates * self._agent.steps_per_call

    @property
    def _steps_aside(self) -> bool:
        return self._player is not None

    def _update(self) -> tuple[dict[str, float], float]:
        self._agent.sync_acting_weights()
        if self._player is None:
            try:
                self._play(self.frames_per_update)
            finally:
                self._store_finished()
            return self._learn(), 0.0
        playing = self._player.submit(self._play, self.frames_per_update)
        try:
            scalars = self._learn()
        finally:
            failure = playing.exception()
        self._store_finished()
        if isinstance(failure, EnvironmentFailedError):
            self.updates += 1  # the saved state includes its gradient steps
        if failure is not None:
            raise failure
        return scalars, 0.0

    def _begin(self) -> None:
        """Plays until N_start steps have entered the memory, then fixes the statistics of the states (Algorithm 1).

        Steps count once their episode is complete. If N_start is the capacity N, as in Algorithm 1, the episode that
        completes N_start steps may displace older ones. These count, but the statistics are those of the stored steps.
        """
        if self._memory.episodes and self.updates:
            return
        while self._memory.num_seen < self._settings.start_steps:
            self._check_interrupted()
            self._play(1)
            self._store_finished()
        self._agent.set_state_statistics(*self._memory.state_statistics())
        self._memory.refresh_reward_scale()
        self._memory.set_c_max(annealed_c_max(0, self._settings.c, self._settings.annealing))

    def _act(self, observation: np.ndarray, step_type: np.ndarray) -> tuple[np.ndarray, PolicyOutput]:
        output = self._agent.act(observation[0])
        if math.isnan(output.value):
            raise NonFiniteLossError(f"the network outputs NaN after gradient step {self.gradient_steps}")
        if step_type.item() == LAST:
            return output.mean[None], output
        episode, t = self._episode, self._episode.length
        last_noise = episode.actions[t - 1] - episode.means[t - 1] if t else np.zeros_like(output.mean)
        theta = self._settings.noise_theta
        return explore(self._rng, output.mean, output.std, last_noise, theta)[None], output

    def _play(self, steps: int) -> None:
        """Makes environment steps; one in which the environment fails is made in its replacement."""
        played = 0
        while played < steps:
            try:
                self._play_step()
                played += 1
            except EnvironmentReplacedError:  # the open episode is lost
                self._episode = self._new_episode()
                self._agent.begin_episode()

    def _play_step(self) -> None:
        """Makes one environment step (Algorithm 2)."""
        episode, t = self._episode, self._episode.length
        episode.states[t] = self._rollout.observation[0]
        step = self._step()
        output: PolicyOutput = step.info
        episode.actions[t], episode.means[t], episode.stds[t] = step.action[0], output.mean, output.std
        episode.values[t], episode.coefficients[t], episode.rewards[t] = (
            output.value,
            output.coefficients,
            step.reward[0],
        )
        episode.length = t + 1
        if self._rollout.step_type.item() == LAST:
            episode.states[t + 1] = self._rollout.observation[0]
            episode.values[t + 1] = self._begin_episode().value
            episode.terminated = bool(step.terminated[0])
            self._finished.append(episode)
            self._episode = self._new_episode()
            self._agent.begin_episode()

    def _new_episode(self) -> OpenEpisode:
        environment = self._environment
        return OpenEpisode(
            environment.max_steps, environment.state_size, environment.num_actions, self._agent.num_coefficients
        )

    def _store_finished(self) -> None:
        """Moves the episodes that are over to the memory."""
        for episode in self._finished:
            episode.store_in(self._memory, self._agent)
        self._finished.clear()

    def _learn(self) -> dict[str, float]:
        """Makes K gradient steps (Algorithm 3) and returns scalars to log."""
        memory, settings = self._memory, self._settings
        first = self.gradient_steps
        steps = range(first, first + self._agent.steps_per_call)
        times = [settings.time_steps_per_gradient * step for step in steps]  # t of each gradient step
        c_max = np.array([annealed_c_max(t, settings.c, settings.annealing) for t in times])
        rate = np.array(
            [annealed_learning_rate(t, settings.learning_rate, settings.learning_rate_annealing) for t in times]
        )
        beta = np.empty(len(steps))
        memory.set_c_max(c_max[-1])
        num_far_policy, size, fraction = memory.num_far_policy, len(memory), settings.max_far_policy_fraction
        for i, t in enumerate(times):
            beta[i] = self._beta
            step_size = annealed_learning_rate(t, settings.beta_step_size, settings.annealing)
            self._beta = update_beta(self._beta, num_far_policy, size, fraction, step_size)
        if settings.prioritised is None:
            indices, weight = memory.sample(self._sampling_rng, len(steps) * settings.batch_size), None
        else:
            indices, weight = sample_minibatches(
                memory, self._sampling_rng, settings.batch_size, steps, settings.prioritised
            )
        if settings.refresh_last_value:
            self._refresh_last_values(indices)
        rho, value, advantage, td_error, scalars = self._agent.train(
            self._agent.gather(memory, indices), beta, c_max, rate, weight
        )
        if not np.isfinite(scalars["loss"]):
            raise NonFiniteLossError(f"gradient step {steps.stop} gave loss={scalars['loss']}")
        memory.update(indices, rho, value, advantage)
        if settings.prioritised is not None:
            memory.set_priorities(indices, td_error)
        if steps.start // REWARD_SCALE_EVERY != steps.stop // REWARD_SCALE_EVERY:
            memory.refresh_reward_scale()
        return scalars | {"beta": self._beta, "far_policy_fraction": memory.far_policy_fraction, "c_max": memory.c_max}

    def _refresh_last_values(self, indices: np.ndarray) -> None:
        """Recomputes V(s_T) of cut episodes whose last step was sampled, by the weights before the K gradient steps."""
        ends = self._memory.cut_ends(indices)
        if ends.size:
            self._memory.update_last_values(ends, self._agent.last_values(self._memory, ends))

    def _get_state(self) -> dict[str, Any]:
        return super()._get_state() | {
            "sampling_rng": pack_rng(self._sampling_rng),
            "beta": self._beta,
            "memory": self._memory.get_state(),
            "episode": self._episode.get_state(),
            "acting": self._agent.get_acting_state(),
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        if self._settings.overlap:
            unpack_rng(self._sampling_rng, state["sampling_rng"])
        self._beta = state["beta"]
        self._memory.set_state(state["memory"])
        self._agent.sync_normalizer()
        if "environment" in state:
            self._episode.set_state(state["episode"])
            self._agent.set_acting_state(state["acting"])
