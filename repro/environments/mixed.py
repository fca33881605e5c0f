"""Batches of several tasks, which one agent learns together (IMPALA, Section 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from typing import Any, NamedTuple, TypeVar

import numpy as np

from repro.environments.batched import BatchedEnvironment, CountsEpisodes
from repro.threads import CallThread

CLOSE_SECONDS = 10.0
"""Longest wait in seconds for tasks to close; a task that hangs longer closes later or ends with the process."""

_Result = TypeVar("_Result")


class Share(NamedTuple):
    """A batch's share of the tasks of a run.

    Attributes:
        first: index of the batch's first task among the tasks of the run; the others follow it.
        tasks: number of tasks of the batch.
        num_envs: number of environments of each task.
        shard: index of the batch among the batches of the run with these tasks, and number of these batches.
    """

    first: int
    tasks: int
    num_envs: int
    shard: tuple[int, int]


def share_of(num_tasks: int, num_envs: int, shard: tuple[int, int] = (0, 1)) -> Share:
    """Returns the share of a batch such that each task has the same number of environments in the run.

    A batch with at least one environment per task plays all tasks, so that their numbers of frames are always equal.
    Smaller batches take turns: with 30 tasks and one environment a batch, batches 0, 30, 60 and so on play the first
    task.

    Args:
        num_tasks: n, the number of tasks of the run, at least 1.
        num_envs: number of environments of the batch, a multiple or a divisor of n.
        shard: index of the batch in the run, and number of batches of the run, each of `num_envs` environments.

    Raises:
        ValueError: the tasks cannot have equal shares.
    """
    index, batches = shard
    if num_envs % num_tasks == 0:
        return Share(0, num_tasks, num_envs // num_tasks, shard)
    if num_tasks % num_envs or batches * num_envs % num_tasks:
        raise ValueError(
            f"{num_tasks} tasks cannot share runtime.num_actors={batches} times runtime.envs_per_actor={num_envs} "
            f"environments equally: choose a multiple of {num_tasks} for envs_per_actor, or a divisor of it and so "
            f"many actors that the product is a multiple of {num_tasks}."
        )
    begun, first = divmod(index * num_envs, num_tasks)
    return Share(first, num_envs, 1, (begun, batches * num_envs // num_tasks))


def part_seeds(seed: int, num_parts: int) -> list[int]:
    """Returns a seed in [0, 2^31) for each part of a batch of several tasks."""
    return [int(number) for number in np.random.SeedSequence(seed).generate_state(num_parts) % 2**31]


class MixedTasks:
    """A batch of n tasks with equally many environments each: environment i plays task i mod n.

    It combines one batch per task, which are stepped in parallel, each by a thread of its own. Everything else is as in
    `BatchedEnvironment`; the info of a step also contains `task`, int32 [N], the index of each environment's task.

    Args:
        tasks: canonical names of the n tasks.
        parts: a batch of each task, of the same size and with the same observations and actions.
        first: index of the first task among the tasks of the run.

    Raises:
        ValueError: the numbers of tasks and parts differ, or observations or actions of the parts do.
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
            ValueError: the number of actions is not that of environments, or an action is out of its range.
        """
        if len(actions) != self.num_envs:
            raise ValueError(f"MixedTasks: {len(actions)} actions for {self.num_envs} environments.")
        n = len(self._parts)
        steps = self._of_each(lambda i, part: part.step(actions[i::n]))
        observation, reward, terminated, truncated, info = (_interleave(results) for results in zip(*steps))
        return observation, reward, terminated, truncated, info | {"task": self._task}

    def get_counters(self) -> dict[str, Any]:
        """Returns the counters of tasks that count their episodes, by index of the task; any thread may call this."""
        counting = {str(i): part for i, part in enumerate(self._parts) if isinstance(part, CountsEpisodes)}
        return {place: counters for place, part in counting.items() if (counters := part.get_counters())}

    def set_counters(self, counters: Mapping[str, Any]) -> None:
        """Continues after the episodes that `get_counters` counted; call it before `reset`."""
        for place, counted in counters.items():
            part = self._parts[int(place)]
            assert isinstance(part, CountsEpisodes)
            is_old = not isinstance(counted, Mapping)  # older checkpoints have the numbers of episodes only
            part.set_counters({"episodes": counted} if is_old else counted)

    def get_state(self) -> dict[str, Any]:
        parts = self._of_each(lambda i, part: part.get_state())
        return {"tasks": ",".join(self._tasks), "parts": {str(i): state for i, state in enumerate(parts)}}

    def set_state(self, state: Mapping[str, Any]) -> Any:
        """Restores every task; returns the current observations.

        Raises:
            ValueError: the state is of other tasks, or does not fit one of them.
        """
        if (others := str(state["tasks"])) != (mine := ",".join(self._tasks)):
            raise ValueError(f"MixedTasks: the state is of the tasks {others}, the environment of {mine}.")
        return _interleave(self._of_each(lambda i, part: part.set_state(state["parts"][str(i)])))

    def render_first(self) -> np.ndarray:
        return self._parts[0].render_first()

    def close(self, **kwargs: Any) -> None:
        """Closes the batches of all tasks, each as soon as its current call has ended."""
        closed = [thread.call(part.close, **kwargs) for thread, part in zip(self._threads, self._parts)]
        for thread in self._threads:
            thread.end()
        for future in wait(closed, CLOSE_SECONDS).done:
            future.result()

    def _of_each(self, function: Callable[[int, BatchedEnvironment], _Result]) -> list[_Result]:
        """Calls a function of index and part for all parts in parallel; returns the results in order."""
        calls = [thread.call(function, *part) for thread, part in zip(self._threads, enumerate(self._parts))]
        return [call.result() for call in calls]


def _interleave(parts: Sequence[Any]) -> Any:
    """Interleaves n arrays [N / n, ...], or dicts of them, to [N, ...], in which row i is from part i mod n."""
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
                "tasks that one agent learns need the same number."
            )
        if part.time_step_spec.observation != one.time_step_spec.observation:
            raise ValueError(f"env.tasks: {tasks[0]} and {task} have different observations; one agent needs the same.")
