"""The losses of V-RACER, DDPG and NAF: gradients against the paper's objectives by finite differences, float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from repro.distributions import gaussian
from repro.papers.refer.advantages import advantage, num_coefficients
from repro.papers.refer.loss import (
    VALUE_TARGETS,
    Policies,
    Variant,
    advantage_loss,
    ddpg_loss,
    naf_loss,
    naf_q,
    off_policy_gradient_loss,
    one_step_target,
    value_loss,
    value_target,
    vracer_loss,
)
from repro.papers.refer.refer_rules import RULES

RNG = np.random.default_rng(25)
B, A = 6, 2
BETA, C_MAX, GAMMA = 0.3, 3.0, 0.9
MEAN = RNG.normal(size=(B, A))
STD = RNG.uniform(0.5, 1.0, size=(B, A))
BEHAVIOUR_MEAN = MEAN + 0.5 * RNG.normal(size=(B, A))
BEHAVIOUR_STD = RNG.uniform(0.5, 1.0, size=(B, A))
ACTION = BEHAVIOUR_MEAN + BEHAVIOUR_STD * RNG.normal(size=(B, A))
V, Q_RET, V_TBC, R, NEXT_VALUE, Q, Q_OF_MEAN = RNG.normal(size=(7, B))
COEFFICIENTS = RNG.normal(size=(B, num_coefficients("gaussian", A)))
DISCOUNT = np.array([GAMMA, GAMMA, 0.0, GAMMA, GAMMA, 0.0])


def density(action, mean, std):
    return scipy.stats.norm.pdf(action, mean, std).prod(axis=-1)


RHO = density(ACTION, MEAN, STD) / density(ACTION, BEHAVIOUR_MEAN, BEHAVIOUR_STD)
NEAR = (RHO > 1 / C_MAX) & (RHO < C_MAX)
POLICIES = Policies(MEAN, STD, BEHAVIOUR_MEAN, BEHAVIOUR_STD)


def variant(rule, form="none", kind="current"):
    return Variant(rule, form, 7.0, kind)


def kl_mu_pi(mean, std):
    """KL(mu || pi) by its definition, from entropies in closed form."""
    ratio = BEHAVIOUR_STD / std
    return (0.5 * (ratio**2 + ((mean - BEHAVIOUR_MEAN) / std) ** 2 - 1) - np.log(ratio)).sum(axis=-1)


def numeric_gradient(function, x, h=1e-6):
    """Gradient of a sum over the batch, by central differences in every entry."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        sums = []
        for sign in (1, -1):
            shifted = x.copy()
            shifted[index] += sign * h
            sums.append(function(shifted).sum())
        gradient[index] = (sums[0] - sums[1]) / (2 * h)
    return gradient


def gradients(function, *arguments):
    """Gradients of `function`, a loss of each sample, with respect to every argument; 0 where there is none."""
    tensors = [tf.constant(x) for x in arguments]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        loss = function(*tensors)
    found = tape.gradient(loss, tensors)
    return [np.zeros(np.shape(x)) if g is None else g.numpy() for x, g in zip(arguments, found)]


def test_the_batch_has_near_and_far_samples():
    assert NEAR.sum() == 4
    assert (RHO > C_MAX).sum() == 1
    assert (RHO < 1 / C_MAX).sum() == 1


def test_off_policy_gradient_is_that_of_equation_5():
    """grad of - pi / mu (Q_ret - V), differentiated numerically through pi, with V and Q_ret constant."""
    log_pi = gaussian.log_prob(MEAN, STD, ACTION)
    actual = gradients(lambda log_pi, v, q: off_policy_gradient_loss(log_pi, RHO, q, v), log_pi, V, Q_RET)
    assert not actual[1].any()
    assert not actual[2].any()

    def objective(mean):
        mu = density(ACTION, BEHAVIOUR_MEAN, BEHAVIOUR_STD)
        return -density(ACTION, mean, STD) / mu * (Q_RET - V)

    def loss(mean):
        return off_policy_gradient_loss(gaussian.log_prob(mean, STD, ACTION), RHO, Q_RET, V)

    np.testing.assert_allclose(gradients(loss, MEAN)[0], numeric_gradient(objective, MEAN), rtol=1e-6)


def test_value_and_advantage_losses_by_hand():
    v, target = np.array([3.0]), np.array([1.0])
    np.testing.assert_allclose(value_loss(v, target), [2.0])
    assert [x.tolist() for x in gradients(value_loss, v, target)] == [[2.0], [0.0]]
    # rho (A + V - Q_ret) = 2 (1 + 3 - 1.5) = 5; half of its square, and rho times 5
    arguments = [np.array([x]) for x in (1.0, 2.0, 3.0, 1.5)]
    np.testing.assert_allclose(advantage_loss(*arguments), [12.5])
    assert [x.tolist() for x in gradients(advantage_loss, *arguments)] == [[10.0], [0.0], [0.0], [0.0]]


