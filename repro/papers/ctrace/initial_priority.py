"""The priority with which a new sequence enters R2D2's replay, from the actor's own TD errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tf_agents.trajectories import StepType, Trajectory

from repro.ops.value_rescaling import inverse_rescale_numpy, rescale_numpy


@dataclass(frozen=True)
class InitialPriority:
    """eta max |d_s| + (1 - eta) mean |d_s| over a sequence's transitions, like the learner's (R2D2, Section 2.3).

        d_s = h(sum_{k<n} gamma^k r_{s+k} + gamma^n h^-1(max_a Q(x_{s+n}, a))) - Q(x_s, a_s)

    The values Q are those by which the actor chose its actions, so no network is evaluated again (Horgan et al., 2018,
    Section 3). Windows stop at the end of the sequence and at the end of an episode.

    Attributes:
        n: number of rewards in a full window, at least 1.
        discount: gamma.
        rescaling: epsilon of h.
        priority_of_max: eta.
        burn_in: number of rows of the burn-in, which are not learned from.
    """

    n: int
    discount: float
    rescaling: float
    priority_of_max: float
    burn_in: int

    def __call__(self, rows: Trajectory) -> float:
        """Computes the priority of one sequence.

        Args:
            rows: steps of the sequence, arrays [burn_in + T + 1, ...], with at least one transition after the burn-in.
                `policy_info` has `action_value`, Q(x, a) of the action taken, and `greedy_value`, max_a Q(x, a).
        """
        size = np.abs(self.td_errors(rows))
        live = rows.step_type[self.burn_in : -1] != StepType.LAST
        return float(self.priority_of_max * size.max() + (1.0 - self.priority_of_max) * size.sum() / live.sum())

    def td_errors(self, rows: Trajectory) -> np.ndarray:
        """Returns d_s, float64 [T]; 0 in rows that are no transition."""
        taken = slice(self.burn_in, -1)
        is_boundary = rows.step_type[taken] == StepType.LAST
        reward = rows.reward[taken].astype(np.float64)
        discount = self.discount * rows.discount[taken].astype(np.float64)
        greedy = rows.policy_info["greedy_value"][self.burn_in + 1 :].astype(np.float64)  # of x_{s+1}
        bootstrap = inverse_rescale_numpy(greedy, epsilon=self.rescaling)
        stops = np.append(is_boundary[1:], True)  # whether no further step of sequence and episode follows
        returns = bootstrap  # 0-step returns from x_{s+1}
        for k in range(self.n):
            returns = reward + discount * (np.where(stops, bootstrap, np.append(returns[1:], 0.0)) if k else bootstrap)
        rescaled = rescale_numpy(returns, epsilon=self.rescaling)
        return np.where(is_boundary, 0.0, rescaled - rows.policy_info["action_value"][taken])
