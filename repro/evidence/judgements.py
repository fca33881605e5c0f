"""Judges records by bands: each committed run by the rest of its group, a rerun by the committed group.

A group is the runs of one paper, experiment, task, agent and scale with the same config. Groups of fewer than
`bands.MIN_RUNS` runs use the spread of their family: the groups of the same paper and unit if scores count as
logarithms above random play, otherwise those of the same experiment and task. The false-alarm rate of all runs judged
together is fixed and shared equally among them.

Runs that diverged make no band. A run that diverges is a regression if its group has other runs and none of them
diverged, unless it is one of the records that others are judged by. Known outliers (`outliers.py`) make no band either;
they are judged, but are never a regression.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from repro.config import tasks
from repro.evidence import bands, comparisons, published, random_player, staleness
from repro.evidence.records import StoredRecord

GroupKey = tuple[str, ...]

OWN, POOLED, UNJUDGED = KINDS = (
    "judged by the others of their group",
    "by the pooled spread of their family",
    "not judged, since there are too few runs or they are known to have diverged",
)
"""Ways in which a record is judged, in the words of `python -m repro.check`."""


@dataclasses.dataclass(frozen=True)
class Judgement:
    """Judgement of one record by its band.

    Attributes:
        path, record: file and contents of the record.
        band: band of the run; None if there is nothing to judge by, or if the run diverged.
        reason: why there is no band; empty otherwise.
        alone: number of other runs of the group if this run diverged and none of them did; 0 otherwise, and for a
            divergence that is known.
        is_known: whether the run is a known outlier.
    """

    path: pathlib.Path
    record: Mapping[str, Any]
    band: bands.Band | None
    reason: str = ""
    alone: int = 0
    is_known: bool = False

    @property
    def value(self) -> float:
        """Mean of the record's evaluation."""
        return self.record["evaluation"]["mean"]

    @property
    def fell_out(self) -> bool:
        """Whether the run is a regression: its number is out of its band, or it alone of its group diverged."""
        return bool(self.alone) or (self.is_out and not self.is_known)

    @property
    def is_out(self) -> bool:
        """Whether the run's number is out of its band."""
        return self.band is not None and not self.band.holds(self.value)

    @property
    def command(self) -> str:
        """Shell command that repeats the run, apart from the committed records."""
        return rerun_command(self.record)

    @property
    def kind(self) -> str:
        """How the record is judged, one of `KINDS`."""
        if self.alone:
            return OWN
        if self.band is None:
            return UNJUDGED
        return OWN if self.band.spread == "own" else POOLED

    @property
    def message(self) -> str:
        """Sentence that names the record and its place relative to the band, and how to repeat a run that fell out."""
        if self.alone:
            return (
                f"{self.path} is of a run that diverged ({self.record['diverged']}), unlike the {self.alone} others "
                f"of its group; rerun it with: {self.command}"
            )
        if self.band is None:
            return f"{self.path} has no band: {self.reason}"
        low, high = self.band.low, self.band.high
        expected = f"mean {np.mean(self.band.values):.6g} over {len(self.band.values)} runs, {self.band.method}, "
        expected += f"false alarms {100 * self.band.false_alarm_rate:.2g} %"
        if not self.is_out:
            ends = " ".join(f"{word} {end:.6g}" for word, end in (("from", low), ("to", high)) if end is not None)
            return f"{self.path} holds {self.value:.6g} {self.band.unit}, in its band {ends} ({expected})"
        if self.is_known:
            return (
                f"{self.path} holds {self.value:.6g} {self.band.unit}, out of its band as a known outlier ({expected})"
            )
        if self.band.is_random(self.value):
            return (
                f"{self.path} holds {self.value:.6g} {self.band.unit}, not above the {self.band.floor:.6g} that random "
                f"play may reach ({expected}); rerun it with: {self.command}"
            )
        end, side = (low, "below") if low is not None and self.value < low else (high, "above")
        assert end is not None
        return (
            f"{self.path} holds {self.value:.6g} {self.band.unit}, {abs(self.value - end):.4g} {side} the end "
            f"{end:.6g} of its band ({expected}); rerun it with: {self.command}"
        )


