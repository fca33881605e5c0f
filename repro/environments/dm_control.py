"""Batches of tasks of DeepMind's control suite; `rwrl.py` adds the challenges of the Real-World RL suite.

Every choice that the STAC paper leaves open is listed in docs/control_tasks.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import gymnasium
import numpy as np

from repro.environments.batched import check_batch, read_config
from repro.environments.dm_control_task import SuiteTask
from repro.environments.lookup import match_task
from repro.environments.offscreen import OffscreenRenderer
from repro.environments.stepped import SteppedEnvironment

DOMAINS = {
    "acrobot": ("swingup", "swingup_sparse"),
    "ball_in_cup": ("catch",),
    "cartpole": ("balance", "balance_sparse", "swingup", "swingup_sparse"),
    "cheetah": ("run",),
    "finger": ("spin", "turn_easy", "turn_hard"),
    "fish": ("upright", "swim"),
    "hopper": ("stand", "hop"),
    "humanoid": ("stand", "walk", "run"),
    "manipulator": ("bring_ball",),
    "pendulum": ("swingup",),
    "point_mass": ("easy",),
    "quadruped": ("walk", "run"),
    "reacher": ("easy", "hard"),
    "swimmer": ("swimmer6", "swimmer15"),
    "walker": ("stand", "walk", "run"),
}
"""Tasks of each domain in the suite's spelling: its benchmark, and the quadruped of the Real-World RL challenge."""

TASKS = {f"{domain}_{task}": (domain, task) for domain, tasks in DOMAINS.items() for task in tasks}

BENCHMARK = tuple(task for task, (domain, _) in TASKS.items() if domain != "quadruped")
"""The suite's benchmark of 28 tasks."""

OBSERVED = ("features", "pixels")
"""Kinds of observations of a simulation."""

MAX_STEPS = 1000
"""Number of steps of an episode of every task of the suite."""

SHOWN_HEIGHT, SHOWN_WIDTH = 240, 320
"""Size in pixels of pictures for people."""

MAX_SHADOW_SIZE = 8192
"""Largest side in pixels of a shadow map that every graphics library supports."""


def task_name(task: str) -> str:
    """Returns this suite's name of a task; letter case, underscores and blanks make no difference.

    Args:
        task: name of a task, such as `cartpole_swingup` or `CartpoleSwingup`.

    Returns:
        Domain and task, one of `TASKS`.

    Raises:
        UnknownTaskError: no task has this name; the message lists the most similar names.
    """
    return match_task(task, tuple(TASKS), "task of DM Control")


@dataclasses.dataclass(frozen=True)
class DmControlConfig:
    """The protocol of a task.

    Attributes:
        task: one of `TASKS`, in any spelling that `task_name` accepts.
        observed: kind of observations, one of `OBSERVED`.
        max_steps: number of steps at which an episode is cut; 0 for the suite's 1000.
        image_size: height and width of an observation of pixels.
        shadow_size: side of the shadow map in pixels; 0 for the suite's 2048.

    Raises:
        ValueError: a field is out of its range.
        UnknownTaskError: no task has this name.
    """

    kind: ClassVar[str] = "DM Control"
    task: str
    observed: str
    max_steps: int
    image_size: int = 84
    shadow_size: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", task_name(self.task))
        if self.observed not in OBSERVED:
            raise ValueError(f"{self.kind}: observed must be one of {', '.join(OBSERVED)}, got {self.observed!r}.")
        if self.max_steps < 0:
            raise ValueError(f"{self.kind}: max_steps must be at least 0, got {self.max_steps}.")
        if not 1 <= self.image_size <= SHOWN_HEIGHT:
            raise ValueError(f"{self.kind}: image_size must lie between 1 and {SHOWN_HEIGHT}, got {self.image_size}.")
        if not 0 <= self.shadow_size <= MAX_SHADOW_SIZE:
            raise ValueError(
                f"{self.kind}: shadow_size must lie between 0 and {MAX_SHADOW_SIZE}, got {self.shadow_size}."
            )

    @property
    def label(self) -> str:
        """Label that a saved state shares with environments that can restore it: `dm_control/walker_walk/features`."""
        return f"dm_control/{self.task}/{self.observed}"

    @property
    def step_limit(self) -> int:
        """Number of steps after which an episode is cut."""
        return self.max_steps or MAX_STEPS

    def make_task(self) -> SuiteTask:
        """Returns a new simulation of the task."""
        return SuiteTask(*TASKS[self.task])


def make_dm_control(env_config: Mapping[str, Any], num_envs: int, seed: int) -> DmControlEnvironment:
    """Returns a batch of one task of the control suite.

    Args:
        env_config: fields of `DmControlConfig`; `image_size` and `shadow_size` may be left out, and an entry `name` is
            ignored.
        num_envs: number of simulations, stepped one after the other; at least 1.
        seed: seed of the batch, at least 0; each batch of a run needs another one.

    Raises:
        ValueError: a field is missing, unknown or out of its range.
        UnknownTaskError: no task has this name.
        RenderError: observations are pixels, and no graphics library works without a display.
    """
    config = read_config(DmControlConfig.kind, DmControlConfig, env_config)
    image_size = config.image_size if config.observed == "pixels" else 0
    return DmControlEnvironment(config, num_envs, seed, image_size, config.shadow_size)


