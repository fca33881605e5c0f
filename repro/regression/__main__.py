"""Trains the reference runs with the present code and judges each by its bands: `python -m repro.regression`."""

from __future__ import annotations

import collections
import statistics
import time
from collections.abc import Mapping, Sequence

from absl import flags

from repro import cli
from repro.launch.selection import parse_share
from repro.regression import reference_values
from repro.regression.bands import Band
from repro.regression.reference_runs import RUNS, SPARE, ReferenceRun
from repro.regression.reference_values import ReferenceValues
from repro.regression.trainings import DeadProcessError, RunResult, Training, judge_tries, train_all

ONLY = flags.DEFINE_list("only", [], "Reference runs, or words of their names such as acer; all if not given.")
FAST = flags.DEFINE_bool("fast", False, "Leave out the runs that find only mistakes that others find as well.")
SHARE = flags.DEFINE_string("share", "1/1", "k/n: every n-th run by length, from the k-th on.")
JOBS = flags.DEFINE_integer("jobs", 2, "Number of trainings in parallel.", 1)
JSON = cli.define_json()
MAKE_BANDS = flags.DEFINE_bool("make_bands", False, "Train the missing seeds from which bands are made.")
AGAIN = flags.DEFINE_bool(
    "again", False, "With --make_bands: train all seeds again, as is needed when an agent changes."
)
SEEDS = flags.DEFINE_integer("seeds", 12, "Number of seeds for --make_bands.", reference_values.MIN_SEEDS)

FIRST_BAND_SEED, FIRST_SEED = 1, 1_001
"""First seed that bands are made from, and first seed that is judged by them."""


def main(argv: list[str]) -> None:
    del argv
    cli.quiet()
    runs = [run for run in _chosen(ONLY.value) if not (FAST.value and run.name in SPARE)]
    if not runs:
        cli.fail(f"--fast leaves out all of --only={','.join(ONLY.value)}.")
    if (AGAIN.value or SEEDS.present) and not MAKE_BANDS.value:
        cli.fail("--again and --seeds are only allowed with --make_bands.")
    if SHARE.present and MAKE_BANDS.value:
        cli.fail("--share is not allowed with --make_bands.")
    try:
        first, step = parse_share(SHARE.value)
    except ValueError as error:
        cli.fail(error)
    try:
        if MAKE_BANDS.value:
            make_bands(runs, SEEDS.value, JOBS.value, AGAIN.value)
        elif not _check_all(runs, first, step):
            raise SystemExit(1)
    except DeadProcessError as error:
        cli.fail(error, code=1)
    except reference_values.ReferenceValuesError as error:
        cli.fail(error)


def _check_all(runs: Sequence[ReferenceRun], first: int, step: int) -> bool:
    """Checks every `step`-th run by length from the `first` on, and prints a line per run and a last line.

    Returns:
        Whether every run has a verdict and none is a regression.
    """
    start = time.monotonic()
    references = reference_values.read()
    bands = {run.name: reference_values.bands_of(run, references) for run in runs}
    runs = sorted(runs, key=lambda run: -references[run.name].seconds)[first - 1 :: step]
    if not runs:
        cli.fail(f"--share={first}/{step}: this share has no reference run.")
    bands = {run.name: bands[run.name] for run in runs}
    results = check(runs, bands, JOBS.value)
    cli.write_json(JSON.value, {name: _as_json(result) for name, result in results.items()})
    regressions = [name for name, result in results.items() if not result.passed and not result.error]
    failures = [name for name, result in results.items() if result.error]
    parts = [f"{len(regressions)} regressions: {', '.join(regressions)}" if regressions else "no regression"]
    if failures:
        parts.append(f"{len(failures)} without a verdict: {', '.join(failures)}")
    num_bands = sum(map(len, bands.values()))
    print(f"{len(runs)} reference runs, {num_bands} bands, {time.monotonic() - start:.0f} s: {'; '.join(parts)}")
    return not regressions and not failures


def check(runs: Sequence[ReferenceRun], bands: Mapping[str, Mapping[str, Band]], jobs: int) -> dict[str, RunResult]:
    """Trains and judges reference runs, and prints a line per run.

    Args:
        runs: runs to train, the longest first.
        bands: bands by the name of the run, then of the measure.
        jobs: number of trainings side by side.

    Raises:
        DeadProcessError: a training process was killed.
    """
    tries: dict[str, list[Training]] = collections.defaultdict(list)
    results: dict[str, RunResult] = {}

    def follow(training: Training) -> int | None:
        name = training.run.name
        tries[name].append(training)
        result = judge_tries(tries[name], bands[name])
        if not result.is_final:
            return training.seed + 1
        results[name] = result
        print(describe(result, bands[name]), flush=True)
        return None

    for _ in train_all([(run, FIRST_SEED) for run in runs], jobs, follow):
        pass
    return results


