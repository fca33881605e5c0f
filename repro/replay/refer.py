"""The episode memory of ReF-ER (Novati and Koumoutsakos 2019, Sections 2 and 3, Appendices B and C).

Layout: a ring of exactly `capacity` rows. An episode of T steps takes T consecutive rows and may wrap from the last row
to the first, so nothing is copied to make room and the stored steps are always one range of serial numbers, from which
a uniform sample takes one random integer. The state after an episode's last action is stored with the episode, not in
the ring.

Units: rewards are stored as received. Values are outputs of the network and so in units of the scaled reward
r / (sigma_r + 1e-7); V_tbc and Q_ret are in the same units. A new reward scale leaves stored values and ratios as they
are, because the network that computed them did not use it, and recomputes every V_tbc from the newly scaled rewards.

The advantages A(s, a) of Appendix E are stored beside the values. They are 0 where no advantage is fitted: then Q := V,
and Eq. 7 is Eq. 8. At any time, every stored V_tbc equals exactly, in float32, the result of Eq. 7 applied backward
from the end of its episode with the stored ratios, values and advantages and the current reward scale.

The count of far-policy steps is exact for the current c_max. A small decrease of c_max visits only the edge: the
near-policy steps that are far-policy for a c_max whose distance from 1 is smaller by the fraction 1/2048. All steps are
counted again when c_max falls below it or rises. With Eq. 13 this happens at most once in about 1000 time steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from repro.aligned import aligned_empty, concatenated
from repro.replay import refer_checks as checks
from repro.replay import refer_kernels as kernels
from repro.replay.prioritised import SAMPLERS, Sampler

EPSILON = 1e-7
"""Added to the root mean square of rewards (Appendix B)."""
MARGIN = 1.0 / 2048.0
"""Width of the edge as a fraction of c_max - 1."""

_SAMPLER = "prioritised_"
"""Beginning of the names of a sampler's state."""
_PER_STEP = ("state", "action", "mean", "std", "reward", "rho", "value", "advantage")
_PER_EPISODE = ("length", "last_value", "terminated", "last_state")


class Minibatch(NamedTuple):
    """Sampled steps in contiguous float32 arrays: B steps, S state entries, A action entries."""

    state: np.ndarray
    """[B, S] s_t, not standardised."""
    action: np.ndarray
    """[B, A] a_t."""
    mean: np.ndarray
    """[B, A] mean of the behaviour at s_t."""
    std: np.ndarray
    """[B, A] std of the behaviour at s_t."""
    reward: np.ndarray
    """[B] r_{t+1} divided by the reward scale."""
    discount: np.ndarray
    """[B] gamma, or 0 for the last step of an episode that terminated."""
    next_state: np.ndarray
    """[B, S] s_{t+1}, not standardised."""
    q_ret: np.ndarray
    """[B] r_{t+1} + gamma V_tbc(t+1), with the scaled reward."""
    v_tbc: np.ndarray
    """[B] V_tbc(t) as stored."""


class Windows(NamedTuple):
    """The states of episodes up to sampled steps in contiguous arrays: B steps, W states, S state entries."""

    states: np.ndarray
    """float32 [B, W, S] s_{t-W+1} to s_t, not standardised; zeros where the episode had not begun."""
    lengths: np.ndarray
    """int32 [B], 1 to W: number of states of the episode in each window, which are its last ones."""


