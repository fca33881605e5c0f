"""The combined challenges of the Real-World RL suite on four tasks of DeepMind's control suite.

Numbers are from the suite's specification (google-research/realworldrl_suite, docs/README.md, commit be7a51c).
`assumed` marks choices that it does not specify; where the suite's code makes them, they are as in that code.
docs/control_tasks.md lists them all.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from repro.environments import rwrl_models
from repro.environments.batched import read_config
from repro.environments.dm_control import MAX_STEPS, DmControlEnvironment
from repro.environments.dm_control_task import SuiteTask
from repro.environments.lookup import match_task
from repro.rng import pack_rng, unpack_rng


@dataclasses.dataclass(frozen=True)
class Level:
    """Difficulty of the challenges.

    Attributes:
        name: name of the level.
        action_delay, observation_delay, reward_delay: delays in steps.
        action_noise, observation_noise: std of Gaussian noise.
        dropped_prob: probability per step that a component of the observation is dropped, if it is not already.
        dropped_steps: number of steps for which a dropped component reads 0.
        stuck_prob: probability per step that a component of the observation gets stuck, if it is not already.
        stuck_steps: number of steps for which a stuck component keeps its last reading.
        repeated_steps: number of steps for which an action is applied.
        dummies: number of noise components appended to the observation.
    """

    name: str
    action_delay: int
    observation_delay: int
    reward_delay: int
    action_noise: float
    observation_noise: float
    dropped_prob: float
    dropped_steps: int
    stuck_prob: float
    stuck_steps: int
    repeated_steps: int
    dummies: int


LEVELS = {
    level.name: level
    for level in (
        Level("easy", 3, 3, 10, 0.1, 0.1, 0.01, 1, 0.01, 1, 1, 10),
        Level("medium", 6, 6, 20, 0.3, 0.3, 0.05, 5, 0.05, 5, 2, 20),
        Level("hard", 9, 9, 40, 1.0, 1.0, 0.1, 10, 0.1, 10, 3, 50),
    )
}


DOMAINS = {"cartpole": "swingup", "walker": "walk", "quadruped": "walk", "humanoid": "walk"}
"""Task in the control suite for each domain."""

TASKS = {
    f"{domain}_{name}": (domain, task, level) for domain, task in DOMAINS.items() for name, level in LEVELS.items()
}
"""Domain, task and level by name, such as `cartpole_easy`."""


def task_name(task: str) -> str:
    """Returns this suite's name of a task; letter case, underscores and blanks make no difference.

    Args:
        task: domain and level, such as `cartpole_easy` or `cartpole.easy`.

    Returns:
        One of `TASKS`.

    Raises:
        UnknownTaskError: no task has this name; the message lists the most similar names.
    """
    return match_task(task, tuple(TASKS), "task of the Real-World RL challenge")


@dataclasses.dataclass(frozen=True)
class RwrlConfig:
    """The protocol of a task.

    Attributes:
        task: one of `TASKS`, in any spelling that `task_name` accepts.
        max_steps: number of steps at which an episode is cut; 0 for the control suite's 1000.

    Raises:
        ValueError: `max_steps` is negative.
        UnknownTaskError: no task has this name.
    """

    kind: ClassVar[str] = "Real-World RL"
    task: str
    max_steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", task_name(self.task))
        if self.max_steps < 0:
            raise ValueError(f"{self.kind}: max_steps must be at least 0, got {self.max_steps}.")

    @property
    def label(self) -> str:
        """Label that a saved state shares with environments that can restore it: `rwrl/walker_easy`."""
        return f"rwrl/{self.task}"

    @property
    def step_limit(self) -> int:
        """Number of steps after which an episode is cut."""
        return self.max_steps or MAX_STEPS

    def make_task(self) -> RwrlTask:
        """Returns a new simulation of the task."""
        return RwrlTask(*TASKS[self.task])


def make_rwrl(env_config: Mapping[str, Any], num_envs: int, seed: int) -> DmControlEnvironment:
    """Returns a batch of one task of the Real-World RL challenge, observed by features.

    Args:
        env_config: the fields of `RwrlConfig`; an entry `name` is ignored.
        num_envs: number of simulations, stepped one after the other; at least 1.
        seed: seed of the batch, at least 0; each batch of a run needs another one.

    Raises:
        ValueError: a field is missing, unknown or out of its range.
        UnknownTaskError: no task has this name.
    """
    return DmControlEnvironment(read_config(RwrlConfig.kind, RwrlConfig, env_config), num_envs, seed)


class DelayLine:
    """Delays a sequence of items by some steps; the first item fills the steps before.

    Args:
        steps: number of steps of delay; 0 passes items on at once.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._waiting: collections.deque[np.ndarray] = collections.deque()

    def pass_on(self, item: np.ndarray) -> np.ndarray:
        """Takes the item of the current step; returns the item of `steps` steps ago."""
        if not self._waiting:
            self._waiting.extend([item] * self._steps)
        self._waiting.append(item)
        return self._waiting.popleft()

    def get_state(self) -> np.ndarray:
        """Returns the delayed items, [steps, ...]; an empty array [0] before the first item."""
        return np.array(self._waiting)

    def set_state(self, state: np.ndarray) -> None:
        """Restores what `get_state` returned."""
        self._waiting = collections.deque(np.array(state))


