"""Measures of single runs besides their evaluation, on hand-made logs and curves."""

import numpy as np
import pytest

from repro.evidence import run_measures


def _logged(**columns):
    rows = [list(row) for row in zip(*columns.values())]
    return {"series": {"columns": list(columns), "rows": rows}}


def test_start_and_end_are_tenths_of_the_rows():
    assert run_measures.start_and_end(np.arange(20.0)) == (0.5, 18.5)
    assert run_measures.start_and_end(np.arange(11.0)) == (0.5, 9.5)  # two rows: tenths are rounded up
    assert run_measures.start_and_end(np.array([4.0])) == (4.0, 4.0)


def test_divergences_are_of_the_kl_column():
    kl = [8.0, 4.0, *[100.0] * 16, 1.0, 2.0]
    record = _logged(num_env_frames=range(20), kl=kl, beta=[7.0] * 20)
    assert run_measures.divergences(record) == (6.0, 1.5)


def test_a_divergence_of_zero_still_has_a_logarithm():
    start, end = run_measures.divergences(_logged(num_env_frames=range(10), kl=[0.0] * 9 + [1.0]))
    assert (start, end) == (run_measures.MIN_DIVERGENCE, 1.0)


def test_contraction_rates_are_of_the_end_and_of_all_rows():
    rates = [0.9] * 16 + [0.99] * 2 + [0.95, 0.97]
    record = _logged(num_env_frames=range(20), contraction=rates, contraction_target=[0.5] * 20)
    assert run_measures.contraction_rates(record) == pytest.approx((0.96, 0.915))
    assert run_measures.contraction_rates(_logged(contraction=[0.9])) == (0.9, 0.9)


def test_contraction_is_compared_with_the_target_of_the_same_rows():
    rates, targets = [0.9] * 16 + [0.99] * 2 + [0.95, 0.97], [0.8] * 18 + [0.96, 0.97]
    record = _logged(num_env_frames=range(20), contraction=rates, contraction_target=targets)
    assert run_measures.contraction_excesses(record) == pytest.approx((-0.005, (16 * 0.1 + 2 * 0.19 - 0.01) / 20))
    met = _logged(contraction=[0.97206, 0.9715], contraction_target=[0.97206, 0.9715])
    assert run_measures.contraction_excesses(met) == (0.0, 0.0)


def test_what_comes_back_all_the_way_turns_back_and_what_only_rises_does_not():
    up, back = np.linspace(0.0, 1.0, 40), np.concatenate([np.linspace(0.0, 1.0, 20), np.linspace(1.0, 0.0, 20)])
    record = _logged(up=up, down=-up, still=0.99 + 0.0 * up, back=back, dip=-back, half=np.where(back < 0.5, back, 0.5))
    for name, share in {"up": 0.0, "down": 0.0, "still": 0.0, "back": 1.0, "dip": 1.0, "half": 1.0}.items():
        assert run_measures.turning_back(record, [name]) == pytest.approx(share), name
    assert run_measures.turning_back(record, ["up", "back"]) == pytest.approx(0.5)
    assert run_measures.turning_back(record, ["up", "down", "back"]) == 0.0  # one of three does not stand for most
    quarter = _logged(x=[0.0, 2.0, 4.0, 3.0])  # tenths without a row are none
    assert run_measures.turning_back(quarter, ["x"]) == pytest.approx(0.25)
    noise = np.random.default_rng(0).normal(size=400)
    assert run_measures.turning_back(_logged(x=np.linspace(0.0, 20.0, 400) + noise), ["x"]) == 0.0  # within tenths


def test_a_column_that_is_not_logged_is_none_or_an_error():
    assert run_measures.column({}, "kl") is None
    assert run_measures.column(_logged(num_env_frames=[1], beta=[1.0]), "kl") is None
    assert run_measures.column({"series": {"columns": ["num_env_frames", "kl"], "rows": []}}, "kl") is None
    with pytest.raises(ValueError, match="no column 'kl'"):
        run_measures.divergences({})
    with pytest.raises(ValueError, match="no column 'contraction'"):
        run_measures.contraction_rates(_logged(num_env_frames=[1], contraction_target=[0.9]))
    with pytest.raises(ValueError, match="no columns 'contraction' and 'contraction_target'"):
        run_measures.contraction_excesses(_logged(num_env_frames=[1], contraction=[0.9]))
    with pytest.raises(ValueError, match="'seconds'"):
        run_measures.seconds_at(_logged(num_env_frames=[1], kl=[1.0]), np.array([1.0]))


