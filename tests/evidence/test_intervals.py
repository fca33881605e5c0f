"""Intervals in closed form against scipy's distributions and their defining equations."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats

from repro.evidence import intervals, statistics

SCORES = [3.0, 5.0, 4.0, 9.0, 1.0]


@pytest.mark.parametrize("scores", [SCORES, [1.0, 2.0], [-21.0, -20.5, -20.0, -21.0]])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_of_a_mean_is_student_s(scores, confidence):
    expected = scipy.stats.ttest_1samp(scores, 0.0).confidence_interval(confidence)
    assert intervals.mean_interval(scores, confidence) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(("shared", "at_least", "at_most"), [(0.6, 0.98, 1.0), (0.0, 0.92, 0.98), (-0.5, 0.8, 0.94)])
@pytest.mark.parametrize("runs", [5, 24])
def test_settings_that_are_good_for_both_agents_make_an_improvement_s_interval_wide(runs, shared, at_least, at_most):
    """Their i-th runs have the same setting, whose part of the variance, less than 0 where it is bad for the other."""
    rng, covered = np.random.default_rng(4), 0
    for _ in range(400):
        setting, *own = rng.normal(size=(3, runs))
        ours = math.sqrt(abs(shared)) * setting + math.sqrt(1 - abs(shared)) * own[0]
        theirs = math.copysign(math.sqrt(abs(shared)), shared) * setting + math.sqrt(1 - abs(shared)) * own[1]
        low, high = intervals.improvement_interval(float((ours[:, None] > theirs).mean()), runs, runs)
        covered += low <= 0.5 <= high
    assert at_least <= covered / 400 <= at_most


def test_the_interval_of_two_scores_by_hand():
    """Mean 2, standard error 1, t of one degree of freedom 12.706."""
    assert intervals.mean_interval([1.0, 3.0]) == pytest.approx((2 - 12.7062, 2 + 12.7062), abs=1e-4)


@pytest.mark.parametrize("scores", [[4.0], [0.0], [1.0], [21.0] * 5, [0.5, 0.5]])
def test_scores_without_spread_have_no_interval(scores):
    assert intervals.mean_interval(scores) is None


@pytest.mark.parametrize(
    ("best", "low_of", "high_of"),
    [
        ([8.0, 8.1, 8.3], "resampled", "student"),
        ([7.0, 12.0, 20.0], "student", "student"),
        ([8.0, 8.0, 8.0], "resampled", "resampled"),
    ],
)
def test_the_interval_of_the_best_is_the_wider_one_at_either_end(best, low_of, high_of):
    """Student's of those chosen, and the quantiles of a bootstrap, in a loop, that chooses from each resample."""
    scores = [best[1], 1.0, 6.0, best[2], 5.0, 2.0, 4.0, best[0], 3.0, 0.0]
    resamples = np.random.default_rng(7).multinomial(10, np.full(10, 0.1), size=statistics.RESAMPLES)
    means = [np.mean(sorted(np.repeat(scores, counts))[-3:]) for counts in resamples]
    tail = scipy.stats.norm.cdf(-math.sqrt(10 / 9) * scipy.stats.t.ppf(0.975, 9))
    student = scipy.stats.t.ppf([0.025, 0.975], 2) * scipy.stats.sem(best) + np.mean(best)
    ends = {"resampled": np.quantile(means, [tail, 1 - tail]), "student": student}
    expected = ends[low_of][0], ends[high_of][1]
    assert intervals.best_interval(scores, 3, np.random.default_rng(7)) == pytest.approx(expected)


def test_the_interval_of_the_best_of_equal_scores_is_their_number():
    """Weights of a third each, in whatever order they are added, are no spread."""
    assert intervals.best_interval([7.0] * 5, 3, np.random.default_rng(0)) == (7.0, 7.0)


def test_scores_of_0_and_1_are_shares():
    unit = "1 if it holds, else 0"
    assert intervals.mean_interval([1.0, 0.0, 1.0, 1.0], unit=unit) == intervals.share_interval(3, 4)
    assert intervals.mean_interval([1.0] * 5, unit=unit) == intervals.share_interval(5, 5)
    assert intervals.mean_interval([0.0] * 5, unit=unit) == intervals.share_interval(0, 5)
    assert intervals.mean_interval([1.0, 0.0, 1.0, 1.0], 0.5, unit) == intervals.share_interval(3, 4, 0.5)
    with pytest.raises(ValueError, match="is 0 or 1"):
        intervals.mean_interval([1.0, 0.0, 0.5], unit=unit)


