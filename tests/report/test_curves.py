"""Learning curves: data prepared from records, and contents of the figures."""

import dataclasses
import re
import xml.etree.ElementTree

import numpy as np
import pytest

from repro.evidence import intervals
from repro.evidence.rows import make_rows
from repro.report import curves, figures
from tests.evidence.synthetic_records import make_groups, make_record
from tests.report.example_row import ROW


def _sampled(*made):
    """The plot of one agent beside its printed number, its axes and the texts of the legend."""
    (row,) = (r for r in make_rows(make_groups(made)) if r.seeds and r.statistic is None)
    plot = curves.make_plot([curves.make_curve(made, row)], made[0])
    figure = curves.plot_curves(plot, "title")
    return plot, figure.axes[0], [text.get_text() for text in figure.legends[0].get_texts()]


def _plot(made, timed=False):
    return curves.make_plot([curves.make_curve(made, None, timed)], made[0], timed)


def test_curve_has_a_line_a_seed_the_mean_and_both_references():
    plot, axes, texts = _sampled(*[make_record(seed, budget=40_000_000) for seed in (1, 2, 3)])
    lines = {line.get_gid() or line.get_label(): line for line in axes.lines}
    assert list(lines) == [
        "seed 1", "seed 2", "seed 3", "mean impala_shallow", "published impala_shallow", "random policy -20.7 (printed)"
    ]  # fmt: skip
    assert texts == ["impala_shallow, 3 seeds", "published 20.4 at 200M frames", "random policy -20.7 (printed)"]
    assert set(lines["published impala_shallow"].get_ydata()) == {20.4}
    assert set(lines["random policy -20.7 (printed)"].get_ydata()) == {-20.7}
    assert lines["published impala_shallow"].get_linestyle() == "--"
    assert lines["random policy -20.7 (printed)"].get_linestyle() == ":"
    assert len(axes.collections) == 1  # the band
    assert axes.get_ylim() == plot.y_range
    assert plot.y_range[0] < -20.7 < 20.4 < plot.y_range[1]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("environment frames", "mean return, game score")
    assert axes.get_title(loc="left") == "title"


def test_a_random_score_that_is_not_printed_is_said_to_be_measured():
    """As ours on a task that no table of random scores has."""
    measured = curves.make_curve([make_record(1)], dataclasses.replace(ROW, random=1.364))
    assert measured.random_label == "random policy 1.364 (measured)"


def test_agents_of_a_task_share_the_axes():
    made = {agent: [make_record(seed, agent=agent, final=final) for seed in (1, 2)]
            for agent, final in (("slow", 5.0), ("fast", 15.0))}  # fmt: skip
    made["once"] = [make_record(1, agent="once", final=0.0, scale="paper")]
    plotted = [curves.make_curve(runs, None, index=i) for i, runs in enumerate(made.values())]
    figure = curves.plot_curves(curves.make_plot(plotted, made["once"][0]))
    (axes,) = figure.axes
    assert [line.get_gid() for line in axes.lines] == ["mean slow", "mean fast", "seed 1"]
    assert [line.get_color() for line in axes.lines] == list(figures.COLORS[:3])
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["slow, 2 seeds, desk scale", "fast, 2 seeds, desk scale", "once, 1 seed, paper scale"]
    assert figure.legends[0].get_title().get_text() == "mean over seeds, band: lowest to highest seed"
    assert axes.get_xlim() == (0, 200_000_000)  # the longest


def test_each_agent_has_its_own_published_number():
    made = [make_record(1, budget=40_000_000)]
    (row,) = (r for r in make_rows(make_groups(made)) if r.seeds and r.statistic is None)
    plotted = [curves.make_curve(made, row), curves.make_curve([make_record(1, agent="own")], None, index=1)]
    figure = curves.plot_curves(curves.make_plot(plotted, made[0]))
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "published 20.4 at 200M frames (impala_shallow)" in texts


