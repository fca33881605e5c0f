"""Slow references for repro.ops.q_targets, written from the papers' sums, and sequences that exercise them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LAMBDA = 0.9


class Sequence(NamedTuple):
    """Arguments of the operators, float32 [T, B] but `is_boundary`; entries that must not be read are NaN.

    c_t is any number in [0, 1.2]: the recursion does not know its rule. log_rho_t is no function of it.
    """

    r_t: np.ndarray
    discount_t: np.ndarray
    c_t: np.ndarray
    expected_q_t: np.ndarray
    q_t_a: np.ndarray
    log_rho_t: np.ndarray
    is_boundary: np.ndarray

    def slice(self, rows: slice) -> Sequence:
        return Sequence(*(x[rows] for x in self))

    def arguments(self, *names: str) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in names} | {"is_boundary": self.is_boundary}


def poisoned(sequence: Sequence) -> Sequence:
    """`sequence` with NaN wherever nothing may be read."""
    ended = sequence.discount_t == 0
    stops = ended | next_is_boundary(sequence.is_boundary)
    stops[-1] = True
    unread = {"c_t": stops, "q_t_a": stops, "log_rho_t": stops, "expected_q_t": ended}
    none = np.zeros_like(ended)
    fields = {name: x for name, x in sequence._asdict().items() if name != "is_boundary"}
    poison = {
        name: np.where(unread.get(name, none) | sequence.is_boundary, np.float32(np.nan), x)
        for name, x in fields.items()
    }
    return sequence._replace(**poison)


def next_is_boundary(is_boundary: np.ndarray) -> np.ndarray:
    return np.concatenate([is_boundary[1:], np.zeros_like(is_boundary[:1])])


def random_sequence(num_steps: int, batch: int, seed: int, p_end: float = 0.15, p_boundary: float = 0.15) -> Sequence:
    """Sequences with ends and boundary rows anywhere, discounts that differ from row to row, and poison."""
    rng = np.random.default_rng(seed)
    shape = (num_steps, batch)
    discount_t = rng.uniform(0.8, 1.0, shape)
    discount_t[rng.random(shape) < p_end] = 0.0
    r_t, expected_q_t, q_t_a, log_rho_t = rng.normal(size=(4, *shape))
    c_t = rng.uniform(0.0, 1.2, shape)
    c_t[rng.random(shape) < 0.1] = 0.0
    floats = [x.astype(np.float32) for x in (r_t, discount_t, c_t, expected_q_t, q_t_a, log_rho_t)]
    return poisoned(Sequence(*floats, rng.random(shape) < p_boundary))


class Loop:
    """The sums for one row at a time, in float64; no target uses another."""

    def __init__(self, sequence: Sequence) -> None:
        names = [name for name in Sequence._fields if name != "is_boundary"]
        self.x = {name: np.asarray(getattr(sequence, name), np.float64) for name in names}
        self.is_boundary = sequence.is_boundary
        self.shape = sequence.r_t.shape

    def continues(self, s: int, b: int) -> bool:
        return self.x["discount_t"][s, b] != 0 and s + 1 < self.shape[0] and not self.is_boundary[s + 1, b]

    def bootstrapped(self, s: int, b: int) -> float:
        """r + gamma E Q, or r where the episode ends."""
        gamma = self.x["discount_t"][s, b]
        return self.x["r_t"][s, b] + (gamma * self.x["expected_q_t"][s, b] if gamma != 0 else 0.0)

    def every_row(self, target) -> np.ndarray:
        targets = np.zeros(self.shape)
        for s, b in np.ndindex(*self.shape):
            if not self.is_boundary[s, b]:
                targets[s, b] = target(s, b)
        return targets


def multistep_q(sequence: Sequence, lambda_: float = 1.0) -> np.ndarray:
    """Q(x_s, a_s) + sum_t gamma^{t-s} (prod lambda c_u) Delta_t, one temporal difference at a time.

    Q(x_s, a_s) itself is arbitrary: a different one for every row shows that it cancels.
    """
    loop = Loop(sequence)

    def target(s: int, b: int) -> float:
        q = 7.0 + s - 3.0 * b
        total, product, t = q, 1.0, s
        while True:
            total += product * (loop.bootstrapped(t, b) - q)
            if not loop.continues(t, b):
                return total
            product *= loop.x["discount_t"][t, b] * lambda_ * loop.x["c_t"][t, b]
            q = loop.x["q_t_a"][t, b]
            t += 1

    return loop.every_row(target)


def n_step(sequence: Sequence, n: int, weighted: bool) -> np.ndarray:
    """Eq. (2) or (3) of C-trace: sum of rho_{1:t} gamma^t r_t, plus rho_{1:m-1} gamma^m E Q(x_m)."""
    loop = Loop(sequence)

    def target(s: int, b: int) -> float:
        rows = [s]
        while len(rows) < n and loop.continues(rows[-1], b):
            rows.append(rows[-1] + 1)
        m = len(rows)
        gammas = [loop.x["discount_t"][row, b] for row in rows]
        rho = [1.0] + [np.exp(loop.x["log_rho_t"][row, b]) if weighted else 1.0 for row in rows[:-1]]  # rho_0 is 1
        total = 0.0
        for t in range(m):
            total += np.prod(rho[: t + 1]) * np.prod(gammas[:t]) * loop.x["r_t"][rows[t], b]
        if gammas[-1] == 0:
            return total
        return total + np.prod(rho[:m]) * np.prod(gammas) * loop.x["expected_q_t"][rows[-1], b]

    return loop.every_row(target)
