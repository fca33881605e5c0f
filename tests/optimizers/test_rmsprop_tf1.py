"""RMSPropTF1 against TensorFlow 1's optimiser, against the equations, and against variants that it must not be."""

import numpy as np
import pytest
import tensorflow as tf

from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.optimizers.schedules import LinearOnFrames

SHAPES = [(3, 4), (5,), ()]
STEPS = 100
RATE, DECAY, EPSILON = 6e-3, 0.9, 0.01


def starts_and_gradients():
    """Three variables, and for each 100 gradients from 1e-3 to 1e3, some of them exactly zero."""
    rng = np.random.default_rng(0)
    starts = [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]
    scales = 10.0 ** rng.uniform(-3, 3, size=STEPS) * (rng.uniform(size=STEPS) > 0.1)
    gradients = [[(rng.normal(size=shape) * scale).astype(np.float32) for shape in SHAPES] for scale in scales]
    return starts, gradients


def run_tf1(momentum):
    starts, gradients = starts_and_gradients()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = [tf.compat.v1.Variable(start, use_resource=True) for start in starts]
        holders = [tf.compat.v1.placeholder(tf.float32, shape) for shape in SHAPES]
        optimizer = tf.compat.v1.train.RMSPropOptimizer(RATE, decay=DECAY, momentum=momentum, epsilon=EPSILON)
        step = optimizer.apply_gradients(zip(holders, variables))
        session.run(tf.compat.v1.global_variables_initializer())
        for gradient in gradients:
            session.run(step, dict(zip(holders, gradient)))
        return session.run(variables)


def run_keras(optimizer, mode="graph"):
    starts, gradients = starts_and_gradients()
    variables = [tf.Variable(start) for start in starts]
    optimizer.build(variables)

    def step(gradient):
        optimizer.apply_gradients(zip(gradient, variables), skip_gradients_aggregation=True)

    if mode != "eager":
        step = tf.function(step, jit_compile=mode == "xla", autograph=False)
    for gradient in gradients:
        step([tf.constant(g) for g in gradient])
    return [variable.numpy() for variable in variables]


def run_equations(rates, momentum):
    """The docstring's three lines in float64."""
    starts, gradients = starts_and_gradients()
    weights = [start.astype(np.float64) for start in starts]
    squares = [np.ones(shape) for shape in SHAPES]
    moments = [np.zeros(shape) for shape in SHAPES]
    for rate, gradient in zip(rates, gradients):
        for i, g in enumerate(gradient):
            squares[i] = DECAY * squares[i] + (1 - DECAY) * g.astype(np.float64) ** 2
            moments[i] = momentum * moments[i] + rate * g / np.sqrt(squares[i] + EPSILON)
            weights[i] = weights[i] - moments[i]
    return weights


def largest_difference(a, b):
    return max(np.max(np.abs(x - y)) for x, y in zip(a, b))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_equals_tensorflow_1_over_100_steps(mode, momentum):
    expected = run_tf1(momentum)
    got = run_keras(RMSPropTF1(RATE, decay=DECAY, momentum=momentum, epsilon=EPSILON), mode)
    for x, y in zip(got, expected):
        if mode == "xla":
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_equals_the_equations(momentum):
    got = run_keras(RMSPropTF1(RATE, decay=DECAY, momentum=momentum, epsilon=EPSILON))
    assert largest_difference(got, run_equations([RATE] * STEPS, momentum)) < 1e-5


def test_keras_rmsprop_is_another_optimiser():
    keras = run_keras(tf.keras.optimizers.RMSprop(RATE, rho=DECAY, epsilon=EPSILON))
    assert largest_difference(keras, run_tf1(0.0)) > 1e-2


def test_first_step_by_hand():
    """decay 0.75, g = 2: s = 0.75 + 0.25 * 4 = 1.75; with epsilon 0.5 the step is 2 rate / sqrt(2.25)."""
    variable = tf.Variable([1.0])
    optimizer = RMSPropTF1(0.3, decay=0.75, epsilon=0.5)
    optimizer.apply_gradients([(tf.constant([2.0]), variable)], skip_gradients_aggregation=True)
    np.testing.assert_allclose(variable, [1.0 - 0.3 * 2.0 / 1.5], rtol=1e-6)


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_step_k_uses_the_schedule_at_k(mode):
    schedule = LinearOnFrames(RATE, RATE / 10, total_frames=80, frames_per_update=1)
    optimizer = RMSPropTF1(schedule, decay=DECAY, momentum=0.5, epsilon=EPSILON)
    got = run_keras(optimizer, mode)
    rates = [RATE + (RATE / 10 - RATE) * min(1.0, k / 80) for k in range(STEPS)]
    assert largest_difference(got, run_equations(rates, 0.5)) < 1e-5
    assert largest_difference(got, run_equations(rates[1:] + rates[-1:], 0.5)) > 1e-5  # one update late
    assert int(optimizer.iterations) == STEPS


