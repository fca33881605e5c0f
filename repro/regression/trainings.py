"""Trains reference runs in separate processes, a few at a time."""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.process
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from repro.processes import end_with_parent
from repro.regression.bands import TRIES, Band, Outlier, confirmed, judge
from repro.regression.reference_runs import ReferenceRun


class DeadProcessError(RuntimeError):
    """A training process ended before its training."""


class Training(NamedTuple):
    """One seed of a reference run.

    values: measures by name; empty if it failed.
    seconds: time of compilation, training and evaluation, or until it failed.
    error: reason of a failure in one line; empty otherwise.
    traceback: traceback of a failure that is not a divergence; empty otherwise.
    """

    run: ReferenceRun
    seed: int
    values: Mapping[str, float]
    seconds: float
    error: str = ""
    traceback: str = ""

    @property
    def diverged(self) -> bool:
        """Whether the training ended because its loss was not finite."""
        return bool(self.error) and not self.traceback


class RunResult(NamedTuple):
    """Result of a reference run after some of its tries.

    tries: trainings of one or more seeds.
    outliers: for each try that did not diverge, the measures outside their bands.
    confirmed: outliers of the last of these tries that were beyond the same end of their band in all of them.
    error: why no verdict is possible, such as a crash or measures without a band; empty otherwise.
    """

    tries: Sequence[Training]
    outliers: Sequence[Sequence[Outlier]]
    confirmed: Sequence[Outlier]
    error: str = ""

    @property
    def run(self) -> ReferenceRun:
        return self.tries[0].run

    @property
    def passed(self) -> bool:
        """Whether there is no error, no measure is out in every try, and the last seed did not diverge."""
        return not self.error and not self.confirmed and not self.tries[-1].diverged

    @property
    def is_final(self) -> bool:
        """Whether another seed would not change the verdict."""
        return self.passed or bool(self.error) or len(self.tries) == TRIES


def train(run: ReferenceRun, seed: int) -> Training:
    """Trains one seed in this process; an error of the training becomes part of the result."""
    from repro.environments.batched import one_line
    from repro.regression.measuring import measure
    from repro.training.learner import NonFiniteLossError

    start = time.monotonic()
    try:
        values = measure(run, seed)
    except NonFiniteLossError as error:
        return Training(run, seed, {}, time.monotonic() - start, f"diverged: {error}")
    except Exception as error:  # noqa: BLE001 - an error of one run must not stop the others
        reason = f"{type(error).__name__}: {one_line(error)}"
        return Training(run, seed, {}, time.monotonic() - start, reason, traceback.format_exc())
    return Training(run, seed, values, time.monotonic() - start)


def judge_tries(tries: Sequence[Training], bands: Mapping[str, Band]) -> RunResult:
    """Returns the result of a run from the seeds so far. A seed that diverged counts as out in every measure."""
    crashed = next((training for training in tries if training.traceback), None)
    if crashed:
        return RunResult(tries, [], [], f"{crashed.error}\n{crashed.traceback}")
    finished = [training for training in tries if not training.error]
    for training in finished:
        if unknown := sorted(training.values.keys() ^ bands.keys()):
            problem = f"{', '.join(unknown)}: measured but without a band, or no longer measured"
            remedy = f"make bands with --make_bands --again --only={training.run.name}."
            return RunResult(tries, [], [], f"{problem}; {remedy}")
    outliers = [judge(training.values, bands) for training in finished]
    return RunResult(tries, outliers, confirmed(outliers) if outliers else [])


def judge_run(run: ReferenceRun, bands: Mapping[str, Band], seed: int) -> RunResult:
    """Trains seeds from `seed` on in this process until another would not change the verdict."""
    tries: list[Training] = []
    while True:
        tries.append(train(run, seed + len(tries)))
        result = judge_tries(tries, bands)
        if result.is_final:
            return result


def train_all(
    wanted: Sequence[tuple[ReferenceRun, int]], jobs: int, follow: Callable[[Training], int | None]
) -> Iterator[Training]:
    """Yields trainings as they end.

    Args:
        wanted: runs and seeds to train, the longest first.
        jobs: number of processes; each trains one seed after the other.
        follow: function that is called with each training that ended. It returns another seed of the run to train, or
            None.

    Raises:
        DeadProcessError: a training process was killed; the trainings that were running are lost.
    """
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(jobs, context, _start_process)
    running: dict[concurrent.futures.Future[Training], ReferenceRun] = {}
    try:
        running |= {pool.submit(train, run, seed): run for run, seed in wanted}
        while running:
            done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                run = running.pop(future)
                training = future.result()
                if (seed := follow(training)) is not None:
                    running[pool.submit(train, run, seed)] = run
                yield training
    except concurrent.futures.process.BrokenProcessPool as error:
        raise DeadProcessError(
            "a training process was killed, perhaps because memory ran out: try again with --jobs=1."
        ) from error
    finally:
        pool.shutdown(wait=not running, cancel_futures=True)  # Python complains at exit while idle processes end


def _start_process() -> None:
    end_with_parent()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # bands are made from trainings without a GPU
    from repro import cli

    cli.load_tensorflow()
    from repro.training import devices

    devices.configure_threads(deterministic=True, threads=1)
