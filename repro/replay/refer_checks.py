"""What the ReF-ER memory accepts, and the invariants that it keeps."""

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
        method: the caller, named in messages.
        name: the caller's argument, named in messages.
        array: anything NumPy can convert.
        shape: what it must have; nothing is broadcast.

    Raises:
        ValueError: another shape.
    """
    found = np.ascontiguousarray(array, np.float32)
    if np.shape(array) != shape:
        raise ValueError(f"ReferMemory.{method}: {name} must have shape {shape}, got {np.shape(array)}.")
    return found


def as_finite_float32(method: str, name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """As `as_float32`, and every entry must be finite in float32.

    Raises:
        ValueError: another shape, NaN or infinity.
    """
    found = as_float32(method, name, array, shape)
    finite = np.isfinite(found)
    if not finite.all():
        index = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise ValueError(f"ReferMemory.{method}: {name} must be finite, but entry {list(index)} is {found[index]}.")
    return found


def as_serials(method: str, indices: np.ndarray, head: int, tail: int) -> np.ndarray:
    """Returns indices [B] of samples as contiguous int64.

    Args:
        method: the caller, named in messages.
        indices: integers of rank 1, one or more.
        head: serial number of the oldest stored step.
        tail: serial number that the next step will have.

    Raises:
        ValueError: another rank or kind, or an index that is not of a stored step.
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
    """First broken invariant of how episodes lie in the ring, or None.

    Args:
        steps: the rows.
        episodes: the slots.
        head: serial number of the oldest stored step.
        tail: serial number that the next step will have.
        count: episodes stored.
        free: slots that are not in use.
        longest: most steps of an episode.
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
    """First broken range of a stored number, or None.

    Args:
        fields: the rows.
        episodes: the slots.
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
    """What is wrong with the far-policy count or its edge, or None.

    Args:
        ratios: stored ratios, one for each of `rows`.
        far_policy: count and edge.
        rows: rows in use.
        c_max: the bound in force.
        low: lower end of the edge.
    """
    rho = ratios.astype(np.float64)
    is_far, is_far_for_low = (~((1.0 / bound < rho) & (rho < bound)) for bound in (c_max, low))
    if far_policy.counts[0] != np.count_nonzero(is_far):
        return f"{far_policy.counts[0]} far steps are counted, but there are {np.count_nonzero(is_far)}"
    if not np.array_equal(np.sort(far_policy.edge[: far_policy.counts[1]]), np.sort(rows[is_far_for_low & ~is_far])):
        return "the edge does not hold the near steps that are far for its lower end"
    return None
