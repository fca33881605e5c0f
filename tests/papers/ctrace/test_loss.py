"""The loss of C-trace's agents against printed sums, at the fixed points of its operators, and its gradients."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.ops import traces
from repro.papers.ctrace import alpha_update, targets
from repro.papers.ctrace.loss import DqnLoss, SequenceLossSettings, dqn_loss
from repro.tabular import mdps
from repro.tabular.operators import Method, fixed_point, operator
from tests.tabular import problems

GAMMA, ALPHA, N = 0.9, 0.3, 3
METHODS = ("double_dqn", "n_step", "retrace", "c_trace")
INFINITY = float("inf")


def settings(method: str, **changes) -> SequenceLossSettings:
    return SequenceLossSettings(method, n=N, discount=GAMMA, clip_error=1.0, rescaling=None)._replace(**changes)


def random_batch(seed: int, num_steps: int = 8, batch: int = 60, num_actions: int = 3) -> dict[str, np.ndarray]:
    """Sequences of an epsilon-greedy actor, with ends (some with a boundary row behind them), time limits and noise."""
    rng = np.random.default_rng(seed)
    q, target_q = rng.normal(size=(2, num_steps + 1, batch, num_actions)).astype(np.float32) * 2
    actor_q = q + rng.normal(size=q.shape) * 0.5
    epsilon = rng.choice([0.1, 0.4, 0.7], size=batch)
    behaviour = epsilon[:, None] / num_actions + (1 - epsilon)[:, None] * np.eye(num_actions)[actor_q.argmax(-1)]
    uniforms = rng.random((num_steps, batch, 1))
    actions = (uniforms >= behaviour[:-1].cumsum(-1)).sum(-1).clip(0, num_actions - 1)
    return {
        "q": q,
        "target_q": target_q,
        "behaviour": behaviour.astype(np.float32),
        "actions": actions.astype(np.int32),
        "r_t": rng.normal(size=(num_steps, batch)).astype(np.float32),
        "discount_t": np.where(rng.random((num_steps, batch)) < 0.15, 0.0, GAMMA).astype(np.float32),
        "is_boundary": rng.random((num_steps, batch)) < 0.15,
    }


def poisoned(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """NaN in boundary rows, in the observation behind an end where it is no step, and in values of row 0."""
    boundary = data["is_boundary"]
    ended_before = np.zeros_like(boundary)
    ended_before[1:] = (data["discount_t"] == 0)[:-1] | boundary[:-1]
    found = dict(data)
    for name in ("r_t", "discount_t"):
        found[name] = np.where(boundary, np.float32(np.nan), data[name])
    for name in ("q", "target_q", "behaviour"):
        found[name] = data[name].copy()
        found[name][:-1][boundary & ended_before] = np.nan
    found["target_q"][0] = found["behaviour"][0] = np.nan
    return found


def compute(data: dict[str, np.ndarray], chosen: SequenceLossSettings, alpha=ALPHA) -> DqnLoss:
    return dqn_loss(**{name: tf.constant(x) for name, x in data.items()}, settings=chosen, alpha=alpha)


def inverse(y: np.ndarray, epsilon: float | None) -> np.ndarray:
    """h^-1 as printed."""
    if epsilon is None:
        return y
    root = (np.sqrt(1 + 4 * epsilon * (np.abs(y) + 1 + epsilon)) - 1) / (2 * epsilon)
    return np.sign(y) * (root**2 - 1)


def loop(data: dict[str, np.ndarray], chosen: SequenceLossSettings, alpha: float) -> dict[str, np.ndarray]:
    """Every target from the paper's sums, one step of one sequence after the other, in float64."""
    q = data["q"].astype(np.float64)
    values = inverse(data["target_q"].astype(np.float64), chosen.rescaling)
    mu, actions, r, discount = (data[name] for name in ("behaviour", "actions", "r_t", "discount_t"))
    share = {"retrace": 1.0, "c_trace": alpha}.get(chosen.method)
    num_steps, batch = actions.shape
    found = {name: np.zeros(actions.shape) for name in ("targets", "td_error", "total", "contraction")}

    def pi(x: int, b: int, a: int) -> float:
        return float(a == np.argmax(q[x, b]))

    def expected(x: int, b: int) -> float:
        if discount[x - 1, b] == 0:
            return 0.0
        weight = 1.0 if share is None else share
        policy = [weight * pi(x, b, a) + (1 - weight) * mu[x, b, a] for a in range(q.shape[-1])]
        return sum(p * value for p, value in zip(policy, values[x, b]))

    for s, b in np.ndindex(num_steps, batch):
        if data["is_boundary"][s, b]:
            found["contraction"][s, b] = 1.0
            continue
        length = 1
        while discount[s + length - 1, b] and s + length < num_steps and not data["is_boundary"][s + length, b]:
            length += 1
        if share is None:
            m = min(length, 1 if chosen.method == "double_dqn" else chosen.n)
            target = sum(GAMMA**t * r[s + t, b] for t in range(m)) + GAMMA**m * expected(s + m, b)
            contraction = GAMMA**m
        else:
            target, total = values[s, b, actions[s, b]], 0.0
            for t in range(length):
                c = 1.0
                for u in range(s + 1, s + t + 1):
                    ratio = pi(u, b, actions[u, b]) / mu[u, b, actions[u, b]]
                    c *= chosen.trace_lambda * ((1 - share) + share * min(1.0, ratio))
                x = s + t
                target += GAMMA**t * c * (r[x, b] + GAMMA * expected(x + 1, b) - values[x, b, actions[x, b]])
                total += GAMMA**t * c
            contraction = 1 - (1 - GAMMA) * total
        if chosen.rescaling is not None:
            target = np.sign(target) * (np.sqrt(abs(target) + 1) - 1) + chosen.rescaling * target
        error = target - q[s, b, actions[s, b]]
        k = chosen.clip_error
        found["targets"][s, b], found["td_error"][s, b], found["contraction"][s, b] = target, error, contraction
        found["total"][s, b] = error**2 / 2 if abs(error) <= k else k * abs(error) - k**2 / 2
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("trace_lambda", [1.0, 0.97, 0.5, 0.0])
def test_lambda_multiplies_the_traces_of_target_and_contraction(method: str, trace_lambda: float) -> None:
    data, chosen = random_batch(8), settings(method, trace_lambda=trace_lambda)
    found, expected = compute(poisoned(data), chosen), loop(data, chosen, ALPHA)
    for name in ("targets", "td_error", "contraction"):
        np.testing.assert_allclose(found.extras[name], expected[name], rtol=1e-4, atol=1e-5, err_msg=name)
    printed = loop(data, settings(method), ALPHA)
    reads = method in ("retrace", "c_trace") and trace_lambda < 1
    for name in ("targets", "contraction"):
        assert np.allclose(found.extras[name], printed[name], rtol=1e-4, atol=1e-5) != reads, name
    if trace_lambda == 0 and reads:  # one step is left
        steps = ~data["is_boundary"]
        np.testing.assert_allclose(found.extras["contraction"].numpy()[steps], GAMMA, rtol=1e-6)


