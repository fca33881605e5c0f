"""C-trace's printed results on finite MDPs: Section 2, Propositions 2.1, 3.2, 3.3, B.1 and B.2, Theorem 2.2."""

from __future__ import annotations

from collections.abc import Sequence

import ml_collections
import numpy as np
import tensorflow as tf

from repro.ops import q_targets, traces
from repro.papers.ctrace import loss, targets, update_errors
from repro.papers.ctrace.path_batch import Batch
from repro.tabular import mdps, operators, paths
from repro.tabular.mdps import FiniteMDP, Problem
from repro.tabular.operators import Method, Operator
from repro.training.problem_study import Extreme, OnProblems

MORE_VARIANCE = "orders of magnitude by which importance-weighted returns vary more than Retrace"
JUMP = "jump of the contraction rate in alpha, extrapolated from two grids"
UNITS = {
    "clipping_rate": "contraction rate of Retrace minus that of importance weighting, on as many steps",
    "clipping_variance": MORE_VARIANCE,
    "clipping_variance_at_q_pi": MORE_VARIANCE,
    "clipping_bias": "distance of its fixed point from Q of the target policy",
    "lambda_rate": "largest difference",
    "lambda_least_rate": "contraction rate at alpha = 0",
    "lambda_least_rate_on_policy": "largest difference",
    "lambda_largest_rate": "contraction rate over gamma",
    "lambda_growth": "slope of the contraction rate in alpha",
    "lambda_mixture": "distance of its fixed point from Q of the mixture",
    "one_retrace": "largest difference of targets",
    "double_dqn": "largest difference of targets",
    "rate": "largest difference",
    "jump": JUMP,
    "jump_of_supremum": JUMP,
    "growth_of_supremum": "slope of the contraction rate in alpha",
    "estimate": "largest difference",
    "least_rate": "contraction rate at alpha = 0",
    "largest_rate": "contraction rate over gamma",
    "growth": "slope of the contraction rate in alpha",
    "growth_printed": "slope of the contraction rate in alpha",
    "growth_on_policy": "slope of the contraction rate in alpha",
    "truncated": "contraction rate over gamma^N",
    "truncated_on_policy": "largest difference",
    "greedy": "contraction rate over that of Retrace",
    "uncorrected": "largest difference",
    "importance": "largest difference",
    "periodic_policy": "distance of its fixed point from Q of the periodic policy",
    "periodic_policy_printed": "distance of its fixed point from Q of the periodic policy",
    "mixture": "distance of its fixed point from Q of the mixture",
    "error": "error over its bound",
    "squared_error": "squared error over its bound",
    "trade_off": "root variance, contraction and bias over their bound",
    "lower_bound": "expected error over its lower bound",
}
"""Unit of each answer, by name."""
EXTREMES: dict[str, Extreme] = {
    "largest_rate": "largest",
    "lambda_largest_rate": "largest",
    "lambda_growth": "smallest",
    "growth_of_supremum": "smallest",
    "growth": "smallest",
    "growth_on_policy": "largest",
    "truncated": "smallest",
    "greedy": "largest",
    "error": "largest",
    "squared_error": "largest",
    "trade_off": "smallest",
    "lower_bound": "smallest",
}
MEANS = (
    "clipping_rate",
    "clipping_variance",
    "clipping_variance_at_q_pi",
    "lambda_least_rate",
    "periodic_policy_printed",
)
"""Answers that are means over the sampled problems."""
HALVINGS = 30
"""Maximum number of halvings of 1 - alpha in the search for an alpha-Retrace that keeps the greedy policy."""


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """Computes the answers on one problem, each the worst over the values of alpha, n, (x, a) and the update rules."""
    mdp, pi, mu = problem
    batch, alphas = Batch(problem, config.num_steps), np.array(config.alphas)
    retraces = [batch.alpha_retrace(alpha) for alpha in alphas]
    rates = np.array([operators.contraction_rates(op) for op in retraces])  # [K, SA]
    estimates = np.array([batch.estimate(alpha) for alpha in alphas])
    mixtures = [mdps.action_values(mdp, mdps.mix(pi, mu, alpha)) for alpha in alphas]
    on_policy = Batch(Problem(mdp, mu, mu), config.num_steps)
    lowest = mdp.discount**config.num_steps
    returns = [batch.uncorrected(n) for n in config.n]
    small = mdps.random_problem(config.update_states, config.update_actions, (mdp.discount, mdp.discount), rng)
    updates = list(update_errors.sampled_updates(small, rng))
    pairs = rng.dirichlet(np.full(small.pi.size, config.pairs_concentration))
    trades = [found for k in config.samples for found in update_errors.trade_offs(small, pairs, k).values()]
    return {
        **find_by_clipping(batch, problem, config.num_steps),
        **find_by_lambda(batch, problem, config.lambdas, alphas),
        **find_jumps(problem, config.fine_alphas),
        "one_retrace": one_retrace(batch, rng.normal(size=pi.shape)),
        "double_dqn": double_dqn(problem, rng),
        "growth_of_supremum": slopes(rates.max(axis=1, keepdims=True), alphas).min(),
        "rate": _largest(rates - np.array([printed_rates(problem, alpha) for alpha in alphas])),
        "estimate": _largest(estimates - np.array([printed_rates(problem, a, config.num_steps) for a in alphas])),
        "least_rate": rates[alphas == 0.0].max(),
        "largest_rate": rates.max() / mdp.discount,
        "growth": slopes(rates, alphas).min(),
        "growth_printed": growth_unvisited(problem, alphas, config.num_steps),
        "growth_on_policy": _largest(
            slopes(np.array([operators.contraction_rates(on_policy.alpha_retrace(a)) for a in alphas]), alphas)
        ),
        "truncated": operators.contraction_rate(batch.truncated_retrace()) / lowest,
        "truncated_on_policy": _largest(operators.contraction_rates(on_policy.truncated_retrace()) - lowest),
        "greedy": greedy_rate(problem),
        "uncorrected": max(paths.distance(op, power(problem, mu, n)) for op, n in zip(returns, config.n)),
        "importance": max(paths.distance(batch.importance(n), power(problem, pi, n)) for n in config.n),
        "periodic_policy": max(
            _largest(operators.fixed_point(op, mdp) - periodic_values(problem, n)) for op, n in zip(returns, config.n)
        ),
        "periodic_policy_printed": max(
            _largest(operators.fixed_point(op, mdp) - periodic_values(problem, n, n - 1))
            for op, n in zip(returns, config.n)
        ),
        "mixture": max(_largest(operators.fixed_point(op, mdp) - q) for op, q in zip(retraces, mixtures)),
        "error": max(found.error / found.bound for found in updates),
        "squared_error": max(found.square / found.bound_of_square for found in updates),
        "trade_off": min(found.total / found.bound for found in trades),
        "lower_bound": min(found.error for found in trades),
    }


