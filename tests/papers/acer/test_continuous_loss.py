"""ACER's continuous loss against sums written out by hand, Eq. 7 by quadrature, and its gradients."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate

from repro.distributions import gaussian
from repro.papers.acer.continuous_loss import (
    ContinuousLossSettings,
    Steps,
    continuous_acer_loss,
    divergence_gradient,
    mean_gradient,
    policy_gradient,
    policy_loss,
    q_ret_and_q_opc,
    value_target,
)
from tests.papers.acer.continuous_oracle import (
    SIGMA,
    A,
    B,
    T,
    acer_gradient,
    acer_updates,
    corrected_q,
    data,
    live_rows,
    poison,
    projected,
    rho,
)

SETTINGS = ContinuousLossSettings(truncation=1.5, delta=0.3)


def action_values(seed=1):
    """q [T, B], a' [T, B, A] and Q~(x, a') [T, B]."""
    rng = np.random.default_rng(seed)
    q, sampled_q = rng.normal(size=(2, T, B)).astype(np.float32)
    sampled_action = data()["mean"] + SIGMA * rng.normal(size=(T, B, A))
    return q, sampled_action.astype(np.float32), sampled_q


def constants(x):
    return Steps(**{name: None if value is None else tf.constant(value) for name, value in x.items()})


def test_the_data_makes_every_clip_active():
    """Ratios on both sides of 1, of c, and of the truncation of a'; a trust region that is met and one that is not."""
    x, (q, sampled_action, sampled_q) = data(), action_values()
    rhos = np.array([rho(x, s, b) for s, b in live_rows(x)])
    sampled = np.array([rho(x, s, b, sampled_action[s, b]) for s, b in live_rows(x)])
    assert all((rhos > bound).sum() > 2 and (rhos < bound).sum() > 2 for bound in (1.0, SETTINGS.truncation))
    assert (sampled > SETTINGS.truncation).sum() > 2
    assert (sampled < SETTINGS.truncation).sum() > 2
    active = (
        continuous_acer_loss(constants(x), q, sampled_action, sampled_q, SETTINGS).extras["trust_region_active"].numpy()
    )
    assert 3 < active.sum() < T * B - 3


