"""Learning action values from a stream of experience: C-trace, Section 4, Figure 3.

Q is updated after each piece of the behaviour policy's experience: an episode, or a round of a fixed number of steps
through successive episodes. Q(x_t, a_t) then moves towards its targets, which are computed from the piece's later steps
and from Q before the update. Repetitions may be learned side by side; all methods learn from the same experience.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numba
import numpy as np

from repro.tabular.mdps import FiniteMDP, mix
from repro.tabular.operators import IMPORTANCE, TRACES, Method, n_step_length, ratio, trace_coefficients
from repro.tabular.simulation import cumulative, sample


class Steps(NamedTuple):
    """T steps of each of R streams: states x_t, actions a_t and the states y_t that they lead to, int [T, R].

    y_t, the field `following`, differs from x_{t+1} where the episode ended.
    """

    states: np.ndarray
    actions: np.ndarray
    following: np.ndarray


def finished_episodes(steps: Steps, terminal: np.ndarray, stream: int) -> Iterator[tuple[int, Steps]]:
    """Yields the episodes of one stream that end within its steps, in order.

    Args:
        steps: steps of all streams, from the start of an episode on.
        terminal: whether each state is terminal, bool [S].
        stream: index of the stream.

    Yields:
        The number of the stream's steps up to the episode's end, and the episode's steps, [L, 1].
    """
    start = 0
    for end in np.flatnonzero(terminal[steps.following[:, stream]]) + 1:
        yield int(end), Steps(*(field[start:end, stream : stream + 1] for field in steps))
        start = end


class Stream:
    """Experience of the behaviour policy in R independent streams of successive episodes.

    Args:
        mdp: the MDP.
        mu: behaviour policy, [S, A].
        num_streams: R.
        rng: source of all samples.
    """

    def __init__(self, mdp: FiniteMDP, mu: np.ndarray, num_streams: int, rng: np.random.Generator) -> None:
        self._mdp, self._rng = mdp, rng
        self._choices, self._moves = cumulative(mu), cumulative(mdp.transitions)
        self._starts = cumulative(mdp.initial)
        self._states = sample(self._starts, rng.random(num_streams))

    def take(self, num_steps: int) -> Steps:
        """Samples the next `num_steps` steps of every stream."""
        steps = Steps(*(np.empty((num_steps, len(self._states)), np.int64) for _ in Steps._fields))
        uniforms = self._rng.random((num_steps, 3, len(self._states)))
        for t in range(num_steps):
            steps.states[t] = self._states
            steps.actions[t] = sample(self._choices[self._states], uniforms[t, 0])
            steps.following[t] = sample(self._moves[self._states, steps.actions[t]], uniforms[t, 1])
            is_terminal = self._mdp.terminal[steps.following[t]]
            self._states = np.where(is_terminal, sample(self._starts, uniforms[t, 2]), steps.following[t])
        return steps


VISITS = ("compound", "mean")


def learn(
    q: np.ndarray,
    mdp: FiniteMDP,
    steps: Steps,
    pi: np.ndarray,
    mu: np.ndarray,
    method: Method,
    learning_rate: float,
    visits: str,
) -> None:
    """Learns from one piece of experience, in place: Q(x, a) += learning_rate (target - Q(x, a)).

    A target uses no step after the end of its episode or of the piece: trace rules cut there, n-step returns bootstrap
    from the state reached.

    Args:
        q: estimates, [R, S, A], updated in place; 0 in terminal states.
        mdp: the MDP.
        steps: steps from `Stream.take`.
        pi: target policies before mixing, [R, S, A].
        mu: behaviour policy, [S, A].
        method: the evaluation method.
        learning_rate: in (0, 1].
        visits: update of a pair that the piece visits several times: `compound`, towards the target of each visit in
            turn, so that the updates compound; `mean`, once, towards the mean target of its visits.

    Raises:
        ValueError: the kind of visits or the rule is unknown, or an n-step rule has an n below 1.
    """
    if visits not in VISITS:
        raise ValueError(f"visits={visits!r}: choose one of {', '.join(VISITS)}.")
    v = np.einsum("rxa,rxa->rx", mix(pi, mu, method.alpha), q)
    known = mdp.rewards, mdp.discount, mdp.terminal
    if method.rule in TRACES:
        c = np.broadcast_to(trace_coefficients(pi, mu, method), q.shape)
        targets = _trace_targets(q, v, np.ascontiguousarray(c), *known, *steps)
    else:
        n = n_step_length(method)
        ratios = ratio(pi, mu) if method.rule == IMPORTANCE else np.ones_like(q)
        targets = _n_step_targets(v, ratios, *known, *steps, n)
    move = _move if visits == "compound" else _move_by_mean
    move(q, targets, steps.states, steps.actions, learning_rate)


@numba.njit(nogil=True, cache=True)
def _trace_targets(
    q: np.ndarray,
    v: np.ndarray,
    c: np.ndarray,
    rewards: np.ndarray,
    discount: float,
    terminal: np.ndarray,
    states: np.ndarray,
    actions: np.ndarray,
    following: np.ndarray,
) -> np.ndarray:
    targets = np.empty(states.shape)
    length, streams = states.shape
    for r in range(streams):
        correction = 0.0  # that of the step after t, 0 where the trace ends
        for t in range(length - 1, -1, -1):
            x, a, y = states[t, r], actions[t, r], following[t, r]
            if terminal[y]:
                correction = 0.0
            elif t + 1 < length:
                correction *= discount * c[r, y, actions[t + 1, r]]
            correction += rewards[x, a] + discount * v[r, y] - q[r, x, a]
            targets[t, r] = q[r, x, a] + correction
    return targets


@numba.njit(nogil=True, cache=True)
def _n_step_targets(
    v: np.ndarray,
    ratios: np.ndarray,
    rewards: np.ndarray,
    discount: float,
    terminal: np.ndarray,
    states: np.ndarray,
    actions: np.ndarray,
    following: np.ndarray,
    n: int,
) -> np.ndarray:
    targets = np.empty(states.shape)
    length, streams = states.shape
    for r in range(streams):
        for t in range(length):
            weight, total = 1.0, 0.0  # gamma^s rho_{1:s}
            for u in range(t, min(t + n, length)):
                x, a = states[u, r], actions[u, r]
                if u > t:
                    weight *= ratios[r, x, a]
                total += weight * rewards[x, a]
                weight *= discount
                if weight == 0.0 or terminal[following[u, r]]:
                    break
            targets[t, r] = total + weight * v[r, following[u, r]]
    return targets


@numba.njit(nogil=True, cache=True)
def _move(
    q: np.ndarray,
    targets: np.ndarray,
    states: np.ndarray,
    actions: np.ndarray,
    learning_rate: float,
) -> None:
    length, streams = states.shape
    for r in range(streams):
        for t in range(length):
            x, a = states[t, r], actions[t, r]
            q[r, x, a] += learning_rate * (targets[t, r] - q[r, x, a])


@numba.njit(nogil=True, cache=True)
def _move_by_mean(
    q: np.ndarray,
    targets: np.ndarray,
    states: np.ndarray,
    actions: np.ndarray,
    learning_rate: float,
) -> None:
    length, streams = states.shape
    for r in range(streams):
        total, count = np.zeros(q.shape[1:]), np.zeros(q.shape[1:])
        for t in range(length):
            total[states[t, r], actions[t, r]] += targets[t, r]
            count[states[t, r], actions[t, r]] += 1.0
        for x, a in np.ndindex(count.shape):
            if count[x, a] > 0.0:
                q[r, x, a] += learning_rate * (total[x, a] / count[x, a] - q[r, x, a])
