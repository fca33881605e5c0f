"""Memory of the machine that this process may still take, and replays that do not fit into it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import psutil

PROCESS, GROUPS = Path("/proc/self"), Path("/sys/fs/cgroup")


class _Names(NamedTuple):
    """Files of a control group with its limit and what it uses, and in `memory.stat` that which can be given up."""

    limit: str
    used: str
    reclaimable: tuple[str, ...]


_FIRST = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file"))
_SECOND = _Names("memory.max", "memory.current", ("active_file", "inactive_file", "slab_reclaimable"))


def available_bytes(process: Path = PROCESS, groups: Path = GROUPS) -> int:
    """Memory that this process may still take: what the machine has left, or less where its control group has less.

    A limit of a group that contains that of the process holds for the process, too. What a group uses does not count as
    far as it is a cache of files that can be given up.

    Args:
        process, groups: folders of Linux: of this process, and of control groups, of version 1, 2 or both.
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
    """Checks that a replay, when full, is not larger than the memory that is available.

    It is taken up as the replay fills, so that the system, which grants more than there is, would end the process then.

    Args:
        field: of the configuration, which has the size.
        size: its value.
        needed: bytes of the full replay.
        empty: bytes of one of size 0.
        step: the size is rounded down to a multiple of it.
        min_size: the smallest size of use.

    Raises:
        ValueError: it is larger; the message says what fits.
    """
    available = available_bytes()
    if needed > available:
        max_size = size // step * max(0, available - empty) // (needed - empty) * step
        advice = (
            f"choose at most {max_size}" if max_size >= min_size else f"the smallest, {min_size}, takes more as well"
        )
        raise ValueError(
            f"{field}={size} takes {needed / 1e9:.1f} GB of memory, of which {available / 1e9:.1f} GB are available: "
            f"{advice}."
        )


def _left(root: Path, group: str, names: _Names) -> Iterator[int]:
    """What limits leave of a group and of all that contain it; in a container the root may be the group itself.

    A group that is not there, or that this process may not read, has no limit that could be known.
    """
    path = PurePosixPath(group.lstrip("/"))
    for folder in (root / part for part in (path, *path.parents)):
        with contextlib.suppress(OSError):
            if (allowed := (folder / names.limit).read_text().strip()) != "max":
                statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                reclaimable = sum(int(statistics.get(name, 0)) for name in names.reclaimable)
                yield int(allowed) - int((folder / names.used).read_text()) + reclaimable
