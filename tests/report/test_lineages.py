"""The figure of a population and the line of descent."""

import re

import numpy as np

from repro.launch.lineage import Lineage, MemberRound
from repro.report import figures, lineages

BEGAN = MemberRound({"learning_rate": 1e-3}, 1, 9, 0.5, True, None, False, None, None, {"learning_rate": 1e-3})


def make_lineage():
    """Of three members 0 adopts 2 at the first comparison and 1 adopts 0 at the second, which then is the best."""
    parents = [(2, None, None), (None, 0, None), (None, None, None)]
    fitness = [(0.1, 0.2, 0.3), (0.5, 0.4, 0.3), (0.5, 0.9, 0.3)]
    rounds = [
        [
            BEGAN._replace(hparams={"learning_rate": 10.0 ** (r - i)}, fitness=fitness[r][i], parent=parents[r][i])
            for i in range(3)
        ]
        for r in range(3)
    ]
    return Lineage([{"learning_rate": 1e-3}] * 3, [1000, 2000, 3000], rounds)


def test_the_descent_goes_from_parent_to_parent():
    lineage = make_lineage()
    assert lineage.best == 1
    assert lineages.descent(lineage, 1) == [2, 0, 1]
    assert lineages.descent(lineage, 0) == [2, 0, 0]
    assert lineages.descent(lineage, 2) == [2, 2, 2]


def test_what_would_be_adopted_after_the_last_piece_is_no_descent():
    lineage = make_lineage()
    lineage.rounds[-1][2] = lineage.rounds[-1][2]._replace(parent=0)
    assert lineages.descent(lineage, 2) == [2, 2, 2]


def test_each_panel_has_the_members_and_the_descent_of_the_best():
    figure = lineages.plot_lineage(make_lineage(), "frames")
    members, fitness, rates = figure.axes
    assert [axes.get_title(loc="left") for axes in (fitness, rates)] == ["fitness", "learning_rate"]
    arrows = {(text.xyann, text.xy) for text in members.texts}
    assert arrows == {((1000, 2), (1000, 0)), ((2000, 0), (2000, 1))}
    lines = {line.get_gid(): line for line in (*fitness.lines, *rates.lines)}
    x, y = lines["learning_rate descent"].get_xydata().T
    assert x.tolist() == [0, 1000, 1000, 2000, 2000, 3000]
    np.testing.assert_allclose(y, np.repeat([1e-2, 1e1, 1e1], 2))
    assert lines["fitness 1"].get_ydata().tolist() == [0.2, 0.2, 0.4, 0.4, 0.9, 0.9]
    assert rates.get_yscale() == "log"
    assert rates.get_xlim() == (0, 3000)
    assert "environment frames of each member" in re.findall(">([^<]*)</text>", figures.svg_text(figure))


def test_a_population_without_a_fitness_has_a_figure(tmp_path):
    lineage = make_lineage()
    lineage.rounds[-1][:] = [member._replace(fitness=None) for member in lineage.rounds[-1]]
    assert lineages.write_figure(tmp_path, lineage, "steps").read_text().startswith("<?xml")
