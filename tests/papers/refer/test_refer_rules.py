"""Rules 1 and 2, and the annealing: hand cases, exact gradients, and wrong readings that must fail."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.distributions import gaussian
from repro.papers.refer import refer_rules
from repro.papers.refer.refer_rules import RULES, importance_ratio, importance_weight, near_policy, refer_loss, rule_1

BETA, C_MAX = 0.3, 4.0
RHO = np.array([0.1, 0.25, 0.26, 1.0, 3.9, 4.0, 70.0, np.inf])
NEAR = np.array([False, False, True, True, True, False, False, False])
LOSS = np.array([1.0, -2.0, 3.0, -4.0, 5.0, 6.0, 7.0, 8.0])
KL = np.array([9.0, 0.1, 0.2, 0.0, 0.4, 0.5, 8.0, 3.0])
PARTS = {  # what multiplies the loss and the divergence of each sample
    "refer": (BETA * NEAR, np.full(8, 1 - BETA)),
    "refer_1": (1.0 * NEAR, np.zeros(8)),
    "refer_2": (np.full(8, BETA), np.full(8, 1 - BETA)),
    "none": (np.ones(8), np.zeros(8)),
}


def test_near_policy_excludes_both_bounds_and_what_is_not_finite():
    np.testing.assert_array_equal(near_policy(tf.constant(RHO), C_MAX), NEAR)
    assert not near_policy(tf.constant([np.nan, 0.0]), C_MAX).numpy().any()


@pytest.mark.parametrize("rule", RULES)
def test_values_and_gradients_of_each_rule(rule):
    of_loss, of_kl = PARTS[rule]
    loss, kl, rho = (tf.constant(x) for x in (LOSS, KL, RHO))
    beta = tf.constant(BETA, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch([loss, kl, rho, beta])
        total, task, penalty, near = refer_loss(loss, kl, rho, beta, C_MAX, rule)
    np.testing.assert_allclose(task, of_loss * LOSS)
    np.testing.assert_allclose(penalty, of_kl * KL)
    np.testing.assert_allclose(total, of_loss * LOSS + of_kl * KL)
    np.testing.assert_array_equal(near, NEAR)
    d_loss, d_kl, d_rho, d_beta = tape.gradient(total, [loss, kl, rho, beta])
    np.testing.assert_allclose(d_loss, of_loss)
    np.testing.assert_allclose(d_kl if d_kl is not None else np.zeros(8), of_kl)
    assert d_rho is None
    assert d_beta is None


def test_a_step_down_the_penalty_moves_pi_towards_mu_even_if_far():
    """With beta = 0 only KL(mu || pi) is left: its gradient is (m - m_mu) / sigma^2 by hand, for far samples too."""
    mean, std = tf.constant([[1.0], [50.0]]), tf.constant([2.0])
    behaviour_mean, behaviour_std = tf.constant([[0.0], [0.0]]), tf.constant([1.0])
    action = tf.constant([[0.5], [0.5]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([mean, std])
        rho = tf.exp(gaussian.log_ratio(mean, std, behaviour_mean, behaviour_std, action))
        kl = gaussian.kl(behaviour_mean, behaviour_std, mean, std)
        reversed_kl = gaussian.kl(mean, std, behaviour_mean, behaviour_std)
        total, _, _, near = refer_loss(tf.zeros(2), kl, rho, 0.0, 5.0, "refer")
    np.testing.assert_array_equal(near, [True, False])
    np.testing.assert_allclose(tape.gradient(total, mean), [[1.0 / 4], [50.0 / 4]])  # towards the behaviour's mean
    # d/d sigma of log(sigma) + (1 + m^2) / (2 sigma^2) = 1 / sigma - (1 + m^2) / sigma^3
    np.testing.assert_allclose(tape.gradient(total, std), [2 * 0.5 - (2 + 2501) / 8], rtol=1e-6)
    assert not np.allclose(tape.gradient(reversed_kl, mean), [[1.0 / 4], [50.0 / 4]])


def test_rule_1_alone_for_losses_without_a_policy():
    loss, rho = tf.constant(LOSS), tf.constant(RHO)
    for rule, (uses_rule_1, _) in RULES.items():
        expected = np.where(NEAR, LOSS, 0.0) if uses_rule_1 else LOSS
        np.testing.assert_array_equal(rule_1(loss, rho, C_MAX, rule), expected)


def test_importance_ratios_are_cut_at_both_ends():
    log_rho = tf.constant([-200.0, -7.5, -6.9, 0.0, 6.9, 7.5, 500.0])
    with tf.GradientTape() as tape:
        tape.watch(log_rho)
        rho = importance_ratio(log_rho, 7.0)
    np.testing.assert_allclose(rho, np.exp([-7.0, -7.0, -6.9, 0.0, 6.9, 7.0, 7.0]), rtol=1e-5)
    assert tape.gradient(rho, log_rho) is None
    assert importance_ratio(log_rho, 27.0).numpy()[-1] == pytest.approx(np.exp(27.0), rel=1e-5)
    assert np.isfinite(tf.square(importance_ratio(log_rho, 27.0))).all()
    for bound in (0.0, -7.0, 28.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=rf"^importance_ratio: max_log_ratio must lie in \(0, 27\], got {bound}"):
            importance_ratio(log_rho, bound)


def test_refer_2_cuts_its_weights_at_a_thousand():
    rho = tf.constant([0.0, 1.0, 999.0, 1001.0, 2e9])
    np.testing.assert_allclose(importance_weight(rho, "refer_2"), [0.0, 1.0, 999.0, 1000.0, 1000.0])
    for rule in ("refer", "refer_1", "none"):
        np.testing.assert_array_equal(importance_weight(rho, rule), rho)


def test_annealing_by_hand():
    """Half of C and of eta are left at A t = 1, with the paper's A = 5e-7 after 2e6 steps."""
    assert refer_rules.annealed_c_max(0, 4.0, 5e-7) == 5.0
    assert refer_rules.annealed_c_max(2_000_000, 4.0, 5e-7) == pytest.approx(3.0)
    assert refer_rules.annealed_c_max(6_000_000, 4.0, 5e-7) == pytest.approx(2.0)
    assert refer_rules.annealed_c_max(6_000_000, 4.0, 0.0) == 5.0
    assert refer_rules.annealed_learning_rate(0, 1e-4, 5e-7) == 1e-4
    assert refer_rules.annealed_learning_rate(2_000_000, 1e-4, 5e-7) == pytest.approx(5e-5)