def test_q_ret_and_q_opc_by_their_sums():
    x, (q, _, _) = data(), action_values()
    q_ret, q_opc = q_ret_and_q_opc(constants(poison(x)), q)
    expected = corrected_q(x, q, lambda ratio: min(1.0, ratio ** (1.0 / A)))
    np.testing.assert_allclose(q_ret, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(q_opc, corrected_q(x, q, lambda ratio: 1.0), rtol=1e-4, atol=1e-5)
    plain = corrected_q(x, q, lambda ratio: min(1.0, ratio))
    np.testing.assert_allclose(q_ret_and_q_opc(constants(x), q, "plain")[0], plain, rtol=1e-4, atol=1e-5)
    assert np.abs(plain - expected).max() > 0.05


def test_targets_at_a_terminal_at_a_time_limit_and_at_the_end():
    x, (q, _, _) = data(), action_values()
    for target in q_ret_and_q_opc(constants(x), q):
        np.testing.assert_allclose(target[1, 0], x["r_t"][1, 0], rtol=1e-6)
        for s, b in ((2, 1), (T - 1, 2)):
            np.testing.assert_allclose(target[s, b], x["r_t"][s, b] + 0.9 * x["v_t"][s, b], rtol=1e-5)
        assert target[3, 1] == 0.0


def test_with_exact_values_on_policy_all_targets_are_the_same():
    """rho = 1: Q_ret and Q_opc are one number, and the target of V is Q_ret - Q~ + V."""
    x, (q, _, _) = data(), action_values()
    x |= {"behaviour_mean": x["mean"], "behaviour_std": np.full((T, B, A), SIGMA, np.float32)}
    q_ret, q_opc = q_ret_and_q_opc(constants(x), q)
    np.testing.assert_allclose(q_ret, q_opc, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(value_target(np.zeros((T, B)), q_ret, q, x["v_tm1"]), q_ret - q + x["v_tm1"], atol=1e-5)


def test_value_target_by_hand():
    log_rho = np.log(np.array([[0.5, 1.0, 4.0]], np.float32))
    target = value_target(log_rho, np.full((1, 3), 3.0), np.full((1, 3), 1.0), np.full((1, 3), 10.0))
    np.testing.assert_allclose(target, [[11.0, 12.0, 12.0]], rtol=1e-6)
    with pytest.raises(ValueError, match="q_ret"):
        value_target(log_rho, np.zeros((1, 1)), np.zeros((1, 3)), np.zeros((1, 3)))


def test_statistics_gradients_are_those_of_the_distribution():
    x = {name: tf.constant(value) for name, value in data().items()}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x["mean"])
        log_prob = gaussian.log_prob(x["mean"], x["std"], x["action"])
        kl = gaussian.kl(x["average_mean"], x["std"], x["mean"], x["std"])
    found = mean_gradient(x["action"], x["mean"], x["std"])
    np.testing.assert_allclose(found, tape.gradient(log_prob, x["mean"]), rtol=1e-4, atol=1e-4)
    found = divergence_gradient(x["average_mean"], x["mean"], x["std"])
    np.testing.assert_allclose(found, tape.gradient(kl, x["mean"]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("truncation", [0.5, 1.5, 5.0, float("inf")])
def test_policy_gradient_by_its_two_terms(truncation):
    x, (q_opc, sampled_action, sampled_q) = data(), action_values()
    g = policy_gradient(constants(x), q_opc, sampled_action, sampled_q, truncation)
    expected = acer_gradient(x, q_opc, sampled_action, sampled_q, truncation)
    live = ~x["is_boundary"]
    np.testing.assert_allclose(g[live], expected[live], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("truncation", [0.2, 1.0, 3.0])
def test_truncated_and_corrected_terms_add_up_to_the_policy_gradient(truncation):
    """Eq. 7 in one dimension, by quadrature: E_mu[first] + E_pi[second] = E_pi[d log f(a|phi) (Q(a) - V)]."""
    mean, behaviour_mean, behaviour_std, v = 0.2, -0.3, 0.5, 0.4

    def q(a):
        return np.sin(3.0 * a) + a**2

    def steps(a):
        row = np.ones((1, a.size, 1), np.float32)
        return Steps(
            action=a[None, :, None].astype(np.float32),
            mean=mean * row,
            std=np.float32(SIGMA) * row,
            behaviour_mean=behaviour_mean * row,
            behaviour_std=behaviour_std * row,
            average_mean=None,
            r_t=row[..., 0],
            discount_t=row[..., 0],
            v_tm1=v * row[..., 0],
            v_t=row[..., 0],
            is_boundary=np.zeros((1, a.size), bool),
        )

    def gradient(a, of_action, of_sample):
        """g at action a and a' = a, with the advantage of one of the two set to 0."""
        q_opc = (np.where(of_action, q(a), v) * np.ones((1, a.size))).astype(np.float32)
        sampled_q = (np.where(of_sample, q(a), v) * np.ones((1, a.size))).astype(np.float32)
        sample = a[None, :, None].astype(np.float32)
        return policy_gradient(steps(a), q_opc, sample, sampled_q, truncation).numpy()[0, :, 0]

    def normal(a, centre, std):
        return np.exp(-0.5 * ((a - centre) / std) ** 2) / std / np.sqrt(2 * np.pi)

    def expectation(function, centre, std):
        points = np.linspace(-4.0, 4.0, 8001)
        values = function(points) * normal(points, centre, std)
        return integrate.simpson(values, x=points)

    def exact(a):
        return (a - mean) / SIGMA**2 * (q(a) - v) * normal(a, mean, SIGMA)

    expected, _ = integrate.quad(exact, -4.0, 4.0, epsabs=1e-10)
    first = expectation(lambda a: gradient(a, True, False), behaviour_mean, behaviour_std)
    second = expectation(lambda a: gradient(a, False, True), mean, SIGMA)
    assert abs(second) > 0.03
    np.testing.assert_allclose(first + second, expected, rtol=1e-4)


def updates(x, q, sampled_action, sampled_q):
    """What descent adds to the mean, to Q~ and to V: minus the gradients of the total, and the loss."""
    mean, v, q = (tf.constant(y) for y in (x["mean"], x["v_tm1"], q))
    with tf.GradientTape() as tape:
        tape.watch([mean, v, q])
        steps = constants(x)._replace(mean=mean, v_tm1=v)
        loss = continuous_acer_loss(steps, q, sampled_action, sampled_q, SETTINGS)
        total = tf.reduce_sum(loss.total)
    return [-gradient.numpy() for gradient in tape.gradient(total, [mean, q, v])], loss


def test_updates_are_those_of_algorithm_3():
    x, values = data(), action_values()
    found, loss = updates(poison(x), *values)
    z, of_q, of_v = acer_updates(x, *values, SETTINGS.truncation, SETTINGS.delta)
    np.testing.assert_allclose(found[0], z, rtol=5e-3, atol=5e-3)
    np.testing.assert_allclose(found[1], of_q, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[2], of_v, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(loss.critic, 0.5 * (of_q**2 + of_v**2), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(loss.total, loss.policy + loss.critic)
    k = divergence_gradient(x["average_mean"], x["mean"], x["std"])
    assert np.sum(k * found[0], axis=-1).max() < SETTINGS.delta + 1e-3


def test_q_ret_may_take_the_place_of_q_opc_in_the_policy_gradient():
    x, (q, sampled_action, sampled_q) = data(), action_values()
    settings = SETTINGS._replace(traces="plain", policy_target="q_ret")
    mean = tf.constant(x["mean"])
    with tf.GradientTape() as tape:
        tape.watch(mean)
        loss = continuous_acer_loss(constants(x)._replace(mean=mean), q, sampled_action, sampled_q, settings)
        total = tf.reduce_sum(loss.total)
    q_ret = corrected_q(x, q, lambda ratio: min(1.0, ratio))
    g = acer_gradient(x, q_ret, sampled_action, sampled_q, settings.truncation)
    z = np.zeros((T, B, A))
    for s, b in live_rows(x):
        z[s, b] = projected(x, g[s, b], s, b, settings.delta)
    np.testing.assert_allclose(-tape.gradient(total, mean), z, rtol=5e-3, atol=5e-3)
    of_q_opc = continuous_acer_loss(
        constants(x), q, sampled_action, sampled_q, settings._replace(policy_target="q_opc")
    )
    np.testing.assert_array_equal(of_q_opc.critic, loss.critic)
    assert np.abs(of_q_opc.policy - loss.policy).max() > 0.05


def test_without_an_average_policy_the_gradient_is_not_projected():
    x, g = data(average=False), np.random.default_rng(0).normal(size=(T, B, A)).astype(np.float32)
    mean = tf.constant(x["mean"])
    with tf.GradientTape() as tape:
        tape.watch(mean)
        loss, extras = policy_loss(g, constants(x)._replace(mean=mean), 0.0)
        total = tf.reduce_sum(loss)
    assert extras == {}
    np.testing.assert_allclose(tape.gradient(total, mean), np.where(x["is_boundary"][..., None], 0.0, -g))


def test_live_and_dead_gradients():
    x, values = data(), action_values()
    floats = {name: tf.constant(value) for name, value in x.items() if name != "is_boundary"}
    floats |= {name: tf.constant(value) for name, value in zip(("q", "sampled_action", "sampled_q"), values)}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(floats)
        steps = Steps(**{name: floats.get(name) for name in Steps._fields if name != "is_boundary"}, is_boundary=None)
        steps = steps._replace(is_boundary=tf.constant(x["is_boundary"]))
        loss = continuous_acer_loss(steps, floats["q"], floats["sampled_action"], floats["sampled_q"], SETTINGS)
        terms = {name: tf.reduce_sum(getattr(loss, name)) for name in ("policy", "critic")}
        extras = tf.add_n([tf.reduce_sum(extra) for extra in loss.extras.values()])

    def live(term):
        gradients = {name: tape.gradient(term, value) for name, value in floats.items()}
        return {name for name, gradient in gradients.items() if gradient is not None and np.any(gradient)}

    assert live(terms["policy"]) == {"mean"}
    assert live(terms["critic"]) == {"q", "v_tm1"}
    assert live(extras) == set()


def test_what_a_boundary_row_holds_changes_nothing():
    values = action_values()
    a, b = (continuous_acer_loss(constants(y), *values, SETTINGS) for y in (data(), poison(data())))
    np.testing.assert_array_equal(a.total, b.total)
    assert a.total[3, 1] == 0.0


def test_a_sequence_is_its_two_parts_where_an_episode_ends_inside():
    """Unroll 0 ends at row 1, and what follows is another episode."""
    x, values = data(), action_values()
    whole = continuous_acer_loss(constants(x), *values, SETTINGS).total[:, 0]

    def part(rows):
        cut = {name: value[rows] for name, value in x.items()}
        return continuous_acer_loss(constants(cut), *(value[rows] for value in values), SETTINGS).total[:, 0]

    np.testing.assert_allclose(whole, np.concatenate([part(slice(0, 2)), part(slice(2, None))]), rtol=1e-5, atol=1e-6)


def test_extras():
    x, (q, sampled_action, sampled_q) = data(), action_values()
    extras = continuous_acer_loss(constants(x), q, sampled_action, sampled_q, SETTINGS).extras
    for s, b in live_rows(x):
        ratio = rho(x, s, b)
        np.testing.assert_allclose(extras["importance_weight"][s, b], min(1.5, ratio), rtol=1e-3)
        assert extras["truncated"][s, b] == float(ratio > 1.5)
        distance = (x["average_mean"][s, b] - x["mean"][s, b]) ** 2
        np.testing.assert_allclose(extras["kl"][s, b], distance.sum() / (2 * SIGMA**2), rtol=1e-3)
    np.testing.assert_array_equal(extras["q"], q)
    np.testing.assert_array_equal(extras["value"], x["v_tm1"])


@pytest.mark.parametrize("distance", [30.0, 1e6])
def test_actions_far_from_both_policies_leave_everything_finite(distance):
    """Ratios of exp(+-1e5) and more: weights are at their bounds."""
    x, (q, sampled_action, sampled_q) = data(), action_values()
    x["behaviour_mean"] = x["mean"] + np.float32(distance)
    near = {**x, "action": x["mean"].copy()}
    far = {**x, "action": x["behaviour_mean"].copy()}
    for y, weight in ((near, 1.5), (far, 0.0)):
        loss = continuous_acer_loss(constants(y), q, sampled_action, sampled_q, SETTINGS)
        assert np.isfinite(loss.total).all()
        live = ~x["is_boundary"]
        np.testing.assert_allclose(loss.extras["importance_weight"].numpy()[live], weight)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_eager_graph_and_xla_agree(jit_compile):
    x, values = constants(data()), action_values()
    compiled = tf.function(
        lambda: continuous_acer_loss(x, *values, SETTINGS).total, jit_compile=jit_compile, autograph=False
    )
    np.testing.assert_allclose(compiled(), continuous_acer_loss(x, *values, SETTINGS).total, rtol=1e-4, atol=1e-4)


def test_errors():
    x, (q, sampled_action, sampled_q) = constants(data()), action_values()
    with pytest.raises(ValueError, match="truncation"):
        continuous_acer_loss(x, q, sampled_action, sampled_q, SETTINGS._replace(truncation=0.0))
    with pytest.raises(ValueError, match="delta"):
        continuous_acer_loss(x, q, sampled_action, sampled_q, SETTINGS._replace(delta=-1.0))
    for names, known in (({"traces": "both"}, "root, plain"), ({"policy_target": "both"}, "q_opc, q_ret")):
        sentence = f"^continuous_acer_loss: {next(iter(names))} must be one of {known}, got 'both'$"
        with pytest.raises(ValueError, match=sentence):
            continuous_acer_loss(x, q, sampled_action, sampled_q, SETTINGS._replace(**names))
    with pytest.raises(ValueError, match="^q_ret_and_q_opc: which must be one of root, plain, got 'both'$"):
        q_ret_and_q_opc(x, q, "both")
    with pytest.raises(ValueError, match="sampled_q"):
        continuous_acer_loss(x, q, sampled_action, sampled_q[:1], SETTINGS)
    with pytest.raises(ValueError, match="mean"):
        continuous_acer_loss(x, q, sampled_action[..., :1], sampled_q, SETTINGS)
    with pytest.raises(ValueError, match="q_t_a"):
        continuous_acer_loss(x, q[:, :1], sampled_action, sampled_q, SETTINGS)
