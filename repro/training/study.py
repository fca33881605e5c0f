"""The results of a study, and how its pieces are spread over the cores."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import matplotlib
import ml_collections
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from repro.processes import end_with_parent

if TYPE_CHECKING:
    from repro.training.experiment import FindExperiment

DPI = 100
"""Resolution of the PNG files."""
PNG_COLOURS = 256
"""A palette makes a PNG file a third as large."""
POLL_SECONDS = 0.2
"""Longest time between two calls of `advance`."""

Advance = Callable[[int, int], None]
"""Called again and again with the numbers of pieces done and of all pieces; it may raise to stop the study."""


class StudyResult(NamedTuple):
    """The numbers that answer one statement of the paper.

    Attributes:
        unit: unit of the values.
        values: one value for each repetition, problem, or whatever the statement is checked on.
        protocol: how a value was obtained, in words.
        series: the numbers of the figure, `{"columns": [..], "rows": [[..], ..]}`, or None.
        interval: (low, high), the 95 % interval of the answer where `values` are bootstrap resamples; else None.
        exact: whether the mean of `values` is exact, like a number that is calculated, and has no interval.
    """

    unit: str
    values: np.ndarray
    protocol: str
    series: dict[str, Any] | None = None
    interval: tuple[float, float] | None = None
    exact: bool = False


class Study(NamedTuple):
    """What a study found.

    Attributes:
        answers: results by the name of the answer.
        steps: number of environment steps simulated; 0 if nothing is simulated.
        figure: figure of the paper, or None.
    """

    answers: dict[str, StudyResult]
    steps: int
    figure: Figure | None = None

    def save_figure(self, folder: Path) -> None:
        """Writes `figure.png` and `figure.svg`, the same bytes each time; nothing without a figure."""
        if self.figure is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        pixels = io.BytesIO()
        self.figure.savefig(pixels, format="png", dpi=DPI)
        image = Image.open(pixels).convert("RGB")
        few = image.quantize(PNG_COLOURS, kmeans=2, dither=Image.Dither.NONE)  # without kmeans pale colours turn grey
        few.save(folder / "figure.png", optimize=True)
        buffer = io.StringIO()
        with matplotlib.rc_context({"svg.hashsalt": "repro", "svg.fonttype": "none"}):
            self.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        short = re.sub(r"(\d\.\d\d)\d+(?=[^<>]*>)", r"\1", buffer.getvalue())  # hundredths of a point, not in texts
        short = re.sub(r' id="[A-Za-z0-9.]+_\d+"|<!--[^>]*-->', "", short)  # names that nothing refers to
        (folder / "figure.svg").write_text(re.sub(r"\n\s*", "\n", short))


class LostProcessError(RuntimeError):
    """A process that worked on a study was killed; the message says what to do."""


class RunStudy(Protocol):
    """A study: `run` of the module that `config.study` names."""

    def __call__(
        self,
        config: ml_collections.ConfigDict,
        seed: int,
        cores: Sequence[int],
        advance: Advance,
        find_experiment: FindExperiment,
    ) -> Study:
        """Answers the configuration's statements.

        Args:
            config: configuration of the study's experiment, at its scale.
            seed: seed of all samples.
            cores: numbers of the processor cores to use; not used by a study that takes a minute.
            advance: called with the numbers of pieces of work done and of all pieces.
            find_experiment: returns the experiment of a configuration; not used by a study that trains nothing.
        """


def answer_in_turn(found: Iterable[tuple[str, StudyResult]], names: Collection[str], advance: Advance) -> Study:
    """Collects a study's answers, which are computed one after the other, in the order of `names`.

    Args:
        found: name and result of each answer, in any order.
        names: names of all answers.
        advance: called before the first answer and after each.
    """
    answers: dict[str, StudyResult] = {}
    advance(0, len(names))
    for name, answer in found:
        answers[name] = answer
        advance(len(answers), len(names))
    return Study({name: answers[name] for name in names}, steps=0)


def map_pieces(
    function: Callable[..., Any], pieces: Sequence[tuple], cores: Sequence[int], advance: Advance
) -> list[Any]:
    """Returns `[function(*piece) for piece in pieces]`, computed by one process for each core.

    Args:
        function: importable by its name.
        pieces: arguments of each call; they hold their own seeds, so that the number of cores changes nothing.
        cores: numbers of the processor cores to use.
        advance: called every `POLL_SECONDS` and at the end; if it raises, the processes are ended at once.

    Raises:
        LostProcessError: a process was killed.
    """
    # The resource tracker must run by now, since to start it Python unblocks the signal in between.
    resource_tracker.ensure_running()
    with interrupts_held() as held:
        others = set(multiprocessing.active_children())
        executor = ProcessPoolExecutor(len(cores), multiprocessing.get_context("spawn"), _begin, (cores,))
        waiting = [executor.submit(function, *piece) for piece in pieces]
        processes = set(multiprocessing.active_children()) - others
    try:
        for number in held:
            signal.raise_signal(number)
        done: list[Any] = []
        while len(done) < len(pieces):
            futures.wait(waiting, POLL_SECONDS, futures.FIRST_EXCEPTION)
            done = [future.result() for future in waiting if future.done()]
            advance(len(done), len(pieces))
        return done
    except BrokenProcessPool as error:
        raise LostProcessError(
            "A process of the study was killed, perhaps because memory ran out: try again with fewer cores."
        ) from error
    finally:
        for process in processes:
            process.kill()
        executor.shutdown(cancel_futures=True)


@contextlib.contextmanager
def interrupts_held() -> Iterator[list[int]]:
    """Holds back Ctrl-C and SIGTERM while processes start, since one that misses its first message shows a traceback.

    Ctrl-C reaches all processes of a terminal, and only the parent is to handle it: processes that start here inherit
    that it is blocked. Another thread may still receive it, and then Python interrupts the main thread; so the handlers
    are held back, too.

    Yields:
        The numbers of the signals that came to the main thread, complete at the end, for `signal.raise_signal`.
    """
    came: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            handlers[number] = signal.signal(number, lambda number, _: came.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield came
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _begin(cores: Sequence[int]) -> None:
    """Keeps a process on its cores, and ends it when its parent is killed."""
    os.sched_setaffinity(0, cores)
    end_with_parent()