class ReferMemory:
    """Stores whole episodes, first in, first out, with the latest ratio, value and V_tbc of every step.

    A new episode removes whole episodes, the oldest first, until it fits into `capacity`; an episode as long as the
    capacity is then the only one stored, and a longer one is refused. Not thread-safe.

    Args:
        capacity: N, the maximum number of stored steps; 1 or more.
        state_size: S, the number of entries of a state.
        action_size: A, the number of entries of an action.
        max_episode_steps: length of the longest episode that is accepted, at most `capacity`.
        discount: gamma, from 0 to 1.
        prioritised: what `sample_prioritised` goes by, `rank` or `error`; None if it is not used. Keeping the ranks
            costs time whenever steps are added, removed or given a priority.

    Raises:
        ValueError: a size or the discount is out of its range.
    """

    def __init__(
        self,
        capacity: int,
        state_size: int,
        action_size: int,
        max_episode_steps: int,
        *,
        discount: float,
        prioritised: str | None = None,
    ) -> None:
        if min(capacity, state_size, action_size, max_episode_steps) < 1:
            raise ValueError("ReferMemory: capacity, state_size, action_size and max_episode_steps must be 1 or more.")
        if max_episode_steps > capacity:
            raise ValueError(
                f"ReferMemory: episodes of {max_episode_steps} steps do not fit into a memory of {capacity} steps."
            )
        if not 0.0 <= discount <= 1.0:
            raise ValueError(f"ReferMemory: discount must be from 0 to 1, got {discount}.")
        self._capacity = capacity
        self._max_episode_steps = max_episode_steps
        self._discount: Any = np.float32(discount)

        def rows(*shape: int) -> np.ndarray:
            return np.zeros((capacity, *shape), np.float32)

        slot = np.full(capacity, -1, np.int32)
        self._steps = kernels.Steps(rows(state_size + 3 * action_size), rows(5), slot)
        self._ends = state_size + action_size * np.arange(3)  # of state, action and mean in a row
        state, action, mean, std = np.split(self._steps.vectors, self._ends, axis=1)
        self._fields = checks.Fields(state, action, mean, std, *self._steps.numbers.T)
        start, length = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
        self._episodes = kernels.Episodes(start, length, rows(), np.zeros(capacity, np.bool_), rows(state_size))
        self._far_policy = kernels.Far(np.zeros(2, np.int64), np.zeros(capacity, np.int32))
        # A stack: slots of removed episodes are reused first, so memory grows with the most episodes stored at once.
        self._free = np.arange(capacity - 1, -1, -1, dtype=np.int32)
        self._count = 0
        self._head = self._tail = 0
        self._c_max = self._low = float("inf")
        self._scale = 1.0
        self._statistics: tuple[np.ndarray, np.ndarray] | None = None
        self._sampler: Sampler | None = None if prioritised is None else SAMPLERS[prioritised](capacity)

    @staticmethod
    def nbytes(capacity: int, state_size: int, action_size: int, prioritised: str | None = None) -> int:
        """Returns the bytes of a memory full of long episodes; short ones take more. Arguments as for the class."""
        numbers = state_size + 3 * action_size + 5 + 3  # 4-byte numbers per step
        numbers += 0 if prioritised is None else SAMPLERS[prioritised].NUMBERS
        return 4 * capacity * numbers

    def __len__(self) -> int:
        """Number of stored steps."""
        return self._tail - self._head

    @property
    def episodes(self) -> int:
        """Number of stored episodes."""
        return self._count

    @property
    def num_seen(self) -> int:
        """Number of steps of all episodes ever stored, including those that have been removed."""
        return self._tail

    @property
    def num_far_policy(self) -> int:
        """n_far, the number of stored steps whose latest ratio is outside (1 / c_max, c_max)."""
        return int(self._far_policy.counts[0])

    @property
    def far_policy_fraction(self) -> float:
        """n_far / n of Eq. 12; 0 if nothing is stored."""
        return self.num_far_policy / len(self) if len(self) else 0.0

    @property
    def c_max(self) -> float:
        """The current bound of near-policy ratios; infinite until `set_c_max` is called."""
        return self._c_max

    @property
    def reward_scale(self) -> float:
        """Divisor of rewards; 1 until the first `refresh_reward_scale`."""
        return self._scale

    def add_episode(
        self,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        means: np.ndarray,
        stds: np.ndarray,
        values: np.ndarray,
        terminated: bool,
        advantages: np.ndarray | None = None,
    ) -> None:
        """Stores one whole episode of T steps; its ratios start at 1.

        Args:
            states: [T + 1, S] s_0 to s_T, finite.
            actions: [T, A] a_0 to a_{T-1}, in the units of the behaviour's mean and std; finite.
            rewards: [T] r_1 to r_T as the environment returned them, finite.
            means: [T, A] means of the behaviour, finite.
            stds: [T, A] stds of the behaviour, greater than 0 and finite.
            values: [T + 1] V(s_0) to V(s_T) in units of the scaled reward, finite. The last one is used only where a
                time limit cut the episode.
            terminated: whether s_T is terminal and its value therefore 0; False means that a time limit cut the
                episode.
            advantages: [T] A(s_0, a_0) to A(s_{T-1}, a_{T-1}) in the same units, finite; None for 0.

        Raises:
            ValueError: an array has a wrong shape or an entry outside its range, or the episode is empty or too long.
                Nothing is stored.
        """
        given = {"states": states, "actions": actions, "rewards": rewards, "means": means, "stds": stds}
        given |= {"values": values, "advantages": np.zeros(len(actions)) if advantages is None else advantages}
        states_, actions_, rewards_, means_, stds_, values_, advantages_ = self._checked_episode(**given)
        length = rewards_.size
        while len(self) + length > self._capacity:
            self._remove_oldest()
        start, self._tail = self._tail, self._tail + length
        slot = self._free[self._capacity - 1 - self._count]
        self._count += 1
        self._episodes.start[slot] = start
        self._episodes.length[slot] = length
        self._episodes.terminated[slot] = terminated
        self._episodes.last_value[slot] = 0.0 if terminated else values_[-1]
        self._episodes.last_state[slot] = states_[-1]
        rows = self._rows(start, self._tail)
        self._fields.state[rows] = states_[:-1]
        self._fields.action[rows] = actions_
        self._fields.mean[rows] = means_
        self._fields.std[rows] = stds_
        self._fields.reward[rows] = rewards_
        self._fields.value[rows] = values_[:-1]
        self._fields.advantage[rows] = advantages_
        self._fields.rho[rows] = 1.0
        self._steps.slot[rows] = slot
        kernels.enter_all(self._steps, start, self._tail, self._far_policy, self._c_max, self._low)
        self._recompute(start)
        if self._sampler is not None:
            self._sampler.insert(rows)

    def sample(self, rng: np.random.Generator, batch: int) -> np.ndarray:
        """Samples steps uniformly, with replacement.

        Args:
            rng: random number generator.
            batch: B, 1 or more.

        Returns:
            Serial numbers of stored steps, int64 [B]; they stay valid until their episode is removed.

        Raises:
            ValueError: the memory is empty.
        """
        self._assert_not_empty("sample")
        return rng.integers(self._head, self._tail, batch)

    def sample_prioritised(
        self, rng: np.random.Generator, batch: int, alpha: float, beta: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Samples steps by their latest priority or its rank; see `repro.replay.prioritised`.

        Args:
            rng: random number generator.
            batch: B, 1 or more.
            alpha: exponent of the ranks or priorities, 0 (uniform) or more.
            beta: exponent of the importance weights, 0 (no correction) to 1 (full correction).

        Returns:
            Serial numbers as from `sample`, int64 [B], and importance weights in (0, 1], float32 [B].

        Raises:
            ValueError: the memory is empty or was made without `prioritised`.
        """
        self._assert_not_empty("sample_prioritised")
        rows, weights = self._require_sampler("sample_prioritised").sample(rng, batch, alpha, beta)
        return self._head + (rows - self._head) % self._capacity, weights

    def set_priorities(self, indices: np.ndarray, errors: np.ndarray) -> None:
        """Sets the priorities of sampled steps to the magnitudes of their errors.

        Args:
            indices: serial numbers [B] from `sample` or `sample_prioritised`; of duplicates the last counts.
            errors: temporal-difference errors [B] of either sign, finite.

        Raises:
            ValueError: an array has a wrong shape, an error is not finite, a step is no longer stored, or the memory
                was made without `prioritised`.
        """
        sampler = self._require_sampler("set_priorities")
        serials = checks.as_serials("set_priorities", indices, self._head, self._tail)
        errors_ = checks.as_finite_float32("set_priorities", "errors", errors, serials.shape)
        sampler.write(serials % self._capacity, np.abs(errors_))

    def gather(self, indices: np.ndarray) -> Minibatch:
        """Copies sampled steps with the current Q_ret and V_tbc, before `update` corrects them.

        Args:
            indices: serial numbers, int64 [B], from `sample`.

        Raises:
            ValueError: `indices` has a wrong shape, or a step is no longer stored.
        """
        serials = checks.as_serials("gather", indices, self._head, self._tail)
        batch, width = serials.size, self._steps.vectors.shape[1]
        vectors, numbers = np.empty((batch, width), np.float32), aligned_empty((4, batch), np.float32)
        next_state = aligned_empty((batch, self._fields.state.shape[1]), np.float32)
        copies = vectors, next_state, numbers
        kernels.gather(serials, self._steps, self._episodes, self._discount, self._inverse, *copies)
        state, action, mean, std = (concatenated([part]) for part in np.split(vectors, self._ends, axis=1))
        reward, discount, q_ret, v_tbc = numbers
        return Minibatch(state, action, mean, std, reward, discount, next_state, q_ret, v_tbc)

    def gather_windows(self, indices: np.ndarray, longest: int) -> Windows:
        """Copies the states of sampled steps and of up to W - 1 steps before them in the same episode.

        Args:
            indices: serial numbers, int64 [B], from `sample`.
            longest: W, 1 or more.

        Raises:
            ValueError: W is below 1, `indices` has a wrong shape, or a step is no longer stored.
        """
        if longest < 1:
            raise ValueError(f"ReferMemory.gather_windows: longest must be 1 or more, got {longest}.")
        serials = checks.as_serials("gather_windows", indices, self._head, self._tail)
        states = aligned_empty((serials.size, longest, self._fields.state.shape[1]), np.float32)
        lengths = aligned_empty((serials.size,), np.int32)
        kernels.gather_windows(serials, self._steps, self._episodes, states, lengths)
        return Windows(states, lengths)

    def update(
        self, indices: np.ndarray, rho: np.ndarray, value: np.ndarray, advantage: np.ndarray | None = None
    ) -> None:
        """Stores the network's latest outputs for sampled steps and corrects all V_tbc that depend on them (Eq. 7).

            V_tbc(t) = V(t) + min(1, rho_t) (r_{t+1} + gamma V_tbc(t+1) - V(t) - A(t))

        for the sampled steps and every earlier step of their episodes. The result is the same as that of updating the
        steps one by one in the order of the batch; of duplicates the last counts.

        Args:
            indices: serial numbers, int64 [B], from `sample`.
            rho: [B] ratios of the policy's density to the behaviour's, 0 to infinity.
            value: [B] V(s_t) in units of the scaled reward, finite.
            advantage: [B] A(s_t, a_t) in the same units, finite; None for 0.

        Raises:
            ValueError: an array has a wrong shape or an entry outside its range, or a step is no longer stored. Nothing
                is written.
        """
        serials = checks.as_serials("update", indices, self._head, self._tail)
        rho_ = checks.as_float32("update", "rho", rho, serials.shape)
        value_ = checks.as_finite_float32("update", "value", value, serials.shape)
        advantage_ = np.zeros_like(value_) if advantage is None else advantage
        advantage_ = checks.as_finite_float32("update", "advantage", advantage_, serials.shape)
        bad = kernels.first_bad_ratio(rho_)
        if bad < rho_.size:
            raise ValueError(f"ReferMemory.update: rho must be 0 or more, but entry {bad} is {rho_[bad]}.")
        kernels.update(
            serials, np.sort(serials), rho_, value_, advantage_, self._steps, self._episodes, self._far_policy,
            self._c_max, self._low, self._discount, self._inverse,
        )  # fmt: skip

    def cut_ends(self, indices: np.ndarray) -> np.ndarray:
        """Returns the sampled steps after which a time limit cut their episode: int64 [n], sorted, each once.

        Args:
            indices: serial numbers, int64 [B], from `sample`.

        Raises:
            ValueError: `indices` has a wrong shape, or a step is no longer stored.
        """
        serials = checks.as_serials("cut_ends", indices, self._head, self._tail)
        return np.unique(serials[kernels.where_cut(serials, self._steps, self._episodes)])

    def last_states(self, indices: np.ndarray) -> np.ndarray:
        """Copies the last states [n, S] of episodes.

        Args:
            indices: serial number of any step of each episode, int64 [n], n 1 or more.

        Raises:
            ValueError: `indices` has a wrong shape, or a step is no longer stored.
        """
        serials = checks.as_serials("last_states", indices, self._head, self._tail)
        return self._episodes.last_state[self._steps.slot[serials % self._capacity]]

    def update_last_values(self, indices: np.ndarray, values: np.ndarray) -> None:
        """Writes V(s_T) of episodes that a time limit cut and corrects all V_tbc that depend on it (Eq. 7).

        Args:
            indices: serial numbers, int64 [n], from `cut_ends`.
            values: [n] V(s_T) in units of the scaled reward, finite.

        Raises:
            ValueError: an array has a wrong shape or an entry outside its range, or a step is not one that `cut_ends`
                returns. Nothing is written.
        """
        serials = checks.as_serials("update_last_values", indices, self._head, self._tail)
        values_ = checks.as_finite_float32("update_last_values", "values", values, serials.shape)
        if not kernels.where_cut(serials, self._steps, self._episodes).all():
            raise ValueError("ReferMemory.update_last_values: a step is not the last of an episode that was cut.")
        rows = serials % self._capacity
        self._episodes.last_value[self._steps.slot[rows]] = values_
        self.update(serials, *(array[rows] for array in (self._fields.rho, self._fields.value, self._fields.advantage)))

    def set_c_max(self, c_max: float) -> None:
        """Sets the bound of near-policy ratios (Eq. 13); `far_policy_fraction` is exact for it afterwards.

        Args:
            c_max: bound greater than 1. A small decrease is cheap; any other change counts all steps again.

        Raises:
            ValueError: `c_max` is 1 or less, or NaN.
        """
        if not c_max > 1.0:
            raise ValueError(f"ReferMemory.set_c_max: c_max must be greater than 1, got {c_max}.")
        within_edge = self._low <= c_max <= self._c_max
        self._c_max = float(c_max)
        if within_edge:
            kernels.lower_c_max(self._steps, self._far_policy, self._c_max)
        else:
            self._count_far_policy()

    def refresh_reward_scale(self) -> None:
        """Sets the reward scale to sigma_r + 1e-7 over all stored steps (Eq. 16) and recomputes every V_tbc with it.

        If all stored rewards are 0, the scale does not change: divided by 1e-7 alone, the first reward that is not 0
        would be enormous.

        Raises:
            ValueError: the memory is empty.
        """
        self._assert_not_empty("refresh_reward_scale")
        squares = kernels.sum_of_squares(self._steps, self._head, self._tail)
        if squares > 0.0:
            self._scale = float(np.sqrt(squares / len(self))) + EPSILON
            self._recompute(self._head)

    def state_statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and std [S], float32, of the stored states without the last states (Eqs. 14 and 15).

        They are computed at the first call, which must come once N_start steps are stored, and fixed from then on.
        States are stored and gathered unchanged; the caller standardises them as (s - mean) / (std + 1e-7).

        Raises:
            ValueError: the memory is empty at the first call.
        """
        if self._statistics is None:
            self._assert_not_empty("state_statistics")
            states = self._fields.state[self._rows(self._head, self._tail)]
            mean = states.mean(axis=0, dtype=np.float64)
            std = np.sqrt(np.square(states - mean).mean(axis=0))
            self._statistics = mean.astype(np.float32), std.astype(np.float32)
        return self._statistics

    def get_state(self) -> dict[str, Any]:
        """Returns everything that `set_state` needs to continue exactly; arrays have the length of the filled part."""
        rows, slots = self._rows(self._head, self._tail), self._slots()
        state: dict[str, Any] = {name: getattr(self._fields, name)[rows] for name in _PER_STEP}
        state |= {f"episode_{name}": getattr(self._episodes, name)[slots] for name in _PER_EPISODE}
        state |= {"head": self._head, "c_max": self._c_max, "reward_scale": self._scale}
        if self._statistics is not None:
            state["state_mean"], state["state_std"] = (array.copy() for array in self._statistics)
        if self._sampler is not None:
            state |= {_SAMPLER + name: value for name, value in self._sampler.get_state(rows).items()}
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state from `get_state` of a memory that was made with the same arguments.

        Raises:
            ValueError: the state does not fit the sizes of this memory or its kind of sampling.
            RuntimeError: the state breaks an invariant (see `check_valid`).
        """
        lengths = np.asarray(state["episode_length"], np.int64)
        count, steps = lengths.size, int(lengths.sum())
        if steps > self._capacity:
            raise ValueError(f"ReferMemory.set_state: {steps} steps do not fit into a capacity of {self._capacity}.")
        sampler = {name.removeprefix(_SAMPLER): value for name, value in state.items() if name.startswith(_SAMPLER)}
        if sampler.keys() != (set() if self._sampler is None else self._sampler.get_state(np.zeros(0, int)).keys()):
            raise ValueError("ReferMemory.set_state: the state and the memory must be prioritised in the same way.")
        for prefix, names, arrays, size in (
            ("", _PER_STEP, self._fields, steps),
            ("episode_", _PER_EPISODE, self._episodes, count),
        ):
            for name in names:
                expected, found = (size, *getattr(arrays, name).shape[1:]), np.shape(state[prefix + name])
                if found != expected:
                    raise ValueError(f"ReferMemory.set_state: {prefix}{name} must be {expected}, got {found}.")
        self._head = int(state["head"])
        self._tail = self._head + steps
        self._count = count
        self._free = np.arange(self._capacity - 1, -1, -1, dtype=np.int32)
        self._scale = float(state["reward_scale"])
        self._statistics = (state["state_mean"], state["state_std"]) if "state_mean" in state else None
        rows = self._rows(self._head, self._tail)
        for name in _PER_STEP:
            getattr(self._fields, name)[rows] = state[name]
        for name in _PER_EPISODE:
            getattr(self._episodes, name)[:count] = state[f"episode_{name}"]
        self._episodes.start[:count] = self._head + np.cumsum(lengths) - lengths
        self._steps.slot[:] = -1
        self._steps.slot[rows] = np.repeat(np.arange(count), lengths)
        self._recompute(self._head)
        self._c_max = float(state["c_max"])
        self._count_far_policy()
        if self._sampler is not None:
            self._sampler.set_state(rows, sampler)
        self.check_valid()

    def check_valid(self) -> None:
        """Checks every invariant, in time proportional to the number of stored steps.

        Raises:
            RuntimeError: an invariant is broken; the message says which.
        """
        free = self._free[: self._capacity - self._count]
        where = self._head, self._tail, self._count, free, self._max_episode_steps
        broken = checks.broken_episodes(self._steps, self._episodes, *where)
        if broken is None:
            rows = self._rows(self._head, self._tail)
            broken = (
                checks.broken_numbers(self._fields, self._episodes, rows, self._slots())
                or checks.broken_far_policy(self._fields.rho[rows], self._far_policy, rows, self._c_max, self._low)
                or self._broken_values(rows)
                or (self._sampler.find_error(rows) if self._sampler is not None else None)
            )
        if broken is not None:
            raise RuntimeError(f"ReferMemory.check_valid: {broken}.")

    def _broken_values(self, rows: np.ndarray) -> str | None:
        if not 0.0 < self._scale < float("inf"):
            return f"the reward scale is {self._scale}"
        fresh = self._steps._replace(numbers=self._steps.numbers.copy())
        kernels.recompute_all(fresh, self._episodes, self._head, self._tail, self._discount, self._inverse)
        wrong = np.flatnonzero((fresh.numbers != self._steps.numbers).any(axis=1)[rows])
        return f"V_tbc of step {self._head + wrong[0]} is not that of Eq. 7" if wrong.size else None

    def _checked_episode(self, **arrays: np.ndarray) -> list[np.ndarray]:
        if np.ndim(arrays["rewards"]) != 1:
            raise ValueError(f"ReferMemory.add_episode: rewards must be [T], got shape {np.shape(arrays['rewards'])}.")
        length = len(arrays["rewards"])
        if not 1 <= length <= self._max_episode_steps:
            raise ValueError(
                f"ReferMemory.add_episode: an episode must have 1 to {self._max_episode_steps} steps, got {length}."
            )
        states, actions = self._fields.state.shape[1], self._fields.action.shape[1]
        shapes: dict[str, tuple[int, ...]] = {
            "states": (length + 1, states),
            "actions": (length, actions),
            "rewards": (length,),
            "means": (length, actions),
            "stds": (length, actions),
            "values": (length + 1,),
            "advantages": (length,),
        }
        found = {n: checks.as_finite_float32("add_episode", n, arrays[n], shape) for n, shape in shapes.items()}
        if not np.all(found["stds"] > 0.0):
            raise ValueError("ReferMemory.add_episode: stds must be greater than 0.")
        return list(found.values())

    def _remove_oldest(self) -> None:
        slot = self._steps.slot[self._head % self._capacity]
        end = self._head + int(self._episodes.length[slot])
        rows = self._rows(self._head, end)
        kernels.leave_all(self._steps, self._head, end, self._far_policy, self._c_max, self._low)
        if self._sampler is not None:
            self._sampler.remove(rows)
        self._steps.slot[rows] = -1
        self._free[self._capacity - self._count] = slot
        self._count -= 1
        self._head = end

    def _count_far_policy(self) -> None:
        self._low = 1.0 + (self._c_max - 1.0) * (1.0 - MARGIN)
        self._far_policy.counts[:] = 0
        kernels.enter_all(self._steps, self._head, self._tail, self._far_policy, self._c_max, self._low)

    def _recompute(self, start: int) -> None:
        kernels.recompute_all(self._steps, self._episodes, start, self._tail, self._discount, self._inverse)

    def _rows(self, start: int, end: int) -> np.ndarray:
        return np.arange(start, end) % self._capacity

    def _slots(self) -> np.ndarray:
        """Returns the slots of the stored episodes, oldest first."""
        slots, serial = [], self._head
        while serial < self._tail:
            slots.append(self._steps.slot[serial % self._capacity])
            serial += int(self._episodes.length[slots[-1]])
        return np.array(slots, np.int64)

    @property
    def _inverse(self) -> Any:
        return np.float32(1.0 / self._scale)

    def _assert_not_empty(self, method: str) -> None:
        if not len(self):
            raise ValueError(f"ReferMemory.{method}: the memory is empty.")

    def _require_sampler(self, method: str) -> Sampler:
        if self._sampler is None:
            raise ValueError(f"ReferMemory.{method}: the memory must be made with prioritised='rank' or 'error'.")
        return self._sampler
