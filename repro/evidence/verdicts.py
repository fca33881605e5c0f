"""The verdict on one published number: what our result says of it, and what of the paper's protocol is missing."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from repro.evidence.published import Better, PublishedRow

Ends: TypeAlias = tuple[float, float]
Finding = Literal["agrees", "contradicts", "undecided", "not run", "cannot run here"]
Verdict = Literal["reproduced", "agrees", "disagrees", "contradicts", "undecided", "not run", "cannot run here"]

MEANINGS: Mapping[Verdict, str] = {
    "reproduced": "Our interval agrees with the published number or statement, with the paper's budget, runs, "
    "evaluation, tasks and settings.",
    "agrees": "Our interval agrees, with less than the paper's protocol, or where the paper leaves open what the "
    "result may hang on; what is less or assumed stands beside it.",
    "disagrees": "Our interval excludes the published number or statement, with less than the paper's protocol or what "
    "it leaves open assumed; what is less or assumed stands beside it, and may turn the result.",
    "contradicts": "Our interval excludes the published number or statement, with the paper's budget, runs, "
    "evaluation, tasks and settings.",
    "undecided": "Our interval holds both what agrees and what does not; or there are too few runs, no margin that "
    "says how near is near enough, too little training for what more of it may turn, a part of the tasks of which one "
    "decides alone, another reading of what the paper leaves open that turns it, or a printed score that random play "
    "reaches.",
    "not run": "No record answers the row yet.",
    "cannot run here": "It needs what this project does not have, hardware, an environment or an agent, or what the "
    "paper does not print; the note says which.",
}
"""What each verdict says to a reader."""
VERDICTS: tuple[Verdict, ...] = tuple(MEANINGS)

MIN_RUNS = 5
"""Fewest runs of each agent behind a finding about learning, unless the paper itself has fewer."""
BUDGET_TOLERANCE = 1e-3
"""A run stops at a whole batch, so that its budget may differ from the round number by a little."""
ROUNDING = 1e-9
"""Relative; an exact number agrees with one that it misses by rounding."""


def find(published: float, better: Better, ends: Ends | None, tolerance: Ends | None) -> Finding:
    """Returns what our interval says of a published number.

    A number to be surpassed (`above`, `under`) needs the interval strictly beyond it, and is contradicted by one that
    ends at it. A number to be reached (`more`, `less`) counts as reached from the near end of the tolerance on, and one
    to be met (`equal`) within both ends. An interval that holds both is undecided.

    Args:
        published: the printed number.
        better: as in `published.Better`.
        ends: our interval in the same unit, twice the same number for an exact one; None without an interval.
        tolerance: (low, high) around the published number that still count as it; None for no tolerance, without which
            a number to be met is undecided and one to be reached must be reached in full.
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
    """Returns the names of the alternatives that do not give a finding; none where it is undecided by itself.

    Args:
        finding: of our interval by itself.
        printed: the row, with a value.
        alternatives: further intervals, each of which must give the same.
        tolerance: as for `find`.
    """
    if finding == "undecided":
        return ()
    assert printed.value is not None
    found = {name: find(printed.value, printed.better, ends, tolerance) for name, ends in alternatives.items()}
    return tuple(name for name, other in found.items() if other != finding)


def runs_to_decide(printed: PublishedRow, learned: bool) -> int:
    """Returns the fewest runs of an agent by which a row is decided: the paper's, but at most `MIN_RUNS`.

    Args:
        printed: the row.
        learned: whether training made the runs.
    """
    return min(MIN_RUNS, expected_runs(printed, learned)) if learned and printed.measure == "evaluation" else 1


def expected_runs(printed: PublishedRow, learned: bool) -> int:
    """Returns the runs of an agent in a row's protocol: the paper's, or where it does not say, what decides the row.

    Arguments as for `runs_to_decide`.
    """
    return printed.n_seeds or (MIN_RUNS if learned and printed.measure == "evaluation" else 1)


def verdict_of(finding: Finding, shortfalls: Sequence[str]) -> Verdict:
    """Returns the short word for a finding.

    One that agrees is `reproduced` where nothing of the protocol is missing; one that contradicts only `disagrees`
    where something is.
    """
    if finding == "agrees" and not shortfalls:
        return "reproduced"
    return "disagrees" if finding == "contradicts" and shortfalls else finding


def weakest(findings: Sequence[Finding]) -> Finding:
    """Returns the finding on a sentence from those on its parts, one or more.

    A part that contradicts decides; then the sentence is answered as far as its least answered part.
    """
    return min(findings, key=strength)


def strength(finding: Finding) -> int:
    """Returns how far a finding speaks for a number: 0 for one that contradicts it, most for one that agrees."""
    order: tuple[Finding, ...] = ("contradicts", "cannot run here", "not run", "undecided", "agrees")
    return order.index(finding)
