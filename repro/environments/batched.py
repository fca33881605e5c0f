"""The contract between environments and the runtime, and the checks that all of them make."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import gymnasium
import numpy as np

if TYPE_CHECKING:
    from tf_agents.specs import BoundedTensorSpec
    from tf_agents.trajectories import time_step as ts


class RenderError(ValueError):
    """A task cannot be shown; the message says why in one sentence."""


class BatchedEnvironment(Protocol):
    """A batched gymnasium `VectorEnv` of `num_envs` games with its TF-Agents specs.

    A game that is over stays at its last observation for one step: the next step ignores that game's action and
    returns the first observation of a new one, with reward 0. An episode may end for learning (a lost life)
    without a reset.

    Attributes:
        metadata: among others `render_fps`, agent steps in a second of play.
    """

    num_envs: int
    num_actions: int
    metadata: dict[str, Any]

    @property
    def time_step_spec(self) -> ts.TimeStep:
        """Spec of one environment, without the batch."""

    @property
    def action_spec(self) -> BoundedTensorSpec:
        """Spec of one environment, without the batch."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts a game everywhere; returns observations [N, ...] and an info.

        Args:
            seed: replaces the one that the environment was made with; None goes on with what it has.
        """

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every game.

        Args:
            actions: int32 [N]; of continuous actions float32 [N, A].

        Returns:
            observation: [N, ...]; the memory may be used again by the next step.
            reward: for learning, float32 [N].
            terminated: bool [N], the episode ended for learning; the value of what follows is 0.
            truncated: bool [N], cut by a time limit; the value of the observation counts.
            info: `game_over` bool [N], and where it is true `episode_return` float32 [N], the whole game's
                unclipped return, and `episode_frames` int32 [N]. Where a batch has several tasks, `task`
                int32 [N], the number of each environment's task. Where observations are to have another reward
                than learning, `last_reward` float32 [N]. Where a saved state has no open games, `lost` bool [N]:
                the step cut a game that could not go on, and whose return does not count.
        """

    def get_state(self) -> dict[str, Any]:
        """Nested dictionaries of arrays, numbers and strings from which `set_state` continues bit for bit."""

    def set_state(self, state: dict[str, Any]) -> Any:
        """Restores; returns the current observations."""

    def render_first(self) -> np.ndarray:
        """Returns a picture of the first game as it is now, uint8 [H, W, 3], red first.

        Raises:
            RenderError: it cannot be shown.
        """

    def close(self, **kwargs: Any) -> None:
        """Frees the environments."""


@runtime_checkable
class CountsEpisodes(Protocol):
    """An environment whose episodes are numbered, so that a run which begins new ones after a stop repeats none."""

    def get_counters(self) -> dict[str, np.ndarray]:
        """Returns what `set_counters` needs; may be called while another thread steps the environment."""

    def set_counters(self, counters: Mapping[str, np.ndarray]) -> None:
        """Goes on behind the episodes that `get_counters` counted; to be called before `reset`."""


class VectorEnvironment(BatchedEnvironment, Protocol):
    """Environments whose observations are vectors, float32 [N, S]."""

    single_observation_space: gymnasium.Space
    single_action_space: gymnasium.Space

    @property
    def state_size(self) -> int:
        """S. Raises ValueError where observations are images."""

    @property
    def max_steps(self) -> int:
        """Steps after which an episode is cut. Raises ValueError where episodes have no limit."""


_Config = TypeVar("_Config")


def read_config(kind: str, config: type[_Config], env_config: Mapping[str, Any]) -> _Config:
    """Returns a dataclass with the values of `config.env`, of which `name` and `tasks` are not read.

    Args:
        kind: of environment, for the message.
        config: the dataclass.
        env_config: every field of it that has no default, and any of the others.

    Raises:
        ValueError: a field is missing or unknown, or the dataclass refuses a value.
    """
    given = set(env_config) - {"name", "tasks"}
    fields = dataclasses.fields(config)  # type: ignore[arg-type]
    known = {field.name for field in fields}
    missing = dataclasses.MISSING
    required = {field.name for field in fields if field.default is missing and field.default_factory is missing}
    for name in sorted(required - given):
        raise ValueError(f"{kind}: the environment's config lacks the field {name!r}.")
    for name in sorted(given - known):
        raise ValueError(
            f"{kind}: the environment's config has a field {name!r} that is not read: delete it in a config of your "
            "own, or take one of the suite's for this environment."
        )
    return config(**{name: env_config[name] for name in known & given})


def check_batch(kind: str, num_envs: int, seed: int) -> None:
    """Refuses what no batch can be made with.

    Args:
        kind: of environment, for the message.
        num_envs: number of environments, at least 1.
        seed: the run's, at least 0.

    Raises:
        ValueError: one of them is out of its range.
    """
    if num_envs < 1:
        raise ValueError(f"{kind}: num_envs must be at least 1, got {num_envs}.")
    _check_seed(kind, seed)


def check_reset(kind: str, seed: int | None, options: dict[str, Any] | None) -> None:
    """Refuses the arguments of a `reset` that knows no options.

    Args:
        kind: of environment, for the message.
        seed: at least 0, or None for the one it has.
        options: none are known.

    Raises:
        ValueError: an option was given or the seed is negative.
    """
    if options:
        raise ValueError(f"{kind}: reset knows no options, got {sorted(options)}.")
    if seed is not None:
        _check_seed(kind, seed)


def one_line(error: BaseException) -> str:
    """Returns an error's message for the end of a sentence, without its line breaks and full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _check_seed(kind: str, seed: int) -> None:
    if seed < 0:
        raise ValueError(f"{kind}: seed must be at least 0, got {seed}.")
