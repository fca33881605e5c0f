"""Batches of DeepMind Lab levels, one process each, with IMPALA's protocol (Tables C.2 and C.3)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from absl import logging
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from tf_agents.trajectories import time_step as ts

from repro.environments import dmlab_language, specs
from repro.environments.batched import check_batch, check_reset, read_config
from repro.environments.dmlab_game import ACTIONS
from repro.environments.dmlab_levels import LEVELS, level_name
from repro.environments.dmlab_process import ROOT, GameFailedError, GameProcess
from repro.environments.reward_clips import check_reward_clip
from repro.environments.stepped_levels import SteppedLevels

KIND = "DeepMind Lab"
"""Name of this kind of environments in messages."""

ENGINE_FPS = 60
"""Number of the engine's frames in a second of play."""
MAX_FAILURES = 3
"""Number of consecutive failures, each with another seed, after which a level counts as broken."""

Observation = np.ndarray | dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class DmlabConfig:
    """The protocol of a level.

    Attributes:
        task: a level in any spelling that `dmlab_levels.level_name` accepts.
        frame_skip: number of frames of the engine, 60 a second, for which an action is held; at least 1.
        height: height of the observation in pixels.
        width: width of the observation in pixels.
        reward_clip: one of `reward_clips.REWARD_CLIPS`.
        instruction_length: largest number of words of an instruction; 0 for observations without instructions.
        instruction_vocabulary: size of the vocabulary, see `dmlab_language.word_id`; at least 2.
        last_action_and_reward: whether `make_environment` adds them to the observations; see `WithLastStep`.
        test: whether to play the level's test variant, with seeds that training never uses.
        level_set: number of a sequence of episodes that all runs share, so that its maps are compiled once; the batches
            of a run take turns in it. A restarted actor process continues with the sequence of the next number
            (`make.config_of_start`). 0 gives each batch its own episodes.
        level_cache: folder for compiled maps, shared by all levels and runs; a relative path starts in the suite's
            folder, wherever a run was started. Empty for no cache.
        stagger_steps: number of steps over which cuts of the environments' first episodes are spread, so that levels
            with a clock do not all end together; 0 for no cuts. Tests have none.
        timeout: seconds after which a process that does not answer is killed; compiling a map takes up to a minute.

    Raises:
        ValueError: a field is out of its range.
        UnknownTaskError: no level has the task's name.
    """

    task: str
    frame_skip: int
    height: int
    width: int
    reward_clip: str
    instruction_length: int
    instruction_vocabulary: int
    last_action_and_reward: bool = False
    test: bool = False
    level_set: int = 0
    level_cache: str = ""
    stagger_steps: int = 0
    timeout: float = 600.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", level_name(self.task))
        for name, min_value in (
            ("frame_skip", 1),
            ("height", 1),
            ("width", 1),
            ("instruction_length", 0),
            ("instruction_vocabulary", 2),
            ("level_set", 0),
            ("stagger_steps", 0),
        ):
            if not getattr(self, name) >= min_value:
                raise ValueError(f"{KIND}: {name} must be at least {min_value}, got {getattr(self, name)}.")
        if not self.level_set < 2**31:
            raise ValueError(f"{KIND}: level_set must be below 2^31, got {self.level_set}.")
        if not self.timeout > 0:
            raise ValueError(f"{KIND}: timeout must be above 0 seconds, got {self.timeout}.")
        check_reward_clip(KIND, self.reward_clip)

    @property
    def label(self) -> str:
        """Name of the level in the engine."""
        level = LEVELS[self.task]
        return level.test if self.test else level.train

    def mixer(self, seed: int) -> int:
        """Returns the part of the seed that all episodes of a batch share, in [0, 2^32).

        The engine's 64-bit seed has this part in its upper half and the episode's seed in its lower half, so two
        episodes of a level are the same if both parts are. Test episodes have the highest bit set.

        Args:
            seed: seed of the batch, in [0, 2^31).
        """
        return (self.test << 31) | (self.level_set or seed)

    def first_cut(self, place: int, num_envs: int) -> int:
        """Returns the step at which an environment's first episode is cut if it is still open; 0 for never.

        The cuts are spread evenly over `stagger_steps`, and the first environment has none.

        Args:
            place: index of the environment among all environments of the run.
            num_envs: number of environments of the run.
        """
        return 0 if self.test else self.stagger_steps * place // num_envs

    def make_task(self, seed: int) -> GameProcess:
        """Returns a level, whose process starts with its first episode.

        Args:
            seed: seed of the batch, in [0, 2^31).

        Raises:
            MissingModuleError: DeepMind Lab is not built.
        """
        settings = {
            "width": str(self.width),
            "height": str(self.height),
            "fps": str(ENGINE_FPS),
            "mixerSeed": str(self.mixer(seed)),
            "logLevel": "WARN",
            "allowHoldOutLevels": "true",  # two of the test levels
            "datasetPath": "dummy",  # the photographs of two psychlab levels were never shipped
        }
        cache = str(ROOT / self.level_cache) if self.level_cache else None
        return GameProcess(self.label, settings, cache, self.timeout, ENGINE_FPS / self.frame_skip)