class Spells:
    """Spells of failure of components, independent of each other.

    At each step, a component that works begins to fail with some probability, and then fails for a fixed number of
    steps. It may fail again right afterwards.

    Args:
        size: number of components.
        prob: probability per step that a component that works begins to fail.
        steps: number of steps that a failure lasts.

    Attributes:
        left: number of remaining steps of failure of each component, int64 [size].
    """

    def __init__(self, size: int, prob: float, steps: int) -> None:
        self._prob, self._steps = prob, steps
        self.left = np.zeros(size, np.int64)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Advances by one step; returns which components fail in it, bool [size]."""
        begins = rng.random(self.left.size) < self._prob
        self.left[(self.left == 0) & begins] = self._steps
        fails = self.left > 0
        self.left[fails] -= 1
        return fails


class Challenges:
    """The challenges between an agent and one environment.

    The order is `assumed` to be that of the suite's code: actions are delayed, get noise, are clipped to their bounds
    and repeated; observations get noise, dropped components and stuck components, and are then delayed. The dummies,
    unit Gaussians, are not delayed. It is also `assumed` that everything continues from one episode to the next, as in
    the suite's code. The last rewards of an episode are therefore paid in the next one, and the very first reward is
    paid once more for each step of delay.

    Args:
        level: difficulty of the challenges.
        num_features: S, the number of features of the environment.
        low, high: bounds of the actuators, [A]; action noise has the same units.
        rng: random number generator, used by this environment only.
    """

    def __init__(
        self, level: Level, num_features: int, low: np.ndarray, high: np.ndarray, rng: np.random.Generator
    ) -> None:
        self._level, self._low, self._high, self._rng = level, low, high, rng
        self._actions = DelayLine(level.action_delay)
        self._observations = DelayLine(level.observation_delay)
        self._rewards = DelayLine(level.reward_delay)
        self._dropped = Spells(num_features, level.dropped_prob, level.dropped_steps)
        self._stuck = Spells(num_features, level.stuck_prob, level.stuck_steps)
        self._reading = np.empty(0)  # the last reading, at which components get stuck; empty before the first
        self._held = np.empty(0)  # the action that is applied
        self._held_for = 0  # number of steps for which it is still applied

    def act(self, action: np.ndarray) -> np.ndarray:
        """Returns the action that is applied, [A], given the one that was chosen, [A]."""
        delayed = self._actions.pass_on(action)
        noisy = np.clip(self._rng.normal(delayed, self._level.action_noise), self._low, self._high)
        if self._held_for == 0:
            self._held, self._held_for = noisy, self._level.repeated_steps
        self._held_for -= 1
        return self._held

    def observe(self, features: np.ndarray) -> np.ndarray:
        """Returns the agent's observation, [S + dummies], given the environment's features, [S]."""
        reading = self._rng.normal(features, self._level.observation_noise)
        reading[self._dropped.sample(self._rng)] = 0.0
        stuck = self._stuck.sample(self._rng)
        if self._reading.size:
            reading[stuck] = self._reading[stuck]
        self._reading = reading
        dummies = self._rng.normal(size=self._level.dummies)
        return np.concatenate((self._observations.pass_on(reading), dummies))

    def pay(self, reward: float) -> float:
        """Returns the delayed reward, given the reward of the current step."""
        return float(self._rewards.pass_on(np.array(reward)))

    def get_state(self) -> dict[str, Any]:
        """Returns what `set_state` needs to continue exactly from here: arrays, numbers and strings."""
        lines = {"actions": self._actions, "observations": self._observations, "rewards": self._rewards}
        return {
            "rng": pack_rng(self._rng),
            "dropped": self._dropped.left.copy(),
            "stuck": self._stuck.left.copy(),
            "reading": self._reading.copy(),
            "held": self._held.copy(),
            "held_for": self._held_for,
            **{name: line.get_state() for name, line in lines.items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `get_state` returned."""
        unpack_rng(self._rng, state["rng"])
        self._dropped.left, self._stuck.left = np.array(state["dropped"]), np.array(state["stuck"])
        self._reading, self._held = np.array(state["reading"]), np.array(state["held"])
        self._held_for = int(state["held_for"])
        self._actions.set_state(state["actions"])
        self._observations.set_state(state["observations"])
        self._rewards.set_state(state["rewards"])


