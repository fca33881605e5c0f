"""Algorithms 1 and 2 line by line, in loops and float64, and finite differences through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

Theta = Sequence[tf.Tensor]


class Data(NamedTuple):
    """Trajectories, time-major: x [T+1, B, ...], then [T, B] each and mu's probabilities of the actions."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    discounts: np.ndarray
    behaviour_log_probs: np.ndarray
    is_boundary: np.ndarray


class Zeta(NamedTuple):
    """Numbers of one head."""

    gamma: Any
    lambda_: Any
    alpha_rho: Any
    alpha_c: Any
    truncation: Any
    g_v: Any
    g_p: Any
    g_e: Any


def data_of(batch: Any) -> Data:
    """Of a batch-major trajectory [B, T+1, ...]."""
    logits = batch.policy_info["logits"].astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    log_probs = np.take_along_axis(log_probs, batch.action[..., None], -1)[..., 0]
    rows = (batch.action, batch.reward.astype(np.float64), batch.discount.astype(np.float64), log_probs)
    return Data(np.swapaxes(batch.observation, 0, 1), *(x.T[:-1] for x in rows), batch.step_type.T[:-1] == 2)


def head_loss(data: Data, log_pi: tf.Tensor, values: tf.Tensor, zeta: Zeta, inner_loss: bool) -> tf.Tensor:
    """Algorithm 1 for one head: log pi [T+1, B, A], V [T+1, B]. Rows between two games are left out.

    The entropy has the sign of a bonus, which line 20 misprints.
    """
    sg = tf.stop_gradient
    num_steps, num_unrolls = data.actions.shape
    value = policy = entropy = tf.constant(0.0, tf.float64)
    for i in range(num_unrolls):
        importance, rho, e = {}, {}, {num_steps: 0.0}
        for s in reversed(range(num_steps)):
            if data.is_boundary[s, i]:
                e[s] = 0.0
                continue
            a = data.actions[s, i]
            importance[s] = sg(tf.exp(log_pi[s, i, a] - data.behaviour_log_probs[s, i]))  # line 5
            cut = tf.minimum(zeta.truncation, importance[s])
            c = ((1 - zeta.alpha_c) * importance[s] + zeta.alpha_c * cut) * zeta.lambda_  # line 6
            rho[s] = (1 - zeta.alpha_rho) * importance[s] + zeta.alpha_rho * cut  # line 7
            gamma = zeta.gamma * data.discounts[s, i]
            delta = rho[s] * (data.rewards[s, i] + gamma * sg(values[s + 1, i]) - sg(values[s, i]))  # line 8
            e[s] = delta + gamma * c * e[s + 1]  # line 12
        targets = {s: e[s] + sg(values[s, i]) for s in e}  # line 15
        for s in rho:
            a, gamma = data.actions[s, i], zeta.gamma * data.discounts[s, i]
            value += zeta.g_v * (targets[s] - values[s, i]) ** 2  # line 19
            entropy += zeta.g_e * tf.reduce_sum(tf.exp(log_pi[s, i]) * log_pi[s, i])  # line 20
            following = data.rewards[s, i] + gamma * targets[s + 1]
            if inner_loss:
                advantage = following - sg(values[s, i])  # line 22
            else:
                advantage = sg(following - values[s, i])  # line 24
            policy -= zeta.g_p * rho[s] * log_pi[s, i, a] * advantage
    return value + policy + entropy  # line 26


def forward(theta: Theta, observations: np.ndarray, num_heads: int, acting: str) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """(log pi, V) of every head: a layer of ReLUs on bytes / 255, then heads of a layer of ReLUs and a linear one."""
    theta = list(theta)
    x = tf.constant(observations.reshape(*observations.shape[:2], -1) / 255.0, tf.float64)  # [T+1, B, S]

    def dense(x: tf.Tensor) -> tf.Tensor:
        return tf.tensordot(x, theta.pop(0), 1) + theta.pop(0)

    x = tf.nn.relu(dense(x))
    logits = [dense(tf.nn.relu(dense(x))) for _ in range(num_heads)]
    if acting == "average":
        logits.append(sum(logits) / num_heads)
    values = [dense(tf.nn.relu(dense(x)))[..., 0] for _ in logits]
    assert not theta
    return [(one - tf.reduce_logsumexp(one, axis=-1, keepdims=True), v) for one, v in zip(logits, values)]


