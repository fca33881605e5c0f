"""Groups: the current records of one agent on one task, which are averaged, and what was left out."""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from repro.config import SCALES
from repro.evidence import comparisons, staleness
from repro.evidence.comparisons import Key
from repro.evidence.records import StoredRecord


@dataclasses.dataclass(frozen=True)
class Group:
    """Records behind one row.

    Attributes:
        records: current records of the largest available scale, in order of seed.
        notes: sentences that say what was left out, and why.
        stale: path of each stale record to the reason.
        smaller: current records of smaller scales.
    """

    records: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...] = ()
    stale: Mapping[pathlib.Path, str] = dataclasses.field(default_factory=dict)
    smaller: tuple[Mapping[str, Any], ...] = ()

    @property
    def every(self) -> tuple[Mapping[str, Any], ...]:
        """Current records of all scales, those of the largest first."""
        return (*self.records, *self.smaller)

    def by_scale(self) -> "list[Group]":
        """Returns the group itself, then a group for each smaller scale that has records, the largest first."""
        found = [self]
        for scale in reversed(SCALES):
            if records := tuple(record for record in self.smaller if record["scale"] == scale):
                found.append(Group(records))
        return found


def group_records(
    stored: Iterable[StoredRecord], configs_dir: pathlib.Path = staleness.CONFIGS_DIR, *, keep_stale: bool = False
) -> dict[Key, Group]:
    """Groups records by paper, experiment, task and agent, and leaves out stale ones.

    Only runs of one scale are averaged: the largest available scale, since its budget is nearest to the paper's.
    Comparisons use the largest scale that all agents compared have.

    Args:
        stored: valid records.
        configs_dir: folder of current configs, for staleness.
        keep_stale: whether stale records count like current ones, to see which results depend on them.

    Returns:
        (paper, experiment, task, agent) to its group. A group has no records if all of its records are stale.
    """
    current: dict[Key, list[Mapping[str, Any]]] = collections.defaultdict(list)
    notes: dict[Key, list[str]] = collections.defaultdict(list)
    stale: dict[Key, dict[pathlib.Path, str]] = collections.defaultdict(dict)
    for item in stored:
        record = item.record
        key = comparisons.key_of(record)
        current[key]  # creates the entry, since a key with only stale records still has a row
        reason = None if keep_stale else staleness.stale_reason(record, configs_dir)
        if reason:
            notes[key].append(f"seed {record['seed']} is stale: {reason}")
            stale[key][item.path] = reason
        else:
            current[key].append(record)
    groups = {}
    for key, records in current.items():
        scale = max((record["scale"] for record in records), key=SCALES.index, default=None)
        used = sorted((record for record in records if record["scale"] == scale), key=lambda record: record["seed"])
        smaller = sorted((record for record in records if record["scale"] != scale), key=lambda record: record["seed"])
        for other in SCALES:
            seeds = ", ".join(str(record["seed"]) for record in smaller if record["scale"] == other)
            if seeds:
                notes[key].append(f"runs of scale {other}, seeds {seeds}, are not averaged with these")
        groups[key] = Group(tuple(used), tuple(notes[key]), stale[key], tuple(smaller))
    return groups


def stale_records(groups: Mapping[Key, Group]) -> dict[pathlib.Path, str]:
    """Returns the path of each stale record with the reason, in order of paths."""
    return dict(sorted(item for group in groups.values() for item in group.stale.items()))
