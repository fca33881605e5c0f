"""Tests whether runs show learning, without which a comparison of their scores says nothing.

An agent has learned on a task if its mean is above that of random play by more than chance, and above the score of its
untrained policies. These may play better than a random player: on ACER's cheetah, small actions from an untrained
Gaussian policy make it fall less than uniform ones. If curves do not show the untrained score, as on levels whose first
episodes are cut, random play is the only limit.
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
"""Function from whether each agent has learned, ours first, to whether a claim can be answered by their scores."""

CHANCE = 0.025
"""Largest chance that any agent of a comparison counts as learned on any task although all play at random."""
MIN_GAMES = 5
"""Fewest games that can show that an agent plays better than at random."""
MIN_UNTRAINED = 4
"""Fewest runs for an interval of their untrained scores; with fewer the highest of them counts."""


def whether_or_not(learned: Sequence[bool]) -> bool:
    """Accepts any agents: a claim that random play cannot fulfil is answered without learning, too."""
    del learned
    return True


def all_but_one(learned: Sequence[bool]) -> bool:
    """Requires learning of all agents but one: an agent at random is behind all others, but two have no order."""
    return sum(learned) >= len(learned) - 1


def leaders_or_last(learned: Sequence[bool]) -> bool:
    """Requires learning of all agents that are claimed to be ahead of the last one, or of the last one."""
    return all(learned[:-1]) or learned[-1]


def last(learned: Sequence[bool]) -> bool:
    """Requires learning of the last agent, whose level counts."""
    return learned[-1]


def both_before(learned: Sequence[bool]) -> bool:
    """Requires learning of both agents before a change, in this order: ours with it, before it, theirs likewise."""
    _, ours_before, _, theirs_before = learned
    return ours_before and theirs_before


def each_lead(learned: Sequence[bool]) -> bool:
    """Requires learning of ours or theirs with a change, and of ours or theirs before it; all four in this order."""
    ours, theirs, ours_before, theirs_before = learned
    return (ours or theirs) and (ours_before or theirs_before)


def each_gain(learned: Sequence[bool]) -> bool:
    """Requires learning of the first or the second other agent, and of the third one or ours."""
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
    """Says why the scores of a task do not show the learning that a claim needs; empty if they do.

    Agents may play games that differ, such as in their limit of an episode: each needs a random player, and the highest
    one counts. Games of agents that play at random are independent, whichever run they are from, so an agent's mean has
    Student's interval over all of its games, at Bonferroni's level for the number of agents and tasks. The limit for
    untrained policies is at this level, too: as many untrained runs have a mean above it with that chance.

    If the best of many runs were chosen, one of them must be surely above random play by its own games, at the level
    for all runs. Their mean must also be above a limit that the best untrained policies seldom surpass: each one does
    with the same chance over the fewest runs that count. Limits hold for normal scores; scores of untrained policies
    with a long tail surpass them more often.

    Args:
        enough: rule of the claim for which agents must have learned.
        task: name of the task.
        by_agent: runs of each agent that count, ours first.
        chosen_from: runs of each agent that these were chosen from.
        references: random players.
        level: score on learning curves that the claim is about, which must show learning, too; None without one.
        tasks: number of tasks of the claim, including this one.
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
        tail = chance / len(by_agent) / min(map(len, by_agent))
        starts = [_untrained(every, tail, 1)] * len(by_agent)
    else:
        lows = [_low(runs, chance / len(by_agent)) for runs in by_agent]
        starts = [_untrained(runs, chance / len(by_agent), len(runs)) for runs in chosen_from]
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
    """Returns the lower end of a one-sided interval of the mean over all games of some runs.

    It is the mean itself if all games have one score, and minus infinity with fewer than `MIN_GAMES` games.
    """
    games = [score for record in runs for score in record["evaluation"]["returns"]]
    if len(games) < MIN_GAMES:
        return -math.inf
    interval = intervals.mean_interval(games, 1 - 2 * tail, runs[0]["evaluation"]["unit"])
    return _mean(runs) if interval is None else interval[0]


def _untrained(runs: Records, tail: float, number: int) -> float:
    """Returns an upper limit of the mean score of other untrained policies of an agent.

    It is minus infinity if no curve shows an untrained score, and the highest one with fewer than `MIN_UNTRAINED` of
    them or if all are equal.

    Args:
        runs: runs of the agent.
        tail: chance that the mean of the others is above the limit.
        number: number of the others.
    """
    scores = [score for score in map(run_measures.untrained_score, runs) if score is not None]
    if len(scores) < MIN_UNTRAINED or np.ptp(scores) == 0:
        return max(scores, default=-math.inf)
    spread = np.std(scores, ddof=1) * math.sqrt(1 / number + 1 / len(scores))
    return float(np.mean(scores) + special.stdtrit(len(scores) - 1, 1 - tail) * spread)


def _explain(score: float, low: float, upper: float, start: float, task: str) -> str:
    """Says which of the levels a score does not surely surpass."""
    if score <= upper:
        return f"{score:.4g} on {task} is not above a random player's {upper:.4g}"
    if score <= start:
        return f"{score:.4g} on {task} is not above the {start:.4g} that an untrained policy may score"
    return f"{score:.4g} on {task}, at least {low:.4g}, is not surely above a random player's {upper:.4g}"
