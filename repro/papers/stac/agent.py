"""STAC and STACX as a TF-Agents agent; without tuned metaparameters IMPALA, with or without auxiliary heads."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import StepType, Trajectory
from tf_agents.trajectories import time_step as ts

from repro.networks.multi_head_actor_critic import MultiHeadActorCritic
from repro.networks.sequence_network import unroll_after_burn_in
from repro.ops.layout import time_major
from repro.optimizers.gradients import masked_means_over_replicas, reduce_and_clip
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers.stac.acting import HeadPolicy
from repro.papers.stac.action_distribution import ActionDistribution
from repro.papers.stac.loss import Hyperparameters, StacLoss, stac_loss
from repro.papers.stac.metagradient import Metaparameters, self_tuning_update


class InnerExtra(NamedTuple):
    """Further results of the inner loss: the heads' outputs before the update, [T+1, B, P, K], and scalars to log."""

    outputs: tf.Tensor
    scalars: dict[str, tf.Tensor]


class StacAgent(tf_agent.TFAgent):
    """Self-tuning actor-critic (Algorithm 2).

    `train` takes a batch of unrolls, `Trajectory` [B, burn_in+T+1, ...]: rows that only warm up the network's core, T
    transitions, and the observation after the last one, from which the targets bootstrap; action, reward and discount
    of the last row are not read. The core starts from the state stored with the first row. Losses are summed over
    batch and time, and under `tf.distribute` over all replicas; the inner loss is the mean over heads (line 11).

    In a network with an embedding of gamma both losses are computed with the gammas before the update; the new ones are
    written into it, and published to actors with its weights, afterwards.

    Args:
        time_step_spec, action_spec: specs of one unbatched environment.
        network: network of the heads' policies and values.
        distribution: distribution over actions that the policies' outputs parametrise.
        optimizer: optimiser of the network.
        metaparameters: metaparameters of the network's heads; if none is tuned, there is no outer loss.
        meta_optimizer: Keras optimiser of the metaparameters.
        outer: zeta, the hyper-parameters of the outer loss.
        kl_cost: g_kl of Eq. (3).
        clip_global_norm: bound on the global norm of the summed gradient of the inner loss; 0 for none.
        train_step_counter: int64 variable, incremented at each update.
        burn_in: number of rows at the beginning of an unroll from which nothing is learned.
        greedy: whether `policy` (not `collect_policy`) takes the distribution's mode.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        *,
        network: MultiHeadActorCritic,
        distribution: ActionDistribution,
        optimizer: RMSPropTF1,
        metaparameters: Metaparameters,
        meta_optimizer: tf.keras.optimizers.Optimizer,
        outer: Hyperparameters,
        kl_cost: float,
        clip_global_norm: float,
        train_step_counter: tf.Variable,
        burn_in: int = 0,
        greedy: bool = False,
    ) -> None:
        self._network = network
        self._distribution = distribution
        self._burn_in = burn_in
        self._optimizer = optimizer
        self._metaparameters = metaparameters
        self._meta_optimizer = meta_optimizer
        self._outer = outer
        self._kl_cost = kl_cost
        self._clip_global_norm = clip_global_norm
        network.build_variables(time_step_spec.observation)
        self._tell_gammas()
        optimizer.build(network.trainable_variables)
        meta_optimizer.build(metaparameters.trainable_variables)
        super().__init__(
            time_step_spec,
            action_spec,
            policy=HeadPolicy(time_step_spec, action_spec, network, distribution, greedy),
            collect_policy=HeadPolicy(time_step_spec, action_spec, network, distribution),
            train_sequence_length=None,
            train_step_counter=train_step_counter,
        )

    def _initialize(self) -> None:
        """Variables are created in the constructor, under the caller's strategy scope."""

    def _tell_gammas(self) -> None:
        """Writes the heads' gammas into a network that embeds them."""
        if self._network.gammas is not None:
            self._network.gammas.assign(self._metaparameters.hyperparameters().gamma)

    def _heads(self, experience: Trajectory, acting_alone: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the heads' policy outputs [T+1, B, P, K] and values [T+1, B, P] after the burn-in.

        With `acting_alone`, only those of the heads that act.
        """
        state = tf.nest.map_structure(lambda x: x[:, 0], experience.policy_info.get("core_state", ()))
        _, outputs, values = unroll_after_burn_in(
            self._network,
            experience.observation,
            experience.step_type,
            state,
            self._burn_in,
            acting_alone=acting_alone,
        )
        return time_major(outputs), time_major(values)

    def _transitions(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the rows that are learned from, [T, B, ...], of x [B, burn_in+T+1, ...]."""
        return time_major(x)[self._burn_in : -1]

    def _is_boundary(self, experience: Trajectory) -> tf.Tensor:
        """Returns which rows are no transition, bool [T, B]."""
        return self._transitions(experience.step_type) == StepType.LAST

    def _means_over_transitions(self, experience: Trajectory, named: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Averages tensors [T, B, P] over heads and those rows that are transitions, to [] each."""
        over_heads = {name: tf.reduce_mean(x, axis=-1) for name, x in named.items()}
        return masked_means_over_replicas(over_heads, tf.logical_not(self._is_boundary(experience)))

    def _head_losses(
        self, experience: Trajectory, outputs: tf.Tensor, values: tf.Tensor, zeta: Hyperparameters
    ) -> StacLoss:
        info = experience.policy_info
        return stac_loss(
            self._distribution,
            target_outputs=outputs[:-1],
            behaviour={name: self._transitions(info[name]) for name in self._distribution.info_spec},
            actions=self._transitions(experience.action),
            r_t=self._transitions(experience.reward),
            continues_t=self._transitions(experience.discount),
            v_tm1=values[:-1],
            v_t=values[1:],
            is_boundary=self._is_boundary(experience),
            zeta=zeta,
        )

    def _inner_loss(self, experience: Trajectory, weights: tf.Tensor | None) -> tuple[tf.Tensor, InnerExtra]:
        """Computes the inner loss, line 11: the mean over heads of Algorithm 1 with zeta(eta)."""
        outputs, values = self._heads(experience)
        losses = self._head_losses(experience, outputs, values, self._metaparameters.hyperparameters())
        acting = self._network.acting_heads
        replicas = float(tf.distribute.get_strategy().num_replicas_in_sync)  # scalars are averaged over them
        scalars = {
            "policy_gradient_loss": replicas * tf.reduce_sum(losses.policy[..., acting]),
            "baseline_loss": replicas * tf.reduce_sum(losses.value[..., acting]),
            "entropy_loss": replicas * tf.reduce_sum(losses.entropy[..., acting]),
        }
        described = self._distribution.describe(outputs[:-1, :, acting])
        described |= {"rho": losses.rho[..., acting], "value": values[:-1, :, acting]}
        scalars |= self._means_over_transitions(experience, described)
        return _sum(losses.total, weights) / self._network.num_heads, InnerExtra(outputs, scalars)

    def _outer_loss(
        self, experience: Trajectory, weights: tf.Tensor | None, inner: InnerExtra
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Computes Eq. (3) for the heads that act: Algorithm 1 with the fixed zeta, and KL(pi_theta', pi_theta)."""
        acting = self._network.acting_heads
        outputs, values = self._heads(experience, acting_alone=True)
        losses = self._head_losses(experience, outputs, values, self._outer)
        before = tf.stop_gradient(inner.outputs[:-1, :, acting])
        kl = self._distribution.kl(outputs[:-1], before)  # [T, B, heads that act]
        kl = tf.where(self._is_boundary(experience)[..., tf.newaxis], 0.0, kl)
        outer = _sum(losses.total + self._kl_cost * kl, weights) / outputs.shape[2]
        return outer, self._means_over_transitions(experience, {"kl": kl})

    def _loss(
        self, experience: Trajectory, weights: tf.Tensor | None = None, training: bool = False
    ) -> tf_agent.LossInfo:
        loss, extra = self._inner_loss(experience, weights)
        return tf_agent.LossInfo(loss, extra.scalars)

    def _train(self, experience: Trajectory, weights: tf.Tensor | None = None) -> tf_agent.LossInfo:
        variables, eta = self._network.trainable_variables, list(self._metaparameters.eta.values())
        extra = self._metaparameters.scalars()
        if eta:
            update = self_tuning_update(
                lambda: self._inner_loss(experience, weights),
                lambda inner: self._outer_loss(experience, weights, inner),
                variables,
                eta,
                self._optimizer,
                self._clip_global_norm,
            )
            loss, inner, norm = update.inner, update.inner_extra, update.gradient_norm
            self._meta_optimizer.apply_gradients(zip(update.metagradient, eta), skip_gradients_aggregation=True)
            self._tell_gammas()
            extra |= self._metaparameters.by_head(update.metagradient, "metagradient_")
            extra |= update.outer_extra | {
                # The learner logs the mean over replicas, each of which has its part of the sum.
                "outer_loss": update.outer * float(tf.distribute.get_strategy().num_replicas_in_sync),
                "metagradient_norm": tf.linalg.global_norm(update.metagradient),
            }
        else:
            with tf.GradientTape() as tape:
                loss, inner = self._inner_loss(experience, weights)
            gradients, norm = reduce_and_clip(tape.gradient(loss, variables), self._clip_global_norm)
            self._optimizer.apply_gradients(zip(gradients, variables), skip_gradients_aggregation=True)
        self.train_step_counter.assign_add(1)
        return tf_agent.LossInfo(loss, inner.scalars | extra | {"gradient_norm": norm})


def _sum(losses: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    """Sums losses [T, B, P] over steps, unrolls and heads, with unrolls weighted by float32 [B]."""
    per_unroll = tf.reduce_sum(losses, axis=(0, 2))
    return tf.reduce_sum(per_unroll if weights is None else weights * per_unroll)