def test_value_targets_by_hand():
    """Eq. (7) with V = 3, A = 1, Q_ret = 10: V + min(1, rho) (Q_ret - V - A) = 3 + 6 min(1, rho)."""
    rho = np.array([0.0, 0.5, 1.0, 4.0])
    v, action_advantage, q_ret, v_tbc = (np.full(4, x) for x in (3.0, 1.0, 10.0, -7.0))
    np.testing.assert_allclose(value_target(v, rho, action_advantage, q_ret, v_tbc, "current"), [3, 6, 9, 9])
    np.testing.assert_allclose(value_target(v, rho, action_advantage, q_ret, v_tbc, "stored"), v_tbc)
    for kind in VALUE_TARGETS:
        found = gradients(lambda *x, kind=kind: value_target(*x, kind), v, rho, action_advantage, q_ret, v_tbc)
        assert not np.any(found)
    with pytest.raises(ValueError, match="kind must be one of current, stored, got 'old'"):
        value_target(v, rho, action_advantage, q_ret, v_tbc, "old")
    with pytest.raises(ValueError, match=r"^value_target: rho must have the shape of v"):
        value_target(v, rho[:, None], action_advantage, q_ret, v_tbc, "stored")


def test_a_far_sample_does_not_pull_the_value_back():
    """rho = e^-7: nearly no gradient to V; towards the stored target it is V - V_tbc in full, whatever rho is."""
    mean, ones = np.array([[9.0]]), np.ones((1, 1))
    policies = Policies(mean, ones, 0 * ones, ones)
    v, q_ret, v_tbc = np.array([2.0]), np.array([50.0]), np.array([-3.0])

    def loss(v, kind):
        kinds = variant("none", kind=kind)
        return vracer_loss(0 * ones, policies, v, np.zeros((1, 0)), q_ret, v_tbc, 1.0, 5.0, kinds).total

    np.testing.assert_allclose(gradients(lambda v: loss(v, "current"), v)[0], -np.exp(-7) * 48.0, rtol=1e-6)
    np.testing.assert_allclose(gradients(lambda v: loss(v, "stored"), v)[0], 5.0)


