"""Measures of one task on hand-made runs, and their resamples against means computed run by run."""

import functools

import numpy as np
import pytest
import scipy.stats

from repro.evidence import claim_intervals, claim_kinds, statistics
from repro.evidence import task_measures as measures

FRAMES = (10, 20, 30, 40)
RANK_CORRELATION = functools.partial(measures.rank_correlation, name="delta")


def run(*scores, frames=FRAMES, pace=0.1, kl=(1.0,), final=0.0):
    """A run with these scores along the way; `pace` is seconds a frame, each `kl` stands for a tenth of the rows."""
    rows = [[x, pace * x] for x in frames]
    return {
        "curve": [[x, float(y)] for x, y in zip(frames, scores)],
        "series": {"columns": ["num_env_frames", "seconds"], "rows": rows} if scores else
                  {"columns": ["num_env_frames", "kl"], "rows": [[i, float(x)] for i, x in enumerate(kl)]},
        "evaluation": {"mean": float(final)},
    }  # fmt: skip


def value(measure, *sides):
    return float(measure(sides)([np.full((1, len(side)), 1 / len(side)) for side in sides])[0])


def finals(*scores):
    return [run(final=score) for score in scores]


def diverging(*pairs):
    """Runs whose ten logged rows start and end with each pair."""
    return [run(kl=(start, *[50.0] * 8, end)) for start, end in pairs]


def test_the_level_is_the_lower_of_the_two_final_levels():
    ours, theirs = [run(0, 4, 8, 8)] * 2, [run(0, 0, 2, 4)] * 2
    assert value(measures.frames_to_level, ours, theirs) == 1.0  # level 4: 20 frames against 40
    assert value(measures.frames_to_level, theirs, ours) == 0.0


def test_a_difference_of_scores_is_one_of_means():
    assert value(measures.score_difference, finals(400, 300, 500), finals(100, 120)) == 400 - 110
    weights = [np.array([[0, 0, 1], [0.5, 0.5, 0]]), np.array([[1, 0], [0, 1]])]
    found = measures.score_difference([finals(400, 300, 500), finals(100, 120)])(weights)
    np.testing.assert_allclose(found, [500 - 100, 350 - 120])
    two_tasks = np.array([[10.0, 20.0], [30.0, 0.0]])
    np.testing.assert_allclose(claim_kinds.CLAIMS["score_difference"].over_tasks(two_tasks), [20, 10])


def test_a_difference_of_losses_is_of_shares_of_each_agent_s_score():
    of_games_without_score = functools.partial(measures.difference_of_losses, random=lambda record: 0.0)
    ours = finals(80, 100), finals(100)  # 90 of 100
    theirs = finals(20), finals(30, 50)  # 20 of 40
    assert value(of_games_without_score, *ours, *theirs) == pytest.approx(10 - 50)
    assert value(of_games_without_score, *theirs, *ours) == pytest.approx(50 - 10)
    assert value(of_games_without_score, finals(5), finals(0), *theirs) == pytest.approx(0 - 50)


def test_losses_are_shares_of_what_was_learned_beyond_random_play():
    """However much random play scores, to fall back to it is to lose everything."""
    levels = {"low": 0.0, "high": 1000.0}

    def played(game, score):
        return [run(final=score) | {"game": game}]

    difference = functools.partial(measures.difference_of_losses, random=lambda record: levels[record["game"]])
    ours = played("high", 1050), played("high", 1100)  # half, but 5 % of the raw score
    theirs = played("low", 90), played("low", 100)
    assert value(difference, *ours, *theirs) == pytest.approx(50 - 10)
    assert value(difference, played("high", 1000), ours[1], *theirs) == pytest.approx(100 - 10)
    assert value(difference, played("high", 900), played("high", 950), *theirs) == pytest.approx(0 - 10)


