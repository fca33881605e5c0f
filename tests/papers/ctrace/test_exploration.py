"""Epsilon over a run, against values worked out by hand."""

import numpy as np
import pytest

from repro.papers.ctrace.exploration import ConstantEpsilons, LinearEpsilon


@pytest.mark.parametrize(
    ("frames", "epsilon"), [(0, 1.0), (100_000, 0.91), (500_000, 0.55), (1_000_000, 0.1), (3_000_000, 0.1)]
)
def test_epsilon_falls_linearly_and_stays(frames, epsilon):
    """From 1 to 0.1 over a million frames (Mnih et al., 2015)."""
    exploration = LinearEpsilon(1.0, 0.1, 1_000_000)
    exploration.set_frames(frames)
    assert exploration.epsilon.numpy() == pytest.approx(epsilon, rel=1e-6)


def test_it_begins_with_the_first_value():
    assert LinearEpsilon(0.7, 0.1, 100).epsilon.numpy() == pytest.approx(0.7)


def test_constant_epsilons_stay():
    exploration = ConstantEpsilons(np.float32([0.4, 0.1]))
    exploration.set_frames(10**9)
    np.testing.assert_array_equal(exploration.epsilon, np.float32([0.4, 0.1]))


def test_no_frames_are_refused():
    with pytest.raises(ValueError, match=r"exploration\.frames=0: must be at least 1"):
        LinearEpsilon(1.0, 0.1, 0)
