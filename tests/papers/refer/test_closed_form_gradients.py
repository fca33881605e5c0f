"""Far-policy samples, their gradients and the limit of on-policy gradients, computed with the code that trains."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.refer import closed_form as closed_form_config
from repro.environments.mujoco import TASKS, make_mujoco
from repro.papers.refer import closed_form, refer_rules
from repro.papers.refer import closed_form_gradients as study
from repro.papers.refer.experiments.replay import ReplayExperiment
from tests.papers.refer import gradients


def make_config(**changes):
    config = closed_form_config.get_config("smoke")
    config.vracer.network.units = (16, 16)
    config.update(changes)
    return config


def environment_of(config, task="Reacher"):
    return make_mujoco({**config.env, "task": task}, 1, 0)


def test_gradients_come_near_those_of_on_policy_data_as_c_max_and_d_fall():
    config = make_config()
    environment = environment_of(config)
    found = study.on_policy_differences(config, environment, np.random.default_rng(0))
    assert (np.diff(found) < 0).all()
    assert found[0] > 0.1
    assert found[-1] < 0.05


def test_they_do_not_where_the_penalty_or_a_share_of_far_policy_samples_stays(monkeypatch):
    config = make_config(limits=((1.01, 0.001),))
    environment = environment_of(config)
    monkeypatch.setattr(study, "behaviour_distance", lambda c_max, share: 0.5)
    assert study.on_policy_differences(config, environment, np.random.default_rng(0))[0] > 0.5


def test_far_behaviours_have_the_asked_share_of_far_policy_ratios():
    rng = np.random.default_rng(0)
    for c_max, share in ((1.1, 0.3), (1.05, 0.1)):
        distance = study.behaviour_distance(c_max, share)
        log_rho = distance * rng.standard_normal(100_000) - 0.5 * distance**2
        assert np.mean(np.abs(log_rho) > math.log(c_max)) == pytest.approx(share, rel=0.05)


def test_the_gradient_is_that_of_the_first_step_of_adam_and_the_weights_stay():
    config = make_config()
    environment, size = environment_of(config), 12
    rng = np.random.default_rng(0)
    actions = environment.num_actions
    batch = {"state": rng.normal(size=(size, environment.state_size)), "std": np.full((size, actions), 0.4)}
    batch |= {name: 0.1 * rng.normal(size=(size, actions)) for name in ("action", "mean")}
    batch |= {name: rng.normal(size=size) for name in ("q_ret", "v_tbc")}
    batch = {name: x.astype(np.float32) for name, x in batch.items()}
    agents = [ReplayExperiment(config.vracer).make_agent(environment, np.random.default_rng(1)) for _ in range(2)]
    agents[0].optimizer = tf.keras.optimizers.SGD(1.0)
    agents[0].optimizer.build([agents[0].weights])
    before = agents[0].weights.numpy()
    ours = study.gradient(agents[0], batch, 0.7, 3.0)
    tensors = {name: tf.constant(x) for name, x in batch.items()} | {"weight": tf.ones(size)}
    agents[1].gradient_step(tf.constant([0.7, 3.0, 1e-4]), tensors)
    np.testing.assert_allclose(ours, gradients.first_gradient(agents[1].optimizer), atol=1e-6)
    assert np.abs(ours).max() > 0.01
    np.testing.assert_array_equal(agents[0].weights.numpy(), before)


def test_rule_1_leaves_no_gradient_of_far_policy_samples_and_those_of_near_policy_ones():
    config = make_config()
    assert study.far_policy_gradients(config, 6, np.random.default_rng(0)) == (0.0, 0.0)
    assert min(study.far_policy_gradients(config, 6, np.random.default_rng(0), near=True)) > 0.5


@pytest.mark.parametrize("wrong", ["as in PPO", "policy alone", "below alone"])
def test_a_clip_by_the_sign_of_one_loss_or_of_one_side_leaves_gradients(monkeypatch, wrong):
    """PPO's clip leaves those that pull the ratio back, a clip of the policy those of V."""
    right = study.vracer_loss

    def wrong_loss(action, policies, v, coefficients, q_ret, v_tbc, beta, c_max, variant):
        losses = right(action, policies, v, coefficients, q_ret, v_tbc, beta, c_max, variant)
        gain = q_ret - v
        clip = tf.cast(losses.extras["near"], v.dtype)
        pulled_back = tf.cast((losses.rho > 1.0) == (gain < 0.0), v.dtype)
        not_below = tf.cast(losses.rho > 1.0 / c_max, v.dtype)
        totals = {
            "as in PPO": tf.maximum(clip, pulled_back) * (losses.policy + losses.value),
            "policy alone": clip * losses.policy + losses.value,
            "below alone": not_below * (losses.policy + losses.value),
        }
        return losses._replace(total=totals[wrong])

    monkeypatch.setattr(study, "vracer_loss", wrong_loss)
    of_policy, of_value = study.far_policy_gradients(make_config(), 6, np.random.default_rng(0))
    assert of_value > 0.1
    assert (of_policy > 0.1) == (wrong != "policy alone")


def test_shares_of_far_policy_samples_are_those_of_the_normal_log_ratio(monkeypatch):
    """With shifts of x stds the log ratio is x sum(z) - d_A x^2 / 2: for x = 0.2 and one action from -0.62 to 0.58."""
    config = make_config(samples=100_000)
    few, many = (study.far_policy_shares(config, actions, np.random.default_rng(0), 1)[0] for actions in (1, 17))
    assert few == 0.0
    of_one = 1.0 - 6.0 * math.exp(-4.5) / math.sqrt(2 * math.pi) / math.erf(3.0 / 2**0.5)  # truncated at three stds
    std, mean, bound = 0.2 * (17 * of_one) ** 0.5, -17 * 0.2**2 / 2, math.log(5.0)
    expected = sum(0.5 * math.erfc((bound + sign * mean) / (std * 2**0.5)) for sign in (-1, 1))
    assert many == pytest.approx(expected, rel=0.05)
    monkeypatch.setattr(refer_rules, "near_policy", lambda rho, c_max: rho < c_max)
    assert study.far_policy_shares(config, 17, np.random.default_rng(0), 1)[0] < 0.3 * many


def test_outputs_of_new_networks_grow_with_the_bound_of_the_output_weights():
    config = make_config()
    environment = environment_of(config)
    small = study.largest_outputs(config, [environment], np.random.default_rng(0), 2)
    (agent,) = [ReplayExperiment(config.vracer).make_agent(environment, np.random.default_rng(0))]
    states = np.random.default_rng(1).normal(size=(256, environment.state_size)).astype(np.float32)
    value, mean, *_ = agent.forward(states)
    of_one = max(np.abs(value).max(), np.abs(mean).max())
    assert 0.3 * of_one < small[0] < 3 * of_one
    config.vracer.network.output_scale = 1.0
    large = study.largest_outputs(config, [environment], np.random.default_rng(0), 2)
    np.testing.assert_allclose(large, 10 * small, rtol=1e-5)


def test_the_tasks_with_the_most_and_the_fewest_actions():
    config = make_config()
    sizes = {task: environment_of(config, task).num_actions for task in TASKS}
    assert sizes[closed_form.MOST] == max(sizes.values()) == 17
    assert sizes[closed_form.FEWEST] == min(sizes.values()) == 1
