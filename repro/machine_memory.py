"""Memory that this process may still take, and a check that a replay fits into it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import psutil

PROCESS, GROUPS = Path("/proc/self"), Path("/sys/fs/cgroup")
"""Linux's folders of this process and of control groups."""


class _Names(NamedTuple):
    """Names of a control group's files with its limit and usage, and of reclaimable entries of `memory.stat`."""

    limit: str
    used: str
    reclaimable: tuple[str, ...]


_FIRST = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file"))
_SECOND = _Names("memory.max", "memory.current", ("active_file", "inactive_file", "slab_reclaimable"))


def available_bytes(process: Path = PROCESS, groups: Path = GROUPS) -> int:
    """Returns the bytes that this process may still take: what the machine, or a control group with less, has left.

    Limits of all groups that contain the process apply. Reclaimable memory, such as a cache of files, does not count as
    used.

    Args:
        process: Linux's folder of this process.
        groups: Linux's folder of control groups, version 1, 2 or both.
    """
    left, own = [psutil.virtual_memory().available], process / "cgroup"
    for line in own.read_text().splitlines() if own.exists() else ():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            left += _left(groups, group, _SECOND)
        elif "memory" in controllers.split(","):
            left += _left(groups / "memory", group, _FIRST)
    return max(0, min(left))


def check_fits(field: str, size: int, needed: int, empty: int = 0, step: int = 1, min_size: int = 1) -> None:
    """Checks that the full replay is not larger than the available memory.

    Its memory is taken up as the replay fills. The system grants more memory than it has, and would kill the process
    only when it runs out.

    Args:
        field: field of the configuration with the size of the replay.
        size: value of the field.
        needed: bytes of the full replay.
        empty: bytes of a replay of size 0.
        step: the suggested size is a multiple of this number.
        min_size: smallest useful size.

    Raises:
        ValueError: the replay does not fit; the message says which size would.
    """
    available = available_bytes()
    if needed > available:
        max_size = size // step * max(0, available - empty) // (needed - empty) * step
        advice = (
            f"choose at most {max_size}" if max_size >= min_size else f"even the smallest, {min_size}, does not fit"
        )
        raise ValueError(
            f"{field}={size} takes {needed / 1e9:.1f} GB of memory, but {available / 1e9:.1f} GB are available: "
            f"{advice}."
        )


def _left(root: Path, group: str, names: _Names) -> Iterator[int]:
    """Yields the bytes that the limits of a group and of all groups that contain it leave.

    In a container, the root folder may be the group itself. Groups that do not exist or cannot be read are skipped.
    """
    path = PurePosixPath(group.lstrip("/"))
    for folder in (root / part for part in (path, *path.parents)):
        with contextlib.suppress(OSError):
            if (allowed := (folder / names.limit).read_text().strip()) != "max":
                statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                reclaimable = sum(int(statistics.get(name, 0)) for name in names.reclaimable)
                yield int(allowed) - int((folder / names.used).read_text()) + reclaimable
