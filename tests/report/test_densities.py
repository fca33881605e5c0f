"""Densities of contraction rates: against scipy, for rates without any density, and on the page."""

import re

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from repro.evidence import staleness
from repro.report import densities, figures, page
from tests.evidence.synthetic_records import make_record, write


def _logged(rates, seed=1, target=None, task="pong", agent="ctrace"):
    """A record of R2D2 whose log has these rates, and the rates aimed for."""
    columns = {"num_env_frames": range(len(rates)), "contraction": rates}
    if target is not None:
        columns["contraction_target"] = target
    series = {"columns": list(columns), "rows": [[float(x) for x in row] for row in zip(*columns.values())]}
    config = staleness.current_config("ctrace", "r2d2", "desk")
    return make_record(seed, task, "r2d2", agent, config=config, series=series) | {"paper": "ctrace"}


def _rates(seed, count=200, rate=0.97, spread=0.005):
    return rate + spread * np.random.default_rng(seed).standard_normal(count)


def _sampled(records):
    made = densities.make_densities(records)
    figure = densities.plot_densities({"ctrace": (0, made)})
    (axes,) = figure.axes
    return made, axes, [text.get_text() for text in figure.legends[0].get_texts()]


def _lines(axes, name):
    """The lines with this name, those of seeds with a number."""
    return {line.get_gid(): line for line in axes.lines if line.get_gid().startswith(name)}


def test_an_outline_is_the_sum_of_gaussians_over_the_rates():
    rates = np.array([0.95, 0.96, 0.965, 0.99])
    outline = densities.make_outline(rates)
    width = rates.std(ddof=1) * len(rates) ** -0.2  # Scott's rule
    expected = scipy.stats.norm.pdf(outline[:, :1], rates, width).mean(axis=1)
    np.testing.assert_allclose(outline[:, 1], expected, rtol=1e-9)
    assert outline[0, 0] == pytest.approx(0.95 - 3 * width)
    assert outline[-1, 0] == 1.0  # no rate is above


def test_the_area_under_an_outline_is_one():
    outline = densities.make_outline(_rates(1, rate=0.9))
    assert scipy.integrate.trapezoid(outline[:, 1], outline[:, 0]) == pytest.approx(1.0, abs=1e-3)
    assert outline[outline[:, 1].argmax(), 0] == pytest.approx(0.9, abs=2e-3)


def test_each_seed_is_an_outline_and_the_target_a_line():
    target = [0.5] * 180 + [0.972] * 20
    made, axes, texts = _sampled([_logged(_rates(seed), seed, target) for seed in (1, 2, 3)])
    assert (list(made.outlines), made.constants) == ([1, 2, 3], {})
    assert made.target == pytest.approx(0.972)  # of the last tenth of the log
    assert made.end == pytest.approx(np.mean([_rates(seed)[-20:].mean() for seed in (1, 2, 3)]))
    plotted = _lines(axes, "seed")
    assert list(plotted) == ["seed 1", "seed 2", "seed 3"]
    assert len(axes.collections) == 3  # filled
    corners = np.concatenate([line.get_xydata() for line in plotted.values()])
    (low, high), (foot, top) = axes.get_xlim(), axes.get_ylim()
    assert foot == 0
    assert top > corners[:, 1].max() > 0.9 * top
    assert low < corners[:, 0].min()
    assert corners[:, 0].max() < high
    (line,) = _lines(axes, "target").values()
    assert line.get_xdata() == pytest.approx([0.972, 0.972])
    assert line.get_linestyle() == "--"
    assert texts == ["ctrace", "mean target 0.9720"]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("density", "observed contraction rate, over all of training")


@pytest.mark.parametrize(
    "rates",
    [[0.99] * 30, [0.97], [0.0], [1.0], list(0.99 + 1e-7 * (np.arange(30) % 3)), list(np.float32([0.99, 0.99]))],
)
def test_rates_that_are_all_equal_are_a_plain_line(rates):
    made, axes, texts = _sampled([_logged(rates, target=[0.97] * len(rates))])
    assert (made.outlines, made.constants) == ({}, {1: pytest.approx(rates[0], abs=1e-6)})
    assert not axes.collections
    (line,) = _lines(axes, "seed 1").values()
    (from_x, foot), (to_x, top) = line.get_xydata()
    assert from_x == to_x == made.constants[1]
    assert (foot, top) == (0, 1)  # of the height of the axes
    assert texts[0] == "ctrace"
    assert len(_lines(axes, "target")) == 1