def test_first_reach_is_the_first_point_at_the_level():
    frames, scores = np.array([10.0, 20.0, 30.0, 40.0]), np.array([0.0, 5.0, 2.0, 9.0])
    reached = [float(run_measures.first_reach(frames, scores, level)) for level in (-1.0, 5.0, 5.1, 9.0, 9.1)]
    assert reached == [10.0, 20.0, 40.0, 40.0, np.inf]
    assert run_measures.first_reach(frames, scores - 5.0, 0.0) == 20.0


def test_first_reach_forgives_rounding_only():
    frames, scores = np.array([10.0, 20.0]), np.array([1.0, 3.0])
    assert run_measures.first_reach(frames, scores, 3.0 + 1e-12) == 20.0
    assert run_measures.first_reach(frames, scores, 3.0 + 1e-6) == np.inf
    assert run_measures.first_reach(frames, -scores, -1.0 + 1e-12) == 10.0  # below zero too


def test_first_reach_of_many_curves_has_a_level_for_each():
    scores = np.array([[0.0, 1.0], [2.0, 3.0]])
    np.testing.assert_array_equal(
        run_measures.first_reach(np.array([1.0, 2.0]), scores, np.array([1.0, 5.0])), [2, np.inf]
    )
    places = np.array([[1.0, 2.0], [7.0, 8.0]])
    np.testing.assert_array_equal(run_measures.first_reach(places, scores, np.array([1.0, 2.0])), [2, 7])


def test_curves_meet_where_all_of_them_are():
    runs = [{"curve": [[10, 0.0], [30, 2.0], [50, 4.0]]}, {"curve": [[20, 10.0], [40, 30.0]]}]
    frames, scores = run_measures.on_common_frames(runs)
    np.testing.assert_array_equal(frames, [20, 30, 40])
    np.testing.assert_allclose(scores, [[1, 2, 3], [10, 20, 30]])


def test_curves_that_do_not_overlap_still_have_a_common_frame():
    frames, scores = run_measures.on_common_frames([{"curve": [[10, 1.0]]}, {"curve": [[20, 2.0], [30, 3.0]]}])
    np.testing.assert_array_equal(frames, [10])
    np.testing.assert_array_equal(scores, [[1], [2]])


def test_a_run_that_diverged_keeps_its_last_score_and_ends_no_other_curve():
    early = {"curve": [[10, 1.0], [20, 5.0]], "diverged": "update 7 gave loss=nan"}
    frames, scores = run_measures.on_common_frames([early, {"curve": [[10, 0.0], [40, 3.0]]}])
    np.testing.assert_array_equal(frames, [10, 20, 40])
    np.testing.assert_allclose(scores, [[1, 5, 5], [0, 1, 3]])
    later = {"curve": [[10, 0.0], [30, 2.0]], "diverged": "update 9 gave loss=inf"}
    frames, scores = run_measures.on_common_frames([early, later])
    np.testing.assert_array_equal(frames, [10, 20, 30])
    np.testing.assert_allclose(scores, [[1, 5, 5], [0, 1, 2]])


def test_seconds_pass_evenly_between_rows():
    record = _logged(num_env_frames=[100, 200], seconds=[1.0, 5.0])
    np.testing.assert_allclose(run_measures.seconds_at(record, np.array([100.0, 150.0, 200.0])), [1, 3, 5])
    np.testing.assert_allclose(run_measures.seconds_at(record, np.array([400.0])), [10])  # after a divergence


@pytest.mark.parametrize(
    ("need", "held"),
    [
        ("curve", True),
        ("series.kl", True),
        ("series.seconds", False),
        ("sampled_hparams.delta", True),
        ("sampled_hparams.kl", False),
    ],
)
def test_a_need_is_a_curve_a_column_or_what_was_sampled(need, held):
    full = {"curve": [[1, 0.0]], "series": {"columns": ["kl"], "rows": [[0.1]]}, "sampled_hparams": {"delta": 1.0}}
    assert run_measures.holds(full, need) == held
    assert not run_measures.holds({"curve": []}, need)
