"""PPO's losses: those of TF-Agents' agent, slow sums, a hand case, and who receives gradient."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from tf_agents.agents.ppo import ppo_clip_agent
from tf_agents.networks import network
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import StepType, Trajectory
from tf_agents.trajectories import time_step as ts

from repro.papers.refer.loss import Policies
from repro.papers.refer.ppo_loss import clipped_surrogate, ppo_loss, standardise
from tests.papers.refer.gradients import ratio_and_kl
from tests.papers.refer.small import random_batch

B, A, CLIP = 64, 3, 0.2


def inputs(seed=1):
    """Steps of a policy near pi, so that ratios lie on both sides of either bound, with advantages of both signs."""
    g = np.random.default_rng(seed)

    def normal(*shape):
        return g.normal(size=shape).astype(np.float32)

    behaviour_std = np.exp(0.2 * normal(A) - 1)
    behaviour_mean = normal(B, A)
    action = behaviour_mean + behaviour_std * normal(B, A)
    mean, std = behaviour_mean + 0.05 * normal(B, A), behaviour_std * np.exp(0.05 * normal(A))
    return action, Policies(mean, std, behaviour_mean, behaviour_std), normal(B), 5 + 2 * normal(B), 3 * normal(B)


def loss_and_gradients(seed, function=ppo_loss):
    """Means of the policy's and the value loss, the share of clipped ratios, gradients of mean, std and v."""
    action, policies, v, advantage, target = inputs(seed)
    live = [tf.constant(x) for x in (policies.mean, policies.std, v)]
    with tf.GradientTape() as tape:
        tape.watch(live)
        mean, std, value = live
        losses = function(action, policies._replace(mean=mean, std=std), value, advantage, target, CLIP)
        total = tf.reduce_mean(losses.policy) + tf.reduce_mean(losses.value)
    clipped = tf.reduce_mean(tf.cast(losses.extras["clipped"], tf.float32))
    return [*map(tf.reduce_mean, losses[:2]), clipped, *tape.gradient(total, live)]


STEP = tensor_spec.BoundedTensorSpec([1], tf.float32, 0, B - 1)
"""An observation: the number of its step."""


def at_steps(variable, observation):
    return tf.gather(variable, tf.cast(observation[..., 0], tf.int32))


class Policy(network.Network):
    """Looks the mean of each step up."""

    def __init__(self, mean, std):
        super().__init__(STEP, name="policy")
        self.mean, self.std = tf.Variable(mean, name="a_mean"), tf.Variable(std, name="b_std")

    def call(self, observation, step_type=None, network_state=(), training=False):
        mean = at_steps(self.mean, observation)
        return tfp.distributions.MultivariateNormalDiag(mean, self.std * tf.ones_like(mean)), network_state


class Value(network.Network):
    """Looks the value of each step up."""

    def __init__(self, v):
        super().__init__(STEP, name="value")
        self.v = tf.Variable(v, name="c_v")

    def call(self, observation, step_type=None, network_state=(), training=False):
        return at_steps(self.v, observation), network_state


class Catch(tf.Module):
    """An optimiser that keeps the gradients by the name of their variable."""

    def apply_gradients(self, grads_and_vars):
        self.gradients = {variable.name: tf.convert_to_tensor(gradient) for gradient, variable in grads_and_vars}


def of_tf_agents(seed):
    """As `loss_and_gradients`, from `PPOClipAgent` with Appendix A's settings."""
    action, policies, v, advantage, target = inputs(seed)
    catch = Catch()
    agent = ppo_clip_agent.PPOClipAgent(
        ts.time_step_spec(STEP),
        tensor_spec.BoundedTensorSpec([A], tf.float32, -np.inf, np.inf),
        optimizer=catch,
        actor_net=Policy(policies.mean, policies.std),
        value_net=Value(v),
        importance_ratio_clipping=CLIP,
        value_pred_loss_coef=0.5,
        num_epochs=1,
        normalize_rewards=False,
        normalize_observations=False,
        compute_value_and_advantage_in_train=False,
        update_normalizers_in_train=False,
        aggregate_losses_across_replicas=False,
        train_step_counter=tf.Variable(0, trainable=False, dtype=tf.int64),
    )
    behaviour = {
        "loc": policies.behaviour_mean,
        "scale_diag": policies.behaviour_std * np.ones((B, 1), np.float32),
    }
    info = {"dist_params": behaviour, "value_prediction": v, "return": target, "advantage": advantage}
    middle, zeros = np.full(B, StepType.MID, np.int32), np.zeros(B, np.float32)
    flat = Trajectory(middle, np.arange(B, dtype=np.float32)[:, None], action, info, middle, zeros, 1 + zeros)
    extra = agent.train(tf.nest.map_structure(lambda x: tf.constant(x)[:, tf.newaxis], flat)).extra
    gradients = [catch.gradients[f"{name}:0"] for name in ("a_mean", "b_std", "c_v")]
    return [extra.policy_gradient_loss, extra.value_estimation_loss, extra.clip_fraction, *gradients]