def test_the_end_of_the_log_is_its_last_tenth_over_columns_and_runs():
    def logged(*ends):
        rows = [[0.99, 0.5]] * 18 + [list(ends)] * 2
        return {"series": {"columns": ["gamma_2", "gamma_3"], "rows": rows}, "evaluation": {"mean": 0.0}}

    both = functools.partial(measures.logged, columns=("gamma_2", "gamma_3"), at_the_end=True)
    assert value(both, [logged(0.9, 0.7), logged(0.8, 0.4)]) == pytest.approx(0.7)
    start = functools.partial(measures.logged, columns=("gamma_2", "gamma_3"), at_the_end=False)
    assert value(start, [logged(0.9, 0.7), logged(0.8, 0.4)]) == pytest.approx((0.99 + 0.5) / 2)
    one = functools.partial(measures.logged, columns=("gamma_3",), at_the_end=True)
    weights = np.array([[1.0, 0.0], [0.25, 0.75]])
    np.testing.assert_allclose(one([[logged(0.9, 0.7), logged(0.8, 0.4)]])([weights]), [0.7, 0.25 * 0.7 + 0.75 * 0.4])
    with pytest.raises(ValueError, match="logged: the record keeps no column"):
        value(functools.partial(measures.logged, columns=("gamma_1",), at_the_end=True), [logged(0.9, 0.7)])


def of_heads(*ends):
    """A run whose gamma and alpha of heads 1 to 3 are 0.99 but for the last tenth of the log."""
    columns = [f"{name}_{head}" for name in ("gamma", "alpha") for head in (1, 2, 3)]
    return {"series": {"columns": columns, "rows": [[0.99] * 6] * 9 + [list(ends)]}}


def test_heads_are_alike_where_they_differ_less_from_each_other_than_from_the_main_one():
    ratio = functools.partial(measures.ratio_of_head_distances, metaparameters=("gamma", "alpha"))
    alike = of_heads(0.9, 0.5, 0.6, 0.8, 0.8, 0.7)  # 0.1 and 0.1 apart; 0.35 and 0.05 from the main one
    assert value(ratio, [alike]) == pytest.approx(0.2 / 0.4)
    unlike = of_heads(0.9, 0.8, 0.4, 0.8, 0.8, 0.8)  # 0.4 apart, 0.3 from the main one
    assert value(ratio, [alike, unlike]) == pytest.approx(0.6 / 0.7)
    assert value(ratio, [of_heads(*[0.99] * 6)]) == measures.RATIO_CAP  # nothing was tuned
    weights = [np.array([[1.0, 0.0], [0.0, 1.0]])]
    np.testing.assert_allclose(ratio([[alike, unlike]])(weights), [0.2 / 0.4, 0.4 / 0.3])


def test_heads_that_move_independently_are_as_far_from_each_other_as_from_the_main_one():
    rng = np.random.default_rng(3)
    ratio = functools.partial(measures.ratio_of_head_distances, metaparameters=("gamma", "alpha"))
    assert value(ratio, [of_heads(*rng.random(6)) for _ in range(2000)]) == pytest.approx(1, abs=0.05)


def test_a_share_of_the_log_counts_equal_columns_half():
    rows = [[0.99, 0.99, 0.99, 0.99], [0.98, 0.97, 0.96, 0.97], [0.9, 0.8, 0.95, 0.9], [0.5, 0.5, 0.6, 0.505]]
    record = {"series": {"columns": ["alpha_rho_1", "alpha_c_1", "alpha_rho_2", "alpha_c_2"], "rows": rows}}
    pairs = {"columns": ("alpha_rho_1", "alpha_rho_2"), "others": ("alpha_c_1", "alpha_c_2")}
    above = functools.partial(measures.share_of_log_above, **pairs, factor=1)
    assert value(above, [record]) == pytest.approx(100 * (0.5 + 1 + 1 + 0.5 + 0.5 + 0 + 1 + 1) / 8)
    nearly = functools.partial(measures.share_of_log_above, **pairs, factor=0.98)
    assert value(nearly, [record]) == 100
    untuned = {"series": record["series"] | {"rows": rows[:1] * 4}}
    assert value(above, [untuned]) == 50
    np.testing.assert_allclose(above([[record, untuned]])([np.array([[0.0, 1.0], [0.5, 0.5]])]), [50, 59.375])


