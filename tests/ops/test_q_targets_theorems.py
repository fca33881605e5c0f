"""C-trace's operators on random finite MDPs, where expectations are exact: every path of n steps, by its probability.

These tests fix the indices: which ratios weigh a reward and a bootstrap value, and how many terms C(alpha) has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from repro.ops import q_targets, traces
from repro.papers.ctrace import alpha_update
from repro.tabular import mdps
from repro.tabular.mdps import FiniteMDP
from repro.tabular.paths import all_paths

NUM_STATES, NUM_ACTIONS, GAMMA = 3, 2, 0.9
SEEDS = range(3)


class Problem(NamedTuple):
    mdp: FiniteMDP
    pi: np.ndarray
    mu: np.ndarray
    q: np.ndarray


def random_problem(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    mdp = mdps.dirichlet_uniform(NUM_STATES, NUM_ACTIONS, GAMMA, rng)
    pi, mu = 0.9 * rng.dirichlet(np.ones(NUM_ACTIONS), size=(2, NUM_STATES)) + 0.1 / NUM_ACTIONS
    return Problem(mdp, pi, mu, rng.normal(size=(NUM_STATES, NUM_ACTIONS)))


def bellman(mdp: FiniteMDP, policy: np.ndarray, q: np.ndarray) -> np.ndarray:
    """T^policy Q (Eq. 1)."""
    return mdp.rewards + mdp.discount * mdp.transitions @ np.sum(policy * q, axis=1)


class Batch:
    """Every path of n steps of mu as a batch of sequences, [n, N]."""

    def __init__(self, problem: Problem, num_steps: int) -> None:
        self.mdp, self.pi, self.mu, _ = problem
        self.paths = all_paths(self.mdp, self.mu, num_steps)
        states, self.a = self.paths.trajectories
        self.x, self.next_x = states[:-1], states[1:]
        self.r_t = self.mdp.rewards[self.x, self.a]
        self.discount_t = np.full(self.x.shape, self.mdp.discount)
        self.log_rho_t = self.of_next_action(np.log(self.pi / self.mu))

    def of_next_action(self, table: np.ndarray) -> np.ndarray:
        """table[x_{s+1}, a_{s+1}] in row s; NaN in the last row, whose next action is unknown."""
        return np.concatenate([table[self.x[1:], self.a[1:]], np.full_like(table[self.x[:1], 0], np.nan)])

    def expectation(self, per_path: np.ndarray) -> np.ndarray:
        """E_mu[. | x_0, a_0], [S, A]."""
        return self.paths.expectation(per_path, self.mdp)

    def multistep(self, c_t: np.ndarray, policy: np.ndarray, q: np.ndarray) -> np.ndarray:
        targets = q_targets.multistep_q(
            self.r_t, self.discount_t, c_t, np.sum(policy * q, axis=1)[self.next_x], self.of_next_action(q)
        )
        return self.expectation(targets.numpy()[0])

    def n_step(self, q: np.ndarray, n: int, weighted: bool) -> np.ndarray:
        expected_q_t = np.sum(self.pi * q, axis=1)[self.next_x]
        if weighted:
            targets = q_targets.n_step_importance_weighted(self.r_t, self.discount_t, self.log_rho_t, expected_q_t, n=n)
        else:
            targets = q_targets.n_step_uncorrected(self.r_t, self.discount_t, expected_q_t, n=n)
        return self.expectation(targets.numpy()[0])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_importance_weighting_applies_the_target_policys_operator_n_times(seed, n):
    """Section 2: Eq. (3) is a stochastic approximation to (T^pi)^n."""
    problem = random_problem(seed)
    expected = problem.q
    for _ in range(n):
        expected = bellman(problem.mdp, problem.pi, expected)
    batch = Batch(problem, num_steps=3)
    np.testing.assert_allclose(batch.n_step(problem.q, n, weighted=True), expected, rtol=1e-4, atol=1e-5)
    assert n == 1 or not np.allclose(batch.n_step(problem.q, n, weighted=False), expected, rtol=1e-2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_correction_follows_the_behaviour_and_the_target_policy_last(seed, n):
    """Proposition B.1: Eq. (2) is a stochastic approximation to (T^mu)^{n-1} T^pi."""
    problem = random_problem(seed)
    expected = bellman(problem.mdp, problem.pi, problem.q)
    for _ in range(n - 1):
        expected = bellman(problem.mdp, problem.mu, expected)
    actual = Batch(problem, num_steps=3).n_step(problem.q, n, weighted=False)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def rules(batch: Batch, pi: np.ndarray, mu: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Coefficient and target policy of every rule."""
    alpha = 0.4
    mixture = traces.mixture(pi, mu, alpha).numpy()
    pi_a, mu_a = batch.of_next_action(pi), batch.of_next_action(mu)
    return {
        "importance_sampling": (traces.importance_sampling(batch.log_rho_t), pi),
        "q_lambda": (traces.q_lambda(batch.log_rho_t), pi),
        "tree_backup": (traces.tree_backup(pi_a), pi),
        "retrace": (traces.retrace(batch.log_rho_t), pi),
        "alpha_retrace": (traces.alpha_retrace(batch.log_rho_t, alpha), mixture),
        "alpha_tree_backup": (traces.alpha_tree_backup(pi_a, mu_a, alpha), mixture),
        "acer_truncated": (traces.acer_truncated(batch.log_rho_t, 3), pi),
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_the_value_of_a_rules_policy_is_its_fixed_point(seed):
    """Retrace's theorem: whatever the coefficients, Q of the policy in the expectation is left as it is."""
    problem = random_problem(seed)
    batch = Batch(problem, num_steps=3)
    for name, (c_t, policy) in rules(batch, problem.pi, problem.mu).items():
        fixed_point = mdps.action_values(problem.mdp, policy)
        actual = batch.multistep(c_t, policy, fixed_point)
        np.testing.assert_allclose(actual, fixed_point, rtol=1e-4, atol=1e-5, err_msg=name)
    wrong = mdps.action_values(problem.mdp, problem.pi)
    c_t, mixture = rules(batch, problem.pi, problem.mu)["alpha_retrace"]
    assert not np.allclose(batch.multistep(c_t, mixture, wrong), wrong, rtol=1e-2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("num_steps", [1, 2, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_the_contraction_estimate_is_unbiased(seed, num_steps, alpha):
    """E_mu[C_hat | x, a] is the rate at which alpha-Retrace on n steps contracts at (x, a) (Definition 1.2).

    The operator is affine with non-negative coefficients of Q, so that rate is their sum: what adding 1 to Q adds.
    This holds with n terms in C_hat, not with the n + 1 that Appendix E prints.
    """
    problem = random_problem(seed)
    batch = Batch(problem, num_steps)
    mixture = traces.mixture(problem.pi, problem.mu, alpha).numpy()
    c_t = traces.alpha_retrace(batch.log_rho_t, alpha)
    zero = np.zeros_like(problem.q)
    base = batch.multistep(c_t, mixture, zero)
    for index in np.ndindex(zero.shape):
        one = zero.copy()
        one[index] = 1.0
        assert np.all(batch.multistep(c_t, mixture, one) - base > -1e-5)
    rate = batch.multistep(c_t, mixture, zero + 1.0) - base
    estimate = alpha_update.contraction_estimate(batch.log_rho_t, batch.discount_t, alpha, gamma=GAMMA)
    np.testing.assert_allclose(batch.expectation(estimate.numpy()[0]), rate, rtol=1e-4, atol=1e-5)
    if alpha == 0.0:
        np.testing.assert_allclose(rate, GAMMA**num_steps, rtol=1e-4)