@pytest.mark.parametrize("built_before_restore", [True, False])
def test_continues_bit_for_bit_from_a_checkpoint(tmp_path, built_before_restore):
    starts, gradients = starts_and_gradients()

    def make(values):
        variables = [tf.Variable(value) for value in values]
        optimizer = RMSPropTF1(LinearOnFrames(RATE, 0.0, 100, 1), momentum=0.9, epsilon=EPSILON)
        return variables, optimizer, tf.train.Checkpoint(variables=variables, optimizer=optimizer)

    def train(variables, optimizer, some_gradients):
        for gradient in some_gradients:
            pairs = zip(map(tf.constant, gradient), variables)
            optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)

    variables, optimizer, checkpoint = make(starts)
    train(variables, optimizer, gradients[:50])
    path = checkpoint.write(str(tmp_path / "half"))
    train(variables, optimizer, gradients[50:])

    resumed, resumed_optimizer, resumed_checkpoint = make([np.zeros_like(start) for start in starts])
    if built_before_restore:
        resumed_optimizer.build(resumed)
    status = resumed_checkpoint.read(path)
    train(resumed, resumed_optimizer, gradients[50:])
    status.assert_consumed()
    assert int(resumed_optimizer.iterations) == STEPS
    for x, y in zip(resumed, variables):
        np.testing.assert_array_equal(x, y)

    fresh, fresh_optimizer, fresh_checkpoint = make(starts)
    fresh_checkpoint.read(path).expect_partial()
    lost_slots = RMSPropTF1(RATE, momentum=0.9, epsilon=EPSILON)
    train(fresh, lost_slots, gradients[50:])
    assert largest_difference([v.numpy() for v in fresh], [v.numpy() for v in variables]) > 1e-2
    assert int(fresh_optimizer.iterations) == 50


def test_slots_start_at_one_and_zero_and_a_second_build_keeps_them():
    variables = [tf.Variable([5.0, 6.0])]
    optimizer = RMSPropTF1(0.1)
    optimizer.build(variables)
    squares = next(v for v in optimizer.variables if v.name.startswith("mean_square"))
    moments = next(v for v in optimizer.variables if v.name.startswith("momentum"))
    np.testing.assert_array_equal(squares, [1.0, 1.0])
    np.testing.assert_array_equal(moments, [0.0, 0.0])
    optimizer.apply_gradients([(tf.ones([2]), variables[0])], skip_gradients_aggregation=True)
    after = squares.numpy()
    optimizer.build(variables)
    np.testing.assert_array_equal(squares, after)


def test_config_round_trip():
    optimizer = RMSPropTF1(RATE, decay=0.8, momentum=0.7, epsilon=0.3)
    copy = RMSPropTF1.from_config(optimizer.get_config())
    for x, y in zip(run_keras(copy), run_keras(RMSPropTF1(RATE, decay=0.8, momentum=0.7, epsilon=0.3))):
        np.testing.assert_array_equal(x, y)


def test_refuses_a_sparse_gradient():
    table = tf.Variable(tf.ones([4, 2]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [1, 3]))
    gradient = tape.gradient(loss, table)
    with pytest.raises(TypeError, match="sparse"):
        RMSPropTF1(0.1).apply_gradients([(gradient, table)], skip_gradients_aggregation=True)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_say_what_the_update_subtracts_and_change_nothing(momentum):
    starts, gradients = starts_and_gradients()
    variables = [tf.Variable(start) for start in starts]
    optimizer = RMSPropTF1(LinearOnFrames(RATE, RATE / 10, 20, 1), momentum=momentum, epsilon=EPSILON)
    optimizer.build(variables)
    for gradient in gradients[:10]:
        gradient = [tf.constant(g) for g in gradient]
        before, slots = [v.numpy() for v in variables], [v.numpy() for v in optimizer.variables]
        steps = optimizer.steps(gradient)
        for slot, unchanged in zip(optimizer.variables, slots):
            np.testing.assert_array_equal(slot, unchanged)
        optimizer.apply_gradients(zip(gradient, variables), skip_gradients_aggregation=True)
        for step, start, variable in zip(steps, before, variables):
            np.testing.assert_allclose(step, start - variable, rtol=1e-5, atol=1e-6)


def test_the_gradient_of_a_step_by_hand():
    """step = rate g (0.75 s + 0.25 g^2 + eps)^-1/2, so d step / dg = rate (0.75 s + eps) (..)^-3/2; s = 1, g = 2, .."""
    variable, g = tf.Variable([1.0, 1.0]), tf.constant([2.0, -2.0])
    optimizer = RMSPropTF1(0.3, decay=0.75, epsilon=0.5)
    optimizer.build([variable])
    with tf.GradientTape() as tape:
        tape.watch(g)
        (step,) = optimizer.steps([g])
    np.testing.assert_allclose(step, [0.3 * 2.0 / 1.5, -0.3 * 2.0 / 1.5], rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(step, g), [0.3 * 1.25 / 1.5**3] * 2, rtol=1e-6)