run = OnProblems(find_on_problem, UNITS, EXTREMES, MEANS)
"""Checks the statements on random problems; no trajectories are sampled."""


def find_by_clipping(batch: Batch, problem: Problem, num_steps: int) -> dict[str, float]:
    """Computes the answers that compare Retrace with importance weighting on trajectories of `num_steps` (Section 2).

    Variances are Definition 1.4, each first pair equally likely, from Q = 0 and from Q^pi.
    """
    values = mdps.action_values(problem.mdp, problem.pi)
    retrace = batch.truncated_retrace()
    rates = [operators.contraction_rate(op) for op in (retrace, batch.importance(num_steps))]

    def more_variance(q: np.ndarray) -> float:
        return float(np.log10(batch.importance_variance(q, num_steps) / batch.retrace_variance(q)))

    return {
        "clipping_rate": rates[0] - rates[1],
        "clipping_variance": more_variance(np.zeros_like(values)),
        "clipping_variance_at_q_pi": more_variance(values),
        "clipping_bias": _largest(operators.fixed_point(retrace, problem.mdp) - values),
    }


def find_by_lambda(batch: Batch, problem: Problem, lambdas: Sequence[float], alphas: np.ndarray) -> dict[str, float]:
    """Computes the parts of Proposition 3.2 and the fixed point with traces times lambda below 1 (Section 2).

    Args:
        batch: the problem's paths.
        problem: the problem.
        lambdas: values of lambda; of each answer the worst counts.
        alphas: values of alpha in increasing order, from 0 to 1, [K].
    """
    mdp, pi, mu = problem
    found = []
    for lambda_ in lambdas:
        ops = [batch.alpha_retrace(alpha, lambda_) for alpha in alphas]
        rates = np.array([operators.contraction_rates(op) for op in ops])  # [K, SA]
        printed = np.array([printed_rates(problem, alpha, lambda_=lambda_) for alpha in alphas])
        mixed = [mdps.action_values(mdp, mdps.mix(pi, mu, alpha)) for alpha in alphas]
        on_policy = mdp.discount * (1 - lambda_) / (1 - mdp.discount * lambda_)  # of TD(lambda)
        found.append(
            {
                "lambda_rate": _largest(rates - printed),
                "lambda_least_rate": rates.min(),
                "lambda_least_rate_on_policy": abs(rates.min() - on_policy),
                "lambda_largest_rate": rates.max() / mdp.discount,
                "lambda_growth": slopes(rates, alphas).min(),
                "lambda_mixture": max(_largest(operators.fixed_point(op, mdp) - q) for op, q in zip(ops, mixed)),
            }
        )
    return {
        name: (min if EXTREMES.get(name) == "smallest" else max)(values[name] for values in found) for name in found[0]
    }


