"""How often 95 % intervals of few runs hold the true number, by simulation.

As a program, `python -m tests.evidence.test_coverage`, it prints the table of `docs/verdicts.md`.
"""

import functools
import itertools
import pathlib
import re
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats

from repro.evidence import claim_intervals, claim_kinds, intervals, statistics

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "verdicts.md"
RUNS = (2, 3, 4, 5, 7, 10)
REPEATS = 1000
BOOTSTRAP_REPEATS = 250
MIN_COVERAGE = 0.8
TASKS = 5
AGENTS = 5

Coverage = Callable[[int, np.random.Generator], float]
"""From the runs of each agent to the share of simulated experiments whose interval holds the true number."""


def _scores(shape, spread, rng):
    """Normal scores of mean 0, or lognormal ones of mean 1."""
    normal = rng.standard_normal(shape)
    return normal if spread is None else np.exp(spread * normal - spread**2 / 2)


def mean(spread: float | None, runs: int, rng: np.random.Generator) -> float:
    """Coverage of `intervals.mean_interval`; `spread`: std of the logarithm, None for normal scores."""
    truth = 0.0 if spread is None else 1.0
    found = [intervals.mean_interval(scores) for scores in _scores((REPEATS, runs), spread, rng)]
    return float(np.mean([low <= truth <= high for low, high in found]))


def share(truth: float, runs: int, rng: np.random.Generator) -> float:
    """Coverage of `intervals.share_interval`."""
    found = functools.cache(intervals.share_interval)
    counts = rng.binomial(runs, truth, REPEATS)
    return float(np.mean([low <= truth <= high for low, high in (found(int(count), runs) for count in counts)]))


def improvement(truth: float, tasks: int, runs: int, rng: np.random.Generator) -> float:
    """Coverage of `intervals.improvement_interval` of normal scores, with several tasks averaged over them."""
    found = functools.cache(intervals.improvement_interval)
    theirs = rng.standard_normal((REPEATS, tasks, runs))
    ours = rng.standard_normal((REPEATS, tasks, runs)) + np.sqrt(2) * scipy.stats.norm.ppf(truth)
    probabilities = (ours[..., :, None] > theirs[..., None, :]).mean((-2, -1))
    ends = [[found(float(p), runs, runs) for p in of] for of in probabilities]
    reaches = [intervals.reach_at_even_odds(runs, runs)] * tasks
    if tasks > 1:
        averages = [intervals.average_probabilities(*pair, reaches) for pair in zip(probabilities, ends)]
    else:
        averages = [of_one for (of_one,) in ends]
    return float(np.mean([low <= truth <= high for low, high in averages]))


def trend(shift: float, runs: int, rng: np.random.Generator) -> float:
    """Coverage of `intervals.trend_interval` of `AGENTS` agents' normal scores, each `shift` above those before."""
    found = functools.cache(intervals.trend_interval)
    scores = rng.standard_normal((REPEATS, AGENTS, runs)) + shift * np.arange(AGENTS)[:, None]
    pairs = list(itertools.combinations(range(AGENTS), 2))
    truth = np.mean([scipy.stats.norm.cdf(shift * (j - i) / np.sqrt(2)) for i, j in pairs])
    wins = [(scores[:, j, :, None] > scores[:, i, None, :]).mean((-2, -1)) for i, j in pairs]
    ends = [found(float(p), *[runs] * AGENTS) for p in np.mean(wins, axis=0).round(9)]
    return float(np.mean([low <= truth <= high for low, high in ends]))


def rank_correlation(truth: float, runs: int, rng: np.random.Generator) -> float:
    """Coverage of `intervals.rank_correlation_interval` of normal pairs with this rank correlation of all pairs."""
    pearson = 2 * np.sin(np.pi / 6 * truth)
    x = rng.standard_normal((REPEATS, runs))
    y = pearson * x + np.sqrt(1 - pearson**2) * rng.standard_normal((REPEATS, runs))
    ranks = [scipy.stats.rankdata(values, axis=1) - (runs + 1) / 2 for values in (x, y)]
    found = (ranks[0] * ranks[1]).sum(1) / (ranks[0] ** 2).sum(1)
    ends = map(functools.cache(intervals.rank_correlation_interval), map(float, found), [runs] * REPEATS)
    return float(np.mean([low <= truth <= high for low, high in ends]))


