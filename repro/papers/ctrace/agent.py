"""Learner and policies of C-trace's agents, DQN and R2D2, as a TF-Agents agent (Section 4, Appendix E)."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import StepType, Trajectory
from tf_agents.trajectories import time_step as ts

from repro.config import check_choice
from repro.networks.epsilon_greedy_policy import EpsilonGreedyPolicy
from repro.networks.q_network import QNetwork
from repro.networks.recurrent_q import RecurrentQ
from repro.networks.sequence_network import unroll_after_burn_in
from repro.ops.layout import time_major
from repro.ops.masked import masked_mean
from repro.optimizers.gradients import masked_means_over_replicas, mean_over_replicas, reduce_and_clip
from repro.papers.ctrace import alpha_update, targets
from repro.papers.ctrace.loss import DqnLoss, SequenceLossSettings, dqn_loss

TIME_REDUCTIONS = {"mean": tf.reduce_mean, "sum": tf.reduce_sum}
"""Reductions of the loss over the steps of a sequence."""

SCALARS = ("q", "td_error", "contraction", "contraction_target", "alpha", "gradient_norm")
"""Names of the scalars that `train` logs for a batch, besides the loss."""


class OptimizationConfig(NamedTuple):
    """Settings of an agent's updates.

    optimizer: Keras optimiser, shared by the network and phi (Appendix E).
    target_period: number of updates between two copies of the weights to the target network, at least 1.
    target_rate: Gamma of C-trace, in [0, 1]; other methods only log it, as part of `contraction_target`.
    clip_global_norm: bound on the global norm of the network's gradient; 0 for none.
    burn_in: number of rows of a sequence that only warm up a recurrent core; 0 for a network without one.
    priority_of_max: weight of the largest absolute TD error in a sequence's priority; the mean has the rest.
    time_reduction: reduction of the loss over the rows of a sequence, `mean` or `sum`.
    """

    optimizer: tf.keras.optimizers.Optimizer
    target_period: int
    target_rate: float
    clip_global_norm: float
    burn_in: int = 0
    priority_of_max: float = 0.9
    time_reduction: str = "mean"


class CtraceAgent(tf_agent.TFAgent):
    """Q-learning on sequences with one of four targets; DQN with a `QNetwork`, R2D2 with a `RecurrentQ`.

    `train` takes a batch of sequences as `SequenceReplay` samples them, `Trajectory` [B, T + 1, ...] preceded by the
    burn-in. mu is computed from the greedy action and the epsilon in `policy_info`; a recurrent core starts from
    `policy_info["core_state"]`, [B, units]. The loss is the mean or the sum over the rows of a sequence, in which
    boundary rows count as 0, and the mean over the batch, weighted by `weights` [B] if given; under `tf.distribute`
    over the batches of all replicas.

    C-trace's alpha is sigmoid(phi). Every method has the variable phi, but only C-trace learns it, always from the mean
    over all rows (Appendix E: "average observed contraction rate .. over the mini-batch").

    Args:
        time_step_spec, action_spec: specs of one unbatched environment.
        network, target_network: networks with the same layers; the target's weights are overwritten with those of
            `network`.
        optimization: see `OptimizationConfig`.
        loss_settings: see `SequenceLossSettings`.
        evaluation_epsilon: epsilon of `policy`. `collect_policy` has an epsilon of 1; actors have policies with an
            epsilon of their own.
        train_step_counter: int64 variable, incremented at each update.

    Raises:
        ValueError: `time_reduction` or the method is unknown.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        *,
        network: QNetwork | RecurrentQ,
        target_network: QNetwork | RecurrentQ,
        optimization: OptimizationConfig,
        loss_settings: SequenceLossSettings,
        evaluation_epsilon: float,
        train_step_counter: tf.Variable,
    ) -> None:
        check_choice("loss.time_reduction", optimization.time_reduction, TIME_REDUCTIONS)
        check_choice("loss.target", loss_settings.method, targets.METHODS)
        self._network = network
        self._target_network = target_network
        self._optimization = optimization
        self._optimizer = optimization.optimizer  # a separate attribute, under which checkpoints save it
        self._loss_settings = loss_settings
        for each in (network, target_network):
            each.build_variables(time_step_spec.observation)
        self._phi = tf.Variable(0.0, name="phi")  # alpha = 1/2; not specified
        self._learns_alpha = loss_settings.method == "c_trace"
        self._learned = [*network.trainable_variables, *([self._phi] if self._learns_alpha else [])]
        self._optimizer.build(self._learned)
        self._copy_weights()
        super().__init__(
            time_step_spec,
            action_spec,
            policy=EpsilonGreedyPolicy(time_step_spec, action_spec, network, evaluation_epsilon),
            collect_policy=EpsilonGreedyPolicy(time_step_spec, action_spec, network, 1.0),
            train_sequence_length=None,
            train_step_counter=train_step_counter,
        )

    def _initialize(self) -> None:
        """Variables are created in the constructor, under the caller's strategy scope."""

    def _loss(
        self, experience: Trajectory, weights: tf.Tensor | None = None, training: bool = False
    ) -> tf_agent.LossInfo:
        losses, _, extras = self._losses(experience)
        return tf_agent.LossInfo(self._reduce(losses.total, weights), extras)

    def _losses(self, experience: Trajectory) -> tuple[DqnLoss, tf.Tensor, dict[str, tf.Tensor]]:
        """Computes the loss of each step, the loss of phi [T, B], and the extras to log, with the priorities [B]."""
        optimization, settings = self._optimization, self._loss_settings
        q, target_q = (self._values(network, experience) for network in (self._network, self._target_network))
        data = tf.nest.map_structure(
            lambda x: time_major(x[:, optimization.burn_in :]),
            experience._replace(observation=(), policy_info=_without_state(experience.policy_info)),
        )
        info, is_boundary = data.policy_info, data.step_type[:-1] == StepType.LAST
        discount_t = settings.discount * data.discount[:-1]
        losses = dqn_loss(
            q=q,
            target_q=target_q,
            behaviour=targets.epsilon_greedy(info["greedy_action"], info["epsilon"], q.shape[-1]),
            actions=data.action[:-1],
            r_t=data.reward[:-1],
            discount_t=discount_t,
            is_boundary=is_boundary,
            settings=settings,
            alpha=tf.sigmoid(tf.stop_gradient(self._phi)),
        )
        contraction = tf.stop_gradient(losses.extras["contraction"])
        wanted = alpha_update.contraction_target(
            discount_t, gamma=settings.discount, target_rate=optimization.target_rate, is_boundary=is_boundary
        )
        alpha_losses = alpha_update.alpha_loss(self._phi, contraction, wanted, gamma=settings.discount)
        live = ~is_boundary
        size = tf.abs(losses.extras["td_error"])
        described = {
            "q": losses.extras["values"],
            "td_error": size,
            "contraction": contraction,
            "contraction_target": wanted,
        }
        extras = {
            **masked_means_over_replicas(described, live),
            "alpha": tf.sigmoid(self._phi) if self._learns_alpha else tf.constant(1.0),
            "priorities": self._priorities(size, live),
        }
        return losses, alpha_losses, extras

    def _values(self, network: QNetwork | RecurrentQ, experience: Trajectory) -> tf.Tensor:
        """Returns Q(x_s, .) for s = 0 to T after the burn-in, float32 [T + 1, B, A]."""
        observation, step_type = experience.observation, experience.step_type
        if isinstance(network, RecurrentQ):
            state = experience.policy_info["core_state"]
            (q,) = unroll_after_burn_in(network, observation, step_type, state, self._optimization.burn_in)
            return time_major(q)
        if network is self._target_network:  # no target reads its values in the first row
            q, _ = network(observation[:, 1:], step_type[:, 1:])
            return tf.pad(time_major(q), [[1, 0], [0, 0], [0, 0]])
        q, _ = network(observation[:, :-1], step_type[:, :-1])
        last, _ = network(observation[:, -1:], step_type[:, -1:])  # separately: it needs no gradient
        return time_major(tf.concat([q, tf.stop_gradient(last)], axis=1))

    def _priorities(self, size: tf.Tensor, live: tf.Tensor) -> tf.Tensor:
        """eta max |d| + (1 - eta) mean |d| over a sequence's transitions (R2D2, Section 2.3), float32 [B]."""
        eta = self._optimization.priority_of_max
        return eta * tf.reduce_max(size, axis=0) + (1.0 - eta) * masked_mean(size, live, axis=0)

    def _train(self, experience: Trajectory, weights: tf.Tensor | None = None) -> tf_agent.LossInfo:
        with tf.GradientTape() as tape:
            losses, alpha_losses, extras = self._losses(experience)
            loss = self._reduce(losses.total, weights)
            total = loss + mean_over_replicas(tf.reduce_mean(alpha_losses, axis=0)) if self._learns_alpha else loss
        gradients = tape.gradient(total, self._learned)
        size = len(self._network.trainable_variables)
        network_gradients, norm = reduce_and_clip(gradients[:size], self._optimization.clip_global_norm)
        phi_gradients: list[tf.Tensor] = []
        if self._learns_alpha:  # separately, as its scale is that of `alpha_loss`
            phi_gradients, _ = reduce_and_clip(gradients[size:])
        self._optimizer.apply_gradients(
            zip([*network_gradients, *phi_gradients], self._learned), skip_gradients_aggregation=True
        )
        self.train_step_counter.assign_add(1)
        tf.cond(self.train_step_counter % self._optimization.target_period == 0, self._copy_weights, lambda: None)
        return tf_agent.LossInfo(loss, extras | {"gradient_norm": norm})

    def _reduce(self, per_step: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """Returns this replica's part of the loss, from the losses of all steps [T, B]."""
        return mean_over_replicas(TIME_REDUCTIONS[self._optimization.time_reduction](per_step, axis=0), weights)

    def _copy_weights(self) -> None:
        for target, variable in zip(self._target_network.variables, self._network.variables, strict=True):
            target.assign(variable)


def _without_state(info: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {name: value for name, value in info.items() if name != "core_state"}
