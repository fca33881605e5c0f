"""Progress bars of jobs."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


def make_bars(console: Console) -> Progress:
    """Returns an empty display of progress bars, to which each job adds a bar with total 1."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
        console=console,
    )