def test_numbers_outside_their_range():
    x = tf.ones([3])
    for beta in (-0.1, 1.1):
        with pytest.raises(ValueError, match=rf"^refer_loss: beta must lie in \[0, 1\], got {beta}$"):
            refer_loss(x, x, x, beta, C_MAX, "refer")
    for c_max in (1.0, 0.5):
        with pytest.raises(ValueError, match=rf"^refer_loss: c_max must lie in \(1, inf\], got {c_max}$"):
            refer_loss(x, x, x, BETA, c_max, "refer")
        with pytest.raises(ValueError, match=r"^rule_1: c_max must lie in \(1, inf\]"):
            rule_1(x, x, c_max, "none")
        with pytest.raises(ValueError, match=r"^near_policy: c_max must lie in \(1, inf\]"):
            refer_rules.near_policy(x, c_max)
    assert refer_loss(x, x, x, BETA, np.inf, "refer").near.numpy().all()


def test_wrong_shapes_and_rules():
    x, other = tf.zeros([3]), tf.zeros([3, 1])
    for arguments in ((x, other, x), (x, x, other), (other, x, x)):
        with pytest.raises(ValueError, match=r"^refer_loss: (kl|rho) must have the shape of loss"):
            refer_loss(*arguments, BETA, C_MAX, "refer")
    with pytest.raises(ValueError, match=r"^refer_loss: beta must be a scalar"):
        refer_loss(x, x, x, tf.zeros([3]), C_MAX, "refer")
    with pytest.raises(ValueError, match=r"^rule_1: rho must have the shape of loss"):
        rule_1(x, other, C_MAX, "refer")
    with pytest.raises(ValueError, match=r"^refer_loss: loss must have rank 1 or more, got shape \(\)"):
        refer_loss(x[0], x[0], x[0], BETA, C_MAX, "refer")
    with pytest.raises(ValueError, match=r"^rule_1: loss must have rank 1 or more, got shape \(\)"):
        rule_1(x[0], x[0], C_MAX, "refer")
    for function in (refer_loss, rule_1):
        arguments = (x, x, x, BETA, C_MAX) if function is refer_loss else (x, x, C_MAX)
        with pytest.raises(ValueError, match="rule must be one of refer, refer_1, refer_2, none, got 'refer_3'"):
            function(*arguments, "refer_3")
    with pytest.raises(ValueError, match="importance_weight: rule must be one of"):
        refer_rules.importance_weight(x, "refer_3")


def test_all_arguments_have_the_type_of_the_loss():
    x = tf.zeros([3])
    with pytest.raises(ValueError, match=r"^refer_loss: rho must be float32, got float64; convert it by tf\.cast"):
        refer_loss(x, x, tf.zeros([3], tf.float64), BETA, C_MAX, "refer")
    with pytest.raises(ValueError, match=r"^refer_loss: loss must be floating, got int32"):
        refer_loss([1, 2, 3], x, x, BETA, C_MAX, "refer")
    assert refer_loss(x, np.zeros(3), np.zeros(3), BETA, C_MAX, "refer").total.dtype == tf.float32
    assert refer_loss(np.zeros(3), np.zeros(3), np.zeros(3), BETA, C_MAX, "refer").total.dtype == tf.float64


@pytest.mark.parametrize("rule", RULES)
def test_eager_graph_and_xla_agree(rule):
    arguments = [tf.constant(x, tf.float32) for x in (LOSS, KL, RHO)]

    def function(loss, kl, rho, beta):
        return refer_loss(loss, kl, rho, beta, C_MAX, rule).total

    expected = function(*arguments, tf.constant(BETA))
    for jit_compile in (False, True):
        compiled = tf.function(function, jit_compile=jit_compile, autograph=False)(*arguments, tf.constant(BETA))
        np.testing.assert_allclose(compiled, expected, rtol=1e-6)
