"""Compiled loops of the ReF-ER memory: the backward recursion, the far-policy count, copying of minibatches.

Arrays are taken out of their tuples before a loop, because each access inside it would count references, which doubles
the time. Divisions do not check for 0 (`error_model`): the check costs more than the division, and no divisor here can
be 0. A step is identified by its serial number since the start of the run and stored in row `serial % capacity`. An
episode may wrap from the last row to the first; every loop handles this with a modulo or a comparison.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

ZERO: Any = np.float32(0.0)
ONE: Any = np.float32(1.0)

REWARD, RHO, VALUE, ADVANTAGE, V_TBC = range(5)
"""Columns of `Steps.numbers`."""


class Steps(NamedTuple):
    """One row per step, N rows; fields that are read together are adjacent, since sampled steps are scattered."""

    vectors: np.ndarray
    """float32 [N, S + 3 A]: state, action, and the behaviour's mean and std."""
    numbers: np.ndarray
    """float32 [N, 5]: reward, latest ratio, latest value, latest advantage, V_tbc."""
    slot: np.ndarray
    """int32 [N]: slot of the step's episode in `Episodes`; -1 where no step is stored."""


class Episodes(NamedTuple):
    """One slot per episode."""

    start: np.ndarray
    """int64 [N]: serial number of the first step."""
    length: np.ndarray
    """int64 [N]: number of steps."""
    last_value: np.ndarray
    """float32 [N]: 0 if terminated, else the value of the last state."""
    terminated: np.ndarray
    """bool [N]: whether the last state is terminal; False where a time limit cut the episode."""
    last_state: np.ndarray
    """float32 [N, S]: state after the last action."""


class Far(NamedTuple):
    """The far-policy count and the steps that the next small decrease of c_max may add to it."""

    counts: np.ndarray
    """int64 [2]: number of far steps; number of rows in `edge`."""
    edge: np.ndarray
    """int32 [N]: rows whose ratio is near-policy for c_max and far-policy for `low`, in any order."""


@numba.njit(cache=True, error_model="numpy")
def is_far(rho: float, c_max: float) -> bool:
    """Returns whether a ratio is outside the open interval (1 / c_max, c_max), compared in float64."""
    return not (1.0 / c_max < rho < c_max)


@numba.njit(cache=True, error_model="numpy", fastmath={"contract"})
def corrected(value: float, advantage: float, rho: float, reward: float, next_v_tbc: float, discount: float) -> float:
    """Returns V_tbc of Eq. 7; terms without `next_v_tbc` come first, so that the dependency between steps is short.

    `contract` turns this dependency into one fused multiply-add with one rounding wherever it is called, which halves
    the time. With an advantage of 0 the result is bit-identical to Eq. 8.
    """
    weight = rho if rho < ONE else ONE
    return (value + weight * ((reward - value) - advantage)) + (weight * discount) * next_v_tbc


@numba.njit(cache=True, error_model="numpy")
def recompute_all(steps: Steps, episodes: Episodes, head: int, tail: int, discount: float, inverse: float) -> None:
    """Computes Eq. 7 backward over all steps from serial number `head` up to, but not including, `tail`."""
    numbers, slots, capacity = steps.numbers, steps.slot, steps.slot.size
    starts, lengths, last_values = episodes.start, episodes.length, episodes.last_value
    for serial in range(tail - 1, head - 1, -1):
        row = serial % capacity
        slot = slots[row]
        if serial == starts[slot] + lengths[slot] - 1:
            next_v_tbc = last_values[slot]
        else:
            next_v_tbc = numbers[(serial + 1) % capacity, V_TBC]
        reward = numbers[row, REWARD] * inverse
        value, advantage, rho = numbers[row, VALUE], numbers[row, ADVANTAGE], numbers[row, RHO]
        numbers[row, V_TBC] = corrected(value, advantage, rho, reward, next_v_tbc, discount)


@numba.njit(cache=True, error_model="numpy")
def enter(row: int, rho: float, far_policy: Far, c_max: float, low: float) -> None:
    """Adds the ratio that is stored in `row` to the count or to the edge."""
    if is_far(rho, c_max):
        far_policy.counts[0] += 1
    elif is_far(rho, low):
        far_policy.edge[far_policy.counts[1]] = row
        far_policy.counts[1] += 1


