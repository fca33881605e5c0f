"""Compiled loops of the ReF-ER memory: the backward recursion, the far-policy count, copying of minibatches.

Arrays are taken out of their tuples before a loop: inside it, each access would count references, at twice the time.
Divisions do not check for 0 (`error_model`): the check costs more than the division, and no divisor here can be 0.
A step is known by its serial number since the start of the run; it lies in row `serial % capacity`. An episode may
run over the last row into the first, which every loop here handles by a comparison.
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
    """One row per step, N rows. What is used together lies together: sampled steps are scattered over the memory."""

    vectors: np.ndarray
    """float32 [N, S + 3 A]: state, action, and the behaviour's mean and standard deviation."""
    numbers: np.ndarray
    """float32 [N, 5]: reward, latest ratio, latest value, latest advantage, V_tbc."""
    slot: np.ndarray
    """int32 [N]: where the step's episode is described; -1 where no step is stored."""


class Episodes(NamedTuple):
    """One slot per episode."""

    start: np.ndarray
    """int64: serial number of the first step."""
    length: np.ndarray
    """int64: number of steps."""
    last_value: np.ndarray
    """float32: 0 if terminated, else the value of the last state."""
    terminated: np.ndarray
    last_state: np.ndarray


class Far(NamedTuple):
    """The far-policy count and the steps that the next small decrease of c_max may add to it."""

    counts: np.ndarray
    """int64 [2]: number of far steps; number of rows in `edge`."""
    edge: np.ndarray
    """int32 [N]: rows whose ratio is near for c_max and far for `low`, in any order."""


@numba.njit(cache=True, error_model="numpy")
def is_far(rho: float, c_max: float) -> bool:
    """Whether a ratio is outside the open interval (1 / c_max, c_max); both are compared in float64."""
    return not (1.0 / c_max < rho < c_max)


@numba.njit(cache=True, error_model="numpy", fastmath={"contract"})
def corrected(value: float, advantage: float, rho: float, reward: float, next_v_tbc: float, discount: float) -> float:
    """Eq. 7 with all terms that do not depend on `next_v_tbc` first, so that the chain between steps is short.

    `contract` makes it one fused multiplication and addition with one rounding, wherever this is called: half as long.
    With an advantage of 0 it is Eq. 8 to the bit.
    """
    weight = rho if rho < ONE else ONE
    return (value + weight * ((reward - value) - advantage)) + (weight * discount) * next_v_tbc


@numba.njit(cache=True, error_model="numpy")
def recompute_all(steps: Steps, episodes: Episodes, head: int, tail: int, discount: float, inverse: float) -> None:
    """Eq. 7 backward over all steps from serial number `head` up to `tail`."""
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
    """Counts a ratio that has come to `row`."""
    if is_far(rho, c_max):
        far_policy.counts[0] += 1
    elif is_far(rho, low):
        far_policy.edge[far_policy.counts[1]] = row
        far_policy.counts[1] += 1


@numba.njit(cache=True, error_model="numpy")
def leave(row: int, rho: float, far_policy: Far, c_max: float, low: float) -> None:
    """Takes back what `enter` did for the same ratio."""
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
    """Counts all steps from serial number `head` up to `tail`."""
    numbers, capacity = steps.numbers, steps.slot.size
    for serial in range(head, tail):
        row = serial % capacity
        enter(row, numbers[row, RHO], far_policy, c_max, low)


@numba.njit(cache=True, error_model="numpy")
def leave_all(steps: Steps, head: int, tail: int, far_policy: Far, c_max: float, low: float) -> None:
    """Takes all steps from serial number `head` up to `tail` out of the count."""
    numbers, capacity = steps.numbers, steps.slot.size
    for serial in range(head, tail):
        row = serial % capacity
        leave(row, numbers[row, RHO], far_policy, c_max, low)


@numba.njit(cache=True, error_model="numpy")
def lower_c_max(steps: Steps, far_policy: Far, c_max: float) -> None:
    """Moves to the far steps what lies in the edge and is far for the new, lower `c_max`."""
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
    """Position of the first index below `head` or not below `tail`; the number of indices if there is none."""
    index = 0
    while index < indices.size and head <= indices[index] < tail:
        index += 1
    return index


@numba.njit(cache=True, error_model="numpy")
def first_bad_ratio(rho: np.ndarray) -> int:
    """Position of the first ratio that is negative or NaN; the number of ratios if there is none."""
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
    """Writes ratios, values and advantages of sampled steps, in the order of the batch, and corrects V_tbc before them.

    V_tbc of a step depends on what follows it, so one pass from the last sampled step to the first does it. It leaves
    an episode as soon as a stored float32 value does not change: then no earlier one does, up to the next sampled
    step.
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
    done = ordered[-1] + 1  # every sampled step from here on is corrected
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
    """Whether a time limit cut the episode right after each step, bool [B]."""
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

    Rows of `Steps.vectors` are copied whole, and cut by the caller: a loop for each of their short parts takes longer
    than all else here.
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
    """Copies the states that end with each sampled step to the end of `states` [B, W, S], zeros before them."""
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
    """Sum of squared rewards in float64, oldest step first."""
    total, numbers, capacity = 0.0, steps.numbers, steps.slot.size
    for serial in range(head, tail):
        reward: Any = np.float64(numbers[serial % capacity, REWARD])
        total += reward * reward
    return total
