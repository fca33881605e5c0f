"""The losses of V-RACER, DDPG and NAF (Section 2) under ReF-ER's rules (Section 3, Appendix C).

All losses are [B], one number per sample; the paper's are their means over the batch, which the agents take.
rho_k is pi(a_k|s_k) / mu_k(a_k|s_k) for the stored action, with the stored mean and std of mu_k.
The paper's r_{k+1} is the reward of action a_k; `discount` is gamma, or 0 where s_{k+1} is terminal.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from repro.distributions import gaussian
from repro.ops import ranges, shapes
from repro.papers.refer import refer_rules
from repro.papers.refer.advantages import LowerTriangular, advantage
from repro.papers.refer.refer_rules import Scalar


class Policies(NamedTuple):
    """The policy pi and the stored behaviour mu at the steps of a batch.

    mean: mean of pi, [B, A]; receives the gradient.
    std: std of pi, [B, A] or [A]; receives the gradient.
    behaviour_mean: mean of mu, [B, A].
    behaviour_std: std of mu, [B, A] or [A].
    """

    mean: tf.Tensor
    std: tf.Tensor
    behaviour_mean: tf.Tensor
    behaviour_std: tf.Tensor


VALUE_TARGETS = ("current", "stored")
"""Whether the target V_tbc_k uses V(s_k) and rho_k of the current network or the stored ones, see `value_target`."""


class Variant(NamedTuple):
    """Settings of `vracer_loss`.

    rule: one of `refer_rules.RULES`.
    form: form of the action advantage, one of `advantages.FORMS`.
    max_log_ratio: bound on |log rho|, see `refer_rules.importance_ratio`.
    value_target: one of `VALUE_TARGETS`.
    """

    rule: str
    form: str
    max_log_ratio: float
    value_target: str


class VRacerLoss(NamedTuple):
    """Results of `vracer_loss`, each [B].

    total: loss under ReF-ER's rules, to be minimised.
    policy, value, advantage: losses of Eqs. (5), (9) and (23), before the rules.
    rho: ratios, to be stored.
    action_advantage: A(s_k, a_k), to be stored; 0 if none is fitted.
    extras: `kl`, `near` and `td_error` (V - V_tbc of Eq. 9).
    """

    total: tf.Tensor
    policy: tf.Tensor
    value: tf.Tensor
    advantage: tf.Tensor
    rho: tf.Tensor
    action_advantage: tf.Tensor
    extras: dict[str, tf.Tensor]


class DdpgLoss(NamedTuple):
    """Results of `ddpg_loss`, each [B].

    policy: loss of the policy network, under both rules.
    critic: loss of the value network, only under Rule 1.
    rho: ratios, to be stored.
    extras: `kl`, `near` and `td_error`.
    """

    policy: tf.Tensor
    critic: tf.Tensor
    rho: tf.Tensor
    extras: dict[str, tf.Tensor]


class NafLoss(NamedTuple):
    """Results of `naf_loss`, each [B].

    total: loss under both rules, to be minimised.
    rho: ratios, to be stored.
    extras: `kl`, `near` and `td_error`.
    """

    total: tf.Tensor
    rho: tf.Tensor
    extras: dict[str, tf.Tensor]


def off_policy_gradient_loss(log_pi: tf.Tensor, rho: tf.Tensor, q_ret: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """A surrogate with the gradient of the off-policy objective, L = - rho_k (Q_ret_k - V(s_k)) (Eq. 5).

        grad L = - (Q_ret_k - V(s_k)) grad rho_k = - rho_k (Q_ret_k - V(s_k)) grad log pi(a_k|s_k)

    Args:
        log_pi: log pi(a_k|s_k), [B]; receives the gradient.
        rho: weights rho_k, clipped if the rule requires it, [B]; no gradient.
        q_ret: r_{k+1} + gamma V_tbc_{k+1}, [B]; no gradient.
        v: V(s_k), [B]; no gradient.

    Returns:
        - rho (q_ret - v) log_pi, [B]; it has the gradient of L, but not its value.

    Raises:
        ValueError: the shapes differ.
    """
    log_pi, rho, q_ret, v = _alike("off_policy_gradient_loss", log_pi=log_pi, rho=rho, q_ret=q_ret, v=v)
    return -tf.stop_gradient(rho * (q_ret - v)) * log_pi


def value_loss(v: tf.Tensor, v_tbc: tf.Tensor) -> tf.Tensor:
    """L = 1/2 (V(s_k) - V_tbc_k)^2 (Eq. 9), [B]; gradient to `v`, none to the target `v_tbc`, both [B].

    Raises:
        ValueError: the shapes differ.
    """
    v, v_tbc = _alike("value_loss", v=v, v_tbc=v_tbc)
    return 0.5 * tf.square(v - tf.stop_gradient(v_tbc))


def value_target(
    v: tf.Tensor, rho: tf.Tensor, action_advantage: tf.Tensor, q_ret: tf.Tensor, v_tbc: tf.Tensor, kind: str
) -> tf.Tensor:
    """Returns the target V_tbc_k of Eq. (9).

        current: V(s_k) + min(1, rho_k) (Q_ret_k - V(s_k) - A(s_k, a_k))    (Eq. 7), with the current network
        stored:  the value in the memory when the step is sampled, Eq. (7) with the network that last sampled the step

    Q_ret_k is the stored one in both. By Section 2 and Algorithm 3, the stored V_tbc_k enters the gradient; every
    version of the authors' released code has the first form. They differ most for far-policy samples: with rho near 0
    the first does not change V(s_k), while the second pulls it back to its earlier value.

    Args:
        v, rho, action_advantage: V(s_k), rho_k and A(s_k, a_k) of the current network, [B].
        q_ret, v_tbc: stored Q_ret_k and V_tbc_k, [B].
        kind: one of `VALUE_TARGETS`.

    Returns:
        [B], without gradient.

    Raises:
        ValueError: the shapes differ, or the kind is unknown.
    """
    tensors = {"v": v, "rho": rho, "action_advantage": action_advantage, "q_ret": q_ret, "v_tbc": v_tbc}
    v, rho, action_advantage, q_ret, v_tbc = _alike("value_target", **tensors)
    ranges.assert_one_of("value_target", VALUE_TARGETS, kind=kind)
    if kind == "stored":
        return tf.stop_gradient(v_tbc)
    return tf.stop_gradient(v + tf.minimum(rho, 1.0) * (q_ret - v - action_advantage))


def advantage_loss(action_advantage: tf.Tensor, rho: tf.Tensor, v: tf.Tensor, q_ret: tf.Tensor) -> tf.Tensor:
    """L = 1/2 [rho_k (A(s_k, a_k) + V(s_k) - Q_ret_k)]^2 (Eq. 23), all [B]; gradient only to the advantage.

    Raises:
        ValueError: the shapes differ.
    """
    action_advantage, *constants = _alike(
        "advantage_loss", action_advantage=action_advantage, rho=rho, v=v, q_ret=q_ret
    )
    rho, v, q_ret = (tf.stop_gradient(x) for x in constants)
    return 0.5 * tf.square(rho * (action_advantage + v - q_ret))


def vracer_loss(
    action: tf.Tensor,
    policies: Policies,
    v: tf.Tensor,
    coefficients: tf.Tensor,
    q_ret: tf.Tensor,
    v_tbc: tf.Tensor,
    beta: Scalar,
    c_max: Scalar,
    variant: Variant,
) -> VRacerLoss:
    """Computes V-RACER's loss (Algorithm 3), Eqs. (5) + (9) and, with an advantage, + (23), under ReF-ER (Eq. 10).

    If an advantage is fitted, Q(s, a) is V(s) + A(s, a) and not V(s) (Appendix E). It enters the estimates of returns,
    Eqs. (6) and (7), and so V_tbc and, through V_tbc of the next step, Q_ret. Eq. (5) still has V(s_k) without it.

    One network computes V, the policy and the coefficients. So Rule 1 skips the whole loss of a far-policy sample, beta
    scales the whole loss, and the penalty acts on the policy's outputs.

    Args:
        action: a_k as it was sampled, in the learner's units, [B, A].
        policies: pi(.|s_k) and the stored mu_k.
        v: V(s_k), [B]; receives only the gradient of Eq. (9).
        coefficients: coefficients of the advantage, [B, num_coefficients]; receive only the gradient of Eq. (23).
        q_ret: r_{k+1} + gamma V_tbc_{k+1} from the stored estimates, [B]; no gradient.
        v_tbc: the stored V_tbc_k (Eq. 7), [B]; no gradient.
        beta: in [0, 1], scalar.
        c_max: above 1, scalar.
        variant: see `Variant`.

    Raises:
        ValueError: wrong shapes, an unknown rule or value target, or a beta, c_max or bound on ratios outside its
            range.
        KeyError: the form is unknown.
    """
    log_rho = gaussian.log_ratio(*policies, action)
    rho = refer_rules.importance_ratio(log_rho, variant.max_log_ratio)
    weight = refer_rules.importance_weight(rho, variant.rule)
    kl = gaussian.kl(policies.behaviour_mean, policies.behaviour_std, policies.mean, policies.std)
    action_advantage = advantage(variant.form, coefficients, action, policies.mean, policies.std)

    policy = off_policy_gradient_loss(gaussian.log_prob(policies.mean, policies.std, action), weight, q_ret, v)
    target = value_target(v, rho, action_advantage, q_ret, v_tbc, variant.value_target)
    value = value_loss(v, target)
    fitted = advantage_loss(action_advantage, weight, v, q_ret) if variant.form != "none" else tf.zeros_like(v)
    total, _, _, near = refer_rules.refer_loss(policy + value + fitted, kl, rho, beta, c_max, variant.rule)
    extras = {"kl": kl, "near": near, "td_error": v - target}
    return VRacerLoss(total, policy, value, fitted, rho, action_advantage, extras)


def ddpg_loss(
    action: tf.Tensor,
    policies: Policies,
    q: tf.Tensor,
    q_of_mean: tf.Tensor,
    r: tf.Tensor,
    discount: tf.Tensor,
    target_q_next: tf.Tensor,
    beta: Scalar,
    c_max: Scalar,
    rule: str,
) -> DdpgLoss:
    """Computes DDPG's two losses (Eqs. 2 and 3) under ReF-ER (Algorithm 4).

        critic: 1/2 (Q(s_k, a_k) - r_{k+1} - gamma Q'(s_{k+1}, m'(s_{k+1})))^2    skipped by Rule 1, no beta
        policy: - Q(s_k, m(s_k))                                                under Eq. (10)

    with Q' and m' the target networks, and pi the normal around m with a fixed std.

    Args:
        action: a_k, [B, A].
        policies: pi with mean m(s_k) and the std of the noise, and the stored mu_k.
        q: Q(s_k, a_k), [B]; receives the gradient of the critic's loss.
        q_of_mean: Q(s_k, m(s_k)), [B]; receives the gradient of the policy's loss, which the caller takes only with
            respect to the weights of the policy network.
        r: r_{k+1}, [B].
        discount: gamma, or 0 where s_{k+1} is terminal, [B].
        target_q_next: Q'(s_{k+1}, m'(s_{k+1})), [B]; no gradient; not read where `discount` is 0.
        beta: in [0, 1], scalar.
        c_max: above 1, scalar.
        rule: one of `refer_rules.RULES`.

    Raises:
        ValueError: wrong shapes, an unknown rule, or a beta or c_max outside its range.
    """
    rho, kl = _rho_and_kl(action, policies)
    td_error = q - one_step_target("ddpg_loss", r, discount, target_q_next)
    critic = refer_rules.rule_1(0.5 * tf.square(td_error), rho, c_max, rule)
    policy, _, _, near = refer_rules.refer_loss(-q_of_mean, kl, rho, beta, c_max, rule)
    return DdpgLoss(policy, critic, rho, {"kl": kl, "near": near, "td_error": td_error})


def naf_q(v: tf.Tensor, entries: tf.Tensor, action: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """Q(s, a) = V(s) - (a - m)' L L' (a - m) (Eq. 4, which has no factor 1/2).

    Args:
        v: V(s), [B].
        entries: raw entries of the lower-triangular L, [B, (A^2 + A) / 2].
        action: [B, A]; no gradient.
        mean: m(s), [B, A]; NAF learns it through Q, unlike V-RACER, whose advantages give it no gradient.

    Returns:
        Q(s, a), [B]. Gradients reach `v`, `entries` and `mean`.

    Raises:
        ValueError: wrong shapes.
    """
    action, mean = _alike("naf_q", action=action, mean=mean)
    v, _, _ = _alike("naf_q", **{"v": v, "mean[:, 0]": mean[:, 0], "entries[:, 0]": entries[:, 0]})
    lower = LowerTriangular(tf.convert_to_tensor(entries), mean.shape[-1])
    u = tf.stop_gradient(action) - mean  # [B, A]
    return v - tf.reduce_sum(tf.square(lower.transposed_product(u)), axis=-1)


def naf_loss(
    action: tf.Tensor,
    policies: Policies,
    q: tf.Tensor,
    r: tf.Tensor,
    discount: tf.Tensor,
    target_v_next: tf.Tensor,
    beta: Scalar,
    c_max: Scalar,
    rule: str,
) -> NafLoss:
    """Computes NAF's loss (Eqs. 2 and 4) under ReF-ER (Eq. 10).

        L = 1/2 (Q(s_k, a_k) - r_{k+1} - gamma V'(s_{k+1}))^2

    with V' of the target network, which is Q'(s_{k+1}, m'(s_{k+1})), as in Algorithm 4. As there is one network, both
    rules apply to the whole loss.

    Args:
        action: a_k, [B, A].
        policies: pi with mean m(s_k) and the std of the noise, and the stored mu_k.
        q: Q(s_k, a_k) from `naf_q`, [B]; receives the gradient.
        r: r_{k+1}, [B].
        discount: gamma, or 0 where s_{k+1} is terminal, [B].
        target_v_next: V'(s_{k+1}), [B]; no gradient; not read where `discount` is 0.
        beta: in [0, 1], scalar.
        c_max: above 1, scalar.
        rule: one of `refer_rules.RULES`.

    Raises:
        ValueError: wrong shapes, an unknown rule, or a beta or c_max outside its range.
    """
    rho, kl = _rho_and_kl(action, policies)
    td_error = q - one_step_target("naf_loss", r, discount, target_v_next)
    total, _, _, near = refer_rules.refer_loss(0.5 * tf.square(td_error), kl, rho, beta, c_max, rule)
    return NafLoss(total, rho, {"kl": kl, "near": near, "td_error": td_error})


def one_step_target(operator: str, r: tf.Tensor, discount: tf.Tensor, next_value: tf.Tensor) -> tf.Tensor:
    """r_{k+1} + discount * next_value, [B], without gradient; `next_value` is not read where `discount` is 0.

    Raises:
        ValueError: the shapes differ.
    """
    r, discount, next_value = _alike(operator, r=r, discount=discount, next_value=next_value)
    goes_on = tf.not_equal(discount, 0.0)
    return tf.stop_gradient(r + discount * tf.where(goes_on, next_value, tf.zeros_like(next_value)))


def _alike(operator: str, **tensors: tf.Tensor) -> list[tf.Tensor]:
    """Returns the arguments as tensors, after a check that all have the shape of the first."""
    found = {name: tf.convert_to_tensor(x) for name, x in tensors.items()}
    shapes.assert_same_shape(operator, **found)
    return list(found.values())


def _rho_and_kl(action: tf.Tensor, policies: Policies) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the ratios, without gradient, and KL(mu || pi), each [B]."""
    rho = tf.stop_gradient(tf.exp(gaussian.log_ratio(*policies, action)))
    kl = gaussian.kl(policies.behaviour_mean, policies.behaviour_std, policies.mean, policies.std)
    return rho, kl
