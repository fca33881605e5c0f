"""What claims measure on one task: from the runs of each agent to one number, for any weights of the runs.

Every measure takes the runs of each agent, ours first, and returns a function of `Shares`. So the number itself, of
equal weights, and its resamples, of the weights that drawing runs anew gives, have one home.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from repro.evidence import run_measures, statistics
from repro.evidence.run_measures import Record

Records = Sequence[Record]
Shares = Sequence[np.ndarray]
"""For each agent, ours first: [R, runs], the weight of each of its runs in R means. Rows sum to 1."""
OfTask = Callable[[Sequence[Records]], Callable[[Shares], np.ndarray]]
"""From the runs of each agent to a function of `Shares` that returns [R] numbers, or [k, R] for a claim about k."""

NEVER = 1000.0
"""Stands for a ratio that has no bound, as that of frames where a level is not reached; larger ones count as it."""
SMALLEST_SPREAD = 1e-12
"""Variance of ranks that is no rounding; two ranks differ by half the weight of a run or more."""


def frames_to_level(sides: Sequence[Records]) -> Callable[[Shares], np.ndarray]:
    """Probability that a run of ours needs fewer frames than one of theirs to a level that both agents reach.

    The level is the lower one of the two agents' final levels, where the final level of an agent is that of the
    running maximum of its mean curve (the measure of ACER, Section 4). A run needs the frames of its own curve's
    first point at the level or above; without one, infinitely many. Draws count half.
    """
    level = min(run_measures.on_common_frames(side)[1].mean(axis=0).max() for side in sides)
    ours, theirs = (np.array([_frames_to(level, record) for record in side]) for side in sides)
    wins = (ours[:, None] < theirs) + 0.5 * (ours[:, None] == theirs)
    return lambda shares: np.einsum("ri,ij,rj->r", shares[0], wins, shares[1])


def ratio_of_frames(sides: Sequence[Records]) -> Callable[[Shares], np.ndarray]:
    """Frames that our mean curve needs to the final level of theirs, over the frames that theirs needs.

    The final level is as in `frames_to_level`. `NEVER` where our curve does not reach it.
    """
    return _ratio_to_their_level([(*run_measures.on_common_frames(side), None) for side in sides])


def ratio_of_seconds(sides: Sequence[Records]) -> Callable[[Shares], np.ndarray]:
    """As `ratio_of_frames`, with the mean wall-clock seconds of an agent's runs to those frames."""
    timed = []
    for side in sides:
        frames, scores = run_measures.on_common_frames(side)
        timed.append((frames, scores, np.stack([run_measures.seconds_at(record, frames) for record in side])))
    return _ratio_to_their_level(timed)


def divergence(sides: Sequence[Records]) -> Callable[[Shares], np.ndarray]:
    """Divergence at the end, mean over runs, in nats."""
    _, end = _divergences(sides[0])
    return lambda shares: shares[0] @ end


def growth(sides: Sequence[Records]) -> Callable[[Shares], np.ndarray]:
    """Orders of magnitude from the divergence at the start of training to that at its end, each a mean over runs."""
    start, end = _divergences(sides[0])
    return lambda shares: np.log10(shares[0] @ end) - np.log10(shares[0] @ start)


def distance(sides: Sequence[Records]) -> Callable[[Shares], np.ndarray]:
    """Orders of magnitude from their divergence at the end of training to ours, each a mean over runs."""
    (_, ours), (_, theirs) = map(_divergences, sides)
    return lambda shares: np.log10(shares[0] @ ours) - np.log10(shares[1] @ theirs)


def contraction_at_the_end(sides: Sequence[Records]) -> Callable[[Shares], np.ndarray]:
    """Our observed contraction rate at the end of training minus its target, mean over runs."""
    end, _ = _excesses(sides[0])
    return lambda shares: shares[0] @ end


def contraction_throughout(sides: Sequence[Records]) -> Callable[[Shares], np.ndarray]:
    """Our observed contraction rate minus its target, mean over the whole log and over runs."""
    _, throughout = _excesses(sides[0])
    return lambda shares: shares[0] @ throughout


def contraction_difference(sides: Sequence[Records]) -> Callable[[Shares], np.ndarray]:
    """Our observed contraction rate at the end of training minus theirs, each a mean over runs."""
    ours, theirs = (np.array([run_measures.contraction_rates(record)[0] for record in side]) for side in sides)
    return lambda shares: shares[0] @ ours - shares[1] @ theirs


def contracts_above(side: Records, margin: float) -> bool:
    """Whether an agent's observed contraction rate at the end of training is above its target by more than a margin.

    The rate minus the target is a mean over runs. It is positive for Retrace exactly where C-trace can reach its target
    by a smaller alpha.
    """
    end, _ = _excesses(side)
    return bool(end.mean() > margin)


