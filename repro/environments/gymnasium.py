"""Batches of any Gymnasium environment, built-in or registered by the user, with Discrete or Box actions."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import pickle
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import ml_collections
import numpy as np
from absl import logging
from gymnasium import spaces
from gymnasium.utils import EzPickle

from repro.environments.batched import check_batch, one_line, read_config
from repro.environments.gymnasium_spaces import KIND, Encoder, read_actions, read_observations
from repro.environments.lookup import UnknownTaskError, suggest_near
from repro.environments.stepped import SteppedEnvironment
from repro.files import locate

RESERVED = ("id", "max_episode_steps", "disable_env_checker")
"""Arguments of `gymnasium.make` that it does not pass to the environment's constructor."""

PROBE_STEPS = 8
"""Number of steps before and after each pickle and each reset when `is_restored_by_pickle` tests an environment."""

OTHER_ARGUMENTS = re.compile("keyword argument|positional argument|required .*argument|multiple values for argument")
"""Pattern of Python's messages about a call with other arguments than the function takes."""


def task_name(task: str) -> str:
    """Returns the given id of a registered environment, after importing the module in it, if there is one.

    Args:
        task: id such as `CartPole-v1`, or `my_module:MyEnv-v0` if importing `my_module` registers the environment.

    Raises:
        UnknownTaskError: no environment has this id, or the module cannot be imported.
    """
    module, _, name = task.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever it may raise, its writer learns where and why
            beginning = f"The module {module!r} of {task!r} cannot be imported"
            if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
                raise UnknownTaskError(
                    f"{beginning} ({error}); run the command in the folder that holds it, or add that folder to "
                    "PYTHONPATH."
                ) from error
            raise UnknownTaskError(f"{beginning} ({locate(error)}).") from error
    if name in gymnasium.registry:
        return task
    known = {registered.lower(): registered for registered in sorted(gymnasium.registry)}
    otherwise = "it must be registered with gymnasium.register."
    hint = suggest_near(name.lower(), known, otherwise, max_near=3, cutoff=0.6)
    if not module:
        hint += " Give an environment of your own with its module, such as my_module:MyEnv-v0."
    raise UnknownTaskError(f"No Gymnasium environment is called {name!r}; {hint}")


@dataclasses.dataclass(frozen=True)
class GymnasiumConfig:
    """The protocol of an environment.

    Attributes:
        task: a registered id, such as `CartPole-v1` or `my_module:MyEnv-v0`; see `task_name`.
        max_steps: number of steps at which an episode is cut; 0 for the limit that the environment is registered with.
        kwargs: keyword arguments of the environment's constructor.
        last_action_and_reward: whether `make_environment` adds them to the observations; see `WithLastStep`.

    Raises:
        ValueError: `max_steps` is negative, or `kwargs` has one of `RESERVED`.
        UnknownTaskError: no environment has this id, or the module cannot be imported.
    """

    task: str
    max_steps: int = 0
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    last_action_and_reward: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", task_name(self.task))
        kwargs = self.kwargs.to_dict() if isinstance(self.kwargs, ml_collections.ConfigDict) else dict(self.kwargs)
        object.__setattr__(self, "kwargs", kwargs)
        if self.max_steps < 0:
            raise ValueError(f"{KIND}: max_steps must be at least 0, got {self.max_steps}.")
        for name in RESERVED:
            if name in kwargs:
                raise ValueError(f"{KIND}: env.kwargs cannot set {name!r}; env.task and env.max_steps are for that.")

    @property
    def label(self) -> str:
        """Id of the environment without the module."""
        return self.task.rpartition(":")[2]

    @property
    def step_limit(self) -> int:
        """Number of steps after which an episode is cut; 0 for no limit."""
        return self.max_steps or int(gymnasium.spec(self.label).max_episode_steps or 0)

    def make_task(self) -> gymnasium.Env:
        """Returns an environment with its registered wrappers but without Gymnasium's checks and time limit.

        Raises:
            ValueError: a package is missing, or the constructor takes other keyword arguments or raises an error.
        """
        spec = copy.copy(gymnasium.spec(self.label))
        spec.order_enforce = False
        if "ale_py" in sys.modules:  # otherwise its emulators print a banner
            sys.modules["ale_py"].ALEInterface.setLoggerMode(sys.modules["ale_py"].LoggerMode.Error)
        try:
            return gymnasium.make(spec, max_episode_steps=-1, disable_env_checker=True, **copy.deepcopy(self.kwargs))
        except (gymnasium.error.Error, ImportError) as error:
            raise ValueError(f"{KIND}: {self.label} cannot be made: {one_line(error)}.") from error
        except MemoryError:
            raise
        except Exception as error:  # whatever it may raise, its writer learns where and why
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            if not isinstance(error, TypeError) or not OTHER_ARGUMENTS.search(str(error)):
                raise ValueError(f"{KIND}: {self.label} cannot be made ({locate(cause)}).") from error
            given = ", ".join(sorted(self.kwargs)) or "none"
            raise ValueError(
                f"{KIND}: {self.label} does not take the keyword arguments in env.kwargs ({given}): {one_line(cause)}."
            ) from error


