"""The log of games, read while another thread counts one."""

import math
import threading

import numpy as np
import pytest

from repro.acting.rollout import Episode
from repro.training.task_returns import TaskReturns
from repro.training.trailing_returns import TrailingReturns
from repro.training.trainer import EpisodeLog


class SlowScore(float):
    """A score whose addition to the sum of all lets another thread read the log first, if nothing makes it wait."""

    reader: threading.Thread

    def __radd__(self, other):
        self.reader.start()
        self.reader.join(0.3)
        return other + float(self)


def read_while_counting(read):
    """Returns the log, and what `read` finds in it from another thread while a game with the score 5 is counted."""
    log, found = EpisodeLog(TrailingReturns(100, "games of the last {} frames", "game score")), []
    score = SlowScore(5.0)
    score.reader = threading.Thread(target=lambda: found.append(read(log)))
    log.append(Episode(score, 40))
    score.reader.join()
    return log, found


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda log: log.collected, (1, [5.0])),
        (lambda log: log.evaluation(1)["returns"], [5.0]),
        (lambda log: log.get_state()["collected"].tolist(), [[1.0, 5.0]]),
        (lambda log: log.get_state()["window"].tolist(), [[0.0, 5.0]]),
    ],
)
def test_a_game_counts_everywhere_or_nowhere(read, expected):
    assert read_while_counting(read)[1] == [expected]


def test_a_game_is_cleared_whole():
    log, _ = read_while_counting(lambda log: log.clear_collected())
    np.testing.assert_equal(log.collected, (0, [math.nan]))
    np.testing.assert_array_equal(log.get_state()["collected"], [[0, 0]])


def test_a_log_without_a_window_has_no_evaluation():
    assert EpisodeLog().evaluation(1) is None


def test_means_are_computed_once_after_each_game(monkeypatch):
    tasks = TaskReturns(("x/a", "x/b"), {}, recent=2)
    log, calls, scalars = EpisodeLog(task_returns=tasks), [], tasks.scalars
    monkeypatch.setattr(tasks, "scalars", lambda: calls.append(log.games) or scalars())
    for game in range(3):
        for _ in range(3):
            assert log.mean_return() == pytest.approx(np.mean(range(game)) if game else np.nan, nan_ok=True)
            assert log.scalars() == pytest.approx(scalars(), nan_ok=True)
        log.append(Episode(float(game), 4, game % 2))
    assert calls == [0, 1, 2]
    state = log.get_state()
    other = EpisodeLog(task_returns=TaskReturns(("x/a", "x/b"), {}, recent=2))
    for _ in range(3):
        other.append(Episode(7.0, 4))
    assert other.mean_return() == 7.0
    other.set_state(state)
    assert other.mean_return() == pytest.approx((3 * 7.0 + 0 + 1 + 2) / 6)
