"""Final returns of a sweep: sorted, only of agents that sample their settings, and on the page."""

import re

import numpy as np

from repro.report import page, stability
from tests.evidence.synthetic_records import make_record, write


def _record(seed, mean, agent="impala", scale="paper"):
    """Only at scale `paper` a seed samples its settings."""
    return make_record(seed, "pong", "dmlab_figure5", agent, mean, scale=scale)


def _mean(record):
    return record["evaluation"]["mean"]


def test_returns_are_sorted_from_high_to_low_whatever_the_seeds():
    low, lowest, high = (_record(seed, mean) for seed, mean in ((1, 2.0), (2, -10.0), (3, 17.5)))
    assert stability.sort_returns([low, lowest, high]).tolist() == [_mean(high), _mean(low), _mean(lowest)]


def test_only_several_settings_of_a_sweep_are_shown():
    assert stability.has_settings([_record(1, 2.0), _record(2, 3.0)])
    assert not stability.has_settings([_record(1, 2.0)])
    assert not stability.has_settings([_record(1, 2.0), _record(2, 3.0, scale="desk")])
    assert not stability.has_settings([make_record(1, "pong"), make_record(2, "pong")])


def test_each_agent_is_a_line_over_the_ranks():
    returns = {"impala": (0, np.array([7.5, 2.0, -1.0])), "a3c": (2, np.array([3.0, 1.0]))}
    figure = stability.plot_stability(returns, "game score")
    (axes,) = figure.axes
    lines = {line.get_gid(): line.get_xydata().tolist() for line in axes.lines}
    assert lines == {"impala": [[1, 7.5], [2, 2.0], [3, -1.0]], "a3c": [[1, 3.0], [2, 1.0]]}
    assert len({line.get_color() for line in axes.lines}) == 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["impala", "a3c"]


def test_the_words_name_the_best_the_median_and_the_worst():
    text = stability.describe({"impala": (0, np.array([7.5, 2.0, -1.0]))}, "lt_chasm")
    assert text.endswith("from high to low. impala: 3 combinations, 7.5 to -1, median 2.")


def test_the_page_shows_the_agents_of_a_sweep_together(tmp_path):
    for seed in (1, 2, 3):
        for agent, mean in (("impala", 15.0 - seed), ("a3c", 10.0 - seed)):
            write(tmp_path / "results", _record(seed, mean, agent))
        write(tmp_path / "results", make_record(seed, "pong"))
    text = page.write_report(tmp_path / "report", tmp_path / "results").read_text()
    (shown,) = re.findall(r"Final returns on pong by hyper-parameter combination[^\"]*", text)
    assert "a3c: 3 combinations" in shown
    assert "impala: 3 combinations" in shown
    assert "the final returns are sorted from high to low" in text
    assert len(list((tmp_path / "report").rglob("impala-dmlab_figure5-pong-stability.svg"))) == 1
