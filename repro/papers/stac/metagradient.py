"""Metaparameters, and the gradient of the outer loss with respect to them (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from repro.optimizers.gradients import reduce_and_clip
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers.stac.loss import Hyperparameters

SETS = {
    "gamma": ("gamma",),
    "lambda": ("lambda_",),
    "alpha": ("alpha_rho", "alpha_c"),
    "alpha_rho": ("alpha_rho",),
    "alpha_c": ("alpha_c",),
    "truncation": ("truncation",),
    "g_v": ("g_v",),
    "g_p": ("g_p",),
    "g_e": ("g_e",),
}
"""Fields of `Hyperparameters` that each metaparameter sets."""

SCALED = ("truncation", "g_v", "g_p", "g_e")
"""Metaparameters that are multiplied by their value in the outer loss."""


class Metaparameters(tf.Module):
    """The metaparameters eta of every head, and the hyper-parameters zeta(eta).

    Args:
        tuned: names in `SETS`; fields that none of them sets keep their value in the outer loss (Section 4.1).
        outer: hyper-parameters of the outer loss, floats.
        num_heads: P, the number of heads with tuned hyper-parameters.
        initial: initial eta, before the sigmoid, by name.
        fixed: hyper-parameters, floats, of further heads after these, whose hyper-parameters are not tuned.

    Attributes:
        eta: metaparameters by name, float32 [P] each.

    Raises:
        ValueError: a name is unknown, or two set the same field.
    """

    def __init__(
        self,
        tuned: Sequence[str],
        outer: Hyperparameters,
        num_heads: int,
        initial: Mapping[str, float],
        fixed: Sequence[Hyperparameters] = (),
    ) -> None:
        super().__init__(name="metaparameters")
        fields = [field for name in tuned for field in SETS.get(name, ())]
        if not set(tuned) <= set(SETS) or len(fields) > len(set(fields)):
            raise ValueError(
                f"meta.tuned={tuple(tuned)}: choose from {', '.join(SETS)}, each once; alpha stands "
                "for alpha_rho and alpha_c."
            )
        self._outer = outer
        self._num_heads = num_heads
        self._fixed = list(fixed)
        self.eta = {name: tf.Variable(tf.fill([num_heads], initial[name]), name=name) for name in tuned}

    def hyperparameters(self) -> Hyperparameters:
        """zeta(eta) of the inner loss: sigma(eta), for `SCALED` times the outer value (line 10).

        Each is float32 [P + len(fixed)].
        """
        zeta = {field: tf.fill([self._num_heads], value) for field, value in self._outer._asdict().items()}
        for name, eta in self.eta.items():
            for field in SETS[name]:
                zeta[field] = tf.sigmoid(eta) * (zeta[field] if name in SCALED else 1.0)
        fixed = {field: [getattr(head, field) for head in self._fixed] for field in zeta}
        return Hyperparameters(**{field: tf.concat([x, fixed[field]], axis=0) for field, x in zeta.items()})

    def scalars(self) -> dict[str, tf.Tensor]:
        """sigma(eta) of every head without the outer value, as in Figure 5; `gamma_1` is that of the first head."""
        return self.by_head([tf.sigmoid(eta) for eta in self.eta.values()])

    def by_head(self, values: Sequence[tf.Tensor], prefix: str = "") -> dict[str, tf.Tensor]:
        """Splits values, float32 [P] for each entry of `eta`, into one number, [], per metaparameter and head, by name.

        Raises:
            ValueError: there are not as many values as metaparameters.
        """
        heads = {name: tf.unstack(x) for name, x in zip(self.eta, values, strict=True)}
        return {f"{prefix}{name}_{i}": x for name, xs in heads.items() for i, x in enumerate(xs, start=1)}


class SelfTuningOutput(NamedTuple):
    """Results of `self_tuning_update`.

    inner, outer: inner loss before and outer loss after the update, float32 [].
    inner_extra, outer_extra: further results of the two losses.
    gradient_norm: global norm of the inner loss's gradient before clipping, float32 [].
    metagradient: gradient of the outer loss with respect to each metaparameter, in its shape, summed over replicas;
        zero where the gradient of the inner loss is exactly zero, as for a batch of boundary rows only.
    """

    inner: tf.Tensor
    outer: tf.Tensor
    inner_extra: Any
    outer_extra: Any
    gradient_norm: tf.Tensor
    metagradient: list[tf.Tensor]


def self_tuning_update(
    inner_loss: Callable[[], tuple[tf.Tensor, Any]],
    outer_loss: Callable[[Any], tuple[tf.Tensor, Any]],
    variables: Sequence[tf.Variable],
    eta: Sequence[tf.Variable],
    optimizer: RMSPropTF1,
    clip_global_norm: float,
) -> SelfTuningOutput:
    """Updates theta on the inner loss, and differentiates the outer loss at the new theta with respect to eta.

        g(eta)  = clip(grad_theta L_inner(theta; eta))                  line 11
        theta'  = theta - step(g(eta))                                  line 12
        grad_eta L_outer(theta'(eta)) = - (d step / d g  d g / d eta)^T  grad_theta' L_outer(theta')     lines 13, 14

    The gradient at theta' is an ordinary one, taken with the updated variables in place. One reverse pass over the
    computation of step(g(eta)) contracts it with the Jacobian: exactly, through RMSProp, its accumulators and the clip.
    The Jacobian is never formed, and no second copy of theta is kept.

    Args:
        inner_loss: function that reads `variables` and `eta`; returns this replica's part of a sum, [], and any further
            results.
        outer_loss: function that reads `variables` after the update; takes the inner loss's further results, as
            constants, and returns likewise. It depends on `eta` only through `variables`.
        variables: theta, updated in place.
        eta: metaparameters; not updated.
        optimizer: optimiser built for `variables`.
        clip_global_norm: bound on the global norm of the inner loss's gradient; 0 for none.

    Raises:
        ValueError: the inner loss does not depend on a variable.
    """
    with tf.GradientTape(watch_accessed_variables=False) as meta_tape:
        meta_tape.watch(eta)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            inner, inner_extra = inner_loss()
        gradients, norm = reduce_and_clip(tape.gradient(inner, variables), clip_global_norm)
        steps = optimizer.steps(gradients)
    optimizer.apply_gradients(zip(gradients, variables), skip_gradients_aggregation=True)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(variables)
        outer, outer_extra = outer_loss(inner_extra)
    cotangents = [-gradient for gradient in tape.gradient(outer, variables, unconnected_gradients="zero")]
    metagradient = meta_tape.gradient(steps, eta, cotangents, unconnected_gradients="zero")
    metagradient, _ = reduce_and_clip(metagradient)
    # A norm of zero has no derivative: that of the clip would be NaN.
    metagradient = [tf.where(tf.equal(norm, 0.0), 0.0, gradient) for gradient in metagradient]
    return SelfTuningOutput(inner, outer, inner_extra, outer_extra, norm, metagradient)