def test_a_line_that_is_the_target_stands_in_the_middle():
    made, axes, _ = _sampled([_logged([0.99] * 5, target=[0.99] * 5)])
    assert axes.get_xlim() == pytest.approx((0.985, 0.995))
    assert made.constants[1] == pytest.approx(np.mean(axes.get_xlim()))


def test_rounding_does_not_fill_the_axis():
    _, axes, _ = _sampled([_logged([0.9700] * 5, target=[0.9701] * 5)])
    assert axes.get_xlim() == pytest.approx((0.96505, 0.97505))
    _, wide, _ = _sampled([_logged([0.9] * 5, target=[0.95] * 5)])
    assert wide.get_xlim() == pytest.approx((0.898, 0.952))


def test_a_constant_seed_may_stand_beside_an_outline():
    made, axes, _ = _sampled([_logged([0.9] * 20, 1), _logged(_rates(2), 2)])
    assert (list(made.constants), list(made.outlines), made.target) == ([1], [2], None)
    assert list(_lines(axes, "seed")) == ["seed 1", "seed 2"]
    assert len(axes.collections) == 1
    assert not _lines(axes, "target")
    assert "target" not in densities.densities_title(made, "ctrace", "pong")


def test_agents_share_the_axes_and_differ_in_colour():
    by_agent = {
        "ctrace": (0, densities.make_densities([_logged(_rates(1), 1, [0.97] * 200)])),
        "n_step_5": (2, densities.make_densities([_logged([0.9] * 5, 1, [0.96] * 5, agent="n_step_5")])),
    }
    figure = densities.plot_densities(by_agent)
    (axes,) = figure.axes
    assert [line.get_color() for line in axes.lines] == [figures.COLORS[i] for i in (0, 0, 2, 2)]
    assert axes.get_xlim()[0] < 0.9
    assert "mean target 0.9600 (n_step_5)" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_target_is_not_plotted_where_a_seed_does_not_say_it():
    assert densities.make_densities([_logged(_rates(1), 1, [0.9] * 200), _logged(_rates(2), 2)]).target is None


def test_all_records_must_keep_their_rates():
    kept, none = _logged(_rates(1)), make_record(2)
    assert densities.has_rates([kept, kept])
    assert not densities.has_rates([kept, none])
    assert not densities.has_rates([_logged([])])


def test_the_title_says_the_numbers():
    made = densities.make_densities([_logged([0.98] * 9 + [0.96], target=[0.9] * 9 + [0.97])])
    assert densities.densities_title(made, "ctrace", "pong") == (
        "Densities of the observed contraction rates of ctrace on pong over training, 1 seed; mean at the end 0.9600, "
        "mean target 0.9700."
    )


def test_the_page_plots_rates_for_records_that_keep_them(tmp_path):
    for seed in (1, 2):
        write(tmp_path / "results", _logged(_rates(seed), seed, [0.97] * 200))
        write(tmp_path / "results", _logged([0.997] * 9, seed, [0.97] * 9, task="alien", agent="n_step_5"))
        write(tmp_path / "results", make_record(seed, "pong"))
    text = page.write_report(tmp_path / "report", tmp_path / "results").read_text()
    plotted = {path.name: path.read_text() for path in (tmp_path / "report/figures").glob("*-rates.svg")}
    assert set(plotted) == {"ctrace-r2d2-pong-rates.svg", "ctrace-r2d2-alien-rates.svg"}  # and none of IMPALA
    assert 'alt="Densities of the observed contraction rates of ctrace on pong' in text
    assert {"seed 1", "seed 2"} <= set(re.findall('id="([^"]*)"', plotted["ctrace-r2d2-pong-rates.svg"]))
    assert text.count("mean rate that C-trace aims for at the end") == 1  # of one paper
