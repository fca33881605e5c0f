"""Sets of tasks by name, as rows have them: on the command line a name stands for all tasks of its set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from repro.evidence import comparisons, published

ATARI, DMLAB = "atari57", "dmlab30"
CONTROL, CHALLENGES, MUJOCO = ("dm_control_features", "dm_control_pixels"), "rwrl", "mujoco_gym"


def members(name: str) -> Sequence[str]:
    """Returns the tasks of a set of `comparisons.TASK_SETS`, sorted; none where no list of them is fixed.

    Args:
        name: of the set; that of a single task has no members.
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
    """Returns tasks in their order, with those of a set in place of its name, each once."""
    return list(dict.fromkeys(task for name in names for task in members(name) or (name,)))