@pytest.mark.parametrize("kind", VALUE_TARGETS)
@pytest.mark.parametrize("rule", RULES)
def test_vracer_under_each_rule(rule, kind):
    """Every gradient of Algorithm 3 is that of its objective, skipped, scaled and penalised as Eq. (10) says."""
    uses_rule_1, uses_rule_2 = RULES[rule]
    scale = (BETA if uses_rule_2 else 1.0) * (NEAR if uses_rule_1 else np.ones(B))
    pull = (1.0 - BETA) if uses_rule_2 else 0.0

    def loss(mean, std, v, coefficients, q_ret, v_tbc):
        policies = Policies(mean, std, BEHAVIOUR_MEAN, BEHAVIOUR_STD)
        arguments = (ACTION, policies, v, coefficients, q_ret, v_tbc, BETA, C_MAX, variant(rule, "gaussian", kind))
        return vracer_loss(*arguments).total

    d_mean, d_std, d_v, d_coefficients, *dead = gradients(loss, MEAN, STD, V, COEFFICIENTS, Q_RET, V_TBC)
    assert not any(x.any() for x in dead)

    mu = density(ACTION, BEHAVIOUR_MEAN, BEHAVIOUR_STD)

    def of_mean(mean):
        objective = -density(ACTION, mean, STD) / mu * (Q_RET - V)
        return scale * objective + pull * kl_mu_pi(mean, STD)

    def of_std(std):
        objective = -density(ACTION, MEAN, std) / mu * (Q_RET - V)
        return scale * objective + pull * kl_mu_pi(MEAN, std)

    def of_coefficients(coefficients):
        fitted = advantage("gaussian", coefficients, ACTION, MEAN, STD).numpy()
        return scale * 0.5 * (RHO * (fitted + V - Q_RET)) ** 2

    np.testing.assert_allclose(d_mean, numeric_gradient(of_mean, MEAN), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(d_std, numeric_gradient(of_std, STD), rtol=1e-5, atol=1e-8)
    fitted = advantage("gaussian", COEFFICIENTS, ACTION, MEAN, STD).numpy()
    target = V_TBC if kind == "stored" else V + np.minimum(1.0, RHO) * (Q_RET - (V + fitted))
    np.testing.assert_allclose(d_v, scale * (V - target))
    np.testing.assert_allclose(d_coefficients, numeric_gradient(of_coefficients, COEFFICIENTS), rtol=1e-4, atol=1e-8)


def test_vracer_without_an_advantage_and_its_extras():
    found = vracer_loss(ACTION, POLICIES, V, np.zeros((B, 0)), Q_RET, V_TBC, BETA, C_MAX, variant("refer"))
    np.testing.assert_allclose(found.rho, RHO)
    np.testing.assert_allclose(found.extras["kl"], kl_mu_pi(MEAN, STD))
    np.testing.assert_array_equal(found.extras["near"], NEAR)
    np.testing.assert_array_equal(found.advantage, np.zeros(B))
    np.testing.assert_array_equal(found.action_advantage, np.zeros(B))
    error = np.minimum(1.0, RHO) * (V - Q_RET)
    np.testing.assert_allclose(found.value, 0.5 * error**2)
    np.testing.assert_allclose(found.extras["td_error"], error)
    expected = np.where(NEAR, BETA * (found.policy + found.value), 0.0) + (1 - BETA) * kl_mu_pi(MEAN, STD)
    np.testing.assert_allclose(found.total, expected)


@pytest.mark.parametrize("rule", ["refer", "refer_1", "refer_2"])
@pytest.mark.parametrize("form", ["none", "gaussian"])
def test_ratios_that_overflow_leave_gradients_finite(rule, form):
    """An action 40 stds of pi from mu's mean, in float32: the ratio would be infinite, or 0 the other way."""
    action = tf.constant([[40.0], [0.0]])
    mean, std = tf.constant([[40.0], [40.0]]), tf.constant([1.0])
    coefficients = tf.ones([2, num_coefficients(form, 1)])
    with tf.GradientTape() as tape:
        tape.watch([mean, coefficients])
        policies = Policies(mean, std, tf.zeros([2, 1]), std)
        arguments = (tf.zeros(2), coefficients, tf.ones(2), tf.ones(2), 0.5, 5.0, variant(rule, form))
        found = vracer_loss(action, policies, *arguments)
    np.testing.assert_allclose(found.rho, np.exp([7.0, -7.0]), rtol=1e-6)
    assert np.isfinite(found.total).all()
    d_mean, d_coefficients = tape.gradient(found.total, [mean, coefficients])
    assert np.isfinite(d_mean).all()
    assert d_coefficients is None or np.isfinite(d_coefficients).all()


def test_refer_2_clips_the_weights_at_a_thousand():
    """rho = exp(6.95) = 1043: the policy gradient is that of 1000, and rho to be stored stays as it is."""
    action = mean = np.array([[13.9**0.5]])
    ones = np.ones((1, 1))
    v, q_ret = np.zeros(1), np.ones(1)

    def loss(std):
        policies = Policies(mean, std, np.zeros((1, 1)), ones)
        return vracer_loss(action, policies, v, np.zeros((1, 0)), q_ret, v, 1.0, 5.0, variant("refer_2")).total

    # at a = m, d log pi / d sigma = -1 / sigma
    np.testing.assert_allclose(gradients(loss, ones)[0], [[1000.0]])
    found = vracer_loss(
        action, Policies(mean, ones, 0 * ones, ones), v, np.zeros((1, 0)), q_ret, v, 1.0, 5.0, variant("refer_2")
    )
    np.testing.assert_allclose(found.rho, [np.exp(6.95)])


def test_targets_end_with_the_episode():
    poisoned = np.where(DISCOUNT == 0, np.nan, NEXT_VALUE)
    expected = R + np.where(DISCOUNT == 0, 0.0, GAMMA * NEXT_VALUE)
    np.testing.assert_allclose(one_step_target("target", R, DISCOUNT, poisoned), expected)


@pytest.mark.parametrize("rule", RULES)
def test_ddpg_under_each_rule(rule):
    """Algorithm 4: Rule 1 skips both networks' samples, beta and the penalty concern the policy alone."""
    uses_rule_1, uses_rule_2 = RULES[rule]
    kept = NEAR if uses_rule_1 else np.ones(B)
    scale, pull = (BETA, 1.0 - BETA) if uses_rule_2 else (1.0, 0.0)

    def losses(mean, q, q_of_mean, next_value):
        policies = Policies(mean, STD, BEHAVIOUR_MEAN, BEHAVIOUR_STD)
        return ddpg_loss(ACTION, policies, q, q_of_mean, R, DISCOUNT, next_value, BETA, C_MAX, rule)

    arguments = (MEAN, Q, Q_OF_MEAN, NEXT_VALUE)
    d_mean, d_q, d_q_of_mean, d_next = gradients(lambda *x: losses(*x).critic, *arguments)
    np.testing.assert_allclose(d_q, kept * (Q - R - DISCOUNT * NEXT_VALUE))
    assert not d_mean.any()
    assert not d_q_of_mean.any()
    assert not d_next.any()

    d_mean, d_q, d_q_of_mean, d_next = gradients(lambda *x: losses(*x).policy, *arguments)
    np.testing.assert_allclose(d_q_of_mean, -scale * kept)
    np.testing.assert_allclose(d_mean, pull * numeric_gradient(lambda m: kl_mu_pi(m, STD), MEAN), atol=1e-8)
    assert not d_q.any()
    assert not d_next.any()
    np.testing.assert_allclose(losses(*arguments).rho, RHO)
    np.testing.assert_allclose(losses(*arguments).extras["td_error"], Q - R - DISCOUNT * NEXT_VALUE)


def test_naf_value_by_hand():
    """L = [[1, 0], [2, 1]], L L' = [[1, 2], [2, 5]]; u = (1, 2): u' L L' u = 1 + 8 + 20."""
    raw_one = np.log(np.expm1(1.0))
    entries, action = np.array([[raw_one, 2.0, raw_one]]), np.array([[1.0, 2.0]])
    np.testing.assert_allclose(naf_q(np.array([7.0]), entries, action, np.zeros((1, 2))), [7.0 - 29.0])
    d_v, d_entries, d_action, d_mean = gradients(naf_q, np.array([7.0]), entries, action, np.zeros((1, 2)))
    np.testing.assert_allclose(d_v, [1.0])
    np.testing.assert_allclose(d_mean, [[2 * (1 + 4), 2 * (2 + 10)]])  # 2 L L' u
    assert d_entries.any()
    assert not d_action.any()


@pytest.mark.parametrize("rule", RULES)
def test_naf_under_each_rule(rule):
    """One network: skipped, scaled and penalised as a whole; the mean learns through Q and the penalty."""
    uses_rule_1, uses_rule_2 = RULES[rule]
    scale = (BETA if uses_rule_2 else 1.0) * (NEAR if uses_rule_1 else np.ones(B))
    pull = (1.0 - BETA) if uses_rule_2 else 0.0
    entries = RNG.normal(size=(B, 3))

    def loss(mean, v, next_value):
        policies = Policies(mean, STD, BEHAVIOUR_MEAN, BEHAVIOUR_STD)
        q = naf_q(v, entries, ACTION, mean)
        return naf_loss(ACTION, policies, q, R, DISCOUNT, next_value, BETA, C_MAX, rule).total

    d_mean, d_v, d_next = gradients(loss, MEAN, V, NEXT_VALUE)
    error = naf_q(V, entries, ACTION, MEAN).numpy() - R - DISCOUNT * NEXT_VALUE
    np.testing.assert_allclose(d_v, scale * error)
    assert not d_next.any()

    def objective(mean):
        error = naf_q(V, entries, ACTION, mean).numpy() - R - DISCOUNT * NEXT_VALUE
        return scale * 0.5 * error**2 + pull * kl_mu_pi(mean, STD)

    np.testing.assert_allclose(d_mean, numeric_gradient(objective, MEAN), rtol=1e-5, atol=1e-7)


def test_eager_graph_and_xla_agree():
    def function(action, mean, std, behaviour_mean, behaviour_std, v, coefficients, q_ret, v_tbc):
        policies = Policies(mean, std, behaviour_mean, behaviour_std)
        return vracer_loss(
            action, policies, v, coefficients, q_ret, v_tbc, BETA, C_MAX, variant("refer", "gaussian")
        ).total

    arguments = [x.astype(np.float32) for x in (ACTION, *POLICIES, V, COEFFICIENTS, Q_RET, V_TBC)]
    expected = function(*arguments)
    for jit_compile in (False, True):
        compiled = tf.function(function, jit_compile=jit_compile, autograph=False)(*arguments)
        np.testing.assert_allclose(compiled, expected, rtol=1e-3, atol=1e-5)


def test_wrong_shapes_name_function_and_argument():
    column = np.zeros((B, 1))
    with pytest.raises(ValueError, match=r"^off_policy_gradient_loss: q_ret must have the shape of log_pi"):
        off_policy_gradient_loss(V, RHO, column, V)
    with pytest.raises(ValueError, match=r"^value_loss: v_tbc must have the shape of v"):
        value_loss(V, column)
    with pytest.raises(ValueError, match=r"^advantage_loss: v must have the shape of action_advantage"):
        advantage_loss(V, RHO, column, Q_RET)
    with pytest.raises(ValueError, match=r"^ddpg_loss: next_value must have the shape of r"):
        ddpg_loss(ACTION, POLICIES, Q, Q_OF_MEAN, R, DISCOUNT, column, BETA, C_MAX, "refer")
    with pytest.raises(ValueError, match=r"^naf_q: mean\[:, 0\] must have the shape of v"):
        naf_q(column, np.zeros((B, 3)), ACTION, MEAN)
