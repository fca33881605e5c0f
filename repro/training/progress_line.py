"""The line that shows how far a run is: redrawn in place on a terminal, plain lines elsewhere."""

from __future__ import annotations

import datetime
import math
import sys
import time
from collections import deque
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from repro.amounts import short

SECONDS_BETWEEN_DRAWINGS = 0.5

SECONDS_BETWEEN_LINES = 30.0
"""Seconds between two lines where the output is not a terminal."""

BAR_COLUMNS = 100
"""A narrower terminal shows no bar, so that more of the text fits."""

LABEL_COLUMNS = 20
"""Least room for a label; a longer one is cut where it would leave less than `TEXT_COLUMNS` for the text."""

TEXT_COLUMNS = 54
"""Room for count, time left and return."""

LONGEST_SECONDS = 30 * 365.25 * 86400.0
"""Longest time left that is shown as such."""

RATE_POINTS = 60
"""Number of drawings or lines over which the rate is measured; before there are as many, it is measured since the first
update, before which a run compiles."""


class ProgressLine:
    """A line with label, percentage, bar, count, time left, rate, and a text of the caller, on standard error.

    On a terminal, other output of the process appears above the line, which is cut at the terminal's width; if there is
    no room for a bar, the rate comes last.

    Args:
        label: name of what is going on.
        total: count at the end, above 0.
        unit: unit of the count, in the plural.
        start: where the count begins.
    """

    def __init__(self, label: str, total: int, unit: str, start: int = 0) -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._text: Callable[[], str] = str
        self._points: deque[tuple[float, int]] = deque(maxlen=RATE_POINTS)  # seconds, count
        self._newest = self._shown = (time.monotonic(), start)
        self._is_open = True
        console = Console(stderr=True)
        self._is_narrow = console.is_interactive and console.width < BAR_COLUMNS
        self._bar = make_bar(console) if console.is_interactive else None
        if self._bar is not None:
            self._task = self._bar.add_task(label, total=total, completed=start, text="")
            self._bar.start()

    def update(self, count: int, text: Callable[[], str]) -> None:
        """Sets count and text; they are shown, and the text is made, only if the last drawing or line is old enough."""
        self._newest, self._text = (time.monotonic(), count), text
        if not self._points:
            self._points.append(self._newest)
        interval = SECONDS_BETWEEN_LINES if self._bar is None else SECONDS_BETWEEN_DRAWINGS
        if self._newest[0] - self._shown[0] >= interval:
            self._show()

    def close(self) -> None:
        """Shows the last state and ends the line; a second call does nothing."""
        if not self._is_open:
            return
        self._is_open = False
        if self._newest != self._shown:
            self._show()
        if self._bar is not None:
            self._bar.stop()

    def _show(self) -> None:
        (before, count_before), (now, count) = self._points[0], self._newest
        self._points.append(self._newest)
        self._shown = self._newest
        rate = (count - count_before) / (now - before) if now > before else 0.0
        counted = f"{short(count)}/{short(self._total)} {self._unit}, {_time_left(self._total - count, rate)} left"
        speed = f"{short(rate)} {self._unit}/s" if now > before else ""
        parts = (counted, self._text(), speed) if self._is_narrow else (counted, speed, self._text())
        line = ", ".join(filter(None, parts))
        if self._bar is None:
            print(f"{self._label} {count / self._total:4.0%}  {line}", file=sys.stderr, flush=True)
        else:
            self._bar.update(self._task, completed=count, text=line, refresh=True)


def _time_left(count: int, rate: float) -> str:
    """Returns the time that a count takes at a rate in 1/s, such as `1 day, 2:03:04`."""
    if not rate:
        return "unknown time" if count > 0 else "0:00:00"
    seconds = count / rate
    return str(datetime.timedelta(seconds=round(seconds))) if seconds < LONGEST_SECONDS else "over 30 years"


def format_score(value: float, size: float | None = None) -> str:
    """Returns a score without an exponent, with at least three digits, and with at least one decimal below 1000.

    Args:
        value: finite.
        size: magnitude that decides the number of digits, at least 0; that of `value` if not given.
    """
    size = abs(value) if size is None else size
    if size >= 1000:
        return f"{value:.0f}"
    return f"{value:.{1 if size >= 10 or size == 0 else min(2 - math.floor(math.log10(size)), 9)}f}"


def make_bar(console: Console) -> Progress:
    """Returns a display of lines with a percentage, a bar and the field `text`; label and text are cut if needed."""
    one_line = Column(no_wrap=True)
    bar = (BarColumn(12, table_column=one_line),) if console.width >= BAR_COLUMNS else ()
    others = TEXT_COLUMNS + len("  83% ") + (13 if bar else 0)
    label = Column(no_wrap=True, overflow="ellipsis", max_width=max(LABEL_COLUMNS, console.width - others))
    return Progress(
        TextColumn("{task.description}", markup=False, table_column=label),
        TextColumn("{task.percentage:3.0f}%", markup=False, table_column=one_line),
        *bar,
        TextColumn(
            "{task.fields[text]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)
        ),
        console=console,
        auto_refresh=False,
        expand=True,
    )
