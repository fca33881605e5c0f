"""ACER's learner and policies for discrete actions, as a TF-Agents agent."""

from __future__ import annotations

import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import StepType, Trajectory
from tf_agents.trajectories import time_step as ts

from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.networks.policy_q import PolicyQ
from repro.ops.layout import time_major
from repro.papers.acer.averaging_agent import AveragingAgent, OptimizationConfig
from repro.papers.acer.loss import AcerLoss, AcerLossSettings, acer_loss


class AcerAgent(AveragingAgent):
    """Actor-critic with experience replay; `AveragingAgent` describes the updates and their inputs.

    Args:
        time_step_spec, action_spec: specs of one unbatched environment.
        network: network of policy logits and action values.
        average_network: network of the average policy, with the same layers; its weights are overwritten with those of
            `network`. None for ACER without a trust region.
        optimization: see `OptimizationConfig`.
        loss_settings: c, delta and the entropy cost.
        train_step_counter: int64 variable, incremented at each update.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        *,
        network: PolicyQ,
        average_network: PolicyQ | None,
        optimization: OptimizationConfig,
        loss_settings: AcerLossSettings,
        train_step_counter: tf.Variable,
    ) -> None:
        self._network = network
        self._average_network = average_network
        self._loss_settings = loss_settings
        network.build_variables(time_step_spec.observation)
        averaged: list[tuple[tf.Variable, tf.Variable]] = []
        if average_network is not None:
            average_network.build_variables(time_step_spec.observation)
            averaged = list(zip(average_network.variables, network.variables, strict=True))
            for average, variable in averaged:
                average.assign(variable)
        super().__init__(
            optimization,
            network.trainable_variables,
            averaged,
            time_step_spec=time_step_spec,
            action_spec=action_spec,
            policy=ActorCriticPolicy(time_step_spec, action_spec, network),
            collect_policy=ActorCriticPolicy(time_step_spec, action_spec, network),
            train_step_counter=train_step_counter,
        )

    def _per_step_loss(self, experience: Trajectory) -> AcerLoss:
        observation, step_type = experience.observation, experience.step_type
        logits, q, _ = self._network(observation, step_type)  # [B, T+1, A]
        average_logits = None
        if self._average_network is not None:
            average_logits = time_major(self._average_network(observation[:, :-1], step_type[:, :-1])[0])
        return acer_loss(
            logits=time_major(logits),
            q=time_major(q),
            average_logits=average_logits,
            behaviour_logits=time_major(experience.policy_info["logits"])[:-1],
            actions=time_major(experience.action)[:-1],
            r_t=time_major(experience.reward)[:-1],
            discount_t=self._optimization.discount * time_major(experience.discount)[:-1],
            is_boundary=time_major(step_type)[:-1] == StepType.LAST,
            settings=self._loss_settings,
        )