class SuiteConfig(Protocol):
    """Parts of a suite's protocol that `DmControlEnvironment` reads."""

    kind: ClassVar[str]
    """Name of this kind of environments in messages."""

    @property
    def task(self) -> str:
        """Name of the task."""

    @property
    def label(self) -> str:
        """Label that a saved state shares with environments that can restore it."""

    @property
    def step_limit(self) -> int:
        """Number of steps after which an episode is cut."""

    def make_task(self) -> SuiteTask:
        """Returns a new simulation of the task."""


class DmControlEnvironment(SteppedEnvironment):
    """A batch of one task of the control suite; see `SteppedEnvironment` for how it is stepped.

    Observations are features, float32 [state_size], or pixels, uint8 [H, W, 3], from the model's first camera.

    Actions of the learner are unbounded. They are clipped to [-1, 1], which is mapped to the range of the actuators:
        action of the task = (low + high) / 2 + clip(action, -1, 1) (high - low) / 2
    No task ends before its time limit, which truncates the episode. An episode whose simulation becomes unstable is
    truncated with a reward of 0.

    Everything that follows a restored state is bit-identical to what followed the saved one.

    Args:
        config: the protocol.
        num_envs: number of simulations, stepped one after the other; at least 1.
        seed: seed of the batch, at least 0.
        image_size: height and width of an observation of pixels; 0 for features.
        shadow_size: side of the shadow map in pixels, as in `DmControlConfig`.

    Attributes:
        config: the protocol.
        max_steps: number of steps after which an episode is cut.

    Raises:
        ValueError: `num_envs` or `seed` is out of its range.
        RenderError: observations are pixels, and no graphics library works without a display.
    """

    def __init__(
        self, config: SuiteConfig, num_envs: int, seed: int, image_size: int = 0, shadow_size: int = 0
    ) -> None:
        check_batch(config.kind, num_envs, seed)
        self.config = config
        self.max_steps = config.step_limit
        tasks = [config.make_task() for _ in range(num_envs)]
        self._eye: OffscreenRenderer | None = None
        self._pictures: OffscreenRenderer | None = None
        if image_size:
            quality = tasks[0].model.vis.quality
            quality.shadowsize = shadow_size or quality.shadowsize
            self._eye = OffscreenRenderer(tasks[0].model, image_size, image_size, self._name)
            observations = gymnasium.spaces.Box(0, 255, (image_size, image_size, 3), np.uint8)
        else:
            observations = gymnasium.spaces.Box(-np.inf, np.inf, (tasks[0].num_features,), np.float32)
        low, high = tasks[0].low, tasks[0].high
        self._scale, self._centre = (high - low) / 2, (high + low) / 2
        actions = gymnasium.spaces.Box(-np.inf, np.inf, low.shape, np.float32)
        super().__init__(config.kind, config.label, tasks, observations, actions, config.step_limit, seed)

    @property
    def _name(self) -> str:
        """Kind and task, for messages."""
        return f"{self.config.kind}: {self.config.task}"

    @property
    def state_size(self) -> int:
        """Number of features of an observation.

        Raises:
            ValueError: observations are pixels.
        """
        if self._eye is not None:
            raise ValueError(
                f"{self._name} is observed by pixels, and this agent needs vectors; set env.observed='features'."
            )
        return int(self._observation.shape[1])

    def _begin(self, row: int, seed: int | None) -> np.ndarray:
        return self._shown(row, self._tasks[row].begin(seed))

    def _decode(self, actions: np.ndarray) -> np.ndarray:
        return self._centre + self._scale * np.clip(actions.astype(np.float64), -1.0, 1.0)

    def _advance(self, row: int, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        features, reward, terminated, truncated = self._tasks[row].step(action)
        return self._shown(row, features), reward, terminated, truncated

    def _shown(self, row: int, features: np.ndarray) -> np.ndarray:
        if self._eye is None:
            return features
        task = self._tasks[row]
        return self._eye.render(task.model, task.data)

    def get_state(self) -> dict[str, Any]:
        return super().get_state() | {"tasks": {str(row): task.get_state() for row, task in enumerate(self._tasks)}}

    def set_state(self, state: Mapping[str, Any]) -> np.ndarray:
        observation = super().set_state(state)
        for row, task in enumerate(self._tasks):
            task.set_state(state["tasks"][str(row)])
        return observation

    def render_first(self) -> np.ndarray:
        """Returns an RGB picture of the current state of the first simulation, uint8 [H, W, 3].

        Raises:
            RenderError: no graphics library works without a display.
        """
        task = self._tasks[0]
        if self._pictures is None:
            self._pictures = OffscreenRenderer(task.model, SHOWN_HEIGHT, SHOWN_WIDTH, self._name)
        return self._pictures.render(task.model, task.data)

    def close(self, **kwargs: Any) -> None:
        """Closes every simulation."""
        for renderer in (self._eye, self._pictures):
            if renderer is not None:
                renderer.close()
        self._pictures = None
        super().close(**kwargs)
