"""ACER as another paper's baseline: its code, its learning rates, and the divergence that it logs."""

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.refer import figure_1_ddpg, figure_4_vracer
from repro.papers import find_experiment
from repro.papers.acer.experiments.fixed_rate import FixedRateExperiment
from repro.papers.refer.experiments.replay import ReplayExperiment
from repro.training.learner import Learner
from repro.training.replay_trainer import ReplaySettings
from tests.papers.acer.continuous_small import random_batch


def experiment_of(agent, scale="smoke"):
    config = figure_4_vracer.get_config(scale)
    config.agent = agent
    return find_experiment(config)


def test_baselines_are_the_other_papers_and_agents_are_its_own():
    config = figure_4_vracer.get_config("paper")
    assert isinstance(find_experiment(config), ReplayExperiment)
    experiment = experiment_of("acer", "paper")
    assert isinstance(experiment, FixedRateExperiment)
    assert experiment.replay_settings == ReplaySettings(False, 1001.0, 24)
    read = experiment.config
    assert (read.env, read.num_env_steps, read.agent) == (config.env, config.num_env_steps, "acer")
    assert (read.learner.batch_size, config.learner.batch_size) == (1, 256)


def test_as_many_batches_as_the_configuration_says_are_learned_from_in_a_call():
    config = figure_4_vracer.get_config("smoke")
    config.agent = "acer"
    config.runtime.steps_per_call = 5
    assert find_experiment(config).replay_settings.steps_per_call == 5


def test_gradient_steps_per_step_are_those_of_all_unrolls_of_a_batch():
    config = figure_4_vracer.get_config("smoke")
    config.agent = "acer"
    once = find_experiment(config).replay_settings.ratio
    config.variants.acer.learner.batch_size = 3
    assert find_experiment(config).replay_settings.ratio == 3 * once


@pytest.mark.parametrize(("agent", "rate"), [("acer", 1e-5), ("acer_fast", 1e-4)])
def test_the_policy_has_a_learning_rate_of_its_own(agent, rate):
    experiment = experiment_of(agent)
    environment = experiment.make_environment(1, 0)
    made = experiment.make_agent(environment, 0)
    before = [v.numpy() for v in made._network.trainable_variables]
    policy = {v.ref() for v in made._network.policy_weights}
    learner = Learner(made, tf.distribute.get_strategy())
    learner.step(learner.to_device(random_batch(made, 3, seed=0)))
    for variable, old in zip(made._network.trainable_variables, before, strict=True):
        if variable is made._network.advantage_weights[-1]:
            continue  # of no consequence: Eq. 13 takes differences of advantages
        moved = np.abs(variable.numpy() - old)
        # Adam's first step has the size of its learning rate wherever the gradient is well above epsilon.
        assert moved.max() == pytest.approx(rate if variable.ref() in policy else 1e-4, rel=0.02), variable.name
    environment.close()


@pytest.mark.parametrize(("file", "agent"), [(figure_1_ddpg, "ddpg_refer"), (figure_4_vracer, "acer")])
def test_a_rate_of_0_of_which_the_policy_s_is_a_multiple_is_refused(file, agent):
    config = file.get_config("smoke")
    config.agent = agent
    own = config.learner if agent == "ddpg_refer" else config.variants.acer.learner
    own.learning_rate = 0.0
    experiment = find_experiment(config)
    environment = experiment.make_environment(1, 0)
    with pytest.raises(ValueError, match=r"^learner\.learning_rate=0\.0: choose a finite number above 0, since "):
        experiment.make_agent(environment, np.random.default_rng(0) if agent == "ddpg_refer" else 0)
    environment.close()


def test_the_logged_divergence_is_that_from_the_behaviour():
    experiment = experiment_of("acer")
    environment = experiment.make_environment(1, 0)
    made = experiment.make_agent(environment, 0)
    unrolls = tf.nest.map_structure(tf.convert_to_tensor, random_batch(made, 2, seed=0))
    extras = made._per_step_loss(unrolls).extras
    mean = made._network.mean(unrolls.observation[:, :-1]).numpy()
    behaviour, s = (np.asarray(unrolls.policy_info[name][:, :-1]) for name in ("mean", "std"))
    d = experiment.config.network.std
    expected = (np.log(d / s) + (s**2 + (behaviour - mean) ** 2) / (2 * d**2) - 0.5).sum(-1)
    np.testing.assert_allclose(extras["kl"].numpy().T, expected, rtol=1e-4, atol=1e-5)
    environment.close()


def test_without_a_trust_region_the_divergence_from_the_behaviour_alone_is_logged():
    experiment = experiment_of("acer")
    experiment.config.loss.trust_region = False
    environment = experiment.make_environment(1, 0)
    made = experiment.make_agent(environment, 0)
    unrolls = tf.nest.map_structure(tf.convert_to_tensor, random_batch(made, 2, seed=0))
    extras = made._per_step_loss(unrolls).extras
    assert (extras["kl"].numpy() > 0).any()
    assert "average_kl" not in extras
    environment.close()
