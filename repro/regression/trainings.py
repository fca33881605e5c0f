"""Trains reference runs in processes of their own, a few at a time."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from repro.regression.bands import TRIES, Band, Outlier, confirmed, judge
from repro.regression.reference_runs import ReferenceRun


class Training(NamedTuple):
    """One seed of a reference run.

    values: measures by name; empty where it failed.
    seconds: it took.
    error: in one line why it failed, as that its loss was not finite.
    """

    run: ReferenceRun
    seed: int
    values: Mapping[str, float]
    seconds: float
    error: str = ""


class Judgement(NamedTuple):
    """A reference run after its last try.

    tries: one or more seeds, of which the last was within all bands or the last allowed.
    outliers: measures beyond the same end of their band in every try.
    """

    tries: Sequence[Training]
    outliers: Sequence[Outlier]

    @property
    def run(self) -> ReferenceRun:
        return self.tries[0].run

    @property
    def passed(self) -> bool:
        return not self.outliers and not self.tries[-1].error


def train(run: ReferenceRun, seed: int) -> Training:
    """Trains one seed in this process; an error of the training is part of the result."""
    from repro.regression.measuring import measure

    try:
        measured = measure(run, seed)
    except Exception as error:  # noqa: BLE001 - a wrong algorithm may fail in any way, and the other runs go on
        return Training(run, seed, {}, 0.0, f"{type(error).__name__}: {' '.join(str(error).split())}")
    return Training(run, seed, measured.values, measured.seconds)


def judge_tries(tries: Sequence[Training], bands: Mapping[str, Band]) -> Judgement:
    """Returns the judgement of a run by the seeds trained so far."""
    if any(training.error for training in tries):
        return Judgement(tries, [])
    return Judgement(tries, confirmed([judge(training.values, bands) for training in tries]))


def judge_run(run: ReferenceRun, bands: Mapping[str, Band], seed: int) -> Judgement:
    """Trains seeds from `seed` on in this process until one is within all bands or `TRIES` of them were not."""
    tries: list[Training] = []
    while True:
        tries.append(train(run, seed + len(tries)))
        judgement = judge_tries(tries, bands)
        if judgement.passed or len(tries) == TRIES or tries[-1].error:
            return judgement


def train_all(
    wanted: Sequence[tuple[ReferenceRun, int]], jobs: int, follow: Callable[[Training], int | None]
) -> Iterator[Training]:
    """Yields trainings as they end.

    Args:
        wanted: runs and seeds, the longest first.
        jobs: trainings side by side, each in a process that trains one after the other.
        follow: called with a training that ended; returns another seed of its run to train, or None.
    """
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, context, _start_process) as pool:
        running = {pool.submit(train, run, seed) for run, seed in wanted}
        while running:
            done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                training = future.result()
                if (seed := follow(training)) is not None:
                    running.add(pool.submit(train, training.run, seed))
                yield training


def _start_process() -> None:
    from repro import cli

    cli.quiet()
    from repro.training import devices

    devices.configure_threads(deterministic=True, threads=1)
