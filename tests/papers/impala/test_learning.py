"""Tasks that only some networks can learn: to act on an instruction, and to remember."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.impala import gymnasium
from repro.environments.last_step import WithLastStep
from repro.networks.actor_critic import ActorCritic
from repro.networks.instruction_encoder import InstructionEncoder
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers import find_experiment
from repro.papers.impala.agent import ImpalaAgent
from repro.training.learner import Learner
from repro.training.run_directory import RunDirectory
from tests.support.instructed import VOCABULARY, Instructed
from tests.support.learning import play
from tests.support.training import SETTINGS, dense_torso

UNITS, ENVIRONMENTS, UNROLL = 16, 64, 2


def train_on_instructions(updates: int, told: bool) -> tuple[np.ndarray, list[np.ndarray]]:
    """Scores of finished episodes, in order, and the weights in the end."""
    environment = WithLastStep(Instructed(ENVIRONMENTS, 0, told))
    encoder = InstructionEncoder(VOCABULARY, 4, UNITS, seed=1) if told else None
    agent = ImpalaAgent(
        environment.time_step_spec,
        environment.action_spec,
        network=ActorCritic(dense_torso(0), environment.num_actions, UNITS, encoder, seed=0),
        optimizer=RMSPropTF1(0.02, epsilon=0.01),
        discount=0.9,
        loss_settings=SETTINGS,
        clip_global_norm=40.0,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False),
    )
    learner, scores = Learner(agent, tf.distribute.get_strategy()), []
    for unroll in itertools.islice(play(agent, environment, UNROLL, 0, scores), updates):
        learner.step(unroll)
    return np.array(scores), [variable.numpy() for variable in agent.trainable_variables]


@pytest.mark.slow
def test_it_does_what_the_instruction_says_and_without_one_it_guesses():
    """After half of the updates it does two of three instructions."""
    scores, _ = train_on_instructions(400, told=True)
    assert scores[:100].mean() < 0.6
    assert scores[-1000:].mean() > 0.9
    scores, _ = train_on_instructions(200, told=False)
    assert scores[-1000:].mean() < 0.45


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights():
    first, again = (train_on_instructions(3, told=True)[1] for _ in range(2))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_core_is_two_fields_of_the_configuration_for_any_environment():
    config = gymnasium.get_config("smoke").lock()
    config.network.core_units, config.env.last_action_and_reward = 8, True
    agent, environment = find_experiment(config).make_evaluation_agent(2, seed=0)
    assert [leaf.shape.as_list() for leaf in tf.nest.flatten(agent.policy.policy_state_spec)] == [[8], [8]]
    environment.close()


def catch_what_is_seen_once(folder, core_units: int, steps: int) -> float:
    """Mean return of the last games of Catch that shows ball and paddle in the first row alone.

    The way of the paddle to the ball is up to two columns, and one step is made on what is seen.
    """
    config = gymnasium.get_config("smoke")
    config.env.task = "repro.regression.environments:repro/Catch-v0"
    config.env.kwargs = {"seen": 1}
    config.env.last_action_and_reward = core_units > 0
    config.num_env_steps = steps
    config.network.update({"core_units": core_units, "units": (32,)})
    config.loss.update({"discount": 0.9, "entropy_cost": 0.005})
    config.learner.update({"batch_size": 16, "learning_rate": 0.01})
    config.runtime.schedule = "lockstep"
    trainer = find_experiment(config).build_trainer(1, RunDirectory(folder, config.to_dict(), 1), print)
    *_, last = trainer
    trainer.close()
    return last.mean_return


@pytest.mark.slow
def test_an_lstm_remembers_what_a_feed_forward_network_cannot(tmp_path):
    """Without memory three of five balls are caught at best: a return of 0.2.

    In a third of the steps a feed-forward network learns to catch most balls where it sees all rows.
    """
    assert catch_what_is_seen_once(tmp_path / "recurrent", 32, 240_000) > 0.75
    assert catch_what_is_seen_once(tmp_path / "feed_forward", 0, 80_000) < 0.3
