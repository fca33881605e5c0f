"""IMPALA's loss against sums written out by hand, its gradients, and the corrections of Table 2."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.papers.impala.loss import CORRECTIONS, EPSILON_CORRECTION, VtraceLossSettings, impala_loss
from tests.ops.v_targets_oracle import SETTINGS as UNLIKE
from tests.ops.v_targets_oracle import Sequence, oracle

T, B, A = 4, 3, 5
SETTINGS = VtraceLossSettings("vtrace", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.01, 0.5, True)


def data(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(T + 1, B)).astype(np.float32)
    discount = np.full((T, B), 0.9, np.float32)
    discount[1, 0] = 0.0  # an end inside
    boundary = np.zeros((T, B), bool)
    boundary[2, 1] = True
    return {
        "target_logits": rng.normal(size=(T, B, A)).astype(np.float32),
        "behaviour_logits": rng.normal(size=(T, B, A)).astype(np.float32),
        "actions": rng.integers(A, size=(T, B)).astype(np.int32),
        "r_t": rng.normal(size=(T, B)).astype(np.float32),
        "discount_t": discount,
        "v_tm1": values[:-1],
        "v_t": values[1:],
        "is_boundary": boundary,
    }


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def v_trace_by_its_sum(x: dict[str, np.ndarray], rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Targets by Eq. (1)'s sum and the advantages of Section 4.2, for clips of 1."""
    targets, advantages = np.zeros((T, B)), np.zeros((T, B))
    for b in range(B):
        for s in range(T):
            weight, targets[s, b] = 1.0, x["v_tm1"][s, b]
            for t in range(s, T):
                if x["is_boundary"][t, b]:
                    break
                target = x["r_t"][t, b] + x["discount_t"][t, b] * x["v_t"][t, b]
                targets[s, b] += weight * rho[t, b] * (target - x["v_tm1"][t, b])
                weight *= x["discount_t"][t, b] * rho[t, b]
        for s in range(T):
            if not x["is_boundary"][s, b]:
                cut = s == T - 1 or x["is_boundary"][s + 1, b]
                following = x["v_t"][s, b] if cut else targets[s + 1, b]
                target = x["r_t"][s, b] + x["discount_t"][s, b] * following
                advantages[s, b] = rho[s, b] * (target - x["v_tm1"][s, b])
    return targets, advantages


@pytest.mark.parametrize("half", [True, False])
def test_terms_against_the_written_out_sums(half):
    x = data()
    loss = impala_loss(**x, settings=SETTINGS._replace(half_baseline=half))
    log_pi = log_softmax(x["target_logits"])
    log_pi_a = np.take_along_axis(log_pi, x["actions"][..., None], -1)[..., 0]
    log_mu_a = np.take_along_axis(log_softmax(x["behaviour_logits"]), x["actions"][..., None], -1)[..., 0]
    targets, advantages = v_trace_by_its_sum(x, np.minimum(1.0, np.exp(log_pi_a - log_mu_a)))
    live = ~x["is_boundary"]
    entropy = -(np.exp(log_pi) * log_pi).sum(-1)
    expected = {
        "policy_gradient": -log_pi_a * advantages * live,
        "baseline": 0.5 * (0.5 if half else 1.0) * (targets - x["v_tm1"]) ** 2 * live,
        "entropy": -0.01 * entropy * live,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(loss, name), value, rtol=2e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(loss.total, sum(expected.values()), rtol=2e-5, atol=1e-6)


def test_every_setting_reaches_its_place():
    """Against the double loop of `tests/ops`, with settings of which no two are equal."""
    x = data()
    log_pi, log_mu = log_softmax(x["target_logits"]), log_softmax(x["behaviour_logits"])
    log_pi_a, log_mu_a = (np.take_along_axis(y, x["actions"][..., None], -1)[..., 0] for y in (log_pi, log_mu))
    sequence = Sequence(log_pi_a - log_mu_a, x["discount_t"], x["r_t"], x["v_tm1"], x["v_t"], x["is_boundary"])
    live = ~x["is_boundary"]

    def agrees(settings):
        loss = impala_loss(**x, settings=SETTINGS._replace(**settings))
        expected = oracle("vtrace", sequence, **UNLIKE)
        found = loss.extras["targets"], loss.policy_gradient, loss.extras["rho_clipped"]
        wanted = expected["targets"], -log_pi_a * expected["pg_advantages"], expected["rho_clipped"]
        return all(
            np.allclose(np.where(live, a, 0.0), np.where(live, b, 0.0), 1e-4, 1e-5) for a, b in zip(found, wanted)
        )

    assert agrees(UNLIKE)
    for name in UNLIKE:
        assert not agrees(UNLIKE | {name: 0.95}), name


def test_live_and_dead_gradients():
    x = {name: tf.constant(value) for name, value in data().items()}
    floats = ["target_logits", "behaviour_logits", "r_t", "v_tm1", "v_t"]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x[name] for name in floats])
        loss = impala_loss(**x, settings=SETTINGS)
        terms = {name: tf.reduce_sum(getattr(loss, name)) for name in ("policy_gradient", "baseline", "entropy")}

    def live(term: str) -> set[str]:
        gradients = {name: tape.gradient(terms[term], x[name]) for name in floats}
        return {name for name, g in gradients.items() if g is not None and np.any(g.numpy())}

    assert live("policy_gradient") == {"target_logits"}
    assert live("entropy") == {"target_logits"}
    assert live("baseline") == {"v_tm1"}
    expected = 0.5 * (x["v_tm1"] - loss.extras["targets"])  # half-squared error, cost 0.5
    expected = tf.where(x["is_boundary"], 0.0, expected)
    np.testing.assert_allclose(tape.gradient(terms["baseline"], x["v_tm1"]), expected, rtol=1e-5, atol=1e-7)


