"""C-trace's alpha update against the printed sum, by hand, under poison, and as a search for the target rate."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.papers.ctrace import alpha_update

GAMMA, ALPHA, TARGET_RATE = 0.9, 0.3, 0.9**3


def rows(num_steps: int, batch: int, seed: int, p_end: float = 0.15, p_boundary: float = 0.15) -> dict[str, np.ndarray]:
    """Arguments with ends and boundary rows, ratios of 0, and NaN wherever nothing may be read."""
    rng = np.random.default_rng(seed)
    shape = (num_steps, batch)
    log_rho_t = rng.normal(size=shape).astype(np.float32)
    log_rho_t[rng.random(shape) < 0.1] = -np.inf
    discount_t = np.where(rng.random(shape) < p_end, 0.0, GAMMA).astype(np.float32)
    return poisoned({"log_rho_t": log_rho_t, "discount_t": discount_t, "is_boundary": rng.random(shape) < p_boundary})


def poisoned(arguments: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    boundary, ended = arguments["is_boundary"], arguments["discount_t"] == 0
    stops = boundary | ended
    stops[:-1] |= boundary[1:]
    stops[-1] = True
    return {
        "log_rho_t": np.where(stops, np.float32(np.nan), arguments["log_rho_t"]),
        "discount_t": np.where(boundary, np.float32(np.nan), arguments["discount_t"]),
        "is_boundary": boundary,
    }


def pieces(arguments: dict[str, np.ndarray], s: int, b: int) -> list[int]:
    """Rows of the piece that begins in row s."""
    boundary, discount_t = arguments["is_boundary"], arguments["discount_t"]
    if boundary[s, b]:
        return []
    found = [s]
    while discount_t[found[-1], b] != 0 and found[-1] + 1 < len(discount_t) and not boundary[found[-1] + 1, b]:
        found.append(found[-1] + 1)
    return found


def loop(arguments: dict[str, np.ndarray], alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """1 - (1 - gamma) sum_t gamma^t prod_s c_s and max(Gamma, gamma^N), term by term in float64."""
    log_rho = arguments["log_rho_t"].astype(np.float64)
    estimate, target = np.zeros((2, *log_rho.shape))
    for s, b in np.ndindex(*log_rho.shape):
        piece = pieces(arguments, s, b)
        total = 0.0
        for t in range(len(piece)):
            ratios = [np.exp(log_rho[row, b]) for row in piece[:t]]  # row s holds the ratio of step s + 1
            total += GAMMA**t * np.prod([(1 - alpha) + alpha * min(1, ratio) for ratio in ratios])
        estimate[s, b] = 1 - (1 - GAMMA) * total
        target[s, b] = max(TARGET_RATE, GAMMA ** len(piece))
    return estimate, target


def estimate_of(arguments: dict[str, np.ndarray], alpha: float | tf.Tensor) -> tf.Tensor:
    return alpha_update.contraction_estimate(**arguments, alpha=alpha, gamma=GAMMA)


def compute_target(arguments: dict[str, np.ndarray], target_rate: float = TARGET_RATE) -> tf.Tensor:
    without_ratios = {name: x for name, x in arguments.items() if name != "log_rho_t"}
    return alpha_update.contraction_target(**without_ratios, gamma=GAMMA, target_rate=target_rate)


def unbroken(num_steps: int, batch: int, seed: int) -> dict[str, np.ndarray]:
    return rows(num_steps, batch, seed, p_end=0.0, p_boundary=0.0)


def step(
    phi: float | tf.Tensor, estimate: tf.Tensor, target: tf.Tensor, step_size: float, gamma: float = GAMMA
) -> tf.Tensor:
    """phi after a gradient step on the mean loss, at the learning rate that makes it Eq. 7 with this step size."""
    phi = tf.convert_to_tensor(phi)
    with tf.GradientTape() as tape:
        tape.watch(phi)
        mean = tf.reduce_mean(alpha_update.alpha_loss(phi, estimate, target, gamma=gamma))
    return phi - step_size * (1 - gamma) / 1000 * tape.gradient(mean, phi)


# The sum


@pytest.mark.parametrize("num_steps", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_equals_the_double_loop(num_steps, alpha):
    arguments = rows(num_steps, 16, seed=num_steps)
    estimate, target = loop(arguments, alpha)
    np.testing.assert_allclose(estimate_of(arguments, alpha), estimate, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(compute_target(arguments), target, rtol=1e-5)
    if num_steps > 1:
        assert not np.allclose(estimate_of(arguments, 0.6), estimate, rtol=1e-3)


def test_three_steps_by_hand():
    """gamma = 1/2, alpha = 1/2; rho_1 = 1/2 and rho_2 = 4, so c_1 = 3/4 and c_2 = 1.

    C_0 = 1 - 1/2 (1 + 3/8 + 3/16) = 7/32;  C_1 = 1 - 1/2 (1 + 1/2) = 1/4;  C_2 = 1 - 1/2 = 1/2
    targets for Gamma = 1/5: max(1/5, 1/8), max(1/5, 1/4), 1/2
    update of phi = 2 by 1/10: 2 - 1/10 (7/32 - 1/5) / 3
    """
    log_rho_t, discount_t = np.log([[0.5], [4.0], [np.nan]]), [[0.5]] * 3
    estimate = alpha_update.contraction_estimate(log_rho_t, discount_t, 0.5, gamma=0.5)
    target = alpha_update.contraction_target(discount_t, gamma=0.5, target_rate=0.2)
    np.testing.assert_allclose(estimate, [[7 / 32], [1 / 4], [1 / 2]], rtol=1e-6)
    np.testing.assert_allclose(target, [[1 / 5], [1 / 4], [1 / 2]], rtol=1e-6)
    phi = step(2.0, estimate, target, step_size=0.1, gamma=0.5)
    np.testing.assert_allclose(phi, 2 - 0.1 * (7 / 32 - 1 / 5) / 3, rtol=1e-6)


def test_alpha_zero_is_the_lowest_rate_of_every_piece():
    """gamma^N exactly, N = T, T - 1, ..., 1 (Appendix E.2); with alpha = 1 and every trace cut, gamma."""
    arguments = unbroken(16, 4, seed=1)
    lowest = GAMMA ** np.arange(16.0, 0.0, -1.0)[:, None] * np.ones((1, 4))
    np.testing.assert_allclose(estimate_of(arguments, 0.0), lowest, rtol=1e-5)
    np.testing.assert_allclose(compute_target(arguments, target_rate=0.0), lowest, rtol=1e-5)
    np.testing.assert_allclose(compute_target(arguments, target_rate=0.5), np.maximum(0.5, lowest), rtol=1e-5)
    cut = arguments | {"log_rho_t": np.full_like(arguments["log_rho_t"], -np.inf)}
    np.testing.assert_allclose(estimate_of(cut, 1.0), np.full((16, 4), GAMMA), rtol=1e-6)


def test_the_rate_grows_with_alpha_between_its_bounds():
    """Proposition 3.2."""
    arguments = rows(16, 8, seed=2)
    estimates = np.stack([estimate_of(arguments, alpha) for alpha in np.linspace(0, 1, 11)])
    steps = ~arguments["is_boundary"]
    assert np.all(np.diff(estimates, axis=0) >= -1e-6)
    assert np.all(estimates[:, steps] <= GAMMA + 1e-6)
    assert np.all(estimates >= compute_target(arguments, target_rate=0.0) - 1e-6)


# Ends and boundaries


@pytest.mark.parametrize("row", [0, 4, 7])
@pytest.mark.parametrize("kind", ["discount_t", "is_boundary"])
def test_a_sequence_with_a_stop_inside_is_its_two_pieces_apart(row, kind):
    arguments = unbroken(10, 4, seed=3)
    joined = estimate_of(arguments, ALPHA).numpy()
    arguments[kind][row] = 0.0 if kind == "discount_t" else True
    arguments = poisoned(arguments)
    stop = row + 1 if kind == "discount_t" else row
    cuts = [slice(None, stop), slice(row + 1, None)]
    for function in (lambda x: estimate_of(x, ALPHA), lambda x: compute_target(x, target_rate=0.0)):
        apart = [function({name: x[cut] for name, x in arguments.items()}) for cut in cuts if stop or cut.start]
        if kind == "is_boundary":
            apart.insert(len(apart) - 1, np.ones((1, 4)))
        np.testing.assert_allclose(function(arguments), np.concatenate(apart), rtol=1e-5)
    assert row == 0 or not np.allclose(joined[:row], estimate_of(arguments, ALPHA)[:row], rtol=1e-3)


def test_boundary_rows_differ_from_their_target_by_nothing():
    arguments = rows(12, 8, seed=4)
    loss = alpha_update.alpha_loss(2.0, estimate_of(arguments, ALPHA), compute_target(arguments), gamma=GAMMA).numpy()
    assert np.all(loss[arguments["is_boundary"]] == 0.0)
    assert np.any(loss != 0.0)


@pytest.mark.parametrize("trace_lambda", [0.0, 0.5, 0.97, 1.0])
def test_lambda_cuts_traces_that_alpha_0_does_not(trace_lambda):
    """1 - (1 - gamma) sum_t (gamma lambda)^t over N terms: gamma^N at lambda = 1, gamma at lambda = 0."""
    arguments = unbroken(6, 3, seed=10)
    found = alpha_update.contraction_estimate(
        arguments["log_rho_t"], arguments["discount_t"], 0.0, gamma=GAMMA, trace_lambda=trace_lambda
    )
    for s, rates in enumerate(found.numpy()):
        expected = 1 - (1 - GAMMA) * sum((GAMMA * trace_lambda) ** t for t in range(6 - s))
        np.testing.assert_allclose(rates, expected, rtol=1e-5)
        assert np.allclose(rates, GAMMA ** (6 - s), rtol=1e-5) == (trace_lambda == 1.0 or s == 5)


def test_what_is_read_is_not_hidden():
    arguments = unbroken(5, 1, seed=5)
    arguments["log_rho_t"][2] = np.nan
    assert np.isnan(estimate_of(arguments, ALPHA)[:3]).all()
    assert np.isfinite(estimate_of(arguments, ALPHA)[3:]).all()


# Gradients


def test_alpha_has_the_exact_gradient_of_the_estimate_and_ratios_have_none():
    arguments = rows(9, 4, seed=6)
    weights = np.random.default_rng(6).normal(size=(9, 4)).astype(np.float32)
    alpha, log_rho_t, discount_t = (tf.constant(x) for x in (ALPHA, arguments["log_rho_t"], arguments["discount_t"]))
    with tf.GradientTape() as tape:
        tape.watch([alpha, log_rho_t, discount_t])
        estimate = alpha_update.contraction_estimate(
            log_rho_t, discount_t, alpha, gamma=GAMMA, is_boundary=arguments["is_boundary"]
        )
        total = tf.reduce_sum(weights * estimate)
    alpha_gradient, *others = tape.gradient(total, [alpha, log_rho_t, discount_t])
    up, down = (np.sum(weights * loop(arguments, ALPHA + h)[0]) for h in (1e-5, -1e-5))
    assert alpha_gradient.numpy() == pytest.approx((up - down) / 2e-5, rel=1e-4)
    assert others == [None, None]


def test_the_losss_gradient_is_the_difference_and_not_the_slope_of_the_estimate():
    arguments = rows(9, 4, seed=7)
    phi = tf.Variable(0.7)
    with tf.GradientTape(persistent=True) as tape:
        estimate, target = estimate_of(arguments, tf.sigmoid(phi)), compute_target(arguments)
        loss = alpha_update.alpha_loss(phi, estimate, target, gamma=GAMMA)
        mean = tf.reduce_mean(loss)
    wanted, wanted_target = loop(arguments, 1 / (1 + np.exp(-0.7)))
    difference = wanted - wanted_target
    np.testing.assert_allclose(tape.jacobian(loss, phi), 1000 / (1 - GAMMA) * difference, rtol=1e-4, atol=1e-2)
    assert tape.gradient(loss, [estimate, target]) == [None, None]
    np.testing.assert_allclose(tape.gradient(mean, phi), 1000 / (1 - GAMMA) * np.mean(difference), rtol=1e-5)


def test_the_update_finds_the_target_rate():
    """Proposition 3.4: phi converges to the alpha whose average rate is Gamma, from both sides."""
    # Long pieces: of the first row alone, gamma^40 is well below Gamma.
    gamma, target_rate, num_steps = 0.9, 0.5, 40
    rng = np.random.default_rng(8)
    discount_t = np.full((num_steps, 64), gamma, np.float32)
    target = alpha_update.contraction_target(discount_t, gamma=gamma, target_rate=target_rate)[:1]

    @tf.function(autograph=False)
    def move(phi: tf.Tensor, log_rho_t: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        estimate = alpha_update.contraction_estimate(log_rho_t, discount_t, tf.sigmoid(phi), gamma=gamma)[:1]
        return step(phi, estimate, target, step_size=2.0, gamma=gamma), tf.reduce_mean(estimate)

    for phi in (tf.constant(4.0), tf.constant(-4.0)):
        rates = []
        for _ in range(150):
            log_rho_t = np.where(rng.random((num_steps, 64)) < 0.5, -np.inf, 0.0).astype(np.float32)
            phi, rate = move(phi, log_rho_t)
            rates.append(rate.numpy())
        assert abs(rates[0] - target_rate) > 0.1
        # c averages 1 - alpha / 2 and ratios are independent: C = 1 - (1 - gamma) / (1 - gamma (1 - alpha / 2)).
        expected_alpha = 2 * (1 - (1 - (1 - gamma) / (1 - target_rate)) / gamma)
        assert np.mean(rates[-50:]) == pytest.approx(target_rate, abs=0.01)
        assert tf.sigmoid(phi).numpy() == pytest.approx(expected_alpha, abs=0.03)


def test_a_target_out_of_reach_pushes_alpha_to_zero():
    """Below gamma^N no target counts: what is left is the distance from the lowest rate, never negative."""
    arguments = unbroken(16, 8, seed=9)
    phi = step(0.0, estimate_of(arguments, 0.5), compute_target(arguments, 0.0), step_size=1.0)
    assert phi.numpy() < 0.0
    lowest = step(0.0, estimate_of(arguments, 0.0), compute_target(arguments, 0.0), step_size=1.0)
    assert lowest.numpy() == pytest.approx(0.0, abs=1e-6)


# Shapes and modes


@pytest.mark.parametrize("shape", [(4, 3, 1), (4,), (3, 3), (1, 3)])
def test_a_wrong_shape_names_operator_and_argument(shape):
    correct = {"log_rho_t": tf.zeros([4, 3]), "discount_t": tf.ones([4, 3]), "is_boundary": tf.zeros([4, 3], tf.bool)}
    for operator, function in (
        ("contraction_estimate", lambda x: estimate_of(x, ALPHA)),
        ("contraction_target", compute_target),
    ):
        for argument, x in correct.items():
            if operator == "contraction_target" and argument == "log_rho_t":
                continue
            # The first that is compared is discount_t, so a deviation of it shows at the next.
            second = "log_rho_t" if operator == "contraction_estimate" else "is_boundary"
            named = second if argument == "discount_t" and len(shape) > 1 else argument
            with pytest.raises(ValueError, match=f"^{operator}: {named} must have"):
                function(
                    correct | {argument: tf.ones(shape, x.dtype) if x.dtype != tf.bool else tf.zeros(shape, tf.bool)}
                )
    x, wrong = tf.zeros([4, 3]), tf.zeros(shape)
    for arguments in ((x, wrong), (wrong, x)):
        with pytest.raises(ValueError, match="^alpha_loss: target must have the shape of estimate"):
            alpha_update.alpha_loss(0.0, *arguments, gamma=GAMMA)


def test_other_wrong_arguments():
    arguments = unbroken(4, 3, seed=10)
    x, several = tf.zeros([4, 3]), tf.zeros([3])
    with pytest.raises(ValueError, match="^contraction_estimate: alpha must be a scalar"):
        estimate_of(arguments, several)
    for gamma in (-0.1, 1.0):
        with pytest.raises(ValueError, match="^contraction_estimate: gamma must lie in"):
            alpha_update.contraction_estimate(x, x, ALPHA, gamma=gamma)
        with pytest.raises(ValueError, match="^contraction_target: gamma must lie in"):
            alpha_update.contraction_target(x, gamma=gamma, target_rate=0.5)
        with pytest.raises(ValueError, match="^alpha_loss: gamma must lie in"):
            alpha_update.alpha_loss(0.0, x, x, gamma=gamma)
    for name in ("alpha", "trace_lambda"):
        with pytest.raises(ValueError, match=rf"^contraction_estimate: {name} must lie in \[0, 1\], got 1\.1$"):
            alpha_update.contraction_estimate(x, x, **{"alpha": ALPHA, name: 1.1}, gamma=GAMMA)
    for target_rate in (-0.1, 1.1):
        with pytest.raises(ValueError, match="^contraction_target: target_rate must lie in"):
            alpha_update.contraction_target(x, gamma=GAMMA, target_rate=target_rate)
    half = tf.constant(0.5, tf.float64)
    with pytest.raises(ValueError, match="^contraction_estimate: alpha must be float32, got float64"):
        estimate_of(arguments, half)
    with pytest.raises(ValueError, match="^alpha_loss: phi must be float32, got float64"):
        alpha_update.alpha_loss(half, x, x, gamma=GAMMA)
    with pytest.raises(ValueError, match="^alpha_loss: phi must be a scalar"):
        alpha_update.alpha_loss(several, x, x, gamma=GAMMA)
    with pytest.raises(ValueError, match="^contraction_target: .* steps"):
        alpha_update.contraction_target(tf.zeros([0, 3]), gamma=GAMMA, target_rate=0.5)


@pytest.mark.parametrize("num_steps", [1, 16])
def test_eager_graph_and_xla_agree(num_steps):
    arguments = {name: tf.constant(x) for name, x in rows(num_steps, 6, seed=11).items()}

    def everything(phi: tf.Tensor, log_rho_t: tf.Tensor, discount_t: tf.Tensor, is_boundary: tf.Tensor) -> tuple:
        given = {"log_rho_t": log_rho_t, "discount_t": discount_t, "is_boundary": is_boundary}
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(phi)
            estimate, target = estimate_of(given, tf.sigmoid(phi)), compute_target(given)
            loss = alpha_update.alpha_loss(phi, estimate, target, gamma=GAMMA)
        gradients = [tape.gradient(x, phi, unconnected_gradients="zero") for x in (loss, estimate)]
        return estimate, target, loss, *gradients

    phi = tf.constant(0.4)
    eager = everything(phi, **arguments)
    for jit_compile in (False, True):
        for actual, x in zip(
            tf.function(everything, jit_compile=jit_compile, autograph=False)(phi, **arguments), eager
        ):
            np.testing.assert_allclose(actual, x, rtol=1e-4, atol=2e-3 if x is eager[2] else 1e-5)
