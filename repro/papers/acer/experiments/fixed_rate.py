"""ACER on Gym's MuJoCo tasks, the baseline of ReF-ER's Figures 4 and 5 (arXiv 1807.05827, Appendix A)."""

from __future__ import annotations

import ml_collections
import tensorflow as tf

from repro.config import check_rates
from repro.distributions import gaussian
from repro.networks.gaussian_actor_critic import GaussianActorCritic
from repro.optimizers.fused_adam import FusedAdam
from repro.papers.acer.continuous_agent import ContinuousAgent
from repro.papers.acer.continuous_loss import ContinuousLoss, Steps
from repro.papers.acer.experiments.continuous import ContinuousExperiment
from repro.training.experiment import Experiment
from repro.training.replay_trainer import ReplaySettings


class LoggingAgent(ContinuousAgent):
    """ACER that logs as `kl` the divergence in ReF-ER's figures, KL(mu || pi) at the replayed steps.

    With a trust region, the divergence from the average policy is logged as `average_kl`.
    """

    def _losses(self, steps: Steps, observation: tf.Tensor) -> ContinuousLoss:
        losses = super()._losses(steps, observation)
        mean = tf.stop_gradient(steps.mean)
        kl = gaussian.kl(steps.behaviour_mean, steps.behaviour_std, mean, steps.std)  # [T, B]
        average = {"average_kl": losses.extras["kl"]} if "kl" in losses.extras else {}  # with a trust region
        return losses._replace(extras=losses.extras | {"kl": kl, **average})


class FixedRateExperiment(ContinuousExperiment):
    """A fixed mean number of gradient steps per environment step; Adam with a separate learning rate for the policy."""

    AGENT = LoggingAgent

    @property
    def replay_settings(self) -> ReplaySettings:
        """Settings for `gradients_per_step` gradient steps per environment step on average, all on replayed unrolls."""
        learner, replay = self.config.learner, self.config.replay
        steps = learner.batch_size * learner.unroll_length
        return ReplaySettings(
            on_policy=False,
            ratio=replay.gradients_per_step * steps,
            batch_size=replay.batch_size,
            steps_per_call=self.config.runtime.get("steps_per_call", 1),
        )

    def sample_hparams(self, seed: int) -> dict[str, float]:
        """Returns {}: all seeds have the same hyper-parameters."""
        return {}

    def make_optimizer(self, network: GaussianActorCritic) -> tf.keras.optimizers.Optimizer:
        """Returns Adam with a separate learning rate for the policy.

        Raises:
            ValueError: as for `check_rates`.
        """
        learner, policy = self.config.learner, {weights.ref() for weights in network.policy_weights}
        check_rates(learner)
        scale = learner.policy_learning_rate / learner.learning_rate
        scales = [scale if weights.ref() in policy else 1.0 for weights in network.trainable_variables]
        return FusedAdam(learner.learning_rate, scales=scales)


def make_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a resolved configuration."""
    return FixedRateExperiment(config)