def test_what_a_boundary_row_holds_changes_nothing():
    x = data()
    poisoned = {name: value.copy() for name, value in x.items()}
    for name in ("r_t", "discount_t", "v_t"):
        poisoned[name][2, 1] = np.nan
    a, b = (impala_loss(**y, settings=SETTINGS).total for y in (x, poisoned))
    np.testing.assert_array_equal(a, b)


def test_epsilon_correction_differs_from_none_only_for_improbable_actions():
    x = data()
    x["target_logits"][0, 0, x["actions"][0, 0]] -= 30.0
    none, epsilon = (impala_loss(**x, settings=SETTINGS._replace(correction=name)) for name in ("none", "epsilon"))
    difference = np.abs(none.policy_gradient - epsilon.policy_gradient)
    assert difference[0, 0] > 1.0
    difference[0, 0] = 0.0
    assert difference.max() < 1e-3
    bound = -np.log(EPSILON_CORRECTION) * np.abs(none.policy_gradient[0, 0] / np.log(1e-13))
    assert abs(epsilon.policy_gradient[0, 0]) < bound * 1.2


def test_epsilon_correction_adds_1e_6_to_the_probability():
    """By hand: log(p + 1e-6), whose gradient is p / (p + 1e-6) of that of log p."""
    x = data()
    x["target_logits"][0, 0, x["actions"][0, 0]] -= 13.0  # to about 1e-6
    none = impala_loss(**x, settings=SETTINGS._replace(correction="none"))
    logits = tf.constant(x["target_logits"])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        losses = impala_loss(**x | {"target_logits": logits}, settings=SETTINGS._replace(correction="epsilon"))
        total = tf.reduce_sum(losses.policy_gradient)
    pi = np.exp(log_softmax(x["target_logits"].astype(np.float64)))
    p = np.take_along_axis(pi, x["actions"][..., None], -1)[..., 0]
    assert 1e-7 < p[0, 0] < 1e-5
    advantages = -none.policy_gradient / np.log(p)
    np.testing.assert_allclose(losses.policy_gradient, -np.log(p + 1e-6) * advantages, rtol=1e-4, atol=1e-6)
    towards = np.eye(A)[x["actions"]] - pi  # the gradient of log p
    expected = -(advantages * p / (p + 1e-6))[..., None] * towards
    np.testing.assert_allclose(tape.gradient(total, logits), expected, rtol=1e-3, atol=1e-6)


def test_corrections_agree_on_policy_and_differ_off_policy():
    x = data()
    off = {n: impala_loss(**x, settings=SETTINGS._replace(correction=n)).total.numpy() for n in CORRECTIONS}
    assert np.abs(off["vtrace"] - off["one_step"]).max() > 1e-2
    assert np.abs(off["one_step"] - off["none"]).max() > 1e-2
    x["behaviour_logits"] = x["target_logits"]
    on = {n: impala_loss(**x, settings=SETTINGS._replace(correction=n)).total.numpy() for n in CORRECTIONS}
    for name in on:
        np.testing.assert_allclose(on[name], on["vtrace"], rtol=1e-3, atol=1e-4)


def test_an_unknown_correction_is_an_error():
    sentence = "^impala_loss: correction must be one of vtrace, one_step, epsilon, none, got 'retrace'$"
    with pytest.raises(ValueError, match=sentence):
        impala_loss(**data(), settings=SETTINGS._replace(correction="retrace"))
