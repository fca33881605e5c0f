"""Algorithms 1 and 2 line by line, in loops and float64, and finite differences through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

Theta = Sequence[tf.Tensor]


class Data(NamedTuple):
    """Trajectories, time-major: x of all rows [burn_in+T+1, B, ...], then of the learned ones [T, B, ...].

    behaviour_log_probs: log mu of the actions.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    discounts: np.ndarray
    behaviour_log_probs: np.ndarray
    is_boundary: np.ndarray | tuple[tuple[bool, ...], ...]


class Head(NamedTuple):
    """A policy and its value: log pi of the actions and the bonus [T, B], V [T+1, B], what else `kl` needs."""

    log_probs: tf.Tensor
    bonus: tf.Tensor
    values: tf.Tensor
    parameters: Any


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


def data_of(batch: Any, burn_in: int = 0) -> Data:
    """Of a batch-major trajectory [B, burn_in+T+1, ...]."""
    info = {
        name: np.swapaxes(x, 0, 1)[burn_in:-1].astype(np.float64)
        for name, x in batch.policy_info.items()
        if name != "core_state"
    }
    actions = np.swapaxes(batch.action, 0, 1)[burn_in:-1]
    if "logits" in info:
        log_probs = np.take_along_axis(_log_softmax(info["logits"]), actions[..., None], -1)[..., 0]
    else:
        log_probs = _squashed_log_density(actions, info["mean"], info["std"]).numpy()
    rows = (x.T[burn_in:-1].astype(np.float64) for x in (batch.reward, batch.discount))
    is_boundary = nested_tuple(batch.step_type.T[burn_in:-1] == 2)
    return Data(np.swapaxes(batch.observation, 0, 1), actions, *rows, log_probs, is_boundary)


def nested_tuple(x: np.ndarray) -> tuple[tuple[bool, ...], ...]:
    """What a traced function takes as a part of its structure, not as a tensor: [T, B]."""
    return tuple(map(tuple, x.tolist()))


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def softmax_policy(logits: tf.Tensor, actions: np.ndarray) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """log pi of the actions and the entropy [T, B], and log pi of all actions, of logits of T rows or more."""
    log_pi = (logits - tf.reduce_logsumexp(logits, axis=-1, keepdims=True))[: actions.shape[0]]
    entropy = -tf.reduce_sum(tf.exp(log_pi) * log_pi, axis=-1)
    return tf.gather(log_pi, actions, batch_dims=2), entropy, log_pi


def _squashed_log_density(actions: np.ndarray, mean: tf.Tensor, std: tf.Tensor) -> tf.Tensor:
    a = tf.cast(actions, tf.float64)
    normal = -(((tf.atanh(a) - mean) / std) ** 2) / 2 - tf.math.log(std) - np.log(2 * np.pi) / 2
    return tf.reduce_sum(normal - tf.math.log(1 - a**2), axis=-1)


def head_loss(data: Data, head: Head, zeta: Zeta, inner_loss: bool) -> tf.Tensor:
    """Algorithm 1 for one head, or for several along a last axis of everything. Rows between two games are left out.

    The entropy has the sign of a bonus, which line 20 misprints.
    """
    sg = tf.stop_gradient
    log_pi, bonus, values = map(_entries, (head.log_probs, head.bonus, head.values))
    log_mu, rewards, discounts = map(_entries, (data.behaviour_log_probs, data.rewards, data.discounts))
    num_steps, num_unrolls = data.rewards.shape
    value = policy = entropy = tf.constant(0.0, tf.float64)
    for i in range(num_unrolls):
        importance, rho, e = {}, {}, {num_steps: 0.0}
        for s in reversed(range(num_steps)):
            if data.is_boundary[s][i]:
                e[s] = 0.0
                continue
            importance[s] = sg(tf.exp(log_pi[s][i] - log_mu[s][i]))  # line 5
            cut = tf.minimum(zeta.truncation, importance[s])
            c = ((1 - zeta.alpha_c) * importance[s] + zeta.alpha_c * cut) * zeta.lambda_  # line 6
            rho[s] = (1 - zeta.alpha_rho) * importance[s] + zeta.alpha_rho * cut  # line 7
            gamma = zeta.gamma * discounts[s][i]
            delta = rho[s] * (rewards[s][i] + gamma * sg(values[s + 1][i]) - sg(values[s][i]))  # line 8
            e[s] = delta + gamma * c * e[s + 1]  # line 12
        targets = {s: e[s] + sg(values[s][i]) for s in e}  # line 15
        for s in rho:
            gamma = zeta.gamma * discounts[s][i]
            value += zeta.g_v * (targets[s] - values[s][i]) ** 2  # line 19
            entropy -= zeta.g_e * bonus[s][i]  # line 20
            following = rewards[s][i] + gamma * targets[s + 1]
            if inner_loss:
                advantage = following - sg(values[s][i])  # line 22
            else:
                advantage = sg(following - values[s][i])  # line 24
            policy -= zeta.g_p * rho[s] * log_pi[s][i] * advantage
    return value + policy + entropy  # line 26


