"""Checks all records: `python -m repro.check [--json=out.json] [--paper=...] [--experiment=...]`.

The exit code is 1 when a file is no valid record in its place and in the unit of the number it answers, when a
record fell out of the band of its experiment, or when a published number was changed. A record whose experiment's
config has changed since is stale: shown, not counted.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
from typing import Any

import rich.console
from absl import flags

from repro import cli
from repro.evidence import bands, checksums, comparisons, published, settings, staleness
from repro.evidence.records import StoredRecord, ValidationError, read_all
from repro.evidence.rows import Row, count_verdicts, group_records, make_rows, stale_records
from repro.report import tables


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """What a check found.

    Attributes:
        records: valid records, stale ones among them.
        stale: path of each stale record to the reason.
        faults: files that are not valid records or bands, are in a wrong unit, or hold changed published numbers.
        regressions: records that fell out of their band.
        banded: number of records that a band judged.
        rows: every row of the papers looked at.
        settings: paper to how many printed settings its configs at paper scale hold, and hold otherwise.
    """

    records: list[StoredRecord]
    stale: dict[pathlib.Path, str]
    faults: list[ValidationError]
    regressions: list[bands.Regression]
    banded: int
    rows: list[Row]
    settings: dict[str, collections.Counter[str]]

    @property
    def passed(self) -> bool:
        """Whether nothing makes the exit code 1."""
        return not (self.faults or self.regressions)


def check(
    results_dir: pathlib.Path,
    paper: str | None = None,
    experiment: str | None = None,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
) -> CheckResult:
    """Reads and judges the records below a directory.

    Args:
        results_dir: root of the record layout.
        paper: only this paper.
        experiment: only this experiment.
        published_dir: published numbers.
        configs_dir: current configs.

    Raises:
        PublishedError: the published numbers themselves cannot be read.
    """

    def wanted(path: pathlib.Path) -> bool:
        parts = path.relative_to(results_dir).parts
        return parts[0] == (paper or parts[0]) and (experiment is None or experiment in parts[1:2])

    stored, faults = read_all(results_dir)
    stored = [item for item in stored if wanted(item.path)]
    faults = [fault for fault in faults if wanted(fault.path)]
    in_wrong_unit = [fault for item in stored if (fault := _unit_fault(item, published_dir))]
    refused = {fault.path for fault in in_wrong_unit}
    stored = [item for item in stored if item.path not in refused]
    groups = group_records(stored, configs_dir)
    rows = make_rows(
        groups,
        papers=[paper] if paper else None,
        experiment=experiment,
        published_dir=published_dir,
        configs_dir=configs_dir,
    )
    stale = stale_records(groups)
    faults += in_wrong_unit
    regressions, banded = [], 0
    judged_by = collections.defaultdict(list)
    for item in stored:
        if item.path not in stale:
            judged_by[bands.band_path(item.path, item.record["scale"])].append(item)
    for path, items in judged_by.items():
        try:
            band = bands.read_band(path)
        except bands.BandError as error:
            faults.append(ValidationError(path, str(error)))
            continue
        if band is not None:
            banded += len(items)
            regressions += [found for item in items if (found := bands.find_regression(item, band))]
    for folder, files in ((published_dir, checksums.PUBLISHED), (results_dir, checksums.RECORDS)):
        faults += [ValidationError(folder, sentence) for sentence in checksums.changes(folder, files)]
    judged: dict[str, collections.Counter[str]] = {
        name: collections.Counter(s.status for s in settings.compare_settings(name, configs_dir, published_dir))
        for name in published.papers(published_dir)
        if name == (paper or name)
    }
    return CheckResult(stored, stale, faults, regressions, banded, rows, judged)


def write_bands(result: CheckResult, published_dir: pathlib.Path = published.PUBLISHED_DIR) -> list[pathlib.Path]:
    """Writes a band for every experiment, task, agent and scale with enough current records; returns their paths.

    Args:
        findings: from `check`; stale records are left out.
        published_dir: says for each row what is better.

    Raises:
        BandError: a band cannot be written.
    """
    runs = collections.defaultdict(list)
    for item in result.records:
        if item.path not in result.stale:
            runs[bands.band_path(item.path, item.record["scale"])].append(item.record)
    written = []
    for path, group in runs.items():
        if len(group) >= bands.MIN_RUNS:
            printed = published.published_row(*comparisons.key_of(group[0]), published_dir)
            bands.write_band(path, bands.make_band(group, printed.better if printed else "more"))
            written.append(path)
    return written


def as_json(result: CheckResult) -> dict[str, Any]:
    """Returns the findings as plain JSON: counts, faults, stale records with reasons, and all rows."""
    return {
        "records": len(result.records),
        "faults": [{"path": str(fault.path), "message": fault.message} for fault in result.faults],
        "stale": [{"path": str(path), "reason": reason} for path, reason in result.stale.items()],
        "regressions": [
            {
                "path": str(found.path),
                "value": found.value,
                "low": found.band.low,
                "high": found.band.high,
                "message": found.message,
            }
            for found in result.regressions
        ],
        "judged_by_a_band": result.banded,
        "settings": {paper: dict(counts) for paper, counts in result.settings.items()},
        "verdicts": _counts(result.rows),
        "rows": [dataclasses.asdict(row) | {"verdict": row.verdict} for row in result.rows],
    }


def show(result: CheckResult, console: rich.console.Console) -> None:
    """Prints the rows that have records, the counts of all rows, stale records, faults and regressions."""
    shown = [row for row in result.rows if row.seeds]
    if shown:
        console.print(tables.terminal_table(shown, console.width))
    for paper, counts in _counts(result.rows).items():
        text = ", ".join(f"{count} {name}" for name, count in counts.items())
        held = result.settings.get(paper, collections.Counter())
        held_text = f"; settings: {held['as printed']} as printed, {held['differs']} otherwise" if held else ""
        console.print(
            f"{tables.PAPERS.get(paper, paper)}: {sum(counts.values())} printed numbers and sentences, {text}"
            f"{held_text}",
            soft_wrap=True,
        )
    for path, reason in result.stale.items():
        console.print(f"stale: {path}: {reason}", soft_wrap=True)
    for fault in result.faults:
        console.print(f"fault: {fault.message}", soft_wrap=True)
    for found in result.regressions:
        console.print(f"regression: {found.message}", soft_wrap=True)
    console.print(
        f"{len(result.records)} records, {result.banded} judged by a band: {len(result.regressions)} regressions,"
        f" {len(result.faults)} faults, {len(result.stale)} stale"
    )
    if not result.records and not result.faults:
        console.print("No records were found: nothing to check.")


def main(argv: list[str]) -> None:
    del argv
    cli.quiet()
    values = flags.FLAGS
    results_dir = pathlib.Path(values.results_dir)
    if values["results_dir"].present and not results_dir.is_dir():
        cli.fail(f"there is no directory {values.results_dir!r} with records.")
    if values.paper and values.paper not in (papers := _papers(results_dir)):
        cli.fail(f"there is no paper {values.paper!r}{cli.nearest(values.paper, papers)}.")
    try:
        result = check(results_dir, values.paper, values.experiment)
    except published.PublishedError as error:
        cli.fail(error, code=1)
    if values.experiment and not result.rows and not result.faults:
        cli.fail(f"no published number and no record belongs to an experiment {values.experiment!r}.")
    show(result, rich.console.Console(highlight=False))
    if values.json:
        try:
            pathlib.Path(values.json).write_text(json.dumps(as_json(result), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            cli.fail(f"{values.json} could not be written ({error.strerror}).")
    if not result.passed:
        raise SystemExit(1)
    if values.write_bands:
        try:
            for path in write_bands(result):
                print(f"Band: {path}")
        except bands.BandError as error:
            cli.fail(error)


def _unit_fault(item: StoredRecord, published_dir: pathlib.Path) -> ValidationError | None:
    printed = published.published_row(*comparisons.key_of(item.record), published_dir)
    unit = item.record["evaluation"]["unit"]
    if printed is None or unit == printed.unit:
        return None
    return ValidationError(
        item.path, f"The record {item.path} is in {unit!r} but the paper's number in {printed.unit!r}."
    )


def _counts(rows: list[Row]) -> dict[str, dict[str, int]]:
    """Paper to verdict to how many printed numbers and sentences have it."""
    by_paper: dict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        if row.finding is not None:
            by_paper[row.paper].append(row)
    return {paper: count_verdicts(of_paper) for paper, of_paper in by_paper.items()}


def _papers(results_dir: pathlib.Path) -> list[str]:
    own = [path.name for path in results_dir.glob("*") if path.is_dir()]
    return sorted({*published.papers(), *own})


def _define_flags() -> None:
    flags.DEFINE_string("json", None, "File to write the findings to.")
    flags.DEFINE_string("results_dir", "results", "Folder with the records.")
    flags.DEFINE_string("paper", None, "Check only this paper.")
    flags.DEFINE_string("experiment", None, "Check only this experiment.")
    flags.DEFINE_bool("write_bands", False, "Where all is sound, write a band from every five records or more.")


if __name__ == "__main__":
    _define_flags()
    cli.run(main)
