"""Batches of Atari games: ALE's vector environment with the papers' protocols and exact save and restore."""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import ale_py
import cv2
import gymnasium
import numpy as np
from ale_py import roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from tf_agents.trajectories import time_step as ts

from repro.aligned import aligned_empty
from repro.environments import games, specs
from repro.environments.batched import check_batch, check_reset, read_config

Observation = np.ndarray | dict[str, np.ndarray]

MAX_SIZE = 10_000
"""Largest value of the config's sizes and numbers of frames, far above any useful one."""
CONSOLE_FPS = 60
"""Number of emulator frames in a second of play."""

# Games whose program does not clear all of the console's memory when it starts, so that a game can depend on the
# previous one. They were found by starting each ROM of ale-py 0.12.1 from overwritten memory and comparing the
# complete state of the emulator.
_KEEPS_MEMORY = frozenset(
    {
        "crossbow",
        "entombed",
        "hangman",
        "haunted_house",
        "ice_hockey",
        "kung_fu_master",
        "pooyan",
        "seaquest",
        "sir_lancelot",
        "space_war",
        "surround",
        "time_pilot",
        "venture",
        "yars_revenge",
    }
)

# Seeding reloads the ROM, which takes 80 ms, as long as 200 steps; but restoring a game replays everything since its
# emulator's seed, which takes long if the seed is old. These two bounds keep both times small: seeding takes 0.2 % of
# the emulators' time in games of 1250 steps and 0.8 % in games of 190.
_RESETS_PER_SEED = 128
_STEPS_PER_SEED = 16384

# ALE's frame limit is not used, since it would end a game before the last frame is rendered.
_NO_LIMIT = 2**31 - 2

NUM_CONSOLE_ACTIONS = 18
"""Number of combinations of joystick position and button."""


@dataclasses.dataclass(frozen=True)
class AtariConfig:
    """The Atari protocol.

    Attributes:
        task: the game in any usual spelling (`pong`, `ALE/Pong-v5`).
        frame_skip: number of emulator frames for which an action is held; at least 1.
        max_pool: 2 observes the pixel-wise maximum of the last two of these frames, 1 only the last frame.
        grey: whether frames are luminance (one channel) instead of RGB (three).
        height: height of the observation in pixels.
        width: width of the observation in pixels.
        stack: number of the latest frames in an observation; frames before a game's first are black.
        noop_max: largest number of no-op emulator frames at the start of a game, sampled uniformly from 1 to noop_max;
            0 for none.
        life_loss_ends: whether a lost life is reported as terminated, although the game continues.
        reward_clip: bound of rewards, which are clipped to [-reward_clip, reward_clip]; 0 for no clipping.
        fire_on_reset: whether FIRE is held for one emulator frame at the start of a game, if the game uses it.
        sticky_probability: probability in [0, 1) that an emulator frame repeats the previous action.
        full_action_set: whether actions are all 18 of the console instead of those that the game uses. In Skiing, for
            which ALE has no button, actions with the button equal those without it.
        max_frames: number of emulator frames, without no-ops, after which a game ends with the current step.
        time_limit_is_terminal: whether this end is reported as terminated instead of truncated.
        last_action_and_reward: whether observations are dicts of the frame, the last action and its reward.

    Raises:
        ValueError: a field is out of its range.
        UnknownTaskError: no game has the task's name.
    """

    task: str
    frame_skip: int
    max_pool: int
    grey: bool
    height: int
    width: int
    stack: int
    noop_max: int
    life_loss_ends: bool
    reward_clip: float
    fire_on_reset: bool
    sticky_probability: float
    full_action_set: bool
    max_frames: int
    time_limit_is_terminal: bool
    last_action_and_reward: bool

    def __post_init__(self) -> None:
        for name, min_value in (
            ("frame_skip", 1),
            ("height", 1),
            ("width", 1),
            ("stack", 1),
            ("noop_max", 0),
            ("reward_clip", 0),
            ("max_frames", 1),
        ):
            if not getattr(self, name) >= min_value:
                raise ValueError(f"Atari: {name} must be at least {min_value}, got {getattr(self, name)}.")
        for name in ("frame_skip", "height", "width", "stack", "noop_max"):
            if getattr(self, name) > MAX_SIZE:
                raise ValueError(f"Atari: {name} must be at most {MAX_SIZE}, got {getattr(self, name)}.")
        if self.max_pool not in (1, 2):
            raise ValueError(f"Atari: max_pool must be 1 or 2 frames, got {self.max_pool}.")
        if self.max_pool > self.frame_skip:
            raise ValueError(f"Atari: max_pool {self.max_pool} needs a frame_skip of at least 2, got 1.")
        if not 0.0 <= self.sticky_probability < 1.0:
            raise ValueError(f"Atari: sticky_probability must lie in [0, 1), got {self.sticky_probability}.")
        object.__setattr__(self, "task", games.game_name(self.task))