def test_lines_stay_inside_the_axes():
    _, axes, _ = _sampled(make_record(1, final=18.0))
    (line,) = (line for line in axes.lines if line.get_gid() == "seed 1")
    points = line.get_xydata()
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert (points.min(axis=0) >= (left, low)).all()
    assert (points.max(axis=0) <= (right, high)).all()
    assert points[-1, 0] == right
    assert len(points) <= curves.MAX_POINTS


def test_a_seed_that_is_not_drawn_leaves_the_axes_to_what_is():
    """Beside other agents the mean and its band stand for the seeds, one of which may lie far outside."""
    made = [make_record(seed, final=10.0) for seed in range(1, 4)]
    curve = curves.make_curve(made, None)
    outlier = dataclasses.replace(curve, lines=curve.lines | {4: np.array([[0.0, -1000.0], [curve.end, 10.0]])})
    own = curves.make_curve([make_record(1, agent="own")], None, index=1)
    assert curves.make_plot([outlier, own], made[0]).y_range == curves.make_plot([curve, own], made[0]).y_range
    assert curves.make_plot([outlier], made[0]).y_range[0] < -1000.0


def test_published_number_far_away_is_named_and_not_plotted():
    plot, axes, texts = _sampled(make_record(1, "breakout", final=10.0))
    assert list(plot.on_scale) == [False]
    assert plot.y_range[1] < 20
    assert "published impala_shallow" not in [line.get_gid() for line in axes.lines]
    assert "\u2191 published 640.43 at 200M frames, off scale" in texts


def test_curve_without_any_finished_game_still_plots():
    plot, axes, _ = _sampled(make_record(1, curve=[]))
    assert not [line for line in axes.lines if line.get_gid() == "seed 1"]
    assert plot.x_end > 0


def test_mean_line_is_the_mean_where_all_seeds_have_data():
    made = [make_record(1, curve=[[0, 0.0], [100, 10.0]]), make_record(2, curve=[[0, 2.0], [50, 7.0]])]
    mean = curves.make_curve(made, None).mean
    assert (mean[0, 0], mean[-1, 0]) == (0, 50)
    np.testing.assert_allclose(mean[:, 1], 1 + mean[:, 0] / 10)


def test_the_band_is_an_interval_from_four_seeds_on_and_the_seeds_range_before():
    made = [make_record(i, curve=[[0, 0.0], [100, 1.0 * i * i]]) for i in range(1, 5)]
    few, many = curves.make_curve(made[:3], None), curves.make_curve(made, None)
    np.testing.assert_allclose(few.band[-1], [1.0, 9.0])
    np.testing.assert_allclose(many.band[-1], intervals.mean_interval([1.0, 4.0, 9.0, 16.0]))
    shown = [curves.make_plot(item, made[0]).over_seeds for item in ([few], [many], [few, many])]
    assert shown == [
        "mean over seeds, band: lowest to highest seed",
        "mean over seeds, band: 95 % interval of the mean",
        "mean over seeds, band: 95 % interval of the mean,\nof fewer than 4 seeds lowest to highest seed",
    ]


