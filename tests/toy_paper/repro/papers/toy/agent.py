"""A one-step advantage actor-critic as a TF-Agents agent."""

from __future__ import annotations

import tensorflow as tf
from repro.papers.toy.loss import actor_critic_loss
from tf_agents.agents import tf_agent
from tf_agents.trajectories import StepType

from repro.distributions import categorical
from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.ops.layout import time_major


class ToyAgent(tf_agent.TFAgent):
    def __init__(self, time_step_spec, action_spec, network, optimizer, discount):
        self._network, self._optimizer, self._discount = network, optimizer, discount
        network.build_variables(time_step_spec.observation)
        optimizer.build(network.trainable_variables)
        super().__init__(
            time_step_spec,
            action_spec,
            policy=ActorCriticPolicy(time_step_spec, action_spec, network),
            collect_policy=ActorCriticPolicy(time_step_spec, action_spec, network),
            train_sequence_length=None,
            train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False),
        )

    def _initialize(self):
        pass

    def _train(self, experience, weights=None):
        with tf.GradientTape() as tape:
            logits, values, _ = self._network(experience.observation, experience.step_type)
            logits, values = time_major(logits), time_major(values)
            losses = actor_critic_loss(
                logits[:-1],
                time_major(experience.action)[:-1],
                time_major(experience.reward)[:-1],
                self._discount * time_major(experience.discount)[:-1],
                values[:-1],
                values[1:],
            )
            live = time_major(experience.step_type)[:-1] != StepType.LAST
            loss = tf.reduce_mean(tf.where(live, losses, 0.0))
        variables = self._network.trainable_variables
        self._optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.train_step_counter.assign_add(1)
        return tf_agent.LossInfo(loss, {"entropy": tf.reduce_mean(categorical.entropy(logits))})