def make_atari(env_config: Mapping[str, Any], num_envs: int, seed: int, num_threads: int = 0) -> AtariEnvironment:
    """Returns a batched Atari environment.

    Args:
        env_config: every field of `AtariConfig`; an entry `name` is ignored.
        num_envs: number of games played in parallel, at least 1.
        seed: seed of the batch, at least 0; each batch of a run needs another one.
        num_threads: number of threads that step the games; 0 for one per usable core, but at most one per game.

    Raises:
        ValueError: a field is missing, unknown or out of its range.
        UnknownTaskError: no game has the task's name.
    """
    return AtariEnvironment(read_config("Atari", AtariConfig, env_config), num_envs, seed, num_threads)


class AtariEnvironment(gymnasium.vector.VectorEnv):
    """A batch of Atari games, stepped by ALE's own threads without Python's lock.

    Games follow each other as in Gymnasium's NEXT_STEP mode: the step after the end of a game ignores its action and
    returns the first observation of the next game with reward 0. A lost life never resets a game.

    Emulators cannot be copied, so a saved state is the history that led to it: the seed with which each emulator was
    loaded, the number of resets since then, and the actions since the current game began. Earlier games need not be
    replayed, because the programs clear the memory when they start. With sticky actions, where the emulator uses random
    numbers in every frame, and for games that do not clear the memory, all actions since the seed are kept. In both
    cases an emulator is seeded again from time to time, which bounds the history.

    An instance may be used by one thread at a time; different threads may step different instances.

    Args:
        config: the protocol.
        num_envs: number of games played in parallel, at least 1.
        seed: seed of the batch, at least 0.
        num_threads: number of threads that step the games; 0 for one per usable core, but at most one per game.

    Attributes:
        config: the protocol.
        num_actions: number of actions.
        num_threads: number of threads that step the games.

    Raises:
        ValueError: `num_envs`, `seed` or `num_threads` is out of its range.
    """

    def __init__(self, config: AtariConfig, num_envs: int, seed: int, num_threads: int = 0) -> None:
        check_batch("Atari", num_envs, seed)
        if num_threads < 0:
            raise ValueError(f"Atari: num_threads must be at least 0, got {num_threads}.")
        self.config = config
        self.num_envs = num_envs
        self.num_threads = num_threads or min(num_envs, len(os.sched_getaffinity(0)))
        fires = config.fire_on_reset and (config.full_action_set or _uses_fire(config.task))
        # ALE samples n in [0, noop_max) for n no-ops, or n - 1 with FIRE. Raising noop_max by 1, or by 2 with FIRE, and
        # resetting games without a no-op again makes 1 to noop_max no-ops equally likely.
        self._min_first_frame = int(fires) + min(config.noop_max, 1)
        self._ale = AtariVectorEnv(
            config.task,
            num_envs,
            num_threads=self.num_threads,
            max_num_frames_per_episode=_NO_LIMIT,
            repeat_action_probability=config.sticky_probability,
            full_action_space=config.full_action_set,
            autoreset_mode=AutoresetMode.NEXT_STEP,
            img_height=config.height,
            img_width=config.width,
            grayscale=config.grey,
            stack_num=config.stack,
            frameskip=config.frame_skip,
            maxpool=config.max_pool == 2,
            noop_max=config.noop_max + 1 + int(fires) if config.noop_max else 0,
            episodic_life=False,
            life_loss_info=False,
            reward_clipping=False,
            use_fire_reset=fires,
        )
        legal = [int(action.value) for action in self._ale.ale.get_action_set()]
        actions = range(NUM_CONSOLE_ACTIONS) if config.full_action_set else legal
        self.num_actions = len(actions)
        self._place_in_ale = np.array([legal.index(_without_fire(a, legal)) for a in actions], np.int32)
        self._paddle_strengths: Any = [1.0] * num_envs  # used with continuous actions only
        channels = config.stack * (1 if config.grey else 3)
        frame: gymnasium.spaces.Box = gymnasium.spaces.Box(0, 255, (config.height, config.width, channels), np.uint8)
        if config.grey and config.stack == specs.STACK:
            frame = specs.FrameStackSpace(config.height, config.width)
        self.single_action_space = gymnasium.spaces.Discrete(self.num_actions)
        self.single_observation_space: gymnasium.Space = frame
        if config.last_action_and_reward:
            bound = config.reward_clip or np.inf
            self.single_observation_space = gymnasium.spaces.Dict(
                frame=frame,
                last_action=self.single_action_space,
                last_reward=gymnasium.spaces.Box(-bound, bound, (), np.float32),
            )
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        fps = CONSOLE_FPS / config.frame_skip
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_fps": fps}
        self.observation_spec = specs.tensor_spec_of(self.single_observation_space, "observation")
        self.action_spec = specs.tensor_spec_of(self.single_action_space, "action")
        self.time_step_spec = ts.time_step_spec(self.observation_spec)

        # The history that leads to the current state of each emulator.
        self._seed = seed
        self._whole_history = config.sticky_probability > 0 or config.task in _KEEPS_MEMORY
        self._seeds_sampled = np.zeros(num_envs, np.int64)
        self._seeds = np.zeros(num_envs, np.int64)
        self._resets = np.zeros(num_envs, np.int64)
        self._actions = np.zeros((num_envs, 1024), np.uint8)
        self._num_actions_kept = np.zeros(num_envs, np.int64)
        # The state of each game.
        self._is_reset = False
        self._rows = np.arange(num_envs)
        self._over = np.zeros(num_envs, bool)
        self._out_of_time = np.zeros(num_envs, bool)
        self._lives = np.zeros(num_envs, np.int32)
        self._first_frame = np.zeros(num_envs, np.int32)
        self._frames = np.zeros(num_envs, np.int32)
        self._returns = np.zeros(num_envs, np.float64)
        self._last_action = np.zeros(num_envs, np.int32)
        self._last_reward = np.zeros(num_envs, np.float32)
        self._stacked: np.ndarray = np.zeros(0, np.uint8)

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the emulators and their threads; ALE prints that those alive at the end of Python are leaked."""
        vars(self).pop("_ale", None)  # it does not exist if an argument was wrong

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins a new game in every environment, each with another seed.

        Args:
            seed: new seed of the batch, which restarts the sequence of games; None continues the sequence.
            options: no options are supported.

        Returns:
            observation: uint8 [N, H, W, C], contiguous, with the frames (times 3 colours) along C, the newest last.
              With `last_action_and_reward`, a dict of this array as `frame`, `last_action` int32 [N] and
              `last_reward` float32 [N], clipped; both are 0 where a game begins.
            info: empty.

        Raises:
            ValueError: an option was given or the seed is negative.
        """
        check_reset("Atari", seed, options)
        if seed is not None:
            self._seed = seed
            self._seeds_sampled[:] = 0
        everywhere = np.ones(self.num_envs, bool)
        self._begin_games(everywhere, self._reseed(everywhere))
        self._is_reset = True
        return self._observation(), {}

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Plays one step of every game.

        Args:
            actions: int32 [N] in [0, num_actions); ignored where the previous step ended a game.

        Returns:
            observation: as `reset` returns it, in new memory. The step that ends a game returns its last observation.
            reward: float32 [N], clipped; 0 where a game begins.
            terminated: bool [N], whether the game is over, or a life was lost and `life_loss_ends` is set, or the frame
              limit was reached and `time_limit_is_terminal` is set.
            truncated: bool [N], whether the frame limit was reached and the step is not terminated.
            info: `game_over` bool [N], whether this step ended the game, by its rules or by the frame limit;
              `episode_return` float32 [N], the sum of the game's unclipped rewards so far;
              `episode_frames` int32 [N], the number of its emulator frames so far, without no-ops.

        Raises:
            ValueError: the actions have a wrong shape or range.
            RuntimeError: `step` was called before `reset` or `set_state`.
        """
        if not self._is_reset:
            raise RuntimeError("Atari: step was called before reset.")
        actions = np.asarray(actions, np.int32)
        if actions.shape != (self.num_envs,):
            raise ValueError(f"Atari: actions must have shape ({self.num_envs},), got {actions.shape}.")
        if actions.min() < 0 or actions.max() >= self.num_actions:
            raise ValueError(f"Atari: actions must lie in [0, {self.num_actions}), got {actions}.")
        reward, terminated, truncated = self._advance(np.where(self._over, 0, actions))
        info = {
            "game_over": self._over.copy(),
            "episode_return": self._returns.astype(np.float32),
            "episode_frames": self._frames.copy(),
        }
        return self._observation(), reward, terminated, truncated, info

    def get_state(self) -> dict[str, Any]:
        """Returns what `set_state` needs to continue exactly from here: NumPy arrays, numbers and strings.

        Its size in bytes is about the number of environments times the steps of the longest current game, or, with
        sticky actions, times the steps since the oldest seed.
        """
        kept = np.arange(int(self._num_actions_kept.max())) < self._num_actions_kept[:, None]
        return {
            "task": self.config.task,
            "seed": self._seed,
            "seeds_sampled": self._seeds_sampled.copy(),
            "seeds": self._seeds.copy(),
            "resets": self._resets.copy(),
            "actions": np.where(kept, self._actions[:, : kept.shape[1]], 0).astype(np.uint8),
            "num_actions_kept": self._num_actions_kept.copy(),
            "checksum": self._checksum(),
        }

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Restores every game to where `get_state` was called, by replaying the saved actions.

        Everything that follows is bit-identical to what followed there. It takes about as long as the longest of the
        current games took to play, plus up to half a second for each environment.

        Args:
            state: state from `get_state` of an environment with the same config and number of environments.

        Returns:
            The current observation, as `step` or `reset` returned it.

        Raises:
            ValueError: the state is of another game or of another number of environments.
            RuntimeError: the replayed games differ from the saved ones, for example with another version of ale-py.
        """
        if str(state["task"]) != self.config.task:
            raise ValueError(f"Atari: the state is of {state['task']}, the environment is {self.config.task}.")
        kept = np.asarray(state["num_actions_kept"])
        if kept.shape != (self.num_envs,):
            raise ValueError(f"Atari: the state is of {kept.size} environments, the batch has {self.num_envs}.")
        seeds, resets = np.asarray(state["seeds"], np.int64), np.asarray(state["resets"], np.int64)
        actions = np.asarray(state["actions"], np.int32)
        if not self._is_reset:
            self.reset()
        # All emulators step together: each is seeded as many steps before the end as it has saved actions.
        longest = int(kept.max())
        starts = longest - kept
        for step in range(longest + 1):
            starting = starts == step
            if starting.any():
                self._seeds[starting] = seeds[starting]
                self._begin_games(starting, self._load(starting, resets))
            if step < longest:
                column = np.clip(step - starts, 0, longest - 1)
                self._advance(np.where(step >= starts, actions[self._rows, column], 0).astype(np.int32))
        self._seed = int(state["seed"])
        self._seeds_sampled = np.array(state["seeds_sampled"], np.int64)
        if self._checksum() != int(state["checksum"]):
            raise RuntimeError(
                "Atari: the replayed games differ from the saved ones; a state needs the same config and the "
                f"same version of ale-py (here {ale_py.__version__})."
            )
        return self._observation()

    def render_first(self) -> np.ndarray:
        """Returns the newest frame of the first game as the agent observes it, RGB, uint8 [height, width, 3]."""
        channels = 1 if self.config.grey else 3
        newest = _channels_last(self._stacked[:1])[0, ..., -channels:]
        return np.repeat(newest, 3 // channels, axis=-1)

    def step_emulators(self, actions: np.ndarray) -> tuple[Any, ...]:
        """Steps the emulators only, as a benchmark of emulation does; the state of this environment does not follow.

        This is `AtariVectorEnv.step` with lists: ALE reads arrays number by number, which takes four times as long.

        Args:
            actions: int32 [N] in [0, num_actions).
        """
        self._ale.ale.send(self._place_in_ale[actions].tolist(), self._paddle_strengths)
        return self._ale.ale.recv()

    def _advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps the emulators and the state of the games; returns clipped reward, terminated and truncated."""
        beginning, out_of_time = self._over, self._out_of_time
        self._record_actions(actions)
        self._stacked, reward, over, _, info = self.step_emulators(actions)
        life_lost = (info["lives"] < self._lives) & ~over  # also the last life, if the game continues at 0
        self._lives = info["lives"]
        self._frames = info["episode_frame_number"] - self._first_frame
        self._out_of_time = (self._frames >= self.config.max_frames) & ~over
        self._over = over | self._out_of_time
        self._returns += reward
        self._last_action = actions
        self._last_reward = self._clipped(reward)
        if beginning.any():
            life_lost &= ~beginning
            self._next_games(beginning, out_of_time, info)
        terminated = self._over & ~self._out_of_time
        if self.config.life_loss_ends:
            terminated |= life_lost
        if self.config.time_limit_is_terminal:
            terminated |= self._out_of_time
        return self._last_reward.copy(), terminated, self._out_of_time & ~terminated

    def _next_games(self, beginning: np.ndarray, out_of_time: np.ndarray, info: dict[str, np.ndarray]) -> None:
        """Begins the games after those that ended; ALE has reset their emulators unless the time limit ended them."""
        if self._whole_history:
            seeding = beginning & (self._num_actions_kept >= _STEPS_PER_SEED)
        else:
            self._resets[beginning] += 1
            self._num_actions_kept[beginning] = 0
            seeding = beginning & (self._resets >= _RESETS_PER_SEED)
        if (resetting := out_of_time & ~seeding).any():
            info = self._reset_emulators(resetting)
        if seeding.any():
            info = self._reseed(seeding)
        self._begin_games(beginning, info)

    def _begin_games(self, beginning: np.ndarray, info: dict[str, np.ndarray]) -> None:
        """Sets the state of games whose emulators were just reset; resets those that began without a no-op again."""
        while (refused := beginning & (info["episode_frame_number"] < self._min_first_frame)).any():
            if not self._whole_history:
                self._resets[refused] += 1
            info = self._reset_emulators(refused)
        self._lives = np.where(beginning, info["lives"], self._lives)
        self._first_frame = np.where(beginning, info["episode_frame_number"], self._first_frame)
        self._last_action = np.where(beginning, 0, self._last_action)
        zero_at_start: tuple[np.ndarray, ...] = (
            self._frames,
            self._returns,
            self._last_reward,
            self._over,
            self._out_of_time,
        )
        for array in zero_at_start:
            array[beginning] = 0

    def _reseed(self, seeding: np.ndarray) -> dict[str, np.ndarray]:
        """Seeds some emulators with the next seeds of their environments and resets them."""
        for row in np.flatnonzero(seeding):
            sequence = np.random.SeedSequence((self._seed, int(row), int(self._seeds_sampled[row])))
            self._seeds[row] = sequence.generate_state(1)[0] >> 1
        self._seeds_sampled[seeding] += 1
        return self._load(seeding, np.zeros(self.num_envs, np.int64))

    def _load(self, loading: np.ndarray, resets: np.ndarray) -> dict[str, np.ndarray]:
        """Loads some emulators with their seeds and then resets each the given number of times."""
        info = self._reset_emulators(loading, self._seeds[loading])
        self._num_actions_kept[loading] = 0
        self._resets[loading] = resets[loading]
        for done in range(int(resets[loading].max())):
            info = self._reset_emulators(loading & (resets > done))
        return info

    def _reset_emulators(self, mask: np.ndarray, seeds: np.ndarray | None = None) -> dict[str, np.ndarray]:
        self._stacked, info = self._ale.reset(seed=seeds, options={"reset_mask": mask})
        return info

    def _record_actions(self, actions: np.ndarray) -> None:
        if self._num_actions_kept.max() == self._actions.shape[1]:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)
        self._actions[self._rows, self._num_actions_kept] = actions
        self._num_actions_kept += 1

    def _clipped(self, reward: np.ndarray) -> np.ndarray:
        reward = reward.astype(np.float32)
        bound = self.config.reward_clip
        return reward.clip(-bound, bound, out=reward) if bound else reward

    def _observation(self) -> Observation:
        frame = _channels_last(self._stacked)
        if not self.config.last_action_and_reward:
            return frame
        return {
            "frame": frame,
            "last_action": self._last_action.copy(),
            "last_reward": self._last_reward.copy(),
        }

    def _checksum(self) -> int:
        """Returns a checksum over all parts of the current state that a caller can see."""
        seen = (self._stacked, self._lives, self._frames, self._returns, self._over, self._last_reward)
        checksum = 0
        for array in seen:
            checksum = zlib.crc32(np.ascontiguousarray(array).tobytes(), checksum)
        return checksum


def _channels_last(stacked: np.ndarray) -> np.ndarray:
    """Returns uint8 [N, H, W, C], given frames [N, S, H, W] (C = S) or [N, S, H, W, 3] (C = 3 S)."""
    n, s, h, w, *_ = stacked.shape
    if stacked.ndim == 5:
        return np.moveaxis(stacked, 1, 3).reshape(n, h, w, -1)
    out = aligned_empty((n, h * w, s), np.uint8)
    planes = stacked.reshape(n, s, h * w)
    cv2.merge([planes[:, k] for k in range(s)], out)
    return out.reshape(n, h, w, s)


def _without_fire(action: int, legal: Sequence[int]) -> int:
    """Returns a console's action, with the button released where the game has none (Skiing)."""
    if action in legal:
        return action
    fire, up_fire, up = ale_py.Action.FIRE.value, ale_py.Action.UPFIRE.value, ale_py.Action.UP.value
    return ale_py.Action.NOOP.value if action == fire else action - up_fire + up


def _uses_fire(game: str) -> bool:
    """Returns whether FIRE is among the actions that the game uses."""
    emulator = ale_py.ALEInterface()
    rom = roms.get_rom_path(game)
    assert rom is not None, game
    emulator.loadROM(rom)
    return ale_py.Action.FIRE in emulator.getMinimalActionSet()
