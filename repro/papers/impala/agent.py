"""IMPALA's learner and policies as a TF-Agents agent."""

from __future__ import annotations

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import StepType, Trajectory
from tf_agents.trajectories import time_step as ts

from repro.networks.actor_critic import ActorCritic
from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.ops.layout import time_major
from repro.optimizers.gradients import masked_means_over_replicas
from repro.papers.impala.loss import ImpalaLoss, VtraceLossSettings, impala_loss
from repro.training.unroll_agent import UnrollAgent

DESCRIBED = {"entropy": "entropy", "rho_clipped": "rho_clipped", "value": "values"}
"""Extras of the loss whose means are logged, by their names in the log."""


class ImpalaAgent(UnrollAgent):
    """V-trace actor-critic.

    `train` takes a batch of unrolls, `Trajectory` [B, T+1, ...]: T transitions and the observation after the
    last one, from which the targets bootstrap; action, reward and discount of the last row are not read.
    Losses are summed over batch and time (Table C.1), and under `tf.distribute` over all replicas. `train_on_policy`
    is an update of A3C: at the weights that acted every importance weight is 1, and the V-trace target is the n-step
    return.

    Args:
        time_step_spec, action_spec: specs of one unbatched environment.
        network: network of policy logits and values.
        optimizer: Keras optimiser; its learning-rate schedule counts updates.
        discount: gamma, in [0, 1].
        loss_settings: coefficients of the loss.
        clip_global_norm: bound on the global norm of the summed gradient; 0 for none.
        greedy: whether `policy` (not `collect_policy`) takes the most probable action.
        train_step_counter: int64 variable, incremented at each update.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        *,
        network: ActorCritic,
        optimizer: tf.keras.optimizers.Optimizer,
        discount: float,
        loss_settings: VtraceLossSettings,
        clip_global_norm: float,
        train_step_counter: tf.Variable,
        greedy: bool = False,
    ) -> None:
        self._network = network
        self._discount = discount
        self._loss_settings = loss_settings
        network.build_variables(time_step_spec.observation)
        optimizer.build(network.trainable_variables)
        super().__init__(
            optimizer,
            clip_global_norm,
            time_step_spec=time_step_spec,
            action_spec=action_spec,
            policy=ActorCriticPolicy(time_step_spec, action_spec, network, greedy),
            collect_policy=ActorCriticPolicy(time_step_spec, action_spec, network),
            train_step_counter=train_step_counter,
        )

    @property
    def learned_variables(self) -> list[tf.Variable]:
        return list(self._network.trainable_variables)

    def _per_step_loss(self, experience: Trajectory) -> ImpalaLoss:
        core_state = tf.nest.map_structure(lambda x: x[:, 0], experience.policy_info.get("core_state", ()))
        logits, values, _ = self._network(experience.observation, experience.step_type, core_state)
        logits, values = time_major(logits), time_major(values)  # [T+1, B, A], [T+1, B]
        return impala_loss(
            target_logits=logits[:-1],
            behaviour_logits=time_major(experience.policy_info["logits"])[:-1],
            actions=time_major(experience.action)[:-1],
            r_t=time_major(experience.reward)[:-1],
            discount_t=self._discount * time_major(experience.discount)[:-1],
            v_tm1=values[:-1],
            v_t=values[1:],
            is_boundary=time_major(experience.step_type)[:-1] == StepType.LAST,
            settings=self._loss_settings,
        )

    def _loss(
        self, experience: Trajectory, weights: tf.Tensor | None = None, training: bool = False
    ) -> tf_agent.LossInfo:
        losses = self._per_step_loss(experience)
        live = time_major(experience.step_type)[:-1] != StepType.LAST  # [T, B]
        described = {name: losses.extras[key] for name, key in DESCRIBED.items()}
        replicas = float(tf.distribute.get_strategy().num_replicas_in_sync)  # scalars are averaged over them
        extra = {
            "policy_gradient_loss": replicas * tf.reduce_sum(losses.policy_gradient),
            "baseline_loss": replicas * tf.reduce_sum(losses.baseline),
            "entropy_loss": replicas * tf.reduce_sum(losses.entropy),
            **masked_means_over_replicas(described, live),
        }
        per_unroll = tf.reduce_sum(losses.total, axis=0)  # [B]
        return tf_agent.LossInfo(tf.reduce_sum(per_unroll if weights is None else weights * per_unroll), extra)
