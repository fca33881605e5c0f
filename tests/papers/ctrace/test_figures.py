"""The figures of the tabular study: scales, legends, bands, and that committed ones are of the committed records."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from paper_configs.ctrace import tabular_fig1, tabular_fig5, tabular_fig6
from repro.papers.ctrace import figures, replot
from repro.training.study import Study

TRADEOFFS = {"tabular_fig1": "linear"} | {f"tabular_fig{i}": "symlog" for i in (5, 6, 7, 8)}
"""Scale of the variance axes of each figure."""
PANELS_18 = ("tabular_fig6", "tabular_fig7", "tabular_fig8")
"""Figures of six problems, which take long to write."""


@pytest.fixture(scope="module")
def plotted() -> dict[str, Figure]:
    """Each figure, plotted from its committed records."""
    return {folder.name: replot.plot(folder) for folder in replot.experiments()}


def axes_of(figure: Figure, quantity: int) -> list[Axis]:
    several = len(figure.axes) > len(figures.PANELS)
    columns = len(figure.axes) // len(figures.PANELS) if several else 1
    found = []
    for i, axes in enumerate(figure.axes):
        x, y, _ = figures.PANELS[i // columns]
        found += [axis for axis, shown in ((axes.xaxis, x), (axes.yaxis, y)) if shown == quantity]
    return found


def with_numbered_ids(path_svg: Path) -> str:
    """A figure with its identifiers numbered as they appear: they are hashes of coordinates before rounding."""
    text = path_svg.read_text()
    numbers = {name: f"id{i}" for i, name in enumerate(dict.fromkeys(re.findall(r"\b[a-z][0-9a-f]{10}\b", text)))}
    return re.sub(r"\b[a-z][0-9a-f]{10}\b", lambda found: numbers[found[0]], text)


def row(family: int, parameter: float, variance: float) -> list[float]:
    return [family, parameter, 0.5, 1.0, variance]


@pytest.mark.parametrize("name", TRADEOFFS)
def test_all_variance_axes_of_a_figure_have_one_scale_and_one_range(plotted, name):
    figure = plotted[name]
    variances = axes_of(figure, figures.VARIANCE)
    assert len(variances) == 2 * len(figure.axes) / 3
    assert {axis.get_scale() for axis in variances} == {TRADEOFFS[name]}
    limits = np.array([axis.get_view_interval() for axis in variances])
    np.testing.assert_array_equal(limits, np.broadcast_to(limits[0], limits.shape))
    shown = np.concatenate([points.get_offsets() for axes in figure.axes for points in axes.collections])
    assert np.isfinite(shown).all()
    for axes in figure.axes:
        for points in axes.collections:
            x, y = np.asarray(points.get_offsets()).T
            assert axes.get_xlim()[0] < x.min() <= x.max() < axes.get_xlim()[1]
            assert axes.get_ylim()[0] < y.min() <= y.max() < axes.get_ylim()[1]
    labels = {axis.get_label_text() for axis in variances} - {""}
    assert labels == {"variance" if TRADEOFFS[name] == "linear" else "variance (log scale)"}


@pytest.mark.parametrize("name", PANELS_18)
def test_contraction_rates_of_a_figure_have_one_range_and_biases_that_of_their_problem(plotted, name):
    rates = np.array([axis.get_view_interval() for axis in axes_of(plotted[name], figures.CONTRACTION)])
    np.testing.assert_array_equal(rates[:6], np.broadcast_to(rates[0], (6, 2)))
    np.testing.assert_allclose(rates[6:], rates[:6])
    biases = axes_of(plotted[name], figures.BIAS)
    assert {axis.get_scale() for axis in biases} == {"linear"}
    assert len({axis.get_view_interval()[1] for axis in biases}) > 1


@pytest.mark.parametrize(("largest", "scale"), [(2.9, "linear"), (3.1, "symlog")])
def test_the_variances_of_all_problems_of_a_figure_decide_on_its_scale(largest, scale):
    """Those of a problem differ by a factor of 10 at most, those of the figure by 29 or 31; zeros do not count."""
    config = tabular_fig6.get_config("smoke")
    points = {
        "a": [row(2, 1.0, 0.1), row(1, 1, 0.0), row(0, 2, 0.7)],
        "b": [row(2, 1.0, 0.4), row(1, 1, 0.0), row(0, 2, largest)],
    }
    figure = figures.plot_tradeoffs(config, points)
    variances = axes_of(figure, figures.VARIANCE)
    assert [axis.get_scale() for axis in variances] == 4 * [scale]
    if scale == "symlog":
        assert {axis.get_transform().linthresh for axis in variances} == {0.1}
        assert {str(axis.get_major_formatter()(0.1)) for axis in variances} == {"0.1"}


@pytest.mark.parametrize("name", TRADEOFFS)
def test_a_logarithmic_axis_is_linear_only_below_the_smallest_positive_variance(plotted, name):
    shown = np.concatenate([points.get_offsets()[:, 0] for points in plotted[name].axes[-1].collections])
    (legend,) = plotted[name].legends
    caption = legend.get_title().get_text()
    if TRADEOFFS[name] == "linear":
        assert "axes of variance: one range, linear" in caption
        return
    (start,) = {axis.get_transform().linthresh for axis in axes_of(plotted[name], figures.VARIANCE)}
    assert f"axes of variance: one range, logarithmic from {start:g} on; linear below" in caption
    assert not np.any((shown > 0) & (shown < start))
    assert np.any(shown == 0)


def test_the_legend_says_which_points_are_plotted_and_that_there_are_no_error_bars():
    points = {"b": [row(2, 1.0, 1.0), row(0, 1, 2.0)]}
    for module, steps in ((tabular_fig1, "n = 1 to 20"), (tabular_fig6, "n = 1 to 15, 20, 25, .. 50")):
        config = module.get_config("paper")
        shown = points if module is tabular_fig1 else dict.fromkeys("ab", points["b"])
        (legend,) = figures.plot_tradeoffs(config, shown).legends
        assert legend.get_texts()[0].get_text() == f"uncorrected, {steps}"
        caption = legend.get_title().get_text()
        assert "problem 0, no error bars" in caption
        assert "from 5000 trajectories" in caption
        assert "third of the points" in caption


def test_families_have_markers_of_their_own_in_plot_and_legend():
    config = tabular_fig5.get_config("smoke")
    points = {"b": [row(2, 1.0, 1.0), row(0, 1, 0.5), row(1, 1, 0.7), row(3, 1.0, 0.2)]}
    figure = figures.plot_tradeoffs(config, points)
    handles = figure.legends[0].legend_handles
    assert [handle.get_marker() for handle in handles] == [*figures.MARKERS, "o"]
    assert len({*figures.MARKERS}) == 4
    outlines = {path.vertices.tobytes() for marks in figure.axes[0].collections for path in marks.get_paths()}
    assert len(outlines) == 4


@pytest.mark.parametrize("name", ["tabular_fig3", "tabular_fig3_legend", "tabular_fig3_rounds", "tabular_fig3_visits"])
def test_learning_curves_say_what_their_bands_are(plotted, name):
    (legend,) = plotted[name].legends
    title = legend.get_title().get_text()
    assert title == "line: mean of 200 repetitions\nband: one standard error\nto each side (bootstrap)"
    lines = {(to_hex(line.get_color()), line.get_linestyle()) for line in legend.get_lines()}
    assert len(lines) == len(legend.get_texts()) == (13 if name == "tabular_fig3_legend" else 14)
    titles = [axes.get_title() for axes in plotted[name].axes]
    both = name in ("tabular_fig3", "tabular_fig3_visits")
    assert titles == (["Evaluation", "Control"] if both else ["Evaluation"])


def test_bands_reach_one_standard_error_to_each_side():
    mean, error = np.array([[5.0, 9.0], [4.0, 8.0]]), np.array([[0.5, 0.25], [1.0, 0.125]])
    panel = {"title": "t", "x_label": "x", "y_label": "y", "x": np.array([1, 10]), "labels": ["a", "b"]}
    figure = figures.plot_learning([panel | {"families": [0, 2], "mean": mean, "error": error}], repetitions=50)
    (axes,) = figure.axes
    for i, (line, band) in enumerate(zip(axes.lines, axes.collections, strict=True)):
        np.testing.assert_array_equal(line.get_ydata(), mean[:, i])
        (outline,) = band.get_paths()
        for x, middle, reach in zip(panel["x"], mean[:, i], error[:, i]):
            at = outline.vertices[outline.vertices[:, 0] == x, 1]
            assert (at.min(), at.max()) == (middle - reach, middle + reach)
    assert "mean of 50 repetitions" in figure.legends[0].get_title().get_text()


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(folder, marks=pytest.mark.slow if folder.name in PANELS_18 else ())
        for folder in replot.experiments()
    ],
    ids=lambda folder: folder.name,
)
def test_the_committed_figure_is_that_of_the_committed_records(plotted, folder: Path, tmp_path):
    """After a change of the plotting code `python -m repro.papers.ctrace.replot` makes it so."""
    Study({}, steps=0, figure=plotted[folder.name]).save_figure(tmp_path)
    assert with_numbered_ids(tmp_path / "figure.svg") == with_numbered_ids(folder / "figure.svg")
    images = [Image.open(place / "figure.png").convert("RGB") for place in (tmp_path, folder)]
    np.testing.assert_array_equal(*images)
    assert (folder / "figure.png").stat().st_size < 100_000
