"""Distributions over discrete and continuous actions, with the interface that STAC's loss, agent and policy need.

A policy head has K outputs per observation; everything here is a function of these, float32 [..., K].
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Protocol

import tensorflow as tf

from repro.distributions import categorical, gaussian, squashed_gaussian


class ActionDistribution(Protocol):
    """A distribution over actions, given by the outputs of a policy head."""

    @property
    def num_outputs(self) -> int:
        """K, the number of outputs of a policy head."""

    @property
    def info_spec(self) -> dict[str, tf.TensorSpec]:
        """Specs of the entries of `info` by name, for one environment."""

    def info(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Parameters of the acting distribution from which importance weights are computed, [..., size] each."""

    def sample(self, outputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Samples one action from each distribution; equal seeds, integers [2], give equal samples."""

    def mode(self, outputs: tf.Tensor) -> tf.Tensor:
        """The action that a greedy policy takes."""

    def log_prob(self, outputs: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """Logarithm of the probability or density of `actions`, [...]."""

    def log_ratio(self, outputs: tf.Tensor, behaviour: Mapping[str, tf.Tensor], actions: tf.Tensor) -> tf.Tensor:
        """log pi(a|x) - log mu(a|x), [...], given the `info` of mu."""

    def bonus(self, outputs: tf.Tensor) -> tf.Tensor:
        """Exploration bonus that the loss subtracts with weight g_e, [...]: larger for a policy that explores more."""

    def kl(self, outputs_p: tf.Tensor, outputs_q: tf.Tensor) -> tf.Tensor:
        """KL(p || q) in nats, [...]."""

    def describe(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Quantities for the log by name, [...] each: one value per distribution."""


@dataclasses.dataclass(frozen=True)
class Softmax:
    """The softmax over A actions, whose logits are the outputs; the bonus is the entropy (Section 9.3).

    Attributes:
        num_outputs: A.
    """

    num_outputs: int

    @property
    def info_spec(self) -> dict[str, tf.TensorSpec]:
        return {"logits": tf.TensorSpec([self.num_outputs], tf.float32)}

    def info(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"logits": outputs}

    def sample(self, outputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return categorical.sample(outputs, seed)

    def mode(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.argmax(outputs, axis=-1, output_type=tf.int32)

    def log_prob(self, outputs: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        return categorical.log_prob(outputs, actions)

    def log_ratio(self, outputs: tf.Tensor, behaviour: Mapping[str, tf.Tensor], actions: tf.Tensor) -> tf.Tensor:
        return categorical.log_ratio(outputs, behaviour["logits"], actions)

    def bonus(self, outputs: tf.Tensor) -> tf.Tensor:
        return categorical.entropy(outputs)

    def kl(self, outputs_p: tf.Tensor, outputs_q: tf.Tensor) -> tf.Tensor:
        return categorical.kl(outputs_p, outputs_q)

    def describe(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"entropy": categorical.entropy(outputs)}


@dataclasses.dataclass(frozen=True)
class SquashedGaussian:
    """The Gaussian squashed into (-1, 1)^A by a tanh; the bonus is minus the KL to a standard Gaussian (Section 4.2).

        m = tanh(y_m),    s = exp(log_std_min + 0.5 (log_std_max - log_std_min) (tanh(y_s) + 1))

    with the first A outputs y_m and the others y_s. The bonus and `describe` refer to the Gaussian before squashing.

    Attributes:
        size: A.
        log_std_min, log_std_max: bounds on log s.
    """

    size: int
    log_std_min: float
    log_std_max: float

    @property
    def num_outputs(self) -> int:
        return 2 * self.size

    @property
    def info_spec(self) -> dict[str, tf.TensorSpec]:
        return {name: tf.TensorSpec([self.size], tf.float32) for name in ("mean", "std")}

    def info(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        mean, std = self._mean_and_std(outputs)
        return {"mean": mean, "std": std}

    def sample(self, outputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return squashed_gaussian.sample(*self._mean_and_std(outputs), seed)

    def mode(self, outputs: tf.Tensor) -> tf.Tensor:
        """The squashed mean, which is the median: the density may peak elsewhere."""
        return tf.tanh(self._mean_and_std(outputs)[0])

    def log_prob(self, outputs: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        return squashed_gaussian.log_prob(*self._mean_and_std(outputs), actions)

    def log_ratio(self, outputs: tf.Tensor, behaviour: Mapping[str, tf.Tensor], actions: tf.Tensor) -> tf.Tensor:
        target = self._mean_and_std(outputs)
        return squashed_gaussian.log_ratio(*target, behaviour["mean"], behaviour["std"], actions)

    def bonus(self, outputs: tf.Tensor) -> tf.Tensor:
        return -squashed_gaussian.kl_to_standard_normal(*self._mean_and_std(outputs))

    def kl(self, outputs_p: tf.Tensor, outputs_q: tf.Tensor) -> tf.Tensor:
        return gaussian.kl(*self._mean_and_std(outputs_p), *self._mean_and_std(outputs_q))

    def describe(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        mean, std = self._mean_and_std(outputs)
        prior_kl = squashed_gaussian.kl_to_standard_normal(mean, std)
        return {"std": tf.reduce_mean(std, axis=-1), "prior_kl": prior_kl}

    def _mean_and_std(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns mean and std of the Gaussian before squashing, [..., A] each."""
        mean, std = tf.split(outputs, 2, axis=-1)
        return (
            squashed_gaussian.mean_from_raw(mean),
            squashed_gaussian.std_from_raw(std, self.log_std_min, self.log_std_max),
        )