@numba.njit(cache=True, error_model="numpy")
def leave(row: int, rho: float, far_policy: Far, c_max: float, low: float) -> None:
    """Undoes `enter` for the same ratio."""
    if is_far(rho, c_max):
        far_policy.counts[0] -= 1
    elif is_far(rho, low):
        index = 0
        while far_policy.edge[index] != row:
            index += 1
        far_policy.counts[1] -= 1
        far_policy.edge[index] = far_policy.edge[far_policy.counts[1]]


@numba.njit(cache=True, error_model="numpy")
def enter_all(steps: Steps, head: int, tail: int, far_policy: Far, c_max: float, low: float) -> None:
    """Calls `enter` for all steps from serial number `head` up to, but not including, `tail`."""
    numbers, capacity = steps.numbers, steps.slot.size
    for serial in range(head, tail):
        row = serial % capacity
        enter(row, numbers[row, RHO], far_policy, c_max, low)


@numba.njit(cache=True, error_model="numpy")
def leave_all(steps: Steps, head: int, tail: int, far_policy: Far, c_max: float, low: float) -> None:
    """Calls `leave` for all steps from serial number `head` up to, but not including, `tail`."""
    numbers, capacity = steps.numbers, steps.slot.size
    for serial in range(head, tail):
        row = serial % capacity
        leave(row, numbers[row, RHO], far_policy, c_max, low)


@numba.njit(cache=True, error_model="numpy")
def lower_c_max(steps: Steps, far_policy: Far, c_max: float) -> None:
    """Moves the steps of the edge that are far-policy for the new, lower `c_max` to the count."""
    count = 0
    for index in range(far_policy.counts[1]):
        row = far_policy.edge[index]
        if is_far(steps.numbers[row, RHO], c_max):
            far_policy.counts[0] += 1
        else:
            far_policy.edge[count] = row
            count += 1
    far_policy.counts[1] = count


@numba.njit(cache=True, error_model="numpy")
def first_outside(indices: np.ndarray, head: int, tail: int) -> int:
    """Returns the position of the first index outside [head, tail), or the number of indices if there is none."""
    index = 0
    while index < indices.size and head <= indices[index] < tail:
        index += 1
    return index


@numba.njit(cache=True, error_model="numpy")
def first_bad_ratio(rho: np.ndarray) -> int:
    """Returns the position of the first ratio that is negative or NaN, or the number of ratios if there is none."""
    index = 0
    while index < rho.size and rho[index] >= 0.0:
        index += 1
    return index


@numba.njit(cache=True, error_model="numpy")
def update(
    indices: np.ndarray,
    ordered: np.ndarray,
    rho: np.ndarray,
    value: np.ndarray,
    advantage: np.ndarray,
    steps: Steps,
    episodes: Episodes,
    far_policy: Far,
    c_max: float,
    low: float,
    discount: float,
    inverse: float,
) -> None:
    """Writes ratios, values and advantages of sampled steps in the order of the batch, and corrects every V_tbc.

    V_tbc of a step depends on the steps that follow it, so one pass from the last sampled step to the first suffices.
    The pass leaves an episode as soon as a stored float32 V_tbc does not change: then no earlier one changes either, up
    to the next sampled step.

    Args:
        indices: serial numbers of the sampled steps, int64 [B].
        ordered: the same serial numbers in ascending order.
        rho, value, advantage: new numbers of these steps, float32 [B].
        steps, episodes, far_policy: memory to update.
        c_max, low: current bound of near-policy ratios, and its value at the lower end of the edge.
        discount: gamma.
        inverse: inverse of the reward scale.
    """
    numbers, slots, capacity = steps.numbers, steps.slot, steps.slot.size
    starts, lengths, last_values = episodes.start, episodes.length, episodes.last_value
    for index in range(indices.size):
        row = indices[index] % capacity
        leave(row, numbers[row, RHO], far_policy, c_max, low)
        enter(row, rho[index], far_policy, c_max, low)
        numbers[row, RHO] = rho[index]
        numbers[row, VALUE] = value[index]
        numbers[row, ADVANTAGE] = advantage[index]
    done = ordered[-1] + 1  # every sampled step with this serial number or a higher one is corrected
    for index in range(ordered.size - 1, -1, -1):
        serial = ordered[index]
        if serial >= done:
            continue
        row = serial % capacity
        slot = slots[row]
        first = starts[slot]
        if serial == first + lengths[slot] - 1:
            v_tbc = last_values[slot]
        else:
            v_tbc = numbers[(serial + 1) % capacity, V_TBC]
        done = first
        while serial >= first:
            reward = numbers[row, REWARD] * inverse
            value_t, advantage_t, rho_t = numbers[row, VALUE], numbers[row, ADVANTAGE], numbers[row, RHO]
            v_tbc = corrected(value_t, advantage_t, rho_t, reward, v_tbc, discount)
            if v_tbc == numbers[row, V_TBC]:
                done = serial
                break
            numbers[row, V_TBC] = v_tbc
            serial -= 1
            row = row - 1 if row > 0 else capacity - 1


