"""Shapes of the closed-form advantages, computed with the code that trains."""

from __future__ import annotations

import numpy as np
import pytest

from repro.papers.refer import closed_form_advantages as study
from repro.papers.refer.advantages import LowerTriangular, advantage, num_coefficients

A, STD = 3, 0.2**0.5


def softplus(x):
    return np.log1p(np.exp(x))


def f_by_hand(form, coefficients, action, mean):
    """f(s, a) of Eqs. (18) and (20) for one state and action, entry by entry."""
    u, actions = action - mean, len(action)
    if form == "quadratic":
        lower, entries = np.zeros((actions, actions)), iter(coefficients)
        for row in range(actions):
            for column in range(row + 1):
                entry = next(entries)
                lower[row, column] = softplus(entry) if row == column else entry
        return -0.5 * u @ lower @ lower.T @ u
    k, above, below = softplus(coefficients[0]), softplus(coefficients[1:][:actions]), softplus(coefficients[-actions:])
    exponent = sum(u_i**2 / (high if u_i > 0 else low) for u_i, high, low in zip(u, above, below))
    return k * np.exp(-0.5 * exponent)


def patch(monkeypatch, wrong):
    """Replaces the advantage of the study by `wrong(right, form, coefficients, action, mean, std)`."""
    monkeypatch.setattr(study, "advantage", lambda *arguments: wrong(advantage, *arguments))


@pytest.mark.parametrize("form", ["quadratic", "gaussian"])
def test_differences_of_the_advantage_are_those_of_f_by_hand(form):
    rng = np.random.default_rng(0)
    mean, coefficients = rng.normal(size=(1, A)), rng.normal(size=(1, num_coefficients(form, A)))
    actions = mean + STD * rng.normal(size=(6, A))
    ours = study._values(form, coefficients, actions, mean, STD)
    expected = np.array([f_by_hand(form, coefficients[0], action, mean[0]) for action in actions])
    np.testing.assert_allclose(ours - ours[0], expected - expected[0], atol=1e-12)


def test_the_quadratic_form_is_concave_and_the_gaussian_one_only_near_the_mean(monkeypatch):
    """One component of the second has the curvature (u^2 / L - 1) K / L exp(-u^2 / (2 L)), above 0 where u^2 > L."""
    rng = np.random.default_rng(0)
    assert study.second_differences(rng, "quadratic", A, STD).max() < 0.0
    assert study.second_differences(rng, "gaussian", A, STD).max() > 0.01
    length = softplus(0.0)
    for u, concave in ((0.9, True), (1.1, False)):
        points = u * length**0.5 + study.SHORT * STD * np.array([[-1.0], [0.0], [1.0]])
        left, middle, right = study._values("gaussian", np.zeros((1, 3)), points, np.zeros((1, 1)), STD)
        assert (left - 2 * middle + right < 0) == concave
    narrow = [study.second_differences(np.random.default_rng(seed), "gaussian", A, 0.02).max() for seed in range(5)]
    assert max(narrow) < 0.0  # within three stds u^2 is far below L
    patch(monkeypatch, lambda right, *arguments: -right(*arguments))
    assert study.second_differences(rng, "quadratic", A, STD).max() > 0.0


def test_second_differences_are_relative_to_the_range():
    """On exp(-x) with steps h they are tanh(h / 2), on a parabola at its top -2, on a line 0."""
    h = 0.3
    for function, expected in ((lambda x: np.exp(-x), np.tanh(h / 2)), (lambda x: -(x**2), -2.0), (lambda x: x, 0.0)):
        left, middle, right = (function(np.float64(x)) for x in (-h, 0.0, h))
        ours = study.relative_second_difference(np.array([[left], [middle], [right]]))
        np.testing.assert_allclose(ours, expected, atol=1e-12)


@pytest.mark.parametrize("form", ["quadratic", "gaussian"])
def test_f_is_nowhere_above_its_value_at_the_mean_unless_it_is_around_another_point(monkeypatch, form):
    assert study.above_the_mean(np.random.default_rng(0), form, A, STD).max() < 0.0
    patch(monkeypatch, lambda right, form, c, action, mean, std: right(form, c, action, mean + 0.05, std))
    assert study.above_the_mean(np.random.default_rng(0), form, A, STD).max() > 1e-4


@pytest.mark.parametrize("form", ["quadratic", "gaussian"])
def test_slopes_have_no_jump_unless_the_form_or_its_rectifier_has_a_kink(monkeypatch, form):
    assert study.slope_jumps(np.random.default_rng(0), form, A, STD).max() < 1e-4

    def kinked_in_the_action(right, form, coefficients, action, mean, std):
        return right(form, coefficients, action, mean, std) - 0.1 * np.abs(action - mean).sum(1)

    def kinked_in_the_outputs(right, form, coefficients, action, mean, std):
        return right(form, np.maximum(coefficients, 0.0), action, mean, std)

    for wrong, places in ((kinked_in_the_action, slice(A)), (kinked_in_the_outputs, slice(A, None))):
        patch(monkeypatch, wrong)
        assert study.slope_jumps(np.random.default_rng(0), form, A, STD)[places].max() > 0.01


def test_the_factor_is_recovered_where_its_diagonal_is_positive_alone(monkeypatch):
    assert study.factor_errors(np.random.default_rng(0), 6, 20).tolist() == [0.0] * 20
    factor = study.factor_of(np.array([[0.5, 2.0, -1.0]]), 2)[0]
    np.testing.assert_allclose(factor, [[softplus(0.5), 0.0], [2.0, softplus(-1.0)]])

    class Unrectified(LowerTriangular):
        def __init__(self, entries, num_actions):
            super().__init__(entries, num_actions)
            self._diagonal = entries.numpy()[:, np.cumsum(np.arange(num_actions) + 1) - 1]

    monkeypatch.setattr(study, "LowerTriangular", Unrectified)
    assert np.median(study.factor_errors(np.random.default_rng(0), 6, 20)) > 0.1  # a few have no negative output