@pytest.mark.parametrize("changes", [{}, {"clip_error": INFINITY, "rescaling": 1e-3}], ids=["dqn", "r2d2"])
@pytest.mark.parametrize("method", METHODS)
def test_loss_is_the_printed_one(method: str, changes: dict[str, float]) -> None:
    data, chosen = random_batch(0), settings(method, **changes)
    expected = loop(data, chosen, ALPHA)
    errors = np.abs(expected["td_error"])
    assert (errors > 1).any()
    assert ((errors > 0) & (errors < 1)).any()
    found = compute(poisoned(data), chosen)
    np.testing.assert_allclose(found.total, expected["total"], rtol=2e-4, atol=1e-5)
    for name in ("targets", "td_error", "contraction"):
        np.testing.assert_allclose(found.extras[name], expected[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_each_method_reads_its_own_parameter() -> None:
    data = random_batch(1)
    for method, reads_n, reads_alpha in zip(METHODS, (False, True, False, False), (False, False, False, True)):
        base = compute(data, settings(method)).total
        assert np.allclose(base, compute(data, settings(method, n=5)).total) != reads_n
        assert np.allclose(base, compute(data, settings(method), 1 - ALPHA).total) != reads_alpha


def test_a_time_limit_bootstraps_from_the_last_observation_and_an_end_does_not() -> None:
    """Two steps, the second a boundary row: G_0 = 1 + gamma max Q', or 1 where the episode ended."""
    row = np.ones((2, 1), np.float32)
    data = {
        "q": np.float32([[[0, 0]], [[3, 5]], [[7, 7]]]),
        "target_q": np.float32([[[0, 0]], [[20, 10]], [[90, 90]]]),
        "behaviour": np.full((3, 1, 2), 0.5, np.float32),
        "actions": np.zeros((2, 1), np.int32),
        "r_t": row,
        "is_boundary": np.array([[False], [True]]),
    }
    for method in METHODS:
        mean = 10 if method != "c_trace" else 10 * ALPHA + 15 * (1 - ALPHA)
        for discount, target in ((GAMMA, 1 + GAMMA * mean), (0.0, 1.0)):
            found = compute({**data, "discount_t": discount * row}, settings(method))
            np.testing.assert_allclose(found.extras["targets"], [[target], [0]], rtol=1e-6, err_msg=method)


class Exact:
    """Every path of a problem as a batch; the probability of each one given its first pair."""

    def __init__(self, problem: problems.Problem, num_steps: int) -> None:
        self.problem = problem
        mdp = problem.mdp
        paths = problems.all_paths(problem, num_steps)
        reachable = paths.probability > 0
        self.states, self.actions = (x[:, reachable] for x in paths.trajectories)  # [T + 1, N], [T, N]
        self.probability = paths.probability[reachable]
        self.rewards = mdp.rewards[self.states[:-1], self.actions]
        self.discounts = mdp.discount * ~mdp.terminal[self.states[1:]]
        self.is_boundary = mdp.terminal[self.states[:-1]]

    def mean_of_first(self, x: np.ndarray) -> np.ndarray:
        """E[x_0 | x_0, a_0] of a number per step [T, N], [S, A]."""
        mean = np.zeros(self.problem.mdp.rewards.shape)
        np.add.at(mean, (self.states[0], self.actions[0]), self.probability * x[0])
        return mean

    def evaluate(self, method: str, num_rounds: int) -> np.ndarray:
        """Q after rounds of Q <- E[G], pi fixed."""
        _, pi, mu = self.problem
        following, next_actions = self.states[1:], np.concatenate([self.actions[1:], self.actions[:1]])
        pi_a, mu_a = (p[following, next_actions].astype(np.float32) for p in (pi, mu))

        @tf.function(autograph=False)
        def target(q: tf.Tensor) -> tf.Tensor:
            q_t = tf.gather(q, following)
            constants = (pi[following], mu[following], traces.log_ratio(pi_a, mu_a), self.is_boundary)
            q_t_a = tf.gather(q_t, next_actions, batch_dims=2)
            sequences = targets.Sequences(self.rewards, self.discounts, q_t, q_t_a, *constants)
            return targets.compute_target(method, sequences, gamma=GAMMA, n=2, alpha=ALPHA).target

        q = np.zeros(pi.shape, np.float32)
        for _ in range(num_rounds):
            q = self.mean_of_first(target(q).numpy()).astype(np.float32)
        return q

    def learn(self, method: str, num_rounds: int) -> np.ndarray:
        """A table after gradient steps of size 1 on the expected loss of the first step; pi is greedy on the table."""
        mdp, _, mu = self.problem
        table = tf.Variable(tf.zeros(mu.shape))
        chosen = settings(method, n=2, clip_error=INFINITY)
        rows = {"actions": tf.constant(self.actions), "is_boundary": tf.constant(self.is_boundary)}
        for name, x in (("behaviour", mu[self.states]), ("r_t", self.rewards), ("discount_t", self.discounts)):
            rows[name] = tf.constant(x, tf.float32)

        @tf.function(autograph=False)
        def step() -> None:
            with tf.GradientTape() as tape:
                q = tf.gather(table, self.states)
                loss = dqn_loss(q, tf.stop_gradient(q), **rows, settings=chosen, alpha=ALPHA).total[0]
                mean = tf.reduce_sum(self.probability.astype(np.float32) * loss)
            table.assign_sub(tf.convert_to_tensor(tape.gradient(mean, table)))

        for _ in range(num_rounds):
            step()
        return table.numpy()


EXACT = {"double_dqn": Method("uncorrected", n=1), "n_step": Method("uncorrected", n=2)}
EXACT |= {"retrace": Method("retrace"), "c_trace": Method("retrace", alpha=ALPHA)}


@pytest.mark.parametrize("ends", [False, True])
def test_evaluation_converges_to_each_operators_own_fixed_point(ends: bool) -> None:
    problem = problems.chain_problem(3, 4) if ends else problems.random_problem(0, 3, 2)
    mdp, pi, mu = problem
    exact = Exact(problem, num_steps=3)
    found = {method: exact.evaluate(method, 150) for method in METHODS}
    wanted = {method: fixed_point(operator(mdp, pi, mu, EXACT[method]), mdp) for method in METHODS}
    for method in METHODS:
        np.testing.assert_allclose(found[method], wanted[method], atol=1e-4, err_msg=method)
    of_pi = mdps.action_values(mdp, pi)
    np.testing.assert_allclose(found["retrace"], of_pi, atol=1e-4)
    np.testing.assert_allclose(found["c_trace"], mdps.action_values(mdp, mdps.mix(pi, mu, ALPHA)), atol=1e-4)
    assert min(np.abs(found[method] - of_pi).max() for method in ("n_step", "c_trace")) > 0.05
    assert np.abs(found["n_step"] - found["c_trace"]).max() > 0.05


@pytest.mark.slow
def test_gradient_steps_reach_the_optimum_or_the_methods_own_biased_point() -> None:
    problem = problems.random_problem(0, 3, 2)
    mdp, _, mu = problem
    exact = Exact(problem, num_steps=3)
    best = mdps.action_values(mdp, mdps.optimal_policy(mdp))
    for method, biased in zip(METHODS, (False, True, False, True)):
        found = exact.learn(method, 150)
        wanted = fixed_point(operator(mdp, mdps.greedy_policy(found), mu, EXACT[method]), mdp)
        np.testing.assert_allclose(found, wanted, atol=1e-4, err_msg=method)
        assert (np.abs(found - best).max() > 0.05) == biased, method


def test_the_search_for_alpha_reaches_the_target_rate() -> None:
    """The loss hands `alpha_update` its estimates: 30 steps of the paper's loss on phi, from alpha = 1/2."""
    data = {name: tf.constant(x) for name, x in random_batch(2, num_steps=16).items()}
    data["is_boundary"] = tf.zeros_like(data["is_boundary"])
    data["discount_t"] = tf.fill(data["discount_t"].shape, GAMMA)
    aim = alpha_update.contraction_target(data["discount_t"], gamma=GAMMA, target_rate=GAMMA**5)
    phi = tf.Variable(0.0)
    gaps = []
    for _ in range(30):
        with tf.GradientTape() as tape:
            found = dqn_loss(**data, settings=settings("c_trace"), alpha=tf.sigmoid(phi))
            loss = alpha_update.alpha_loss(phi, found.extras["contraction"], aim, gamma=GAMMA)
            total = tf.reduce_mean(found.total) + tf.reduce_mean(loss)
        gaps.append(float(tf.reduce_mean(found.extras["contraction"] - aim)))
        phi.assign_sub(1e-3 * tape.gradient(total, phi))
    assert abs(gaps[0]) > 0.02
    assert abs(gaps[-1]) < 1e-3


def on_policy(seed: int) -> dict[str, np.ndarray]:
    """The actor is greedy on the present network: pi and mu are one."""
    data = random_batch(seed)
    data["behaviour"] = np.eye(data["q"].shape[-1], dtype=np.float32)[data["q"].argmax(-1)]
    data["actions"] = data["q"][:-1].argmax(-1).astype(np.int32)
    return data


def test_on_policy_all_methods_with_the_same_steps_agree() -> None:
    """Without exploration nothing is cut; Double DQN differs by its one step, and agrees for sequences of one."""
    data = on_policy(3)
    longest = compute(data, settings("n_step", n=len(data["r_t"]))).total
    for method in ("retrace", "c_trace"):
        np.testing.assert_allclose(compute(data, settings(method)).total, longest, rtol=1e-4, atol=1e-5)
    assert not np.allclose(compute(data, settings("double_dqn")).total, longest, atol=1e-2)
    one = {name: x[: 2 if name in ("q", "target_q", "behaviour") else 1] for name, x in data.items()}
    single = [compute(one, settings(method)).total for method in METHODS]
    for other in single[1:]:
        np.testing.assert_allclose(other, single[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("clip", [1.0, INFINITY])
@pytest.mark.parametrize("method", METHODS)
def test_only_the_taken_actions_online_value_receives_a_gradient(method: str, clip: float) -> None:
    data = random_batch(4)
    inputs = {name: tf.constant(x) for name, x in poisoned(data).items()}
    alpha = tf.constant(ALPHA)
    dead = [inputs[name] for name in ("target_q", "behaviour", "r_t", "discount_t")] + [alpha]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([inputs["q"], *dead])
        found = dqn_loss(**inputs, settings=settings(method, clip_error=clip), alpha=alpha)
        contraction, constants = found.extras.pop("contraction"), list(found.extras.values())
    error = np.clip(loop(data, settings(method), ALPHA)["td_error"], -clip, clip)
    expected = np.zeros_like(data["q"])
    np.put_along_axis(expected[:-1], data["actions"][..., None], -error[..., None], axis=-1)
    np.testing.assert_allclose(tape.gradient(found.total, inputs["q"]), expected, rtol=1e-4, atol=1e-5)
    assert tape.gradient(found.total, dead) == [None] * 5
    assert tape.gradient(constants, [inputs["q"], *dead]) == [None] * 6
    gradient = tape.gradient(contraction, alpha)
    assert float(gradient) > 0 if method == "c_trace" else gradient is None


@pytest.mark.parametrize("method", ["n_step", "c_trace"])
def test_eager_graph_and_xla_agree(method: str) -> None:
    data = {name: tf.constant(x) for name, x in poisoned(random_batch(5)).items()}
    chosen = settings(method, rescaling=1e-3)

    def total(alpha: tf.Tensor, **data: tf.Tensor) -> tf.Tensor:
        return dqn_loss(**data, settings=chosen, alpha=alpha).total

    eager = total(tf.constant(ALPHA), **data)
    for compiled in (False, True):
        graph = tf.function(total, jit_compile=compiled, autograph=False)(tf.constant(ALPHA), **data)
        np.testing.assert_allclose(graph, eager, rtol=1e-4, atol=1e-5)


def test_epsilon_greedy_is_the_printed_policy() -> None:
    found = targets.epsilon_greedy(tf.constant([[0, 2]]), tf.constant([[0.3, 0.0]]), 3)
    np.testing.assert_allclose(found, [[[0.8, 0.1, 0.1], [0, 0, 1]]], rtol=1e-6)
    np.testing.assert_allclose(targets.greedy(tf.constant([[1.0, 4.0, 4.0]])), [[0, 1, 0]])


@pytest.mark.parametrize(
    ("name", "change"),
    [("target_q", lambda x: x[:-1]), ("behaviour", lambda x: x[:, :1]), ("r_t", lambda x: x[..., None])]
    + [("is_boundary", lambda x: x[1:]), ("discount_t", lambda x: x[:, :1]), ("actions", lambda x: x[..., None])],
)
@pytest.mark.parametrize("method", ["n_step", "c_trace"])
def test_shapes_that_would_broadcast_are_errors(name: str, change, method: str) -> None:
    data = random_batch(6)
    with pytest.raises(ValueError, match="must have"):
        compute({**data, name: change(data[name])}, settings(method))


def test_settings_that_mean_nothing_are_errors() -> None:
    data = random_batch(7)
    for changes, words in (
        ({"method": "tree"}, "c_trace"),
        ({"clip_error": 0.0}, "clip_error"),
        ({"n": 0}, "n must"),
        ({"trace_lambda": 1.01}, "trace_lambda must lie in"),
        ({"trace_lambda": -0.1}, "trace_lambda must lie in"),
    ):
        with pytest.raises(ValueError, match=words):
            compute(data, settings("n_step")._replace(**changes))
