"""Checks of settings that are numbers or names, made before any arithmetic. TensorFlow is not needed."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Collection
from typing import Any


def assert_in(operator: str, interval: str, **settings: Any) -> None:
    """Asserts that every setting that is a Python number lies in an interval.

    Tensors, as metagradients need them, and None are not checked: that would add nodes to a graph.

    Args:
        operator: name of the caller, the first word of the message.
        interval: as mathematics writes it: "[0, 1)" has 0 and not 1, "(0, inf]" has infinity.
        **settings: by the name of the caller's argument.

    Raises:
        ValueError: naming the operator, the argument, the interval and the value; also for NaN.
    """
    low, high, *closed = _parse(interval)
    for name, x in settings.items():
        if isinstance(x, numbers.Real) and not (low < float(x) < high or float(x) in closed):
            raise ValueError(f"{operator}: {name} must lie in {interval}, got {x}")


def assert_one_of(operator: str, names: Collection[str], **settings: str) -> None:
    """Asserts that every setting is one of some names.

    Args:
        operator: name of the caller, the first word of the message.
        names: of which to choose.
        **settings: by the name of the caller's argument.

    Raises:
        ValueError: naming the operator, the argument, the names and the value.
    """
    for setting, x in settings.items():
        if x not in names:
            raise ValueError(f"{operator}: {setting} must be one of {', '.join(names)}, got {x!r}")


@functools.cache
def _parse(interval: str) -> tuple[float, ...]:
    """Both bounds, and then those that belong to the interval."""
    low, high = (float(bound) for bound in interval[1:-1].split(","))
    return low, high, *[low] * (interval[0] == "["), *[high] * (interval[-1] == "]")
