"""V-trace and its relatives against slow sums, by hand, by identity, under poison, and through gradients."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.ops import v_targets
from tests.ops.v_targets_oracle import SETTINGS, Sequence, agrees, oracle, random_sequence

METHODS = ["vtrace", "one_step_importance_sampling", "no_correction"]
ARGUMENTS = ["log_rho", "discount_t", "r_t", "v_tm1", "v_t"]


def run(method: str, sequence: Sequence, **settings) -> v_targets.VTraceOutput:
    return getattr(v_targets, method)(*sequence.tensors(), is_boundary=sequence.is_boundary, **settings)


def adjacent_sequence(num_steps: int, batch: int, seed: int) -> Sequence:
    """No boundary rows, no end but after the last row."""
    sequence = random_sequence(num_steps, batch, seed, p_end=0.0, p_boundary=0.0)
    sequence.discount_t[-1], sequence.v_t[-1] = 0.0, np.nan
    return sequence


# The sum


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("num_steps", [1, 2, 3, 4, 5, 7, 8, 9, 20, 33])
def test_equals_the_double_loop(method, num_steps):
    sequence = random_sequence(num_steps, 16, seed=num_steps)
    assert agrees(run(method, sequence, **SETTINGS), oracle(method, sequence, **SETTINGS))


@pytest.mark.parametrize("method", METHODS)
def test_equals_the_double_loop_with_defaults_and_without_truncation(method):
    sequence = random_sequence(12, 16, seed=3)
    unclipped = dict.fromkeys(["clip_rho", "clip_c", "clip_pg_rho"])
    assert agrees(run(method, sequence), oracle(method, sequence))
    assert agrees(run(method, sequence, **unclipped), oracle(method, sequence, **unclipped))


CHANGED = {"lambda_": 0.8, "clip_rho": 1.3, "clip_c": 0.6, "clip_pg_rho": 1.2, "alpha_rho": 0.6, "alpha_c": 0.3}
READS = {
    "vtrace": set(SETTINGS),
    "one_step_importance_sampling": {"lambda_", "clip_pg_rho", "alpha_rho"},
    "no_correction": {"lambda_"},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("setting", sorted(SETTINGS))
def test_a_wrong_setting_gives_a_wrong_answer_where_the_method_reads_it(method, setting):
    sequence = random_sequence(12, 16, seed=4)
    actual = run(method, sequence, **{**SETTINGS, setting: CHANGED[setting]})
    assert agrees(actual, oracle(method, sequence, **SETTINGS)) == (setting not in READS[method])


def test_two_steps_by_hand():
    """IS = 2 and 1/2, gamma = 1/2, rewards 3 and 5, V = 1, 2, 4, with clips of 1.

    delta_1 = 1/2 (5 + 4/2 - 2) = 5/2;  v_1 = 2 + 5/2 = 9/2
    delta_0 = 1 (3 + 2/2 - 1) = 3;      v_0 = 1 + 3 + 1/2 1 5/2 = 21/4
    advantages: 1 (3 + 9/4 - 1) = 17/4, 1/2 (5 + 4/2 - 2) = 5/2
    """
    output = v_targets.vtrace(
        log_rho=np.log([[2.0], [0.5]]), discount_t=[[0.5], [0.5]], r_t=[[3.0], [5.0]], v_tm1=[[1.0], [2.0]],
        v_t=[[2.0], [4.0]],
    )  # fmt: skip
    np.testing.assert_allclose(output.targets, [[21 / 4], [9 / 2]], rtol=1e-6)
    np.testing.assert_allclose(output.pg_advantages, [[17 / 4], [5 / 2]], rtol=1e-6)
    np.testing.assert_allclose(output.rho_clipped, [[1], [1 / 2]], rtol=1e-6)


# Identities


def n_step_returns(sequence: Sequence) -> np.ndarray:
    """returns[n - 1, s] = sum_{t<n} (prod gamma) r_{s+t} + (prod gamma) V(x_{s+n}), n cut at the last row."""
    num_steps, batch = sequence.r_t.shape
    discount_t, r_t, v_t = (x.astype(np.float64) for x in (sequence.discount_t, sequence.r_t, sequence.v_t))
    v_t = np.where(discount_t == 0, 0, v_t)
    returns = np.zeros((num_steps, num_steps, batch))
    for n in range(1, num_steps + 1):
        for s in range(num_steps):
            product = np.ones(batch)
            for t in range(s, min(s + n, num_steps)):
                returns[n - 1, s] += product * r_t[t]
                product = product * discount_t[t]
            returns[n - 1, s] += product * v_t[t]
    return returns


@pytest.mark.parametrize("method", METHODS)
def test_on_policy_targets_are_n_step_returns(method):
    sequence = random_sequence(9, 8, seed=6, p_boundary=0.0)
    on_policy = sequence._replace(log_rho=np.zeros_like(sequence.log_rho))
    expected = n_step_returns(sequence)[-1]
    np.testing.assert_allclose(run(method, on_policy).targets, expected, rtol=1e-5, atol=1e-5)
    off_policy = run(method, sequence).targets
    assert np.allclose(off_policy, expected, rtol=1e-5, atol=1e-5) == (method != "vtrace")


def test_on_policy_with_lambda_is_td_lambda():
    """v_s = (1 - lambda) sum_{n>=1} lambda^{n-1} G^(n)_s; G^(n) stays what it is once the episode is over."""
    num_steps, lambda_ = 8, 0.7
    sequence = adjacent_sequence(num_steps, 8, seed=7)
    on_policy = sequence._replace(log_rho=np.zeros_like(sequence.log_rho))
    returns = n_step_returns(sequence)
    weights = (1 - lambda_) * lambda_ ** np.arange(num_steps)
    weights[-1] = lambda_ ** (num_steps - 1)  # all later terms
    expected = np.tensordot(weights, returns, axes=1)
    np.testing.assert_allclose(run("vtrace", on_policy, lambda_=lambda_).targets, expected, rtol=1e-5, atol=1e-5)
    assert not np.allclose(run("vtrace", on_policy).targets, expected, rtol=1e-2)


def test_lambda_zero_is_one_step():
    sequence = random_sequence(9, 8, seed=8)
    without_next = [run("vtrace", sequence.slice(slice(s, s + 1))).targets[0] for s in range(9)]
    # A row alone reads its own v_t and nothing later.
    np.testing.assert_array_equal(run("vtrace", sequence, lambda_=0.0).targets, tf.stack(without_next))


def test_alpha_one_is_vtrace_and_alpha_zero_is_importance_sampling():
    sequence = random_sequence(12, 16, seed=9)
    clips = {"clip_rho": 1.1, "clip_c": 0.8, "clip_pg_rho": 1.4}
    unclipped = dict.fromkeys(["clip_rho", "clip_c", "clip_pg_rho"])

    def fields_equal(a, b):
        return all(np.allclose(x, y, rtol=1e-6, atol=1e-6) for x, y in zip(a, b))

    leaky = {alpha: run("vtrace", sequence, **clips, alpha_rho=alpha, alpha_c=alpha) for alpha in (0.0, 0.5, 1.0)}
    assert fields_equal(leaky[1.0], run("vtrace", sequence, **clips))
    assert fields_equal(leaky[0.0], run("vtrace", sequence, **unclipped))
    assert not fields_equal(leaky[0.5], leaky[1.0])
    assert not fields_equal(leaky[0.5], leaky[0.0])


def test_one_step_importance_sampling_is_no_correction_with_weighted_advantages():
    sequence = random_sequence(12, 16, seed=10)
    one_step = run("one_step_importance_sampling", sequence, clip_pg_rho=1.4)
    uncorrected = run("no_correction", sequence)
    weights = np.where(sequence.is_boundary, 0, np.minimum(1.4, np.exp(sequence.log_rho)))
    np.testing.assert_array_equal(one_step.targets, uncorrected.targets)
    np.testing.assert_allclose(one_step.pg_advantages, weights * uncorrected.pg_advantages, rtol=1e-5)
    assert not np.allclose(one_step.pg_advantages, uncorrected.pg_advantages)


@pytest.mark.parametrize("method", METHODS)
def test_the_next_target_makes_the_advantage(method):
    """Where rows are adjacent, v_{s+1} of the advantage is the target of the next row."""
    sequence = adjacent_sequence(9, 8, seed=11)
    output = run(method, sequence, clip_pg_rho=None)
    log_rho = 0.0 if method == "no_correction" else sequence.log_rho[:-1]
    q = sequence.r_t[:-1] + sequence.discount_t[:-1] * output.targets[1:]
    expected = np.exp(log_rho) * (q - sequence.v_tm1[:-1])
    np.testing.assert_allclose(output.pg_advantages[:-1], expected, rtol=1e-5, atol=1e-5)


# Ends and boundaries


def fields(output: v_targets.VTraceOutput, rows: slice = slice(None)) -> np.ndarray:
    return np.stack([np.asarray(x)[rows] for x in output])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("end", [0, 4, 7, 8])
def test_a_sequence_with_an_end_inside_is_its_two_pieces_apart(method, end):
    sequence = random_sequence(10, 8, seed=12, p_end=0.0, p_boundary=0.0)
    joined = fields(run(method, sequence, **SETTINGS))
    sequence.discount_t[end], sequence.v_t[end] = 0.0, np.nan
    pieces = [slice(None, end + 1), slice(end + 1, None)]
    apart = [fields(run(method, sequence.slice(piece), **SETTINGS)) for piece in pieces]
    apart = np.concatenate(apart, axis=1)
    np.testing.assert_allclose(fields(run(method, sequence, **SETTINGS)), apart, rtol=1e-5, atol=1e-5)
    assert not np.allclose(joined, apart, rtol=1e-2)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("row", [1, 4, 8])
def test_a_boundary_row_is_two_pieces_apart_and_itself_inert(method, row):
    sequence = random_sequence(10, 8, seed=13, p_end=0.0, p_boundary=0.0)
    sequence.v_t[row - 1] += 1.0  # the value of the last observation is read here, not from the next row
    sequence.is_boundary[row] = True
    for x in (sequence.log_rho, sequence.discount_t, sequence.r_t, sequence.v_t):
        x[row] = np.nan
    output = fields(run(method, sequence, **SETTINGS))
    before = fields(run(method, sequence.slice(slice(None, row)), **SETTINGS))
    after = fields(run(method, sequence.slice(slice(row + 1, None)), **SETTINGS))
    np.testing.assert_allclose(output[:, :row], before, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(output[:, row + 1 :], after, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(output[:, row], [sequence.v_tm1[row], 0 * before[0, 0], 0 * before[0, 0]])


@pytest.mark.parametrize("method", METHODS)
def test_nothing_after_an_end_is_read_and_nothing_of_a_boundary_row(method):
    sequence = random_sequence(9, 8, seed=14, p_end=0.0, p_boundary=0.0)
    sequence.discount_t[3, :4], sequence.is_boundary[4, 4:] = 0.0, True
    expected = fields(run(method, sequence, **SETTINGS), slice(4))
    sequence.v_t[3, :4] = np.nan
    for x in sequence[:5]:
        x[4:] = np.nan
    np.testing.assert_array_equal(fields(run(method, sequence, **SETTINGS), slice(4)), expected)


def test_what_is_read_is_not_hidden():
    """A NaN where the operator must read shows: the poison above is not swallowed by accident."""
    for argument in range(5):
        sequence = random_sequence(6, 1, seed=15, p_end=0.0, p_boundary=0.0)
        sequence[argument][3] = np.nan
        assert np.isnan(run("vtrace", sequence).targets[0, 0])


def test_importance_ratios_that_overflow():
    """A truncated ratio may be infinite; so may a trace that leads nowhere, after an end or the last row."""
    sequence = random_sequence(6, 8, seed=16, p_end=0.0, p_boundary=0.0)
    sequence.discount_t[2], sequence.v_t[2] = 0.0, np.nan
    infinite, large = (sequence._replace(log_rho=sequence.log_rho.copy()) for _ in range(2))
    infinite.log_rho[[2, 5]], large.log_rho[[2, 5]] = 200.0, 3.0
    for settings in ({}, {"clip_c": None}):
        outputs = [fields(run("vtrace", x, **settings)) for x in (infinite, large)]
        np.testing.assert_array_equal(*outputs)
        assert np.isfinite(outputs).all()
    assert np.isinf(run("vtrace", infinite, clip_rho=None).rho_clipped[5]).all()


# Gradients

WEIGHTS = np.random.default_rng(17).normal(size=(3, 9, 4))


def weighted_sum(output: v_targets.VTraceOutput) -> tf.Tensor:
    return tf.add_n([tf.reduce_sum(w.astype(np.float32) * x) for w, x in zip(WEIGHTS, output)])


@pytest.mark.parametrize("method", METHODS)
def test_live_gradients_are_exact(method):
    """Against central differences of the double loop in float64, with poison in every entry not read."""
    sequence = random_sequence(9, 4, seed=18)
    live = {name: tf.constant(SETTINGS[name]) for name in ("lambda_", "alpha_rho", "alpha_c")}
    tensors = sequence.tensors()
    with tf.GradientTape() as tape:
        tape.watch([live, tensors[1]])
        output = getattr(v_targets, method)(*tensors, is_boundary=sequence.is_boundary, **{**SETTINGS, **live})
        total = weighted_sum(output)
    gradients, discount_gradient = tape.gradient(total, [live, tensors[1]], unconnected_gradients="zero")

    def objective(discount_t: np.ndarray, **settings) -> float:
        outputs = oracle(method, sequence._replace(discount_t=discount_t), **settings).values()
        return sum(np.sum(w * x) for w, x in zip(WEIGHTS, outputs))

    discount_t = sequence.discount_t.astype(np.float64)

    def close(actual: float, expected: float) -> bool:
        return actual == pytest.approx(expected, rel=2e-4, abs=2e-4)

    h = 1e-5
    for name in live:
        up, down = (objective(discount_t, **{**SETTINGS, name: SETTINGS[name] + d}) for d in (h, -h))
        assert close(gradients[name].numpy(), (up - down) / (2 * h)), name
        assert (gradients[name] != 0) == (name in READS[method])
    for index in np.ndindex(discount_t.shape):
        if sequence.is_boundary[index] or discount_t[index] == 0:
            assert discount_gradient[index] == 0
            continue
        shift = np.zeros_like(discount_t)
        shift[index] = h
        up, down = (objective(discount_t + sign * shift, **SETTINGS) for sign in (1, -1))
        assert close(discount_gradient[index].numpy(), (up - down) / (2 * h)), index


@pytest.mark.parametrize("method", METHODS)
def test_policies_rewards_and_values_get_no_gradient(method):
    sequence = random_sequence(9, 4, seed=19)
    tensors = dict(zip(ARGUMENTS, sequence.tensors()))
    metaparameters = {"lambda_": tf.constant(0.9), "discount_t": tensors.pop("discount_t")}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([tensors, metaparameters])
        output = getattr(v_targets, method)(**tensors, **metaparameters, is_boundary=sequence.is_boundary)
    for field in output:
        assert tape.gradient(field, tensors) == dict.fromkeys(tensors)
    assert tape.gradient(output.targets, metaparameters["lambda_"]) is not None
    assert tape.gradient(output.pg_advantages, metaparameters["discount_t"]) is not None


def test_gradients_of_a_metaparameter_behind_the_discount():
    """r = 3, V(x_2) = 5: d/d gamma of r + gamma r + gamma^2 V(x_2), and of r + gamma r in the ended column."""
    gamma, mask = tf.constant(0.9), tf.constant([[1.0, 1.0], [1.0, 0.0]])
    v_tm1, v_t = tf.fill([2, 2], 7.0), tf.constant([[7.0, 7.0], [5.0, np.nan]])
    with tf.GradientTape() as tape:
        tape.watch(gamma)
        output = v_targets.no_correction(tf.zeros([2, 2]), gamma * mask, tf.fill([2, 2], 3.0), v_tm1, v_t)
        targets = output.targets[0]
    np.testing.assert_allclose(tape.jacobian(targets, gamma), [3 + 2 * 0.9 * 5, 3.0], rtol=1e-6)


# Shapes and modes


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("argument", [*ARGUMENTS, "is_boundary"])
@pytest.mark.parametrize("shape", [(4, 3, 1), (4,), (3, 3), (1, 3)])
def test_a_wrong_shape_names_operator_and_argument(method, argument, shape):
    arguments = {name: tf.zeros([4, 3]) for name in ARGUMENTS} | {"is_boundary": tf.zeros([4, 3], tf.bool)}
    getattr(v_targets, method)(**arguments)
    arguments[argument] = tf.zeros(shape, arguments[argument].dtype)
    # The first argument is what the others are held against, so a deviation of it shows at the second.
    named = "log_rho" if len(shape) == 1 or argument != "log_rho" else "discount_t"
    with pytest.raises(ValueError, match=f"^{method}: .*{argument if argument != 'log_rho' else named}"):
        getattr(v_targets, method)(**arguments)


@pytest.mark.parametrize("method", METHODS)
def test_other_wrong_arguments(method):
    arguments = {name: tf.zeros([4, 3]) for name in ARGUMENTS}
    operator = getattr(v_targets, method)
    for scalar in ("lambda_", "alpha_rho", "alpha_c"):
        with pytest.raises(ValueError, match=f"^{method}: {scalar} must be a scalar"):
            operator(**arguments, **{scalar: tf.ones([3])})
    with pytest.raises(ValueError, match=f"^{method}: .* steps"):
        operator(**{name: tf.zeros([0, 3]) for name in ARGUMENTS})
    unknown_steps = tf.function(operator, autograph=False).get_concrete_function
    with pytest.raises(ValueError, match=f"{method}: .* steps"):
        unknown_steps(*[tf.TensorSpec([None, 3])] * 5)


@pytest.mark.parametrize("method", METHODS)
def test_settings_outside_their_range(method):
    arguments = {name: tf.zeros([4, 3]) for name in ARGUMENTS}
    operator = getattr(v_targets, method)
    for name in ("lambda_", "alpha_rho", "alpha_c"):
        for value in (-0.1, 1.1, 2, np.nan):
            with pytest.raises(ValueError, match=rf"^{method}: {name} must lie in \[0, 1\], got {value}$"):
                operator(**arguments, **{name: value})
    for name in ("clip_rho", "clip_c", "clip_pg_rho"):
        for value in (-1, 0.0, np.nan):
            with pytest.raises(ValueError, match=rf"^{method}: {name} must lie in \(0, inf\], got {value}$"):
                operator(**arguments, **{name: value})


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_of_another_type(name):
    arguments = {argument: tf.zeros([4, 3]) for argument in ARGUMENTS}
    with pytest.raises(ValueError, match=rf"^vtrace: {name} must be float32, got float64; convert it by tf\.cast"):
        v_targets.vtrace(**arguments, **{name: tf.constant(0.5, tf.float64)})


def test_an_infinite_truncation_level_is_none():
    sequence = random_sequence(7, 4, seed=24)
    untruncated = run("vtrace", sequence, clip_rho=None, clip_c=None, clip_pg_rho=None)
    infinite = run("vtrace", sequence, clip_rho=np.inf, clip_c=np.inf, clip_pg_rho=np.inf)
    np.testing.assert_array_equal(fields(infinite), fields(untruncated))


def test_an_unknown_batch_size_is_checked_when_the_graph_runs():
    operator = tf.function(v_targets.vtrace, input_signature=[tf.TensorSpec([6, None])] * 5, autograph=False)
    sequence = random_sequence(6, 3, seed=20, p_boundary=0.0)
    tensors = sequence.tensors()
    np.testing.assert_allclose(operator(*tensors).targets, run("vtrace", sequence).targets, rtol=1e-5)
    tensors[2] = tensors[2][:, :1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="vtrace: r_t must have the shape of log_rho"):
        operator(*tensors)


@pytest.mark.parametrize("method", METHODS)
def test_further_batch_dimensions(method):
    sequence = random_sequence(7, 12, seed=21)
    folded = Sequence(*(x.reshape(7, 2, 3, 2) for x in sequence))
    expected = fields(run(method, sequence, **SETTINGS)).reshape(3, 7, 2, 3, 2)
    np.testing.assert_allclose(fields(run(method, folded, **SETTINGS)), expected, rtol=1e-6, atol=1e-6)


def test_a_setting_of_each_head_is_that_of_the_head_alone():
    sequence = random_sequence(7, 4, seed=23)
    heads = Sequence(*(np.repeat(x[..., None], 2, axis=-1) for x in sequence))
    settings = {name: tf.constant([value, 0.5 * value]) for name, value in SETTINGS.items()}
    together = fields(run("vtrace", heads, **settings))  # [3, 7, 4, 2]
    for i in range(2):
        alone = fields(run("vtrace", sequence, **{name: float(value[i]) for name, value in settings.items()}))
        np.testing.assert_allclose(together[..., i], alone, rtol=1e-6, atol=1e-6)
    assert not np.allclose(together[..., 0], together[..., 1], atol=0.1)
    for name in settings:
        with pytest.raises(ValueError, match=rf"^vtrace: {name} must be a scalar or have shape \(2,\), got"):
            run("vtrace", heads, **{name: tf.ones([3])})


def test_a_truncation_level_receives_the_gradient_of_what_it_truncates():
    """With T = 1, r = 2 and V = 0, IS = 3 over a level of 1.5: targets 1.5 * 2; IS = 0.5 is below the level."""
    level = tf.constant(1.5)
    data = [tf.math.log([[3.0, 0.5]]), tf.zeros([1, 2]), tf.fill([1, 2], 2.0), tf.zeros([1, 2]), tf.zeros([1, 2])]
    with tf.GradientTape() as tape:
        tape.watch(level)
        targets = v_targets.vtrace(*data, clip_rho=level).targets
    np.testing.assert_allclose(targets, [[3.0, 1.0]])
    np.testing.assert_allclose(tape.jacobian(targets, level), [[2.0, 0.0]])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("num_steps", [1, 20])
def test_eager_graph_and_xla_agree(method, num_steps):
    sequence = random_sequence(num_steps, 6, seed=22)

    def operator(discount_t: tf.Tensor, lambda_: tf.Tensor) -> tuple:
        tensors = sequence.tensors()
        tensors[1] = discount_t
        settings = {**SETTINGS, "lambda_": lambda_}
        with tf.GradientTape() as tape:
            tape.watch(discount_t)
            output = getattr(v_targets, method)(*tensors, is_boundary=sequence.is_boundary, **settings)
            total = tf.reduce_sum(output.targets) + 2 * tf.reduce_sum(output.pg_advantages)
        return *output, tape.gradient(total, discount_t)

    arguments = tf.constant(sequence.discount_t), tf.constant(0.9)
    eager = operator(*arguments)
    assert np.isfinite(eager[0]).all()
    for jit_compile in (False, True):
        compiled = tf.function(operator, jit_compile=jit_compile, autograph=False)(*arguments)
        for x, y in zip(compiled, eager):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
