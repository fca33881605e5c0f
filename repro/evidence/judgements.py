"""Judges records by the bands of others: each committed run by the rest of its group, a rerun by the committed group.

A group is the runs of one paper, experiment, task, agent and scale with the same config. Fewer runs than
`bands.MIN_RUNS` take the spread of their family: the groups of the same paper and unit whose scores count as logarithms
above random play, otherwise those of the same task. The false-alarm rate of all runs judged together is fixed, so that
each has its share of it. Runs that diverged make no band. One that does is a regression where there are others of its
group and none of them diverged, unless it is itself one of the records that others are judged by. Nor do known outliers
make a band (`outliers.py`); they are judged and never a regression.
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
    "not judged: too few runs, or it diverged and is known for it",
)
"""By what a record is judged, in the words of `python -m repro.check`."""


@dataclasses.dataclass(frozen=True)
class Judgement:
    """What a band says of one record.

    Attributes:
        path, record: of the run.
        band: what was expected; None where there is nothing to judge by, and of a run that diverged.
        reason: why there is no band; empty otherwise.
        alone: the number of other runs of its group, none of which diverged as this one did; 0 if it did not, or is
            known for it.
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
        """What the record holds."""
        return self.record["evaluation"]["mean"]

    @property
    def fell_out(self) -> bool:
        """Whether the run is a regression: its number is, or it diverged where others did not."""
        return bool(self.alone) or (self.is_out and not self.is_known)

    @property
    def is_out(self) -> bool:
        """Whether the run's number is out of its band."""
        return self.band is not None and not self.band.holds(self.value)

    @property
    def command(self) -> str:
        """Runs it again, apart from the committed records."""
        return rerun_command(self.record)

    @property
    def kind(self) -> str:
        """By what it is judged, one of `KINDS`."""
        if self.alone:
            return OWN
        if self.band is None:
            return UNJUDGED
        return OWN if self.band.spread == "own" else POOLED

    @property
    def message(self) -> str:
        """Which record, where it lies, and how to rerun one that fell out."""
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
        end, side = (low, "below") if low is not None and self.value < low else (high, "above")
        assert end is not None
        return (
            f"{self.path} holds {self.value:.6g} {self.band.unit}, {abs(self.value - end):.4g} {side} the end "
            f"{end:.6g} of its band ({expected}); rerun it with: {self.command}"
        )


class _Member(NamedTuple):
    """A group as a member of families.

    run: one of it. above_random: whether its scores count as logarithms above random play. scores: as bands compare
    them.
    """

    run: Mapping[str, Any]
    above_random: bool
    scores: np.ndarray


class Reference:
    """The records to judge by.

    Args:
        stored: valid records that are not stale, of random players, too.
        published_dir: says for each group what is better.
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
            record: valid and not stale.
            without: file of the record itself, which counts nowhere; None where it is not among those to judge by.
            false_alarm_rate: chance that one sound run falls out.

        Raises:
            BandError: there is no other run, or too few to know a spread, or it diverged.
        """
        if "diverged" in record:
            raise bands.BandError("It diverged.")
        others = self._alike(self._groups, record, without)
        if not others:
            raise bands.BandError("There is no other run of it.")
        level = self._level(others)
        family = self._family(record, level is not None, without)
        return bands.make_band(others, self._better(record), level, family, false_alarm_rate)

    def others_without_divergence(self, record: Mapping[str, Any], without: pathlib.Path | None = None) -> int:
        """Returns how many other runs of a record's group there are, if none of them diverged; 0 otherwise."""
        if self._alike(self._diverged, record, without):
            return 0
        return len(self._alike(self._groups, record, without))

    def _alike(
        self,
        kept: Mapping[GroupKey, Sequence[StoredRecord]],
        record: Mapping[str, Any],
        without: pathlib.Path | None,
    ) -> list[Mapping[str, Any]]:
        """The other runs of a record's group that have its settings."""
        return [
            item.record
            for item in kept.get(group_of(record), ())
            if item.path != without and _same_settings(item.record["config"], record["config"])
        ]

    def _others(self, key: GroupKey, without: pathlib.Path | None) -> list[Mapping[str, Any]]:
        return [item.record for item in self._groups.get(key, ()) if item.path != without]

    def _family(self, record: Mapping[str, Any], above_random: bool, without: pathlib.Path | None) -> list[np.ndarray]:
        """Scores of the related groups with two runs or more, as bands compare them."""
        own = self._group_of_file.get(without) if without is not None else None
        members = (self._member(key, without if key == own else None) for key in self._groups)
        return [
            member.scores
            for member in members
            if member and member.above_random == above_random and _related(member.run, record, above_random)
        ]

    def _member(self, key: GroupKey, without: pathlib.Path | None) -> _Member | None:
        """What a group is to others of its family; None with fewer than two runs. Kept, for all that are judged."""
        if (key, without) not in self._members:
            runs = self._others(key, without)
            member = None
            if len(runs) > 1:
                level = self._level(runs)
                scores = np.array([run["evaluation"]["mean"] for run in runs])
                member = _Member(runs[0], level is not None, bands.on_band_scale(scores, level))
            self._members[key, without] = member
        return self._members[key, without]

    def _level(self, runs: Sequence[Mapping[str, Any]]) -> float | None:
        """What a random player scores, where it is known, every run surpasses it, and more is better."""
        if "env" not in runs[0]["config"] or self._better(runs[0]) not in ("more", "above"):
            return None
        known = self._levels.get(random_player.game_of(runs[0]))
        if known is None or any(run["evaluation"]["mean"] <= known.mean for run in runs):
            return None
        return known.mean

    def _better(self, record: Mapping[str, Any]) -> published.Better:
        printed = published.published_row(*comparisons.key_of(record), self._published_dir)
        return printed.better if printed else "more"


