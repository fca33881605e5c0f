"""ACER's discrete loss against sums written out by hand, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.papers.acer.loss import (
    AcerLossSettings,
    acer_loss,
    correction_weight,
    divergence_gradient,
    policy_gradient,
    retrace_target,
    truncated_weight,
)
from repro.papers.acer.trust_region import project

T, B, A = 5, 3, 4
SETTINGS = AcerLossSettings(truncation=1.5, delta=0.3, entropy_cost=0.1)


def data(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    discount = np.full((T, B), 0.9, np.float32)
    discount[1, 0] = 0.0  # an end inside, the game goes on
    discount[2, 2] = 0.0  # an end with a boundary row behind it
    boundary = np.zeros((T, B), bool)
    boundary[2, 1] = boundary[3, 2] = True  # the first of these after a time limit
    logits = rng.normal(size=(T + 1, B, A)).astype(np.float32)
    return {
        "logits": logits,
        "q": rng.normal(size=(T + 1, B, A)).astype(np.float32),
        "average_logits": (logits[:-1] + rng.normal(size=(T, B, A))).astype(np.float32),
        "behaviour_logits": rng.normal(size=(T, B, A)).astype(np.float32),
        "actions": rng.integers(A, size=(T, B)).astype(np.int32),
        "r_t": rng.normal(size=(T, B)).astype(np.float32),
        "discount_t": discount,
        "is_boundary": boundary,
    }


def target_arguments(x: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: value for name, value in x.items() if name != "average_logits"}


def softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits.astype(float) - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def retrace_by_its_sum(x: dict[str, np.ndarray]) -> np.ndarray:
    """Q(x_s, a_s) + sum_t gamma^{t-s} (prod_{u=s+1}^t min(1, rho_u)) Delta_t, Eq. 5 unrolled."""
    pi, mu = softmax(x["logits"]), softmax(x["behaviour_logits"])
    values = (pi * x["q"]).sum(-1)
    targets = np.zeros((T, B))
    for b in range(B):
        for s in range(T):
            if x["is_boundary"][s, b]:
                continue
            targets[s, b], weight = x["q"][s, b, x["actions"][s, b]], 1.0
            for t in range(s, T):
                a = x["actions"][t, b]
                if x["is_boundary"][t, b]:
                    break
                if t > s:
                    weight *= min(1.0, pi[t, b, a] / mu[t, b, a])
                delta = x["r_t"][t, b] + x["discount_t"][t, b] * values[t + 1, b] - x["q"][t, b, a]
                targets[s, b] += weight * delta
                weight *= x["discount_t"][t, b]
    return targets


def gradient_in_phi(x: dict[str, np.ndarray], t: int, b: int, c: float) -> np.ndarray:
    """g of Eq. 9 for one step, a loop over actions."""
    pi, mu, q, a = softmax(x["logits"])[t, b], softmax(x["behaviour_logits"])[t, b], x["q"][t, b], x["actions"][t, b]
    value = sum(pi[i] * q[i] for i in range(A))
    g = np.zeros(A)
    g[a] += min(c, pi[a] / mu[a]) / pi[a] * (retrace_by_its_sum(x)[t, b] - value)
    for i in range(A):
        g[i] += max(0.0, 1 - c * mu[i] / pi[i]) * pi[i] * (1 / pi[i]) * (q[i] - value)
    return g


def slopes(function, vector: np.ndarray, h: float = 1e-5) -> np.ndarray:
    steps = h * np.eye(len(vector))
    return np.array([(function(vector + e) - function(vector - e)) / (2 * h) for e in steps])


def gradients(x: dict[str, np.ndarray], settings: AcerLossSettings = SETTINGS, term: str = "total"):
    """Gradients of the summed loss with respect to logits and q."""
    logits, q = tf.constant(x["logits"]), tf.constant(x["q"])
    with tf.GradientTape() as tape:
        tape.watch([logits, q])
        loss = tf.reduce_sum(getattr(acer_loss(**x | {"logits": logits, "q": q}, settings=settings), term))
    return [g.numpy() for g in tape.gradient(loss, [logits, q], unconnected_gradients="zero")]


@pytest.mark.parametrize("seed", range(3))
def test_retrace_against_the_written_out_sum(seed):
    x = data(seed)
    np.testing.assert_allclose(retrace_target(**target_arguments(x)), retrace_by_its_sum(x), rtol=1e-4, atol=1e-5)


HAND = {
    "logits": np.zeros((4, 1, 2), np.float32),  # pi = 1/2, 1/2
    "q": np.array([[0, 0], [2, 4], [6, 0], [1, 3]], np.float32)[:, None],  # V = 0, 3, 3, 2
    "behaviour_logits": np.broadcast_to(np.log(np.float32([0.25, 0.75])), (3, 1, 2)),  # rho = 2, 2/3
    "actions": np.array([[0], [1], [0]], np.int32),
    "r_t": np.array([[1], [2], [3]], np.float32),
}


@pytest.mark.parametrize(
    ("discount", "boundary_row", "expected"),
    [
        # 3 + 2/2;  2 + (3 + 1 (4 - 6))/2;  1 + (3 + 2/3 (2.5 - 4))/2
        ([0.5, 0.5, 0.5], None, [2.0, 2.5, 4.0]),
        # the end makes the second 2, the first 1 + (3 + 2/3 (2 - 4))/2
        ([0.5, 0.0, 0.5], None, [11 / 6, 2.0, 4.0]),
        # a time limit: 2 + 3/2 from the last observation's value; 1 + (3 + 2/3 (3.5 - 4))/2
        ([0.5, 0.5, 0.5], 2, [7 / 3, 3.5, 0.0]),
        # an end, and the row of the last observation
        ([0.5, 0.0, 0.5], 2, [11 / 6, 2.0, 0.0]),
        # an end in the last row leaves nothing to bootstrap from
        ([0.5, 0.5, 0.0], None, [1 + (3 + 2 / 3 * (2 - 4)) / 2, 2.0, 3.0]),
    ],
)
def test_hand_cases(discount, boundary_row, expected):
    boundary = np.zeros((3, 1), bool)
    if boundary_row is not None:
        boundary[boundary_row] = True
    ends = {"discount_t": np.float32(discount)[:, None], "is_boundary": boundary}
    np.testing.assert_allclose(retrace_target(**HAND, **ends)[:, 0], expected, rtol=1e-6)

    # The critic's loss is half a square, so that its slope in Q(x, a) is the error; Q(x, a) = 0, 4, 6.
    _, slope = gradients(HAND | ends | {"average_logits": None}, term="critic")
    error = np.array([0, 4, 6]) - expected
    error[boundary[:, 0]] = 0.0
    np.testing.assert_allclose(slope[[0, 1, 2], 0, [0, 1, 0]], error, rtol=1e-6)
    assert np.count_nonzero(slope) <= 3


@pytest.mark.parametrize("truncation", [0.2, 1.5, 10.0])
def test_gradient_in_phi_against_the_loop(truncation):
    x = data()
    q_ret = retrace_target(**target_arguments(x))
    g = policy_gradient(x["logits"][:-1], x["q"][:-1], x["behaviour_logits"], x["actions"], q_ret, truncation)
    for t, b in zip(*np.nonzero(~x["is_boundary"])):
        np.testing.assert_allclose(g[t, b], gradient_in_phi(x, t, b, truncation), rtol=1e-3, atol=1e-4)


def test_weights_truncated_at_0_leave_everything_to_the_correction():
    log_rho = tf.constant([-50.0, -1.0, 0.0, 50.0])
    np.testing.assert_array_equal(truncated_weight(log_rho, 0.0), np.zeros(4))
    np.testing.assert_array_equal(correction_weight(log_rho, 0.0), np.ones(4))


def expectation(q_ret, c, pi_logits, mu_logits, q):
    """The mean over a ~ mu of g, by one batch entry for each action."""
    every = lambda x: np.broadcast_to(x, (1, A, A)).astype(np.float32)  # noqa: E731
    actions = np.arange(A, dtype=np.int32)[None]
    g = policy_gradient(every(pi_logits), every(q), every(mu_logits), actions, q_ret[None].astype(np.float32), c)
    return (softmax(mu_logits)[:, None] * g[0].numpy()).sum(0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("c", [0.01, 0.5, 1.0, 2.0, 10.0, float("inf")])
def test_truncated_term_and_correction_make_the_untruncated_expectation(seed, c):
    """Eq. 7: sum_a pi(a) d log f(a|phi) / d phi (Q(a) - V), whose entry a is Q(a) - V, whatever c is."""
    rng = np.random.default_rng(seed)
    pi_logits, mu_logits, q = rng.normal(size=(3, A)) * [[1], [1.5], [1]]
    expected = q - (softmax(pi_logits) * q).sum()
    np.testing.assert_allclose(expectation(q, c, pi_logits, mu_logits, q), expected, rtol=1e-4, atol=1e-5)
    # With targets that are not Q the correction, which has nothing but Q, leaves a bias unless nothing is truncated.
    ratio = softmax(pi_logits) / softmax(mu_logits)
    biased = expectation(q + 1.0, c, pi_logits, mu_logits, q)
    np.testing.assert_allclose(biased - expected, np.minimum(c / ratio, 1.0), rtol=1e-3, atol=1e-4)


def test_divergence_gradient_is_the_slope_of_the_divergence():
    x = data()
    k = divergence_gradient(x["average_logits"], x["logits"][:-1]).numpy()
    average, phi = softmax(x["average_logits"]), softmax(x["logits"])
    for t, b in np.ndindex(T, B):
        p = average[t, b]
        np.testing.assert_allclose(k[t, b], slopes(lambda f: np.sum(p * np.log(p / f)), phi[t, b]), rtol=1e-4)


def test_policy_gradient_against_finite_differences_without_trust_region():
    """The objective of Eq. 9 as a function of the logits, its weights and advantages held fixed."""
    x = data() | {"average_logits": None}
    slope, _ = gradients(x, term="policy_gradient")
    for t, b in np.ndindex(T, B):
        pi, mu, q, a = (
            softmax(x["logits"])[t, b],
            softmax(x["behaviour_logits"])[t, b],
            x["q"][t, b],
            x["actions"][t, b],
        )
        c, value, target = SETTINGS.truncation, pi @ q, retrace_by_its_sum(x)[t, b]

        def objective(logits):
            log_f = np.log(softmax(logits))
            correction = np.maximum(0, 1 - c * mu / pi) * pi * log_f * (q - value)
            return min(c, pi[a] / mu[a]) * log_f[a] * (target - value) + correction.sum()

        expected = -slopes(objective, x["logits"][t, b].astype(float)) * ~x["is_boundary"][t, b]
        np.testing.assert_allclose(slope[t, b], expected, rtol=1e-3, atol=1e-4)
    assert not slope[-1].any()


def test_trust_region_against_its_formula():
    x = data()
    loss = acer_loss(**x, settings=SETTINGS)
    slope, _ = gradients(x, term="policy_gradient")
    active = np.zeros((T, B))
    for t, b in zip(*np.nonzero(~x["is_boundary"])):
        g, phi = gradient_in_phi(x, t, b, SETTINGS.truncation), softmax(x["logits"])[t, b]
        k = -softmax(x["average_logits"])[t, b] / phi
        active[t, b] = k @ g > SETTINGS.delta
        z = g - max(0.0, (k @ g - SETTINGS.delta) / (k @ k)) * k
        jacobian = np.diag(phi) - np.outer(phi, phi)
        np.testing.assert_allclose(slope[t, b], -jacobian @ z, rtol=1e-3, atol=1e-4)
    live = ~x["is_boundary"]
    np.testing.assert_array_equal(loss.extras["trust_region_active"].numpy()[live], active[live])
    assert 2 < active.sum() < live.sum() - 2
    free, _ = gradients(x | {"average_logits": None}, term="policy_gradient")
    changed = np.abs(free - slope).max(-1)[:-1] > 1e-4
    np.testing.assert_array_equal(changed[live], active[live].astype(bool))


def test_the_trust_region_may_enlarge_what_reaches_the_logits():
    """phi = (0.50, 0.49, 0.01), its average (0.99, 0.005, 0.005), and the third action, on-policy, was worse by 1."""
    phi, average, g = np.array([0.5, 0.49, 0.01]), np.array([0.99, 0.005, 0.005]), np.array([0.0, 0.0, -100.0])
    k = divergence_gradient(np.log(average), np.log(phi)).numpy()
    np.testing.assert_allclose(k, -average / phi, rtol=1e-4)
    slopes_of_logits = [phi * (z - phi @ z) for z in (g, project(g, k, 1.0).numpy())]
    np.testing.assert_allclose(slopes_of_logits[0], [0.5, 0.49, -0.99], rtol=1e-4)
    np.testing.assert_allclose(slopes_of_logits[1], [6.22, -5.17, -1.05], rtol=1e-2)  # towards the average policy


def test_entropy_is_outside_of_the_trust_region():
    x = data()
    without, with_entropy = (gradients(x, SETTINGS._replace(entropy_cost=cost))[0] for cost in (0.0, 0.1))
    for t, b in np.ndindex(T, B):

        def entropy(logits):
            return -np.sum(softmax(logits) * np.log(softmax(logits)))

        expected = -0.1 * slopes(entropy, x["logits"][t, b].astype(float)) * ~x["is_boundary"][t, b]
        np.testing.assert_allclose(with_entropy[t, b] - without[t, b], expected, rtol=1e-2, atol=1e-5)


def test_terms_and_extras_against_their_formulas():
    x = data()
    loss = acer_loss(**x, settings=SETTINGS)
    pi, mu, average = (softmax(x[name]) for name in ("logits", "behaviour_logits", "average_logits"))
    pi, live = pi[:-1], ~x["is_boundary"]
    pi_a, mu_a, q_a = (np.take_along_axis(p, x["actions"][..., None], -1)[..., 0] for p in (pi, mu, x["q"][:-1]))
    entropy = -(pi * np.log(pi)).sum(-1)
    expected = {
        "entropy": entropy,
        "q": q_a,
        "rho_clipped": np.minimum(SETTINGS.truncation, pi_a / mu_a),
        "truncated": pi_a / mu_a > SETTINGS.truncation,
        "kl": (average * np.log(average / pi)).sum(-1),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(loss.extras[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    assert 0 < expected["truncated"].mean() < 1
    np.testing.assert_allclose(loss.critic, 0.5 * (retrace_by_its_sum(x) - q_a) ** 2 * live, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(loss.entropy, -0.1 * entropy * live, rtol=1e-4)
    np.testing.assert_allclose(loss.total, loss.policy_gradient + loss.critic + loss.entropy, rtol=1e-5)
    off = acer_loss(**x | {"average_logits": None}, settings=SETTINGS)
    assert set(loss.extras) - set(off.extras) == {"kl", "trust_region_active"}


def test_on_policy_there_is_no_correction_and_no_ratio():
    x = data()
    x["behaviour_logits"] = x["logits"][:-1]
    loss = acer_loss(**x, settings=SETTINGS)
    np.testing.assert_allclose(loss.extras["rho_clipped"], 1.0)
    assert not loss.extras["truncated"].numpy().any()
    q_ret = retrace_target(**target_arguments(x))
    for c in (1.0, 10.0):
        g = policy_gradient(x["logits"][:-1], x["q"][:-1], x["behaviour_logits"], x["actions"], q_ret, c).numpy()
        other = np.arange(A) != x["actions"][..., None]
        assert not g[other].any()
        pi = softmax(x["logits"])[:-1]
        advantage = q_ret - (pi * x["q"][:-1]).sum(-1)
        np.testing.assert_allclose(g[~other].reshape(T, B), advantage / pi[~other].reshape(T, B), rtol=1e-4)
    # The target is then the n-step return with the temporal differences undamped.
    undamped = x | {"behaviour_logits": x["logits"][:-1] - 5.0}  # the same policy, its logits shifted
    np.testing.assert_allclose(retrace_target(**target_arguments(undamped)), q_ret, rtol=1e-4, atol=1e-5)


def test_live_and_dead_gradients():
    x = {name: tf.constant(value) for name, value in data().items()}
    floats = ["logits", "q", "average_logits", "behaviour_logits", "r_t", "discount_t"]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x[name] for name in floats])
        loss = acer_loss(**x, settings=SETTINGS)
        terms = {name: tf.reduce_sum(getattr(loss, name)) for name in ("policy_gradient", "critic", "entropy")}

    def live(term: str) -> set[str]:
        found = {name: tape.gradient(terms[term], x[name]) for name in floats}
        return {name for name, g in found.items() if g is not None and np.any(g.numpy())}

    assert live("policy_gradient") == {"logits"}
    assert live("entropy") == {"logits"}
    assert live("critic") == {"q"}
    taken = np.eye(A, dtype=bool)[x["actions"]] & ~x["is_boundary"].numpy()[..., None]
    slope = tape.gradient(terms["critic"], x["q"]).numpy()
    np.testing.assert_array_equal(slope[:-1] != 0, taken)
    assert not slope[-1].any()


@pytest.mark.parametrize("trust_region", [True, False])
def test_what_a_boundary_row_holds_changes_nothing(trust_region):
    x = data()
    if not trust_region:
        x["average_logits"] = None
    poisoned = {name: value if value is None else value.copy() for name, value in x.items()}
    for name in ("r_t", "discount_t", "behaviour_logits"):
        poisoned[name][x["is_boundary"]] = np.nan
    poisoned["actions"][x["is_boundary"]] = 0
    for a, b in zip(gradients(x), gradients(poisoned)):
        np.testing.assert_array_equal(a, b)
        assert np.isfinite(a).all()


@pytest.mark.parametrize("trust_region", [True, False])
@pytest.mark.parametrize("size", [30.0, 100.0, 1e4, 1e30])
@pytest.mark.parametrize("truncation", [1.0, 10.0, float("inf")])
def test_extreme_logits_have_finite_gradients(trust_region, size, truncation):
    x = data()
    rng = np.random.default_rng(1)
    for name in ("logits", "behaviour_logits", "average_logits"):
        x[name] = (size * rng.choice([-1.0, 0.0, 1.0], size=x[name].shape)).astype(np.float32)
    if not trust_region:
        x["average_logits"] = None
    slope, slope_q = gradients(x, SETTINGS._replace(truncation=truncation))
    assert np.isfinite(slope).all()
    assert np.isfinite(slope_q).all()
    if not trust_region and truncation <= 10.0:
        assert np.abs(slope).max() < 10 * truncation


def test_an_improbable_action_counts_in_full():
    """Its probability is 1e-9 under both policies, and no denominator has an epsilon: the slope is -(Q_ret - V)."""
    x = data() | {"average_logits": None}
    x["actions"][:] = 0
    x["logits"][..., 0] -= 20.0
    x["behaviour_logits"] = x["logits"][:-1]
    slope, _ = gradients(x, SETTINGS, "policy_gradient")
    advantage = retrace_by_its_sum(x) - (softmax(x["logits"]) * x["q"]).sum(-1)[:-1]
    np.testing.assert_allclose(slope[:-1, :, 0], -advantage * ~x["is_boundary"], rtol=1e-3, atol=1e-5)


def test_wrong_arguments_are_errors():
    x = data()
    with pytest.raises(ValueError, match=r"^policy_gradient: truncation must lie in \(0, inf\], got 0\.0$"):
        acer_loss(**x, settings=SETTINGS._replace(truncation=0.0))
    with pytest.raises(ValueError, match=r"^project: delta must lie in \[0, inf\], got -1\.0$"):
        acer_loss(**x, settings=SETTINGS._replace(delta=-1.0))
    for name in ("q", "average_logits", "behaviour_logits", "actions", "r_t", "discount_t", "is_boundary"):
        with pytest.raises(ValueError, match="must have"):
            acer_loss(**x | {name: x[name][1:]}, settings=SETTINGS)
    for weight in (truncated_weight, correction_weight):
        with pytest.raises(ValueError, match=rf"^{weight.__name__}: truncation must lie in \[0, inf\], got -1\.0$"):
            weight(tf.zeros([2]), -1.0)
    for boundary, kind in ((None, "NoneType"), (tf.zeros([2]), "float32")):
        with pytest.raises(ValueError, match=f"^acer_loss: is_boundary must be bool, got {kind}"):
            acer_loss(**x | {"is_boundary": boundary}, settings=SETTINGS)
    with pytest.raises(ValueError, match="acer_loss: logits must have rank 3"):
        acer_loss(**x | {"logits": x["logits"][..., 0]}, settings=SETTINGS)


def test_eager_graph_and_xla_agree():
    x = {name: tf.constant(value) for name, value in data().items()}
    eager = acer_loss(**x, settings=SETTINGS)
    for jit_compile in (False, True):
        compiled = tf.function(lambda x: acer_loss(**x, settings=SETTINGS), jit_compile=jit_compile, autograph=False)(x)
        for a, b in zip(tf.nest.flatten(eager), tf.nest.flatten(compiled)):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