def make_gymnasium(env_config: Mapping[str, Any], num_envs: int, seed: int) -> GymnasiumEnvironment:
    """Returns a batch of one Gymnasium environment.

    Args:
        env_config: fields of `GymnasiumConfig`; all except `task` may be left out, and an entry `name` is ignored.
        num_envs: number of environments, stepped one after the other; at least 1.
        seed: seed of the batch, at least 0; each batch of a run needs another one.

    Raises:
        ValueError: a field is missing, unknown or out of its range; the environment cannot be created; or its
            observations or actions are not of a supported kind.
        UnknownTaskError: no environment has this id, or its module cannot be imported.
    """
    return GymnasiumEnvironment(read_config(KIND, GymnasiumConfig, env_config), num_envs, seed)


class GymnasiumEnvironment(SteppedEnvironment):
    """A batch of one Gymnasium environment; see `SteppedEnvironment` for how it is stepped.

    Observations are vectors, float32 [state_size], or images, uint8 [H, W, C], as `gymnasium_spaces.read_observations`
    decides. Rewards are passed on unchanged.

    Discrete actions of the learner are int32 in [0, num_actions). Components of a Box that are bounded on both sides
    are scaled linearly, so that [-1, 1] of the learner is the whole range,
        action of the environment = (low + high) / 2 + action (high - low) / 2,
    and other components are passed on unchanged. Actions are then clipped to the bounds, since environments may reject
    actions outside their space.

    Saved states. If pickle restores the complete state of an environment, which is tested once when the batch is made,
    saved states contain the pickled environments, and everything that follows is bit-identical. If not (simulators
    outside Python; environments that derive from `gymnasium.utils.EzPickle`, whose pickles contain only the
    constructor's arguments), open episodes are lost: after `set_state` each environment stays at its last observation,
    its next step ignores the action, has reward 0 and cuts the episode as a time limit does, and a new episode
    follows. The info of a step therefore contains `lost`, bool [N], whether the step cut such an episode, whose return
    does not count.

    Args:
        config: the protocol.
        num_envs: number of environments, stepped one after the other; at least 1.
        seed: seed of the batch, at least 0.

    Attributes:
        config: the protocol.
        discrete: whether actions are Discrete.
        image: whether observations are images.
        saves_episodes: whether saved states include open episodes, as described above.

    Raises:
        ValueError: `num_envs` or `seed` is out of its range, or the environment cannot be created, or its observations
            or actions are not of a supported kind.
    """

    def __init__(self, config: GymnasiumConfig, num_envs: int, seed: int) -> None:
        check_batch(KIND, num_envs, seed)
        self.config = config
        tasks: list[Any] = [config.make_task() for _ in range(num_envs)]
        actions, self._decode_checked = read_actions(_get_space(tasks[0], "action_space", config.label), config.label)
        observation_space = _get_space(tasks[0], "observation_space", config.label)
        observations, self._encode = read_observations(observation_space, config.label)
        super().__init__(KIND, config.label, tasks, observations, actions, config.step_limit, seed)
        self.discrete = isinstance(actions, spaces.Discrete)
        self.image = observations.dtype == np.uint8
        self.saves_episodes = is_restored_by_pickle(tasks[0], self._encode)
        self._restarts = 0  # number of restored states whose open episodes were lost
        self._lost = [False] * num_envs

    @property
    def max_steps(self) -> int:
        """Number of steps after which an episode is cut.

        Raises:
            ValueError: the environment has no time limit, and the config sets none.
        """
        if not self.config.step_limit:
            raise ValueError(
                f"{KIND}: {self.config.label} has no time limit and this agent needs one; set env.max_steps."
            )
        return self.config.step_limit

    @property
    def state_size(self) -> int:
        """Number of entries of an observation, which is a vector.

        Raises:
            ValueError: observations are images.
        """
        if self.image:
            raise ValueError(
                f"{KIND}: {self.config.label} is observed by images of shape {self.single_observation_space.shape}, "
                "and this agent needs vectors."
            )
        return int(self._observation.shape[1])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self._restarts, self._lost = 0, [False] * self.num_envs
        observation, info = super().reset(seed=seed, options=options)
        self._check_finite("an observation", observation)
        return observation, info

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every environment; see `SteppedEnvironment.step`, and the class for `lost`.

        Raises:
            ValueError: as for `SteppedEnvironment.step`, or an observation or a reward is NaN or infinite although all
                actions are finite, which would otherwise be mistaken for a diverged loss.
            RuntimeError: `step` was called before `reset` or `set_state`.
        """
        lost = np.array(self._lost)  # the episodes that this step cuts
        found = super().step(actions)
        found[-1]["lost"] = lost
        if np.isfinite(actions).all():
            self._check_finite("an observation", found[0])
            self._check_finite("a reward", found[1])
        return found

    def _check_finite(self, name: str, values: np.ndarray) -> None:
        if np.issubdtype(values.dtype, np.floating) and not np.isfinite(values).all():  # whole numbers are finite
            raise ValueError(f"{KIND}: {self.config.label} gave {name} that is NaN or infinite.")

    def _episode_seed(self, row: int) -> int:
        return episode_seed(self._seed, row, self._restarts)

    def _begin(self, row: int, seed: int | None) -> np.ndarray:
        try:
            given = self._tasks[row].reset(seed=seed)
        except TypeError as error:
            if "keyword argument 'seed'" not in str(error):
                raise
            raise ValueError(
                f"{KIND}: reset of {self.config.label} must take the keywords seed and options: {one_line(error)}."
            ) from error
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise ValueError(f"{KIND}: reset of {self.config.label} must return observation and info.")
        return self._encode(given[0])

    def _decode(self, actions: np.ndarray) -> Sequence[Any] | np.ndarray:
        if self.discrete and (actions.min() < 0 or actions.max() >= self.num_actions):
            raise ValueError(f"{KIND}: actions must lie in [0, {self.num_actions}), got {actions}.")
        return self._decode_checked(actions)

    def _advance(self, row: int, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        if self._lost[row]:
            self._lost[row] = False
            return self._observation[row], 0.0, False, True
        given = self._tasks[row].step(action)
        try:
            obs, reward, terminated, truncated, _ = given
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{KIND}: step of {self.config.label} must return observation, reward, terminated, truncated and info."
            ) from error
        try:
            reward = float(reward)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{KIND}: {self.config.label} gave a reward that is not a number: {' '.join(repr(reward).split())}."
            ) from error
        return self._encode(obs), reward, terminated, truncated

    def get_state(self) -> dict[str, Any]:
        """Returns what `set_state` needs: NumPy arrays, numbers and strings.

        If pickle fails although it worked when the batch was made, for example because an environment has opened a file
        since then, an error is logged, `saves_episodes` becomes False and open episodes are left out.
        """
        pickled = b""
        if self.saves_episodes:
            try:
                pickled = pickle.dumps(self._tasks)
            except Exception as error:  # noqa: BLE001 - whatever a user's class raises; training goes on
                self.saves_episodes = False
                logging.error(
                    "%s: %s can no longer be pickled (%s): episodes that have not ended are not saved, and a resumed "
                    "run differs from an uninterrupted one.",
                    KIND,
                    self.config.label,
                    one_line(error),
                )
        own = {
            "restarts": self._restarts,
            "lost": np.array(self._lost),
            "pickled": np.frombuffer(pickled, np.uint8),
        }
        return super().get_state() | own

    def set_state(self, state: Mapping[str, Any]) -> np.ndarray:
        """Restores every environment to where `get_state` was called, or begins a new episode in it (see the class).

        New episodes have seeds that the run has not used so far. Loading pickled environments executes code: restore
        only states that you trust.

        Args:
            state: state from `get_state` of a batch of the same environment and size.

        Returns:
            The current observation, as `step` or `reset` returned it.

        Raises:
            ValueError: the state is of another environment, another number of environments or other observations, or
                cannot be loaded.
        """
        observation = super().set_state(state)
        self._restarts, self._lost = int(state["restarts"]), np.asarray(state["lost"]).tolist()
        pickled = np.asarray(state["pickled"], np.uint8).tobytes()
        if pickled:
            self._load(pickled)
        else:
            self._restarts += 1
            for row, task in enumerate(self._tasks):
                task.reset(seed=self._episode_seed(row))
            self._lost = [not over for over in self._over]
        return observation

    def _load(self, pickled: bytes) -> None:
        try:
            tasks = pickle.loads(pickled)
        except Exception as error:  # noqa: BLE001 - whatever a changed class of the user raises
            raise ValueError(
                f"{KIND}: the saved {self.config.label} cannot be loaded, perhaps because its code has changed: "
                f"{one_line(error)}."
            ) from error
        self.close()
        self._tasks = tasks


def _get_space(task: gymnasium.Env, name: str, label: str) -> gymnasium.Space:
    """Returns the task's `action_space` or `observation_space`.

    Raises:
        ValueError: it is not a space of Gymnasium.
    """
    space = getattr(task, name, None)
    if not isinstance(space, gymnasium.Space):
        raise ValueError(f"{KIND}: {label} needs an attribute {name} that is a space of gymnasium.spaces.")
    return space


def episode_seed(seed: int, row: int, restarts: int) -> int:
    """Returns the seed for the reset of one environment, in [0, 2^31), a range that every simulator accepts.

    Args:
        seed: seed of the batch.
        row: index of the environment in its batch.
        restarts: number of restored states whose open episodes were lost; see `GymnasiumEnvironment`.
    """
    return int(np.random.SeedSequence((seed, row, restarts)).generate_state(1)[0] >> 1)


def is_restored_by_pickle(task: gymnasium.Env, encode: Encoder) -> bool:
    """Returns whether an unpickled environment continues exactly like the pickled one, within an episode and after it.

    The test steps copies, never the environment itself. Steps differ if an environment takes random numbers from a
    global generator, keeps state outside Python or depends on the clock.

    Args:
        task: one environment.
        encode: function that converts its observations to arrays.
    """
    if _pickles_arguments_alone(task):
        return False
    copies: list[gymnasium.Env] = []
    try:
        first = pickle.loads(pickle.dumps(task))
        copies.append(first)
        space = copy.deepcopy(task.action_space)
        space.seed(0)
        actions = [space.sample() for _ in range(PROBE_STEPS)]
        first.reset(seed=0)
        _play(first, actions, encode)
        second = pickle.loads(pickle.dumps(first))
        copies.append(second)
        expected, found = (_play(env, 2 * actions, encode) for env in (first, second))
        return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(expected, found, strict=True))
    except Exception:  # noqa: BLE001 - whatever a user's class raises when it is pickled or copied
        return False
    finally:
        for made in copies:
            with contextlib.suppress(Exception):  # whatever a user's class raises
                made.close()


def _pickles_arguments_alone(task: gymnasium.Env) -> bool:
    """Returns whether the environment or a wrapper is pickled by `EzPickle`, which saves constructor arguments only."""
    while type(task).__getstate__ is not EzPickle.__getstate__:
        if not isinstance(task, gymnasium.Wrapper):
            return False
        task = task.env
    return True


def _play(env: gymnasium.Env, actions: Sequence[Any], encode: Encoder) -> list[np.ndarray]:
    """Steps an environment and resets it after episodes and every `PROBE_STEPS` steps; returns all that it returned."""
    found = []
    for i, action in enumerate(actions, 1):
        obs, reward, terminated, truncated, _ = env.step(action)
        found += [np.array(x) for x in (encode(obs), reward, terminated, truncated)]
        if terminated or truncated or i % PROBE_STEPS == 0:
            found.append(np.array(encode(env.reset()[0])))
    return found
