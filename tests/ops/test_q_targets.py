"""Targets of action values against slow sums, by hand, by identity, under poison, and through gradients."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.ops import q_targets, traces
from tests.ops import q_targets_oracle as oracle
from tests.ops.q_targets_oracle import LAMBDA, Sequence, poisoned, random_sequence

ARGUMENTS = {
    "multistep_q": ["r_t", "discount_t", "c_t", "expected_q_t", "q_t_a"],
    "n_step_uncorrected": ["r_t", "discount_t", "expected_q_t"],
    "n_step_importance_weighted": ["r_t", "discount_t", "log_rho_t", "expected_q_t"],
}
SETTINGS = {
    "multistep_q": {"lambda_": LAMBDA},
    "n_step_uncorrected": {"n": 3},
    "n_step_importance_weighted": {"n": 3},
}
OPERATORS = list(ARGUMENTS)


def run(operator: str, sequence: Sequence, **settings) -> np.ndarray:
    settings = {**SETTINGS[operator], **settings}
    return getattr(q_targets, operator)(**sequence.arguments(*ARGUMENTS[operator]), **settings).numpy()


def expected(operator: str, sequence: Sequence, **settings) -> np.ndarray:
    settings = {**SETTINGS[operator], **settings}
    if operator == "multistep_q":
        return oracle.multistep_q(sequence, **settings)
    return oracle.n_step(sequence, weighted=operator == "n_step_importance_weighted", **settings)


def assert_close(actual: np.ndarray, wanted: np.ndarray) -> None:
    assert actual.shape == wanted.shape
    np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-4)


def unbroken(num_steps: int, batch: int, seed: int) -> Sequence:
    """One piece: no boundary rows, no ends."""
    return random_sequence(num_steps, batch, seed, p_end=0.0, p_boundary=0.0)


# The sum


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("num_steps", [1, 2, 3, 5, 8, 9, 20])
def test_equals_the_double_loop(operator, num_steps):
    sequence = random_sequence(num_steps, 16, seed=num_steps)
    assert_close(run(operator, sequence), expected(operator, sequence))


@pytest.mark.parametrize("operator", OPERATORS[1:])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 12, 40])
def test_windows_equal_the_double_loop(operator, n):
    sequence = random_sequence(12, 16, seed=n, p_end=0.08, p_boundary=0.08)
    assert_close(run(operator, sequence, n=n), expected(operator, sequence, n=n))
    if n < 12:
        assert not np.allclose(run(operator, sequence, n=n), expected(operator, sequence, n=n + 1), rtol=1e-2)


def test_a_wrong_lambda_gives_a_wrong_answer():
    sequence = random_sequence(12, 16, seed=4)
    assert not np.allclose(run("multistep_q", sequence), expected("multistep_q", sequence, lambda_=0.8), rtol=1e-2)


def test_three_steps_by_hand():
    """gamma = 1/2; rewards 3, 5, 7; E Q = 2, 4, 6; Q(x_1, a_1) = 1, Q(x_2, a_2) = 8; c_1 = 1/2, c_2 = 1/4.

    G_2 = 7 + 6/2 = 10
    G_1 = 5 + 1/2 (4 + 1/4 (10 - 8)) = 29/4
    G_0 = 3 + 1/2 (2 + 1/2 (29/4 - 1)) = 89/16
    """
    nan = np.nan
    targets = q_targets.multistep_q(
        r_t=[[3.0], [5.0], [7.0]], discount_t=[[0.5]] * 3, c_t=[[0.5], [0.25], [nan]],
        expected_q_t=[[2.0], [4.0], [6.0]], q_t_a=[[1.0], [8.0], [nan]],
    )  # fmt: skip
    np.testing.assert_allclose(targets, [[89 / 16], [29 / 4], [10]], rtol=1e-6)


def test_windows_of_two_steps_by_hand():
    """gamma = 1/2; rewards 3, 5, 7; E Q = 2, 4, 6; rho_1 = 2, rho_2 = 3.

    uncorrected: 3 + 5/2 + 4/4 = 13/2, 5 + 7/2 + 6/4 = 10, 7 + 6/2 = 10
    weighted: 3 + 2 5/2 + 2 4/4 = 10, 5 + 3 7/2 + 3 6/4 = 20, 10
    rho_1 also weighs the bootstrap value at x_2, rho_2 does not.
    """
    rewards, discounts, values = [[3.0], [5.0], [7.0]], [[0.5]] * 3, [[2.0], [4.0], [6.0]]
    uncorrected = q_targets.n_step_uncorrected(rewards, discounts, values, n=2)
    log_rho_t = np.log([[2.0], [3.0], [np.nan]])
    weighted = q_targets.n_step_importance_weighted(rewards, discounts, log_rho_t, values, n=2)
    np.testing.assert_allclose(uncorrected, [[13 / 2], [10], [10]], rtol=1e-6)
    np.testing.assert_allclose(weighted, [[10], [20], [10]], rtol=1e-6)


# Identities: the rules of `traces` with policies and values of every action


class Policies:
    """pi, mu and Q of the next state in every row, [T, B, A], the action taken there, and their sequence."""

    def __init__(self, num_steps: int = 9, batch: int = 8, num_actions: int = 3, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        shape = (num_steps, batch)
        self.pi, self.mu = rng.dirichlet(np.ones(num_actions), size=(2, *shape)).astype(np.float32)
        self.q = rng.normal(size=(*shape, num_actions)).astype(np.float32)
        self.actions = rng.integers(num_actions, size=shape)
        self.sequence = unbroken(num_steps, batch, seed)._replace(q_t_a=self.taken(self.q))
        self.log_rho = traces.log_ratio(self.taken(self.pi), self.taken(self.mu)).numpy()

    def taken(self, x: np.ndarray) -> np.ndarray:
        return np.take_along_axis(x, self.actions[..., None], axis=-1)[..., 0]

    def targets(self, c_t: tf.Tensor, policy: np.ndarray | tf.Tensor, lambda_: float = 1.0) -> np.ndarray:
        sequence = self.sequence._replace(
            c_t=np.asarray(c_t), expected_q_t=traces.expected_value(self.q, policy).numpy()
        )
        return run("multistep_q", poisoned(sequence), lambda_=lambda_)

    def one_step(self, policy: np.ndarray) -> np.ndarray:
        """Expected SARSA: r + gamma sum_a policy(a|x') Q(x', a)."""
        return self.sequence.r_t + self.sequence.discount_t * np.sum(policy * self.q, axis=-1)

    def uncorrected_return(self, policy: np.ndarray) -> np.ndarray:
        """The piece's rewards, and its last state's value under `policy`."""
        sequence = self.sequence._replace(expected_q_t=np.sum(policy * self.q, axis=-1))
        return oracle.n_step(sequence, n=len(self.q), weighted=False)


def test_on_policy_retrace_is_the_return_of_the_piece_and_its_control_variates():
    """G_s = return of the piece + sum_t gamma^t (E Q(x_t) - Q(x_t, a_t)) over the states that it passes through."""
    case = Policies(seed=1)
    variates = np.sum(case.mu * case.q, axis=-1) - case.taken(case.q)
    variates[-1] = 0.0  # at the last state the expectation is the bootstrap value itself
    total = case.uncorrected_return(case.mu)
    for s in range(len(total)):
        product = 1.0
        for t in range(s, len(total)):
            product = product * case.sequence.discount_t[t]
            total[s] += product * variates[t]
    on_policy = traces.retrace(traces.log_ratio(case.taken(case.mu), case.taken(case.mu)))
    assert_close(case.targets(on_policy, case.mu), total)
    assert not np.allclose(case.targets(traces.retrace(case.log_rho), case.pi), total, rtol=1e-2)


def test_on_policy_retrace_is_the_n_step_return_where_q_does_not_depend_on_the_action():
    case = Policies(seed=2)
    case.q[:] = case.q[..., :1]
    case.sequence = case.sequence._replace(q_t_a=case.taken(case.q))
    assert_close(case.targets(np.ones_like(case.log_rho), case.mu), case.uncorrected_return(case.mu))
    assert not np.allclose(case.targets(traces.retrace(case.log_rho), case.pi), case.uncorrected_return(case.pi), 1e-2)


def test_alpha_one_is_retrace_and_alpha_zero_is_on_policy_evaluation_of_the_behaviour():
    case = Policies(seed=3)

    def alpha_retrace(alpha: float) -> np.ndarray:
        return case.targets(traces.alpha_retrace(case.log_rho, alpha), traces.mixture(case.pi, case.mu, alpha))

    retrace = case.targets(traces.retrace(case.log_rho), case.pi)
    on_behaviour = case.targets(np.ones_like(case.log_rho), case.mu)
    assert_close(alpha_retrace(1.0), retrace)
    assert_close(alpha_retrace(0.0), on_behaviour)
    assert not np.allclose(alpha_retrace(0.5), retrace, rtol=1e-2)
    assert not np.allclose(alpha_retrace(0.5), on_behaviour, rtol=1e-2)
    # With pi in the expectation alpha = 0 would be Q^opc, another operator.
    assert not np.allclose(case.targets(traces.alpha_retrace(case.log_rho, 0.0), case.pi), on_behaviour, rtol=1e-2)


def test_alpha_retrace_is_retrace_towards_the_mixture():
    case, alpha = Policies(seed=4), 0.3
    mixture = traces.mixture(case.pi, case.mu, alpha)
    log_rho = traces.log_ratio(case.taken(mixture.numpy()), case.taken(case.mu))
    expected_targets = case.targets(traces.retrace(log_rho), mixture)
    assert_close(case.targets(traces.alpha_retrace(case.log_rho, alpha), mixture), expected_targets)


def test_alpha_tree_backup_is_tree_backup_towards_the_mixture():
    case, alpha = Policies(seed=5), 0.3
    pi_a, mu_a = case.taken(case.pi), case.taken(case.mu)
    mixture = traces.mixture(case.pi, case.mu, alpha)
    expected_targets = case.targets(traces.tree_backup(case.taken(mixture.numpy())), mixture)
    assert_close(case.targets(traces.alpha_tree_backup(pi_a, mu_a, alpha), mixture), expected_targets)
    assert_close(
        case.targets(traces.alpha_tree_backup(pi_a, mu_a, 1.0), case.pi),
        case.targets(traces.tree_backup(pi_a), case.pi),
    )


def test_tree_backup_of_a_greedy_policy_is_q_learning_until_the_first_other_action():
    """Precup et al.: with a greedy pi the return runs along greedy actions, then takes the maximum (Watkins' Q)."""
    case = Policies(seed=6)
    greedy = np.eye(3, dtype=np.float32)[np.argmax(case.q, axis=-1)]
    targets = case.targets(traces.tree_backup(case.taken(greedy)), greedy)
    for s, b in np.ndindex(*targets.shape):
        total, product, t = 0.0, 1.0, s
        while True:
            total += product * case.sequence.r_t[t, b]
            product *= case.sequence.discount_t[t, b]
            if t + 1 == len(targets) or case.actions[t, b] != np.argmax(case.q[t, b]):
                break
            t += 1
        assert targets[s, b] == pytest.approx(total + product * np.max(case.q[t, b]), rel=1e-4, abs=1e-4)
    # A ratio of 0 cuts Retrace in the same places.
    log_rho = traces.log_ratio(case.taken(greedy), case.taken(case.mu))
    assert_close(case.targets(traces.retrace(log_rho), greedy), targets)


def test_lambda_zero_is_expected_sarsa():
    case = Policies(seed=7)
    for c_t in (traces.retrace(case.log_rho), traces.importance_sampling(case.log_rho)):
        assert_close(case.targets(c_t, case.pi, lambda_=0.0), case.one_step(case.pi))
        assert not np.allclose(case.targets(c_t, case.pi), case.one_step(case.pi), rtol=1e-2)


def test_n_of_one_is_expected_sarsa():
    case = Policies(seed=8)
    sequence = case.sequence._replace(expected_q_t=traces.expected_value(case.q, case.pi).numpy())
    assert_close(run("n_step_uncorrected", sequence, n=1), case.one_step(case.pi))
    assert_close(run("n_step_importance_weighted", sequence, n=1), case.one_step(case.pi))


def test_q_opc_is_rewards_and_corrections_without_cuts():
    """ACER, Eq. (21): Q^opc = r + gamma (Q^opc' - Q' + V')."""
    case = Policies(seed=9)
    r_t, discount_t, q_t_a = case.sequence.r_t, case.sequence.discount_t, case.taken(case.q)
    v = np.sum(case.pi * case.q, axis=-1)
    q_opc = [r_t[-1] + discount_t[-1] * v[-1]]
    for t in reversed(range(len(v) - 1)):
        q_opc.insert(0, r_t[t] + discount_t[t] * (q_opc[0] - q_t_a[t] + v[t]))
    assert_close(case.targets(traces.q_lambda(case.log_rho), case.pi), np.stack(q_opc))
    assert not np.allclose(case.targets(traces.retrace(case.log_rho), case.pi), q_opc, rtol=1e-2)


def test_acer_truncation_in_one_dimension_is_retrace():
    case = Policies(seed=10)
    retrace = case.targets(traces.retrace(case.log_rho), case.pi)
    assert_close(case.targets(traces.acer_truncated(case.log_rho, 1), case.pi), retrace)
    assert not np.allclose(case.targets(traces.acer_truncated(case.log_rho, 3), case.pi), retrace, rtol=1e-2)


def test_importance_weights_of_one_are_no_correction():
    sequence = random_sequence(12, 16, seed=11)
    on_policy = sequence._replace(log_rho_t=0 * sequence.log_rho_t)
    np.testing.assert_array_equal(run("n_step_importance_weighted", on_policy), run("n_step_uncorrected", sequence))


# Ends and boundaries


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("end", [0, 4, 7, 8])
def test_a_sequence_with_an_end_inside_is_its_two_pieces_apart(operator, end):
    sequence = unbroken(10, 8, seed=12)
    joined = run(operator, sequence)
    sequence.discount_t[end] = 0.0
    sequence = poisoned(sequence)
    apart = [run(operator, sequence.slice(piece)) for piece in (slice(None, end + 1), slice(end + 1, None))]
    assert_close(run(operator, sequence), np.concatenate(apart))
    assert not np.allclose(joined, np.concatenate(apart), rtol=1e-2)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("row", [1, 4, 8])
def test_a_boundary_row_is_two_pieces_apart_and_itself_zero(operator, row):
    sequence = unbroken(10, 8, seed=13)
    joined = run(operator, sequence)
    sequence.is_boundary[row] = True
    sequence = poisoned(sequence)
    pieces = [run(operator, sequence.slice(piece)) for piece in (slice(None, row), slice(row + 1, None))]
    apart = np.concatenate([pieces[0], np.zeros((1, 8)), pieces[1]])
    assert_close(run(operator, sequence), apart)
    others = np.arange(10) != row
    assert not np.allclose(joined[others], apart[others], rtol=1e-2)


@pytest.mark.parametrize("operator", OPERATORS)
def test_nothing_after_an_end_is_read_and_nothing_of_a_boundary_row(operator):
    sequence = unbroken(9, 8, seed=14)
    sequence.discount_t[3, :4], sequence.is_boundary[4, 4:] = 0.0, True
    wanted = run(operator, sequence)[:4]
    sequence = poisoned(sequence)
    for x in sequence[:-1]:
        x[4:] = np.nan
    np.testing.assert_array_equal(run(operator, sequence)[:4], wanted)


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_is_read_is_not_hidden(operator):
    """A NaN where the operator must read shows: the poison above is not swallowed by accident."""
    read_at = {"expected_q_t": 2} if operator != "multistep_q" else {}  # of a window only the last expectation is read
    for name in ARGUMENTS[operator]:
        sequence = unbroken(6, 1, seed=15)
        getattr(sequence, name)[read_at.get(name, 1)] = np.nan
        assert np.isnan(run(operator, sequence)[0, 0]), name


def test_ratios_of_zero_and_of_infinity():
    """pi greedy, or mu zero: a cut trace is cut, a truncated one is 1, and the two-step weight is 0 or infinite."""
    sequence = unbroken(4, 1, seed=16)
    log_rho_t = np.array([[-np.inf], [np.inf], [0.0], [np.nan]], np.float32)
    cut = sequence._replace(c_t=traces.retrace(log_rho_t).numpy())
    wanted = sequence._replace(c_t=np.array([[0.0], [1.0], [1.0], [0.0]], np.float32))
    assert_close(run("multistep_q", cut), run("multistep_q", wanted))
    weighted = run("n_step_importance_weighted", sequence._replace(log_rho_t=log_rho_t), n=2)
    assert weighted[0, 0] == sequence.r_t[0, 0]
    assert np.isinf(weighted[1, 0])
    assert np.isfinite(weighted[2:]).all()


# Gradients


@pytest.mark.parametrize("operator", OPERATORS)
def test_targets_are_constants(operator):
    sequence = random_sequence(9, 4, seed=17)
    tensors = {name: tf.constant(getattr(sequence, name)) for name in ARGUMENTS[operator]}
    settings = dict(SETTINGS[operator])
    watched = dict(tensors)
    if operator == "multistep_q":
        watched["lambda_"] = settings["lambda_"] = tf.constant(LAMBDA)
    with tf.GradientTape() as tape:
        tape.watch(watched)
        total = tf.reduce_sum(getattr(q_targets, operator)(**tensors, is_boundary=sequence.is_boundary, **settings))
    assert tape.gradient(total, watched) == dict.fromkeys(watched)


def test_alpha_gets_no_gradient_through_targets():
    case, alpha = Policies(seed=18), tf.constant(0.4)
    with tf.GradientTape() as tape:
        tape.watch(alpha)
        c_t = traces.alpha_retrace(case.log_rho, alpha)
        expected_q_t = traces.expected_value(case.q, traces.mixture(case.pi, case.mu, alpha))
        sequence = case.sequence
        targets = q_targets.multistep_q(sequence.r_t, sequence.discount_t, c_t, expected_q_t, sequence.q_t_a)
    assert tape.gradient(targets, alpha) is None


def test_a_loss_reaches_the_value_and_not_the_target():
    """d/dq of (G - q)^2 / 2 is q - G, with G made of values of the same network."""
    sequence = unbroken(6, 2, seed=19)
    q = tf.Variable(sequence.expected_q_t)
    with tf.GradientTape() as tape:
        targets = q_targets.multistep_q(sequence.r_t, sequence.discount_t, sequence.c_t, q, q)
        loss = tf.reduce_sum(0.5 * tf.square(targets - q))
    np.testing.assert_allclose(tape.gradient(loss, q), q - targets, rtol=1e-5, atol=1e-6)


# Shapes and modes


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("shape", [(4, 3, 1), (4,), (3, 3), (1, 3)])
def test_a_wrong_shape_names_operator_and_argument(operator, shape):
    names = ARGUMENTS[operator]
    correct = {name: tf.zeros([4, 3]) for name in names} | {"is_boundary": tf.zeros([4, 3], tf.bool)}
    getattr(q_targets, operator)(**correct, **SETTINGS[operator])
    for argument in correct:
        arguments = correct | {argument: tf.zeros(shape, correct[argument].dtype)}
        # The first argument is what the others are held against, so a deviation of it shows at the second.
        named = "discount_t" if argument == "r_t" and len(shape) > 1 else argument
        with pytest.raises(ValueError, match=f"^{operator}: {named} must have"):
            getattr(q_targets, operator)(**arguments, **SETTINGS[operator])


@pytest.mark.parametrize("operator", OPERATORS)
def test_other_wrong_arguments(operator):
    names = ARGUMENTS[operator]
    function = getattr(q_targets, operator)
    with pytest.raises(ValueError, match=f"^{operator}: .* steps"):
        function(**{name: tf.zeros([0, 3]) for name in names}, **SETTINGS[operator])
    with pytest.raises(ValueError, match=f"{operator}: .* steps"):
        tf.function(lambda *x: function(*x, **SETTINGS[operator]), autograph=False).get_concrete_function(
            *[tf.TensorSpec([None, 3])] * len(names)
        )
    wrong = {"lambda_": tf.ones([3])} if operator == "multistep_q" else {"n": 0}
    with pytest.raises(ValueError, match=f"^{operator}: (lambda_ must be a scalar|n must lie in \\[1, inf\\))"):
        function(**{name: tf.zeros([4, 3]) for name in names}, **wrong)


def test_a_lambda_of_another_type():
    tensors = {name: tf.zeros([4, 3]) for name in ARGUMENTS["multistep_q"]}
    with pytest.raises(ValueError, match=r"^multistep_q: lambda_ must be float32, got float64; convert it by"):
        q_targets.multistep_q(**tensors, lambda_=tf.constant(0.5, tf.float64))


@pytest.mark.parametrize("lambda_", [-0.1, 1.1, np.nan])
def test_a_lambda_outside_its_range(lambda_):
    tensors = {name: tf.zeros([4, 3]) for name in ARGUMENTS["multistep_q"]}
    with pytest.raises(ValueError, match=rf"^multistep_q: lambda_ must lie in \[0, 1\], got {lambda_}$"):
        q_targets.multistep_q(**tensors, lambda_=lambda_)


def test_an_unknown_batch_size_is_checked_when_the_graph_runs():
    names = ARGUMENTS["multistep_q"]
    operator = tf.function(
        q_targets.multistep_q, input_signature=[tf.TensorSpec([6, None])] * len(names), autograph=False
    )
    sequence = random_sequence(6, 3, seed=20, p_boundary=0.0)
    tensors = [tf.constant(getattr(sequence, name)) for name in names]
    assert_close(operator(*tensors).numpy(), run("multistep_q", sequence, lambda_=1.0))
    tensors[2] = tensors[2][:, :1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="multistep_q: c_t must have the shape of r_t"):
        operator(*tensors)


@pytest.mark.parametrize("operator", OPERATORS)
def test_further_batch_dimensions(operator):
    sequence = random_sequence(7, 12, seed=21)
    folded = Sequence(*(x.reshape(7, 2, 3, 2) for x in sequence))
    assert_close(run(operator, folded), run(operator, sequence).reshape(7, 2, 3, 2))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("num_steps", [1, 16])
def test_eager_graph_and_xla_agree(operator, num_steps):
    sequence = random_sequence(num_steps, 6, seed=22)
    tensors = [tf.constant(getattr(sequence, name)) for name in ARGUMENTS[operator]]

    def function(*arguments: tf.Tensor) -> tf.Tensor:
        return getattr(q_targets, operator)(*arguments, is_boundary=sequence.is_boundary, **SETTINGS[operator])

    eager = function(*tensors)
    assert np.isfinite(eager).all()
    for jit_compile in (False, True):
        np.testing.assert_allclose(
            tf.function(function, jit_compile=jit_compile, autograph=False)(*tensors), eager, rtol=1e-5, atol=1e-5
        )
