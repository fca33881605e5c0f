"""Verdicts by the share of the paper's budget, now and before the campaign."""

from collections.abc import Sequence

from repro.evidence.rows import Row
from repro.evidence.verdicts import BUDGET_TOLERANCE, VERDICTS, verdict_of

SHARES = (
    "all of it",
    "a tenth and more",
    "less than a tenth",
    "no budget is printed",
    "studies, which train no network",
    "no run",
)
"""Shares of the paper's training budget, in the order of a table."""

BEFORE = """\
The campaign was planned on 22 November 2026. At that time there were 219 records, made in 38.1 core-hours, and these
rows (`git show 77378c97:README.md`):

| Paper | reproduced | below | partial | not run | rows |
| --- | ---: | ---: | ---: | ---: | ---: |
| IMPALA | 0 | 0 | 2 | 351 | 353 |
| ACER | 0 | 0 | 12 | 26 | 38 |
| ReF-ER | 7 | 0 | 16 | 31 | 54 |
| C-trace | 48 | 5 | 8 | 16 | 77 |
| STAC | 0 | 0 | 0 | 99 | 99 |

All 55 reproduced rows were from studies. A row was `partial` if it had fewer frames, runs, games or tasks than the
paper, whatever it showed, or if its interval contained both answers. The two tables do not count the same: since then
rows were added and removed, a row that depends on an assumption is no longer `reproduced`, and most agents were
changed, so that their runs of that time do not count any more.
"""


def share_of_budget(row: Row) -> str:
    """Returns the entry of `SHARES` that a row belongs to."""
    if not row.seeds:
        return "no run"
    if not row.trained:
        return "studies, which train no network"
    if row.share is None:
        return "no budget is printed"
    if row.share >= 1 - BUDGET_TOLERANCE:
        return "all of it"
    return "a tenth and more" if row.share >= 0.1 * (1 - BUDGET_TOLERANCE) else "less than a tenth"


def by_share(rows: Sequence[Row]) -> str:
    """Returns how many rows of printed numbers have each verdict at each share, as a Markdown table.

    Args:
        rows: any rows; those without a printed number are left out, and all rows of a sentence count.
    """
    found = [(share_of_budget(row), verdict_of(row.finding, row.shortfalls)) for row in rows if row.finding is not None]
    lines = [
        "| Share of the paper's budget | " + " | ".join(VERDICTS) + " | rows |",
        "| --- |" + " ---: |" * (len(VERDICTS) + 1),
    ]
    for name, of_share in (*((share, [share]) for share in SHARES), ("together", SHARES)):
        verdicts = [verdict for share, verdict in found if share in of_share]
        numbers = [verdicts.count(verdict) for verdict in VERDICTS] + [len(verdicts)]
        lines.append(f"| {name} | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(lines) + "\n"
