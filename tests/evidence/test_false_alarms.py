"""How often sound records fall out of their bands, by simulation.

As a program, `python -m tests.evidence.test_false_alarms`, it prints the table of `docs/verdicts.md`.
"""

import collections
import functools
import pathlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from repro.evidence import bands, judgements, records

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "verdicts.md"
REPEATS = 10_000
MAX_FALSE_ALARM_RATE = 0.01

Sample = Callable[[tuple[int, ...], np.random.Generator], np.ndarray]
Suite = Sequence[Sequence[int]]
"""Families, each the number of runs of its groups."""


def normal(std, shape, rng):
    """Normal scores of mean 1; a random player scores 0."""
    return 1 + std * rng.standard_normal(shape)


def lognormal(std, shape, rng):
    """Scores whose logarithm has this standard deviation."""
    return np.exp(std * rng.standard_normal(shape))


def two_levels(lower, std, shape, rng):
    """Half of the runs end at a lower level, each level with this relative standard deviation."""
    return np.where(rng.random(shape) < 0.5, lower, 1.0) * normal(std, shape, rng)


def unequal(low, high, shape, rng):
    """Lognormal scores, the standard deviation of each group log-uniform between two numbers."""
    std = np.exp(rng.uniform(np.log(low), np.log(high), (shape[0], 1)))
    return lognormal(std, shape, rng)


def with_ceiling(std, shape, rng):
    """Scores of mean 1 of which none is above 1, so that half of the runs are equal."""
    return np.minimum(normal(std, shape, rng), 1.0)


SAMPLES: dict[str, Sample] = {
    "normal, relative std 0.1": functools.partial(normal, 0.1),
    "normal, relative std 0.2": functools.partial(normal, 0.2),
    "lognormal, std 0.5": functools.partial(lognormal, 0.5),
    "lognormal, std 1": functools.partial(lognormal, 1.0),
    "lognormal, std of each group 0.02 to 1": functools.partial(unequal, 0.02, 1.0),
    "half of the runs at half the score, std 0.2": functools.partial(two_levels, 0.5, 0.2),
    "half of the runs at the highest score, std 0.01": functools.partial(with_ceiling, 0.01),
}
FAR_LEVELS = functools.partial(two_levels, 0.25, 0.1)
SUITES: dict[str, Suite] = {
    "one group of 5": [[5]],
    "ten groups of 5": [[5]] * 10,
    "seven groups of 2 and 3": [[2, 2, 3, 3, 3, 3, 3]],
    "these and three of 5": [[2, 2, 3, 3, 3, 3, 3], [5], [5], [5]],
}


def fall_out(scores: Sequence[np.ndarray], rate: float) -> np.ndarray:
    """Whether any run of one family falls out, [REPEATS].

    A run at random level falls out, but no other is judged by its group, whose logarithms have no spread: NaN.

    Args:
        scores: [REPEATS, n] of each group.
        rate: chance of each run.
    """
    values = [bands.on_band_scale(group, 0.0) for group in scores]
    known = [np.where(np.isfinite(group), group, np.nan) for group in values]
    found = np.zeros(REPEATS, bool)
    for place, group in enumerate(values):
        for run in range(group.shape[1]):
            others = np.delete(known[place], run, axis=1)
            family = [others, *known[:place], *known[place + 1 :]]
            own = others.shape[1] >= bands.MIN_RUNS - 1
            groups = [others] if own else [item for item in family if item.shape[1] > 1]
            reach = bands.reach(bands.spread_of(groups), others.shape[1], rate, bands.MIN_LOG_REACH)
            found |= group[:, run] < others.mean(axis=1) - reach
    return found


def false_alarms(sample: Sample, suite: Suite) -> float:
    """The share of sound suites in which one or more runs fall out, always from the same random numbers."""
    rng = np.random.default_rng(0)
    rate = bands.FALSE_ALARM_RATE / sum(map(sum, suite))
    found = np.zeros(REPEATS, bool)
    for family in suite:
        found |= fall_out([sample((REPEATS, size), rng) for size in family], rate)
    return float(found.mean())


