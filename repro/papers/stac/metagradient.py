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
"""Metaparameters, and the fields of `Hyperparameters` that each is the value of."""

SCALED = ("truncation", "g_v", "g_p", "g_e")
"""Those that are multiplied by their value in the outer loss."""


class Metaparameters(tf.Module):
    """eta of every head, and zeta(eta).

    Args:
        tuned: names in `SETS`; fields that none of them sets keep their value in the outer loss (Section 4.1).
        outer: hyper-parameters of the outer loss, floats.
        num_heads: P.
        initial: eta at the start, before the sigmoid, by name.
        fixed: hyper-parameters, floats, of further heads behind these, of which none is tuned.

    Attributes:
        eta: by name, float32 [P].

    Raises:
        ValueError: an unknown name, or two that set the same field.
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
            raise ValueError(f"meta.tuned={tuple(tuned)}: choose from {', '.join(SETS)}, each field once.")
        self._outer = outer
        self._num_heads = num_heads
        self._fixed = list(fixed)
        self.eta = {name: tf.Variable(tf.fill([num_heads], initial[name]), name=name) for name in tuned}

    def hyperparameters(self) -> Hyperparameters:
        """zeta(eta) of the inner loss, float32 [P] each: sigma(eta), times the outer value for `SCALED` (line 10)."""
        zeta = {field: tf.fill([self._num_heads], value) for field, value in self._outer._asdict().items()}
        for name, eta in self.eta.items():
            for field in SETS[name]:
                zeta[field] = tf.sigmoid(eta) * (zeta[field] if name in SCALED else 1.0)
        fixed = {field: [getattr(head, field) for head in self._fixed] for field in zeta}
        return Hyperparameters(**{field: tf.concat([x, fixed[field]], axis=0) for field, x in zeta.items()})

    def scalars(self) -> dict[str, tf.Tensor]:
        """sigma(eta) of every head, without the outer value, as Figure 5 shows it: `gamma_1` is of the first head."""
        return self.by_head([tf.sigmoid(eta) for eta in self.eta.values()])

    def by_head(self, values: Sequence[tf.Tensor], prefix: str = "") -> dict[str, tf.Tensor]:
        """One number, [], for each metaparameter and head by name, of float32 [P] for each entry of `eta`."""
        heads = {name: tf.unstack(x) for name, x in zip(self.eta, values, strict=True)}
        return {f"{prefix}{name}_{i}": x for name, xs in heads.items() for i, x in enumerate(xs, start=1)}


class SelfTuningOutput(NamedTuple):
    """What `self_tuning_update` returns.

    inner, outer: losses before and after the update, float32 [].
    inner_extra, outer_extra: what they gave besides.
    gradient_norm: of the inner loss before the clip, float32 [].
    metagradient: of the outer loss, of the shape of each metaparameter, the sum over replicas; zero where the gradient
        of the inner loss is exactly zero, as in a batch of boundary rows alone.
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
    """Updates theta on the inner loss, and differentiates the outer loss of the result with respect to eta.

        g(eta)  = clip(grad_theta L_inner(theta; eta))                  line 11
        theta'  = theta - step(g(eta))                                  line 12
        grad_eta L_outer(theta'(eta)) = - (d step / d g  d g / d eta)^T  grad_theta' L_outer(theta')     lines 13, 14

    The gradient at theta' is an ordinary one, taken with the updated variables in place. One reverse pass over the
    computation of step(g(eta)) contracts it with the Jacobian: exactly, through RMSProp, its accumulators and the clip.
    No Jacobian is formed, and theta is not kept twice.

    Args:
        inner_loss: reads `variables` and `eta`; returns this replica's part of a sum, [], and anything else.
        outer_loss: reads `variables`, after the update; gets what else the inner loss returned, as constants, and
            returns likewise. It depends on `eta` through `variables` alone.
        variables: theta, updated in place.
        eta: metaparameters; not updated.
        optimizer: built for `variables`.
        clip_global_norm: bound on the gradient of the inner loss; 0 for none.

    Raises:
        ValueError: a variable does not reach the inner loss.
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
    # A norm of zero has no derivative: the clip's would be NaN.
    metagradient = [tf.where(tf.equal(norm, 0.0), 0.0, gradient) for gradient in metagradient]
    return SelfTuningOutput(inner, outer, inner_extra, outer_extra, norm, metagradient)
