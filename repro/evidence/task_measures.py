"""Measures of claims on one task: a number from the runs of each agent, for any weights of the runs.

Every measure takes the runs of each agent, ours first, and returns a function of `BootstrapWeights`. So the same code
computes the number itself, from equal weights, and its resamples, from the weights of resampled runs.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from repro.evidence import run_measures, statistics
from repro.evidence.run_measures import Record

Records = Sequence[Record]
BootstrapWeights = Sequence[np.ndarray]
"""Weights of each agent's runs in R means, [R, runs], ours first. Rows sum to 1."""
OfTask = Callable[[Sequence[Records]], Callable[[BootstrapWeights], np.ndarray]]
"""Function from the runs of each agent to a function of weights that returns [R] numbers, or [k, R] for k numbers."""

RATIO_CAP = 1000.0
"""Largest ratio. It also stands for unbounded ones, such as of frames to a level that is not reached."""
SEARCH_BEST = 5
"""Number of best runs of a search whose mean final evaluation is the best result, as in ACER's Figure 2."""
SEARCH_RUNS = 30
"""Fewest runs of such a search, as in ACER's Section 6: with fewer, a larger share is near the best five."""
MIN_RANK_VARIANCE = 1e-12
"""Smallest variance of ranks that is not rounding; different ranks differ by half the weight of a run or more."""
ROUNDING = 1e-9
"""Largest relative difference of means that is rounding, so that they are a tie."""
MIN_PAIRS = 1e-9
"""Smallest weight of pairs of different runs that is not rounding; it is 0 if one run has all the weight."""


def equal_weights(by_agent: Sequence[Records]) -> BootstrapWeights:
    """Returns equal weights of all runs, [1, runs] for each agent, with which a measure gives the number itself."""
    return [np.full((1, len(runs)), 1 / len(runs)) for runs in by_agent]


