"""Returns by task, and the score of all of them together."""

import math

import numpy as np
import pytest

from repro.acting.rollout import Episode
from repro.evidence import published
from repro.training.task_returns import TaskReturns, capped_score
from repro.training.trainer import EpisodeLog
from tests.environments.stepping import through_a_file

REFERENCES = {"a": {"random": 0.0, "human": 10.0}, "b": {"random": -20.0, "human": 20.0}}


def test_the_score_is_capped_above_and_not_below():
    """a: 25 of 10 counts as 1; b: (-30 + 20) / 40 = -0.25. Their mean is 0.375."""
    assert capped_score({"a": 25.0, "b": -30.0}, REFERENCES) == pytest.approx(37.5)
    assert capped_score({"a": 5.0, "b": 0.0}, REFERENCES) == pytest.approx(50.0)


def test_the_printed_scores_of_dmlab_30():
    """Table B.1 with a loop over its rows: 49.34 for IMPALA, 44.44 for experts."""
    references = published.normaliser("dmlab30")
    rows = [row for row in published.load("impala").rows if row.table == "B.1" and row.statistic is None]
    for column, printed in (("IMPALA", 49.34), ("Experts", 44.44)):
        returns = {row.task: row.value for row in rows if row.column == column}
        total = 0.0
        for task, value in returns.items():
            low, high = references[task]["random"], references[task]["human"]
            total += min(1.0, (value - low) / (high - low))
        assert capped_score(returns, references) == pytest.approx(100 * total / 30)
        assert capped_score(returns, references) == pytest.approx(printed, abs=0.0051)


def test_tasks_without_references_do_not_count_and_one_without_a_game_leaves_no_score():
    assert capped_score({"a": 5.0, "c": 1e6}, REFERENCES) == pytest.approx(50.0)
    assert math.isnan(capped_score({"a": 5.0, "b": math.nan}, REFERENCES))
    assert math.isnan(capped_score({"c": 1.0}, REFERENCES))


def test_means_are_of_each_task_s_last_games():
    log = TaskReturns(("a", "b"), REFERENCES, recent=2)
    for task, score in ((0, 100.0), (1, -20.0), (0, 4.0), (0, 6.0)):
        log.append(task, score)
    assert log.scalars() == pytest.approx({"capped_score": 25.0, "return/a": 5.0, "return/b": -20.0})
    swapped = TaskReturns(("b", "a"), REFERENCES, recent=2)
    swapped.append(0, 5.0)
    swapped.append(1, -20.0)
    assert swapped.means() == {"b": 5.0, "a": -20.0}


def test_a_log_goes_on_with_the_games_of_each_task():
    logs = [EpisodeLog(task_returns=TaskReturns(("x/a", "x/b", "x/c"), {}, recent=2)) for _ in range(2)]
    for i, score in enumerate((1.0, 2.0, 3.0, 5.0)):
        logs[0].append(Episode(score, 7, i % 2))
    logs[1].set_state(through_a_file(logs[0].get_state()))
    logs[1].append(Episode(9.0, 7, 1))
    assert logs[1].games == 5
    assert logs[1].mean_return() == 4.0
    np.testing.assert_equal(
        logs[1].scalars(), {"capped_score": math.nan, "return/x/a": 2.0, "return/x/b": 7.0, "return/x/c": math.nan}
    )
    np.testing.assert_equal(logs[1].collected, (5, [2.0, 16 / 3, math.nan]))
    logs[1].clear_collected()
    logs[1].append(Episode(8.0, 7, 2))
    np.testing.assert_equal(logs[1].collected, (1, [math.nan, math.nan, 8.0]))


def test_a_log_of_one_task_says_nothing_of_tasks():
    log = EpisodeLog()
    log.append(Episode(1.0, 7))
    assert log.scalars() == {}
    assert set(log.get_state()) == {"games", "recent", "collected"}