class Step(NamedTuple):
    """Settings of Algorithm 2 and the state before its step, in float64.

    theta, mean_squares, moments: of the network and of RMSProp.
    outer: zeta; fixed hyper-parameters of the head behind the others for `average`, with neither policy nor entropy.
    """

    data: Data
    theta: list[np.ndarray]
    mean_squares: list[np.ndarray]
    moments: list[np.ndarray]
    outer: Zeta
    num_heads: int
    acting: str
    rate: float
    decay: float
    momentum: float
    epsilon: float
    clip: float
    kl_cost: float

    def updated(self, eta: Mapping[str, np.ndarray]) -> tuple[list[tf.Tensor], float]:
        """Lines 10 to 12: theta_{t+1}(eta) and the norm of the gradient before the clip."""
        theta = [tf.constant(x) for x in self.theta]
        with tf.GradientTape() as tape:
            tape.watch(theta)
            heads = forward(theta, self.data.observations, self.num_heads, self.acting)
            zetas = [zeta_of({k: v[p] for k, v in eta.items()}, self.outer) for p in range(self.num_heads)]
            zetas += [self.outer._replace(g_p=0.0, g_e=0.0)] * (self.acting == "average")
            loss = sum(head_loss(self.data, *head, zeta, True) for head, zeta in zip(heads, zetas, strict=True))
            loss /= self.num_heads
        gradients = [g.numpy() for g in tape.gradient(loss, theta)]
        norm = float(np.sqrt(sum(np.sum(g**2) for g in gradients)))
        updated = []
        for w, s, m, g in zip(self.theta, self.mean_squares, self.moments, gradients, strict=True):
            g = g * min(1.0, self.clip / norm)
            s = self.decay * s + (1 - self.decay) * g**2
            updated.append(tf.constant(w - self.momentum * m - self.rate * g / np.sqrt(s + self.epsilon)))
        return updated, norm

    def outer_loss(self, theta: Theta) -> tf.Tensor:
        """Eq. (3), lines 13 and 14, at theta: of the heads that act, their mean."""
        before, after = (forward(t, self.data.observations, self.num_heads, self.acting) for t in (self.theta, theta))
        acting = {"first": [0], "random": range(self.num_heads), "average": [self.num_heads]}[self.acting]
        total = tf.constant(0.0, tf.float64)
        for p in acting:
            total += head_loss(self.data, *after[p], self.outer, False)
            for s, i in zip(*np.nonzero(~self.data.is_boundary)):
                new, old = after[p][0][s, i], before[p][0][s, i].numpy()
                total += self.kl_cost * tf.reduce_sum(tf.exp(new) * (new - old))
        return total / len(acting)

    def metagradient(self, eta: Mapping[str, np.ndarray], h: float = 1e-4) -> dict[str, np.ndarray]:
        """Lines 13 and 14: of line 12's parameters by central differences, times the outer loss's gradient at them.

        The outer loss itself cannot be differenced: what Algorithm 1 stops would move with theta.
        """
        theta, _ = self.updated(eta)
        with tf.GradientTape() as tape:
            tape.watch(theta)
            loss = self.outer_loss(theta)
        gradients = tape.gradient(loss, theta, unconnected_gradients="zero")

        def slope(name: str, p: int) -> float:
            up, down = ({k: v.copy() for k, v in eta.items()} for _ in range(2))
            up[name][p] += h
            down[name][p] -= h
            (above, _), (below, _) = self.updated(up), self.updated(down)
            return sum(float(tf.reduce_sum(g * (a - b))) for g, a, b in zip(gradients, above, below)) / (2 * h)

        return {name: np.array([slope(name, p) for p in range(self.num_heads)]) for name in eta}


def zeta_of(eta: Mapping[str, float], outer: Zeta) -> Zeta:
    """Line 10; what eta does not have keeps its outer value."""
    sigmoid: Callable[[str], float] = lambda name: 1 / (1 + np.exp(-eta[name]))  # noqa: E731
    zeta = outer._asdict()
    for name in eta:
        if name == "alpha":
            zeta["alpha_rho"] = zeta["alpha_c"] = sigmoid(name)
        elif name in ("g_v", "g_p", "g_e", "truncation"):
            zeta[name] = sigmoid(name) * zeta[name]
        else:
            zeta["lambda_" if name == "lambda" else name] = sigmoid(name)
    return Zeta(**zeta)
