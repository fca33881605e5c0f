"""The metagradient against finite differences of Algorithm 2 in float64, closed forms, and entries it must not read."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.networks.atari import Torso
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers.stac.loss import Hyperparameters
from repro.papers.stac.metagradient import SETS, Metaparameters, self_tuning_update
from tests.papers.stac.oracle import (
    FeedForward,
    Recurrent,
    Step,
    Zeta,
    convolutions,
    data_of,
    dense_layer,
    nested_tuple,
)
from tests.papers.stac.small import DECAY, EPSILON, INITIAL, MOMENTUM, OUTER, RATE, STAC, conv_torso, make_agent
from tests.support.batches import random_batch

TWO_ALPHAS = ("gamma", "lambda", "alpha_rho", "alpha_c", "truncation", "g_v", "g_p", "g_e")


def poisoned_batch(agent, size, seed):
    """A row between two games has NaN in everything that no loss may read."""
    batch = random_batch(agent, size, seed)
    for x in (batch.reward, batch.discount, batch.policy_info["logits"]):
        x[1, 2] = np.nan
    return batch


def with_history(agent, batch):
    """The agent after two updates, with eta back where it was: accumulators and moments are neither one nor zero."""
    for _ in range(2):
        agent.train(tf.nest.map_structure(tf.constant, batch))
    for name, eta in agent._metaparameters.eta.items():
        eta.assign(INITIAL[name] + 0.3 * np.arange(eta.shape[0]))
    return agent


def step_of(agent, batch, *, clip, kl_cost):
    """What the oracle needs to know of the agent."""
    network, optimizer = agent._network, agent._optimizer
    theta, squares, moments = (
        [v.numpy().astype(np.float64) for v in group]
        for group in (network.trainable_variables, optimizer._mean_squares, optimizer._moments)
    )
    settings = (Zeta(*agent._outer), RATE, DECAY, MOMENTUM, EPSILON, clip, kl_cost)
    data = data_of(batch, agent._burn_in)
    return Step(data, model_of(agent, batch), theta, squares, moments, *settings)


def model_of(agent, batch):
    heads = (agent._network.num_heads, agent._network.acting)
    gammas = () if agent._network.gammas is None else tuple(agent._network.gammas.numpy().tolist())
    if "core_state" not in batch.policy_info:
        torso = convolutions if isinstance(agent._network._torso, Torso) else dense_layer
        return FeedForward(*heads, torso=torso, gammas=gammas)
    distribution, state = agent._distribution, [part[:, 0] for part in batch.policy_info["core_state"]]
    log_std = (distribution.log_std_min, distribution.log_std_max)
    return Recurrent(*heads, nested_tuple(batch.step_type.T == 0), state, agent._burn_in, log_std, gammas)


class KeepingSGD(tf.keras.optimizers.SGD):
    """Keeps the metagradients that it applied, which eta's own rounding would hide from a difference of eta."""

    def __init__(self):
        super().__init__(1.0, jit_compile=False)

    def apply_gradients(self, grads_and_vars, **kwargs):
        pairs = list(grads_and_vars)
        self.kept = [gradient.numpy() for gradient, _ in pairs]
        return super().apply_gradients(pairs, **kwargs)


def compare(tuned, *, clip=40.0, kl_cost=1.0, size=2, **network):
    """One update of the agent and its oracle; returns the metagradient and the norm of the inner gradient."""
    agent = make_agent(tuned, meta_optimizer=KeepingSGD(), clip_global_norm=clip, kl_cost=kl_cost, **network)
    return check_update(agent, poisoned_batch(agent, size, seed=1), clip=clip, kl_cost=kl_cost)