def spreads(tail: float | None, runs: int, rng: np.random.Generator) -> float:
    """Coverage of `intervals.spread_interval`, of two agents that spread alike; `tail` as `spread` of `mean`."""
    found = functools.cache(intervals.spread_interval)
    stds = _scores((REPEATS, 2, runs), tail, rng).std(axis=-1, ddof=1)
    ends = [found(0.0, runs, runs)] * REPEATS
    orders = np.log10(stds[:, 0] / stds[:, 1])
    return float(np.mean([low <= -x <= high for x, (low, high) in zip(orders, ends)]))


def bootstrap(spread: float | None, tasks: int, runs: int, rng: np.random.Generator) -> float:
    """Coverage of `claim_intervals.bootstrap_interval`, for the difference of two agents' mean scores, which is 0."""
    claim = claim_kinds.Claim(
        lambda by_agent: lambda weights: weights[0] @ by_agent[0] - weights[1] @ by_agent[1],
        lambda numbers: numbers.mean(axis=0),
        resamples=999,
    )
    held = 0
    for _ in range(BOOTSTRAP_REPEATS):
        low, high = claim_intervals.bootstrap_interval(claim, _scores((tasks, 2, runs), spread, rng), rng)
        held += low <= 0.0 <= high
    return held / BOOTSTRAP_REPEATS


CASES: dict[str, tuple[Coverage, int, float]] = {
    "mean, normal scores": (functools.partial(mean, None), 2, 0.93),
    "mean, lognormal scores (0.5)": (functools.partial(mean, 0.5), 2, 0.89),
    "mean, lognormal scores (1)": (functools.partial(mean, 1.0), 2, 0.81),
    "share, 0.5": (functools.partial(share, 0.5), 2, 0.95),
    "share, 0.9": (functools.partial(share, 0.9), 2, 0.95),
    "improvement, 0.5": (functools.partial(improvement, 0.5, 1), 2, 0.88),
    "improvement, 0.75": (functools.partial(improvement, 0.75, 1), 2, 0.94),
    "improvement, 0.95": (functools.partial(improvement, 0.95, 1), 2, 0.93),
    f"improvement, 0.5, {TASKS} tasks": (functools.partial(improvement, 0.5, TASKS), 2, 0.93),
    f"improvement, 0.75, {TASKS} tasks": (functools.partial(improvement, 0.75, TASKS), 2, 0.95),
    f"improvement, 0.95, {TASKS} tasks": (functools.partial(improvement, 0.95, TASKS), 2, 0.95),
    "improvement, 0.5, 57 tasks": (functools.partial(improvement, 0.5, 57), 2, 0.92),
    f"trend of {AGENTS} agents, none": (functools.partial(trend, 0.0), 2, 0.93),
    f"trend of {AGENTS} agents, 0.4": (functools.partial(trend, 0.4), 2, 0.93),
    f"trend of {AGENTS} agents, 3": (functools.partial(trend, 3.0), 2, 0.93),
    "rank correlation, 0": (functools.partial(rank_correlation, 0.0), 4, 0.93),
    "rank correlation, 0.6": (functools.partial(rank_correlation, 0.6), 4, 0.93),
    "rank correlation, 0.9": (functools.partial(rank_correlation, 0.9), 4, 0.92),
    "spread, normal scores": (functools.partial(spreads, None), 4, 0.99),
    "spread, lognormal scores (1)": (functools.partial(spreads, 1.0), 4, 0.83),
    "bootstrap of a difference, normal": (functools.partial(bootstrap, None, 1), 4, 0.9),
    "bootstrap of a difference, lognormal (1)": (functools.partial(bootstrap, 1.0, 1), 4, 0.9),
    f"bootstrap of a difference, normal, {TASKS} tasks": (functools.partial(bootstrap, None, TASKS), 4, 0.9),
}
"""Name to the simulation, the fewest runs that have an interval, and the coverage that is measured at least."""


@functools.cache
def coverage(name: str, runs: int) -> float | None:
    """The coverage of one case, always from the same random numbers; None with too few runs for an interval."""
    simulate, fewest, _ = CASES[name]
    return simulate(runs, np.random.default_rng([runs, *name.encode()])) if runs >= fewest else None


