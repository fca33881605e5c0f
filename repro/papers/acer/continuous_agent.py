"""Learner and policies of ACER and its baselines for continuous actions, as a TF-Agents agent."""

from __future__ import annotations

import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import StepType, Trajectory
from tf_agents.trajectories import time_step as ts

from repro.config import check_choice
from repro.networks.gaussian_actor_critic import GaussianActorCritic, policy_mean
from repro.networks.gaussian_policy import GaussianPolicy
from repro.ops.layout import time_major
from repro.papers.acer.averaging_agent import AveragingAgent, OptimizationConfig
from repro.papers.acer.baselines import a3c_loss, tis_loss
from repro.papers.acer.continuous_loss import (
    POLICY_TARGETS,
    TRACES,
    ContinuousLoss,
    ContinuousLossSettings,
    Steps,
    continuous_acer_loss,
)

BASELINES = {"a3c": a3c_loss, "tis": tis_loss}
METHODS = ("acer", *BASELINES)
"""Methods of Section 6; its Trust-A3C and Trust-TIS are the baselines with a trust region."""


class ContinuousAgent(AveragingAgent):
    """ACER (Algorithm 3), A3C, Trust-A3C, TIS or Trust-TIS with a Gaussian policy of fixed std.

    `AveragingAgent` describes the updates and their inputs; ACER and TIS take unrolls from a replay, A3C fresh ones.

    ACER samples a' and u_1 to u_n for every step from a seed made of `seed`, the number of the update and the index of
    the replica: the same seed gives the same updates, also after a checkpoint. XLA gives other samples than a graph.

    Args:
        time_step_spec, action_spec: specs of one unbatched environment: observations [S], actions float32 [A].
        method: one of `METHODS`.
        trust_region: whether the policy gradient is projected onto the trust region around the average policy.
        network: network of the mean, V and, only for `acer`, A.
        std: std of every component of the policy (Section 6: 0.3), above 0.
        dueling_samples: n of Eq. 13 (Section 6: 5), at least 1; read only by `acer`.
        optimization: see `OptimizationConfig`; `average_decay`, like `loss_settings.delta`, is read only with a trust
            region.
        loss_settings: see `ContinuousLossSettings`.
        train_step_counter: int64 variable, incremented at each update.
        seed: integer in [0, 2^31) for the samples of `acer`.

    Raises:
        ValueError: the method, the traces or the policy target are unknown, or the network has an A that the method
            does not use, or lacks one that it needs.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.TensorSpec,
        *,
        method: str,
        trust_region: bool,
        network: GaussianActorCritic,
        std: float,
        dueling_samples: int,
        optimization: OptimizationConfig,
        loss_settings: ContinuousLossSettings,
        train_step_counter: tf.Variable,
        seed: int,
    ) -> None:
        check_choice("loss.method", method, METHODS)
        for name, choices in (("traces", TRACES), ("policy_target", POLICY_TARGETS)):
            check_choice(f"loss.{name}", getattr(loss_settings, name), choices)
        if bool(network.advantage_weights) != (method == "acer"):
            raise ValueError(
                f"loss.method={method}, but the network has {len(network.advantage_weights)} arrays of advantage "
                "weights: acer needs network.advantage_units of one layer or more, any other method a network without."
            )
        self._method = method
        self._network = network
        self._average_policy = (
            [
                tf.Variable(w.read_value(), trainable=False, name=f"average_{i}")
                for i, w in enumerate(network.policy_weights)
            ]
            if trust_region
            else []
        )
        self._std = std
        self._dueling_samples = dueling_samples
        self._loss_settings = loss_settings
        self._seed = seed
        weights = network.policy_weights
        super().__init__(
            optimization,
            network.trainable_variables,
            list(zip(self._average_policy, weights)),
            time_step_spec=time_step_spec,
            action_spec=action_spec,
            policy=GaussianPolicy(
                time_step_spec, action_spec, weights, std, greedy=True, mean_bound=network.mean_bound
            ),
            collect_policy=GaussianPolicy(time_step_spec, action_spec, weights, std, mean_bound=network.mean_bound),
            train_step_counter=train_step_counter,
        )

    def _per_step_loss(self, experience: Trajectory) -> ContinuousLoss:
        return self._losses(self._steps(experience), time_major(experience.observation)[:-1])

    def _steps(self, experience: Trajectory) -> Steps:
        """Returns the data of unrolls that the losses read, except for Q~ and its samples."""
        data = tf.nest.map_structure(time_major, experience)
        observation = data.observation[:-1]  # [T, B, S]
        values = self._network.value(data.observation)  # [T+1, B]
        mean = self._network.mean(observation)  # [T, B, A]
        average = self._average_policy
        return Steps(
            action=data.action[:-1],
            mean=mean,
            std=tf.fill(tf.shape(mean), self._std),
            behaviour_mean=data.policy_info["mean"][:-1],
            behaviour_std=data.policy_info["std"][:-1],
            average_mean=policy_mean(average, observation, self._network.mean_bound) if average else None,
            r_t=data.reward[:-1],
            discount_t=self._optimization.discount * data.discount[:-1],
            v_tm1=values[:-1],
            v_t=values[1:],
            is_boundary=data.step_type[:-1] == StepType.LAST,
        )

    def _losses(self, steps: Steps, observation: tf.Tensor) -> ContinuousLoss:
        """Computes the method's losses for `steps` and their observations [T, B, S]."""
        if self._method != "acer":
            return BASELINES[self._method](steps, self._loss_settings)
        sampled = self._sample(steps.mean)  # [T, B, 1 + n, A]: a', u_1 to u_n
        actions = tf.stack([steps.action, sampled[:, :, 0]], axis=2)  # [T, B, 2, A]: a, a'
        q = self._network.q(observation, steps.v_tm1, actions, sampled[:, :, 1:])  # [T, B, 2]
        return continuous_acer_loss(steps, q[..., 0], sampled[:, :, 0], q[..., 1], self._loss_settings)

    def _sample(self, mean: tf.Tensor) -> tf.Tensor:
        """Samples 1 + n actions from pi in every state, [T, B, 1 + n, A] for means [T, B, A], without gradient."""
        context = tf.distribute.get_replica_context()
        seed = tf.stack([self._seed, tf.cast(self.train_step_counter, tf.int32)])
        seed = tf.random.experimental.stateless_fold_in(seed, tf.cast(context.replica_id_in_sync_group, tf.int32))
        mean = tf.stop_gradient(mean)[:, :, tf.newaxis]  # [T, B, 1, A]
        shape = tf.concat([tf.shape(mean)[:2], [1 + self._dueling_samples, mean.shape[-1]]], axis=0)
        noise = tf.random.stateless_normal(shape, seed, alg="philox")
        return mean + self._std * noise
