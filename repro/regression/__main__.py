"""Trains the reference runs with the code as it is, and judges each by its bands: `python -m repro.regression`."""

from __future__ import annotations

import collections
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from absl import flags

from repro import cli
from repro.files import write_whole
from repro.regression import reference_values
from repro.regression.bands import TRIES, Band
from repro.regression.reference_runs import RUNS, ReferenceRun
from repro.regression.reference_values import ReferenceValues
from repro.regression.trainings import Judgement, Training, judge_tries, train_all

ONLY = flags.DEFINE_list("only", [], "Reference runs, or parts of their names; all if not given.")
JOBS = flags.DEFINE_integer("jobs", 2, "Trainings side by side.", 1)
SEED = flags.DEFINE_integer("seed", 1_001, f"First of the up to {TRIES} seeds.", 1)
JSON = flags.DEFINE_string("json", None, "Write all measures to this file.")
MAKE_BANDS = flags.DEFINE_bool("make_bands", False, "Train --seeds seeds of each run and keep their values as bands.")
SEEDS = flags.DEFINE_integer("seeds", 12, "Seeds of --make_bands; those of unchanged settings are kept.", 2)

SEED_OF_BANDS = 1
"""First of the seeds that bands are made from; a run is judged with others."""


def main(argv: list[str]) -> None:
    del argv
    cli.quiet()
    runs = _chosen(ONLY.value)
    if MAKE_BANDS.value:
        make_bands(runs, SEEDS.value, JOBS.value)
        return
    start = time.monotonic()
    try:
        bands = {run.name: reference_values.bands_of(run, reference_values.read()) for run in runs}
    except reference_values.ReferenceValuesError as error:
        cli.fail(error)
    judgements = check(runs, bands, JOBS.value, SEED.value)
    if JSON.value:
        write_whole(
            Path(JSON.value), json.dumps({name: _as_json(j) for name, j in judgements.items()}, indent=1) + "\n"
        )
    failed = [name for name, judgement in judgements.items() if not judgement.passed]
    num_bands = sum(map(len, bands.values()))
    print(
        f"{len(runs)} reference runs, {num_bands} bands, {time.monotonic() - start:.0f} s: "
        + (f"{len(failed)} regressions: {', '.join(failed)}" if failed else "no regression"),
    )
    if failed:
        raise SystemExit(1)


def check(
    runs: Sequence[ReferenceRun], bands: Mapping[str, Mapping[str, Band]], jobs: int, seed: int
) -> dict[str, Judgement]:
    """Trains and judges; prints a line a run.

    Args:
        runs: to train.
        bands: by the name of the run, then of the measure.
        jobs: trainings side by side.
        seed: the first; others follow where it lies outside a band.
    """
    tries: dict[str, list[Training]] = collections.defaultdict(list)
    judgements: dict[str, Judgement] = {}

    def follow(training: Training) -> int | None:
        name = training.run.name
        tries[name].append(training)
        judgement = judge_tries(tries[name], bands[name])
        if judgement.passed or training.error or len(tries[name]) == TRIES:
            judgements[name] = judgement
            print(_line(judgement, bands[name]), flush=True)
            return None
        return training.seed + 1

    seconds = {name: reference.seconds for name, reference in reference_values.read().items()}
    longest_first = sorted(runs, key=lambda run: -seconds.get(run.name, 0.0))
    for _ in train_all([(run, seed) for run in longest_first], jobs, follow):
        pass
    return {run.name: judgements[run.name] for run in runs}


def make_bands(runs: Sequence[ReferenceRun], seeds: int, jobs: int) -> None:
    """Trains the seeds that the reference values lack, and writes them after each run's last seed."""
    kept = reference_values.read()
    found: dict[str, dict[int, Training]] = {}
    wanted = []
    for run in runs:
        reference = kept.get(run.name)
        have = reference.num_seeds if reference and reference.fingerprint == run.fingerprint() else 0
        missing = range(SEED_OF_BANDS + have, SEED_OF_BANDS + seeds)
        found[run.name] = {}
        wanted += [(run, seed) for seed in missing]
    left = collections.Counter(run.name for run, _ in wanted)
    for training in train_all(wanted, jobs, lambda _: None):
        run = training.run
        if training.error:
            cli.fail(f"{run.name} seed {training.seed} failed, and no band can be made of it: {training.error}", code=1)
        found[run.name][training.seed] = training
        left[run.name] -= 1
        print(f"{run.name} seed {training.seed}: {training.seconds:.1f} s", flush=True)
        if not left[run.name]:
            kept[run.name] = _extended(kept.get(run.name), run, list(dict(sorted(found[run.name].items())).values()))
            reference_values.write(kept)


def _extended(reference: ReferenceValues | None, run: ReferenceRun, new: Sequence[Training]) -> ReferenceValues:
    fingerprint = run.fingerprint()
    if reference is None or reference.fingerprint != fingerprint:
        reference = ReferenceValues(fingerprint, 0.0, {name: [] for name in new[0].values})
    values = {
        name: numbers + [float(f"{training.values[name]:.5g}") for training in new]
        for name, numbers in reference.values.items()
    }
    return ReferenceValues(fingerprint, round(statistics.median(training.seconds for training in new), 1), values)


def _chosen(parts: Sequence[str]) -> list[ReferenceRun]:
    for part in parts:
        if not any(part in run.name for run in RUNS):
            names = [run.name for run in RUNS]
            cli.fail(f"there is no reference run {part!r}{cli.nearest(part, names)} (there are {', '.join(names)})")
    return [run for run in RUNS if not parts or any(part in run.name for part in parts)]


def _line(judgement: Judgement, bands: Mapping[str, Band]) -> str:
    """What is printed of a run; of a regression also its measures outside their bands."""
    last = judgement.tries[-1]
    head = f"{judgement.run.name:22} {sum(training.seconds for training in judgement.tries):5.1f} s  "
    if last.error:
        return f"{head}REGRESSION: {last.error}"
    measure = "return, last third"
    low, high = bands[measure]
    text = f"{head}return {last.values[measure]:.4g} (band {low:.4g} to {high:.4g}), "
    if judgement.passed:
        again = f" with the {('second', 'third')[len(judgement.tries) - 2]} seed" if len(judgement.tries) > 1 else ""
        return f"{text}{len(bands)} measures in their bands{again}"
    lines = [
        f"    {outlier.measure}: {outlier.value:.4g}, band {outlier.band.low:.4g} to {outlier.band.high:.4g}"
        for outlier in judgement.outliers
    ]
    out = f"REGRESSION: {len(lines)} of {len(bands)} measures out with {len(judgement.tries)} seeds"
    return "\n".join([text + out, *lines])


def _as_json(judgement: Judgement) -> dict[str, object]:
    return {
        "passed": judgement.passed,
        "outliers": [outlier.measure for outlier in judgement.outliers],
        "tries": [
            {"seed": training.seed, "seconds": training.seconds, "error": training.error, "values": training.values}
            for training in judgement.tries
        ],
    }


if __name__ == "__main__":
    cli.run(main)