def _entries(x: Any) -> list[list[tf.Tensor]]:
    """Of the first two axes."""
    return [tf.unstack(row) for row in tf.unstack(tf.cast(x, tf.float64))]


def dense_layer(x: tf.Tensor, theta: list[tf.Tensor]) -> tf.Tensor:
    """A layer of ReLUs on all pixels, [T+1, B, H, W, C] to [T+1, B, F]."""
    return tf.nn.relu(_dense(tf.reshape(x, [*x.shape[:2], -1]), theta))


def convolutions(x: tf.Tensor, theta: list[tf.Tensor]) -> tf.Tensor:
    """A convolution, pooling, a residual block, a convolution of stride 2, and a layer of ReLUs, as above."""
    x = _convolution(x, theta)
    x = tf.reduce_max(tf.stack(_windows(x, 2, x.dtype.min)), axis=0)
    x += _convolution(tf.nn.relu(_convolution(tf.nn.relu(x), theta)), theta)
    return dense_layer(tf.nn.relu(_convolution(x, theta, stride=2)), theta)


def _convolution(x: tf.Tensor, theta: list[tf.Tensor], stride: int = 1) -> tf.Tensor:
    """A convolution of 3x3 pixels, whose weights are taken from the front, padded with zeros."""
    kernel, bias = theta.pop(0), theta.pop(0)
    places = ((i, j) for i in range(3) for j in range(3))
    return sum(tf.tensordot(part, kernel[i, j], 1) for (i, j), part in zip(places, _windows(x, stride, 0.0))) + bias