class _Member(NamedTuple):
    """Group as a member of families.

    run: one run of the group.
    above_random: whether its scores count as logarithms above random play.
    scores: scores of its runs as bands compare them, [n].
    """

    run: Mapping[str, Any]
    above_random: bool
    scores: np.ndarray


class Reference:
    """Records to judge others by.

    Args:
        stored: valid records that are not stale, including those of random players.
        published_dir: folder of published numbers, which say for each group what is better.
    """

    def __init__(self, stored: Iterable[StoredRecord], published_dir: pathlib.Path = published.PUBLISHED_DIR) -> None:
        self._groups: dict[GroupKey, list[StoredRecord]] = collections.defaultdict(list)
        self._diverged: dict[GroupKey, list[StoredRecord]] = collections.defaultdict(list)
        self._members: dict[tuple[GroupKey, pathlib.Path | None], _Member | None] = {}
        for item in stored:
            kept = self._diverged if "diverged" in item.record else self._groups
            kept[group_of(item.record)].append(item)
        self._group_of_file = {item.path: key for key, items in self._groups.items() for item in items}
        self._levels = random_player.levels(item.record for items in self._groups.values() for item in items)
        self._published_dir = published_dir

    def band(
        self,
        record: Mapping[str, Any],
        without: pathlib.Path | None = None,
        false_alarm_rate: float = bands.FALSE_ALARM_RATE,
    ) -> bands.Band:
        """Makes the band of a record's group.

        Args:
            record: valid record that is not stale.
            without: file of the record itself, which is left out everywhere; None if it is not one of those to judge
                by.
            false_alarm_rate: chance that one sound run is out of the band.

        Raises:
            BandError: the run diverged, there is no other run of it, or there are too few runs to know their spread.
        """
        if "diverged" in record:
            raise bands.BandError("It diverged.")
        others = self._alike(self._groups, record, without)
        if not others:
            raise bands.BandError("There is no other run of it.")
        random = self._random(others)
        family = self._family(record, random is not None, without)
        level, level_end = (None, None) if random is None else random
        return bands.make_band(others, self._better(record), level, family, false_alarm_rate, level_end)

    def others_without_divergence(self, record: Mapping[str, Any], without: pathlib.Path | None = None) -> int:
        """Returns the number of other runs of a record's group if none of them diverged; 0 otherwise."""
        if self._alike(self._diverged, record, without):
            return 0
        return len(self._alike(self._groups, record, without))

    def _alike(
        self,
        kept: Mapping[GroupKey, Sequence[StoredRecord]],
        record: Mapping[str, Any],
        without: pathlib.Path | None,
    ) -> list[Mapping[str, Any]]:
        """Returns the other runs of a record's group that have the same settings."""
        return [
            item.record
            for item in kept.get(group_of(record), ())
            if item.path != without and _same_settings(item.record["config"], record["config"])
        ]

    def _others(self, key: GroupKey, without: pathlib.Path | None) -> list[Mapping[str, Any]]:
        return [item.record for item in self._groups.get(key, ()) if item.path != without]

    def _family(self, record: Mapping[str, Any], above_random: bool, without: pathlib.Path | None) -> list[np.ndarray]:
        """Returns the scores of the related groups with two runs or more, as bands compare them."""
        own = self._group_of_file.get(without) if without is not None else None
        members = (self._member(key, without if key == own else None) for key in self._groups)
        return [
            member.scores
            for member in members
            if member and member.above_random == above_random and _related(member.run, record, above_random)
        ]

    def _member(self, key: GroupKey, without: pathlib.Path | None) -> _Member | None:
        """Returns a group as a member of families; None with fewer than two runs. Results are cached."""
        if (key, without) not in self._members:
            runs = self._others(key, without)
            member = None
            if len(runs) > 1:
                random = self._random(runs)
                scores = np.array([run["evaluation"]["mean"] for run in runs])
                values = bands.on_band_scale(scores, None if random is None else random.mean)
                member = _Member(runs[0], random is not None, values)
            self._members[key, without] = member
        return self._members[key, without]

    def _random(self, runs: Sequence[Mapping[str, Any]]) -> random_player.Level | None:
        """Returns a random player's score; None if it is unknown, a run does not surpass it, or more is not better.

        It is None for random players themselves, too.
        """
        first = runs[0]
        if first["agent"] == random_player.AGENT or "env" not in first["config"]:
            return None
        known = self._levels.get(random_player.game_of(first))
        is_better = self._better(first) in ("more", "above")
        if known is None or not is_better or any(run["evaluation"]["mean"] <= known.mean for run in runs):
            return None
        return known

    def _better(self, record: Mapping[str, Any]) -> published.Better:
        printed = published.published_row(*comparisons.key_of(record), self._published_dir)
        return printed.better if printed else "more"