class RwrlTask(SuiteTask):
    """One simulation of one task with the challenges of a level.

    Each episode has a new model, whose parameter is sampled uniformly from the level's range.

    Args:
        domain, task: names in the control suite, an item of `DOMAINS`.
        level: difficulty of the challenges.

    Attributes:
        parameter: value of the current model's parameter.
    """

    def __init__(self, domain: str, task: str, level: Level) -> None:
        super().__init__(domain, task)
        self._domain, self._level = domain, level
        self._num_hidden = self.num_features
        self.num_features += level.dummies
        self._range = rwrl_models.PERTURBATIONS[domain].ranges[level.name]
        self.parameter = self._range[0]
        self._seed_challenges(0)

    def begin(self, seed: int | None) -> np.ndarray:
        if seed is not None:
            self._seed_challenges(seed)
        self._build(float(self._rng.uniform(*self._range)))
        return self._challenges.observe(super().begin(seed))

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        features, reward, terminated, truncated = super().step(self._challenges.act(action))
        return self._challenges.observe(features), self._challenges.pay(reward), terminated, truncated

    def get_state(self) -> dict[str, Any]:
        own = {"parameter": self.parameter, "challenges": self._challenges.get_state()}
        return super().get_state() | own

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._build(float(state["parameter"]))
        super().set_state(state)
        self._challenges.set_state(state["challenges"])

    def _seed_challenges(self, seed: int) -> None:
        # The seed alone is already that of the task's rng.
        self._rng = np.random.default_rng((seed, 1))
        self._challenges = Challenges(self._level, self._num_hidden, self.low, self.high, self._rng)

    def _build(self, parameter: float) -> None:
        """Replaces the simulation by one whose model has this parameter."""
        self._physics.free()
        self._physics, self.parameter = rwrl_models.perturbed_physics(self._domain, parameter), parameter

    def _initialize(self) -> None:
        if self._domain == "quadruped":
            rwrl_models.upright_start(self._task, self._physics)
        else:
            super()._initialize()