NEAR_A3C = functools.partial(
    measures.squared_distances_from, numbers={"walker_walk": 311.0, "cheetah_run": 213.9}, random=lambda _: 31.0
)


def on_walker(*scores):
    return [record | {"task": "walker_walk"} for record in finals(*scores)]


def test_a_squared_distance_from_a_publication_is_a_product_of_two_runs():
    runs = on_walker(400, 200, 321)
    both = NEAR_A3C([runs])([np.array([[1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])])
    pairs = (89 * -111 + 89 * 10 + -111 * 10) / 3
    np.testing.assert_allclose(both, [[pairs, 89 * -111, 89**2], [280**2] * 3])


def test_the_spread_of_runs_is_no_distance_from_a_publication():
    """Of four runs with a std of 100 about the number the squared mean is 2500 on average."""
    rng = np.random.default_rng(0)
    made = [on_walker(*(311 + 100 * rng.normal(size=4))) for _ in range(2000)]
    squares = [NEAR_A3C([runs])([np.full((1, 4), 0.25)])[0, 0] for runs in made]
    assert np.mean(squares) == pytest.approx(0, abs=4 * np.std(squares) / np.sqrt(2000))
    assert np.std(squares) < 5000


def test_a_trend_is_a_probability_over_pairs_of_agents_in_their_order():
    rising = [finals(1, 2), finals(3, 4), finals(5, 6)]
    assert value(measures.trend, *rising) == 1
    assert value(measures.trend, *rising[::-1]) == 0
    assert value(measures.trend, rising[1], rising[0], rising[2]) == pytest.approx(2 / 3)
    assert value(measures.trend, finals(1, 2), finals(1, 2), finals(1, 2)) == 0.5
    ours, theirs = finals(1, 3), finals(2, 3, 0)
    assert value(measures.trend, ours, theirs) == value(measures.improvement, theirs, ours)  # of two agents


def test_a_spread_is_in_orders_of_magnitude_of_theirs():
    ours, theirs = finals(0, 10, 20), finals(5.1, 5.2, 5.3)
    assert value(measures.spread, ours, theirs) == pytest.approx(2)
    assert value(measures.spread, theirs, ours) == pytest.approx(-2)
    assert value(measures.spread, finals(0, 10), ours) == pytest.approx(np.log10(np.sqrt(50) / 10))  # n - 1 divides
    assert measures.differ([ours, theirs])
    assert not measures.differ([ours, finals(1, 1)])


def test_a_difference_of_logs_is_ours_minus_theirs():
    def logged(*values):
        return {"series": {"columns": ["beta"], "rows": [[value] for value in values]}}

    of_task = functools.partial(measures.logged_difference, columns=["beta"])
    assert value(of_task, [logged(9, 0.25), logged(9, 0.75)], [logged(9, 0.125)]) == 0.5 - 0.125


def test_turning_back_is_that_of_each_run():
    to_and_fro, up = run(kl=(0.0, 4.0, 3.0)), run(kl=range(10))
    measure = functools.partial(measures.turning_back, columns=["kl"])
    assert value(measure, [to_and_fro, up]) == (0.25 + 0.0) / 2


def test_a_score_is_the_mean_of_final_evaluations():
    assert value(measures.score, finals(400, 300, 500)) == 400


def test_the_lowest_return_is_that_of_each_run():
    runs = [run(0, -8, 4), run(-20, 3, 1)]
    assert value(measures.lowest_return, runs) == (-8 + 1) / 2  # an untrained policy's -20 is not what training does
    assert value(measures.lowest_return, [run(-20)]) == -20


def test_pairs_of_runs_are_counted_one_by_one():
    ours = [run(0, 6, 6, 6), run(0, 0, 6, 6)]  # mean 0 3 6 6, level 6: 20, 30
    theirs = [run(0, 0, 8, 8), run(0, 0, 0, 8)]  # 30, 40
    # 20 beats both, 30 ties with 30 and beats 40
    assert value(measures.frames_to_level, ours, theirs) == (1 + 1 + 0.5 + 1) / 4


def test_a_run_that_never_reaches_the_level_loses_to_one_that_does_and_ties_with_its_like():
    ours = [run(0, 10, 10, 10), run(0, 2, 2, 2)]  # mean 6, the level
    theirs = [run(0, 0, 0, 20), run(0, 0, 0, 2)]  # mean 11 at the end
    # 20 beats 40 and infinity; infinity loses to 40 and ties with infinity
    assert value(measures.frames_to_level, ours, theirs) == (1 + 1 + 0 + 0.5) / 4


def test_a_fall_at_the_end_does_not_lower_the_level():
    ours, theirs = [run(0, 6, 6, 0)] * 2, [run(0, 3, 6, 6)] * 2
    assert value(measures.frames_to_level, ours, theirs) == 1.0  # level 6, not 0, which both have at once


def test_frames_are_of_the_mean_curves():
    ours = [run(0, 8, 8, 8), run(0, 0, 8, 8)]  # mean 0 4 8 8
    theirs = [run(0, 2, 3, 4), run(0, 2, 3, 4)]
    assert value(measures.ratio_of_frames, ours, theirs) == 20 / 40
    assert value(measures.ratio_of_frames, theirs, ours) == measures.RATIO_CAP


def test_equally_fast_agents_are_compared_at_a_level_that_both_reach():
    ours, theirs = [run(0, 4, 8, 8)] * 2, [run(0, 2, 3, 4)] * 2
    to_common = functools.partial(measures.ratio_of_frames, to_common_level=True)
    assert value(to_common, ours, theirs) == 20 / 40
    assert value(to_common, theirs, ours) == 40 / 20
    same = [run(0, 0, 4, 9), run(0, 6, 8, 8), run(0, 1, 6, 7), run(0, 3, 9, 9)]
    rng = np.random.default_rng(0)
    weights = [rng.multinomial(4, [0.25] * 4, size=400) / 4 for _ in range(2)]
    alone, together = measures.ratio_of_frames([same, same])(weights), to_common([same, same])(weights)
    assert np.mean(alone == measures.RATIO_CAP) > 0.3  # of an agent beside itself
    assert together.max() < 3


def test_frames_to_their_level_need_not_come_from_equal_points():
    ours = [run(0, 5, frames=(6, 12))] * 2
    theirs = [run(0, 1, 5, 5)] * 2
    assert value(measures.ratio_of_frames, ours, theirs) == 12 / 30


def test_time_is_that_of_the_log():
    ours, theirs = [run(0, 4, 8, 8, pace=0.3)] * 2, [run(0, 2, 3, 4, pace=0.1)] * 2
    assert value(measures.ratio_of_seconds, ours, theirs) == pytest.approx(6 / 4)
    mixed = [run(0, 4, 8, 8, pace=0.3), run(0, 4, 8, 8, pace=0.1)]
    assert value(measures.ratio_of_seconds, mixed, theirs) == pytest.approx(4 / 4)  # 0.2 s a frame on average
    assert value(measures.ratio_of_seconds, theirs, ours) == measures.RATIO_CAP


def test_time_may_be_to_a_level_that_both_reach():
    ours, theirs = [run(0, 4, 8, 8, pace=0.3)] * 2, [run(0, 2, 3, 4, pace=0.1)] * 2
    to_common = functools.partial(measures.ratio_of_seconds, to_common_level=True)
    assert value(to_common, theirs, ours) == pytest.approx(4 / 6)


def test_divergence_grows_and_differs_in_orders_of_magnitude():
    ours, theirs = diverging((1, 300), (3, 100)), diverging((5, 2), (5, 2))
    assert value(measures.divergence, ours) == 200
    assert value(measures.growth, ours) == pytest.approx(2)
    assert value(measures.distance, ours, theirs) == pytest.approx(2)
    assert value(measures.distance, theirs, ours) == pytest.approx(-2)


def contracting(*ends, target=0.97):
    """Runs whose ten logged rows are 0.9 but for the last one."""
    columns = ["contraction", "contraction_target"]
    return [{"series": {"columns": columns, "rows": [[0.9, target]] * 9 + [[end, target]]}} for end in ends]


def test_contraction_rates_are_means_over_runs():
    ours, theirs = contracting(0.97, 0.99), contracting(0.96, 0.96, 0.99)
    assert value(measures.contraction_at_the_end, ours) == pytest.approx(0.01)
    assert value(measures.contraction_throughout, ours) == pytest.approx(0.908 - 0.97)
    assert value(measures.contraction_difference, ours, theirs) == pytest.approx(0.01)
    assert value(measures.contraction_difference, theirs, ours) == pytest.approx(-0.01)


def test_a_target_that_is_met_is_not_surpassed():
    assert measures.contracts_above(contracting(0.96, 0.99), 0)
    assert not measures.contracts_above(contracting(0.96, 0.99), 0.01)
    assert not measures.contracts_above(contracting(0.5, 0.5, target=0.5), 0)
    assert not measures.contracts_above(contracting(0.96, 0.97), 0)


def test_the_target_is_that_of_each_run():
    """Rows with few steps left raise the rate and the target alike."""
    mixed = contracting(0.9721, target=0.9721) + contracting(0.9770, target=0.9770)
    assert value(measures.contraction_at_the_end, mixed) == 0
    assert not measures.contracts_above(mixed, 0)


def test_improvement_counts_pairs_of_runs():
    ours, theirs = finals(1, 3), finals(2, 3, 0)
    # 1 wins 1 of 3; 3 wins 2 and ties 1
    assert value(measures.improvement, ours, theirs) == pytest.approx(3.5 / 6)
    assert value(measures.improvement, theirs, ours) == pytest.approx(2.5 / 6)
    assert value(measures.improvement, ours, ours) == 0.5
    assert value(measures.improvement, finals(4, 5), ours) == 1.0


def test_levels_are_of_the_agents_mean_curves():
    """The running maximum of the mean."""
    ours, theirs = [run(0, 8, 2, 2), run(0, 0, 8, 2)], [run(0, 0, 2, 3)] * 2
    assert measures.common_level([ours, theirs]) == 3.0
    assert measures.common_level([theirs, ours]) == 3.0
    assert measures.their_level([ours, theirs]) == 3.0
    assert measures.their_level([theirs, ours]) == 5.0


def test_ahead_throughout_is_ahead_of_the_last_at_every_frame_after_the_first_tenth():
    long = functools.partial(run, frames=(5, 40, 70, 100))
    ours, first = [long(0, 5, 6, 7), long(0, 3, 6, 7)], [long(0, 3, 4, 8)]  # means 0 4 6 7 and 0 3 4 8
    assert value(measures.led_throughout, ours, first, [long(9, 2, 3, 6)]) == 1  # 9 before a tenth of training
    assert value(measures.led_throughout, ours, first, [long(9, 2, 3, 7)]) == 0.5  # the same end as ours
    assert value(measures.led_throughout, ours, first, [long(0, 3.5, 3, 6)]) == 0  # above the first at one frame
    assert value(measures.led_throughout, ours, [long(0, 3.5, 3, 6)]) == 1


def test_a_gap_widens_where_the_lead_is_larger_with_the_change():
    """A lead of 3 that was 2, and of -1 that was -2."""
    before = finals(10, 14), finals(10)
    assert value(measures.gap_widened, finals(5, 9), finals(4), *before) == 1
    assert value(measures.gap_widened, finals(6), finals(4), *before) == 0.5  # the same lead
    assert value(measures.gap_widened, finals(0.3), finals(0.1), finals(0.2), finals(0)) == 0.5  # but for rounding
    assert value(measures.gap_widened, finals(0), finals(1), finals(1), finals(3)) == 1
    assert value(measures.gap_widened, finals(0), finals(3), finals(1), finals(3)) == 0


def test_the_last_is_surpassed_where_any_mean_evaluation_is_above_its_own():
    below, tied, above, last = finals(1, 5), finals(3, 5), finals(9, 1), finals(4, 4)
    assert value(measures.last_surpassed, below, above, last) == 1
    assert value(measures.last_surpassed, below, tied, last) == 0.5
    assert value(measures.last_surpassed, below, last) == 0
    assert value(measures.last_surpassed, above, below, finals(20, 0)) == 0


def test_places_are_of_mean_evaluations():
    ours, better, worse = finals(1, 5), finals(4, 4), finals(20, -20)
    assert value(measures.place, ours, better, worse) == 2
    assert value(measures.won, ours, better, worse) == 0
    assert (value(measures.place, better, ours, worse), value(measures.won, better, ours, worse)) == (1, 1)
    tied = finals(3, 3, 3)
    assert (value(measures.place, ours, better, tied), value(measures.won, ours, tied)) == (2.5, 0.5)
    assert value(measures.won, ours, better, tied) == 0


def test_gains_are_over_the_first_one():
    first, second, third, ours = finals(1, 3), finals(5, 7), finals(8, 8), finals(8, 10)
    assert value(measures.ratio_of_gains, ours, first, second, third) == 1 / 4
    assert value(measures.ratio_of_gains, third, first, second, ours) == -1 / 4  # the last replay does harm
    assert value(measures.ratio_of_gains, ours, second, first, third) == measures.RATIO_CAP
    assert value(measures.ratio_of_gains, ours, second, second, third) == measures.RATIO_CAP


def sampled_runs(*pairs):
    """Runs that sampled the first of each pair and ended with the second."""
    return [run(final=score) | {"sampled_hparams": {"delta": sampled}} for sampled, score in pairs]


@pytest.mark.parametrize(
    "pairs",
    [
        [(1.0, 5.0), (2.0, 9.0), (3.0, 7.0), (9.0, 8.0)],
        [(1.0, 5.0), (1.0, 9.0), (3.0, 9.0), (2.0, 1.0), (2.0, 9.0)],  # equal ranks in both
    ],
)
def test_rank_correlation_is_scipy_s(pairs):
    expected = scipy.stats.spearmanr(*zip(*pairs)).statistic
    assert value(RANK_CORRELATION, sampled_runs(*pairs)) == pytest.approx(expected, abs=1e-12)


def test_rank_correlation_is_zero_without_an_order():
    assert value(RANK_CORRELATION, sampled_runs((1, 4), (2, 4), (3, 4))) == 0
    assert value(RANK_CORRELATION, sampled_runs((0.1, 4), (0.1, 5), (0.1, 6))) == 0


def test_the_interval_of_a_rank_correlation_is_that_of_scipy_s_paired_bootstrap():
    pairs = np.random.default_rng(2).normal(size=(30, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
    claim = claim_kinds.Claim(RANK_CORRELATION, lambda numbers: numbers.mean(axis=0))
    found = claim_intervals.bootstrap_interval(claim, [[sampled_runs(*pairs)]], np.random.default_rng(0))
    expected = scipy.stats.bootstrap(
        (pairs[:, 0], pairs[:, 1]), lambda x, y: scipy.stats.spearmanr(x, y).statistic, paired=True, vectorized=False,
        n_resamples=3000, confidence_level=statistics.expanded_level(0.95, 30, 29), method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert found == pytest.approx((expected.low, expected.high), abs=0.03)


def test_weights_of_a_rank_correlation_stand_for_resampled_runs():
    pairs = [(1.0, 5.0), (2.0, 9.0), (3.0, 7.0), (9.0, 8.0)]
    sampled = [(0, 0, 1, 2), (3, 3, 1, 2), (1, 1, 1, 1)]
    shares = np.array([np.bincount(picks, minlength=4) / 4 for picks in sampled])
    together = RANK_CORRELATION([sampled_runs(*pairs)])([shares])
    one = [scipy.stats.spearmanr(*zip(*(pairs[i] for i in picks))).statistic for picks in sampled[:2]]
    np.testing.assert_allclose(together, [*one, 0.0], atol=1e-12)


def searched(*scores, untrained=0.0):
    """Runs that began at a score and ended with these."""
    return [run(untrained, score, frames=FRAMES[:2], final=score) for score in scores]


def test_a_setting_is_near_the_best_with_half_of_the_gain_of_five():
    best = (80.0, 90.0, 100.0, 110.0, 120.0)  # mean 100
    assert value(measures.near_best, searched(*best, 50.0, 49.9, 0.0)) == pytest.approx(6 / 8)
    assert value(measures.near_best, searched(*best, 50.0, 49.9, 0.0, untrained=-100.0)) == 1.0
    assert value(measures.near_best, searched(*best, 60.0, 59.9, 0.0, untrained=20.0)) == pytest.approx(6 / 8)
    mixed = searched(*best, 60.0, untrained=10.0) + searched(59.9, 0.0, untrained=50.0)  # untrained: 20 on average
    assert value(measures.near_best, mixed) == pytest.approx(6 / 8)


def test_weights_of_settings_near_the_best_stand_for_resampled_runs():
    scores = np.random.default_rng(3).exponential(size=8)
    sampled = np.random.default_rng(4).integers(8, size=(5, 8))
    shares = np.stack([np.bincount(picks, minlength=8) / 8 for picks in sampled])
    together = measures.near_best([searched(*scores)])([shares])
    np.testing.assert_allclose(together, [value(measures.near_best, searched(*scores[picks])) for picks in sampled])


@pytest.mark.parametrize(
    "name",
    [
        "improvement",
        "ratio_of_frames",
        "ratio_of_seconds",
        "distance",
        "contraction_at_the_end",
        "contraction_throughout",
        "contraction_difference",
        "won",
        "place",
        "trend",
    ],
)
def test_weights_stand_for_resampled_runs(name):
    """Weights (2/3, 1/3, 0) give what the runs 1, 1, 2 give."""
    rng = np.random.default_rng(5)
    sides = []
    for _ in range(2):
        side = [run(*np.cumsum(rng.random(4)), pace=rng.random()) for _ in range(3)]
        for item in side:
            item["series"]["columns"] += ["kl", "contraction", "contraction_target"]
            item["series"]["rows"] = [[*row, *rng.random(3)] for row in item["series"]["rows"]]
            item["evaluation"]["mean"] = rng.random()
        sides.append(side)
    of_task = getattr(measures, name)
    sampled = [([0, 0, 1], [2, 1, 1]), ([2, 2, 2], [0, 1, 2]), ([1, 0, 2], [1, 1, 1])]
    shares = [np.array([np.bincount(pair[i], minlength=3) / 3 for pair in sampled]) for i in range(2)]
    together = of_task(sides)(shares)
    assert together.shape == (3,)
    one = [value(of_task, *([side[j] for j in picks] for side, picks in zip(sides, pair))) for pair in sampled]
    np.testing.assert_allclose(together, one, rtol=1e-12)


def test_weights_of_a_speed_are_of_its_pairs():
    """The level stays that of all runs."""
    ours, theirs = [run(0, 6, 6, 6), run(0, 0, 0, 6)], [run(0, 0, 8, 8), run(0, 0, 0, 8)]
    shares = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_array_equal(measures.frames_to_level([ours, theirs])(shares), [1, 0, 0.25])
