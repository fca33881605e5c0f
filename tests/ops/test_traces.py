"""Every rule's coefficient from probabilities, its limits, its gradients, its errors."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.ops import traces

PI = np.array([[0.5, 0.1, 0.0], [0.9, 1.0, 0.3]], np.float32)
MU = np.array([[0.25, 0.4, 0.2], [0.9, 0.5, 0.6]], np.float32)
LOG_RHO = np.log(PI, where=PI > 0, out=np.full_like(PI, -np.inf)) - np.log(MU)
ALPHA = 0.3


def test_rules_by_hand():
    """rho = [[2, 1/4, 0], [1, 2, 1/2]]."""
    rules = {
        "importance_sampling": (traces.importance_sampling(LOG_RHO), [[2, 0.25, 0], [1, 2, 0.5]]),
        "q_lambda": (traces.q_lambda(LOG_RHO), [[1, 1, 1], [1, 1, 1]]),
        "tree_backup": (traces.tree_backup(PI), PI),
        "retrace": (traces.retrace(LOG_RHO), [[1, 0.25, 0], [1, 1, 0.5]]),
        "alpha_retrace": (traces.alpha_retrace(LOG_RHO, ALPHA), [[1, 0.775, 0.7], [1, 1, 0.85]]),
        "alpha_tree_backup": (traces.alpha_tree_backup(PI, MU, ALPHA), [[0.325, 0.31, 0.14], [0.9, 0.65, 0.51]]),
        "acer_truncated": (traces.acer_truncated(LOG_RHO, 2), [[1, 0.5, 0], [1, 1, 0.5**0.5]]),
    }
    for name, (actual, expected) in rules.items():
        np.testing.assert_allclose(actual, expected, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_alpha_retrace_truncates_the_ratio_of_the_mixture(alpha):
    """C-trace, proof of Proposition 3.2."""
    mixture = traces.mixture(PI, MU, alpha).numpy()
    np.testing.assert_allclose(traces.alpha_retrace(LOG_RHO, alpha), np.minimum(1, mixture / MU), rtol=1e-6)


def test_mixture_and_expected_value():
    pi, mu = np.array([[0.2, 0.8]]), np.array([[0.6, 0.4]])
    mixture = traces.mixture(pi, mu, 0.75)
    np.testing.assert_allclose(mixture, [[0.3, 0.7]], rtol=1e-6)  # alpha is the share of pi
    np.testing.assert_allclose(traces.expected_value([[10.0, 20.0]], mixture), [17.0], rtol=1e-6)
    assert traces.expected_value(tf.zeros([4, 3, 2]), tf.zeros([4, 3, 2])).shape == (4, 3)


def test_log_ratio():
    pi_a, mu_a = [0.5, 0.0, 0.0, 0.5, 1.0], [0.25, 0.5, 0.0, 0.0, 1.0]
    np.testing.assert_allclose(traces.log_ratio(pi_a, mu_a), [np.log(2), -np.inf, -np.inf, np.inf, 0], rtol=1e-6)


def test_extreme_ratios():
    """Ratios of 0 cut; ratios that are infinite, or overflow, are truncated."""
    log_rho = tf.constant([-np.inf, -200.0, 200.0, np.inf])
    np.testing.assert_array_equal(traces.retrace(log_rho), [0, 0, 1, 1])
    np.testing.assert_array_equal(traces.acer_truncated(log_rho, 1), [0, 0, 1, 1])
    np.testing.assert_allclose(traces.alpha_retrace(log_rho, ALPHA), [0.7, 0.7, 1, 1], rtol=1e-6)
    np.testing.assert_array_equal(traces.importance_sampling(log_rho), [0, 0, np.inf, np.inf])


def test_alpha_has_exact_gradients():
    """d/d alpha: min(1, rho) - 1 of alpha-Retrace, pi - mu of the mixture, also where ratios are extreme."""
    alpha, log_rho = tf.constant(ALPHA), tf.constant([-np.inf, np.log(0.25), 1.0, np.inf], tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(alpha)
        retrace, mixture = traces.alpha_retrace(log_rho, alpha), traces.mixture(PI, MU, alpha)
        tree_backup = traces.alpha_tree_backup(PI, MU, alpha)
    np.testing.assert_allclose(tape.jacobian(retrace, alpha), [-1, -0.75, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(tape.jacobian(mixture, alpha), PI - MU, rtol=1e-6)
    np.testing.assert_allclose(tape.jacobian(tree_backup, alpha), PI - MU, rtol=1e-6)


def test_policies_and_values_get_no_gradient():
    pi, mu, log_rho, q = (tf.constant(x) for x in (PI, MU, LOG_RHO, PI))
    alpha = tf.constant(ALPHA)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([pi, mu, log_rho, q, alpha])
        outputs = [
            traces.importance_sampling(log_rho), traces.q_lambda(log_rho), traces.tree_backup(pi),
            traces.retrace(log_rho), traces.alpha_retrace(log_rho, alpha), traces.alpha_tree_backup(pi, mu, alpha),
            traces.acer_truncated(log_rho, 2), traces.log_ratio(pi, mu), traces.mixture(pi, mu, alpha),
            traces.expected_value(q, pi),
        ]  # fmt: skip
    for output in outputs:
        assert tape.gradient(output, [pi, mu, log_rho, q]) == [None] * 4


@pytest.mark.parametrize(
    ("operator", "arguments", "shapes"),
    [
        ("alpha_tree_backup", ("pi_a", "mu_a"), [(2, 3), (2, 3)]),
        ("log_ratio", ("pi_a", "mu_a"), [(2, 3), (2, 3)]),
        ("mixture", ("pi", "mu"), [(2, 3, 4), (2, 3, 4)]),
        ("expected_value", ("q", "probabilities"), [(2, 3, 4), (2, 3, 4)]),
    ],
)
def test_a_wrong_shape_names_operator_and_argument(operator, arguments, shapes):
    extra = [ALPHA] if operator in ("alpha_tree_backup", "mixture") else []
    tensors = [tf.ones(shape) for shape in shapes]
    getattr(traces, operator)(*tensors, *extra)
    for wrong in ((*shapes[0], 1), shapes[0][:-1], (1, *shapes[0][1:])):
        for changed in (0, 1):
            given = [tf.ones(wrong) if i == changed else x for i, x in enumerate(tensors)]
            with pytest.raises(ValueError, match=f"^{operator}: {arguments[1]} must have the shape of {arguments[0]}"):
                getattr(traces, operator)(*given, *extra)


@pytest.mark.parametrize(
    ("operator", "names"),
    [
        ("importance_sampling", ["log_rho"]),
        ("q_lambda", ["log_rho"]),
        ("tree_backup", ["pi_a"]),
        ("retrace", ["log_rho"]),
        ("alpha_retrace", ["log_rho", "alpha"]),
        ("alpha_tree_backup", ["pi_a", "mu_a", "alpha"]),
        ("log_ratio", ["pi_a", "mu_a"]),
        ("mixture", ["pi", "mu", "alpha"]),
        ("expected_value", ["q", "probabilities"]),
        ("acer_truncated", ["log_rho"]),
    ],
)
def test_a_tensor_of_another_type_names_operator_and_argument(operator, names):
    arguments = {name: tf.constant(0.5) if name == "alpha" else tf.ones([3]) for name in names}
    arguments |= {"action_dimension": 2} if operator == "acer_truncated" else {}
    getattr(traces, operator)(**arguments)
    for name in names:
        wrong = arguments | {name: tf.cast(arguments[name], tf.float64)}
        with pytest.raises(ValueError, match=f"^{operator}: {name} must be float32, got float64; convert it by"):
            getattr(traces, operator)(**wrong)


def test_other_wrong_arguments():
    alphas = tf.ones([3])
    with pytest.raises(ValueError, match="^alpha_retrace: alpha must be a scalar"):
        traces.alpha_retrace(LOG_RHO, alphas)
    with pytest.raises(ValueError, match="^alpha_tree_backup: alpha must be a scalar"):
        traces.alpha_tree_backup(PI, MU, alphas)
    with pytest.raises(ValueError, match="^mixture: alpha must be a scalar"):
        traces.mixture(PI, MU, alphas)
    with pytest.raises(ValueError, match=r"^acer_truncated: action_dimension must lie in \[1, inf\), got 0$"):
        traces.acer_truncated(LOG_RHO, 0)
    for alpha in (-0.1, 1.1, np.nan):
        for operator, given in (("alpha_retrace", [LOG_RHO]), ("alpha_tree_backup", [PI, MU]), ("mixture", [PI, MU])):
            with pytest.raises(ValueError, match=rf"^{operator}: alpha must lie in \[0, 1\], got {alpha}$"):
                getattr(traces, operator)(*given, alpha)
    for q, probabilities, named in ((0.0, [1.0], "q"), ([1.0], 0.0, "probabilities")):
        with pytest.raises(ValueError, match=f"^expected_value: {named} must have rank 1 or more"):
            traces.expected_value(q, probabilities)


def test_eager_graph_and_xla_agree():
    def everything(pi: tf.Tensor, mu: tf.Tensor, alpha: tf.Tensor) -> tuple:
        log_rho = traces.log_ratio(pi, mu)
        with tf.GradientTape() as tape:
            tape.watch(alpha)
            c = traces.alpha_retrace(log_rho, alpha)
        return (
            c, tape.gradient(c, alpha), log_rho, traces.retrace(log_rho), traces.importance_sampling(log_rho),
            traces.acer_truncated(log_rho, 3), traces.expected_value(pi, traces.mixture(pi, mu, alpha)),
        )  # fmt: skip

    arguments = tf.constant(PI), tf.constant(MU), tf.constant(ALPHA)
    eager = everything(*arguments)
    for jit_compile in (False, True):
        for x, y in zip(tf.function(everything, jit_compile=jit_compile, autograph=False)(*arguments), eager):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
