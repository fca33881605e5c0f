"""Verdicts on published numbers: what our result says about a number, and whether its protocol lacks anything."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from repro.evidence.published import Better, PublishedRow

Ends: TypeAlias = tuple[float, float]
Finding = Literal["agrees", "contradicts", "undecided", "not run", "cannot run here"]
Verdict = Literal["reproduced", "agrees", "disagrees", "contradicts", "undecided", "not run", "cannot run here"]

MEANINGS: Mapping[Verdict, str] = {
    "reproduced": "Our interval agrees with the published number or statement, and nothing of the paper's protocol is "
    "missing: budget, runs, evaluation, tasks and settings.",
    "agrees": "Our interval agrees, but the protocol is less than the paper's, or something that the paper leaves open "
    "is assumed. What is missing or assumed is listed in the row.",
    "disagrees": "Our interval contradicts the published number or statement, but the protocol is less than the "
    "paper's, or something that the paper leaves open is assumed. What is missing or assumed is listed in the row and "
    "may be the reason.",
    "contradicts": "Our interval contradicts the published number or statement, and nothing of the paper's protocol is "
    "missing: budget, runs, evaluation, tasks and settings.",
    "undecided": "Our interval contains values that agree and values that do not; or there are too few runs, no margin "
    "for a number to be met, or too little training to decide; or the answer depends on a single one of several tasks, "
    "on tasks without runs or on how something that the paper leaves open is read; or other runs may reach a score "
    "that few of ours miss; or random play reaches the printed score, too, or ours where it must stay under a number.",
    "not run": "There are no records yet.",
    "cannot run here": "The row needs hardware, an environment or an agent that this project does not have, or "
    "something that the paper does not print. The note says which.",
}
"""Meaning of each verdict, as the report explains it."""
VERDICTS: tuple[Verdict, ...] = tuple(MEANINGS)

MIN_RUNS = 5
"""Fewest runs of each agent for a finding about learning, unless the paper itself has fewer."""
BUDGET_TOLERANCE = 1e-3
"""Relative tolerance of budgets: a run stops at a whole batch, so its budget may differ slightly from the round number.
"""
ROUNDING = 1e-9
"""Relative tolerance: an exact number agrees with one that it misses by rounding."""


def find(published: float, better: Better, ends: Ends | None, tolerance: Ends | None) -> Finding:
    """Returns what our interval says about a published number.

    A number to be surpassed (`above`, `under`) needs an interval strictly beyond it, and is contradicted by one that
    ends at it. A number to be reached (`more`, `less`) counts as reached from the near end of the tolerance on, and one
    to be met (`equal`) within both ends. An interval that contains values that agree and values that do not is
    undecided.

    Args:
        published: printed number.
        better: how our number must compare with it, as in `published.Better`.
        ends: our interval in the same unit, with two equal ends for an exact number; None without an interval.
        tolerance: range (low, high) around the published number that counts as equal to it. With None a number to be
            met is undecided, and one to be reached must be reached in full.
    """
    if ends is None or (better == "equal" and tolerance is None):
        return "undecided"
    (low, high), (near, far) = ends, tolerance or (published, published)
    slack = ROUNDING * max(1.0, abs(published))
    agrees, contradicts = {
        "above": (low > published, high <= published),
        "under": (high < published, low >= published),
        "more": (low >= near - slack, high < near - slack),
        "less": (high <= far + slack, low > far + slack),
        "equal": (low >= near - slack and high <= far + slack, high < near - slack or low > far + slack),
    }[better]
    return "agrees" if agrees else "contradicts" if contradicts else "undecided"


def find_dissent(
    finding: Finding, printed: PublishedRow, alternatives: Mapping[str, Ends | None], tolerance: Ends | None
) -> tuple[str, ...]:
    """Returns the names of the alternatives with another finding; none if the finding itself is undecided.

    Args:
        finding: finding of our interval by itself.
        printed: row with a value.
        alternatives: further intervals by name, each of which must give the same finding.
        tolerance: as for `find`.
    """
    if finding == "undecided":
        return ()
    assert printed.value is not None
    found = {name: find(printed.value, printed.better, ends, tolerance) for name, ends in alternatives.items()}
    return tuple(name for name, other in found.items() if other != finding)


def runs_to_decide(printed: PublishedRow, learned: bool) -> int:
    """Returns the fewest runs of an agent that decide a row: the paper's number, but at most `MIN_RUNS`.

    A single run is enough for studies, and for rows about the speed or duration of a run.

    Args:
        printed: the row.
        learned: whether the runs come from training.
    """
    return min(MIN_RUNS, expected_runs(printed, learned)) if learned and printed.measure == "evaluation" else 1


def expected_runs(printed: PublishedRow, learned: bool) -> int:
    """Returns the number of runs in a row's protocol: the paper's, or if it is not printed, as many as decide the row.

    Arguments as for `runs_to_decide`.
    """
    return printed.n_seeds or (MIN_RUNS if learned and printed.measure == "evaluation" else 1)


def verdict_of(finding: Finding, shortfalls: Sequence[str]) -> Verdict:
    """Returns the verdict from a finding and what is missing of the protocol.

    A finding that agrees is `reproduced` if nothing is missing. One that contradicts only `disagrees` if something is.
    """
    if finding == "agrees" and not shortfalls:
        return "reproduced"
    return "disagrees" if finding == "contradicts" and shortfalls else finding


def weakest(findings: Sequence[Finding]) -> Finding:
    """Returns the finding of a sentence from those of its parts, one or more.

    A part that contradicts decides; otherwise it is the finding of the part that is answered least.
    """
    return min(findings, key=strength)


def strength(finding: Finding) -> int:
    """Returns the rank of a finding by how well it supports a number: 0 for `contradicts`, the highest for `agrees`."""
    order: tuple[Finding, ...] = ("contradicts", "cannot run here", "not run", "undecided", "agrees")
    return order.index(finding)
