"""How rates are measured and what they are compared with."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from repro.evidence import records
from repro.training.run_directory import RunDirectory
from repro.training.trainer import Trainer

WARM_UP = 3
"""Calls before the clock starts: tracing, first touches of memory."""

SLICE = 0.2
"""Seconds for which one of several bodies runs before the next has its turn."""


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Binds this thread, and what it begins, to the first of its cores until the block ends."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def rate(bodies: Sequence[Callable[[], int]], seconds: float) -> float:
    """Units per second of all bodies together, each called again and again in a thread of its own.

    Args:
        bodies: each does some work and returns how many units it was.
        seconds: how long to measure.

    Raises:
        Exception: what a body raised, once all have ended.
    """
    for body in bodies:
        for _ in range(WARM_UP):
            body()
    start = time.perf_counter()

    def work(body: Callable[[], int]) -> int:
        done = body()  # once at least, however late the thread starts
        while time.perf_counter() - start < seconds:
            done += body()
        return done

    with ThreadPoolExecutor(len(bodies)) as threads:
        done = sum(threads.map(work, bodies))
    return done / (time.perf_counter() - start)


def take_turns(bodies: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, np.ndarray]:
    """Seconds of a call of each body, [turns], of which those of one turn compare whatever else the machine does.

    In a turn every body is called again and again for a slice of time, in their order and then in the reverse order.
    So a load of the machine that rises or falls evenly over a turn weighs on all alike.

    Args:
        bodies: each does some work, the same in every call.
        seconds: how long to measure all of them together; one turn at least.
    """
    for body in bodies.values():
        for _ in range(WARM_UP):
            body()
    order = [*bodies, *reversed(list(bodies))]
    turns: list[dict[str, float]] = []
    start = time.perf_counter()
    while not turns or time.perf_counter() - start < seconds:
        spent, calls = dict.fromkeys(bodies, 0.0), dict.fromkeys(bodies, 0)
        for name in order:
            begin, elapsed = time.perf_counter(), 0.0
            while elapsed < SLICE:
                bodies[name]()
                calls[name] += 1
                elapsed = time.perf_counter() - begin
            spent[name] += elapsed
        turns.append({name: spent[name] / calls[name] for name in bodies})
    return {name: np.array([turn[name] for turn in turns]) for name in bodies}


def whole(build: Callable[[RunDirectory], Trainer], seconds: float, warm_up: int = 10 * WARM_UP) -> float:
    """Units of the budget per second of a whole run, once it is warm.

    Args:
        build: makes the run in the given folder.
        seconds: half of the time to measure.
        warm_up: updates before the clock starts, at least 1.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(build(RunDirectory(Path(folder), {}, 0))) as loop,
    ):
        updates = iter(loop)
        for _ in range(warm_up):
            first = next(updates)
        start = time.perf_counter()
        while time.perf_counter() - start < 2 * seconds:
            last = next(updates)
        return (last.frames - first.frames) / (time.perf_counter() - start)


def serial_bound(parts: Mapping[str, float]) -> float:
    """The rate of doing the parts one after the other, 1 / sum(1 / part), each part using the whole machine."""
    return 1.0 / sum(1.0 / part for part in parts.values())


def summarise(what: str, unit: str, repeats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The result of a benchmark whose repeats each measured `parts` and `whole` side by side.

    Medians over repeats; `ratio` is the median of each repeat's own ratio, and `spread` its lowest and highest,
    since rates of different minutes on a shared machine do not compare.
    """
    ratios = [repeat["whole"] / serial_bound(repeat["parts"]) for repeat in repeats]
    return {
        "what": what,
        "unit": unit,
        "parts": _medians([repeat["parts"] for repeat in repeats]),
        "whole": float(np.median([repeat["whole"] for repeat in repeats])),
        "bound": float(np.median([serial_bound(repeat["parts"]) for repeat in repeats])),
        "ratio": float(np.median(ratios)),
        "repeats": [{**repeat, "ratio": ratio} for repeat, ratio in zip(repeats, ratios)],
        "spread": [min(ratios), max(ratios)],
        "hardware": records.hardware(),
        "versions": records.versions(),
    }


def summarise_outer(repeats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Likewise of `outer_parts`, the same work with nothing between: their medians, bound, ratio and its spread.

    Parts that leave cores idle could run side by side, so that the bound is a yardstick, and no proof.
    """
    bounds = [serial_bound(repeat["outer_parts"]) for repeat in repeats]
    ratios = [repeat["whole"] / bound for repeat, bound in zip(repeats, bounds)]
    return {
        "outer_parts": _medians([repeat["outer_parts"] for repeat in repeats]),
        "outer_bound": float(np.median(bounds)),
        "outer_ratio": float(np.median(ratios)),
        "outer_spread": [min(ratios), max(ratios)],
    }


def _medians(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.median([part[name] for part in parts])) for name in parts[0]}
