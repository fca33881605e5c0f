"""Densities of contraction rates: against scipy, for rates without any density, and on the page."""

import xml.etree.ElementTree

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from repro.evidence import staleness
from repro.report import densities, page
from tests.evidence.synthetic_records import make_record, write


def _logged(rates, seed=1, target=None, task="pong", agent="ctrace"):
    """A record of R2D2 whose log has these rates, and the rates aimed for."""
    columns = {"frames": range(len(rates)), "contraction": rates}
    if target is not None:
        columns["contraction_target"] = target
    series = {"columns": list(columns), "rows": [[float(x) for x in row] for row in zip(*columns.values())]}
    config = staleness.current_config("ctrace", "r2d2", "desk")
    return make_record(seed, task, "r2d2", agent, config=config, series=series) | {"paper": "ctrace"}


def _rates(seed, count=200, rate=0.97, spread=0.005):
    return rate + spread * np.random.default_rng(seed).standard_normal(count)


def _drawn(records):
    made = densities.make_densities(records)
    return made, xml.etree.ElementTree.fromstring(densities.density_svg(made, 'title "quoted" & <b>'))


def _points(element):
    return np.array([[float(v) for v in point.split(",")] for point in element.get("points").split()])


def _of(svg, tag, kind):
    return [element for element in svg.iter(tag) if element.get("class") == kind]


def test_an_outline_is_the_sum_of_gaussians_over_the_rates():
    rates = np.array([0.95, 0.96, 0.965, 0.99])
    outline = densities.outline_of(rates)
    width = rates.std(ddof=1) * len(rates) ** -0.2  # Scott's rule
    expected = scipy.stats.norm.pdf(outline[:, :1], rates, width).mean(axis=1)
    np.testing.assert_allclose(outline[:, 1], expected, rtol=1e-9)
    assert outline[0, 0] == pytest.approx(0.95 - 3 * width)
    assert outline[-1, 0] == 1.0  # no rate is above


def test_the_area_under_an_outline_is_one():
    outline = densities.outline_of(_rates(1, rate=0.9))
    assert scipy.integrate.trapezoid(outline[:, 1], outline[:, 0]) == pytest.approx(1.0, abs=1e-3)
    assert outline[outline[:, 1].argmax(), 0] == pytest.approx(0.9, abs=2e-3)


def test_each_seed_is_an_outline_and_the_target_a_line():
    target = [0.5] * 180 + [0.972] * 20
    made, svg = _drawn([_logged(_rates(seed), seed, target) for seed in (1, 2, 3)])
    assert (list(made.outlines), made.constants) == ([1, 2, 3], {})
    assert made.target == pytest.approx(0.972)  # of the last tenth of the log
    assert made.end == pytest.approx(np.mean([_rates(seed)[-20:].mean() for seed in (1, 2, 3)]))
    drawn = _of(svg, "polygon", "density")
    assert [polygon.find("title").text for polygon in drawn] == ["seed 1", "seed 2", "seed 3"]
    corners = np.concatenate([_points(polygon) for polygon in drawn])
    foot = densities.HEIGHT - densities.BOTTOM
    assert corners[:, 1].min() == pytest.approx(densities.TOP, abs=0.1)
    assert corners[:, 1].max() == foot
    assert (corners[:, 0] > densities.LEFT).all()
    assert (corners[:, 0] < densities.WIDTH - densities.RIGHT).all()
    (line,) = _of(svg, "line", "target")
    low, high = made.x_range
    along = (float(line.get("x1")) - densities.LEFT) / (densities.WIDTH - densities.RIGHT - densities.LEFT)
    assert low + along * (high - low) == pytest.approx(0.972, abs=2e-4)
    assert line.get("x1") == line.get("x2")
    texts = [text.text for text in svg.iter("text")]
    assert {"density", "observed contraction rate, over all of training", "mean target of C-trace 0.9720"} <= set(texts)
    assert "0.98" in texts
    assert svg.get("aria-label") == 'title "quoted" & <b>'


