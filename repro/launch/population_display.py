"""Progress of a population, a line per member, updated in place on a terminal and else printed at each comparison."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import TracebackType

from rich.console import Console

from repro.amounts import short
from repro.launch.lineage import Lineage
from repro.training.progress_line import format_score, make_bar
from repro.training.run_directory import PROGRESS, RunDirectoryError, read_progress

SECONDS_BETWEEN_DRAWINGS = 2.0


class PopulationDisplay:
    """Shows the members of a population on standard error, as a context.

    Args:
        lineage: current history of the population.
        folders: folders of the members' runs, in order.
        unit: unit of the budget, `frames` or `steps`.
    """

    def __init__(self, lineage: Lineage, folders: list[Path], unit: str) -> None:
        self._lineage = lineage
        self._folders = folders
        self._unit = unit
        self._end = threading.Event()
        console = Console(stderr=True)
        self._bars = make_bar(console) if console.is_interactive else None
        self._thread = threading.Thread(target=self._redraw, daemon=True)

    def __enter__(self) -> PopulationDisplay:
        if self._bars is not None:
            for i, _ in enumerate(self._folders):
                self._bars.add_task(f"member {i}", total=self._lineage.boundaries[-1], text="")
            self._bars.start()
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._bars is not None:
            self._end.set()
            self._thread.join()
            self._bars.stop()

    def show(self, lineage: Lineage) -> None:
        """Shows the result of a comparison."""
        self._lineage = lineage
        if self._bars is None:
            at = f"{short(lineage.boundaries[len(lineage.rounds) - 1])} {self._unit}"
            for i, _ in enumerate(self._folders):
                print(f"member {i}  {at}, {describe(lineage, i)}", file=sys.stderr, flush=True)

    def _redraw(self) -> None:
        assert self._bars is not None, "only a terminal is redrawn"
        while not self._end.wait(SECONDS_BETWEEN_DRAWINGS):
            for task, folder in zip(self._bars.tasks, self._folders, strict=True):
                try:
                    rows = read_progress(folder / PROGRESS)
                except RunDirectoryError:  # the member's training reports it
                    continue
                frames = rows[-1][f"num_env_{self._unit}"] if rows else 0
                played = f"{short(frames)}/{short(task.total or 0)} {self._unit}, "
                self._bars.update(task.id, completed=frames, text=played + describe(self._lineage, int(task.id)))
            self._bars.refresh()


def describe(lineage: Lineage, member: int) -> str:
    """Returns a line with a member's fitness, return and outcome of the last comparison, and its hyper-parameters."""
    texts = []
    if lineage.rounds:
        last = lineage.rounds[-1][member]
        texts += [f"fitness {last.fitness:.3f}"] if last.fitness is not None else []
        texts += [f"return {format_score(last.mean_return)}"] if last.mean_return is not None else []
        texts += [f"{last.episodes} episodes"]
        texts += ["diverged"] if last.diverged else []
        texts += [f"adopts member {last.parent}"] if last.parent is not None else []
    return ", ".join(texts + [f"{name} {value:.3g}" for name, value in lineage.hparams[member].items()])
