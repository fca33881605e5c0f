"""Named sets of tasks; on the command line, the name of a set stands for all of its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from repro.evidence import comparisons, published

ATARI, DMLAB = "atari57", "dmlab30"
CONTROL, CHALLENGES, MUJOCO = ("dm_control_features", "dm_control_pixels"), "rwrl", "mujoco_gym"


def members(name: str) -> Sequence[str]:
    """Returns the sorted tasks of a set of `comparisons.TASK_SETS`; none if the set has no fixed list.

    Args:
        name: name of a set; the name of a single task has no members.
    """
    if name in (ATARI, DMLAB):
        return sorted(published.normaliser(name))
    if name in CONTROL:
        from repro.environments import dm_control  # packages of environments are imported where they are needed

        return sorted(dm_control.BENCHMARK)
    if name == CHALLENGES:
        from repro.environments import rwrl

        return sorted(rwrl.TASKS)
    if name == MUJOCO:
        from repro.environments import mujoco

        return sorted(mujoco.TASKS)
    return sorted(comparisons.MEMBERS.get(name, ()))


def expand(names: Iterable[str]) -> list[str]:
    """Returns tasks in their order, each once, with the names of sets replaced by their tasks."""
    return list(dict.fromkeys(task for name in names for task in members(name) or (name,)))