def make_bands(runs: Sequence[ReferenceRun], seeds: int, jobs: int, again: bool) -> None:
    """Trains the seeds that the reference values lack, and writes the values of a run after its last seed.

    Args:
        runs: runs to train.
        seeds: number of seeds that each run must have.
        jobs: number of trainings side by side.
        again: whether seeds that have values are trained again, too.

    Raises:
        DeadProcessError: a training process was killed.
    """
    kept = reference_values.read()
    extended, wanted = {}, []  # present values that new seeds are added to, by run; those of other runs are replaced
    for run in runs:
        reference = kept.get(run.name)
        if not again and reference is not None and reference.fingerprint == run.fingerprint():
            extended[run.name] = reference
        have = extended[run.name].num_seeds if run.name in extended else 0
        wanted += [(run, seed) for seed in range(FIRST_BAND_SEED + have, FIRST_BAND_SEED + seeds)]
    if not wanted:
        print(f"Every run has its {seeds} seeds; --again trains them again.")
    left = collections.Counter(run.name for run, _ in wanted)
    found: dict[str, dict[int, Training]] = collections.defaultdict(dict)
    for training in train_all(wanted, jobs, lambda _: None):
        run = training.run
        if training.error:
            cli.fail(f"{run.name} seed {training.seed} failed, so no band can be made: {training.error}", code=1)
        found[run.name][training.seed] = training
        left[run.name] -= 1
        print(f"{run.name} seed {training.seed}: {training.seconds:.1f} s", flush=True)
        if not left[run.name]:
            in_order = [found[run.name][seed] for seed in sorted(found[run.name])]
            kept[run.name] = _extended(extended.get(run.name), run, in_order)
            reference_values.write(kept)


def _extended(reference: ReferenceValues | None, run: ReferenceRun, new: Sequence[Training]) -> ReferenceValues:
    old = reference.values if reference else {name: [] for name in new[0].values}
    if any(training.values.keys() != old.keys() for training in new):
        cli.fail(f"{run.name} has other measures than its reference values; train all seeds with --again.", code=1)
    values = {
        name: [*numbers, *(float(f"{training.values[name]:.5g}") for training in new)] for name, numbers in old.items()
    }
    seconds = statistics.median(training.seconds for training in new)
    return ReferenceValues(run.fingerprint(), round(seconds, 1), values)


def _chosen(words: Sequence[str]) -> list[ReferenceRun]:
    """Returns the runs that match one of the words: all its parts, between underscores, are parts of their name."""

    def fits(word: str, run: ReferenceRun) -> bool:
        return set(word.split("_")) <= set(run.name.split("_"))

    for word in words:
        if not any(fits(word, run) for run in RUNS):
            names = [run.name for run in RUNS]
            cli.fail(f"there is no reference run {word!r}{cli.nearest(word, names)} (there are {', '.join(names)})")
    return [run for run in RUNS if not words or any(fits(word, run) for word in words)]


def describe(result: RunResult, bands: Mapping[str, Band]) -> str:
    """Returns the text to print about a run: its return, and for a regression the measures outside their bands."""
    last = result.tries[-1]
    head = f"{result.run.name:20} {sum(training.seconds for training in result.tries):5.1f} s  "
    if result.error:
        return f"{head}NO VERDICT: {result.error}"
    if last.diverged:
        return f"{head}REGRESSION: {last.error} with {len(result.tries)} seeds"
    measure = "return, last third"
    low, high = bands[measure]
    text = f"{head}return {last.values[measure]:.4g} (band {low:.4g} to {high:.4g}), "
    if result.passed:
        if len(result.tries) == 1:
            return f"{text}{len(bands)} measures in their bands"
        return f"{text}none of {len(bands)} measures out with each of {len(result.tries)} seeds"
    lines = [
        f"    {outlier.measure}: {outlier.value:.4g}, band {outlier.band.low:.4g} to {outlier.band.high:.4g}"
        for outlier in result.confirmed
    ]
    out = f"REGRESSION: {len(lines)} of {len(bands)} measures out with {len(result.tries)} seeds"
    return "\n".join([text + out, *lines])


def _as_json(result: RunResult) -> dict[str, object]:
    return {
        "passed": result.passed,
        "error": result.error,
        "confirmed": [outlier.measure for outlier in result.confirmed],
        "outliers": [[outlier.measure for outlier in found] for found in result.outliers],
        "tries": [
            {"seed": training.seed, "seconds": training.seconds, "error": training.error, "values": training.values}
            for training in result.tries
        ],
    }


if __name__ == "__main__":
    cli.run(main)
