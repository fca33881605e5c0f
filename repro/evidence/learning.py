"""Whether runs show learning, without which comparing their scores says nothing.

An agent has learned on a task where its mean is above that of random play by more than chance, and above what its
policies scored before they learned, which may play better than a random player: on ACER's cheetah an untrained Gaussian
of small steps falls less than uniform ones. Where curves do not tell, as on levels whose first episodes are cut, random
play alone is the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import special

from repro.evidence import intervals, run_measures
from repro.evidence.comparisons import Records
from repro.evidence.references import References

Enough = Callable[[Sequence[bool]], bool]
"""From which of the agents compared have learned, ours first, to whether a claim can be read from them."""

CHANCE = 0.025
"""That some agent of a comparison counts as learned on some task while all play at random, at most."""
MIN_GAMES = 5
"""Fewest games by which an agent can be told from one that plays at random."""
MIN_UNTRAINED = 4
"""Fewest runs whose scores before learning have an interval; with fewer the highest of them counts."""


def whether_or_not(learned: Sequence[bool]) -> bool:
    """Not having learned is a result, too, of a claim that random play cannot answer: it only needs a random player."""
    del learned
    return True


def all_but_one(learned: Sequence[bool]) -> bool:
    """Two agents that play at random have no order, one that does is behind all others."""
    return sum(learned) >= len(learned) - 1


def leaders_or_last(learned: Sequence[bool]) -> bool:
    """Every agent that is to be ahead of the last one; or the last one, which none of them can then be."""
    return all(learned[:-1]) or learned[-1]


def last(learned: Sequence[bool]) -> bool:
    """The last agent is the one whose level counts."""
    return learned[-1]


def both_before(learned: Sequence[bool]) -> bool:
    """Each of two agents has something to lose by a change: ours with it and before it, theirs with it and before."""
    _, ours_before, _, theirs_before = learned
    return ours_before and theirs_before


def each_lead(learned: Sequence[bool]) -> bool:
    """Someone has learned with a change, ours or theirs, and before it."""
    ours, theirs, ours_before, theirs_before = learned
    return (ours or theirs) and (ours_before or theirs_before)


def each_gain(learned: Sequence[bool]) -> bool:
    """Someone has learned of the first two other agents, and of the third one and ours."""
    ours, first, second, third = learned
    return (first or second) and (third or ours)


def find_lack(
    enough: Enough,
    task: str,
    by_agent: Sequence[Records],
    chosen_from: Sequence[Records],
    references: References,
    level: float | None = None,
    tasks: int = 1,
) -> str:
    """Says why the scores of a task do not show the learning that a claim is about; empty where they do.

    Agents may play games that differ, as in their limits of an episode: each needs a random player, and the highest
    one counts. Games of agents at random are independent, whatever their runs, so that an agent's mean has Student's
    interval over all of its games, at Bonferroni's level for the number of agents and tasks. Where the best of many
    runs were chosen, one of them must be surely above random play by its own games, at the level for all runs; and
    their mean must be above what an untrained policy surpasses by that chance, which a mean of the best seldom does.

    Args:
        enough: of the claim.
        task: in words.
        by_agent: the runs that count, ours first.
        chosen_from: the runs of each agent that these were chosen from.
        references: for the random players.
        level: a score on learning curves that the claim is about besides final evaluations.
        tasks: that the claim looks at, of which this is one.
    """
    players = [references.random(record) for runs in by_agent for record in runs]
    uppers = [player.upper for player in players if player is not None]
    if len(uppers) < len(players):
        return f"no record of a random player on {task}"
    upper = max(uppers)
    scores, chance = [_mean(runs) for runs in by_agent], CHANCE / tasks
    if any(len(runs) < len(others) for runs, others in zip(by_agent, chosen_from)):
        tail = chance / sum(map(len, chosen_from))
        lows = [max(_low([record], tail) for record in runs) for runs in by_agent]
        every = [record for runs in chosen_from for record in runs]
        starts = [_untrained(every, CHANCE / min(map(len, by_agent)))] * len(by_agent)
    else:
        lows = [_low(runs, chance / len(by_agent)) for runs in by_agent]
        starts = [_untrained(runs) for runs in chosen_from]
    learned = [low > upper and score > start for score, low, start in zip(scores, lows, starts)]
    if not enough(learned):
        score, low, start = max(of for of, has in zip(zip(scores, lows, starts), learned) if not has)
        return _explain(score, low, upper, start, task)
    if level is not None and not upper < level > max(starts):
        return _explain(level, level, upper, max(starts), task)
    return ""


def _mean(runs: Records) -> float:
    return float(np.mean([record["evaluation"]["mean"] for record in runs]))


def _low(runs: Records, tail: float) -> float:
    """The lower end of a mean's one-sided interval over the games of some runs; the mean where all have one score.

    Minus infinity with fewer than `MIN_GAMES`.
    """
    games = [score for record in runs for score in record["evaluation"]["returns"]]
    if len(games) < MIN_GAMES:
        return -math.inf
    interval = intervals.mean_interval(games, 1 - 2 * tail, runs[0]["evaluation"]["unit"])
    return _mean(runs) if interval is None else interval[0]


def _untrained(runs: Records, tail: float | None = None) -> float:
    """What an agent's policies scored before they learned, at most: the upper end of their mean's interval.

    Minus infinity where no curve tells it.

    Args:
        runs: of the agent.
        tail: chance with which another run may surpass the limit for single runs, which is then returned; None for that
            of the mean.
    """
    scores = [score for score in map(run_measures.untrained_score, runs) if score is not None]
    if len(scores) < MIN_UNTRAINED or np.ptp(scores) == 0:
        return max(scores, default=-math.inf)
    if tail is None:
        interval = intervals.mean_interval(scores)
        assert interval is not None
        return interval[1]
    spread = np.std(scores, ddof=1) * math.sqrt(1 + 1 / len(scores))
    return float(np.mean(scores) + special.stdtrit(len(scores) - 1, 1 - tail) * spread)


def _explain(score: float, low: float, upper: float, start: float, task: str) -> str:
    """Says which of the levels a score does not surpass."""
    if score <= upper:
        return f"{score:.4g} on {task} is not above a random player's {upper:.4g}"
    if score <= start:
        return f"{score:.4g} on {task} is not above the {start:.4g} that a policy may score before it learned"
    return f"{score:.4g} on {task}, {low:.4g} without chance, is not surely above a random player's {upper:.4g}"
