"""Metaparameters of self-tuning agents: a panel each, a line for each head, and their place on the page."""

import re

import numpy as np
import pytest

from repro.evidence import staleness
from repro.report import curves, figures, metaparameters, page
from tests.evidence.synthetic_records import make_record, write

STEP = 10_000
"""Frames between two rows of a log."""


def make_tuned(seed=1, agent="stacx", rows=200, heads=3, task="breakout", lacking=()):
    """A record of STAC whose metaparameters fall from 0.99, those of later heads and seeds faster."""
    config = staleness.current_config("stac", "atari", "desk")
    record = make_record(seed, task, "atari", agent, config=config, budget=rows * STEP) | {"paper": "stac"}
    names = [f"{name}_{head}" for name in record["config"]["meta"]["tuned"] for head in range(1, heads + 1)]
    slope = {name: seed * int(name[-1]) * (i + 1) * 1e-3 for i, name in enumerate(names) if name not in lacking}
    logged = [[STEP * t, *(0.99 - x * t / rows for x in slope.values()), 1.0] for t in range(1, rows + 1)]
    return record | {"series": {"columns": ["num_env_frames", *slope, "entropy"], "rows": logged}}


def _plotted(*made):
    heads = metaparameters.make_heads(made)
    return heads, metaparameters.plot_metaparameters(heads, made[0])


def test_every_metaparameter_has_a_panel_and_every_head_a_line():
    heads, figure = _plotted(make_tuned())
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["gamma", "lambda", "alpha", "g_v", "g_p", "g_e"] == list(heads)
    for axes, name in zip(figure.axes, titles):
        assert [line.get_gid() for line in axes.lines] == [f"{name} {i}" for i in (1, 2, 3)]
        assert [line.get_color() for line in axes.lines] == list(figures.COLORS[:3])
        assert axes.get_xlim() == (0, 200 * STEP)
        low, high = axes.get_ylim()
        assert all(low < y < high for line in axes.lines for y in line.get_ydata())
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["head 1", "head 2", "head 3"]
    assert figure.legends[0].get_title().get_text() == "stacx, 1 seed"
    svg = figures.svg_text(figure)
    assert {"environment frames", "2M"} <= set(re.findall(">([^<]*)</text>", svg))


def test_the_line_of_one_seed_is_as_logged_and_short_enough():
    heads, figure = _plotted(make_tuned(rows=500))
    (line, *_) = figure.axes[0].lines
    points = line.get_xydata()
    assert len(points) == curves.MAX_POINTS < 500
    assert points[[0, -1]].tolist() == [[STEP, pytest.approx(0.99 - 1e-3 / 500)], [500 * STEP, pytest.approx(0.989)]]
    np.testing.assert_allclose(points[:, 1], 0.99 - 1e-3 * points[:, 0] / (500 * STEP))
    assert not figure.axes[0].collections  # no band


def test_the_line_over_seeds_is_their_mean_with_a_band():
    heads, figure = _plotted(*[make_tuned(seed) for seed in (1, 2, 3)])
    x, mean = figure.axes[5].lines[2].get_xydata().T  # g_e of the third head, column 18
    np.testing.assert_allclose(mean, 0.99 - 3 * 18e-3 * 2 * x / (200 * STEP))
    band = heads["g_e"][2].band
    assert (band[:, 0] < mean).all()
    assert (mean < band[:, 1]).all()
    assert all(len(axes.collections) == 3 for axes in figure.axes)
    title = figure.legends[0].get_title().get_text()
    assert title == "stacx, 3 seeds\nmean over seeds, band: lowest to highest seed"


@pytest.mark.parametrize(
    ("agent", "heads", "panels"),
    [("stac_gamma", 1, 1), ("stac_no_alpha", 1, 5), ("stacx_two_alphas", 3, 7), ("stacx_heads_8", 8, 6)],
)
def test_the_lowest_panel_of_each_column_has_the_frames(agent, heads, panels):
    _, figure = _plotted(make_tuned(agent=agent, heads=heads))
    figure.draw_without_rendering()
    assert [len(axes.lines) for axes in figure.axes] == [heads] * panels
    labelled = [any(label.get_visible() for label in axes.get_xticklabels()) for axes in figure.axes]
    last = 2 if panels > 1 else 1
    assert labelled == [False] * (panels - last) + [True] * last
    assert [axes.get_xlabel() for axes in figure.axes[-last:]] == ["environment frames"] * last
    assert figure.legends[0].get_window_extent().y1 <= min(axes.get_tightbbox().y0 for axes in figure.axes)


def test_no_rounding_fills_an_axis():
    record = make_tuned()
    rows = [[row[0], *(0.99 + 1e-7 * (row[0] % 3) for _ in row[1:])] for row in record["series"]["rows"]]
    _, figure = _plotted(record | {"series": record["series"] | {"rows": rows}})
    low, high = figure.axes[0].get_ylim()
    assert high - low == pytest.approx(metaparameters.MIN_RANGE)
    figure.draw_without_rendering()
    assert figure.axes[0].yaxis.get_offset_text().get_text() == ""


def test_only_what_all_records_keep_is_plotted():
    assert metaparameters.make_heads([make_tuned(agent="impala", heads=1)]) == {}
    assert metaparameters.make_heads([make_record()]) == {}
    assert metaparameters.make_heads([make_tuned(), make_tuned(2) | {"series": {"columns": [], "rows": []}}]) == {}
    kept = metaparameters.make_heads([make_tuned(), make_tuned(2, lacking=("gamma_1", "g_e_3"))])
    assert {name: len(heads) for name, heads in kept.items()} == {
        "lambda": 3, "alpha": 3, "g_v": 3, "g_p": 3, "g_e": 2
    }  # fmt: skip


def test_an_agent_s_metaparameters_stand_with_its_runs(tmp_path):
    for seed in (1, 2):
        write(tmp_path / "results", make_tuned(seed))
    write(tmp_path / "results", make_tuned(agent="impala_aux"))
    text = page.write_report(tmp_path / "report", tmp_path / "results").read_text()
    (image,) = re.findall('<img class="metaparameters"[^>]*>', text)
    assert 'src="figures/stac-atari-breakout-stacx-metaparameters.svg"' in image
    assert (tmp_path / "report/figures/stac-atari-breakout-stacx-metaparameters.svg").is_file()
    section = re.search(r'<section class="runs" id="stac-atari-breakout-stacx".*?</section>', text, re.S)
    assert image in section[0]
    # the last 20 of 200 rows, of the mean of two seeds: 0.99 - 1.5 slope (0.905 + 1) / 2
    ends = [0.99 - 1.5 * head * (i + head) * 1e-3 * 1.905 / 2 for i in (0, 15) for head in (1, 2, 3)]
    alt = "Metaparameters of stacx on breakout over training, 2 seeds. At the end, of heads 1 to 3: "
    assert alt + "gamma {:.3f}, {:.3f}, {:.3f}; lambda ".format(*ends[:3]) in image
    assert "; g_e {:.3f}, {:.3f}, {:.3f}.".format(*ends[3:]) in image
    assert "Metaparameters are plotted after the sigmoid" in text
