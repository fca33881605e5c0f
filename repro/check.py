"""Checks all records: `python -m repro.check [--json=out.json] [--paper=...] [--experiment=...]`.

The exit code is 1 if a file is no valid record for its path or has another unit than the number that it answers, if a
record contradicts itself or is a copy of another one, if it is outside the band of the others in its group, if a
published number or a record differs from its checksum, if a published row names an agent or a task that does not exist,
or if a committed record names a commit that is not in the history of this checkout. A record is stale if its
experiment's config or its agent's behaviour version has changed since; it is shown but not counted, and an error if a
row of `docs/results.md` or `README.md` is still based on it.
Records in another folder, such as those of a rerun, are judged by the committed ones:
`--results_dir=runs/again/records`.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import rich.console
from absl import flags

from repro import cli
from repro.environments.names import task_name
from repro.evidence import (
    checksums,
    comparisons,
    consistency,
    judgements,
    origins,
    outliers,
    published,
    row_names,
    settings,
    staleness,
)
from repro.evidence.groups import group_records, stale_records
from repro.evidence.records import ROOT, RecordError, StoredRecord, ValidationError, committed_files, read_all
from repro.evidence.rows import Row, make_rows
from repro.evidence.sentences import count_verdicts
from repro.report import tables
from repro.report.markdown import shows

PAGES = (ROOT / "docs" / "results.md", ROOT / "README.md")
"""Files that show results."""


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """Result of a check.

    Attributes:
        records: valid records, including stale ones.
        stale: paths of the stale records, each with the reason.
        errors: files that are not valid records, have a wrong unit, contradict themselves, are copies, were made by an
            unknown commit or were changed, and rows on pages that are based on stale records.
        judged: judgement of each record that is not stale by its band.
        rows: all rows of the checked papers.
        settings: for each paper, how many of its printed settings its configs have at paper scale, by status.
    """

    records: list[StoredRecord]
    stale: dict[pathlib.Path, str]
    errors: list[ValidationError]
    judged: list[judgements.Judgement]
    rows: list[Row]
    settings: dict[str, collections.Counter[str]]

    @property
    def regressions(self) -> list[judgements.Judgement]:
        """Judgements of the records outside their bands."""
        return [found for found in self.judged if found.fell_out]

    @property
    def judged_by(self) -> dict[str, int]:
        """Number of records for each kind of judgement; see `judgements.KINDS`."""
        counts = collections.Counter(found.kind for found in self.judged)
        return {kind: counts[kind] for kind in judgements.KINDS}

    @property
    def passed(self) -> bool:
        """Whether there is no error and no regression, so that the exit code is 0."""
        return not (self.errors or self.regressions)


def check(
    results_dir: pathlib.Path,
    paper: str | None = None,
    experiment: str | None = None,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
    committed_dir: pathlib.Path | None = None,
    pages: Sequence[pathlib.Path] = (),
) -> CheckResult:
    """Reads and judges the records in a folder.

    Args:
        results_dir: root of the records.
        paper: the only paper to check; None for all.
        experiment: the only experiment to check; None for all.
        published_dir: folder of the published numbers.
        configs_dir: folder of the current configs.
        committed_dir: folder of the records to judge by; None for those in `results_dir` only.
        pages: Markdown files whose rows must not be based on stale records.

    Raises:
        PublishedError: the published numbers cannot be read.
        RecordError: the list of outliers cannot be read.
    """

    def wanted(path: pathlib.Path) -> bool:
        parts = path.relative_to(results_dir).parts
        return parts[0] == (paper or parts[0]) and (experiment is None or experiment in parts[1:2])

    every, errors = read_all(results_dir)
    errors += [error for item in every if (error := _unit_error(item, published_dir))]
    refused = {error.path for error in errors}
    every = [item for item in every if item.path not in refused]
    stored = [item for item in every if wanted(item.path)]
    errors = [error for error in errors if wanted(error.path)]
    groups = group_records(every, configs_dir)  # a row may need records of other experiments, too
    rows = make_rows(
        groups,
        papers=[paper] if paper else None,
        experiment=experiment,
        published_dir=published_dir,
        configs_dir=configs_dir,
    )
    committed: list[StoredRecord] = []
    known, listed = committed_files(results_dir), outliers.read(results_dir)
    explained = outliers.explained(every, listed)
    if committed_dir is not None and committed_dir.resolve() != results_dir.resolve():
        committed = read_all(committed_dir)[0]
        explained |= outliers.explained(committed, outliers.read(committed_dir))
    found = judgements.judge_by(committed, every, published_dir, configs_dir, known, explained)
    for folder, files in ((published_dir, checksums.PUBLISHED), (results_dir, checksums.RECORDS)):
        errors += [ValidationError(folder, sentence) for sentence in checksums.changes(folder, files)]
    printed = [name for name in published.papers(published_dir) if name == (paper or name)]
    errors += row_names.find_errors(printed, task_name, published_dir, configs_dir)
    errors += origins.find_errors(stored, results_dir)
    errors += consistency.find_errors(stored)
    errors += [ValidationError(results_dir, text) for text in outliers.find_errors(listed, found)]
    stale = {path: reason for path, reason in stale_records(groups).items() if wanted(path)}
    if stale:
        papers = sorted({item.record["paper"] for item in stored})
        errors += _stale_rows(every, rows, papers, experiment, pages, published_dir, configs_dir)
    held: dict[str, collections.Counter[str]] = {
        name: collections.Counter(s.status for s in settings.compare_settings(name, configs_dir, published_dir))
        for name in printed
    }
    return CheckResult(stored, stale, errors, [item for item in found if wanted(item.path)], rows, held)


def as_json(result: CheckResult) -> dict[str, Any]:
    """Returns the result as plain JSON: counts, faults, stale records with reasons, regressions and all rows."""
    return {
        "records": len(result.records),
        "faults": [{"path": str(error.path), "message": error.message} for error in result.errors],
        "stale": [{"path": str(path), "reason": reason} for path, reason in result.stale.items()],
        "regressions": [
            {
                "path": str(found.path),
                "value": found.value,
                "low": found.band and found.band.low,
                "high": found.band and found.band.high,
                "message": found.message,
            }
            for found in result.regressions
        ],
        "judged": result.judged_by,
        "settings": {paper: dict(counts) for paper, counts in result.settings.items()},
        "verdicts": _counts(result.rows),
        "rows": [dataclasses.asdict(row) | {"verdict": row.verdict} for row in result.rows],
    }


def show(result: CheckResult, console: rich.console.Console) -> None:
    """Prints the rows with records (except random play), the counts of all rows, stale records, errors, regressions."""
    shown = [row for row in result.rows if row.seeds and not tables.is_random_play(row)]
    for paper, rows in tables.by_paper(shown).items():
        cli.say(console, tables.PAPERS.get(paper, paper), style="bold")
        console.print(tables.terminal_table(rows, console.width))
    for paper, counts in _counts(result.rows).items():
        text = ", ".join(f"{count} {name}" for name, count in counts.items())
        held = result.settings.get(paper, collections.Counter())
        held_text = f"; settings: {held['as printed']} as printed, {held['differs']} otherwise" if held else ""
        cli.say(
            console,
            f"{tables.PAPERS.get(paper, paper)}: {sum(counts.values())} printed numbers and sentences, {text}"
            f"{held_text}",
        )
    for path, reason in result.stale.items():
        cli.say(console, f"stale: {path}: {reason}")
    for error in result.errors:
        cli.say(console, f"fault: {error.message}")
    for found in result.judged:
        if found.is_known:
            cli.say(console, f"known: {found.message}; see {outliers.NAME}")
    for found in result.regressions:
        cli.say(console, f"regression: {found.message}")
    judged = ", ".join(f"{count} {kind}" for kind, count in result.judged_by.items())
    cli.say(
        console,
        f"{len(result.records)} records ({judged}): {len(result.regressions)} regressions,"
        f" {len(result.errors)} faults, {len(result.stale)} stale",
    )
    if not result.records and not result.errors:
        cli.say(console, "No records were found: nothing to check.")


def main(argv: list[str]) -> None:
    del argv
    cli.quiet()
    values = flags.FLAGS
    results_dir = pathlib.Path(values.results_dir)
    if values["results_dir"].present and not results_dir.is_dir():
        cli.fail(f"--results_dir={values.results_dir}: there is no such folder.")
    if values.paper and values.paper not in (papers := _papers(results_dir)):
        cli.fail(
            f"there is no paper {values.paper!r}{cli.nearest(values.paper, papers)} (there are {', '.join(papers)})"
        )
    try:
        committed_dir = pathlib.Path(values.committed_dir)
        result = check(results_dir, values.paper, values.experiment, committed_dir=committed_dir, pages=PAGES)
    except (published.PublishedError, RecordError) as error:
        cli.fail(error, code=1)
    if values.experiment and not result.rows and not result.errors:
        papers = [values.paper] if values.paper else published.papers()
        known = sorted({printed.experiment or "" for paper in papers for printed in published.load(paper).rows})
        cli.fail(
            f"no published number and no record belongs to an experiment {values.experiment!r}"
            f"{cli.nearest(values.experiment, known)}"
        )
    show(result, rich.console.Console())
    cli.write_json(values.json, as_json(result))
    if not result.passed:
        raise SystemExit(1)


def _unit_error(item: StoredRecord, published_dir: pathlib.Path) -> ValidationError | None:
    printed = published.published_row(*comparisons.key_of(item.record), published_dir)
    unit = item.record["evaluation"]["unit"]
    if printed is None or unit == printed.unit:
        return None
    return ValidationError(
        item.path, f"The record {item.path} has the unit {unit!r}, but the paper's number has {printed.unit!r}."
    )


def _stale_rows(
    every: Sequence[StoredRecord],
    rows: Sequence[Row],
    papers: Sequence[str],
    experiment: str | None,
    pages: Sequence[pathlib.Path],
    published_dir: pathlib.Path,
    configs_dir: pathlib.Path,
) -> list[ValidationError]:
    """Returns an error for each line of the pages that shows a row made from stale records."""
    groups = group_records(every, configs_dir, keep_stale=True)
    as_current = make_rows(
        groups, papers=papers, experiment=experiment, published_dir=published_dir, configs_dir=configs_dir
    )
    resting = [row for row in as_current if row.seeds and row not in rows]
    return [
        ValidationError(page, f"A row of {page} is made from stale records; rewrite it with make report: {line}")
        for page in pages
        if page.is_file()
        for line in page.read_text(encoding="utf-8").splitlines()
        if any(shows(line, row) for row in resting)
    ]


def _counts(rows: list[Row]) -> dict[str, dict[str, int]]:
    """Returns for each paper the number of printed numbers and sentences with each verdict."""
    by_paper: dict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        if row.finding is not None:
            by_paper[row.paper].append(row)
    return {paper: count_verdicts(of_paper) for paper, of_paper in by_paper.items()}


def _papers(results_dir: pathlib.Path) -> list[str]:
    own = [path.name for path in results_dir.glob("*") if path.is_dir()]
    return sorted({*published.papers(), *own})


def _define_flags() -> None:
    cli.define_json()
    flags.DEFINE_string("results_dir", "results", "Folder with the records.")
    flags.DEFINE_string("committed_dir", "results", "Folder with the records by which to judge those in --results_dir.")
    flags.DEFINE_string("paper", None, "Check only this paper.")
    flags.DEFINE_string("experiment", None, "Check only this experiment.")


if __name__ == "__main__":
    _define_flags()
    cli.run(main)
