"""Means of losses over replicas, the sum of their gradients, and clipping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import tensorflow as tf

_NO_CLIP = 2.0**100
"""Bound on the gradient's norm that no useful gradient reaches; a power of two, so that it scales by exactly 1."""


def mean_over_replicas(losses: tf.Tensor, weights: tf.Tensor | None = None) -> tf.Tensor:
    """Returns this replica's part of the mean loss over all replicas, whose batches have equal sizes.

        1 / (B replicas) sum_b w_b loss_b

    Args:
        losses: loss of each sequence of this replica, float32 [B].
        weights: w, float32 [B]; None: all are 1.

    Returns:
        float32 []; its sum over the replicas is the mean.
    """
    total = tf.cast(tf.shape(losses)[0] * tf.distribute.get_strategy().num_replicas_in_sync, tf.float32)
    return tf.reduce_sum(losses if weights is None else weights * losses) / total


def masked_means_over_replicas(named: Mapping[str, tf.Tensor], mask: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns numbers whose mean over the replicas is the mean of all replicas' entries where the mask is true.

        replicas sum_i mask_i x_i / sum_replica sum_i mask_i,    0 where no mask_i is true

    Args:
        named: float32 tensors in the shape of `mask`, by name. Entries where it is false are not read and may be NaN.
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
    """Returns the result of `compute` with other values in some variables, as for the gradient of an A3C worker.

    Args:
        variables: variables to set before the call and to restore after it.
        values: their values during the call, one per variable.
        compute: function of no arguments, called once.

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

    A replica's loss is its part of the whole batch's sum or mean, so the sum over replicas is the gradient of the whole
    batch; clipping each replica's part first would bound another quantity. Apply the result with
    `optimizer.apply_gradients(..., skip_gradients_aggregation=True)`: Keras would otherwise sum it again.

    Args:
        gradients: this replica's part of the sum, one float tensor per variable.
        clip_global_norm: bound on ||G||, finite; 0 for none.

    Returns:
        The clipped gradients, equal on all replicas, and ||G|| before clipping, float32 [].

    Without replicas (no strategy, or one device) the sum is the gradient itself. A norm that is NaN or
    infinite makes every returned gradient NaN.

    Raises:
        ValueError: a gradient is None, that is, the loss does not depend on a variable; or the bound is negative,
            infinite or NaN.
        RuntimeError: called in a cross-replica context.
    """
    if not 0.0 <= clip_global_norm < float("inf"):
        raise ValueError(
            f"reduce_and_clip: clip_global_norm must be positive and finite, or 0 for none, got {clip_global_norm}."
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