@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradients_are_those_of_tf_agents(seed):
    for found, expected in zip(loss_and_gradients(seed), of_tf_agents(seed), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_another_clip_is_not_that_of_tf_agents():
    def other(*arguments):
        return ppo_loss(*arguments[:-1], 0.25)

    found, expected = loss_and_gradients(0, other), of_tf_agents(0)
    assert [np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(found, expected)] == [
        False,
        True,
        *[False] * 3,
        True,
    ]


def test_losses_of_each_step():
    action, policies, v, advantage, target = inputs()
    losses = ppo_loss(action, policies, v, advantage, target, CLIP)
    batch = random_batch(B, 1, A)._replace(action=action, mean=policies.behaviour_mean, std=policies.behaviour_std)
    rho, kl = ratio_and_kl(batch, policies.mean, policies.std)
    normal = (advantage - np.mean(advantage)) / np.std(advantage)
    sides = [side & (sign * normal > 0) for side in (rho > 1 + CLIP, rho < 1 - CLIP) for sign in (1, -1)]
    assert all(side.any() for side in sides)
    policy = [-min(r * a, min(max(r, 1 - CLIP), 1 + CLIP) * a) for r, a in zip(rho, normal)]
    np.testing.assert_allclose(losses.policy, policy, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(losses.value, 0.5 * (v - target) ** 2, rtol=1e-5)
    np.testing.assert_allclose(losses.extras["kl"], kl, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(losses.extras["clipped"], np.abs(rho - 1) > CLIP)


def test_the_surrogate_by_hand():
    """Clip 0.2. A = 2: rho 1.5 counts as 1.2, 0.5 as itself. A = -2: rho 1.5 counts as itself, 0.5 as 0.8."""
    rho, advantage = tf.constant([1.5, 0.5, 1.5, 0.5, 1.1]), tf.constant([2.0, 2.0, -2.0, -2.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch([rho, advantage])
        loss = clipped_surrogate(rho, advantage, 0.2)
    np.testing.assert_allclose(loss, [-2.4, -1.0, 3.0, 1.6, -2.2], rtol=1e-6)
    gradients = tape.gradient(loss, [rho, advantage])
    np.testing.assert_allclose(gradients[0], [0.0, -2.0, 2.0, 0.0, -2.0])  # flat beyond the bound that A favours
    assert gradients[1] is None


def test_advantages_of_a_minibatch_have_mean_0_and_variance_1():
    found = standardise(tf.constant([1.0, 2.0, 3.0, 6.0])).numpy()
    np.testing.assert_allclose(found, np.array([-2.0, -1.0, 0.0, 3.0]) / np.sqrt(3.5), rtol=1e-6)
    assert not standardise(tf.fill([4], 7.0)).numpy().any()  # equal ones: no direction, and no division by 0


def test_who_receives_gradient():
    action, policies, v, advantage, target = inputs()
    live = [tf.constant(x) for x in (policies.mean, policies.std, v)]
    dead = [tf.constant(x) for x in (advantage, target)]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([live, dead])
        pi = policies._replace(mean=live[0], std=live[1])
        losses = ppo_loss(action, pi, live[2], *dead, CLIP)
    policy, value = (tape.gradient(x, [*live, *dead]) for x in losses[:2])
    assert [x is not None for x in policy] == [True, True, False, False, False]
    assert [x is not None for x in value] == [False, False, True, False, False]


def test_on_policy_the_loss_is_that_of_the_plain_policy_gradient():
    """At pi = mu all ratios are 1: the loss is minus the mean of standardised advantages, and nothing is clipped."""
    action, policies, v, advantage, target = inputs()
    own = Policies(*policies[2:], *policies[2:])
    losses = ppo_loss(action, own, v, advantage, target, CLIP)
    np.testing.assert_allclose(losses.policy, -standardise(advantage), rtol=1e-5, atol=1e-6)
    assert not losses.extras["clipped"].numpy().any()
    np.testing.assert_allclose(losses.extras["kl"], np.zeros(B), atol=1e-6)


@pytest.mark.parametrize("wrong", ["v", "advantage", "target"])
def test_wrong_shapes_are_named(wrong):
    action, policies, *steps = inputs()
    named = dict(zip(("v", "advantage", "target"), steps))
    named[wrong] = named[wrong][:, None]
    with pytest.raises(ValueError, match=f"ppo_loss: {wrong} must have the shape of rho"):
        ppo_loss(action, policies, **named, clip=CLIP)


def test_a_clip_outside_its_range():
    action, policies, *steps = inputs()
    with pytest.raises(ValueError, match=r"^ppo_loss: clip must lie in \(0, inf\], got 0\.0$"):
        ppo_loss(action, policies, *steps, clip=0.0)
    with pytest.raises(ValueError, match=r"^clipped_surrogate: clip must lie in \(0, inf\], got -0\.2$"):
        clipped_surrogate(tf.ones([2]), tf.ones([2]), -0.2)


def test_xla_and_graph_give_what_eager_gives():
    arguments = inputs()
    eager = ppo_loss(*arguments, CLIP)
    for jit_compile in (False, True):
        compiled = tf.function(lambda *x: ppo_loss(*x, CLIP), jit_compile=jit_compile, autograph=False)(*arguments)
        for a, b in zip(tf.nest.flatten(eager), tf.nest.flatten(compiled)):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
