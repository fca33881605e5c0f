"""Sums of Section 5 and Appendix E.2 written out by hand, one step and one unroll at a time, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

T, B, A, SIGMA = 6, 4, 3, 0.3
Arrays = dict[str, Any]


def data(seed: int = 0, average: bool = True) -> Arrays:
    """Fields of `Steps`, with a terminal at [1, 0], a time limit at [2, 1] and its boundary row at [3, 1]."""
    rng = np.random.default_rng(seed)
    mean, average_mean = rng.normal(size=(2, T, B, A))
    action = mean + 0.5 * rng.normal(size=(T, B, A))
    values = rng.normal(size=(T + 1, B))
    discount = np.full((T, B), 0.9)
    discount[1, 0] = 0.0
    boundary = np.zeros((T, B), bool)
    boundary[3, 1] = True
    x = {
        "action": action,
        "mean": mean,
        "std": np.full((T, B, A), SIGMA),
        "behaviour_mean": mean + 0.2 * rng.normal(size=(T, B, A)),
        "behaviour_std": SIGMA * np.exp(0.3 * rng.normal(size=(T, B, A))),
        "average_mean": mean + 0.3 * average_mean if average else None,
        "r_t": rng.normal(size=(T, B)),
        "discount_t": discount,
        "v_tm1": values[:-1],
        "v_t": values[1:],
    }
    floats = {name: None if value is None else value.astype(np.float32) for name, value in x.items()}
    return floats | {"is_boundary": boundary}


def poison(x: Arrays) -> Arrays:
    """NaN in whatever a boundary row holds besides its state."""
    x = {name: None if value is None else value.copy() for name, value in x.items()}
    for name in ("action", "behaviour_mean", "behaviour_std", "r_t", "discount_t", "v_t"):
        x[name][x["is_boundary"]] = np.nan
    x["v_t"][x["discount_t"] == 0.0] = np.nan
    return x


def density(action: np.ndarray, mean: np.ndarray, std: np.ndarray) -> float:
    action, mean, std = (np.asarray(y, np.float64) for y in (action, mean, std))
    return np.prod(np.exp(-0.5 * ((action - mean) / std) ** 2) / std / np.sqrt(2.0 * np.pi))


def rho(x: Arrays, s: int, b: int, action: np.ndarray | None = None) -> float:
    """f(a|phi) / mu(a|x), of the action taken unless another is given."""
    action = x["action"][s, b] if action is None else action
    mu = density(action, x["behaviour_mean"][s, b], x["behaviour_std"][s, b])
    return density(action, x["mean"][s, b], SIGMA) / mu


def ends(x: Arrays, s: int, b: int) -> bool:
    """Whether no row of the same episode follows row s."""
    return s + 1 == T or x["discount_t"][s, b] == 0.0 or x["is_boundary"][s + 1, b]


def bootstrap(x: Arrays, s: int, b: int) -> float:
    """gamma V(x_{s+1}), 0 after a terminal."""
    discount = float(x["discount_t"][s, b])
    return discount * float(x["v_t"][s, b]) if discount else 0.0


def live_rows(x: Arrays) -> list[tuple[int, int]]:
    return [(s, b) for s in range(T) for b in range(B) if not x["is_boundary"][s, b]]


def corrected_q(x: Arrays, q: np.ndarray, trace: Any) -> np.ndarray:
    """Q_s + sum_t gamma^{t-s} (prod_{u=s+1}^t c_u) (r_t + gamma V(x_{t+1}) - Q_t), with c_u = trace(rho_u)."""
    found = np.zeros((T, B))
    for s, b in live_rows(x):
        weight, total, t = 1.0, float(q[s, b]), s
        while True:
            total += weight * (float(x["r_t"][t, b]) + bootstrap(x, t, b) - float(q[t, b]))
            if ends(x, t, b):
                break
            weight *= float(x["discount_t"][t, b]) * trace(rho(x, t + 1, b))
            t += 1
        found[s, b] = total
    return found


def returns_and_products(x: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """sum_i gamma^i r_{s+i} + gamma^{k-s} V(x_k), and the product of the ratios of the same steps."""
    totals, products = np.zeros((T, B)), np.zeros((T, B))
    for s, b in live_rows(x):
        discount, total, product, t = 1.0, 0.0, 1.0, s
        while True:
            total += discount * float(x["r_t"][t, b])
            product *= rho(x, t, b)
            if ends(x, t, b):
                totals[s, b], products[s, b] = total + discount * bootstrap(x, t, b), product
                break
            discount *= float(x["discount_t"][t, b])
            t += 1
    return totals, products


def score(x: Arrays, s: int, b: int, action: np.ndarray) -> np.ndarray:
    """d log f(a|phi) / d phi by central differences."""
    mean, step = x["mean"][s, b].astype(np.float64), 1e-5
    found = np.empty(A)
    for i in range(A):
        up, down = (density(action, mean + sign * step * np.eye(A)[i], SIGMA) for sign in (1.0, -1.0))
        found[i] = (np.log(up) - np.log(down)) / (2 * step)
    return found


def divergence_slope(x: Arrays, s: int, b: int) -> np.ndarray:
    """d KL(f(.|phi_avg) || f(.|phi)) / d phi by central differences of sum_i (phi_avg - phi)^2 / (2 sigma^2)."""
    average, mean, step = (y.astype(np.float64) for y in (x["average_mean"][s, b], x["mean"][s, b], np.array(1e-5)))
    found = np.empty(A)
    for i in range(A):
        up, down = (np.sum((average - mean - sign * step * np.eye(A)[i]) ** 2) / (2 * SIGMA**2) for sign in (1, -1))
        found[i] = (up - down) / (2 * step)
    return found


def projected(x: Arrays, g: np.ndarray, s: int, b: int, delta: float) -> np.ndarray:
    """Eq. 12 of one step."""
    if x["average_mean"] is None:
        return g
    k = divergence_slope(x, s, b)
    return g - max(0.0, (k @ g - delta) / (k @ k)) * k


def acer_gradient(
    x: Arrays, q_opc: np.ndarray, sampled_action: np.ndarray, sampled_q: np.ndarray, c: float
) -> np.ndarray:
    """g of Eq. 16."""
    g = np.zeros((T, B, A))
    for s, b in live_rows(x):
        v, sampled = float(x["v_tm1"][s, b]), sampled_action[s, b]
        g[s, b] = min(c, rho(x, s, b)) * score(x, s, b, x["action"][s, b]) * (float(q_opc[s, b]) - v)
        correction = max(0.0, 1.0 - c / rho(x, s, b, sampled))
        g[s, b] += correction * (float(sampled_q[s, b]) - v) * score(x, s, b, sampled)
    return g


def acer_updates(
    x: Arrays, q: np.ndarray, sampled_action: np.ndarray, sampled_q: np.ndarray, c: float, delta: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """z*, and the factors of grad Q~ and of grad V that Algorithm 3 accumulates."""
    g = acer_gradient(x, corrected_q(x, q, lambda ratio: 1.0), sampled_action, sampled_q, c)
    error = corrected_q(x, q, lambda ratio: min(1.0, ratio ** (1.0 / A))) - q
    z, of_q, of_v = np.zeros((T, B, A)), np.zeros((T, B)), np.zeros((T, B))
    for s, b in live_rows(x):
        z[s, b] = projected(x, g[s, b], s, b, delta)
        of_q[s, b], of_v[s, b] = error[s, b], min(1.0, rho(x, s, b)) * error[s, b]
    return z, of_q, of_v


def baseline_updates(x: Arrays, c: float | None, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """z* and the factor of grad V: TIS's (Appendix E.2) with products truncated at c, A3C's if c is None."""
    returns, products = returns_and_products(x)
    z, of_v = np.zeros((T, B, A)), np.zeros((T, B))
    for s, b in live_rows(x):
        weight = 1.0 if c is None else min(c, products[s, b])
        of_v[s, b] = weight * (returns[s, b] - float(x["v_tm1"][s, b]))
        z[s, b] = projected(x, of_v[s, b] * score(x, s, b, x["action"][s, b]), s, b, delta)
    return z, of_v