def find_jumps(problem: Problem, num_alphas: int) -> dict[str, float]:
    """Computes the jumps of the contraction rates (Eq. 5) and of their supremum as functions of alpha on [0, 1].

    The largest change between neighbours is D + L h on a grid of spacing h, for a jump D and otherwise a largest slope
    L; twice the change on a grid of `num_alphas` spacings, minus that on every second point of it, is D.
    """
    rates = operators.alpha_retrace_rates(*problem, np.linspace(0.0, 1.0, num_alphas + 1))

    def jump(rates: np.ndarray) -> float:
        fine, coarse = (np.abs(np.diff(rates[::step], axis=0)).max(axis=0) for step in (1, 2))
        return _largest(2 * fine - coarse)

    return {"jump": jump(rates), "jump_of_supremum": jump(rates.max(axis=(1, 2)))}


def one_retrace(batch: Batch, q: np.ndarray) -> float:
    """Largest difference between targets of C-trace at alpha = 1 and of Retrace (Eq. 4), from the table q [S, A]."""

    def c_trace(sequences: targets.Sequences) -> tf.Tensor:
        return targets.compute_target("c_trace", sequences, gamma=batch.discount, n=1, alpha=1.0).target

    def retrace(sequences: targets.Sequences) -> tf.Tensor:
        r_t, discount_t, q_t, q_t_a, pi_t, _, log_rho_t, _ = sequences
        means = traces.expected_value(q_t, pi_t)
        return q_targets.multistep_q(r_t, discount_t, c_t=traces.retrace(log_rho_t), expected_q_t=means, q_t_a=q_t_a)

    return batch.largest_difference(c_trace, retrace, q)


def double_dqn(problem: Problem, rng: np.random.Generator) -> float:
    """Largest difference between targets of one step by the agents' loss and Double DQN's (Appendix E.2).

    Retrace and C-trace at alpha = 1 learn from each step of the problem, with random tables in place of both networks;
    Double DQN's target is r + gamma Q'(y, argmax Q(y, .)), Q' the target network.
    """
    mdp, _, mu = problem
    online, target = (rng.normal(size=mu.shape).astype(np.float32) for _ in range(2))
    x, a, y = (indices.ravel() for indices in np.indices(mdp.transitions.shape))
    rewards = mdp.rewards[x, a].astype(np.float32)
    following = np.stack([x, y])  # [2, B]
    differences = []
    for method in ("retrace", "c_trace"):
        found = loss.dqn_loss(
            q=tf.constant(online[following]),
            target_q=tf.constant(target[following]),
            behaviour=tf.constant(mu[following].astype(np.float32)),
            actions=tf.constant(a[None]),
            r_t=tf.constant(rewards[None]),
            discount_t=tf.fill((1, len(x)), np.float32(mdp.discount)),
            is_boundary=tf.zeros((1, len(x)), bool),
            settings=loss.SequenceLossSettings(method, 1, mdp.discount, np.inf, rescaling=None),
        )
        expected = rewards + mdp.discount * target[y, online[y].argmax(axis=1)]
        differences.append(_largest(found.extras["targets"][0].numpy() - expected))
    return max(differences)