def improvement(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Probability that a run of ours ends higher than one of theirs; ties count half (Agarwal et al. 2021)."""
    ours, theirs = (np.array(_scores(runs)) for runs in by_agent)
    wins = statistics.wins(ours, theirs)
    return lambda weights: np.einsum("ri,ij,rj->r", weights[0], wins, weights[1])


def trend(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Probability that a run of a later agent ends higher than one of an earlier agent, mean over pairs of agents.

    Ties count half. It is the statistic of Jonckheere and Terpstra for agents in the order of a setting, ours first:
    0.5 without a trend.
    """
    scores = [np.array(_scores(runs)) for runs in by_agent]
    pairs = [(i, j, statistics.wins(scores[j], scores[i])) for j in range(len(scores)) for i in range(j)]
    return lambda weights: np.mean(
        [np.einsum("ri,ij,rj->r", weights[j], wins, weights[i]) for i, j, wins in pairs], axis=0
    )


def spread(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Orders of magnitude by which the std of our final evaluations over runs is above that of theirs."""
    centred = [scores - scores.mean() for scores in (np.array(_scores(runs)) for runs in by_agent)]

    def orders(weights: BootstrapWeights) -> np.ndarray:
        ours, theirs = ((w @ x**2 - (w @ x) ** 2) * len(x) / (len(x) - 1) for w, x in zip(weights, centred))
        return (np.log10(ours) - np.log10(theirs)) / 2

    return orders


def differ(by_agent: Sequence[Records]) -> bool:
    """Returns whether every agent has runs with different final evaluations."""
    return all(len(set(_scores(runs))) > 1 for runs in by_agent)


def frames_to_level(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Probability that a run of ours needs fewer frames than one of theirs to reach a level that both agents reach.

    The level is the lower of the two agents' final levels. The final level of an agent is the maximum of its mean curve
    (the measure of ACER, Section 4). A run needs the frames of the first point of its curve at the level or above, or
    infinitely many if there is none. Ties count half.
    """
    level = common_level(by_agent)
    ours, theirs = (np.array([_frames_to(level, record) for record in runs]) for runs in by_agent)
    wins = statistics.wins(-ours, -theirs)
    return lambda weights: np.einsum("ri,ij,rj->r", weights[0], wins, weights[1])


def ratio_of_frames(
    by_agent: Sequence[Records], to_common_level: bool = False
) -> Callable[[BootstrapWeights], np.ndarray]:
    """Ratio of the frames in which our mean curve reaches a level to the frames that theirs needs.

    The level is the final level of theirs, as in `frames_to_level`, and the ratio `RATIO_CAP` if our curve does not
    reach it. Of two equal agents one half of the resamples gives that, so a claim that agents are equally fast takes
    the lower of the two final levels.

    Args:
        by_agent: runs of our agent and of the other one.
        to_common_level: whether the level is the lower of the final levels of both mean curves.
    """
    curves = [(*run_measures.on_common_frames(runs), None) for runs in by_agent]
    return _ratio_to_level(curves, to_common_level)


def ratio_of_seconds(
    by_agent: Sequence[Records], to_common_level: bool = False
) -> Callable[[BootstrapWeights], np.ndarray]:
    """Ratio like `ratio_of_frames`, with the mean wall-clock seconds of an agent's runs up to those frames."""
    timed = []
    for runs in by_agent:
        frames, scores = run_measures.on_common_frames(runs)
        timed.append((frames, scores, np.stack([run_measures.seconds_at(record, frames) for record in runs])))
    return _ratio_to_level(timed, to_common_level)


def common_level(by_agent: Sequence[Records]) -> float:
    """Returns the lowest of the agents' final levels, as defined in `frames_to_level`."""
    return min(map(_final_level, by_agent))


def their_level(by_agent: Sequence[Records]) -> float:
    """Returns the final level of the last agent, as defined in `frames_to_level`."""
    return _final_level(by_agent[-1])


def lowest_return(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Lowest point of a run's learning curve, mean over runs of one agent.

    The first point, which belongs to the untrained policy, counts only if it is the only one.
    """
    (runs,) = by_agent
    lowest = np.array([min(score for _, score in record["curve"][1:] or record["curve"]) for record in runs])
    return lambda weights: weights[0] @ lowest


def score(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Final evaluation of one agent, mean over runs."""
    return lambda weights: _means(by_agent, weights)[0]


def divergence(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Divergence at the end of training, mean over runs, in nats."""
    _, end = _divergences(by_agent[0])
    return lambda weights: weights[0] @ end


def divergence_share(
    by_agent: Sequence[Records], largest: Mapping[str, float]
) -> Callable[[BootstrapWeights], np.ndarray]:
    """Divergence at the end of training over the largest one that is possible on the task, mean over runs.

    Args:
        by_agent: runs of one agent.
        largest: largest divergence of each task, in nats.
    """
    share = divergence(by_agent)
    return lambda weights: share(weights) / largest[by_agent[0][0]["task"]]


def growth(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Orders of magnitude by which the divergence grows from the start to the end of training, of means over runs."""
    start, end = _divergences(by_agent[0])
    return lambda weights: np.log10(weights[0] @ end) - np.log10(weights[0] @ start)


def distance(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Orders of magnitude by which our divergence at the end of training is above theirs, of means over runs."""
    (_, ours), (_, theirs) = map(_divergences, by_agent)
    return lambda weights: np.log10(weights[0] @ ours) - np.log10(weights[1] @ theirs)


def contraction_at_the_end(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Our observed contraction rate at the end of training minus its target, mean over runs."""
    end, _ = _excesses(by_agent[0])
    return lambda weights: weights[0] @ end


def contraction_throughout(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Our observed contraction rate minus its target, mean over the whole log and over runs."""
    _, throughout = _excesses(by_agent[0])
    return lambda weights: weights[0] @ throughout


def contraction_below(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """How far our observed contraction rate is below its target, mean over the whole log and over runs."""
    above = contraction_throughout(by_agent)
    return lambda weights: -above(weights)


def contraction_difference(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Our observed contraction rate at the end of training minus theirs, each a mean over runs."""
    ours, theirs = (np.array([run_measures.contraction_rates(record)[0] for record in runs]) for runs in by_agent)
    return lambda weights: weights[0] @ ours - weights[1] @ theirs


def contracts_above(runs: Records, margin: float) -> bool:
    """Returns whether an agent's contraction rate at the end of training is above its target by more than a margin.

    The rate minus the target is a mean over runs. For Retrace it is positive exactly if C-trace can reach its target
    with a smaller alpha.
    """
    end, _ = _excesses(runs)
    return bool(end.mean() > margin)


def score_difference(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Our final evaluation minus theirs, each a mean over runs, for tasks whose scores have a common scale."""
    return lambda weights: np.subtract(*_means(by_agent, weights))


def squared_distances_from(
    by_agent: Sequence[Records], numbers: Mapping[str, float], random: Callable[[Record], float]
) -> Callable[[BootstrapWeights], np.ndarray]:
    """Squared distances of our mean final evaluation and of random play from another publication's number, [2, R].

    Ours is the mean product of the distances of two different runs. Unlike the square of the mean, it is not raised by
    the spread of the runs. For a single run it is the square of its distance.

    Args:
        by_agent: runs of one agent, on a task of `numbers`.
        numbers: number of each task.
        random: function from a record to a random player's score in its game.
    """
    (runs,) = by_agent
    number = numbers[runs[0]["task"]]
    apart = np.array(_scores(runs), np.float64) - number

    def squared(weights: BootstrapWeights) -> np.ndarray:
        (of_run,) = weights
        mean = of_run @ apart
        pairs = 1.0 - (of_run**2).sum(axis=-1)
        several = pairs > MIN_PAIRS
        products = (mean**2 - of_run**2 @ apart**2) / np.where(several, pairs, 1.0)
        ours = np.where(several, products, mean**2)
        return np.stack([ours, np.full_like(ours, (random(runs[0]) - number) ** 2)])

    return squared


def difference_of_losses(
    by_agent: Sequence[Records], random: Callable[[Record], float]
) -> Callable[[BootstrapWeights], np.ndarray]:
    """Share of its gain that our agent loses by a change of settings, minus that share of another agent, in percent.

    The gain of an agent is its final evaluation, mean over runs, minus the score of random play. An agent without a
    positive gain loses nothing.

    Args:
        by_agent: runs of our agent with the change and without it, then of the other agent with it and without it.
        random: function from a record to a random player's score in its game.
    """
    levels = np.array([random(runs[0]) for runs in by_agent])[:, None]

    def difference(weights: BootstrapWeights) -> np.ndarray:
        ours, ours_before, theirs, theirs_before = _means(by_agent, weights) - levels
        return 100.0 * (_loss(ours, ours_before) - _loss(theirs, theirs_before))

    return difference


def logged(
    by_agent: Sequence[Records], columns: Sequence[str], at_the_end: bool
) -> Callable[[BootstrapWeights], np.ndarray]:
    """Mean of columns of the log at the start or the end of training, over columns and our agent's runs.

    Args:
        by_agent: runs of our agent, then of others, which may select the task.
        columns: columns of the records' `series`.
        at_the_end: whether the end of training counts, instead of its start.
    """
    runs, *_ = by_agent
    held = np.array([run_measures.logged(record, columns)[int(at_the_end)] for record in runs])
    return lambda weights: weights[0] @ held


def turning_back(by_agent: Sequence[Records], columns: Sequence[str]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Ratio of how far columns of the log turn back to how far they go, by `run_measures.turning_back`; mean over runs.

    Args:
        by_agent: runs of one agent.
        columns: columns of the log.
    """
    (runs,) = by_agent
    shares = np.array([run_measures.turning_back(record, columns) for record in runs])
    return lambda weights: weights[0] @ shares


def share_of_log_above(
    by_agent: Sequence[Records], columns: Sequence[str], others: Sequence[str], factor: float
) -> Callable[[BootstrapWeights], np.ndarray]:
    """Share of the log in which columns are above others, by `run_measures.share_of_log_above`; mean over runs.

    Args:
        by_agent: runs of one agent.
        columns, others, factor: as for `run_measures.share_of_log_above`.
    """
    (runs,) = by_agent
    shares = np.array([run_measures.share_of_log_above(record, columns, others, factor) for record in runs])
    return lambda weights: weights[0] @ shares


def ratio_of_head_distances(
    by_agent: Sequence[Records], metaparameters: Sequence[str]
) -> Callable[[BootstrapWeights], np.ndarray]:
    """Ratio of the auxiliary heads' distance from each other at the end to that from the main head, of means over runs.

    It is about 1 for heads that move independently, and `RATIO_CAP` if no head differs from the main one.

    Args:
        by_agent: runs of one agent with three heads.
        metaparameters: as for `run_measures.distances_of_heads`.
    """
    (runs,) = by_agent
    between, from_main = np.array([run_measures.distances_of_heads(record, metaparameters) for record in runs]).T

    return lambda weights: _capped_ratio(weights[0] @ between, weights[0] @ from_main)


def logged_difference(by_agent: Sequence[Records], columns: Sequence[str]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Mean of columns of the log at the end of training, as for `logged`, ours minus theirs."""
    ours, theirs = (logged([runs], columns, at_the_end=True) for runs in by_agent)
    return lambda weights: ours(weights[:1]) - theirs(weights[1:])


def human_normalised(
    by_agent: Sequence[Records], references: Mapping[str, Mapping[str, float]]
) -> Callable[[BootstrapWeights], np.ndarray]:
    """Human-normalised score of each agent, mean over runs, [agents, R].

    Args:
        by_agent: runs of each agent on one game.
        references: random and human score of each game.
    """
    of_game = references[by_agent[0][0]["task"]]
    return lambda weights: np.asarray(statistics.human_normalised(_means(by_agent, weights), **of_game))


def won(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """1 if our mean final evaluation is above that of every other agent, 1/2 for a tie with the best, otherwise 0."""

    def best(weights: BootstrapWeights) -> np.ndarray:
        ours, *others = _means(by_agent, weights)
        return _above(ours, np.max(others, axis=0))

    return best


def last_surpassed(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """1 if some agent's mean final evaluation is above that of the last one, 1/2 for a tie, otherwise 0."""

    def surpassed(weights: BootstrapWeights) -> np.ndarray:
        *ahead, last = _means(by_agent, weights)
        return _above(np.max(ahead, axis=0), last)

    return surpassed


def led_throughout(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """1 if all agents' mean curves stay above that of the last agent from early in training on, otherwise 0.

    It is 1/2 if they never fall below it and are level with it at some frames. Frames before the share
    `run_measures.WINDOW_FRACTION` of the last one do not count, since no agent has learned yet.
    """
    runs = [record for group in by_agent for record in group]
    frames, scores = run_measures.on_common_frames(runs)
    scores = scores[:, frames >= run_measures.WINDOW_FRACTION * frames[-1]]
    of_agents = np.split(scores, np.cumsum([len(group) for group in by_agent])[:-1])

    def led(weights: BootstrapWeights) -> np.ndarray:
        *ahead, behind = [share @ curves for share, curves in zip(weights, of_agents)]
        return _above(np.min(ahead, axis=0), behind).min(axis=-1)

    return led


def place(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Place of our agent: 1 plus the number of other agents with a higher mean final evaluation; ties count half."""

    def count(weights: BootstrapWeights) -> np.ndarray:
        ours, *others = _means(by_agent, weights)
        return 1.0 + np.sum([_above(other, ours) for other in others], axis=0)

    return count


def gap_widened(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """1 if a change of settings increases our lead over another agent, 1/2 if it leaves it as it is, otherwise 0.

    Scores are final evaluations, means over runs.

    Args:
        by_agent: runs of our agent and of the other one with the change, then of both without it.
    """

    def widened(weights: BootstrapWeights) -> np.ndarray:
        means = _means(by_agent, weights)
        ours, theirs, ours_before, theirs_before = means
        return _above(ours - theirs, ours_before - theirs_before, abs(means).max(axis=0))

    return widened


def ratio_of_gains(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Ratio of the gain from the last other agent to ours to the gain from the first other agent to the second.

    Gains are differences of final evaluations, means over runs, so the ratio does not depend on the unit of the score.
    It is `RATIO_CAP` if the second gain is not positive, because it then cannot diminish.
    """

    def ratio(weights: BootstrapWeights) -> np.ndarray:
        ours, first, second, third = _means(by_agent, weights)
        return _capped_ratio(ours - third, second - first)

    return ratio


def rank_correlation(by_agent: Sequence[Records], name: str) -> Callable[[BootstrapWeights], np.ndarray]:
    """Spearman's rank correlation over our runs, between a hyper-parameter that seeds sampled and the final evaluation.

    Equal numbers share the middle of their ranks. The correlation is 0 if either is the same in all runs.

    Args:
        by_agent: runs of one agent, whose records have `name` among the sampled hyper-parameters.
        name: name of the hyper-parameter; its logarithm has the same ranks.
    """
    (runs,) = by_agent
    sampled = np.array([record["sampled_hparams"][name] for record in runs], np.float64)
    scores = np.array(_scores(runs), np.float64)

    def correlation(weights: BootstrapWeights) -> np.ndarray:
        (of_run,) = weights
        x, y = _centred_ranks(sampled, of_run), _centred_ranks(scores, of_run)
        stds = np.sqrt((of_run * x * x).sum(axis=-1) * (of_run * y * y).sum(axis=-1))
        ordered = stds > MIN_RANK_VARIANCE
        return np.where(ordered, (of_run * x * y).sum(axis=-1) / np.where(ordered, stds, 1.0), 0.0)

    return correlation


def near_best(by_agent: Sequence[Records]) -> Callable[[BootstrapWeights], np.ndarray]:
    """Share of our runs of a search whose gain is at least half of the best gain.

    The gain is the final evaluation minus the score of untrained policies, the mean of the curves' first points. The
    best gain is the mean of the best `SEARCH_BEST` runs. It depends on the number of runs, though less than the highest
    does: of lognormal gains with a std of 1 of the logarithm, 44 % are near the best of 10 and 22 % near that of 30.
    So a claim needs `SEARCH_RUNS`.

    Args:
        by_agent: runs of one agent, whose records have curves.
    """
    (runs,) = by_agent
    scores = np.array(_scores(runs), np.float64)
    gains = scores - np.mean([record["curve"][0][1] for record in runs])

    def share(weights: BootstrapWeights) -> np.ndarray:
        (of_run,) = weights
        best = statistics.best_weights(scores, of_run * len(runs), SEARCH_BEST) @ gains
        return (of_run * (gains >= 0.5 * best[:, None])).sum(axis=-1)

    return share


def _centred_ranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns ranks in [0, 1] of values [runs] with weights [R, runs], minus their weighted mean; [R, runs]."""
    before = (values[:, None] < values) + 0.5 * (values[:, None] == values)
    ranks = weights @ before
    return ranks - (weights * ranks).sum(axis=-1, keepdims=True)


def _final_level(runs: Records) -> float:
    return float(run_measures.on_common_frames(runs)[1].mean(axis=0).max())


def _scores(runs: Records) -> list[float]:
    return [record["evaluation"]["mean"] for record in runs]


def _above(a: np.ndarray, b: np.ndarray, size: np.ndarray | None = None) -> np.ndarray:
    """Returns 1 where a is above b, 1/2 where they are equal but for rounding and 0 elsewhere.

    Args:
        a, b: numbers of one shape.
        size: absolute numbers whose rounding counts; None for those of a and b.
    """
    slack = ROUNDING * (np.maximum(abs(a), abs(b)) if size is None else size)
    return (a - b > slack) + 0.5 * (abs(a - b) <= slack)


def _capped_ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns a / b, [R]; `RATIO_CAP` where it is larger or b is not positive."""
    positive = b > 0
    return np.where(positive, np.minimum(a / np.where(positive, b, 1.0), RATIO_CAP), RATIO_CAP)


def _loss(learned: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Returns the share of the gain `before` that a change removes, [R]; 0 where `before` is not positive."""
    positive = before > 0
    return np.where(positive, 1.0 - learned / np.where(positive, before, 1.0), 0.0)


def _frames_to(level: float, record: Record) -> float:
    frames, scores = np.array(record["curve"], np.float64).T
    return float(run_measures.first_reach(frames, scores, level))


def _ratio_to_level(
    by_agent: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray | None]], common: bool
) -> Callable[[BootstrapWeights], np.ndarray]:
    """Returns the function of `ratio_of_frames`, or of seconds, from frames, scores and seconds of our runs and theirs.

    Args:
        by_agent: frames [P], scores [runs, P], and seconds [runs, P] or None for the ratio of frames; ours first.
        common: whether the level is the lower of both final levels, and not theirs.
    """

    def ratio(weights: BootstrapWeights) -> np.ndarray:
        curves = [share @ scores for share, (_, scores, _) in zip(weights, by_agent)]
        times = [
            frames if seconds is None else share @ seconds for share, (frames, _, seconds) in zip(weights, by_agent)
        ]
        finals = [curve.max(axis=-1) for curve in curves]
        level = np.minimum(*finals) if common else finals[1]
        ours, theirs = (run_measures.first_reach(x, curve, level) for x, curve in zip(times, curves))
        return np.minimum(np.maximum(ours, 1.0) / np.maximum(theirs, 1.0), RATIO_CAP)

    return ratio


def _divergences(runs: Records) -> tuple[np.ndarray, np.ndarray]:
    """Returns the divergence at the start and at the end of training, each [runs]."""
    start, end = zip(*map(run_measures.divergences, runs))
    return np.array(start), np.array(end)


def _excesses(runs: Records) -> tuple[np.ndarray, np.ndarray]:
    """Returns the observed contraction rate minus its target, at the end and over the whole log, each [runs]."""
    end, throughout = zip(*map(run_measures.contraction_excesses, runs))
    return np.array(end), np.array(throughout)


def _means(by_agent: Sequence[Records], weights: BootstrapWeights) -> np.ndarray:
    """Returns the mean of final evaluations, [agents, R]."""
    return np.stack([share @ np.array(_scores(runs), np.float64) for share, runs in zip(weights, by_agent)])
