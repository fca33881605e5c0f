"""Bars that show how far jobs are."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


def make_bars(console: Console) -> Progress:
    """Returns an empty display, to which each job adds a bar of total 1."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
        console=console,
    )