@functools.cache
def measured(name: str, suite: str) -> float:
    return false_alarms(SAMPLES[name], SUITES[suite])


def table() -> str:
    """All cases in Markdown, in percent."""
    lines = ["| sound scores above random play | " + " | ".join(SUITES) + " |"]
    lines.append("| --- |" + " ---: |" * len(SUITES))
    for name in SAMPLES:
        lines.append(f"| {name} | " + " | ".join(f"{100 * measured(name, suite):.1f}" for suite in SUITES) + " |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", SAMPLES)
def test_false_alarms_are_at_most_one_percent_of_a_whole_suite(name):
    found = {suite: measured(name, suite) for suite in SUITES}
    assert max(found.values()) <= MAX_FALSE_ALARM_RATE, found


@functools.cache
def committed_suite() -> Suite:
    items = records.read_all(records.ROOT / "results")[0]
    judged = {judgements.group_of(item.record) for item in judgements.judge_by(items, items) if item.band is not None}
    keys = (judgements.group_of(item.record) for item in items)
    groups = collections.Counter(key for key in keys if key in judged)  # a run beside one at random level has no band
    families = collections.defaultdict(list)
    for (paper, *_), size in groups.items():
        families[paper].append(size)
    return list(families.values())


@pytest.mark.parametrize("name", SAMPLES)
def test_so_are_those_of_the_committed_suite(name):
    suite = committed_suite()
    assert sum(map(sum, suite)) > 20
    assert false_alarms(SAMPLES[name], suite) <= MAX_FALSE_ALARM_RATE


def test_the_page_has_the_measured_table():
    assert table() in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("stds", "most"), [(0.5, 0.003), (1, 0.005), (1.5, 0.005), (2, 0.004), (3, 0.001), (4, 1e-4)])
def test_sound_runs_near_random_play_seldom_fall_out_as_random(stds, most):
    """At most in 0.4 % of groups of five, as the page says, whichever number of stds they are above it."""
    scores = stds + np.random.default_rng(0).standard_normal((200_000, 5))
    out = np.zeros(len(scores), bool)
    for run in range(5):
        out |= bands.is_far_above(np.delete(scores, run, axis=1), 0.0) & (scores[:, run] <= 0)
    assert out.mean() <= most


def test_an_average_spread_would_fail_groups_of_unequal_spread(monkeypatch):
    def pooled(groups):
        dofs = [group.shape[-1] - 1 for group in groups]
        squares = sum(dof * group.var(axis=-1, ddof=1) for dof, group in zip(dofs, groups))
        return bands.Spread(np.sqrt(squares / sum(dofs)), np.array(sum(dofs)))

    monkeypatch.setattr(bands, "spread_of", pooled)
    sample = SAMPLES["lognormal, std of each group 0.02 to 1"]
    assert round(100 * false_alarms(sample, SUITES["seven groups of 2 and 3"])) == 18  # as the page says


def test_without_a_least_reach_runs_at_the_highest_score_would_fail(monkeypatch):
    monkeypatch.setattr(bands, "MIN_LOG_REACH", 0.0)
    sample = SAMPLES["half of the runs at the highest score, std 0.01"]
    assert round(100 * false_alarms(sample, SUITES["one group of 5"])) == 22  # as the page says


def test_many_normal_runs_of_a_wide_spread_have_false_alarms():
    """Their logarithms are skewed, which few runs hide behind a wide band; the page says so."""
    assert round(100 * false_alarms(SAMPLES["normal, relative std 0.2"], [[30]])) == 6


def test_a_level_far_below_the_other_is_what_a_lowered_record_looks_like():
    """One run of five at a quarter of the score of the rest falls out, be it sound or not."""
    assert false_alarms(FAR_LEVELS, SUITES["one group of 5"]) > MAX_FALSE_ALARM_RATE


if __name__ == "__main__":
    print(table(), end="")