def check_update(agent, batch, *, clip, kl_cost):
    """One update of an agent and its oracle, after two others; returns as above."""
    with_history(agent, batch)
    before = {name: eta.numpy().astype(np.float64) for name, eta in agent._metaparameters.eta.items()}
    step = step_of(agent, batch, clip=clip, kl_cost=kl_cost)
    expected = step.metagradient(before)
    theta, norm = step.updated(before)
    info = agent.train(tf.nest.map_structure(tf.constant, batch))
    for variable, expected_variable in zip(agent._network.trainable_variables, theta, strict=True):
        np.testing.assert_allclose(variable, expected_variable, rtol=1e-4, atol=1e-5)
    assert float(info.extra["gradient_norm"]) == pytest.approx(norm, rel=1e-4)
    assert float(info.extra["outer_loss"]) == pytest.approx(float(step.outer_loss(theta)), rel=1e-4, abs=1e-3)
    found = dict(zip(before, agent._meta_optimizer.kept, strict=True))
    for name, value in expected.items():
        print(f"{name}: {np.abs(found[name] / value - 1).max():.1e}")  # which pytest -rP shows
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-9, err_msg=name)
    return found, norm


@pytest.mark.parametrize(
    ("tuned", "clip"),
    [
        *[((name,), 2.0) for name in SETS],
        *[pytest.param((name,), 1e3, marks=pytest.mark.slow) for name in SETS],
        *[(tuned, clip) for tuned in (STAC, TWO_ALPHAS) for clip in (1e3, 2.0)],
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_equals_finite_differences_through_the_whole_step(tuned, clip):
    found, norm = compare(tuned, clip=clip)
    assert 2 * 2.0 < norm < 1e3  # a clip of 2 is active, the other is not
    assert all(np.abs(x).max() > 0 for x in found.values())


@pytest.mark.parametrize(
    ("acting", "clip", "tuned"),
    [
        pytest.param("first", 2.0, STAC, marks=pytest.mark.slow),
        ("first", 2.0, TWO_ALPHAS),
        pytest.param("first", 1e3, STAC, marks=pytest.mark.slow),
        pytest.param("random", 2.0, STAC, marks=pytest.mark.slow),
        pytest.param("average", 2.0, STAC, marks=pytest.mark.slow),
    ],
)
def test_equals_finite_differences_with_three_heads(acting, clip, tuned):
    """Where head 1 alone acts, eta of the others reaches the outer loss through the torso, or through the clip."""
    found, norm = compare(tuned, num_heads=3, acting=acting, clip=clip)
    assert 2.0 < norm < 1e3  # a clip of 2 is active, the other is not
    assert all(np.abs(x).min() > 0 for x in found.values())


@pytest.mark.parametrize("tuned", [pytest.param(STAC, marks=pytest.mark.slow), TWO_ALPHAS], ids="-".join)
def test_equals_finite_differences_through_convolutions(tuned):
    """Pooling and residual blocks as in Atari's deep torso, and the strides of the one of pixels."""
    found, norm = compare(tuned, make_torso=conv_torso, clip=2.0)
    assert norm > 2 * 2.0  # the clip is active
    assert all(np.abs(x).max() > 1e-6 for x in found.values())


@pytest.mark.parametrize(
    ("gamma_embedding", "num_heads", "acting", "tuned"),
    [
        ("shared", 1, "first", ("gamma",)),
        ("shared", 3, "first", STAC),
        pytest.param("separate", 3, "first", STAC, marks=pytest.mark.slow),
        pytest.param("separate", 2, "average", STAC, marks=pytest.mark.slow),
        pytest.param("separate", 2, "random", STAC, marks=pytest.mark.slow),
    ],
)
def test_equals_finite_differences_with_an_embedding_of_gamma(gamma_embedding, num_heads, acting, tuned):
    """The oracle's gammas are constants: none of the gradient reaches gamma through the network's input."""
    found, norm = compare(tuned, num_heads=num_heads, acting=acting, gamma_embedding=gamma_embedding, clip=2.0)
    assert norm > 2 * 2.0  # the clip is active
    assert all(np.abs(x).min() > 0 for x in found.values())


def test_the_kl_draws_the_new_policy_towards_the_old():
    """The oracle has KL(pi_theta', pi_theta); with other coefficients the metagradient is another."""
    without, _ = compare(("g_p",), kl_cost=0.0)
    with_kl, _ = compare(("g_p",), kl_cost=10.0)
    assert abs(with_kl["g_p"] - without["g_p"]) > 0.01 * abs(without["g_p"])


# Closed forms


def linear_problem(*, clip, eta=0.7, w=2.0, a=0.5, b=-1.0):
    """L_inner = sigma(eta) (w - a)^2 / 2 and L_outer = (w' - b)^2 / 2 in one dimension."""
    theta, eta = tf.Variable([w]), tf.Variable(eta)
    optimizer = RMSPropTF1(0.3, decay=0.75, epsilon=0.5)
    optimizer.build([theta])
    return self_tuning_update(
        lambda: (tf.sigmoid(eta) * tf.reduce_sum((theta - a) ** 2) / 2, ()),
        lambda extra: (tf.reduce_sum((theta - b) ** 2) / 2, ()),
        [theta],
        [eta],
        optimizer,
        clip,
    ), float(theta[0])


def test_a_closed_form():
    """g = sigma(eta) (w - a), s' = 0.75 + 0.25 g^2, w' = w - rate g (s' + epsilon)^-1/2."""
    update, updated = linear_problem(clip=10.0)
    sigma = 1 / (1 + np.exp(-0.7))
    g = sigma * 1.5
    root = np.sqrt(0.75 + 0.25 * g**2 + 0.5)
    assert updated == pytest.approx(2.0 - 0.3 * g / root, rel=1e-6)
    assert float(update.gradient_norm) == pytest.approx(g, rel=1e-6)
    slope = 0.3 * (0.75 + 0.5) / root**3 * 1.5 * sigma * (1 - sigma)
    assert float(update.metagradient[0]) == pytest.approx(-(updated + 1.0) * slope, rel=1e-5)
    assert float(update.inner) == pytest.approx(sigma * 1.5**2 / 2, rel=1e-6)
    assert float(update.outer) == pytest.approx((updated + 1.0) ** 2 / 2, rel=1e-6)


def test_a_clip_takes_the_size_of_the_gradient_away():
    """One metaparameter scales the whole gradient, which the clip scales back: it cannot matter."""
    update, updated = linear_problem(clip=0.5)
    assert updated == pytest.approx(2.0 - 0.3 * 0.5 / np.sqrt(0.75 + 0.25 * 0.25 + 0.5), rel=1e-6)
    assert float(update.metagradient[0]) == pytest.approx(0.0, abs=1e-7)
    assert abs(float(linear_problem(clip=10.0)[0].metagradient[0])) > 0.05


# What cannot matter


def metagradient_of(agent, batch):
    before = {name: eta.numpy() for name, eta in agent._metaparameters.eta.items()}
    agent.train(tf.nest.map_structure(tf.constant, batch))
    return {name: before[name] - eta.numpy() for name, eta in agent._metaparameters.eta.items()}


@pytest.mark.slow
def test_gamma_and_lambda_do_not_matter_where_every_step_is_the_last():
    agent = make_agent()
    batch = random_batch(agent, 3, seed=1)
    assert min(abs(metagradient_of(agent, batch)[name][0]) for name in STAC) > 0
    batch.discount[:, :-1] = 0.0
    found = metagradient_of(agent, batch)
    assert found["gamma"] == found["lambda"] == 0.0
    assert min(abs(found[name][0]) for name in ("alpha", "g_v", "g_p", "g_e")) > 0


def test_lambda_does_not_matter_to_one_step():
    agent = make_agent()
    batch = random_batch(agent, 3, seed=1, length=2)
    assert metagradient_of(agent, batch)["lambda"] != 0
    agent = make_agent()
    short = tf.nest.map_structure(lambda x: x[:, :2], batch)
    short.step_type[:] = 1
    found = metagradient_of(agent, short)
    assert found["lambda"] == 0.0
    assert found["gamma"] != 0


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_nothing_matters_where_every_row_lies_between_games(jit_compile):
    """The inner gradient is exactly zero, where the clip by its norm has no derivative. NaN elsewhere stays."""
    agent = make_agent()
    batch = random_batch(agent, 3, seed=1)
    batch.step_type[:, :-1] = 2
    train = tf.function(agent.train, jit_compile=True, autograph=False) if jit_compile else agent.train
    info = train(tf.nest.map_structure(tf.constant, batch))
    assert float(info.extra["gradient_norm"]) == 0.0
    assert float(info.extra["metagradient_norm"]) == 0.0
    for name, eta in agent._metaparameters.eta.items():
        assert eta.numpy() == pytest.approx([INITIAL[name]], rel=1e-7), name
    batch = random_batch(agent, 3, seed=1)
    batch.reward[:] = np.nan
    assert all(np.isnan(found).all() for found in metagradient_of(agent, batch).values())


@pytest.mark.parametrize("name", ["g_v", "g_p", "g_e"])
def test_the_coefficient_of_a_loss_whose_outer_value_is_zero_does_not_matter(name):
    """The inner loss has sigma(eta) times it."""
    agent = make_agent(outer=OUTER._replace(**{name: 0.0}))
    found = metagradient_of(agent, random_batch(agent, 3, seed=1))
    assert found[name] == 0.0
    assert min(abs(found[other][0]) for other in ("gamma", "alpha", "g_v", "g_p", "g_e") if other != name) > 0


@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_auxiliary_heads_do_not_matter_without_a_layer_that_is_shared(clip):
    """Their losses then have no gradient to the weights of head 1, and reach these through the clip alone."""
    agent = make_agent(num_heads=3, make_torso=pixels_alone, clip_global_norm=clip)
    batch = random_batch(agent, 3, seed=1)
    for name, (first, *others) in metagradient_of(agent, batch).items():
        assert first != 0, name
        assert (np.abs(others) > 0).all() if clip else not np.any(others), name


def pixels_alone(seed):
    """A torso without weights."""
    scaled = tf.keras.layers.Lambda(lambda x: tf.cast(x, tf.float32) / 255.0)
    return tf.keras.Sequential([scaled, tf.keras.layers.Flatten()])


def test_alpha_does_not_matter_on_policy():
    """IS = 1 is not above the truncation level."""
    agent = make_agent(outer=OUTER._replace(truncation=1.5))
    batch = random_batch(agent, 3, seed=1)
    logits, *_ = agent._network(batch.observation, None)
    batch.policy_info["logits"][:] = logits[:, :, 0]
    found = metagradient_of(agent, batch)
    assert found["alpha"] == 0.0
    assert min(abs(found[name][0]) for name in STAC if name != "alpha") > 0


# Metaparameters


def test_zeta_is_bounded_by_the_sigmoid_and_begins_near_the_outer_values():
    """Section 3: sigma(4.6) = 0.99, the loss coefficients times their outer values."""
    outer = Hyperparameters(0.995, 1.0, 1.0, 1.0, 1.0, 0.25, 1.0, 0.01)
    zeta = Metaparameters(STAC, outer, 2, dict.fromkeys(STAC, 4.6)).hyperparameters()
    expected = Hyperparameters(0.99, 0.99, 0.99, 0.99, 1.0, 0.2475, 0.99, 0.0099)
    for name, value in zeta._asdict().items():
        np.testing.assert_allclose(value, [getattr(expected, name)] * 2, rtol=1e-4, err_msg=name)


def test_what_is_not_tuned_keeps_its_outer_value():
    metaparameters = Metaparameters(("gamma", "alpha_c", "truncation"), OUTER, 1, INITIAL)
    zeta = metaparameters.hyperparameters()
    for name in set(Hyperparameters._fields) - {"gamma", "alpha_c", "truncation"}:
        np.testing.assert_allclose(getattr(zeta, name), [getattr(OUTER, name)], rtol=1e-6)
    sigma = {name: 1 / (1 + np.exp(-INITIAL[name])) for name in INITIAL}
    np.testing.assert_allclose(zeta.gamma, [sigma["gamma"]], rtol=1e-6)
    np.testing.assert_allclose(zeta.alpha_c, [sigma["alpha_c"]], rtol=1e-6)
    np.testing.assert_allclose(zeta.truncation, [sigma["truncation"] * OUTER.truncation], rtol=1e-6)
    shown = {name: float(x) for name, x in metaparameters.scalars().items()}
    assert shown == {f"{name}_1": pytest.approx(sigma[name]) for name in ("gamma", "alpha_c", "truncation")}


@pytest.mark.parametrize("tuned", [("beta",), ("alpha", "alpha_c"), ("gamma", "gamma")])
def test_unknown_or_repeated_metaparameters_are_an_error(tuned):
    with pytest.raises(ValueError, match="meta.tuned="):
        Metaparameters(tuned, OUTER, 1, INITIAL | {"beta": 0.0})
