"""Generalised advantage estimation for PPO (Appendix A), on rollouts in which episodes end."""

from __future__ import annotations

import tensorflow as tf

from repro.ops import ranges, recursion, shapes


def generalised_advantages(
    reward: tf.Tensor,
    value: tf.Tensor,
    next_value: tf.Tensor,
    last: tf.Tensor,
    terminated: tf.Tensor,
    discount: float,
    lambda_: float,
) -> tf.Tensor:
    """Computes the advantages of consecutive steps of one environment (Schulman et al. 2016, Eq. 16).

        A_t = sum_{l=0}^{n-1} (gamma lambda)^l delta_{t+l},    delta_t = r_{t+1} + gamma V(s_{t+1}) - V(s_t)

    with n steps from t to the end of the episode or of the rollout, whichever is first. A_t + V(s_t) is the
    lambda-return, the target of the value network.

    Args:
        reward: r_{t+1}, [T], T known when a graph is traced.
        value: V(s_t), [T].
        next_value: V(s_{t+1}), [T]; in the last step of an episode, the value of the state it ended in.
        last: whether step t ended an episode, bool [T].
        terminated: whether the task itself ended the episode, bool [T]; `next_value` is then not read. It is read at a
            time limit and at the end of the rollout.
        discount: gamma, in [0, 1].
        lambda_: in [0, 1].

    Returns:
        [T], without gradient.

    Raises:
        ValueError: different shapes, rank 0, or a `discount` or `lambda_` outside its range.
    """
    ranges.assert_in("generalised_advantages", "[0, 1]", discount=discount, lambda_=lambda_)
    reward, value, next_value = (tf.convert_to_tensor(x, tf.float32) for x in (reward, value, next_value))
    last, terminated = (tf.convert_to_tensor(x, tf.bool) for x in (last, terminated))
    shapes.assert_rank_at_least("generalised_advantages", 1, reward=reward)
    steps = {"reward": reward, "value": value, "next_value": next_value, "last": last, "terminated": terminated}
    shapes.assert_same_shape("generalised_advantages", **steps)
    delta = reward + discount * tf.where(terminated, 0.0, next_value) - value
    decay = tf.fill(tf.shape(delta), discount * lambda_)
    return tf.stop_gradient(recursion.backward_recursion(delta, decay, ~last)[0])
