"""A3C's learner and policies for discrete actions, ACER's on-policy baseline on Atari, as a TF-Agents agent."""

from __future__ import annotations

import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import StepType, Trajectory
from tf_agents.trajectories import time_step as ts

from repro.networks.actor_critic import ActorCritic
from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.ops.layout import time_major
from repro.papers.acer.averaging_agent import AveragingAgent, OptimizationConfig
from repro.papers.acer.baselines import discrete_a3c_loss
from repro.papers.acer.loss import AcerLoss


class A3cAgent(AveragingAgent):
    """Advantage actor-critic without replay; `AveragingAgent` describes the updates of `train_on_policy`.

    Args:
        time_step_spec, action_spec: specs of one unbatched environment.
        network: network of policy logits and V.
        optimization: see `OptimizationConfig`; `average_decay` is not read, as there is no average policy.
        entropy_cost: weight of the entropy bonus, at least 0.
        train_step_counter: int64 variable, incremented at each update.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        *,
        network: ActorCritic,
        optimization: OptimizationConfig,
        entropy_cost: float,
        train_step_counter: tf.Variable,
    ) -> None:
        self._network = network
        self._entropy_cost = entropy_cost
        network.build_variables(time_step_spec.observation)
        super().__init__(
            optimization,
            network.trainable_variables,
            averaged=(),
            time_step_spec=time_step_spec,
            action_spec=action_spec,
            policy=ActorCriticPolicy(time_step_spec, action_spec, network),
            collect_policy=ActorCriticPolicy(time_step_spec, action_spec, network),
            train_step_counter=train_step_counter,
        )

    def _per_step_loss(self, experience: Trajectory) -> AcerLoss:
        step_type = experience.step_type
        logits, values, _ = self._network(experience.observation, step_type)  # [B, T+1, A], [B, T+1]
        return discrete_a3c_loss(
            logits=time_major(logits)[:-1],
            values=time_major(values),
            actions=time_major(experience.action)[:-1],
            r_t=time_major(experience.reward)[:-1],
            discount_t=self._optimization.discount * time_major(experience.discount)[:-1],
            is_boundary=time_major(step_type)[:-1] == StepType.LAST,
            entropy_cost=self._entropy_cost,
        )
