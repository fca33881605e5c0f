"""Finite Markov decision processes, policies on them, and exact values: C-trace, Appendix C.1.

Policies are arrays [S, A] of probabilities, action values arrays [S, A]. A terminal state has the value 0, whatever a
method estimates for it: methods do not bootstrap from it, and its own rows are 0.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

GREEDY_TOLERANCE = 1e-10
"""Smallest gain, in units of value, for which policy iteration changes an action, so that rounding causes no cycles."""


@dataclasses.dataclass(frozen=True)
class FiniteMDP:
    """A finite MDP with deterministic rewards.

    Attributes:
        transitions: P(y|x, a), [S, A, S]; terminal states lead to themselves.
        rewards: r(x, a), [S, A]; 0 in terminal states.
        discount: gamma in [0, 1).
        terminal: whether each state is terminal, bool [S].
        initial: distribution of the first state, [S]; 0 in terminal states.

    Raises:
        ValueError: shapes do not fit, rows are not distributions, the discount is outside [0, 1), or a terminal state
            has a reward or is a first state.
    """

    transitions: np.ndarray
    rewards: np.ndarray
    discount: float
    terminal: np.ndarray
    initial: np.ndarray

    def __post_init__(self) -> None:
        states, actions = self.rewards.shape
        shapes = (self.transitions.shape, self.terminal.shape, self.initial.shape)
        if shapes != ((states, actions, states), (states,), (states,)):
            raise ValueError(
                "FiniteMDP: for rewards [S, A], transitions, terminal, initial must have shapes [S, A, S], [S], [S], "
                f"got {shapes} and rewards {(states, actions)}"
            )
        for name in ("transitions", "initial"):
            rows = getattr(self, name)
            if np.any(rows < 0) or not np.allclose(rows.sum(-1), 1.0):
                raise ValueError(f"FiniteMDP: {name} must be non-negative and sum to 1")
        if not 0 <= self.discount < 1:
            raise ValueError(f"FiniteMDP: discount must be in [0, 1), got {self.discount}")
        if np.any(self.rewards[self.terminal]) or np.any(self.initial[self.terminal]):
            raise ValueError("FiniteMDP: terminal states must have reward 0 and initial probability 0")

    @property
    def num_states(self) -> int:
        return self.rewards.shape[0]

    @property
    def num_actions(self) -> int:
        return self.rewards.shape[1]

    @property
    def continuing(self) -> np.ndarray:
        """P(y|x, a) for steps that do not end the episode, [S, A, S]; other entries are 0."""
        running = ~self.terminal
        return self.transitions * running[:, None, None] * running


class Problem(NamedTuple):
    """An evaluation problem: MDP, target policy pi and behaviour policy mu, both [S, A]."""

    mdp: FiniteMDP
    pi: np.ndarray
    mu: np.ndarray


def dirichlet_uniform(num_states: int, num_actions: int, discount: float, rng: np.random.Generator) -> FiniteMDP:
    """Samples an MDP: P(.|x, a) from Dirichlet(1, .., 1), r(x, a) uniform on [-1, 1], uniform first state."""
    transitions = rng.dirichlet(np.ones(num_states), size=(num_states, num_actions))
    rewards = rng.uniform(-1.0, 1.0, size=(num_states, num_actions))
    return _without_end(transitions, rewards, discount)


def garnet(num_states: int, num_actions: int, branching: int, discount: float, rng: np.random.Generator) -> FiniteMDP:
    """Samples a garnet: each (x, a) leads to `branching` different states with equal probability.

    The reward of every step from floor(S / 10) states, sampled without replacement, is 1; all other rewards are 0.

    Raises:
        ValueError: `branching` is outside 1 to S.
    """
    if not 1 <= branching <= num_states:
        raise ValueError(f"garnet: branching must be in 1 to {num_states}, got {branching}")
    ranks = rng.random((num_states, num_actions, num_states)).argsort(-1).argsort(-1)
    rewards = np.zeros((num_states, num_actions))
    rewards[rng.choice(num_states, num_states // 10, replace=False)] = 1.0
    return _without_end((ranks < branching) / branching, rewards, discount)


def chain(num_states: int, discount: float) -> FiniteMDP:
    """The chain: action 0 goes left (the first state stays), action 1 right at a reward of -1, or 50 at the end.

    The last state is terminal; the first state is uniform over the others.

    Raises:
        ValueError: there are fewer than two states.
    """
    if num_states < 2:
        raise ValueError(f"chain: needs at least 2 states, got {num_states}")
    last = num_states - 1
    transitions = np.zeros((num_states, 2, num_states))
    for x in range(last):
        transitions[x, 0, max(x - 1, 0)] = transitions[x, 1, x + 1] = 1.0
    transitions[last, :, last] = 1.0
    rewards = np.zeros((num_states, 2))
    rewards[:last, 1] = -1.0
    rewards[last - 1, 1] = 50.0
    terminal = np.arange(num_states) == last
    return FiniteMDP(transitions, rewards, discount, terminal, ~terminal / last)


def dirichlet_policy(mdp: FiniteMDP, rng: np.random.Generator) -> np.ndarray:
    """Samples a policy, [S, A], with independent pi(.|x) from Dirichlet(1, .., 1)."""
    return rng.dirichlet(np.ones(mdp.num_actions), size=mdp.num_states)


def uniform_policy(mdp: FiniteMDP) -> np.ndarray:
    """The uniform policy, [S, A]."""
    return np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)


def random_problem(
    num_states: int, num_actions: int, discounts: tuple[float, float], rng: np.random.Generator
) -> Problem:
    """Samples a `dirichlet_uniform` MDP, with a discount uniform on an interval, and two `dirichlet_policy`."""
    mdp = dirichlet_uniform(num_states, num_actions, rng.uniform(*discounts), rng)
    return Problem(mdp, dirichlet_policy(mdp, rng), dirichlet_policy(mdp, rng))


def mix(pi: np.ndarray, mu: np.ndarray, alpha: float | np.ndarray) -> np.ndarray:
    """alpha pi + (1 - alpha) mu, the target policy of alpha-Retrace (C-trace, Algorithm 1), [S, A].

    An alpha of shape [K, 1, 1] gives K policies.
    """
    return alpha * pi + (1.0 - alpha) * mu


def greedy_policy(q: np.ndarray) -> np.ndarray:
    """The greedy policy, with equal probabilities for tied actions, [..., S, A]."""
    best = q == q.max(-1, keepdims=True)
    return best / best.sum(-1, keepdims=True)


def state_values(mdp: FiniteMDP, policy: np.ndarray) -> np.ndarray:
    """V of one policy [S, A] or of several [..., S, A], by solving the Bellman equation: [..., S]."""
    steps = np.einsum("...xa,xay->...xy", policy, mdp.continuing)
    rewards = np.einsum("...xa,xa->...x", policy, mdp.rewards)
    return np.linalg.solve(np.eye(mdp.num_states) - mdp.discount * steps, rewards[..., None])[..., 0]


def action_values(mdp: FiniteMDP, policy: np.ndarray) -> np.ndarray:
    """Q of one policy [S, A] or of several [..., S, A]: r + gamma P V, [..., S, A]."""
    following = np.einsum("xay,...y->...xa", mdp.continuing, state_values(mdp, policy))
    return mdp.rewards + mdp.discount * following


def optimal_policy(mdp: FiniteMDP) -> np.ndarray:
    """A deterministic optimal policy by policy iteration with exact evaluation, [S, A]."""
    actions = np.zeros(mdp.num_states, int)
    states = np.arange(mdp.num_states)
    while True:
        q = action_values(mdp, np.eye(mdp.num_actions)[actions])
        gains = q.max(-1) - q[states, actions]
        if np.all(gains <= GREEDY_TOLERANCE):
            return np.eye(mdp.num_actions)[actions]
        actions = np.where(gains > GREEDY_TOLERANCE, q.argmax(-1), actions)


def _without_end(transitions: np.ndarray, rewards: np.ndarray, discount: float) -> FiniteMDP:
    num_states = len(rewards)
    return FiniteMDP(transitions, rewards, discount, np.zeros(num_states, bool), np.full(num_states, 1.0 / num_states))
