"""The two rules of ReF-ER (Section 3), applied to any loss, and the annealing of their parameters.

The paper's Eq. (10) is g <- beta g - (1 - beta) grad KL with g a direction of ascent. Here losses are minimised, so
the gradient is beta grad L + (1 - beta) grad KL: the penalty pulls pi towards mu.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from repro.ops import ranges, shapes
from repro.ops.constants import Scalar

RULES = {
    #          rule 1  rule 2
    "refer":   (True,  True),
    "refer_1": (True,  False),
    "refer_2": (False, True),
    "none":    (False, False),
}  # fmt: skip
"""Rules that each variant applies: Rule 1 skips far-policy samples, Rule 2 penalises KL(mu || pi) (Section 5)."""

REFER_2_CLIP = 1e3
"""Largest importance weight under ReF-ER-2 (Section 5.3)."""

LARGEST_LOG_RATIO = 27.0
"""Largest bound that `importance_ratio` accepts: squared weights, which Eq. (23) has, stay finite in float32. For a
skipped sample, whose gradient is multiplied by 0, an infinite weight would give NaN."""


class ReferLoss(NamedTuple):
    """Results of `refer_loss`, each [B].

    total: the loss to minimise, `task` + `penalty`.
    task: the task's loss, beta L (L without Rule 2), or 0 where Rule 1 skips the sample.
    penalty: the penalty of Rule 2, (1 - beta) KL(mu || pi); 0 without that rule.
    near: whether the sample is near-policy, bool.
    """

    total: tf.Tensor
    task: tf.Tensor
    penalty: tf.Tensor
    near: tf.Tensor


def near_policy(rho: tf.Tensor, c_max: Scalar) -> tf.Tensor:
    """Returns whether samples are near-policy, 1 / c_max < rho < c_max (Section 3); both bounds are far-policy.

    Args:
        rho: importance ratios pi(a|s) / mu(a|s), any shape.
        c_max: above 1; infinity if no sample is to be far-policy.

    Returns:
        bool, in the shape of `rho`; a ratio that is infinite or NaN is far-policy.

    Raises:
        ValueError: `c_max` is a number outside its range.
    """
    ranges.assert_in("near_policy", "(1, inf]", c_max=c_max)
    return (rho > 1.0 / c_max) & (rho < c_max)


def importance_ratio(log_rho: tf.Tensor, max_log_ratio: float) -> tf.Tensor:
    """The ratio rho of a sample, with its logarithm clipped on both sides: exp(clip(log_rho, -b, b)).

    The paper's weights are unbounded except under ReF-ER-2 (Section 5.3). b = 27 is as near to that as float32 allows;
    the authors' released code has b = 7 since 2019, so rho from 9.1e-4 to 1097 for all rules, and no bound before.

    Args:
        log_rho: log pi(a|s) - log mu(a|s), any shape.
        max_log_ratio: b, above 0 and at most `LARGEST_LOG_RATIO`.

    Returns:
        Ratios above 0 and finite, in the shape of `log_rho`, without gradient.

    Raises:
        ValueError: the bound is outside its range.
    """
    ranges.assert_in("importance_ratio", f"(0, {LARGEST_LOG_RATIO:g}]", max_log_ratio=max_log_ratio)
    return tf.stop_gradient(tf.exp(tf.clip_by_value(log_rho, -max_log_ratio, max_log_ratio)))


def importance_weight(rho: tf.Tensor, rule: str) -> tf.Tensor:
    """Importance weight of a sample's losses: rho, clipped at `REFER_2_CLIP` under ReF-ER-2 (Section 5.3).

    Args:
        rho: ratios from `importance_ratio`, any shape.
        rule: one of `RULES`.

    Returns:
        Weights in the shape of `rho`, without gradient.

    Raises:
        ValueError: the rule is unknown.
    """
    uses_rule_1, uses_rule_2 = _find_rule("importance_weight", rule)
    return tf.stop_gradient(tf.minimum(rho, REFER_2_CLIP) if uses_rule_2 and not uses_rule_1 else rho)


def rule_1(loss: tf.Tensor, rho: tf.Tensor, c_max: Scalar, rule: str) -> tf.Tensor:
    """Returns the loss with 0 for the samples that Rule 1 skips.

    It is for losses of networks without a policy, such as DDPG's critic, to which neither beta nor the penalty applies
    (Algorithm 4).

    Args:
        loss: [B], finite.
        rho: importance ratios, [B]; no gradient.
        c_max: above 1, scalar.
        rule: one of `RULES`; without Rule 1 the loss is returned unchanged.

    Returns:
        [B].

    Gradients: 0 for skipped samples, unchanged for all others.

    Raises:
        ValueError: a loss that is not floating, types or shapes that differ, a `c_max` that is a number outside its
            range, or an unknown rule.
    """
    ranges.assert_in("rule_1", "(1, inf]", c_max=c_max)
    loss, rho = _convert("rule_1", loss=loss, rho=rho)
    shapes.assert_rank_at_least("rule_1", 1, loss=loss)
    shapes.assert_same_shape("rule_1", loss=loss, rho=rho)
    uses_rule_1, _ = _find_rule("rule_1", rule)
    return tf.where(near_policy(rho, c_max), loss, tf.zeros_like(loss)) if uses_rule_1 else loss


def refer_loss(
    loss: tf.Tensor,
    kl: tf.Tensor,
    rho: tf.Tensor,
    beta: Scalar,
    c_max: Scalar,
    rule: str,
) -> ReferLoss:
    """Applies ReF-ER to any loss L (Eqs. 10 and 11).

        refer:    beta L 1[near] + (1 - beta) KL(mu || pi)
        refer_1:  L 1[near]
        refer_2:  beta L + (1 - beta) KL(mu || pi)              (with weights from `importance_weight`)
        none:     L

    The indicator, 1 where 1 / c_max < rho < c_max, multiplies the whole loss of a sample, of the value as well as of
    the policy (Section 4), but never the divergence, which far-policy samples need most. Eqs. (10) and (11) are means
    over the batch, which the caller takes.

    Args:
        loss: L of each sample, [B], finite.
        kl: KL(mu || pi) of each sample, with mu the stored behaviour, [B].
        rho: importance ratios, [B]; no gradient.
        beta: in [0, 1], scalar; not read by refer_1 and none.
        c_max: above 1, scalar; read by all variants, for `near`.
        rule: one of `RULES`.

    Returns:
        `ReferLoss`.

    Gradients: to `loss` and `kl` as above, none to `rho`, `beta` and `c_max`.

    Raises:
        ValueError: a loss that is not floating, types or shapes that differ, a `beta` or `c_max` that is not a scalar
            or is a number outside its range, or an unknown rule.
    """
    ranges.assert_in("refer_loss", "[0, 1]", beta=beta)
    ranges.assert_in("refer_loss", "(1, inf]", c_max=c_max)
    loss, kl, rho = _convert("refer_loss", loss=loss, kl=kl, rho=rho)
    shapes.assert_rank_at_least("refer_loss", 1, loss=loss)
    shapes.assert_same_shape("refer_loss", loss=loss, kl=kl, rho=rho)
    beta, c_max = (tf.stop_gradient(tf.cast(x, loss.dtype)) for x in (beta, c_max))
    shapes.assert_scalar("refer_loss", beta=beta, c_max=c_max)
    _, uses_rule_2 = _find_rule("refer_loss", rule)
    task, penalty = rule_1(loss, rho, c_max, rule), tf.zeros_like(kl)
    if uses_rule_2:
        task, penalty = beta * task, (1.0 - beta) * kl
    return ReferLoss(task + penalty, task, penalty, near_policy(rho, c_max))


def _find_rule(function: str, rule: str) -> tuple[bool, bool]:
    """Returns which of the two rules a variant applies."""
    ranges.assert_one_of(function, RULES, rule=rule)
    return RULES[rule]


def _convert(function: str, loss: tf.Tensor, **others: Any) -> list[tf.Tensor]:
    """Returns the loss, and the others as tensors of its floating type."""
    loss = tf.convert_to_tensor(loss)
    if not loss.dtype.is_floating:
        raise ValueError(f"{function}: loss must be floating, got {loss.dtype.name}")
    return [loss, *shapes.convert(function, loss.dtype, **others).values()]


def annealed_c_max(step: float, c: float, annealing: float) -> float:
    """c_max(t) = 1 + C / (1 + A t) (Eq. 13). The arguments are not checked here, but once before the run.

    Args:
        step: t, number of environment steps, at least 0.
        c: C, above 0 (4 in the paper).
        annealing: A per environment step, at least 0 (5e-7 in the paper).
    """
    return 1.0 + c / (1.0 + annealing * step)


def annealed_learning_rate(step: float, learning_rate: float, annealing: float) -> float:
    """eta(t) = eta / (1 + A t) (Eq. 13). Arguments as for `annealed_c_max`; `learning_rate` is the initial eta."""
    return learning_rate / (1.0 + annealing * step)
