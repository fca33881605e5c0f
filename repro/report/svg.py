"""Parts that the page's charts share. Colours come from the page's CSS."""

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape


def chart(width: float, height: float, title: str, parts: Iterable[str]) -> Markup:
    """Returns an `<svg>` element.

    Args:
        width, height: of its coordinates; the page scales it.
        title: what it shows, read out by screen readers.
        parts: elements, later ones on top.
    """
    box = f"0 0 {width:g} {height:g}"
    return Markup(f'<svg viewBox="{box}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>')


def text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "axis") -> str:
    """A text; `anchor` says which of its ends, or `middle`, stands at x."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def polyline(points: Iterable[tuple[float, float]], kind: str, name: str) -> str:
    """A line through points, named for whoever points at it."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{path}"><title>{escape(name)}</title></polyline>'


def polygon(points: Iterable[tuple[float, float]], kind: str, name: str) -> str:
    """A filled area."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polygon class="{kind}" points="{path}"><title>{escape(name)}</title></polygon>'


def rectangle(x: float, y: float, width: float, height: float, kind: str, name: str) -> str:
    """A bar; a width below 0 reaches to the left of x."""
    left = min(x, x + width)
    place = f'x="{left:.1f}" y="{y:.1f}" width="{abs(width):.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" {place}><title>{escape(name)}</title></rect>'


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Returns at most `most` multiples of a round step (1, 2 or 5 times a power of ten) in [low, high]."""
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) + 0.0 for i in range(first, last + 1)]


def log_ticks(low: float, high: float, unit: float) -> list[float]:
    """Returns 0 and the powers of ten times `unit` and their negatives that lie in [low, high]."""
    powers: Sequence[float] = [unit * 10**i for i in range(9)]
    return [x for x in (*(-p for p in reversed(powers)), 0.0, *powers) if low <= x <= high]
