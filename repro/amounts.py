"""Numbers of steps and frames as people say them."""

from __future__ import annotations

import math


def short(number: float, letters: str = "kMG", *, padded: bool = True) -> str:
    """Returns three digits of a number of at least 0, with a letter for thousands, millions or 10^9: `1.25M`.

    Args:
        number: what was counted, or a rate.
        letters: for thousands, millions and 10^9.
        padded: whether zeros fill up the digits beside a letter: `1.00M`, or `1M`.
    """
    digits = "#.3g" if padded else ".3g"
    for size, letter in zip((1e9, 1e6, 1e3), reversed(letters)):
        if 0.9995 * size <= number < math.inf:  # what is rounded to 1000 takes the next letter
            scaled = number / size
            return (f"{scaled:.0f}" if scaled >= 999.5 else f"{scaled:{digits}}".removesuffix(".")) + letter
    return f"{number:.3g}"
