"""The combined challenges of the Real-World RL suite on four tasks of DeepMind's control suite.

Numbers are those of the suite's specification (google-research/realworldrl_suite, docs/README.md, commit be7a51c).
`assumed` marks what it leaves open; where its code settles that, we do as the code does. docs/control_tasks.md lists
all of it.
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
    """How hard the challenges are.

    Attributes:
        name: of the level.
        action_delay, observation_delay, reward_delay: steps.
        action_noise, observation_noise: stddev of Gaussian noise.
        dropped_prob: probability that a component of the observation that is not dropped begins to be.
        dropped_steps: steps for which it reads 0 then.
        stuck_prob: probability that a component of the observation that is not stuck begins to be.
        stuck_steps: steps for which it keeps its last reading then.
        repeated_steps: steps for which an action acts.
        dummies: components of noise that are added to the observation.
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
"""Task of each domain."""

TASKS = {
    f"{domain}_{name}": (domain, task, level) for domain, task in DOMAINS.items() for name, level in LEVELS.items()
}
"""`cartpole_easy` and so on: the control suite's names, and how hard the challenges are."""


def task_name(task: str) -> str:
    """Returns this suite's name of a task; letter case, underscores and blanks make no difference.

    Args:
        task: domain and level, `cartpole_easy`, `cartpole.easy`.

    Returns:
        One of `TASKS`.

    Raises:
        UnknownTaskError: no task has this name; the message lists the nearest.
    """
    return match_task(task, tuple(TASKS), "task of the Real-World RL challenge")


@dataclasses.dataclass(frozen=True)
class RwrlConfig:
    """The protocol, one field an item.

    Attributes:
        task: one of `TASKS`, in any spelling that `task_name` knows.
        max_steps: an episode is cut at this many steps; 0 for the control suite's 1000.
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
        """What a saved state must share with the environment that takes it up: `rwrl/walker_easy`."""
        return f"rwrl/{self.task}"

    @property
    def step_limit(self) -> int:
        """Steps after which an episode is cut."""
        return self.max_steps or MAX_STEPS

    def make_task(self) -> RwrlTask:
        """One simulation."""
        return RwrlTask(*TASKS[self.task])


def make_rwrl(env_config: Mapping[str, Any], num_envs: int, seed: int) -> DmControlEnvironment:
    """Returns a batch of one task of the Real-World RL challenge, observed by features.

    Args:
        env_config: the fields of `RwrlConfig`; an entry `name` is allowed and not read.
        num_envs: number of simulations stepped one after the other, at least 1.
        seed: the run's seed, at least 0. Environments of one run need seeds of their own.

    Raises:
        ValueError: a field is missing, unknown or out of its range.
        UnknownTaskError: no task has this name.
    """
    return DmControlEnvironment(read_config(RwrlConfig.kind, RwrlConfig, env_config), num_envs, seed)


class DelayLine:
    """Gives what it was given some steps ago, and the first item until then.

    Args:
        steps: of delay; 0 gives what it is given.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._waiting: collections.deque[np.ndarray] = collections.deque()

    def pass_on(self, item: np.ndarray) -> np.ndarray:
        """Takes the item of this step; returns that of `steps` steps ago."""
        if not self._waiting:
            self._waiting.extend([item] * self._steps)
        self._waiting.append(item)
        return self._waiting.popleft()

    def get_state(self) -> np.ndarray:
        """Returns what waits, [steps, ...], or [0] before the first item."""
        return np.array(self._waiting)

    def set_state(self, state: np.ndarray) -> None:
        """Takes up what `get_state` returned."""
        self._waiting = collections.deque(np.array(state))


class Spells:
    """Components that fail for some steps, each for itself.

    A component that works begins to fail with a probability, at each step, and then fails for a number of steps. It may
    fail again right afterwards.

    Args:
        size: number of components.
        prob: probability, for a component that works.
        steps: that a failure lasts.
    """

    def __init__(self, size: int, prob: float, steps: int) -> None:
        self._prob, self._steps = prob, steps
        self.left = np.zeros(size, np.int64)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Goes on by one step; returns which components fail in it, bool [size]."""
        begins = rng.random(self.left.size) < self._prob
        self.left[(self.left == 0) & begins] = self._steps
        fails = self.left > 0
        self.left[fails] -= 1
        return fails


class Challenges:
    """What stands between an agent and one environment at one level.

    `assumed` order, that of the suite's code: an action is delayed, noisy, brought within its bounds and then repeated;
    an observation is noisy, dropped, stuck and then delayed, and the dummies, unit Gaussians, are not delayed.
    `assumed`: all of it goes on from episode to episode, as in the suite's code. So the last rewards of an episode are
    paid in the next, and the first one of all is paid once more for each step of delay.

    Args:
        level: how hard they are.
        num_features: S, of the environment.
        low, high: bounds of the actuators, [A]; the noise is in the same units.
        rng: of this environment alone.
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
        self._reading = np.empty(0)  # the last one; before the first there is none to be stuck at
        self._held = np.empty(0)  # the action that acts
        self._held_for = 0  # steps for which it still does

    def act(self, action: np.ndarray) -> np.ndarray:
        """Returns the action that acts, [A], for the one that was chosen."""
        delayed = self._actions.pass_on(action)
        noisy = np.clip(self._rng.normal(delayed, self._level.action_noise), self._low, self._high)
        if self._held_for == 0:
            self._held, self._held_for = noisy, self._level.repeated_steps
        self._held_for -= 1
        return self._held

    def observe(self, features: np.ndarray) -> np.ndarray:
        """Returns what is read, [S + dummies], where the environment's features are [S]."""
        reading = self._rng.normal(features, self._level.observation_noise)
        reading[self._dropped.sample(self._rng)] = 0.0
        stuck = self._stuck.sample(self._rng)
        if self._reading.size:
            reading[stuck] = self._reading[stuck]
        self._reading = reading
        dummies = self._rng.normal(size=self._level.dummies)
        return np.concatenate((self._observations.pass_on(reading), dummies))

    def pay(self, reward: float) -> float:
        """Returns the reward that is paid, for the one that was earned."""
        return float(self._rewards.pass_on(np.array(reward)))

    def get_state(self) -> dict[str, Any]:
        """Returns what `set_state` needs to go on exactly here: arrays, numbers and strings."""
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
        """Takes up what `get_state` returned."""
        unpack_rng(self._rng, state["rng"])
        self._dropped.left, self._stuck.left = np.array(state["dropped"]), np.array(state["stuck"])
        self._reading, self._held = np.array(state["reading"]), np.array(state["held"])
        self._held_for = int(state["held_for"])
        self._actions.set_state(state["actions"])
        self._observations.set_state(state["observations"])
        self._rewards.set_state(state["rewards"])


class RwrlTask(SuiteTask):
    """One simulation of one task with the challenges of a level.

    Each episode has a model of its own, whose parameter is uniform over the level's range.

    Args:
        domain, task: the suite's names, of `DOMAINS`.
        level: how hard the challenges are.

    Attributes:
        parameter: value of the present model's parameter.
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
        # Not the seed alone, which is that of the task's own rng.
        self._rng = np.random.default_rng((seed, 1))
        self._challenges = Challenges(self._level, self._num_hidden, self.low, self.high, self._rng)

    def _build(self, parameter: float) -> None:
        """Replaces the simulation by one with this parameter."""
        self._physics.free()
        self._physics, self.parameter = rwrl_models.perturbed_physics(self._domain, parameter), parameter

    def _initialize(self) -> None:
        if self._domain == "quadruped":
            rwrl_models.upright_start(self._task, self._physics)
        else:
            super()._initialize()
