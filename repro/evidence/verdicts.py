"""The verdict on one published number."""

from collections.abc import Mapping
from typing import Literal

from repro.evidence.published import Better

Verdict = Literal["reproduced", "below", "partial", "not run"]
MEANINGS: Mapping[Verdict, str] = {
    "reproduced": "With the paper's budget, seeds and evaluation, the published value lies inside our 95 % interval, "
    "or ours is better.",
    "below": "With the paper's budget, seeds and evaluation, our interval falls short of the published value; where "
    "less is better, it lies above, and where the value is to be met, on either side.",
    "partial": "Fewer frames, seeds, evaluation games, tasks or agents than the paper: the share is shown, and no "
    "claim is made. Also where a number is to be surpassed and our interval holds it.",
    "not run": "No record answers the row yet.",
}
"""What each verdict says to a reader."""
VERDICTS: tuple[Verdict, ...] = tuple(MEANINGS)
# A run stops at a whole batch, so its budget may differ from the round number by a little.
BUDGET_TOLERANCE = 1e-3


def verdict(
    published: float,
    interval: tuple[float, float] | None,
    fraction_of_budget: float,
    *,
    seeds: int,
    complete: bool = True,
    better: Better = "more",
    published_seeds: int | None = None,
    episodes: int | None = None,
    published_episodes: int | None = None,
) -> Verdict:
    """Says how our result stands to a published number.

    `not run` without seeds. `partial` when training budget, seeds, games of the evaluation, tasks or agents are fewer
    than the paper's, or too few for an interval. Otherwise `reproduced` when the published number lies inside our
    interval or ours is better, and `below` when ours falls short of it.

    Args:
        published: the printed number.
        interval: (low, high) of ours in the same unit; None when there were too few scores for one.
        fraction_of_budget: smallest training budget among our runs over the paper's.
        seeds: runs of ours, counted before the best of them are chosen.
        complete: whether ours covers all tasks and agents that the number is about.
        better: as in `published.Better`. Where the number is to be surpassed, an interval that holds it decides
            nothing, and the verdict is `partial`.
        published_seeds: the paper's runs; None where it does not say counts as one.
        episodes: fewest games in the evaluation of one of our runs; None where the number has no evaluation.
        published_episodes: the paper's; None where it does not say.
    """
    if seeds == 0:
        return "not run"
    fewer_seeds = seeds < (published_seeds or 1)
    fewer_episodes = episodes is not None and published_episodes is not None and episodes < published_episodes
    fewer = fewer_seeds or fewer_episodes or not complete
    if interval is None or fraction_of_budget < 1 - BUDGET_TOLERANCE or fewer:
        return "partial"
    low, high = interval
    if better in ("above", "under"):
        surpassed, missed = (
            (low > published, high < published) if better == "above" else (high < published, low > published)
        )
        return "reproduced" if surpassed else "below" if missed else "partial"
    too_low, too_high = high < published, low > published
    short = {"more": too_low, "less": too_high, "equal": too_low or too_high}[better]
    return "below" if short else "reproduced"
