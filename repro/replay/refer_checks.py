"""Checks of the ReF-ER memory's arguments and of its invariants."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from repro.replay import refer_kernels as kernels


class Fields(NamedTuple):
    """Views of the columns of `Steps`, by name."""

    state: np.ndarray
    action: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    reward: np.ndarray
    rho: np.ndarray
    value: np.ndarray
    advantage: np.ndarray
    v_tbc: np.ndarray


def as_float32(method: str, name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns `array` as contiguous float32 of exactly `shape`.

    Args:
        method: name of the calling method, for the message.
        name: name of the method's argument, for the message.
        array: anything that NumPy can convert.
        shape: shape that the array must have; nothing is broadcast.

    Raises:
        ValueError: the array has another shape.
    """
    found = np.ascontiguousarray(array, np.float32)
    if np.shape(array) != shape:
        raise ValueError(f"ReferMemory.{method}: {name} must have shape {shape}, got {np.shape(array)}.")
    return found


def as_finite_float32(method: str, name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns `array` as `as_float32` does, and checks that every entry is finite in float32.

    Raises:
        ValueError: the array has another shape, or an entry is NaN or infinite.
    """
    found = as_float32(method, name, array, shape)
    finite = np.isfinite(found)
    if not finite.all():
        index = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise ValueError(f"ReferMemory.{method}: {name} must be finite, but entry {list(index)} is {found[index]}.")
    return found


def as_serials(method: str, indices: np.ndarray, head: int, tail: int) -> np.ndarray:
    """Returns the serial numbers of sampled steps as contiguous int64 [B].

    Args:
        method: name of the calling method, for the message.
        indices: integers of rank 1, one or more.
        head: serial number of the oldest stored step.
        tail: serial number of the next step to be stored.

    Raises:
        ValueError: the indices have another rank or type, none is given, or one is not of a stored step.
    """
    if np.ndim(indices) != 1 or not np.size(indices) or not np.issubdtype(np.asarray(indices).dtype, np.integer):
        raise ValueError(
            f"ReferMemory.{method}: indices must be integers of shape [B], got "
            f"{np.asarray(indices).dtype} of shape {np.shape(indices)}."
        )
    serials = np.ascontiguousarray(indices, np.int64)
    index = kernels.first_outside(serials, head, tail)
    if index < serials.size:
        raise ValueError(
            f"ReferMemory.{method}: step {serials[index]} is not in the memory, which holds steps {head} to {tail - 1}."
        )
    return serials


def broken_episodes(
    steps: kernels.Steps, episodes: kernels.Episodes, head: int, tail: int, count: int, free: np.ndarray, longest: int
) -> str | None:
    """Returns the first broken invariant of how the ring holds the episodes, or None.

    Args:
        steps: rows of the steps.
        episodes: slots of the episodes.
        head: serial number of the oldest stored step.
        tail: serial number of the next step to be stored.
        count: number of stored episodes.
        free: slots that are not in use.
        longest: maximum number of steps of an episode.
    """
    capacity = steps.slot.size
    if not 0 <= tail - head <= capacity:
        return f"{tail - head} steps are stored in a capacity of {capacity}"
    used, serial = [], head
    while serial < tail:
        slot = int(steps.slot[serial % capacity])
        if not 0 <= slot < capacity:
            return f"step {serial} has no episode"
        start, length = int(episodes.start[slot]), int(episodes.length[slot])
        if start != serial:
            return f"the episode of step {serial} says that it starts at {start}"
        if not 1 <= length <= min(longest, tail - serial):
            return f"the episode that starts at step {serial} says that it has {length} steps"
        if np.any(steps.slot[np.arange(serial, serial + length) % capacity] != slot):
            return f"a step of the episode that starts at step {serial} belongs to another"
        if episodes.terminated[slot] and episodes.last_value[slot] != 0.0:
            return f"the episode that starts at step {serial} terminated, but its last value is not 0"
        used.append(slot)
        serial += length
    if len(used) != count:
        return f"{len(used)} episodes are stored, but {count} are counted"
    if not np.array_equal(np.sort([*used, *free]), np.arange(capacity)):
        return "used and free slots together are not all slots, each once"
    return None


def broken_numbers(fields: Fields, episodes: kernels.Episodes, rows: np.ndarray, slots: np.ndarray) -> str | None:
    """Returns the first field with an entry outside its range, or None.

    Args:
        fields: rows of the steps, by field.
        episodes: slots of the episodes.
        rows: rows in use, oldest first.
        slots: slots in use, oldest first.
    """
    for name in ("state", "action", "mean", "std", "reward", "value", "advantage"):
        if not np.isfinite(getattr(fields, name)[rows]).all():
            return f"{name} holds an entry that is not finite"
    for name in ("last_state", "last_value"):
        if not np.isfinite(getattr(episodes, name)[slots]).all():
            return f"{name} holds an entry that is not finite"
    if not np.all(fields.std[rows] > 0.0):
        return "std holds an entry that is not greater than 0"
    if not np.all(fields.rho[rows] >= 0.0):
        return "rho holds an entry that is negative or NaN"
    return None


def broken_far_policy(
    ratios: np.ndarray, far_policy: kernels.Far, rows: np.ndarray, c_max: float, low: float
) -> str | None:
    """Returns what is wrong with the far-policy count or its edge, or None.

    Args:
        ratios: stored ratios, one for each of `rows`.
        far_policy: far-policy count and edge.
        rows: rows in use.
        c_max: current bound of near-policy ratios.
        low: the c_max at the lower end of the edge.
    """
    rho = ratios.astype(np.float64)
    is_far, is_far_for_low = (~((1.0 / bound < rho) & (rho < bound)) for bound in (c_max, low))
    if far_policy.counts[0] != np.count_nonzero(is_far):
        return f"{far_policy.counts[0]} far steps are counted, but there are {np.count_nonzero(is_far)}"
    if not np.array_equal(np.sort(far_policy.edge[: far_policy.counts[1]]), np.sort(rows[is_far_for_low & ~is_far])):
        return "the edge does not hold the near steps that are far for its lower end"
    return None
