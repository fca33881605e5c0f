"""Short forms of numbers of steps and frames."""

from __future__ import annotations

import math


def short(number: float, letters: str = "kMG", *, padded: bool = True) -> str:
    """Returns a number with three significant digits and a letter for thousands, millions or 10^9, such as `1.25M`.

    Args:
        number: a count or a rate, 0 or more.
        letters: letters for thousands, millions and 10^9.
        padded: whether zeros fill up three digits before a letter, as in `1.00M` instead of `1M`.
    """
    digits = "#.3g" if padded else ".3g"
    for size, letter in zip((1e9, 1e6, 1e3), reversed(letters)):
        if 0.9995 * size <= number < math.inf:  # a number that rounds to 1000 takes the next letter
            scaled = number / size
            return (f"{scaled:.0f}" if scaled >= 999.5 else f"{scaled:{digits}}".removesuffix(".")) + letter
    return f"{number:.3g}"
