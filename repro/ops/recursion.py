"""The backward recursion behind the targets of state values and action values and behind trace lengths."""

from __future__ import annotations

import tensorflow as tf


def later(x: tf.Tensor, steps: int) -> tf.Tensor:
    """Returns `x` [T, ...] shifted so that row s holds row s + steps; 0 or false past the end."""
    return tf.concat([x[steps:], tf.zeros_like(x[:steps])], axis=0)


def backward_recursion(delta: tf.Tensor, decay: tf.Tensor, goes_on: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes e_s = delta_s + decay_s e_{s+1}, with e_{s+1} = 0 after the last row and where `goes_on` is false.

    The recursion composes maps x -> delta + decay x, so it is evaluated by doubling: when a round begins, the
    map of row s covers rows s to s + span - 1. That is log2(T) operations on whole tensors in place of T on rows.

    Args:
        delta: float32 [T, ...], T known when a graph is traced.
        decay: float32 [T, ...]; not read in the last row and where `goes_on` is false.
        goes_on: bool [T, ...], whether row s continues with row s + 1.

    Returns:
        e_s, and e_{s+1} as row s reads it, each float32 [T, ...].

    Gradients: exact to `delta` and `decay`; 0 to entries that are not read.
    """
    reads_next = goes_on & later(tf.ones_like(goes_on), 1)
    e, decay, covered, span = delta, tf.where(reads_next, decay, 0.0), reads_next, 1
    while span < delta.shape[0]:
        e += decay * tf.where(covered, later(e, span), 0.0)
        decay = tf.where(covered, decay * later(decay, span), 0.0)
        covered &= later(covered, span)
        span *= 2
    return e, tf.where(reads_next, later(e, 1), 0.0)