def human_normalised(
    sides: Sequence[Records], references: Mapping[str, Mapping[str, float]]
) -> Callable[[Shares], np.ndarray]:
    """Human-normalised score of each agent, mean over runs, [agents, R].

    Args:
        sides: of one game.
        references: random and human score of each game.
    """
    of_game = references[sides[0][0]["task"]]
    return lambda shares: np.asarray(statistics.human_normalised(_means(sides, shares), **of_game))


def won(sides: Sequence[Records]) -> Callable[[Shares], np.ndarray]:
    """1 where our mean of final evaluations is above that of every other agent, else 0."""

    def best(shares: Shares) -> np.ndarray:
        ours, *others = _means(sides, shares)
        return (ours > np.max(others, axis=0)).astype(np.float64)

    return best


def place(sides: Sequence[Records]) -> Callable[[Shares], np.ndarray]:
    """1 and the number of other agents with a higher mean of final evaluations."""

    def count(shares: Shares) -> np.ndarray:
        ours, *others = _means(sides, shares)
        return 1.0 + np.sum(np.array(others) > ours, axis=0)

    return count


def ratio_of_gains(sides: Sequence[Records]) -> Callable[[Shares], np.ndarray]:
    """The gain from the last other agent to ours, over that from the first other agent to the second.

    Gains are of final evaluations, means over runs, so that the ratio is the same in any unit of the score. `NEVER`
    where the agents had no first gain, which then cannot be said to diminish.
    """

    def ratio(shares: Shares) -> np.ndarray:
        ours, first, second, third = _means(sides, shares)
        gain = second - first
        gained = gain > 0
        return np.where(gained, np.minimum((ours - third) / np.where(gained, gain, 1.0), NEVER), NEVER)

    return ratio


def rank_correlation(sides: Sequence[Records], name: str) -> Callable[[Shares], np.ndarray]:
    """Spearman's rank correlation over our runs, between a hyper-parameter that seeds drew and the final evaluation.

    Equal numbers share the middle of their ranks. 0 where one of both is the same in all runs, and so has no order.

    Args:
        sides: of one agent, whose records have `name` among what was drawn.
        name: of the hyper-parameter; a logarithm of it has the same ranks.
    """
    (side,) = sides
    drawn = np.array([record["drawn"][name] for record in side], np.float64)
    scores = np.array([record["evaluation"]["mean"] for record in side], np.float64)

    def correlation(shares: Shares) -> np.ndarray:
        weights = shares[0]
        x, y = _centred_ranks(drawn, weights), _centred_ranks(scores, weights)
        spread = np.sqrt((weights * x * x).sum(axis=-1) * (weights * y * y).sum(axis=-1))
        ordered = spread > SMALLEST_SPREAD
        return np.where(ordered, (weights * x * y).sum(axis=-1) / np.where(ordered, spread, 1.0), 0.0)

    return correlation


def _centred_ranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Ranks from 0 to 1 of values [runs] that have weights [R, runs], less their mean; [R, runs]."""
    before = (values[:, None] < values) + 0.5 * (values[:, None] == values)
    ranks = weights @ before
    return ranks - (weights * ranks).sum(axis=-1, keepdims=True)


def _frames_to(level: float, record: Record) -> float:
    frames, scores = np.array(record["curve"], np.float64).T
    return float(run_measures.first_reach(frames, scores, level))


def _ratio_to_their_level(
    sides: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray | None]],
) -> Callable[[Shares], np.ndarray]:
    """From frames [P], scores [runs, P] and seconds [runs, P] or None, of our runs and theirs."""

    def ratio(shares: Shares) -> np.ndarray:
        curves = [share @ scores for share, (_, scores, _) in zip(shares, sides)]
        times = [frames if seconds is None else share @ seconds for share, (frames, _, seconds) in zip(shares, sides)]
        level = curves[1].max(axis=-1)
        ours, theirs = (run_measures.first_reach(x, curve, level) for x, curve in zip(times, curves))
        return np.minimum(np.maximum(ours, 1.0) / np.maximum(theirs, 1.0), NEVER)

    return ratio


def _divergences(side: Records) -> tuple[np.ndarray, np.ndarray]:
    """Divergence at the start and at the end, each [runs]."""
    start, end = zip(*map(run_measures.divergences, side))
    return np.array(start), np.array(end)


def _excesses(side: Records) -> tuple[np.ndarray, np.ndarray]:
    """Observed contraction rate minus its target, at the end and over the whole log, each [runs]."""
    end, throughout = zip(*map(run_measures.contraction_excesses, side))
    return np.array(end), np.array(throughout)


def _means(sides: Sequence[Records], shares: Shares) -> np.ndarray:
    """Mean of final evaluations, [agents, R]."""
    scores = ([record["evaluation"]["mean"] for record in side] for side in sides)
    return np.stack([share @ np.array(score, np.float64) for share, score in zip(shares, scores)])
