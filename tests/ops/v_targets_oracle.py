"""Slow references for repro.ops.v_targets, written from the papers' sums, and sequences that exercise them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

SETTINGS = {"lambda_": 0.9, "clip_rho": 1.1, "clip_c": 0.8, "clip_pg_rho": 1.4, "alpha_rho": 0.7, "alpha_c": 0.4}
"""Every setting differs from every other and from its neutral value, so that no two can be confused."""


class Sequence(NamedTuple):
    """Arguments of an operator in its order, float32 [T, B]; entries that must not be read are NaN."""

    log_rho: np.ndarray
    discount_t: np.ndarray
    r_t: np.ndarray
    v_tm1: np.ndarray
    v_t: np.ndarray
    is_boundary: np.ndarray

    def tensors(self) -> list[tf.Tensor]:
        return [tf.constant(x) for x in self[:5]]

    def slice(self, rows: slice) -> Sequence:
        return Sequence(*(x[rows] for x in self))


def random_sequence(num_steps: int, batch: int, seed: int, p_end: float = 0.15, p_boundary: float = 0.15) -> Sequence:
    """Sequences in which truncations, ends and boundary rows are all active.

    Boundary rows fall anywhere: on the first and the last row, beside each other, right after an end.
    """
    rng = np.random.default_rng(seed)
    shape = (num_steps, batch)
    values = rng.normal(size=(num_steps + 1, batch))
    is_boundary = rng.random(shape) < p_boundary
    v_t = values[1:].copy()
    cut = np.concatenate([is_boundary[1:], np.zeros((1, batch), bool)])
    v_t[cut] = rng.normal(size=cut.sum())  # the last observation's value, whatever the next row holds
    discount_t = rng.uniform(0.8, 1.0, shape)
    discount_t[rng.random(shape) < p_end] = 0.0
    v_t[discount_t == 0.0] = np.nan
    log_rho, r_t = rng.normal(size=shape), rng.normal(size=shape)
    for x in (log_rho, discount_t, r_t, v_t):
        x[is_boundary] = np.nan
    floats = (x.astype(np.float32) for x in (log_rho, discount_t, r_t, values[:-1], v_t))
    return Sequence(*floats, is_boundary)


def oracle(
    method: str,
    sequence: Sequence,
    *,
    lambda_: float = 1.0,
    clip_rho: float | None = 1.0,
    clip_c: float | None = 1.0,
    clip_pg_rho: float | None = 1.0,
    alpha_rho: float = 1.0,
    alpha_c: float = 1.0,
) -> dict[str, np.ndarray]:
    """Targets by the sum of IMPALA's Eq. (1) with STAC's weights (Eq. 5), one term at a time, in float64.

    No step uses the result of another: each target and each v_{s+1} of an advantage is a sum of its own.
    """
    log_rho, discount_t, r_t, v_tm1, v_t = (np.asarray(x, np.float64) for x in sequence[:5])
    is_boundary = sequence.is_boundary
    num_steps, batch = r_t.shape

    def leaky(s: int, b: int, clip: float | None, alpha: float) -> float:
        ratio = np.exp(log_rho[s, b])
        return ratio if clip is None else alpha * min(clip, ratio) + (1 - alpha) * ratio

    def rho(s: int, b: int) -> float:
        return leaky(s, b, clip_rho, alpha_rho) if method == "vtrace" else 1.0

    def c(s: int, b: int) -> float:
        return lambda_ * leaky(s, b, clip_c, alpha_c) if method == "vtrace" else lambda_

    def pg_rho(s: int, b: int) -> float:
        return 1.0 if method == "no_correction" else leaky(s, b, clip_pg_rho, alpha_rho)

    def next_row_continues(s: int, b: int) -> bool:
        return discount_t[s, b] != 0 and s + 1 < num_steps and not is_boundary[s + 1, b]

    def q(s: int, b: int, next_value: float) -> float:
        return r_t[s, b] if discount_t[s, b] == 0 else r_t[s, b] + discount_t[s, b] * next_value

    def target(s: int, b: int) -> float:
        total, product, t = v_tm1[s, b], 1.0, s
        while True:
            total += product * rho(t, b) * (q(t, b, v_t[t, b]) - v_tm1[t, b])
            if not next_row_continues(t, b):
                return total
            product *= discount_t[t, b] * c(t, b)
            t += 1

    outputs = {name: np.zeros((num_steps, batch)) for name in ("targets", "pg_advantages", "rho_clipped")}
    for s in range(num_steps):
        for b in range(batch):
            if is_boundary[s, b]:
                outputs["targets"][s, b] = v_tm1[s, b]
                continue
            next_value = target(s + 1, b) if next_row_continues(s, b) else v_t[s, b]
            outputs["targets"][s, b] = target(s, b)
            outputs["pg_advantages"][s, b] = pg_rho(s, b) * (q(s, b, next_value) - v_tm1[s, b])
            outputs["rho_clipped"][s, b] = rho(s, b)
    return outputs


def agrees(actual: Any, expected: dict[str, np.ndarray], rtol: float = 1e-4, atol: float = 1e-4) -> bool:
    """Whether every field of an operator's output is near `expected`; NaN and other shapes are not."""
    return all(
        np.shape(getattr(actual, name)) == value.shape
        and np.allclose(np.asarray(getattr(actual, name)), value, rtol=rtol, atol=atol)
        for name, value in expected.items()
    )
