"""The window of last episodes, against hand cases."""

import pytest

from repro.training.trailing_returns import BEFORE_LEARNING, NoEpisodeError, TrailingReturns


def _window():
    return TrailingReturns(100, "games of the last {} frames", "game score")


def test_only_episodes_of_the_window_count():
    window = _window()
    for step, score in ((10, 1.0), (150, 2.0), (200, 4.0)):
        window.append(step, score)
    evaluation = window.evaluation(240)
    assert evaluation["returns"] == [2.0, 4.0]
    assert (evaluation["mean"], evaluation["std"], evaluation["episodes"]) == (3.0, pytest.approx(2**0.5), 2)
    assert window.evaluation(250)["returns"] == [4.0]  # 150 is a hundred steps ago, and out


def test_without_an_episode_in_the_window_the_last_one_counts():
    window = _window()
    window.append(10, 7.0)
    assert window.evaluation(109)["protocol"] == "games of the last 100 frames"
    assert window.evaluation(500)["returns"] == [7.0]
    protocol = "the last episode of all, as there are no games of the last 100 frames"
    assert window.evaluation(500)["protocol"] == protocol
    assert window.evaluation(500)["std"] == 0.0


def test_a_run_shorter_than_its_window_says_so():
    window = _window()
    window.append(10, 7.0)
    assert window.evaluation(50)["protocol"] == "games of the last 50 frames"


@pytest.mark.parametrize("step", [50, 99, 100, 101])
def test_episodes_before_learning_are_in_no_window(step):
    window = _window()
    window.append(BEFORE_LEARNING, 7.0)
    assert window.evaluation(step)["protocol"].startswith("the last episode of all")
    window.append(0, 1.0)
    window.append(10, 3.0)
    assert window.evaluation(step)["returns"] == ([1.0, 3.0] if step < 100 else [3.0])


def test_state_goes_around():
    window, other = _window(), _window()
    window.append(10, 1.0)
    window.append(60, 2.0)
    other.set_state(window.get_state())
    assert other.evaluation(100) == window.evaluation(100)


def test_without_any_episode_there_is_nothing_to_evaluate():
    with pytest.raises(NoEpisodeError, match="^No episode of training has ended yet; train for longer$"):
        _window().evaluation(40)
