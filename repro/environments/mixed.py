"""Batches of several tasks, which one agent learns together (IMPALA, Section 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from typing import Any, NamedTuple, TypeVar

import numpy as np

from repro.environments.batched import BatchedEnvironment, CountsEpisodes
from repro.threads import CallThread

CLOSE_SECONDS = 10.0
"""Longest wait for tasks that are closed; one that hangs is closed when it wakes up, or ends with the process."""

_Result = TypeVar("_Result")


class Share(NamedTuple):
    """What one batch of a run plays.

    first: number of its first task among those of the run; the others follow.
    tasks: how many it plays.
    num_envs: environments of each of them.
    shard: number of the batch among those of the run that play these tasks, and how many there are.
    """

    first: int
    tasks: int
    num_envs: int
    shard: tuple[int, int]


def share_of(num_tasks: int, num_envs: int, shard: tuple[int, int] = (0, 1)) -> Share:
    """Returns the share of a batch, where each task has equally many environments of the run.

    A batch with room for all tasks plays all of them, so that their frames are equal at any time. Smaller ones take
    turns: with 30 tasks and one environment a batch, batches 0, 30, 60 and so on play the first task.

    Args:
        num_tasks: of the run, n, at least 1.
        num_envs: of the batch, a multiple or a divisor of n.
        shard: number of the batch among those of the run, and how many there are, each of `num_envs` environments.

    Raises:
        ValueError: the tasks would have unequal shares.
    """
    index, batches = shard
    if num_envs % num_tasks == 0:
        return Share(0, num_tasks, num_envs // num_tasks, shard)
    if num_tasks % num_envs or batches * num_envs % num_tasks:
        raise ValueError(
            f"runtime.num_actors={batches} times runtime.envs_per_actor={num_envs} gives {num_tasks} tasks no equal "
            f"shares: take a multiple of {num_tasks} for envs_per_actor, or a divisor of it and enough actors."
        )
    begun, first = divmod(index * num_envs, num_tasks)
    return Share(first, num_envs, 1, (begun, batches * num_envs // num_tasks))


def part_seeds(seed: int, num_parts: int) -> list[int]:
    """Seeds of the batches of a batch's tasks, each of its own, in [0, 2^31)."""
    return [int(number) for number in np.random.SeedSequence(seed).generate_state(num_parts) % 2**31]


class MixedTasks:
    """A batch whose environments play several tasks, equally many each: environment i plays task i mod n.

    It is made of a batch for each task, and these are stepped at the same time, by threads of their own. All else is as
    in `BatchedEnvironment`; the info of a step has `task` as well, int32 [N], the number of each environment's task.

    Args:
        tasks: canonical names, n of them.
        parts: a batch of each task, all of the same size, whose observations and actions are the same.
        first: number of the first task among those of the run.

    Raises:
        ValueError: observations or actions differ.
    """

    def __init__(self, tasks: Sequence[str], parts: Sequence[BatchedEnvironment], first: int = 0) -> None:
        _check_same(tasks, parts)
        self._tasks, self._parts = tuple(tasks), tuple(parts)
        one = parts[0]
        self.num_envs, self.num_actions = sum(part.num_envs for part in parts), one.num_actions
        self.metadata, self.time_step_spec, self.action_spec = one.metadata, one.time_step_spec, one.action_spec
        self._task = np.tile(np.arange(first, first + len(parts), dtype=np.int32), one.num_envs)
        self._threads = [CallThread(f"task-{task}") for task in tasks]

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        seeds: Sequence[int | None] = [None] * len(self._parts)
        if seed is not None:
            seeds = part_seeds(seed, len(self._parts))
        observations, _ = zip(*self._of_each(lambda i, part: part.reset(seed=seeds[i])))
        return _interleave(observations), {}

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every environment; see the class.

        Raises:
            ValueError: there is not one action for each environment, or one is out of its range.
        """
        if len(actions) != self.num_envs:
            raise ValueError(f"MixedTasks: {len(actions)} actions for {self.num_envs} environments.")
        n = len(self._parts)
        steps = self._of_each(lambda i, part: part.step(actions[i::n]))
        observation, reward, terminated, truncated, info = (_interleave(results) for results in zip(*steps))
        return observation, reward, terminated, truncated, info | {"task": self._task}

    def get_counters(self) -> dict[str, Any]:
        """Those of the tasks that count their episodes, by place of the task; from any thread."""
        counting = {str(i): part for i, part in enumerate(self._parts) if isinstance(part, CountsEpisodes)}
        return {place: counters for place, part in counting.items() if (counters := part.get_counters())}

    def set_counters(self, counters: Mapping[str, Any]) -> None:
        """Goes on behind the episodes of `get_counters`; to be called before `reset`."""
        for place, counted in counters.items():
            part = self._parts[int(place)]
            assert isinstance(part, CountsEpisodes)
            of_before = not isinstance(counted, Mapping)  # older checkpoints have the numbers of episodes alone
            part.set_counters({"episodes": counted} if of_before else counted)

    def get_state(self) -> dict[str, Any]:
        parts = self._of_each(lambda i, part: part.get_state())
        return {"tasks": ",".join(self._tasks), "parts": {str(i): state for i, state in enumerate(parts)}}

    def set_state(self, state: Mapping[str, Any]) -> Any:
        """Restores every task; returns the current observations.

        Raises:
            ValueError: the state is of other tasks, or does not fit one of them.
        """
        if (others := str(state["tasks"])) != (mine := ",".join(self._tasks)):
            raise ValueError(f"MixedTasks: the state is of {others}, the environment of {mine}.")
        return _interleave(self._of_each(lambda i, part: part.set_state(state["parts"][str(i)])))

    def render_first(self) -> np.ndarray:
        return self._parts[0].render_first()

    def close(self, **kwargs: Any) -> None:
        """Closes the batches of all tasks, each once it has ended what it is at."""
        closed = [thread.call(part.close, **kwargs) for thread, part in zip(self._threads, self._parts)]
        for thread in self._threads:
            thread.end()
        for future in wait(closed, CLOSE_SECONDS).done:
            future.result()

    def _of_each(self, function: Callable[[int, BatchedEnvironment], _Result]) -> list[_Result]:
        """Results of a function of each part's number and the part, all called at the same time."""
        calls = [thread.call(function, *part) for thread, part in zip(self._threads, enumerate(self._parts))]
        return [call.result() for call in calls]


def _interleave(parts: Sequence[Any]) -> Any:
    """[N, ...] of n arrays [N / n, ...], or dicts of such, whose row i is of part i mod n."""
    if isinstance(parts[0], Mapping):
        return {name: _interleave([part[name] for part in parts]) for name in parts[0]}
    stacked = np.stack(parts, axis=1)
    return stacked.reshape(-1, *stacked.shape[2:])


def _check_same(tasks: Sequence[str], parts: Sequence[BatchedEnvironment]) -> None:
    one = parts[0]
    for task, part in zip(tasks, parts, strict=True):
        if part.num_actions != one.num_actions:
            raise ValueError(
                f"env.tasks: {tasks[0]} has {one.num_actions} actions and {task} has {part.num_actions}; "
                "tasks that one agent learns need the same."
            )
        if part.time_step_spec.observation != one.time_step_spec.observation:
            raise ValueError(f"env.tasks: {tasks[0]} and {task} have other observations; one agent needs the same.")
