"""Batches of ViZDoom scenarios, 3D levels whose engine installs with pip; see docs/vizdoom.md."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from repro.environments.batched import check_batch, check_reset, read_config
from repro.environments.reward_clips import check_reward_clip
from repro.environments.stepped_levels import SteppedLevels
from repro.environments.vizdoom_game import Game
from repro.environments.vizdoom_scenarios import scenario_name

KIND = "ViZDoom"
"""Name of this kind of environments in messages."""

ENGINE_FPS = 35
"""Number of the engine's frames in a second of play."""
ENGINE_HEIGHT, ENGINE_WIDTH = 120, 160
"""Size of the engine's frames in pixels."""


@dataclasses.dataclass(frozen=True)
class VizdoomConfig:
    """The protocol of a scenario.

    Attributes:
        task: a scenario in any spelling that `vizdoom_scenarios.scenario_name` accepts.
        frame_skip: number of frames of the engine, 35 a second, for which an action is held; at least 1.
        height: height of the observation in pixels, at most 120.
        width: width of the observation in pixels, at most 160.
        reward_clip: one of `reward_clips.REWARD_CLIPS`.
        last_action_and_reward: whether `make_environment` adds them to the observations; see `WithLastStep`.

    Raises:
        ValueError: a field is out of its range.
        UnknownTaskError: no scenario has the task's name.
    """

    task: str
    frame_skip: int
    height: int
    width: int
    reward_clip: str
    last_action_and_reward: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", scenario_name(self.task))
        if self.frame_skip < 1:
            raise ValueError(f"{KIND}: frame_skip must be at least 1, got {self.frame_skip}.")
        for name, limit in (("height", ENGINE_HEIGHT), ("width", ENGINE_WIDTH)):
            if not 1 <= getattr(self, name) <= limit:
                raise ValueError(f"{KIND}: {name} must lie between 1 and {limit}, got {getattr(self, name)}.")
        check_reward_clip(KIND, self.reward_clip)

    def make_task(self) -> Game:
        """Returns a scenario with a new engine.

        Raises:
            MissingModuleError: ViZDoom is not installed.
        """
        return Game(self.task, self.height, self.width, self.frame_skip, ENGINE_FPS / self.frame_skip)


def make_vizdoom(env_config: Mapping[str, Any], num_envs: int, seed: int) -> VizdoomEnvironment:
    """Returns a batch of one scenario of ViZDoom.

    Args:
        env_config: fields of `VizdoomConfig`; those with defaults may be left out, and an entry `name` is ignored.
        num_envs: number of engines, stepped one after the other; at least 1.
        seed: seed of the batch, at least 0; each batch of a run needs another one.

    Raises:
        ValueError: a field is missing, unknown or out of its range.
        UnknownTaskError: no scenario has this name.
        MissingModuleError: ViZDoom is not installed; the message says how to install it.
    """
    return VizdoomEnvironment(read_config(KIND, VizdoomConfig, env_config), num_envs, seed)


class VizdoomEnvironment(SteppedLevels):
    """A batch of one scenario of ViZDoom; see `SteppedLevels` for how it is stepped.

    Observations are frames, uint8 [height, width, 3]. The engine renders no frame for a step in which the player dies
    or the map ends; such a step returns the previous frame.

    Ends of episodes. The player's death and the end of a map terminate an episode, and the scenario's time limit
    truncates it. The limit is rounded up to whole actions.

    Episodes. Episode e of environment i has a seed computed from the batch's seed, i and e, and depends only on this
    seed and its actions. No seed is used twice, not even by a run that continues with new episodes from saved counters.

    Saved states contain the actions of open episodes, which `set_state` replays; everything that follows is
    bit-identical.

    Args:
        config: the protocol.
        num_envs: number of engines, stepped one after the other; at least 1.
        seed: seed of the batch, at least 0.

    Attributes:
        config: the protocol.
        actions: names of the buttons that each action presses.

    Raises:
        ValueError: `num_envs` or `seed` is out of its range.
        MissingModuleError: ViZDoom is not installed.
    """

    def __init__(self, config: VizdoomConfig, num_envs: int, seed: int) -> None:
        check_batch(KIND, num_envs, seed)
        self.config = config
        tasks = [config.make_task() for _ in range(num_envs)]
        self.actions = tasks[0].actions
        self._max_steps = math.ceil(tasks[0].time_limit / config.frame_skip)
        size, rewards = (config.height, config.width), (config.frame_skip, config.reward_clip)
        super().__init__(KIND, config.task, tasks, size, len(self.actions), self._max_steps, seed, *rewards)
        self._played: list[list[int]] = [[] for _ in tasks]  # actions of the current episodes

    @property
    def max_steps(self) -> int:
        """Number of steps after which an episode is cut.

        Raises:
            ValueError: the scenario has no time limit.
        """
        if not self._max_steps:
            raise ValueError(f"{KIND}: {self.config.task} has no time limit, and this agent needs one.")
        return self._max_steps

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins a new episode in every environment.

        Args:
            seed: new seed of the batch, which restarts its sequence of episodes; None continues the sequence.
            options: no options are supported.

        Returns:
            observation: [N, height, width, 3].
            info: empty.

        Raises:
            ValueError: an option was given or the seed is negative.
        """
        check_reset(KIND, seed, options)
        if seed is not None:
            self._episodes = [0] * self.num_envs
        return super().reset(seed=seed)

    def get_state(self) -> dict[str, Any]:
        played = {str(row): np.array(actions, np.int32) for row, actions in enumerate(self._played)}
        return super().get_state() | {"episodes": np.array(self._episodes), "played": played}

    def set_state(self, state: Mapping[str, Any]) -> np.ndarray:
        """Restores every environment to where `get_state` was called, by replaying its open episode.

        Args:
            state: state from `get_state` of a batch of the same scenario and size.

        Returns:
            The current observation, as `step` or `reset` returned it.

        Raises:
            ValueError: the state is of another scenario, another number of environments or other observations, or a
                replayed episode differs from the saved one.
        """
        observation = super().set_state(state)
        self._episodes = np.asarray(state["episodes"]).tolist()
        self._played = [np.asarray(state["played"][str(row)]).tolist() for row in range(self.num_envs)]
        for row in range(self.num_envs):
            if self._over[row]:
                continue
            frame = self._replay(row)
            if frame is None or not np.array_equal(frame, observation[row]):
                raise ValueError(
                    f"{KIND}: an episode of the saved {self.config.task} cannot be replayed, perhaps because the "
                    "version of ViZDoom has changed."
                )
        return observation

    def _episode_seed(self, row: int) -> int:
        """Returns the seed of a task's current episode, in [0, 2^31)."""
        return int(np.random.SeedSequence((self._seed, row, self._episodes[row])).generate_state(1)[0] >> 1)

    def _begin(self, row: int, seed: int | None) -> np.ndarray:
        del seed  # computed from the episode's number below
        self._episodes[row] += 1
        self._played[row] = []
        return self._tasks[row].begin(self._episode_seed(row))

    def _advance(self, row: int, action: int) -> tuple[np.ndarray, float, bool, bool]:
        self._played[row].append(action)
        reward, frame = self._tasks[row].step(action)
        if frame is None:
            return self._observation[row], reward, True, False
        return frame, reward, False, False

    def _replay(self, row: int) -> np.ndarray | None:
        """Replays a task's open episode from its beginning; returns its last frame, or None if the episode ends."""
        frame = self._tasks[row].begin(self._episode_seed(row))
        for action in self._played[row]:
            _, frame = self._tasks[row].step(action)
        return frame