def printed_rates(problem: Problem, alpha: float, num_terms: int | None = None, lambda_: float = 1.0) -> np.ndarray:
    """C(alpha|x, a) of Eq. (5) as printed, [SA]: 1 - (1 - gamma) times a sum over t, or over its first terms only.

    With lambda below 1 each factor of the products has it, as each trace does.
    """
    mdp, pi, mu = problem
    step = lambda_ * operators.step_matrix(mdp, mu * ((1 - alpha) + alpha * np.minimum(1.0, pi / mu)))
    total = np.linalg.inv(np.eye(mu.size) - step)
    if num_terms is not None:
        total = total @ (np.eye(mu.size) - np.linalg.matrix_power(step, num_terms))
    return 1 - (1 - mdp.discount) * total.sum(axis=1)


def slopes(rates: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """Slopes of each rate, [K, SA], between successive alphas [K], which increase: [K - 1, SA]."""
    return np.diff(rates, axis=0) / np.diff(alphas)[:, None]


def growth_unvisited(problem: Problem, alphas: np.ndarray, num_steps: int) -> float:
    """Largest slope of the rate in state 0 on a problem where only there pi and mu differ and no step leads there.

    The visitation distribution includes the first state, so that the policies are distinguishable by Definition 3.1.
    """
    mdp, pi, mu = problem
    transitions, pi = mdp.transitions.copy(), np.concatenate([pi[:1], mu[1:]])
    transitions[..., 1] += transitions[..., 0]
    transitions[..., 0] = 0.0
    left = Problem(FiniteMDP(transitions, mdp.rewards, mdp.discount, mdp.terminal, mdp.initial), pi, mu)
    batch = Batch(left, num_steps)
    rates = np.array([operators.contraction_rates(batch.alpha_retrace(alpha)) for alpha in alphas])
    return float(slopes(rates, alphas)[:, : mdp.num_actions].max())


def greedy_rate(problem: Problem) -> float:
    """Proposition 3.3: rate of an alpha-Retrace that keeps the greedy policy, divided by the rate of Retrace.

    Alpha is the first of 1/2, 3/4, 7/8, .. that keeps the policy. Returns 1 if none of those tried does.
    """
    mdp, pi, mu = problem
    greedy = mdps.action_values(mdp, pi).argmax(axis=1)
    retrace = operators.contraction_rate(operators.operator(mdp, pi, mu, Method("retrace")))
    for halving in range(1, HALVINGS):
        op = operators.operator(mdp, pi, mu, Method("retrace", alpha=1 - 0.5**halving))
        if np.array_equal(operators.fixed_point(op, mdp).argmax(axis=1), greedy):
            return operators.contraction_rate(op) / retrace
    return 1.0


def power(problem: Problem, policy: np.ndarray, n: int) -> Operator:
    """(T^policy)^(n-1) T^pi, by applying one Bellman operator after the other."""
    mdp, pi, _ = problem

    def bellman(followed: np.ndarray, q: np.ndarray) -> np.ndarray:
        return mdp.rewards[..., None] + mdp.discount * mdp.transitions @ np.einsum("xa,xak->xk", followed, q)

    columns = np.hstack([np.zeros((pi.size, 1)), np.eye(pi.size)]).reshape(*pi.shape, -1)
    q = bellman(pi, columns)
    for _ in range(n - 1):
        q = bellman(policy, q)
    offset, *images = q.reshape(pi.size, -1).T
    return Operator(np.array(images).T - offset[:, None], offset)


def periodic_values(problem: Problem, n: int, remainder: int = 0) -> np.ndarray:
    """Q of the periodic policy that follows pi at times t = remainder mod n, and mu at others (B.1), [S, A].

    The given action is that of t = 0, and with a remainder of 0 the first action of pi comes n steps after it. Solved
    over pairs and phases at once: in phase i, i + 1 steps after the given action, policy i acts.
    """
    mdp, pi, mu = problem
    size, policies = pi.size, np.roll([mu] * (n - 1) + [pi], remainder, axis=0)
    matrix = np.eye(n * size)
    for i, policy in enumerate(policies):
        following = (i + 1) % n
        rows, columns = slice(i * size, (i + 1) * size), slice(following * size, (following + 1) * size)
        matrix[rows, columns] -= operators.step_matrix(mdp, policy)
    return np.linalg.solve(matrix, np.tile(mdp.rewards.ravel(), n))[:size].reshape(pi.shape)


def _largest(differences: np.ndarray) -> float:
    return float(np.abs(differences).max())