@numba.njit(cache=True, error_model="numpy")
def where_cut(indices: np.ndarray, steps: Steps, episodes: Episodes) -> np.ndarray:
    """Returns for each step whether a time limit cut its episode right after it, bool [B]."""
    found = np.zeros(indices.size, np.bool_)
    for index in range(indices.size):
        slot = steps.slot[indices[index] % steps.slot.size]
        is_last = indices[index] == episodes.start[slot] + episodes.length[slot] - 1
        found[index] = is_last and not episodes.terminated[slot]
    return found


@numba.njit(cache=True, error_model="numpy")
def gather(
    indices: np.ndarray,
    steps: Steps,
    episodes: Episodes,
    discount: float,
    inverse: float,
    vectors: np.ndarray,
    next_state: np.ndarray,
    numbers: np.ndarray,
) -> None:
    """Copies sampled steps; `numbers` [4, B] receives the scaled reward, the discount, Q_ret and V_tbc.

    Rows of `Steps.vectors` are copied whole and split by the caller: a loop for each of their short parts would take
    longer than everything else here.
    """
    capacity, width, states = steps.slot.size, vectors.shape[1], next_state.shape[1]
    for index in range(indices.size):
        row = indices[index] % capacity
        for i in range(width):
            vectors[index, i] = steps.vectors[row, i]
        slot = steps.slot[row]
        reward = steps.numbers[row, REWARD] * inverse
        step_discount = discount
        if indices[index] == episodes.start[slot] + episodes.length[slot] - 1:
            next_v_tbc = episodes.last_value[slot]
            if episodes.terminated[slot]:
                step_discount = ZERO
            for i in range(states):
                next_state[index, i] = episodes.last_state[slot, i]
        else:
            following = row + 1 if row + 1 < capacity else 0
            next_v_tbc = steps.numbers[following, V_TBC]
            for i in range(states):
                next_state[index, i] = steps.vectors[following, i]
        numbers[0, index] = reward
        numbers[1, index] = step_discount
        numbers[2, index] = reward + discount * next_v_tbc
        numbers[3, index] = steps.numbers[row, V_TBC]


@numba.njit(cache=True, error_model="numpy")
def gather_windows(
    indices: np.ndarray, steps: Steps, episodes: Episodes, states: np.ndarray, lengths: np.ndarray
) -> None:
    """Copies up to W states of an episode, ending with the sampled one, to the end of `states` [B, W, S].

    The entries before them are set to 0. `lengths`, int32 [B], receives the number of states copied.
    """
    capacity, longest, entries = steps.slot.size, states.shape[1], states.shape[2]
    for index in range(indices.size):
        row = indices[index] % capacity
        length = min(longest, indices[index] - episodes.start[steps.slot[row]] + 1)
        lengths[index] = length
        for t in range(longest - 1, -1, -1):
            if t >= longest - length:
                for i in range(entries):
                    states[index, t, i] = steps.vectors[row, i]
                row = row - 1 if row > 0 else capacity - 1
            else:
                for i in range(entries):
                    states[index, t, i] = ZERO


@numba.njit(cache=True, error_model="numpy")
def sum_of_squares(steps: Steps, head: int, tail: int) -> float:
    """Returns the sum of squared rewards, added in float64 from the oldest step on."""
    total, numbers, capacity = 0.0, steps.numbers, steps.slot.size
    for serial in range(head, tail):
        reward: Any = np.float64(numbers[serial % capacity, REWARD])
        total += reward * reward
    return total
