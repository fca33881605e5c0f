"""Checks of settings that are numbers or names, made before any arithmetic, without TensorFlow."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Collection
from typing import Any


def assert_in(operator: str, interval: str, **settings: Any) -> None:
    """Asserts that every setting that is a Python number lies in an interval.

    None and tensors, which metagradients need, are not checked: a check of tensors would add nodes to a graph.

    Args:
        operator: name of the caller, the first word of the message.
        interval: in mathematical notation: "[0, 1)" includes 0 but not 1, "(0, inf]" includes infinity.
        **settings: values by the name of the caller's argument.

    Raises:
        ValueError: a number, or NaN, lies outside; names the operator, the argument, the interval and the value.
    """
    low, high, *closed = _parse(interval)
    for name, x in settings.items():
        if isinstance(x, numbers.Real) and not (low < float(x) < high or float(x) in closed):
            raise ValueError(f"{operator}: {name} must lie in {interval}, got {x}")


def assert_one_of(operator: str, names: Collection[str], **settings: str) -> None:
    """Asserts that every setting is one of the allowed names.

    Args:
        operator: name of the caller, the first word of the message.
        names: the allowed names.
        **settings: values by the name of the caller's argument.

    Raises:
        ValueError: a setting is none of them; names the operator, the argument, the allowed names and the value.
    """
    for setting, x in settings.items():
        if x not in names:
            raise ValueError(f"{operator}: {setting} must be one of {', '.join(names)}, got {x!r}")


@functools.cache
def _parse(interval: str) -> tuple[float, ...]:
    """Returns the lower and the upper bound, followed by the bounds that belong to the interval."""
    low, high = (float(bound) for bound in interval[1:-1].split(","))
    return low, high, *[low] * (interval[0] == "["), *[high] * (interval[-1] == "]")
