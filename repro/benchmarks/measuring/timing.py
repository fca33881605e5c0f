"""Measurement of rates, and the bounds that they are compared with."""

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
"""Calls before the clock starts, for tracing and first accesses of memory."""

SLICE = 0.2
"""Seconds for which one of several bodies runs before the next one's turn."""


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Binds this thread, and threads and processes that it starts, to the first of its cores until the block ends."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def rate(bodies: Sequence[Callable[[], int]], seconds: float) -> float:
    """Returns the units per second of all bodies together, each called repeatedly in its own thread.

    Args:
        bodies: functions that do some work and return its number of units.
        seconds: length of the measurement in seconds; each body is called at least once.

    Raises:
        Exception: any exception of a body, after all have ended.
    """
    for body in bodies:
        for _ in range(WARM_UP):
            body()
    start = time.perf_counter()

    def work(body: Callable[[], int]) -> int:
        done = body()  # at least once, however late the thread starts
        while time.perf_counter() - start < seconds:
            done += body()
        return done

    with ThreadPoolExecutor(len(bodies)) as threads:
        done = sum(threads.map(work, bodies))
    return done / (time.perf_counter() - start)


def take_turns(bodies: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, np.ndarray]:
    """Returns the seconds of a call of each body in each turn, [turns]; compare those of the same turn.

    In a turn every body is called repeatedly for a slice of time, in order and then in reverse order. So a load of the
    machine that rises or falls evenly over a turn affects all bodies alike.

    Args:
        bodies: functions that do the same work in every call.
        seconds: length of the measurement of all bodies together in seconds; there is at least one turn.
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
    """Returns the units of the budget per second of a whole run after its warm-up.

    Args:
        build: function that makes the run in a given folder.
        seconds: half of the seconds of the measurement.
        warm_up: number of updates before the clock starts, at least 1.
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
    """Returns the rate of the parts one after the other, 1 / sum(1 / part), if each part uses the whole machine."""
    return 1.0 / sum(1.0 / part for part in parts.values())


def summarise(what: str, unit: str, repeats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the result of a benchmark from repeats that each measured `parts` and `whole`.

    It has medians over repeats. `ratio` is the median of the repeats' own ratios of whole to bound, and `spread` the
    lowest and the highest of them, because rates from different minutes on a shared machine cannot be compared.
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
    """Returns the same for `outer_parts`, the unavoidable part of the work: medians, bound, ratio and its spread.

    Parts that leave cores idle could run side by side, so the bound is a yardstick and not a proof.
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