@pytest.mark.parametrize(
    "rates",
    [[0.99] * 30, [0.97], [0.0], [1.0], list(0.99 + 1e-7 * (np.arange(30) % 3)), list(np.float32([0.99, 0.99]))],
)
def test_rates_that_are_all_equal_are_a_plain_line(rates):
    made, svg = _drawn([_logged(rates, target=[0.97] * len(rates))])
    assert (made.outlines, made.constants) == ({}, {1: pytest.approx(rates[0], abs=1e-6)})
    assert not _of(svg, "polygon", "density")
    (line,) = _of(svg, "polyline", "seed")
    assert line.find("title").text == f"seed 1, always {rates[0]:.4f}"
    (from_x, foot), (to_x, top) = _points(line)
    assert from_x == to_x
    assert (foot, top) == (densities.HEIGHT - densities.BOTTOM, densities.TOP)
    assert len(_of(svg, "line", "target")) == 1


def test_a_line_that_is_the_target_stands_in_the_middle():
    made, svg = _drawn([_logged([0.99] * 5, target=[0.99] * 5)])
    assert made.x_range == pytest.approx((0.985, 0.995))
    (line,) = _of(svg, "polyline", "seed")
    assert _points(line)[0, 0] == pytest.approx((densities.LEFT + densities.WIDTH - densities.RIGHT) / 2, abs=0.1)


def test_rounding_does_not_fill_the_axis():
    made, _ = _drawn([_logged([0.9700] * 5, target=[0.9701] * 5)])
    assert made.x_range == pytest.approx((0.96505, 0.97505))
    wide, _ = _drawn([_logged([0.9] * 5, target=[0.95] * 5)])
    assert wide.x_range == pytest.approx((0.898, 0.952))


def test_a_constant_seed_may_stand_beside_an_outline():
    made, svg = _drawn([_logged([0.9] * 20, 1), _logged(_rates(2), 2)])
    assert (list(made.constants), list(made.outlines), made.target) == ([1], [2], None)
    assert len(_of(svg, "polygon", "density")) == len(_of(svg, "polyline", "seed")) == 1
    assert not _of(svg, "line", "target")
    assert "target" not in densities.title_of(made, "ctrace", "pong")


def test_the_target_is_not_drawn_where_a_seed_does_not_say_it():
    assert densities.make_densities([_logged(_rates(1), 1, [0.9] * 200), _logged(_rates(2), 2)]).target is None


def test_all_records_must_keep_their_rates():
    kept, none = _logged(_rates(1)), make_record(2)
    assert densities.has_rates([kept, kept])
    assert not densities.has_rates([kept, none])
    assert not densities.has_rates([_logged([])])


def test_the_title_says_the_numbers():
    made = densities.make_densities([_logged([0.98] * 9 + [0.96], target=[0.9] * 9 + [0.97])])
    assert densities.title_of(made, "ctrace", "pong") == (
        "Densities of the observed contraction rates of ctrace on pong over training, 1 seed; mean at the end 0.9600, "
        "mean target of C-trace 0.9700."
    )


def test_the_page_draws_rates_for_records_that_keep_them(tmp_path):
    for seed in (1, 2):
        write(tmp_path / "results", _logged(_rates(seed), seed, [0.97] * 200))
        write(tmp_path / "results", _logged([0.997] * 9, seed, [0.97] * 9, task="alien", agent="n_step_5"))
        write(tmp_path / "results", make_record(seed, "pong"))
    text = page.write_report(tmp_path / "report", tmp_path / "results").read_text()
    cards = {card.split('"', 1)[0]: card for card in text.split('<article class="card" id="')[1:]}
    of_ctrace, of_n_step = cards["ctrace-r2d2-pong-ctrace"], cards["ctrace-r2d2-alien-n_step_5"]
    assert 'aria-label="Densities of the observed contraction rates of ctrace on pong' in of_ctrace
    assert of_ctrace.count('<polygon class="density"') == 2
    assert of_n_step.count("always 0.9970") == 2
    assert "contraction" not in cards["impala-atari_shallow-pong-impala_shallow"].split("<details")[0]
    assert text.count("mean rate that C-trace aims for at the end") == 1  # in the key of one paper