def test_scores_that_happen_to_be_0_or_1_are_no_share():
    """A game of a hundred points may be among the next."""
    assert intervals.mean_interval([0.0] * 100) is None
    low, high = intervals.mean_interval([0.0, 1.0, 0.0, 0.0])
    assert low < 0.0 < 0.25 < high


@pytest.mark.parametrize("scores", [[], [[1.0, 2.0]], [1.0, math.nan], [math.inf, 1.0], 3.0])
def test_no_scores_or_no_numbers_are_refused(scores):
    with pytest.raises(ValueError, match="mean_interval"):
        intervals.mean_interval(scores)


@pytest.mark.parametrize(("count", "total"), [(0, 5), (2, 5), (3, 30), (29, 30), (5, 5), (1, 1)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_of_a_share_has_beta_quantiles(count, total, confidence):
    tail = (1 - confidence) / 2
    low = scipy.stats.beta.ppf(tail, count, total - count + 1) if count else 0.0
    high = scipy.stats.beta.ppf(1 - tail, count + 1, total - count) if count < total else 1.0
    assert intervals.share_interval(count, total, confidence) == pytest.approx((low, high), abs=1e-8)


def test_the_ends_of_the_interval_of_a_share_are_the_probabilities_that_just_allow_it():
    low, high = intervals.share_interval(2, 7)
    assert scipy.stats.binom.sf(1, 7, low) == pytest.approx(0.025)
    assert scipy.stats.binom.cdf(2, 7, high) == pytest.approx(0.025)


@pytest.mark.parametrize(("count", "total"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_shares_are_refused(count, total):
    with pytest.raises(ValueError, match="must"):
        intervals.share_interval(count, total)


def test_they_take_no_time_to_import_scipys_statistics():
    numbers = "intervals.mean_interval([1.0, 2.0]), intervals.share_interval(2, 7)"
    check = f"import sys; from repro.evidence import intervals; {numbers}; sys.exit('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], timeout=60).returncode == 0


PROBABILITIES = [0.0, 0.04, 0.25, 0.5, 0.8, 0.96, 1.0]
SIZES = [(2, 2), (2, 7), (5, 5), (5, 3), (20, 30)]


def _variance(theta, ours, theirs):
    """Newcombe's, from the probability that two runs of one agent are both above one of the other's."""
    both_above, above_both = theta / (2 - theta), 2 * theta**2 / (1 + theta)
    shared = (ours + theirs) / 2 - 1
    return (
        theta * (1 - theta) + shared * (both_above - theta**2) + shared * (above_both - theta**2)
    ) / (ours * theirs)  # fmt: skip


@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize(("ours", "theirs"), SIZES)
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_ends_of_an_interval_of_improvement_are_z_standard_errors_away(probability, ours, theirs, confidence):
    low, high = intervals.improvement_interval(probability, ours, theirs, confidence)
    z = scipy.stats.norm.ppf(0.5 + confidence / 2)
    for end, inner in ((low, probability > 0), (high, probability < 1)):
        if inner:
            assert abs(probability - end) == pytest.approx(z * math.sqrt(_variance(end, ours, theirs)), rel=1e-6)
    assert 0 <= low <= probability <= high <= 1
    assert (low == 0) == (probability == 0)
    assert (high == 1) == (probability == 1)


@pytest.mark.parametrize(("ours", "theirs"), SIZES)
def test_an_interval_of_improvement_has_a_width_where_all_pairs_agree(ours, theirs):
    low, high = intervals.improvement_interval(1.0, ours, theirs)
    assert low < 0.95 < high == 1.0
    low, high = intervals.improvement_interval(0.0, ours, theirs)
    assert 0.0 == low < 0.05 < high


@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize(("ours", "theirs"), SIZES)
def test_the_interval_of_improvement_is_symmetric(probability, ours, theirs):
    low, high = intervals.improvement_interval(probability, ours, theirs)
    assert intervals.improvement_interval(1 - probability, ours, theirs) == pytest.approx((1 - high, 1 - low), abs=1e-7)
    assert intervals.improvement_interval(probability, theirs, ours) == pytest.approx((low, high), abs=1e-9)


def test_more_runs_or_less_confidence_narrow_the_interval_of_improvement():
    widths = [np.ptp(intervals.improvement_interval(0.7, runs, runs)) for runs in (2, 3, 5, 10, 40)]
    assert widths == sorted(widths, reverse=True)
    assert np.ptp(intervals.improvement_interval(0.7, 5, 5, 0.5)) < widths[2]


@pytest.mark.parametrize("runs", [(3, 3, 3), (2, 6, 3), (5, 1, 2, 4)])
def test_the_ends_of_an_interval_of_a_trend_lie_as_far_as_the_orders_of_equal_agents_do(runs):
    """At an end of even odds the number is z times the std of all orders away, here of a sample."""
    rng = np.random.default_rng(1)
    agents = np.split(rng.random((20_000, sum(runs))), np.cumsum(runs)[:-1], axis=1)
    pairs = itertools.combinations(agents, 2)
    numbers = np.mean([(late[:, :, None] > early[:, None]).mean((1, 2)) for early, late in pairs], axis=0)
    assert numbers.mean() == pytest.approx(0.5, abs=0.01)
    number = 0.5 + 1.959964 * numbers.std()
    assert intervals.trend_interval(number, *runs)[0] == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_a_trend_of_two_agents_is_an_improvement(probability):
    improvement = intervals.improvement_interval(probability, 5, 5)
    assert intervals.trend_interval(probability, 5, 5) == pytest.approx(improvement)
    assert 0 < np.ptp(intervals.trend_interval(probability, 5, 5, 5)) < np.ptp(improvement)


def test_the_interval_of_a_spread_is_wider_than_f_s_and_ends_where_it_says():
    low, high = intervals.spread_interval(0.3, 6, 11)
    normal = [0.3 - math.log10(scipy.stats.f.ppf(tail, 5, 10)) / 2 for tail in (0.975, 0.025)]
    assert low < normal[0] < 0.3 < normal[1] < high
    assert scipy.stats.f.cdf(10 ** (2 * (0.3 - low)), 2.0, 4.0) == pytest.approx(0.975)
    assert scipy.stats.f.cdf(10 ** (2 * (0.3 - high)), 2.0, 4.0) == pytest.approx(0.025)
    assert intervals.spread_interval(-0.3, 11, 6) == pytest.approx((-high, -low))


@pytest.mark.parametrize("runs", [4, 5, 30])
@pytest.mark.parametrize("correlation", [-0.9, -0.3, 0.0, 0.6])
def test_the_interval_of_a_rank_correlation_is_fisher_s(runs, correlation):
    low, high = intervals.rank_correlation_interval(correlation, runs)
    middle, reach = (np.arctanh(high) + np.arctanh(low)) / 2, (np.arctanh(high) - np.arctanh(low)) / 2
    most = 1 - 6 / (runs**3 - runs)  # with four runs 0.9 is taken as it is, since it is exactly this
    assert middle == pytest.approx(np.arctanh(np.clip(correlation, -most, most)))
    assert reach == pytest.approx(1.959964 * math.sqrt((1 + correlation**2 / 2) / (runs - 3)), rel=1e-6)
    assert -1 < low < correlation < high < 1


def test_a_perfect_rank_correlation_lies_in_its_interval():
    low, high = intervals.rank_correlation_interval(1.0, 5)
    most = 1 - 6 / 120
    assert (low, high) == (pytest.approx(math.tanh(math.atanh(most) - 1.959964 * math.sqrt(1.5 / 2)), rel=1e-6), 1.0)
    assert intervals.rank_correlation_interval(-1.0, 5) == (-1.0, pytest.approx(-low))
    assert intervals.average([1.0, 1.0], [(low, high)] * 2)[1] == 1.0


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_few_runs_have_no_interval_of_a_rank_correlation(runs):
    assert intervals.rank_correlation_interval(0.5, runs) is None
    assert intervals.rank_correlation_interval(0.5, intervals.MIN_CORRELATED) is not None


def test_an_average_of_one_number_has_its_interval():
    assert intervals.average([0.7], [(0.2, 0.9)]) == pytest.approx((0.2, 0.9))


def test_the_ends_of_an_average_by_hand():
    """Below by 3 and 4, above by 5 and 12: 5 and 13 together, halved."""
    assert intervals.average([10.0, 20.0], [(7.0, 15.0), (16.0, 32.0)]) == pytest.approx((15 - 2.5, 15 + 6.5))


def test_an_average_of_many_like_ones_narrows_as_a_mean_does():
    low, high = intervals.average([0.5] * 16, [(0.1, 0.7)] * 16)
    assert (low, high) == pytest.approx((0.4, 0.55))


def test_each_number_of_an_average_has_an_interval():
    with pytest.raises(ValueError, match="zip"):
        intervals.average([0.5, 0.5], [(0.1, 0.7)])


def test_the_ends_of_an_average_of_dependent_numbers_by_hand():
    """Below by 3 and 4, above by 5 and 12: 7 and 17 together, halved; like ones do not narrow."""
    found = intervals.average([10.0, 20.0], [(7.0, 15.0), (16.0, 32.0)], dependent=True)
    assert found == pytest.approx((15 - 3.5, 15 + 8.5))
    assert intervals.average([0.5] * 16, [(0.1, 0.7)] * 16, dependent=True) == pytest.approx((0.1, 0.7))
