"""Statements of C-trace and ACER on finite MDPs, where every expectation is exact."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest

from repro.tabular import mdps, operators
from repro.tabular.learning import Steps, learn
from repro.tabular.operators import TRACES, Method
from repro.tabular.simulation import sampled_targets, simulate
from tests.tabular.problems import Problem, all_paths, random_problem

SEEDS = range(8)
ALPHAS = np.linspace(0.0, 1.0, 41)


def expected_trace_sum(problem: Problem, alpha: float, num_steps: int) -> np.ndarray:
    """E_mu[sum_t gamma^t prod_{s=1..t} ((1 - alpha) + alpha min(1, rho_s)) | x, a], forward in time, [S, A]."""
    mdp, pi, mu = problem
    c = (1 - alpha) + alpha * np.minimum(1.0, pi / mu)
    total, weight = np.zeros(mu.size), np.eye(mu.size)  # weight: E[prod; pair at t], by first pair
    step = (mdp.transitions[..., None] * (mu * c)).reshape(mu.size, mu.size)
    for t in range(num_steps):
        total += mdp.discount**t * weight.sum(1)
        weight = weight @ step
    return total.reshape(mu.shape)


@pytest.mark.parametrize("seed", SEEDS)
def test_ctrace_proposition_3_2_formula(seed):
    """Eq. (5) is the contraction rate of alpha-Retrace for each (x, a)."""
    problem = random_problem(seed)
    for alpha, rates in zip(ALPHAS[::10], operators.alpha_retrace_rates(*problem, ALPHAS[::10])):
        printed = 1 - (1 - 0.9) * expected_trace_sum(problem, alpha, 400)
        np.testing.assert_allclose(rates, printed, atol=1e-12)
        matrix = operators.operator(*problem, Method("retrace", alpha=alpha)).matrix
        np.testing.assert_allclose(np.abs(matrix).sum(1), printed.ravel(), atol=1e-12)
    matrix = operators.operator(*problem, Method("tree_backup", alpha=0.5)).matrix
    assert np.abs(np.abs(matrix).sum(1) - (1 - 0.1 * expected_trace_sum(problem, 0.5, 400)).ravel()).max() > 0.01


@pytest.mark.parametrize("seed", SEEDS)
def test_ctrace_proposition_3_2_continuous_increasing_from_0_to_at_most_gamma(seed):
    rates = operators.alpha_retrace_rates(*random_problem(seed), ALPHAS)
    steps = np.diff(rates, axis=0)
    assert np.all(steps > 0)  # independent policies of full support are distinguishable
    lipschitz = 0.9 / (1 - 0.9)  # (1 - gamma) sum_t t gamma^t bounds the derivative
    assert np.all(steps <= lipschitz * np.diff(ALPHAS)[0] + 1e-12)
    np.testing.assert_allclose(rates[0], 0.0, atol=1e-12)
    assert np.all(rates[-1] <= 0.9 + 1e-12)


def test_ctrace_proposition_3_2_strict_only_where_distinguishable():
    """Definition 3.1: state 1 is never left, and pi = mu there; from it the rate is constant.

    It is constant from action 1 in state 0, too, where pi and mu differ: only states of t >= 1 can tell them apart.
    """
    transitions = np.zeros([2, 2, 2])
    transitions[0, 0, 0] = transitions[0, 1, 1] = transitions[1, :, 1] = 1.0
    mdp = mdps.FiniteMDP(transitions, np.ones([2, 2]), 0.9, np.zeros(2, bool), np.array([0.5, 0.5]))
    pi, mu = np.array([[0.9, 0.1], [0.5, 0.5]]), np.full([2, 2], 0.5)
    rates = operators.alpha_retrace_rates(mdp, pi, mu, ALPHAS)
    assert np.all(np.diff(rates[:, 0, 0]) > 0)
    np.testing.assert_allclose(rates[:, [0, 1, 1], [1, 0, 1]], 0.0, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_ctrace_proposition_3_3(seed):
    """Some alpha < 1 keeps the greedy policy of Q^pi and contracts strictly faster; alpha = 0 need not."""
    mdp, pi, mu = random_problem(seed)
    greedy = mdps.action_values(mdp, pi).argmax(1)
    retrace = operators.contraction_rate(operators.operator(mdp, pi, mu, Method("retrace")))
    for alpha in 1 - 0.5 ** np.arange(1, 20):
        op = operators.operator(mdp, pi, mu, Method("retrace", alpha=alpha))
        if np.array_equal(operators.fixed_point(op, mdp).argmax(1), greedy):
            assert operators.contraction_rate(op) < retrace - 1e-9
            return
    raise AssertionError("no alpha keeps the greedy policy")


def test_ctrace_proposition_3_3_does_not_hold_for_every_alpha():
    changed = [
        not np.array_equal(mdps.action_values(m, pi).argmax(1), mdps.action_values(m, mu).argmax(1))
        for m, pi, mu in map(random_problem, SEEDS)
    ]
    assert any(changed)


def average_rate(problem: Problem, phi: float) -> float:
    """C_nu(alpha(phi)), the first pair sampled as `simulate` samples it."""
    mdp, _, mu = problem
    rates = operators.alpha_retrace_rates(*problem, np.array([1 / (1 + np.exp(-phi))]))[0]
    return float(np.sum(mdp.initial[:, None] * mu * rates))


def root(problem: Problem, target: float) -> float:
    low, high = -20.0, 20.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if average_rate(problem, middle) < target else (low, middle)
    return low


@pytest.mark.parametrize("start", [-3.0, 3.0])
def test_ctrace_proposition_3_4(start):
    """Eq. (6) with Robbins-Monro step sizes goes to the root of C_nu(alpha(phi)) = Gamma from either side."""
    problem = random_problem(1, discount=0.7)
    mdp, pi, mu = problem
    states, actions = simulate(mdp, mu, 20_000, 40, np.random.default_rng(0))
    clipped = np.minimum(1.0, pi / mu)[states[1:-1], actions[1:]]
    discounts = 0.7 ** np.arange(40)
    target = 0.5 * average_rate(problem, 20.0)
    wanted = root(problem, target)
    assert abs(wanted - start) > 1

    def last_phi(sign: float) -> float:
        phi = start
        for k in range(20_000):
            alpha = 1 / (1 + np.exp(-phi))
            estimate = 1 - 0.3 * (1 + discounts[1:] @ np.cumprod(1 - alpha + alpha * clipped[:, k]))
            phi -= sign * 20.0 / (k + 10) ** 0.9 * (estimate - target)
        return phi

    assert abs(last_phi(1.0) - wanted) < 0.1
    assert abs(last_phi(-1.0) - wanted) > 1


def test_ctrace_theorem_3_5():
    """alpha and Q learned together: alpha goes to the root, Q to Q of that mixture (mean over 100 repetitions)."""
    mdp = mdps.chain(3, 0.9)
    uniform = mdps.uniform_policy(mdp)
    pi, mu = np.array([[0.1, 0.9], [0.2, 0.8], [0.5, 0.5]]), uniform
    # Past the end pi = mu, so Eq. (5) counts the trace of 1 there: a chain whose last state lives on.
    endless = mdps.FiniteMDP(mdp.transitions, mdp.rewards, 0.9, np.zeros(3, bool), mdp.initial)
    target = 0.6 * average_rate(Problem(endless, pi, mu), 20.0)
    alpha_star = 1 / (1 + np.exp(-root(Problem(endless, pi, mu), target)))
    assert 0.2 < alpha_star < 0.8
    q_star = mdps.action_values(mdp, mdps.mix(pi, mu, alpha_star))
    rng, repetitions, length = np.random.default_rng(0), 100, 60
    clipped, discounts = np.minimum(1.0, pi / mu), 0.9 ** np.arange(length)
    phi, q = np.full(repetitions, -2.0), np.zeros((repetitions, 3, 2))
    errors = []
    for k in range(1_500):
        states, actions = simulate(mdp, mu, repetitions, length, rng)
        alpha = 1 / (1 + np.exp(-phi))
        traces = np.cumprod(1 - alpha + alpha * clipped[states[1:-1], actions[1:]], axis=0)
        targets = mdps.mix(pi, mu, alpha[:, None, None])
        epsilon = 1 / (1 + k / 20) ** 0.8
        learn(q, mdp, Steps(states[:-1], actions, states[1:]), targets, mu, Method("retrace"), 0.5 * epsilon)
        phi -= 40 / (k + 20) ** 0.95 * (1 - 0.1 * (1 + discounts[1:] @ traces) - target)
        errors.append(np.linalg.norm(q - q_star, axis=(1, 2)).mean())
    assert np.abs(1 / (1 + np.exp(-phi)) - alpha_star).mean() < 0.05
    assert errors[-1] < 0.03 * np.linalg.norm(q_star)
    assert errors[-1] < 0.3 * errors[30]
    biased = np.linalg.norm(mdps.action_values(mdp, pi) - q_star)
    assert np.linalg.norm(q.mean(0) - q_star) < 0.1 * biased


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_ctrace_proposition_b_1(n):
    """Uncorrected n-step returns value the policy that takes n - 1 actions of mu after the first, then one of pi."""
    mdp, pi, mu = random_problem(n)

    def value_of_periodic_policy(policies: list[np.ndarray]) -> np.ndarray:
        """Q at phase 0 on pairs (state, phase); policies[i] acts i + 1 steps after the first action."""
        q = [np.zeros_like(pi) for _ in policies]
        for _ in range(600):
            for i in reversed(range(len(policies))):
                following = q[(i + 1) % len(policies)]
                q[i] = mdp.rewards + 0.9 * mdp.transitions @ (policies[i] * following).sum(1)
        return q[0]

    op = operators.operator(mdp, pi, mu, Method("uncorrected", n=n))
    expected = value_of_periodic_policy([mu] * (n - 1) + [pi])
    np.testing.assert_allclose(operators.fixed_point(op, mdp), expected, atol=1e-10)
    assert operators.contraction_rate(op) == pytest.approx(0.9**n)
    if n > 1:
        assert np.abs(expected - value_of_periodic_policy([pi] + [mu] * (n - 1))).max() > 1e-3


def test_uncorrected_and_importance_weighted_operators_are_powers():
    """Section 2: (T^mu)^(n-1) T^pi and (T^pi)^n."""
    mdp, pi, mu = random_problem(0)
    q = np.random.default_rng(0).normal(size=pi.shape)

    def bellman(policy: np.ndarray, values: np.ndarray) -> np.ndarray:
        return mdp.rewards + 0.9 * mdp.transitions @ (policy * values).sum(1)

    uncorrected = bellman(mu, bellman(mu, bellman(pi, q)))
    weighted = bellman(pi, bellman(pi, bellman(pi, q)))
    np.testing.assert_allclose(operators.operator(mdp, pi, mu, Method("uncorrected", n=3))(q), uncorrected)
    np.testing.assert_allclose(operators.operator(mdp, pi, mu, Method("importance", n=3))(q), weighted)


class UpdateErrors(NamedTuple):
    """Exact quantities of one update of the whole table Q, for Propositions 2.1 and B.2.

    error: E||T_hat Q - Q^pi|| in sup norm. square: E||T_hat Q - Q^pi||^2, Euclidean as all that follows but distance.
    variance: E||T_hat Q - T Q||^2. rate: Gamma. distance: ||Q - Q_tilde|| in sup norm. bias: ||Q_tilde - Q^pi||.
    """

    error: float
    square: float
    variance: float
    rate: float
    distance: float
    bias: float


def update_errors(problem: Problem, method: Method, q: np.ndarray) -> UpdateErrors:
    """An update from independent trajectories of two steps, one from each pair; all combinations are summed."""
    mdp, pi, mu = problem
    paths = all_paths(problem, 2)
    first = paths.trajectories.states[0] * mdp.num_actions + paths.trajectories.actions[0]
    targets = sampled_targets(mdp, paths.trajectories, pi, mu, [method], q)[0]
    of_pairs = [np.flatnonzero((first == pair) & (paths.probability > 0)) for pair in range(mu.size)]
    picks = np.stack(np.meshgrid(*of_pairs, indexing="ij"), axis=-1).reshape(-1, mu.size)
    tables, chances = targets[picks], paths.probability[picks].prod(axis=1)  # [K, SA] and [K]
    op = operators.operator(mdp, pi, mu, method, horizon=2)
    np.testing.assert_allclose(chances @ tables, op(q).ravel(), atol=1e-12)
    values, fixed = mdps.action_values(mdp, pi), operators.fixed_point(op, mdp)
    return UpdateErrors(
        error=float(chances @ np.abs(tables - values.ravel()).max(axis=1)),
        square=float(chances @ ((tables - values.ravel()) ** 2).sum(axis=1)),
        variance=float(chances @ ((tables - op(q).ravel()) ** 2).sum(axis=1)),
        rate=operators.contraction_rate(op),
        distance=float(np.abs(q - fixed).max()),
        bias=float(np.linalg.norm(fixed - values)),
    )


def sampled_updates(seed: int) -> list[UpdateErrors]:
    """Updates of several methods, from Q = 0, from a random Q far away and from Q^pi."""
    problem = random_problem(seed, num_states=2, num_actions=2)
    far = 20.0 * np.random.default_rng(seed).normal(size=problem.pi.shape)
    methods = (
        Method("uncorrected", n=1),
        Method("uncorrected", n=2),
        Method("importance", n=2),
        Method("retrace"),
        Method("retrace", alpha=0.4),
        Method("tree_backup", alpha=0.4),
    )
    tables = (np.zeros_like(far), far, mdps.action_values(problem.mdp, problem.pi))
    return [update_errors(problem, method, q) for method in methods for q in tables]


def certain_update(n: int, offset: float, num_actions: int = 2) -> UpdateErrors:
    """Update of n uncorrected steps from Q_tilde + offset, nothing being random.

    One state; its last action gains 1 and is always taken by pi, the first one by mu.
    """
    rewards, actions = np.zeros((1, num_actions)), np.eye(num_actions)
    rewards[0, -1] = 1.0
    mdp = mdps.FiniteMDP(np.ones((1, num_actions, 1)), rewards, 0.9, np.zeros(1, bool), np.ones(1))
    problem, method = Problem(mdp, actions[-1:], actions[:1]), Method("uncorrected", n=n)
    return update_errors(problem, method, operators.fixed_point(operators.operator(*problem, method), mdp) + offset)


@pytest.mark.parametrize("seed", SEEDS)
def test_ctrace_proposition_2_1(seed):
    """The error is at most root variance + Gamma distance + bias."""
    for found in sampled_updates(seed):
        assert found.error <= np.sqrt(found.variance) + found.rate * found.distance + found.bias + 1e-9


def test_ctrace_proposition_2_1_needs_each_of_its_terms():
    alone = {
        "variance": sampled_updates(0)[2],  # one step from Q^pi
        "distance": certain_update(1, 3.0),
        "bias": certain_update(2, 0.0),
    }
    for name, found in alone.items():
        others = {"variance", "distance", "bias"} - {name}
        assert max(getattr(found, other) for other in others) < 1e-9, name
        assert found.error > 0.01, name


@pytest.mark.parametrize("seed", SEEDS)
def test_ctrace_proposition_b_2(seed):
    """The squared error is at most 3 (variance + Gamma^2 |X| |A| distance^2 + bias^2)."""
    for found in sampled_updates(seed):
        assert found.square <= 3 * (found.variance + 4 * (found.rate * found.distance) ** 2 + found.bias**2) + 1e-9


def test_ctrace_proposition_b_2_needs_its_factors():
    """3 where contraction and bias point the same way; |X| |A| where all four entries of Q are off."""
    aligned = certain_update(2, -5.0)
    terms = aligned.variance + 2 * (aligned.rate * aligned.distance) ** 2 + aligned.bias**2
    assert 1.5 * terms < aligned.square <= 3 * terms
    wide = certain_update(1, 5.0, num_actions=4)
    assert 3 * (wide.rate * wide.distance) ** 2 < wide.square <= 3 * 4 * (wide.rate * wide.distance) ** 2


@pytest.mark.parametrize("samples", [1, 2, 3, 4])
def test_ctrace_theorem_2_2(samples):
    """The lower bound on variance, contraction and bias together, for a rule whose contraction rate is 0.

    The rule knows P, sees the rewards of `samples` independent pairs, takes the others for 0, and solves for Q. On
    the two MDPs of the proof every quantity is a finite sum.
    """
    mdp, pi, _ = random_problem(samples, num_states=2, num_actions=2)
    rng = np.random.default_rng(samples)
    pairs, size = rng.dirichlet(np.full(4, 0.5)), 4
    successors = np.linalg.inv(np.eye(size) - operators.step_matrix(mdp, pi))  # (I - gamma P^pi)^-1
    visits = (1 - 0.9) * successors
    outcomes = list(itertools.product(range(size), repeat=samples))
    chances = np.array([np.prod(pairs[list(outcome)]) for outcome in outcomes])
    seen = np.array([[pair in outcome for pair in range(size)] for outcome in outcomes])
    bound, both, one = 0.0, 0.0, 0.0
    for members in itertools.product([False, True], repeat=size):
        omega = np.array(members)
        delta = chances[(seen & omega).any(1)].sum()
        if 0 < delta < 1 and omega.any():
            bound = max(bound, (1 - delta) * visits[:, omega].sum(1).max() / (1 - 0.9))
            for sign in (1.0, -1.0):
                q_pi = successors @ (sign * omega)
                estimates = (seen * sign * omega) @ successors.T
                mean = chances @ estimates
                root_variance = np.sqrt(chances @ ((estimates - mean) ** 2).sum(1))
                bias = np.linalg.norm(mean - q_pi)
                both, one = max(both, root_variance + bias), max(one, root_variance)
    assert bound > 1
    assert both >= bound
    assert samples > 1 or one < bound  # variance alone does not carry it


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rule", ["retrace", "tree_backup", "acer"])
def test_rules_with_traces_up_to_min_1_rho_contract_by_gamma(seed, rule):
    """Munos et al., 2016, Theorem 1: rate at most gamma and fixed point Q^pi, for c in [0, rho]; Q(lambda) may not."""
    mdp, pi, mu = random_problem(seed)
    for lambda_ in (0.0, 0.5, 1.0):
        op = operators.operator(mdp, pi, mu, Method(rule, lambda_=lambda_))
        assert operators.contraction_rate(op) <= 0.9 + 1e-12
        assert np.min(op.matrix) >= -1e-12
        np.testing.assert_allclose(operators.fixed_point(op, mdp), mdps.action_values(mdp, pi), atol=1e-10)


def test_q_lambda_and_a_power_of_the_ratio_leave_that_condition():
    mdp, pi, mu = random_problem(0)
    assert operators.contraction_rate(operators.operator(mdp, pi, mu, Method("q_lambda"))) > 0.9
    assert np.min(operators.operator(mdp, pi, mu, Method("acer", dimension=20)).matrix) < -1e-3


class Acer:
    """ACER's operator B of Eq. (20), for a truncation c: matrix and offset."""

    def __init__(self, problem: Problem, c: float) -> None:
        mdp, pi, mu = problem
        rho = pi / mu
        truncated, correction = np.minimum(c, rho), np.maximum((rho - c) / rho, 0.0) if c < np.inf else 0 * rho
        traces = np.linalg.inv(np.eye(mu.size) - operators.step_matrix(mdp, mu * truncated))
        self.matrix = traces @ operators.step_matrix(mdp, pi * correction)
        self.offset = traces @ mdp.rewards.ravel()


