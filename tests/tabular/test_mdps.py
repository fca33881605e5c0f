"""MDPs of Appendix C.1 and exact values on them."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from repro.tabular import mdps
from tests.tabular.problems import random_problem

LAST_OF_4 = np.array([False, False, False, True])


def test_dirichlet_uniform_has_the_printed_distribution():
    mdp = mdps.dirichlet_uniform(5, 40, 0.9, np.random.default_rng(0))
    assert mdp.transitions.shape == (5, 40, 5)
    assert mdp.transitions.var() == pytest.approx((1 / 5) * (4 / 5) / 6, rel=0.1)  # of Dirichlet(1, .., 1)
    assert mdp.rewards.min() < -0.9
    assert 0.9 < mdp.rewards.max() <= 1
    np.testing.assert_array_equal(mdp.initial, 0.2)


def test_a_garnet_has_equal_branches_and_a_tenth_of_its_states_pay():
    mdp = mdps.garnet(20, 3, 4, 0.9, np.random.default_rng(0))
    assert set(np.unique(mdp.transitions)) == {0.0, 0.25}
    np.testing.assert_array_equal((mdp.transitions > 0).sum(-1), 4)
    paying = mdp.rewards.any(1)
    assert paying.sum() == 2
    np.testing.assert_array_equal(mdp.rewards[paying], 1.0)
    assert len(np.unique(mdp.transitions.reshape(60, 20), axis=0)) > 50  # resampled for each pair
    with pytest.raises(ValueError, match="branching must be in 1 to 20, got 21"):
        mdps.garnet(20, 3, 21, 0.9, np.random.default_rng(0))


def test_the_chain_step_by_step():
    mdp = mdps.chain(4, 0.9)
    following = mdp.transitions.argmax(-1)
    np.testing.assert_array_equal(following, [[0, 1], [0, 2], [1, 3], [3, 3]])
    np.testing.assert_array_equal(mdp.rewards, [[0, -1], [0, -1], [0, 50], [0, 0]])
    np.testing.assert_allclose(mdp.initial, [1 / 3, 1 / 3, 1 / 3, 0])
    right = np.tile([0.0, 1.0], (4, 1))
    assert mdps.action_values(mdp, right)[0, 1] == pytest.approx(-1 - 0.9 + 0.81 * 50)
    assert not mdps.action_values(mdp, right)[3].any()
    np.testing.assert_array_equal(mdps.chain(2, 0.9).rewards, [[0, 50], [0, 0]])


def test_on_the_chain_of_figure_3_the_first_state_stays():
    """50 gamma^18 does not pay for 18 steps at -1: the only state where going right is not optimal."""
    mdp = mdps.chain(20, 0.9)
    np.testing.assert_array_equal(mdps.optimal_policy(mdp)[:19, 1], [0, *[1] * 18])


def test_values_are_those_of_the_bellman_equation():
    mdp, pi, mu = random_problem(0)
    for policy, q in zip([pi, mu], mdps.action_values(mdp, np.stack([pi, mu]))):
        expected = mdp.rewards + 0.9 * np.einsum("xay,yb,yb->xa", mdp.transitions, policy, q)
        np.testing.assert_allclose(q, expected, atol=1e-12)
        np.testing.assert_allclose(mdps.state_values(mdp, policy), (policy * q).sum(1), atol=1e-12)


def test_policy_iteration_finds_the_best_of_all_deterministic_policies():
    mdp, _, _ = random_problem(1, num_states=4, num_actions=2)
    all_policies = np.eye(2)[np.array(list(itertools.product([0, 1], repeat=4)))]
    best = mdps.state_values(mdp, all_policies).max(0)
    np.testing.assert_allclose(mdps.state_values(mdp, mdps.optimal_policy(mdp)), best, atol=1e-12)


def test_greedy_shares_ties():
    np.testing.assert_array_equal(
        mdps.greedy_policy(np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0]])), [[0.5, 0.5, 0], [0, 1, 0]]
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"discount": 1.0}, "discount must be in"),
        ({"rewards": np.zeros([4, 2])}, "must have shapes"),
        ({"transitions": np.full([4, 3, 4], 0.3)}, "transitions must be non-negative and sum to 1"),
        ({"initial": np.array([2.0, -1.0, 0.0, 0.0])}, "initial must be non-negative"),
        ({"terminal": LAST_OF_4, "initial": np.array([0.5, 0.5, 0.0, 0.0])}, "terminal states must have reward 0"),
        (
            {"terminal": LAST_OF_4, "rewards": np.zeros([4, 3])},
            "terminal states must have reward 0 and initial probability 0",
        ),
    ],
)
def test_what_is_no_mdp_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(random_problem(0).mdp, **changes)
