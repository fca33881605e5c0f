"""Targets for state values and advantages for the policy gradient, from sequences made by another policy.

All methods are the same backward recursion; they differ in the three weights that `CORRECTED` lists.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from repro.ops import ranges, recursion, shapes
from repro.ops.constants import Scalar

CORRECTED = {
    #                               rho    c      pg_rho
    "vtrace":                       (True,  True,  True),
    "one_step_importance_sampling": (False, False, True),
    "no_correction":                (False, False, False),
}  # fmt: skip
"""Which weights a method corrects by importance sampling: those of temporal differences, traces and advantages.

A corrected weight is alpha min(clip, IS) + (1 - alpha) IS, an uncorrected one 1; c is then multiplied by lambda.
"""


class VTraceOutput(NamedTuple):
    """Results of every method of this module, each float32 [T, B, ...].

    targets: v_s, the target of V(x_s).
    pg_advantages: weighted advantages, the factors of grad log pi(a_s|x_s) in the policy gradient.
    rho_clipped: rho_s, the weight of the temporal difference.
    """

    targets: tf.Tensor
    pg_advantages: tf.Tensor
    rho_clipped: tf.Tensor


def vtrace(
    log_rho: tf.Tensor,
    discount_t: tf.Tensor,
    r_t: tf.Tensor,
    v_tm1: tf.Tensor,
    v_t: tf.Tensor,
    *,
    lambda_: Scalar = 1.0,
    clip_rho: Scalar | None = 1.0,
    clip_c: Scalar | None = 1.0,
    clip_pg_rho: Scalar | None = 1.0,
    alpha_rho: Scalar = 1.0,
    alpha_c: Scalar = 1.0,
    is_boundary: tf.Tensor | None = None,
) -> VTraceOutput:
    """V-trace (IMPALA, Eq. 1) and leaky V-trace (STAC, Eq. 5).

        v_s       = V(x_s) + sum_{t=s}^{s+n-1} gamma^{t-s} (prod_{i=s}^{t-1} c_i) delta_t
        delta_t   = rho_t (r_t + gamma V(x_{t+1}) - V(x_t))
        rho_t     = alpha_rho min(clip_rho, IS_t) + (1 - alpha_rho) IS_t,    IS_t = pi(a_t|x_t) / mu(a_t|x_t)
        c_t       = lambda (alpha_c min(clip_c, IS_t) + (1 - alpha_c) IS_t)
        advantage = pg_rho_s (r_s + gamma v_{s+1} - V(x_s))                  (IMPALA, Section 4.2)

    where pg_rho is rho with clip_pg_rho as its clip. The sum ends with the last row, or where the episode ends.
    Alphas of 1 give V-trace, of 0 importance sampling. The papers' r_s is `r_t[s]` here, their V(x_s) `v_tm1[s]`.
    Contraction (IMPALA, Theorem 1; STAC, Theorem 2) requires rho_t >= c_t: clip_rho >= clip_c and alpha_rho <= alpha_c;
    STAC prints the latter the other way round.

    Args:
        log_rho: log(pi(a_s|x_s) / mu(a_s|x_s)), float32 [T, B, ...].
        discount_t: gamma in [0, 1], and 0 where step s ended the episode, float32 [T, B, ...].
        r_t: reward received after a_s, float32 [T, B, ...].
        v_tm1: V(x_s), float32 [T, B, ...].
        v_t: V(x_{s+1}), the value of the state after step s, float32 [T, B, ...]; equals `v_tm1[s+1]` wherever
            row s+1 continues row s, and `v_t[T-1]` is the bootstrap value.
        lambda_: additional discount of the traces (IMPALA, Remark 2), in [0, 1].
        clip_rho, clip_c, clip_pg_rho: truncation levels, above 0; infinity or None: no truncation.
        alpha_rho, alpha_c: shares of the truncated weights, in [0, 1].
        is_boundary: bool [T, B, ...], true for rows that are no transition: their observation is the last of an
            episode, and the next row is the first of another. None: no such rows.

    The settings are scalars or, for data [T, B, ...], have the shape [...]: one value for each of several heads.

    Returns:
        `VTraceOutput`.

    Gradients: none to `log_rho`, `r_t`, `v_tm1` and `v_t`: importance weights, rewards and values are constants
        in every output. `discount_t` and the settings receive the exact gradient of every output, for metagradients;
        if these are constants, so are the outputs.

    Boundary: where `discount_t[s]` is 0, row s reads neither `v_t[s]` nor any later row, and `discount_t[s]`
        receives a gradient of 0. On a boundary row the target is `v_tm1[s]`, the advantage and rho are 0, and
        nothing but `v_tm1[s]` is read; the row before it bootstraps from its own `v_t`. Entries that are not
        read may be NaN.

    Raises:
        ValueError: wrong types, different shapes, a rank below 2, a setting of the wrong shape or outside its range, or
            a number of steps that is 0 or, when a graph is traced, unknown. Settings that are tensors are not compared
            with their ranges.
        tf.errors.InvalidArgumentError: different shapes, for dimensions known only when the graph runs.
    """
    return _targets(
        "vtrace", log_rho, discount_t, r_t, v_tm1, v_t, is_boundary,
        lambda_, (clip_rho, clip_c, clip_pg_rho), (alpha_rho, alpha_c),
    )  # fmt: skip


def one_step_importance_sampling(
    log_rho: tf.Tensor,
    discount_t: tf.Tensor,
    r_t: tf.Tensor,
    v_tm1: tf.Tensor,
    v_t: tf.Tensor,
    *,
    lambda_: Scalar = 1.0,
    clip_rho: Scalar | None = 1.0,
    clip_c: Scalar | None = 1.0,
    clip_pg_rho: Scalar | None = 1.0,
    alpha_rho: Scalar = 1.0,
    alpha_c: Scalar = 1.0,
    is_boundary: tf.Tensor | None = None,
) -> VTraceOutput:
    """1-step importance sampling (IMPALA, Section 5.2.2, item 3): uncorrected targets, weighted advantages.

        v_s       = sum_{t=s}^{s+n-1} gamma^{t-s} r_t + gamma^n V(x_{s+n})     (IMPALA, Eq. 2; lambda = 1)
        advantage = pg_rho_s (r_s + gamma v_{s+1} - V(x_s))

    with pg_rho as in `vtrace`. With lambda below 1, v_s is the lambda-return. rho_clipped is 1.
    Arguments, gradients, boundary and errors are those of `vtrace`, so that the two are interchangeable;
    `clip_rho`, `clip_c` and `alpha_c` belong to weights that are 1 here and have no effect.
    """
    return _targets(
        "one_step_importance_sampling", log_rho, discount_t, r_t, v_tm1, v_t, is_boundary,
        lambda_, (clip_rho, clip_c, clip_pg_rho), (alpha_rho, alpha_c),
    )  # fmt: skip


def no_correction(
    log_rho: tf.Tensor,
    discount_t: tf.Tensor,
    r_t: tf.Tensor,
    v_tm1: tf.Tensor,
    v_t: tf.Tensor,
    *,
    lambda_: Scalar = 1.0,
    clip_rho: Scalar | None = 1.0,
    clip_c: Scalar | None = 1.0,
    clip_pg_rho: Scalar | None = 1.0,
    alpha_rho: Scalar = 1.0,
    alpha_c: Scalar = 1.0,
    is_boundary: tf.Tensor | None = None,
) -> VTraceOutput:
    """No correction (IMPALA, Section 5.2.2, item 1): the n-step return and its advantage.

        v_s       = sum_{t=s}^{s+n-1} gamma^{t-s} r_t + gamma^n V(x_{s+n})     (IMPALA, Eq. 2; lambda = 1)
        advantage = r_s + gamma v_{s+1} - V(x_s)

    The epsilon-correction (item 2) has the same targets: it changes only log pi in the policy gradient. With lambda
    below 1, v_s is the lambda-return. rho_clipped is 1.
    Arguments, gradients, boundary and errors are those of `vtrace`, so that the two are interchangeable; the
    values of `log_rho`, the clips and the alphas have no effect.
    """
    return _targets(
        "no_correction", log_rho, discount_t, r_t, v_tm1, v_t, is_boundary,
        lambda_, (clip_rho, clip_c, clip_pg_rho), (alpha_rho, alpha_c),
    )  # fmt: skip


def _targets(
    operator: str,
    log_rho: tf.Tensor,
    discount_t: tf.Tensor,
    r_t: tf.Tensor,
    v_tm1: tf.Tensor,
    v_t: tf.Tensor,
    is_boundary: tf.Tensor | None,
    lambda_: Scalar,
    clips: tuple[Scalar | None, Scalar | None, Scalar | None],
    alphas: tuple[Scalar, Scalar],
) -> VTraceOutput:
    """Computes every method: `vtrace` with those weights corrected that `CORRECTED` lists for `operator`.

    `clips` are in the order of that table; `alphas` are alpha_rho, which pg_rho shares, and alpha_c.
    """
    named_clips = dict(zip(("clip_rho", "clip_c", "clip_pg_rho"), clips))
    ranges.assert_in(operator, "[0, 1]", lambda_=lambda_, alpha_rho=alphas[0], alpha_c=alphas[1])
    ranges.assert_in(operator, "(0, inf]", **named_clips)
    data = {"log_rho": log_rho, "discount_t": discount_t, "r_t": r_t, "v_tm1": v_tm1, "v_t": v_t}
    data = shapes.convert(operator, **data)
    log_rho, discount_t, r_t, v_tm1, v_t = data.values()  # [T, B, ...], like everything below
    boundary = shapes.convert_boundary(operator, is_boundary, r_t)
    lambda_, alpha_rho, alpha_c = shapes.convert(
        operator, lambda_=lambda_, alpha_rho=alphas[0], alpha_c=alphas[1]
    ).values()
    shapes.assert_rank_at_least(operator, 2, **data)
    levels = shapes.convert(operator, **{name: x for name, x in named_clips.items() if tf.is_tensor(x)})
    shapes.assert_scalar(
        operator, or_shape=r_t.shape[2:], lambda_=lambda_, alpha_rho=alpha_rho, alpha_c=alpha_c, **levels
    )
    shapes.assert_same_shape(operator, **data, is_boundary=boundary)
    shapes.assert_steps(operator, r_t=r_t)

    # Entries that must not be read are replaced before any arithmetic: they affect neither values nor gradients.
    discount_t = tf.where(boundary, 0.0, discount_t)
    goes_on = tf.not_equal(discount_t, 0.0)
    next_v = tf.where(goes_on, tf.stop_gradient(v_t), 0.0)
    v, r_t, log_rho = (tf.where(boundary, 0.0, tf.stop_gradient(x)) for x in (v_tm1, r_t, log_rho))

    rho, c, pg_rho = (
        _leaky(tf.exp(log_rho), clip, alpha) if corrected else tf.ones_like(r_t)
        for corrected, clip, alpha in zip(CORRECTED[operator], clips, (alpha_rho, alpha_c, alpha_rho))
    )
    delta = rho * (r_t + discount_t * next_v - v)
    e, next_e = recursion.backward_recursion(delta, discount_t * lambda_ * c, goes_on)  # e_s = v_s - V(x_s)
    advantages = pg_rho * (r_t + discount_t * (next_v + next_e) - v)
    return VTraceOutput(tf.stop_gradient(v_tm1) + e, advantages, tf.where(boundary, 0.0, rho))


def _leaky(importance: tf.Tensor, clip: Scalar | None, alpha: tf.Tensor) -> tf.Tensor:
    """alpha min(clip, IS) + (1 - alpha) IS; at alpha = 1 exactly min(clip, IS), even where IS is infinite."""
    if clip is None:
        return importance
    return alpha * tf.minimum(clip, importance) + tf.math.multiply_no_nan(importance, 1.0 - alpha)
