"""Findings: what our result says about a printed number, and what is missing from the paper's protocol."""

from repro.evidence import claim_kinds, verdicts
from repro.evidence.published import PublishedRow
from repro.evidence.results import Result
from repro.evidence.statistics import MIN_BOOTSTRAP_RUNS
from repro.evidence.verdicts import BUDGET_TOLERANCE, Finding, expected_runs, find, runs_to_decide

ASSUMED = "assumed: "
"""Beginning of the last shortfall of a row, if something is assumed."""
STAND_INS = "stand-ins for "
"""Beginning of the part of a record's DeepMind Lab version that lists what differs from the original build."""


def judge(printed: PublishedRow, ours: Result, share: float | None, random: float | None) -> Finding | None:
    """Returns what our result says about a printed number; None if the row has no number.

    Args:
        printed: the row.
        ours: our result for it.
        share: ratio of our budget to the published one; None if that is not printed.
        random: score of a random player, or None if unknown. It is needed for a margin that is a share of the distance
            to it, and because a printed score that is not above it is reached without learning.
    """
    if printed.value is None:
        return None
    if not ours.fields:
        return "not run" if printed.cannot_run is None else "cannot run here"
    return "undecided" if find_dissent(printed, ours, share, random) else _judge_alone(printed, ours, share, random)


def find_dissent(printed: PublishedRow, ours: Result, share: float | None, random: float | None) -> tuple[str, ...]:
    """Returns the names of the alternatives with another finding than our number; none if that is undecided by itself.

    Arguments as for `judge`.
    """
    if printed.value is None or not ours.fields:
        return ()
    found = _judge_alone(printed, ours, share, random)
    return verdicts.find_dissent(found, printed, ours.alternatives, printed.tolerance(random))


def _judge_alone(printed: PublishedRow, ours: Result, share: float | None, random: float | None) -> Finding:
    """Returns the finding of our number without regard to its alternatives."""
    assert printed.value is not None
    found = _compare(printed, ours, random)
    if len(ours.fields["seeds"]) < runs_to_decide(printed, ours.learned):
        return "undecided"
    if ours.learned and printed.measure == "evaluation":
        too_early = share < 1 - BUDGET_TOLERANCE if share is not None else ours.fields["scale"] != "paper"
        stays_under = printed.claim in (None, "best_score") and printed.better == "under"
        may_turn = "agrees" if stays_under else "contradicts"  # since more training raises a score
        if found == may_turn and too_early and _reached_by_training(printed):
            return "undecided"
        if find_doubt(printed, ours, random):
            return "undecided"
        is_score = printed.statement is None and printed.better == "more"
        if found == "agrees" and is_score and (random is None or printed.value <= random):
            return "undecided"  # a score that random play reaches as well, or may reach
        if found == "agrees" and stays_under and printed.claim is None and not _is_above(ours, random):
            return "undecided"  # an agent that has not learned stays under any score
    return found


def _is_above(ours: Result, random: float | None) -> bool:
    """Returns whether our score is surely above random play."""
    interval = ours.fields["interval"]
    return random is not None and interval is not None and interval[0] > random


def find_doubt(printed: PublishedRow, ours: Result, random: float | None) -> str:
    """Returns why a score that our runs miss may still be reached by others, in words; empty if it is not so.

    An interval over games does not show how far other runs may be. The best of few are worse than the best of many.

    Args:
        printed: the row.
        ours: our result for it.
        random: as for `judge`.
    """
    if printed.value is None or not ours.fields or printed.claim is not None or printed.measure != "evaluation":
        return ""
    if not ours.learned or _compare(printed, ours, random) != "contradicts":
        return ""
    if ours.fields["interval_over"] != "seeds":
        return "other runs may reach it, since the interval is over games"
    fewer = "best" in printed.protocol and len(ours.fields["seeds"]) < expected_runs(printed, learned=True)
    is_below = ours.fields["value"] < printed.value
    return "other settings may reach it, since the paper has the best of more" if fewer and is_below else ""


def _compare(printed: PublishedRow, ours: Result, random: float | None) -> Finding:
    """Returns the finding from our number and the printed one alone."""
    assert printed.value is not None
    value, interval = ours.fields["value"], ours.fields["interval"]
    ends, tolerance = (value, value) if ours.fields.get("exact") else interval, printed.tolerance(random)
    found = find(printed.value, printed.better, ends, tolerance)
    if found == "contradicts" and printed.protocol.get("one_problem", False):
        assert ends is not None
        assert tolerance is not None  # the schema ensures both
        if ends[1] > printed.value - tolerance[0]:  # the paper's problem may be one of those on which it holds
            return "undecided"
    return found


def runs_of_aggregate(printed: PublishedRow) -> int:
    """Returns the fewest runs of each task for the interval of an aggregate.

    With a single run of each task the interval is over its games, which is enough if the paper has a single run, too.
    From `MIN_BOOTSTRAP_RUNS` on it is over resampled runs.
    """
    return 1 if printed.n_seeds == 1 else MIN_BOOTSTRAP_RUNS


def _reached_by_training(printed: PublishedRow) -> bool:
    """Returns whether a row is about a value that training arrives at, such as one agent's score, not a comparison."""
    return printed.claim is None or claim_kinds.find_claim(printed).reached_by_training


def list_shortfalls(printed: PublishedRow, ours: Result, share: float | None, differing: int) -> tuple[str, ...]:
    """Returns phrases for what our result for a row lacks of the paper's protocol.

    Args:
        printed: the row.
        ours: our result for it, with fields.
        share: ratio of our budget to the published one; None if that is not printed.
        differing: number of settings of our runs that are not the paper's.
    """
    fields, found = ours.fields, []
    if share is None and fields["scale"] != "paper":
        found.append(f"scale {fields['scale']}")
    if share is not None and share < 1 - BUDGET_TOLERANCE:
        found.append(f"{100 * share:.2g} % of the budget")
    expected = expected_runs(printed, ours.learned)
    if len(fields["seeds"]) < expected:
        found.append(f"{len(fields['seeds'])} of {expected} runs")
    episodes = printed.protocol.get("episodes")
    if episodes is not None and fields["episodes"] < episodes:
        found.append(f"{fields['episodes']} of {episodes} episodes")
    population = printed.protocol.get("population")
    sizes = {record["config"].get("population", {}).get("size") for record in ours.used}
    if population is not None and sizes != {population}:
        found.append(f"no population of {population}")
    builds = {record["versions"].get("deepmind_lab") or "" for record in ours.used}
    found += sorted({part for build in builds for part in build.split(", ") if part.startswith(STAND_INS)})
    if differing:
        found.append("1 setting differs" if differing == 1 else f"{differing} settings differ")
    found += ours.shortfalls
    if printed.assumed is not None:
        found.append(f"{ASSUMED}{printed.assumed}")
    return tuple(found)
