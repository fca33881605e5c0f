"""Simulated trajectories and learning from them."""

from __future__ import annotations

import numpy as np
import pytest

from repro.tabular import mdps, operators
from repro.tabular.learning import Steps, Stream, finished_episodes, learn
from repro.tabular.operators import Method
from repro.tabular.simulation import sampled_targets, simulate, variances
from tests.tabular.problems import METHODS, chain_problem, printed_target, random_problem


def test_trajectories_have_the_right_frequencies():
    mdp, _, mu = random_problem(0)
    states, actions = simulate(mdp, mu, 40_000, 2, np.random.default_rng(0))
    assert (states.shape, actions.shape) == ((3, 40_000), (2, 40_000))
    first = np.bincount(states[0], minlength=4) / 40_000
    np.testing.assert_allclose(first, mdp.initial, atol=0.01)
    for t in (0, 1):
        x, a = states[t] == 2, actions[t] == 1
        assert a[x].mean() == pytest.approx(mu[2, 1], abs=0.02)
        moved = np.bincount(states[t + 1][x & a], minlength=4) / (x & a).sum()
        np.testing.assert_allclose(moved, mdp.transitions[2, 1], atol=0.03)
    states, actions = simulate(mdp, mu, 10, 2, np.random.default_rng(0), first=(3, 2))
    assert set(states[0]) == {3}
    assert set(actions[0]) == {2}
    assert len(set(actions[1])) > 1


@pytest.mark.parametrize("problem", [random_problem(1), chain_problem(1, 5)])
def test_the_mean_of_simulated_targets_is_the_operator(problem):
    """Within its standard error, for every method, from one first pair."""
    mdp, pi, mu = problem
    q = np.random.default_rng(2).normal(size=pi.shape)
    trajectories = simulate(mdp, mu, 5_000, 100, np.random.default_rng(3), first=(1, 0))
    methods = [method for method in METHODS if method.rule != "importance_sampling"]  # of endless variance
    for method, targets in zip(methods, sampled_targets(mdp, trajectories, pi, mu, methods, q)):
        exact = operators.operator(mdp, pi, mu, method, horizon=100)(q)[1, 0]
        assert abs(targets.mean() - exact) <= 4 * targets.std() / np.sqrt(5_000) + 1e-12, method
        wrong = operators.operator(mdp, pi, mu, Method("uncorrected", n=2), horizon=100)(q)[1, 0]
        if method == Method("retrace", alpha=0.0):
            assert abs(targets.mean() - wrong) > 4 * targets.std() / np.sqrt(5_000)


@pytest.mark.parametrize("rule", ["uncorrected", "importance"])
def test_an_n_step_return_has_no_alpha_whatever_else_is_estimated(rule):
    """As in `operator`; the alpha of a trace rule does count."""
    mdp, pi, mu = random_problem(1)
    q = np.random.default_rng(2).normal(size=pi.shape)
    trajectories = simulate(mdp, mu, 50, 10, np.random.default_rng(3))

    def targets(*methods):
        return sampled_targets(mdp, trajectories, pi, mu, methods, q)

    mixed, plain = Method(rule, n=2, alpha=0.2), Method(rule, n=2)
    np.testing.assert_array_equal(operators.operator(mdp, pi, mu, mixed)(q), operators.operator(mdp, pi, mu, plain)(q))
    np.testing.assert_array_equal(targets(mixed, plain), targets(plain, plain))
    assert not np.allclose(*targets(Method("retrace", alpha=0.2), Method("retrace")))


def test_estimated_variance_is_the_exact_one():
    """Definition 1.4 with the paper's 5000 trajectories of 100 steps."""
    mdp, pi, mu = random_problem(4)
    methods = [Method("uncorrected", n=5), Method("retrace"), Method("retrace", alpha=0.5), Method("tree_backup")]
    q = np.random.default_rng(0).normal(size=pi.shape)
    trajectories = simulate(mdp, mu, 5_000, 100, np.random.default_rng(5))
    first = mdp.initial[:, None] * mu
    exact = [np.sum(first * operators.update_variance(mdp, pi, mu, method, q)) for method in methods]
    np.testing.assert_allclose(variances(mdp, trajectories, pi, mu, methods, q), exact, rtol=0.1)
    assert abs(exact[0] - exact[1]) > 0.2 * exact[0]


def test_a_stream_starts_a_new_episode_after_each_end():
    mdp, _, mu = chain_problem(0, 3)
    stream = Stream(mdp, mu, 50, np.random.default_rng(0))
    first, second = stream.take(40), stream.take(40)
    states, following = (
        np.concatenate([getattr(s, name) for s in (first, second)]) for name in ("states", "following")
    )
    ended = following[:-1] == 2
    assert 0.1 < ended.mean() < 0.9
    np.testing.assert_array_equal(states[1:][~ended], following[:-1][~ended])
    starts = np.bincount(states[1:][ended], minlength=3) / ended.sum()
    np.testing.assert_allclose(starts, mdp.initial, atol=0.06)