def _windows(x: tf.Tensor, stride: int, fill: float) -> list[tf.Tensor]:
    """Pixels (0, 0) to (2, 2) of windows of 3x3, of which every side has its size / stride, rounded up."""
    sizes = [-(-n // stride) for n in x.shape[2:4]]
    missing = [max(stride * (size - 1) + 3 - n, 0) for size, n in zip(sizes, x.shape[2:4])]
    x = tf.pad(x, [[0, 0], [0, 0], *([n // 2, n - n // 2] for n in missing), [0, 0]], constant_values=fill)
    rows, columns = (stride * (size - 1) + 1 for size in sizes)
    return [x[:, :, i : i + rows : stride, j : j + columns : stride] for i in range(3) for j in range(3)]


class FeedForward(NamedTuple):
    """A torso on bytes / 255, then heads of a layer of ReLUs and a linear one; softmax policies.

    torso: takes its weights from the front.
    gammas: one for each value, where gamma is embedded; its weights, [1 or values, E], are the last of all.
    """

    num_heads: int
    acting: str
    torso: Callable[[tf.Tensor, list[tf.Tensor]], tf.Tensor] = dense_layer
    gammas: tuple[float, ...] = ()

    def heads(self, theta: Theta, data: Data) -> list[Head]:
        theta = list(theta)
        embedding = theta.pop() if self.gammas else None
        x = self.torso(tf.cast(data.observations, tf.float64) / 255.0, theta)  # [T+1, B, F]
        inputs = _head_inputs(x, self.gammas, embedding) or [x] * (self.num_heads + 1)
        logits = [_dense(tf.nn.relu(_dense(x, theta)), theta) for x in inputs[: self.num_heads]]
        if self.acting == "average":
            logits.append(sum(logits) / self.num_heads)
        values = [_dense(tf.nn.relu(_dense(x, theta)), theta)[..., 0] for x, _ in zip(inputs, logits)]
        assert not theta
        policies = [softmax_policy(one, data.actions) for one in logits]
        return [Head(log_probs, entropy, v, log_pi) for (log_probs, entropy, log_pi), v in zip(policies, values)]

    def kl(self, new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
        """Of policies given by `Head.parameters`, [T, B]."""
        return tf.reduce_sum(tf.exp(new) * (new - old), axis=-1)


class Recurrent(NamedTuple):
    """A layer of ReLUs, an LSTM, then heads as above; squashed Gaussian policies.

    is_first: [burn_in+T+1, B], where the state is zeroed before.
    state: h and c before the first row, [B, units] each.
    log_std: sigma_min and sigma_max.
    gammas: as above.
    """

    num_heads: int
    acting: str
    is_first: tuple[tuple[bool, ...], ...]
    state: Sequence[np.ndarray]
    burn_in: int
    log_std: tuple[float, float]
    gammas: tuple[float, ...] = ()

    def heads(self, theta: Theta, data: Data) -> list[Head]:
        theta = list(theta)
        embedding = theta.pop() if self.gammas else None
        *theta, kernel, bias = theta
        x = tf.nn.relu(_dense(tf.cast(data.observations, tf.float64), theta))
        x = self._core(x, kernel, bias)[self.burn_in :]
        inputs = _head_inputs(x, self.gammas, embedding) or [x] * self.num_heads
        outputs = [_dense(tf.nn.relu(_dense(x, theta)), theta)[:-1] for x in inputs]
        values = [_dense(tf.nn.relu(_dense(x, theta)), theta)[..., 0] for x in inputs]
        assert not theta
        found = []
        for one, v in zip(outputs, values):
            size = one.shape[-1] // 2
            low, high = self.log_std
            mean = tf.tanh(one[..., :size])
            std = tf.exp(low + (high - low) * (tf.tanh(one[..., size:]) + 1) / 2)
            bonus = -self.kl((mean, std), (tf.zeros_like(mean), tf.ones_like(std)))
            found.append(Head(_squashed_log_density(data.actions, mean, std), bonus, v, (mean, std)))
        return found

    def kl(self, new: Sequence[tf.Tensor], old: Sequence[tf.Tensor]) -> tf.Tensor:
        """Of policies given by `Head.parameters`, [T, B]."""
        (m, s), (m_old, s_old) = new, old
        parts = (s**2 + (m - m_old) ** 2) / (2 * s_old**2) - 0.5 + tf.math.log(s_old) - tf.math.log(s)
        return tf.reduce_sum(parts, axis=-1)

    def _core(self, x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
        h, c = (tf.cast(part, tf.float64) for part in self.state)
        outputs = []
        for row, is_first in enumerate(self.is_first):
            if row == self.burn_in:
                h, c = tf.stop_gradient(h), tf.stop_gradient(c)
            kept = np.where(is_first, 0.0, 1.0)[:, None]
            h, c = kept * h, kept * c
            i, g, f, o = tf.split(tf.concat([x[row], h], axis=-1) @ kernel + bias, 4, axis=-1)
            c = tf.sigmoid(f + 1) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
            outputs.append(h)
        return tf.stack(outputs)


def _head_inputs(x: tf.Tensor, gammas: Sequence[float], embedding: tf.Tensor | None) -> list[tf.Tensor]:
    """[x, gamma w] for each gamma, of features x [T+1, B, F]."""
    rows = tf.unstack(embedding) if gammas else []
    if len(rows) == 1:
        rows *= len(gammas)
    return [
        tf.concat([x, tf.zeros([*x.shape[:2], 1], x.dtype) + gamma * w], axis=-1)
        for gamma, w in zip(gammas, rows, strict=True)
    ]


def _dense(x: tf.Tensor, theta: list[tf.Tensor]) -> tf.Tensor:
    """A layer, whose weights are taken from the front."""
    return tf.tensordot(x, theta.pop(0), 1) + theta.pop(0)


class Step(NamedTuple):
    """Settings of Algorithm 2 and the state before its step, in float64.

    network: has `heads` and `kl`.
    theta, mean_squares, moments: of the network and of RMSProp.
    outer: zeta; fixed hyper-parameters of the head behind the others for `average`, with neither policy nor entropy.
    """

    data: Data
    network: FeedForward | Recurrent
    theta: list[np.ndarray]
    mean_squares: list[np.ndarray]
    moments: list[np.ndarray]
    outer: Zeta
    rate: float
    decay: float
    momentum: float
    epsilon: float
    clip: float
    kl_cost: float

    def updated(self, eta: Mapping[str, np.ndarray]) -> tuple[list[tf.Tensor], float]:
        """Lines 10 to 12: theta_{t+1}(eta) and the norm of the gradient before the clip."""
        zetas = [zeta_of({k: v[p] for k, v in eta.items()}, self.outer) for p in range(self.network.num_heads)]
        zetas += [self.outer._replace(g_p=0.0, g_e=0.0)] * (self.network.acting == "average")
        zeta = Zeta(*np.transpose(zetas))
        gradients = [g.numpy() for g in _inner_gradients(self.network, self.data, self.theta, zeta)]
        norm = float(np.sqrt(sum(np.sum(g**2) for g in gradients)))
        updated = []
        for w, s, m, g in zip(self.theta, self.mean_squares, self.moments, gradients, strict=True):
            g = g * min(1.0, self.clip / norm)
            s = self.decay * s + (1 - self.decay) * g**2
            updated.append(tf.constant(w - self.momentum * m - self.rate * g / np.sqrt(s + self.epsilon)))
        return updated, norm

    def outer_loss(self, theta: Theta) -> tf.Tensor:
        """Eq. (3), lines 13 and 14, at theta: of the heads that act, their mean."""
        return self._outer_loss_and_gradients(theta)[0]

    def _outer_loss_and_gradients(self, theta: Theta) -> tuple[tf.Tensor, list[tf.Tensor]]:
        outer, kl_cost = tf.unstack(tf.constant(self.outer, tf.float64)), tf.constant(self.kl_cost, tf.float64)
        return _outer_loss_and_gradients(self.network, self.data, self.theta, theta, Zeta(*outer), kl_cost)

    def metagradient(self, eta: Mapping[str, np.ndarray], h: float = 1e-4) -> dict[str, np.ndarray]:
        """Lines 13 and 14: of line 12's parameters by central differences, times the outer loss's gradient at them.

        The outer loss itself cannot be differenced: what Algorithm 1 stops would move with theta.
        """
        _, gradients = self._outer_loss_and_gradients(self.updated(eta)[0])

        def slope(name: str, p: int) -> float:
            up, down = ({k: v.copy() for k, v in eta.items()} for _ in range(2))
            up[name][p] += h
            down[name][p] -= h
            (above, _), (below, _) = self.updated(up), self.updated(down)
            return sum(float(tf.reduce_sum(g * (a - b))) for g, a, b in zip(gradients, above, below)) / (2 * h)

        return {name: np.array([slope(name, p) for p in range(self.network.num_heads)]) for name in eta}


@tf.function(autograph=False)
def _inner_gradients(network: FeedForward | Recurrent, data: Data, theta: Theta, zeta: Zeta) -> list[tf.Tensor]:
    """The gradient of the inner loss, given the hyper-parameters of heads, [heads] each.

    Traced once for a network and the places of its boundaries: differences take dozens of calls.
    """
    with tf.GradientTape() as tape:
        tape.watch(theta)
        losses = head_loss(data, _stacked(network.heads(theta, data)), zeta, True)
        loss = tf.reduce_sum(losses) / network.num_heads
    return tape.gradient(loss, theta)


@tf.function(autograph=False)
def _outer_loss_and_gradients(
    network: FeedForward | Recurrent, data: Data, before: Theta, after: Theta, outer: Zeta, kl_cost: tf.Tensor
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The outer loss of weights `after` an update of those `before`, and its gradient to them."""
    acting = {"first": [0], "random": range(network.num_heads), "average": [network.num_heads]}[network.acting]
    with tf.GradientTape() as tape:
        tape.watch(after)
        new, old = (network.heads(theta, data) for theta in (after, before))
        total = tf.reduce_sum(head_loss(data, _stacked([new[p] for p in acting]), outer, False))
        for p in acting:
            kl = network.kl(new[p].parameters, tf.nest.map_structure(tf.stop_gradient, old[p].parameters))
            total += kl_cost * tf.reduce_sum(tf.where(data.is_boundary, tf.zeros_like(kl), kl))
        loss = total / len(acting)
    return loss, tape.gradient(loss, after, unconnected_gradients="zero")


def _stacked(heads: Sequence[Head]) -> Head:
    """Heads along a last axis, for `head_loss`."""
    log_probs, bonus, values, _ = zip(*heads)
    return Head(*(tf.stack(parts, axis=-1) for parts in (log_probs, bonus, values)), None)


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
