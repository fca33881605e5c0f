"""The verdict on one published number."""

from typing import Literal

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
    published_seeds: int | None = None,
    episodes: int | None = None,
    published_episodes: int | None = None,
) -> Verdict:
    """Says how our result stands to a published number, where more is better.

    `not run` without seeds. `partial` when training budget, seeds or games of the evaluation are fewer than
    the paper's, or too few for an interval. Otherwise `reproduced` when the published number lies inside our
    interval or below it, and `below` when it lies above.

    Args:
        published: the printed number.
        interval: (low, high) of ours in the same unit; None when there were too few scores for one.
        fraction_of_budget: smallest training budget among our runs over the paper's.
        seeds: runs of ours.
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
    return "reproduced" if interval[1] >= published else "below"