@pytest.mark.parametrize("visits", ["compound", "mean"])
@pytest.mark.parametrize("method", [m for m in METHODS if m.rule != "importance_sampling"], ids=str)
def test_learning_follows_the_printed_targets_within_episodes_and_the_round(method, visits):
    problem = chain_problem(3, 4)
    mdp, pi, mu = problem
    steps = Stream(mdp, mu, 3, np.random.default_rng(4)).take(30)
    before = np.random.default_rng(5).normal(size=(3, *pi.shape))
    before[:, mdp.terminal] = 0.0
    expected, ends = before.copy(), 0
    found: dict[tuple[int, int, int], list[float]] = {}  # targets of each pair that is visited
    for r in range(3):
        for t in range(30):
            last = t
            while last + 1 < 30 and not mdp.terminal[steps.following[last, r]]:
                last += 1
            ends += last < 29
            states = np.append(steps.states[t : last + 1, r], steps.following[last, r])
            target = printed_target(problem, method, before[r], states, steps.actions[t : last + 1, r])
            x, a = steps.states[t, r], steps.actions[t, r]
            found.setdefault((r, x, a), []).append(target)
    assert ends > 10
    assert min(map(len, found.values())) < max(map(len, found.values()))
    for pair, targets in found.items():
        for target in [np.mean(targets)] if visits == "mean" else targets:
            expected[pair] += 0.1 * (target - expected[pair])
    q = before.copy()
    learn(q, mdp, steps, np.broadcast_to(pi, q.shape), mu, method, 0.1, visits)
    np.testing.assert_allclose(q, expected, atol=1e-10)


def test_learning_settles_at_the_fixed_point():
    """One-step targets are certain on the chain, so that a constant learning rate leaves no noise."""
    mdp = mdps.chain(4, 0.9)
    mu, pi = mdps.uniform_policy(mdp), mdps.optimal_policy(mdp)
    stream = Stream(mdp, mu, 1, np.random.default_rng(0))
    q = np.zeros((1, 4, 2))
    for _ in range(60):
        learn(q, mdp, stream.take(100), pi[None], mu, Method("uncorrected", n=1), 0.1, "compound")
    np.testing.assert_allclose(q[0], mdps.action_values(mdp, pi), atol=1e-3)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Method("vtrace"), "Unknown rule 'vtrace': choose one of uncorrected, importance, retrace"),
        (Method("importance"), "importance: n must be 1 or more, got 0"),
    ],
)
def test_a_wrong_method_is_refused(method, message):
    mdp, pi, mu = random_problem(5)
    q = np.zeros(pi.shape)
    with pytest.raises(ValueError, match=message):
        sampled_targets(mdp, simulate(mdp, mu, 5, 5, np.random.default_rng(0)), pi, mu, [method], q)
    steps = Stream(mdp, mu, 1, np.random.default_rng(0)).take(5)
    with pytest.raises(ValueError, match=message):
        learn(q[None], mdp, steps, pi[None], mu, method, 0.1, "compound")


def test_unknown_visits_are_refused():
    mdp, pi, mu = random_problem(5)
    steps = Stream(mdp, mu, 1, np.random.default_rng(0)).take(5)
    with pytest.raises(ValueError, match="visits='first': choose one of compound, mean"):
        learn(np.zeros((1, *pi.shape)), mdp, steps, pi[None], mu, Method("uncorrected", n=1), 0.1, "first")


def test_episodes_of_a_stream_are_those_that_end_within_its_steps():
    following = np.array([[1, 2], [2, 0], [0, 2], [1, 1]])  # state 2 is terminal
    states, actions = np.array([[0, 1], [1, 0], [1, 0], [0, 0]]), np.arange(8).reshape(4, 2)
    found = [
        list(finished_episodes(Steps(states, actions, following), np.array([False, False, True]), stream))
        for stream in range(2)
    ]
    assert [[(end, steps.actions[:, 0].tolist()) for end, steps in episodes] for episodes in found] == [
        [(2, [0, 2])],
        [(1, [1]), (3, [3, 5])],
    ]
    (_, last) = found[1][1]
    assert (last.states.tolist(), last.following.tolist()) == ([[0], [0]], [[0], [2]])


def test_steps_are_taken_by_every_stream_on_its_own():
    mdp, _, mu = random_problem(5)
    steps = Stream(mdp, mu, 2, np.random.default_rng(0)).take(50)
    assert isinstance(steps, Steps)
    assert np.any(steps.states[:, 0] != steps.states[:, 1])