def judge(
    items: Sequence[StoredRecord],
    reference: Reference,
    known: Collection[pathlib.Path] = (),
    outliers: Collection[pathlib.Path] = (),
) -> list[Judgement]:
    """Judges records together: if all are sound, at least one falls out with the chance `bands.FALSE_ALARM_RATE`.

    Args:
        items: valid records that are not stale. A record that is part of the reference is left out of its own band.
        reference: records to judge by.
        known: files of records that may have diverged, since they are committed and others are judged by them.
        outliers: files of records that may be out of their band.
    """
    reasons: dict[pathlib.Path, str] = {}
    alone: dict[pathlib.Path, int] = {}
    for item in items:
        try:
            reference.band(item.record, item.path)
        except bands.BandError as error:
            reasons[item.path] = str(error)
        if "diverged" in item.record and item.path not in known:
            alone[item.path] = reference.others_without_divergence(item.record, item.path)
    rate = bands.FALSE_ALARM_RATE / max(len(items) - len(reasons), 1)
    return [
        Judgement(item.path, item.record, None, reasons[item.path], alone.get(item.path, 0))
        if item.path in reasons
        else Judgement(
            item.path, item.record, reference.band(item.record, item.path, rate), is_known=item.path in outliers
        )
        for item in items
    ]


def judge_by(
    committed: Iterable[StoredRecord],
    stored: Iterable[StoredRecord],
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
    known: Collection[pathlib.Path] = (),
    outliers: Collection[pathlib.Path] = (),
) -> list[Judgement]:
    """Judges records by the committed ones of their groups, and by each other if a group has none.

    Stale records of both kinds are left out.

    Args:
        committed: valid records to judge by.
        stored: valid records to judge; they may include committed ones.
        published_dir: folder of published numbers, which say for each group what is better.
        configs_dir: folder of current configs, for staleness.
        known: as for `judge`.
        outliers: files of known outliers among the records of both kinds.
    """

    def current(items: Iterable[StoredRecord]) -> list[StoredRecord]:
        return [item for item in items if staleness.stale_reason(item.record, configs_dir) is None]

    judged, reference = current(stored), current(committed)
    groups = {group_of(item.record) for item in reference}
    reference += [item for item in judged if group_of(item.record) not in groups]
    reference = [item for item in reference if item.path not in outliers]
    return judge(judged, Reference(reference, published_dir), known, outliers)


def group_of(record: Mapping[str, Any]) -> GroupKey:
    """Returns the paper, experiment, task, agent and scale that the runs of a group share."""
    return (*comparisons.key_of(record), record["scale"])


def rerun_command(record: Mapping[str, Any]) -> str:
    """Returns the shell command that makes a record again in `runs/again`, apart from the committed one.

    It names no agent for a study, which makes the records of all its agents at once, and no task for tasks that are
    learned together.
    """
    config = record["config"]
    unnamed = {name for name, is_so in (("agent", "study" in config), ("task", bool(tasks(config)))) if is_so}
    names = ("paper", "experiment", "task", "agent", "scale", "seed")
    flags = [f"--{name}={record[name]}" for name in names if name not in unnamed]
    return " ".join(
        (".venv/bin/python -m repro.reproduce", *flags, "--results_dir=runs/again/records", "--runs_dir=runs/again")
    )


def _same_settings(config: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Returns whether two configs agree; one of them may have additional fields that were introduced later."""
    return (
        config == other
        or not staleness.config_difference(config, other)
        or not staleness.config_difference(other, config)
    )


def _related(other: Mapping[str, Any], record: Mapping[str, Any], above_random: bool) -> bool:
    """Returns whether the groups of two runs are of one family."""
    if other["paper"] != record["paper"] or other["evaluation"]["unit"] != record["evaluation"]["unit"]:
        return False
    return above_random or (other["experiment"], other["task"]) == (record["experiment"], record["task"])
