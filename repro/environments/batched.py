"""The contract between environments and the runtime, and the checks that all environments share."""

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
    """A task cannot be rendered; the message gives the reason in one sentence."""


class BatchedEnvironment(Protocol):
    """A batched Gymnasium `VectorEnv` of `num_envs` games with its TF-Agents specs.

    The step that ends a game returns its last observation. The next step ignores that game's action and returns the
    first observation of a new game with reward 0. An episode may end for learning (a lost life) without a reset.

    Attributes:
        num_envs: N, the number of games.
        num_actions: number of discrete actions, or of components of a continuous action.
        metadata: Gymnasium's metadata, with `render_fps`, the number of agent steps in a second of play.
    """

    num_envs: int
    num_actions: int
    metadata: dict[str, Any]

    @property
    def time_step_spec(self) -> ts.TimeStep:
        """Time-step spec of one environment, without the batch dimension."""

    @property
    def action_spec(self) -> BoundedTensorSpec:
        """Action spec of one environment, without the batch dimension."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts a new game in every environment; returns observations [N, ...] and an info.

        Args:
            seed: seed that replaces the environment's; None continues with the current one.
        """

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every game.

        Args:
            actions: discrete actions, int32 [N], or continuous ones, float32 [N, A].

        Returns:
            observation: [N, ...]; the next step may reuse its memory.
            reward: reward for learning, float32 [N].
            terminated: bool [N], whether the episode ended for learning; the value of what follows is then 0.
            truncated: bool [N], whether a time limit cut the episode; the value of the observation then counts.
            info: `game_over` bool [N] and, where it is true, `episode_return` float32 [N], the unclipped return of the
                whole game, and `episode_frames` int32 [N]. In a batch of several tasks also `task` int32 [N], the
                number of each environment's task. Where observations contain another reward than the one for learning,
                `last_reward` float32 [N]. Where saved states do not include open games, `lost` bool [N], whether the
                step cut a game that could not be continued and whose return does not count.
        """

    def get_state(self) -> dict[str, Any]:
        """Returns nested dictionaries of arrays, numbers and strings, from which `set_state` continues bit for bit."""

    def set_state(self, state: dict[str, Any]) -> Any:
        """Restores a state from `get_state`; returns the current observations."""

    def render_first(self) -> np.ndarray:
        """Returns an RGB picture of the current state of the first game, uint8 [H, W, 3].

        Raises:
            RenderError: the game cannot be rendered.
        """

    def close(self, **kwargs: Any) -> None:
        """Frees the environments."""


@runtime_checkable
class CountsEpisodes(Protocol):
    """An environment with numbered episodes, so that a resumed run that begins new ones repeats none."""

    def get_counters(self) -> dict[str, np.ndarray]:
        """Returns the counters of episodes; may be called while another thread steps the environment."""

    def set_counters(self, counters: Mapping[str, np.ndarray]) -> None:
        """Continues after the episodes that `get_counters` counted; call it before `reset`."""


class VectorEnvironment(BatchedEnvironment, Protocol):
    """Environments whose observations are vectors, float32 [N, S]."""

    single_observation_space: gymnasium.Space
    single_action_space: gymnasium.Space

    @property
    def state_size(self) -> int:
        """S, the number of entries of an observation. Raises ValueError where observations are images."""

    @property
    def max_steps(self) -> int:
        """Number of steps after which an episode is cut. Raises ValueError where episodes have no limit."""


_Config = TypeVar("_Config")


def read_config(kind: str, config: type[_Config], env_config: Mapping[str, Any]) -> _Config:
    """Returns a dataclass with the values of `config.env`, whose entries `name` and `tasks` are ignored.

    Args:
        kind: kind of environment, for the message.
        config: the dataclass.
        env_config: values of all fields without a default, and of any others.

    Raises:
        ValueError: a field is missing or unknown, or the dataclass rejects a value.
    """
    given = set(env_config) - {"name", "tasks"}
    fields = dataclasses.fields(config)  # type: ignore[arg-type]
    known = {field.name for field in fields}
    missing = dataclasses.MISSING
    required = {field.name for field in fields if field.default is missing and field.default_factory is missing}
    for name in sorted(required - given):
        raise ValueError(f"{kind}: the environment's config has no field {name!r}, which is required.")
    for name in sorted(given - known):
        raise ValueError(
            f"{kind}: the environment's config has a field {name!r} that nothing reads: delete it in a config of your "
            "own, or use one of the suite's configs for this environment."
        )
    return config(**{name: env_config[name] for name in known & given})


def check_batch(kind: str, num_envs: int, seed: int) -> None:
    """Checks the size and the seed of a batch.

    Args:
        kind: kind of environment, for the message.
        num_envs: number of environments, at least 1.
        seed: seed of the batch, at least 0.

    Raises:
        ValueError: `num_envs` or `seed` is out of its range.
    """
    if num_envs < 1:
        raise ValueError(f"{kind}: num_envs must be at least 1, got {num_envs}.")
    _check_seed(kind, seed)


def check_reset(kind: str, seed: int | None, options: dict[str, Any] | None) -> None:
    """Checks the arguments of a `reset` without options.

    Args:
        kind: kind of environment, for the message.
        seed: new seed, at least 0, or None for the current one.
        options: options of `reset`, which must be empty or None.

    Raises:
        ValueError: an option was given or the seed is negative.
    """
    if options:
        raise ValueError(f"{kind}: reset takes no options, got {sorted(options)}.")
    if seed is not None:
        _check_seed(kind, seed)


def one_line(error: BaseException) -> str:
    """Returns an error's message without line breaks and final full stop, to be put into a sentence."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _check_seed(kind: str, seed: int) -> None:
    if seed < 0:
        raise ValueError(f"{kind}: seed must be at least 0, got {seed}.")
