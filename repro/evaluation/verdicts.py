"""The verdict on one published number."""

from typing import Literal

from repro.evaluation.published import Better

Verdict = Literal["reproduced", "below", "partial", "not run"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "below", "partial", "not run")
# A run stops at a whole batch, so its budget may differ from the round number by a little.
BUDGET_TOLERANCE = 1e-3


def verdict(
    published: float,
    interval: tuple[float, float] | None,
    fraction_of_budget: float,
    *,
    seeds: int,
    better: Better = "more",
    strict: bool = False,
    published_seeds: int | None = None,
    episodes: int | None = None,
    published_episodes: int | None = None,
) -> Verdict:
    """Says how our result stands to a published number.

    `not run` without seeds. `partial` when training budget, seeds or games of the evaluation are fewer than
    the paper's, or too few for an interval. Otherwise `reproduced` when the published number lies inside our
    interval or ours is better, and `below` when ours falls short of it.

    Args:
        published: the printed number.
        interval: (low, high) of ours in the same unit; None when there were too few scores for one.
        fraction_of_budget: smallest training budget among our runs over the paper's.
        seeds: runs of ours.
        better: `more`, `less`, or `equal` where only the number itself will do.
        strict: the number is one to be surpassed, as 0.5 of a probability of improvement: an interval that holds it
            decides nothing, and the verdict is `partial`.
        published_seeds: the paper's runs; None where it does not say counts as one.
        episodes: fewest games in the evaluation of one of our runs; None where the number has no evaluation.
        published_episodes: the paper's; None where it does not say.
    """
    if seeds == 0:
        return "not run"
    fewer_seeds = seeds < (published_seeds or 1)
    fewer_episodes = episodes is not None and published_episodes is not None and episodes < published_episodes
    if interval is None or fraction_of_budget < 1 - BUDGET_TOLERANCE or fewer_seeds or fewer_episodes:
        return "partial"
    too_low, too_high = interval[1] < published, interval[0] > published
    short = {"more": too_low, "less": too_high, "equal": too_low or too_high}[better]
    if short:
        return "below"
    beyond = {"more": too_high, "less": too_low, "equal": True}[better]
    return "partial" if strict and not beyond else "reproduced"