def _windowed(seed, slope, frames=1000, window=200):
    """A curve that rises by `slope` a window, logged ten times in each."""
    curve = [[20 * i, slope * 0.1 * i] for i in range(1, frames // 20 + 1)]
    return make_record(seed, curve=curve, budget=frames, config={"window_steps": window, "num_env_steps": frames})


def test_a_run_that_diverged_keeps_its_last_score_to_the_end_of_the_others():
    made = [make_record(seed) for seed in (1, 2)]
    made[0]["curve"] = [[0, 0.0], [100, 4.0]]
    made[1]["curve"] = [[0, 0.0], [100, 4.0], [300, 8.0]]
    assert curves.make_curve(made, None).mean[-1].tolist() == [100, 4]
    made[0]["diverged"] = "update 7 gave loss=nan"
    curve = curves.make_curve(made, None)
    assert curve.lines[1].tolist() == [[0, 0], [100, 4], [300, 4]]
    assert curve.mean[-1].tolist() == [300, 6]
    assert curves.make_curve(made[:1], None).lines[1].tolist() == [[0, 0], [100, 4]]


def test_windows_have_the_mean_and_the_percentiles_of_the_seeds():
    made = [_windowed(seed, slope) for seed, slope in ((1, 1.0), (2, 2.0), (3, 3.0), (4, 6.0))]
    curve, plot = curves.make_curve(made, None), _plot(made)
    np.testing.assert_allclose(curve.mean[:, 0], [100, 300, 500, 700, 900])
    per_window = 0.55 + np.arange(5)  # mean of 0.1 to 1, of 1.1 to 2, ...
    np.testing.assert_allclose(curve.mean[:, 1], 3 * per_window)
    # of 1, 2, 3, 6 the 20th percentile lies 0.6 of the way from 1 to 2, the 80th 0.4 of that from 3 to 6
    np.testing.assert_allclose(curve.band, np.outer(per_window, [1.6, 4.2]))
    assert plot.over_seeds == "mean over seeds in windows of 200 steps,\nband: 20th to 80th percentile over seeds"
    assert plot.y_label == "mean return, game score"


def test_the_band_of_windows_of_few_seeds_is_their_range():
    made = [_windowed(seed, 1.0 * seed) for seed in (1, 2, 3, 4)]
    few, many = curves.make_curve(made[:3], None), curves.make_curve(made, None)
    np.testing.assert_allclose(few.band, np.outer(0.55 + np.arange(5), [1.0, 3.0]))
    assert [curves.make_plot(item, made[0]).over_seeds.partition("\n")[2] for item in ([few], [few, many])] == [
        "band: lowest to highest seed",
        "band: 20th to 80th percentile over seeds,\nof fewer than 4 seeds lowest to highest seed",
    ]


def test_a_single_seed_is_in_windows_as_those_beside_it_are():
    curve = curves.make_curve([_windowed(1, 2.0)], None)
    np.testing.assert_allclose(curve.mean, np.c_[100 + 200 * np.arange(5), 2 * (0.55 + np.arange(5))])
    several = [_windowed(seed, 1.0) for seed in (1, 2)]
    beside = curves.make_plot([curves.make_curve(several, None), curve], several[0])
    (axes,) = curves.plot_curves(beside).axes
    assert len(axes.lines) == 2
    assert axes.lines[1].get_xdata().tolist() == [100, 300, 500, 700, 900]
    assert beside.over_seeds == "mean over seeds in windows of 200 steps,\nband: lowest to highest seed"
    assert _plot([_windowed(1, 1.0)]).over_seeds == "mean in windows of 200 steps"


def test_only_whole_windows_that_all_seeds_have_count():
    short = _windowed(2, 1.0, frames=890)
    assert curves.make_curve([_windowed(1, 1.0), short], None).mean[-1, 0] == 700
    late = _windowed(2, 1.0) | {"curve": [[450, 1.0], [1000, 2.0]]}  # no game had ended before
    assert curves.make_curve([_windowed(1, 1.0), late], None).mean[:, 0].tolist() == [500, 900]


def test_without_two_whole_windows_the_curve_is_as_without_any():
    made = [_windowed(seed, 1.0, window=600) for seed in (1, 2)]
    curve = curves.make_curve(made, None)
    assert (curve.window, len(curve.mean)) == (None, curves.MAX_POINTS)
    assert _plot(made).over_seeds == "mean over seeds, band: lowest to highest seed"


def _timed(seed, pace, **changes):
    """A record of 1 000 frames at `pace` seconds a frame, logged at the start, in the middle and at the end."""
    curve = [[200, 2.0 * seed], [600, 6.0 * seed], [1000, 10.0 * seed]]
    series = {"columns": ["num_env_frames", "seconds"], "rows": [[x, pace * x] for x in (0, 500, 1000)]}
    return make_record(seed, **{"curve": curve, "series": series, "budget": 1000} | changes)


def test_a_curve_against_wall_time_has_the_seconds_of_the_log():
    made = [_timed(1, 6.0), _timed(2, 12.0)]
    plot = _plot(made, timed=True)
    (curve,) = plot.curves
    assert plot.x_label == "wall time of training, hours"
    np.testing.assert_allclose(curve.lines[1], [[1 / 3, 2.0], [1.0, 6.0], [5 / 3, 10.0]])
    np.testing.assert_allclose(curve.lines[2], [[2 / 3, 4.0], [2.0, 12.0], [10 / 3, 20.0]])
    assert plot.x_end == pytest.approx(10 / 3)
    # both have data from 2/3 to 5/3 hours, where the first stands at 6 t and the second at 6 t too
    assert (curve.mean[0, 0], curve.mean[-1, 0]) == pytest.approx((2 / 3, 5 / 3))
    np.testing.assert_allclose(curve.mean[:, 1], 6 * curve.mean[:, 0])
    by_frames = _plot(made)
    assert (by_frames.x_label, by_frames.x_end) == ("environment frames", 1000)
    assert by_frames.y_range == plot.y_range


@pytest.mark.parametrize(("pace", "unit"), [(7.2, "hours"), (7.1, "minutes"), (0.12, "minutes"), (0.11, "seconds")])
def test_wall_time_is_in_the_largest_unit_of_which_there_are_two(pace, unit):
    assert _plot([_timed(1, pace)], timed=True).x_label == f"wall time of training, {unit}"


def test_ticks_of_wall_time_are_not_rounded_to_whole_ones():
    svg = figures.svg_text(curves.plot_curves(_plot([_timed(1, 9.0)], timed=True)))
    texts = [element.text for element in xml.etree.ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert {"0.0", "0.5", "1.0", "1.5", "2.0", "2.5", "wall time of training, hours"} <= set(texts)


def test_windows_are_of_steps_and_not_of_time():
    config = {"window_steps": 200, "num_env_steps": 1000}
    made = [_timed(seed, 6.0, config=config) for seed in (1, 2)]
    assert curves.make_curve(made, None).window == 200
    assert curves.make_curve(made, None, timed=True).window is None


@pytest.mark.parametrize("change", [{"curve": []}, {"series": {"columns": ["num_env_frames"], "rows": [[1]]}}])
def test_all_runs_must_have_a_curve_and_times(change):
    assert curves.has_times([_timed(1, 6.0), _timed(2, 6.0)])
    assert not curves.has_times([_timed(1, 6.0), _timed(2, 6.0, **change)])


def test_ticks_of_frames_are_amounts():
    svg = figures.svg_text(curves.plot_curves(_plot([make_record(1, budget=40_000_000)])))
    assert {"0", "10M", "20M", "30M", "40M"} <= set(re.findall(">([^<]*)</text>", svg))


def test_text_and_grid_follow_the_dark_mode():
    svg = figures.svg_text(curves.plot_curves(_plot([make_record(1)])))
    assert svg == figures.svg_text(curves.plot_curves(_plot([make_record(1)])))
    assert "prefers-color-scheme:dark" in svg
    colors = set(re.findall("(?:fill|stroke): (#[0-9a-f]{6})", svg))
    assert colors == {figures.COLORS[0]}  # no other color is the same in both modes


def test_picture_is_written(tmp_path):
    made = [make_record(1), make_record(2)]
    for name in ("curve.png", "again.png"):
        figures.save_png(curves.plot_curves(_plot(made), "title"), tmp_path / name)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    assert (tmp_path / "curve.png").read_bytes() == (tmp_path / "again.png").read_bytes()
