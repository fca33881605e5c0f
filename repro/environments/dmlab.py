"""Batches of DeepMind Lab levels, one process each, under IMPALA's rules (Tables C.2 and C.3)."""

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
MAX_FAILURES = 3
"""Failures in a row, each with another seed, until a level counts as broken."""

Observation = np.ndarray | dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class DmlabConfig:
    """The protocol, one field an item.

    Attributes:
        task: a level in any spelling that `dmlab_levels.level_name` knows.
        frame_skip: frames of the engine, 60 a second, for which an action is held; at least 1.
        height: height of the observation in pixels.
        width: width of the observation in pixels.
        reward_clip: one of `reward_clips.REWARD_CLIPS`.
        instruction_length: most words of an instruction; 0 for observations without instructions.
        instruction_vocabulary: numbers of words, see `dmlab_language.word_id`; at least 2.
        last_action_and_reward: whether `make_environment` adds them to the observations; see `WithLastStep`.
        test: plays the level's twin for tests, and seeds that training never has.
        level_set: 0: each batch has episodes of its own. Above: number of a sequence of episodes that all runs go
            through, so that their maps are compiled once; the batches of a run take turns in it. An actor's process
            that is started again goes through that of the next number (`make.config_of_start`).
        level_cache: folder for compiled maps, shared by all levels and runs; a relative one is in the suite's own
            folder, wherever a run was started. Empty for none.
        stagger_steps: over which the first episodes of a run's environments are cut, so that levels that end by the
            clock do not end together; 0: none is cut. In tests none is.
        timeout: seconds after which a process that does not answer is ended; compiling a map takes up to a minute.
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
        """The engine's name of the level that is played."""
        level = LEVELS[self.task]
        return level.test if self.test else level.train

    def mixer(self, seed: int) -> int:
        """Returns the part of an episode's seed that all episodes of a batch share, in [0, 2^32).

        The engine's 64-bit seed is this one and below it that of the episode, so two episodes of a level are the same
        where both are. Those of tests have the uppermost bit set.

        Args:
            seed: of the batch, in [0, 2^31).
        """
        return (self.test << 31) | (self.level_set or seed)

    def first_cut(self, place: int, num_envs: int) -> int:
        """Returns the steps after which an environment's first episode is cut, if it is still open; 0 for never.

        The cuts are spread evenly over `stagger_steps`, and the first environment has none.

        Args:
            place: of the environment among all of the run.
            num_envs: of the run.
        """
        return 0 if self.test else self.stagger_steps * place // num_envs

    def make_task(self, seed: int) -> GameProcess:
        """One level; its process starts with its first episode.

        Args:
            seed: of the batch, in [0, 2^31).

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
            "datasetPath": "dummy",  # the photographs of two psychlab levels never came with it
        }
        cache = str(ROOT / self.level_cache) if self.level_cache else None
        return GameProcess(self.label, settings, cache, self.timeout, ENGINE_FPS / self.frame_skip)


def make_dmlab(
    env_config: Mapping[str, Any], num_envs: int, seed: int, shard: tuple[int, int] = (0, 1)
) -> DmlabEnvironment:
    """Returns a batch of one level of DeepMind Lab.

    Args:
        env_config: the fields of `DmlabConfig`, of which those with defaults may be left out; an entry `name` is
            allowed and not read.
        num_envs: number of processes, at least 1.
        seed: the batch's, in [0, 2^31). Environments of one run need seeds of their own.
        shard: number of the batch among those of its run, and how many there are; they share a `level_set`.

    Raises:
        ValueError: a field is missing, unknown or out of its range, or no level has the task's name.
        MissingModuleError: DeepMind Lab is not built; the message says how to do that.
    """
    return DmlabEnvironment(read_config(KIND, DmlabConfig, env_config), num_envs, seed, shard)


class DmlabEnvironment(SteppedLevels):
    """A batch of one level of DeepMind Lab, which all step at the same time in processes of their own.

    Observations are frames, uint8 [72, 96, 3] in the papers, or with an instruction dicts of `frame` and `instruction`,
    int32 [instruction_length] (see `dmlab_language.encode`). The frame of an episode's last step is the one before it:
    the engine has none.

    Every end is reported as terminated, the clock's as well: levels do not say which it was.

    Episodes. Number e of environment i, in batch k of K, has the seed (e N + i) K + k, under the mixer of
    `DmlabConfig.mixer`. None is used twice: not after a failure, nor by a run that goes on from a saved state or, with
    new episodes everywhere, from saved counters. An actor's process that is started again has another mixer.

    Staggered starts. Where all episodes begin together, after `reset` and `set_state`, the first one of each
    environment may be cut as by a time limit (`DmlabConfig.first_cut`).

    Failures. A process that ends, raises an error or does not answer in time costs the rest of its episode, which is
    cut as by a time limit, with reward 0, and counts with the return that it had; the next one begins in a new process.
    `MAX_FAILURES` in a row without a step in between end the run.

    Saved states. The engine cannot be saved: after `set_state` open episodes are cut as after a failure, but do not
    count: the info of a step has `lost` as well, bool [N], the step cut an episode so.

    Attributes:
        config: the protocol.
        failures: processes lost so far.
    """

    def __init__(self, config: DmlabConfig, num_envs: int, seed: int, shard: tuple[int, int] = (0, 1)) -> None:
        check_batch(KIND, num_envs, seed)
        if not seed < 2**31 or not 0 <= shard[0] < shard[1]:
            raise ValueError(f"{KIND}: seed must be below 2^31 and shard below its number, got {seed}, {shard}.")
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
        self._failed = [0] * num_envs  # in a row
        self._lost = [False] * num_envs
        self._instructions = [""] * num_envs
        self._first_cuts = [0] * num_envs  # of first episodes that are still open; 0 for others

    @property
    def max_steps(self) -> int:
        """Raises ValueError: the levels keep their clocks to themselves."""
        raise ValueError(f"{KIND}: the lengths of episodes are not known, and this agent needs a limit.")

    @property
    def instructions(self) -> tuple[str, ...]:
        """The present instructions, in words; empty where a level gives none."""
        return tuple(self._instructions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins a new episode everywhere.

        Args:
            seed: replaces the batch's and begins its sequence of episodes again; None goes on in the sequence.
            options: none are known.

        Returns:
            observation: as the class says, [N, ...]; an info that is empty.

        Raises:
            ValueError: an option was given or the seed is out of its range.
            RuntimeError: a level fails again and again.
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
        """See `SteppedLevels.step`; the observation is as the class says."""
        lost = np.array(self._lost)  # those that it cuts
        frames, reward, terminated, truncated, info = super().step(actions)
        return self._observe(frames), reward, terminated, truncated, info | {"lost": lost}

    def get_state(self) -> dict[str, Any]:
        own = {"episodes": np.array(self._episodes), "lost": np.array(self._lost)}
        return super().get_state() | own | {"instructions": json.dumps(self._instructions)}

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Goes on with the next episodes; the open ones are cut (see the class).

        Args:
            state: from `get_state` of a batch of the same level and size.

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
        """Sets after how many steps the episodes are cut that begin together."""
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
        del action  # is under way
        if not self._lost[row]:
            try:
                reward, frame, self._instructions[row], over = self._tasks[row].answer()
            except GameFailedError as error:
                self._fail(row, error)
                self._first_cuts[row] = 0  # it was, if it was the first
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