def make_dmlab(
    env_config: Mapping[str, Any], num_envs: int, seed: int, shard: tuple[int, int] = (0, 1)
) -> DmlabEnvironment:
    """Returns a batch of one level of DeepMind Lab.

    Args:
        env_config: fields of `DmlabConfig`; those with defaults may be left out, and an entry `name` is ignored.
        num_envs: number of processes, at least 1.
        seed: seed of the batch, in [0, 2^31); each batch of a run needs another one.
        shard: index of the batch in its run, and number of batches of the run, which share a `level_set`.

    Raises:
        ValueError: a field is missing, unknown or out of its range, or no level has the task's name.
        MissingModuleError: DeepMind Lab is not built; the message says how to do that.
    """
    return DmlabEnvironment(read_config(KIND, DmlabConfig, env_config), num_envs, seed, shard)


class DmlabEnvironment(SteppedLevels):
    """A batch of one level of DeepMind Lab; its environments step in parallel, each in a process of its own.

    Observations are frames, uint8 [72, 96, 3] in the papers, or with instructions dicts of `frame` and `instruction`,
    int32 [instruction_length] (see `dmlab_language.encode`). The engine renders no frame for the last step of an
    episode, which therefore returns the previous frame.

    Every end of an episode is reported as terminated, also that by the clock, because levels do not tell them apart.

    Episodes. Episode e of environment i, in batch k of K, has the seed (e N + i) K + k, combined with
    `DmlabConfig.mixer`. No seed is used twice: neither after a failure, nor by a run that continues from a saved state
    or, with new episodes in all environments, from saved counters. A restarted actor process has another mixer.

    Staggered starts. Where all episodes begin together, after `reset` and `set_state`, the first episode of each
    environment may be cut as by a time limit (`DmlabConfig.first_cut`).

    Failures. If a process ends, raises an error or does not answer in time, the rest of its episode is lost: the
    episode is cut as by a time limit, with reward 0, and the next one begins in a new process. After `MAX_FAILURES`
    consecutive failures of an environment without a step in between, `reset` or `step` raises an error.

    Saved states. The engine cannot be saved: after `set_state`, open episodes are cut as after a failure.

    The info of a step contains `lost`, bool [N], whether the step cut an episode for one of these reasons; the return
    of such an episode does not count.

    Args:
        config: the protocol.
        num_envs: N, the number of environments, at least 1.
        seed: seed of the batch, in [0, 2^31).
        shard: k and K, index of the batch in its run and number of batches of the run.

    Attributes:
        config: the protocol.
        failures: number of processes that have failed so far.

    Raises:
        ValueError: `num_envs`, `seed` or `shard` is out of its range.
        MissingModuleError: DeepMind Lab is not built.
    """

    def __init__(self, config: DmlabConfig, num_envs: int, seed: int, shard: tuple[int, int] = (0, 1)) -> None:
        check_batch(KIND, num_envs, seed)
        if not seed < 2**31 or not 0 <= shard[0] < shard[1]:
            raise ValueError(f"{KIND}: seed must be below 2^31, and 0 <= shard[0] < shard[1], got {seed}, {shard}.")
        self.config, self._shard = config, shard
        tasks = [config.make_task(seed) for _ in range(num_envs)]
        size, rewards = (config.height, config.width), (config.frame_skip, config.reward_clip)
        super().__init__(KIND, config.label, tasks, size, len(ACTIONS), 0, seed, *rewards)
        if config.instruction_length:
            words = spaces.Box(0, config.instruction_vocabulary - 1, (config.instruction_length,), np.int32)
            frames = self.single_observation_space
            self.single_observation_space: gymnasium.Space = spaces.Dict(frame=frames, instruction=words)
            self.observation_space = batch_space(self.single_observation_space, num_envs)
            self.observation_spec = specs.tensor_spec_of(self.single_observation_space, "observation")
            self.time_step_spec = ts.time_step_spec(self.observation_spec)
        self.failures = 0
        self._failed = [0] * num_envs  # consecutive failures
        self._lost = [False] * num_envs  # episodes that `set_state` leaves to be cut
        self._cut = [False] * num_envs  # episodes that the last step cut without an end
        self._instructions = [""] * num_envs
        self._first_cuts = [0] * num_envs  # for first episodes that are still open; else 0

    @property
    def max_steps(self) -> int:
        """Raises ValueError, because the lengths of episodes are known to the levels only."""
        raise ValueError(f"{KIND}: episodes have no known time limit, and this agent needs one.")

    @property
    def instructions(self) -> tuple[str, ...]:
        """Current instructions in words; empty where a level gives none."""
        return tuple(self._instructions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins a new episode in every environment.

        Args:
            seed: new seed of the batch, which restarts its sequence of episodes; None continues the sequence.
            options: no options are supported.

        Returns:
            observation: as described for the class, [N, ...].
            info: empty.

        Raises:
            ValueError: an option was given or the seed is out of its range.
            RuntimeError: a level failed `MAX_FAILURES` times in a row.
        """
        check_reset(KIND, seed, options)
        if seed is not None and not seed < 2**31:
            raise ValueError(f"{KIND}: seed must be below 2^31, got {seed}.")
        if seed is not None:
            self.close()
            self._tasks = [self.config.make_task(seed) for _ in self._tasks]
            self._episodes = [0] * self.num_envs
        self._lost = [False] * self.num_envs
        self._stagger()
        frames, info = super().reset(seed=seed)
        return self._observe(frames), info

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every environment; see `SteppedLevels.step`, and the class for observations and `lost`.

        Raises:
            ValueError: the actions have a wrong shape or range.
            RuntimeError: `step` was called before `reset` or `set_state`, or a level failed `MAX_FAILURES` times in a
                row.
        """
        self._cut = list(self._lost)
        frames, reward, terminated, truncated, info = super().step(actions)
        return self._observe(frames), reward, terminated, truncated, info | {"lost": np.array(self._cut)}

    def get_state(self) -> dict[str, Any]:
        own = {"episodes": np.array(self._episodes), "lost": np.array(self._lost)}
        return super().get_state() | own | {"instructions": json.dumps(self._instructions)}

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Restores a state, from which the next episodes follow; open episodes are cut (see the class).

        Args:
            state: state from `get_state` of a batch of the same level and size.

        Returns:
            The current observation, as `step` or `reset` returned it.

        Raises:
            ValueError: the state is of another level, another number of environments or other observations.
        """
        frames = super().set_state(state)
        self.close()
        self._tasks = [self.config.make_task(self._seed) for _ in self._tasks]
        self._episodes = np.asarray(state["episodes"]).tolist()
        self._instructions = json.loads(str(state["instructions"]))
        self._lost = [not over for over in self._over]
        self._stagger()
        return self._observe(frames)

    def _episode_seed(self, row: int) -> int:
        index, batches = self._shard
        return (self._episodes[row] * self.num_envs + row) * batches + index

    def _stagger(self) -> None:
        """Sets the steps at which episodes that begin together are cut."""
        index, batches = self._shard
        everywhere = self.num_envs * batches
        self._first_cuts = [self.config.first_cut(i, everywhere) for i in range(index, everywhere, batches)]

    def _dispatch(self, actions: Sequence[Any] | np.ndarray | None) -> None:
        for row, task in enumerate(self._tasks):
            if actions is None or self._over[row]:
                self._request_episode(row)
            elif not self._lost[row]:
                task.request("step", actions[row], self.config.frame_skip)

    def _request_episode(self, row: int) -> None:
        self._tasks[row].request("begin", self._episode_seed(row))
        self._episodes[row] += 1

    def _begin(self, row: int, seed: int | None) -> np.ndarray:
        del seed  # the request has it
        while True:
            try:
                frame, self._instructions[row] = self._tasks[row].answer()
            except GameFailedError as error:
                self._fail(row, error)
                self._request_episode(row)
            else:
                return self._read(frame)

    def _advance(self, row: int, action: int) -> tuple[np.ndarray, float, bool, bool]:
        del action  # it was sent by `_dispatch`
        if not self._lost[row]:
            try:
                reward, frame, self._instructions[row], over = self._tasks[row].answer()
            except GameFailedError as error:
                self._fail(row, error)
                self._cut[row] = True
                self._first_cuts[row] = 0  # the failure has cut the first episode, if it was that one
            else:
                self._failed[row] = 0
                is_cut = not over and self._steps[row] + 1 == self._first_cuts[row]
                if over or is_cut:
                    self._first_cuts[row] = 0
                return self._read(frame), reward, over, is_cut
        self._lost[row] = False
        return self._observation[row], 0.0, False, True

    def _fail(self, row: int, error: GameFailedError) -> None:
        self.failures += 1
        self._failed[row] += 1
        message = f"{KIND}: {self._label} failed in episode {self._episodes[row]} of environment {row}: {error}"
        if self._failed[row] >= MAX_FAILURES:
            self.close()
            raise RuntimeError(f"{message}; it was failure {MAX_FAILURES} in a row.")
        logging.error("%s; another episode begins.", message)

    def _read(self, frame: bytes) -> np.ndarray:
        return np.frombuffer(frame, np.uint8).reshape(self._observation.shape[1:])

    def _observe(self, frames: np.ndarray) -> Observation:
        config = self.config
        if not config.instruction_length:
            return frames
        words = [
            dmlab_language.encode(text, config.instruction_vocabulary, config.instruction_length)
            for text in self._instructions
        ]
        return {"frame": frames, "instruction": np.stack(words)}
