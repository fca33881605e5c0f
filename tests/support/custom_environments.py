"""Gymnasium environments that the import of this module registers, one for each way in which they may differ."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle

LENGTH = 4


class Given(gymnasium.Env):
    """Environment with given spaces and random observations; an episode ends after `LENGTH` steps.

    Attributes:
        taken: actions since the reset.
        resets: seeds of all resets.
    """

    def __init__(self, observations: gymnasium.Space, actions: gymnasium.Space) -> None:
        self.observation_space, self.action_space = observations, actions
        self.taken: list[Any] = []
        self.resets: list[int | None] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.resets.append(seed)
        self.taken.clear()
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.taken.append(action)
        return self.observation_space.sample(), 1.5, len(self.taken) == LENGTH, False, {}


class Clock(gymnasium.Env):
    """Environment whose observations are its numbers of steps in the episode and of resets; rewards are random.

    An episode terminates after `end` steps and is truncated after `cut` steps.
    """

    observation_space = spaces.Box(0, 1e6, (2,), np.float32)
    action_space = spaces.Discrete(2, start=5)

    def __init__(self, end: int = 1_000_000, cut: int = 1_000_000) -> None:
        self.end, self.cut = end, cut
        self.resets = self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.resets, self.steps = self.resets + 1, 0
        return self.observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space
        self.steps += 1
        return self.observe(), self.random(), self.steps >= self.end, self.steps >= self.cut, {}

    def observe(self) -> np.ndarray:
        return np.array([self.steps, self.resets], np.float32)

    def random(self) -> float:
        return float(self.np_random.normal())


class WithLock(Clock):
    """Environment that cannot be pickled."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lock = threading.Lock()


class PicklesArguments(Clock, EzPickle):
    """Environment whose pickle makes a new environment."""

    def __init__(self, **kwargs: Any) -> None:
        Clock.__init__(self, **kwargs)
        EzPickle.__init__(self, **kwargs)


class Constant(gymnasium.Env, EzPickle):
    """Environment that always returns the same, so that only its class shows that its pickle holds no state."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        EzPickle.__init__(self)

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), 0.0, False, False, {}


class GlobalRandom(Clock):
    """Environment that uses NumPy's global random numbers."""

    def random(self) -> float:
        return float(np.random.normal())  # noqa: NPY002


class LateLock(Clock):
    """Environment that cannot be pickled after its first reset with a seed other than 0."""

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
        if kwargs.get("seed") not in (None, 0):
            self.lock = threading.Lock()
        return super().reset(**kwargs)


class WrongShape(Clock):
    """Environment whose observations have fewer entries than its space."""

    def observe(self) -> np.ndarray:
        return np.zeros(1, np.float32)


for environment in (Given, Clock, WithLock, PicklesArguments, Constant, GlobalRandom, LateLock, WrongShape):
    gymnasium.register(f"repro_tests/{environment.__name__}-v0", entry_point=environment)
gymnasium.register("repro_tests/Limited-v0", entry_point=Clock, max_episode_steps=6)
gymnasium.register(
    "repro_tests/Pixels-v0",
    entry_point=Given,
    kwargs={"observations": spaces.Box(0, 255, (24, 24, 3), np.uint8), "actions": spaces.Box(-1, 1, (2,))},
)