def table() -> str:
    """All cases in Markdown, in percent."""
    lines = ["| 95 % interval of | " + " | ".join(f"{runs} runs" for runs in RUNS) + " |"]
    lines.append("| --- |" + " ---: |" * len(RUNS))
    for name in CASES:
        found = [coverage(name, runs) for runs in RUNS]
        lines.append(f"| {name} | " + " | ".join("-" if x is None else f"{100 * x:.0f}" for x in found) + " |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if re.search("^bootstrap.* tasks", name) else []) for name in CASES],
)
def test_intervals_hold_the_true_number_about_as_often_as_they_say(name):
    _, fewest, expected = CASES[name]
    found = {runs: coverage(name, runs) for runs in RUNS if runs >= fewest}
    assert min(found.values()) >= max(expected, MIN_COVERAGE), found


def test_the_page_has_the_measured_table():
    assert table() in PAGE.read_text(encoding="utf-8")


def test_a_percentile_bootstrap_of_fewer_runs_would_hold_it_too_seldom(monkeypatch):
    monkeypatch.setattr(statistics, "MIN_BOOTSTRAP_RUNS", 2)
    assert bootstrap(None, 1, 2, np.random.default_rng(0)) < MIN_COVERAGE


def test_more_tasks_do_not_make_up_for_fewer_runs():
    """One task makes nearly all of the spread, as a game of high scores does in a mean over games."""
    claim = claim_kinds.Claim(
        lambda by_agent: lambda weights: weights[0] @ by_agent[0], lambda numbers: numbers.mean(axis=0), resamples=999
    )
    rng, scale, held = np.random.default_rng(0), np.array([100.0] + [1.0] * 19)[:, None, None], {}
    for runs in (2, 4):
        scores = (scale * rng.standard_normal((20, 1, runs)) for _ in range(BOOTSTRAP_REPEATS))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(statistics, "MIN_BOOTSTRAP_RUNS", 2)
            ends = [claim_intervals.bootstrap_interval(claim, item, rng) for item in scores]
        held[runs] = np.mean([low <= 0.0 <= high for low, high in ends])
    assert held[2] < MIN_COVERAGE < held[4]


@pytest.mark.parametrize(("runs", "best"), [(24, 3), (30, 5), (10, 3)])
def test_the_mean_of_the_best_runs_is_held_less_often_than_said(runs, best):
    """Of normal scores in 85 to 95 % of cases: no resample knows of better runs than the best of all."""
    rng = np.random.default_rng(2)
    truth = np.sort(rng.standard_normal((20_000, runs)), axis=1)[:, -best:].mean()
    found = [intervals.best_interval(list(rng.standard_normal(runs)), best, rng) for _ in range(100)]
    assert 0.8 <= np.mean([low <= truth <= high for low, high in found]) < 0.99


def _settings(kind: str, tasks: int, rng: np.random.Generator) -> np.ndarray:
    """Gains of thirty settings of a search, [tasks, 30], the same settings on all tasks: 80 % of the variance."""
    noise = np.sqrt(0.8) * rng.standard_normal(30) + np.sqrt(0.2) * rng.standard_normal((tasks, 30))
    if kind == "normal":
        return 1.0 + 0.5 * noise
    if kind == "lognormal":
        return np.exp(0.5 * noise)
    return np.where(noise < 0, 1.0, 0.1) + 0.1 * rng.standard_normal(noise.shape)


@pytest.mark.parametrize("tasks", [1, 6])
@pytest.mark.parametrize(("kind", "expected"), [("normal", 0.93), ("lognormal", 0.85), ("half fail", 0.93)])
def test_the_share_of_settings_near_the_best_is_held_about_as_often_as_said(kind, expected, tasks):
    """The level that they are near to depends on the runs, too, and most with a long tail.

    Of settings that are the same on all tasks, six tasks tell little more than one.
    """
    claim, rng, equal = claim_kinds.CLAIMS["settings_near_best"], np.random.default_rng(6), [np.full((1, 30), 1 / 30)]

    def share(gains: np.ndarray) -> float:
        runs = [{"evaluation": {"mean": x}, "curve": [[1, 0.0]]} for x in gains]
        return float(claim.of_task([runs])(equal)[0])

    experiments = [[share(gains) for gains in _settings(kind, tasks, rng)] for _ in range(BOOTSTRAP_REPEATS)]
    truth = np.mean(experiments)
    interval = functools.cache(claim.task_interval)
    held = {True: 0, False: 0}
    for found in experiments:
        for dependent in held:
            low, high = intervals.average(found, [interval(x, 30) for x in found], dependent)
            held[dependent] += low <= truth <= high
    assert held[True] >= expected * BOOTSTRAP_REPEATS
    assert tasks == 1 or held[False] < 0.8 * BOOTSTRAP_REPEATS


if __name__ == "__main__":
    print(table(), end="")