@pytest.mark.parametrize("seed", SEEDS)
def test_acer_proposition_1(seed):
    """B contracts towards Q^pi by gamma for any c, and with c = 1 it is Retrace."""
    problem = random_problem(seed)
    mdp, pi, _ = problem
    for c in (0.0, 0.5, 1.0, 3.0, np.inf):
        op = operators.Operator(**vars(Acer(problem, c)))
        assert operators.contraction_rate(op) <= 0.9 + 1e-12
        np.testing.assert_allclose(operators.fixed_point(op, mdp), mdps.action_values(mdp, pi), atol=1e-10)
    retrace = operators.operator(*problem, Method("retrace"))
    np.testing.assert_allclose(Acer(problem, 1.0).matrix, retrace.matrix, atol=1e-12)
    np.testing.assert_allclose(Acer(problem, 1.0).offset, retrace.offset, atol=1e-12)
    assert np.abs(Acer(problem, 2.0).matrix - retrace.matrix).max() > 1e-3


def test_acer_appendix_c_limits():
    """c = 0 is the Bellman operator T^pi, c infinite is importance sampling."""
    problem = random_problem(0)
    for c, method in ((0.0, Method("uncorrected", n=1)), (np.inf, Method("importance_sampling"))):
        op = operators.operator(*problem, method)
        np.testing.assert_allclose(Acer(problem, c).matrix, op.matrix, atol=1e-12)
        np.testing.assert_allclose(Acer(problem, c).offset, op.offset, atol=1e-12)


@pytest.mark.parametrize("c", [0.3, 1.0, 2.0])
def test_acer_equations_7_and_18(c):
    """Truncation with bias correction changes no expectation over actions; without the correction it does."""
    mdp, pi, mu = random_problem(3)
    rho = pi / mu
    truncated, correction = np.minimum(c, rho), np.maximum((rho - c) / rho, 0.0)
    f = np.random.default_rng(0).normal(size=(5, *pi.shape))  # five components of a gradient times Q
    np.testing.assert_allclose((mu * rho * f).sum(-1), (mu * truncated * f).sum(-1) + (pi * correction * f).sum(-1))
    assert np.abs((mu * rho * f).sum(-1) - (mu * truncated * f).sum(-1)).max() > 0.01
    q = mdps.action_values(mdp, pi)
    following = (mu * truncated * q).sum(1) + (pi * correction * q).sum(1)
    np.testing.assert_allclose(q, mdp.rewards + 0.9 * mdp.transitions @ following)


def test_every_rule_is_covered():
    assert set(TRACES) == {"retrace", "tree_backup", "acer", "q_lambda", "importance_sampling"}
