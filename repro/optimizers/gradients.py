"""The way from losses to the optimiser: the mean over replicas, the sum of their gradients, the clip."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import tensorflow as tf

_NO_CLIP = 2.0**100
"""Bound on the gradient's norm that nothing of use reaches; a power of two, so that it scales by exactly 1."""


def mean_over_replicas(losses: tf.Tensor, weights: tf.Tensor | None = None) -> tf.Tensor:
    """Returns this replica's part of the mean of the losses of all replicas, whose batches are of equal size.

        1 / (B replicas) sum_b w_b loss_b

    Args:
        losses: of each sequence of this replica, float32 [B].
        weights: w, float32 [B]; None: all are 1.

    Returns:
        float32 []; the sum over the replicas is the mean.
    """
    total = tf.cast(tf.shape(losses)[0] * tf.distribute.get_strategy().num_replicas_in_sync, tf.float32)
    return tf.reduce_sum(losses if weights is None else weights * losses) / total


def masked_means_over_replicas(named: Mapping[str, tf.Tensor], mask: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns this replica's numbers, whose mean over the replicas is that of all their entries where mask is true.

        replicas sum_i mask_i x_i / sum_replica sum_i mask_i,    0 where no mask_i is true

    Args:
        named: float32 of the shape of `mask`, by name. What is masked is not read and may be NaN.
        mask: bool, of any shape.

    Returns:
        float32 [], by the same names.
    """
    count = tf.reduce_sum(tf.cast(mask, tf.float32))
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync > 1:
        count = context.all_reduce(tf.distribute.ReduceOp.MEAN, count)
    return {name: tf.math.divide_no_nan(tf.reduce_sum(tf.where(mask, x, 0.0)), count) for name, x in named.items()}


Result = TypeVar("Result")


def at_values(variables: Sequence[tf.Variable], values: Sequence[tf.Tensor], compute: Callable[[], Result]) -> Result:
    """Returns what `compute` returns while some variables have other values, such as the gradient of A3C's worker.

    Args:
        variables: that are set back afterwards.
        values: one for each.
        compute: called once.

    Raises:
        ValueError: there are not as many values as variables.
    """
    present = [variable.read_value() for variable in variables]
    _assign(variables, values)
    result = compute()
    _assign(variables, present)
    return result


def _assign(variables: Sequence[tf.Variable], values: Sequence[tf.Tensor]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def reduce_and_clip(gradients: Sequence[tf.Tensor], clip_global_norm: float = 0.0) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Sums gradients over replicas, then clips the sum by its global norm.

        G = sum_replica g,    g' = G min(1, clip_global_norm / ||G||),    ||G||^2 = sum_i ||G_i||^2

    Losses are sums over the global batch, so the sum over replicas is the gradient of the whole batch; to
    clip each replica's part first would bound another quantity. Apply the result with
    `optimizer.apply_gradients(..., skip_gradients_aggregation=True)`: Keras would otherwise sum it again.

    Args:
        gradients: one float tensor for each variable, this replica's part of the sum.
        clip_global_norm: bound on ||G||, finite; 0 for none.

    Returns:
        the clipped gradients, equal on all replicas, and ||G|| before the clip, float32 [].

    Without replicas (no strategy, or one device) the sum is the gradient itself. A norm that is NaN or
    infinite makes every returned gradient NaN.

    Raises:
        ValueError: when a gradient is None, that is, a variable does not reach the loss; when the bound is
            negative, infinite or NaN.
        RuntimeError: when called in a cross-replica context.
    """
    if not 0.0 <= clip_global_norm < float("inf"):
        raise ValueError(
            f"reduce_and_clip: clip_global_norm must be positive and finite, or 0 for none, not {clip_global_norm}."
        )
    missing = [index for index, gradient in enumerate(gradients) if gradient is None]
    if missing:
        raise ValueError(f"reduce_and_clip: no gradient for the variables at positions {missing}.")
    context = tf.distribute.get_replica_context()
    if context is None:
        raise RuntimeError("reduce_and_clip: call it inside strategy.run, where each replica has a gradient.")
    gradients = list(gradients)
    if context.num_replicas_in_sync > 1:
        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
    return tf.clip_by_global_norm(gradients, clip_global_norm or _NO_CLIP)
