"""Eq. (12): directions, fixed points, the boundary."""

from __future__ import annotations

import pytest

from repro.papers.refer.beta_update import update_beta


def test_by_hand():
    """eta = 0.1, D = 0.1: 0.9 * 0.5 with 11 far samples of 100, 0.9 * 0.5 + 0.1 with 9."""
    assert update_beta(0.5, 11, 100, 0.1, 0.1) == pytest.approx(0.45)
    assert update_beta(0.5, 9, 100, 0.1, 0.1) == pytest.approx(0.55)


def test_a_share_of_exactly_d_is_the_other_case():
    assert update_beta(0.5, 25, 100, 0.25, 0.1) == pytest.approx(0.55)


@pytest.mark.parametrize(("num_far_policy", "fixed_point"), [(90, 0.0), (10, 1.0)])
def test_fixed_points(num_far_policy, fixed_point):
    """0 with too many far samples and 1 otherwise, approached by a factor 1 - eta a step, never left."""
    beta = 0.4
    for _ in range(50):
        before = beta
        beta = update_beta(beta, num_far_policy, 100, 0.5, 0.1)
        assert 0.0 <= beta <= 1.0
        assert beta - fixed_point == pytest.approx(0.9 * (before - fixed_point))
    assert update_beta(fixed_point, num_far_policy, 100, 0.5, 0.1) == pytest.approx(fixed_point, abs=1e-15)


def test_an_empty_memory_is_refused():
    with pytest.raises(ValueError, match=r"^update_beta: num_samples must lie in \[1, inf\), got 0$"):
        update_beta(0.5, 0, 0, 0.1, 0.1)


@pytest.mark.parametrize("name", ["beta", "max_fraction", "step_size"])
@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_numbers_outside_their_range(name, value):
    arguments = {"beta": 0.5, "max_fraction": 0.1, "step_size": 0.1} | {name: value}
    with pytest.raises(ValueError, match=rf"^update_beta: {name} must lie in \[0, 1\], got {value}$"):
        update_beta(num_far_policy=0, num_samples=1, **arguments)