def judge(
    items: Sequence[StoredRecord],
    reference: Reference,
    known: Collection[pathlib.Path] = (),
    outliers: Collection[pathlib.Path] = (),
) -> list[Judgement]:
    """Judges records together: all sound, one or more fall out with the chance `bands.FALSE_ALARM_RATE`.

    Args:
        items: valid records that are not stale; those that are part of the reference are left out of their own bands.
        reference: to judge by.
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
    """Judges records by the committed ones of their groups, and by each other where a group has none.

    Args:
        committed: valid records.
        stored: valid records to judge, some of them perhaps committed ones. Stale ones, here and there, are left out.
        published_dir: says for each group what is better.
        configs_dir: current configs, for staleness.
        known: as for `judge`.
        outliers: files of known outliers, here and there.
    """

    def current(items: Iterable[StoredRecord]) -> list[StoredRecord]:
        return [item for item in items if staleness.stale_reason(item.record, configs_dir) is None]

    judged, reference = current(stored), current(committed)
    groups = {group_of(item.record) for item in reference}
    reference += [item for item in judged if group_of(item.record) not in groups]
    reference = [item for item in reference if item.path not in outliers]
    return judge(judged, Reference(reference, published_dir), known, outliers)


def group_of(record: Mapping[str, Any]) -> GroupKey:
    """Returns what the runs of one group share."""
    return (*comparisons.key_of(record), record["scale"])


def rerun_command(record: Mapping[str, Any]) -> str:
    """Returns the command that makes a record again in `runs/again`, apart from the committed one.

    A study, which makes all its answers at once, has no agent to name, and a run of tasks that are learned together no
    task.
    """
    config = record["config"]
    unnamed = {name for name, is_so in (("agent", "study" in config), ("task", bool(tasks(config)))) if is_so}
    names = ("paper", "experiment", "task", "agent", "scale", "seed")
    flags = [f"--{name}={record[name]}" for name in names if name not in unnamed]
    return " ".join(
        (".venv/bin/python -m repro.reproduce", *flags, "--results_dir=runs/again/records", "--runs_dir=runs/again")
    )


def _same_settings(config: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two configurations agree, of which the later one may have fields that came in between."""
    return (
        config == other
        or not staleness.config_difference(config, other)
        or not staleness.config_difference(other, config)
    )


def _related(other: Mapping[str, Any], record: Mapping[str, Any], above_random: bool) -> bool:
    """Whether the spread of one run's group says something of that of another's."""
    if other["paper"] != record["paper"] or other["evaluation"]["unit"] != record["evaluation"]["unit"]:
        return False
    return above_random or (other["experiment"], other["task"]) == (record["experiment"], record["task"])
