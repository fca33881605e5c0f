"""Runs each wrong variant against the test that must catch it.

    python -m tests.mutations [--fast] [--only=retrace] [--share=1/3] [--jobs=2]
    python -m tests.mutations --training [--fast] [--only=ACER]

It prints for every variant the test that failed because of it, and exits with 1 if one survives. First all named tests
must pass without a variant; `--fast` leaves this to the tests' own run. Nothing is written in the working tree: every
job has a copy of it. A variant runs in a fork of this process, which has imported TensorFlow, so that it only has to
import this package and run the test.

With `--training` the variants of `training.py` are first judged by the reference runs of `repro.regression`, as by
`make regression`, and by their test only if no training is a regression. It exits with 1 if fewer than `BY_TRAINING` of
them are caught by training, or fewer than `BY_ANY` at all.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from repro import cli
from repro.launch import selection
from tests.mutations import VARIANTS
from tests.mutations.training import TRAINING
from tests.mutations.variant import Variant

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S, TRAINING_TIMEOUT_S = 300.0, 1800.0
SEED = 1_001
"""Of a training, as `python -m repro.regression` has it."""
BY_TRAINING, BY_ANY = 0.8, 0.95
"""Fewest that training, and anything, must catch."""
FAST_SECONDS = 12.0
"""Longest training for `--training --fast`, by the reference values: each variant that is caught costs three."""

cli.quiet()  # whose import, before that of NumPy, also says how many threads linear algebra has

PRELOADED = (
    "scipy.stats",
    "tensorflow",
    "tensorflow_probability",
    "tf_agents.agents.tf_agent",
    "tf_agents.environments",
    "tf_agents.policies.policy_saver",
    "tf_agents.drivers.dynamic_step_driver",
    "tf_agents.replay_buffers.tf_uniform_replay_buffer",
    "gymnasium",
    "ale_py.vector_env",
    "ml_collections",
    "numba",
)

MISTAKES = ("SyntaxError", "IndentationError", "NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError")
"""A variant that fails with one of these is no wrong algorithm but a broken text."""


class FirstFailure:
    """A pytest plugin that keeps the first test that fails and the kind of its exception."""

    def __init__(self) -> None:
        self.test = self.error = ""

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        if not self.test:
            self.test, self.error = node.nodeid, call.excinfo.typename


def enter(tree: Path) -> None:
    """Makes the copy in `tree` the one that is imported from now on; to be called in a fork."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "repro", "paper_configs")]:
        del sys.modules[name]
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    sys.path[:] = [str(tree), *(path for path in sys.path if Path(path or ROOT).resolve() != ROOT)]
    sys.dont_write_bytecode = True
    assert importlib.import_module("repro").__file__ == str(tree / "repro" / "__init__.py")


def run_tests(tests: Sequence[str], fast: bool) -> dict[str, Any]:
    """Runs tests until the first failure; `fast` leaves out those that are marked slow."""
    first = FirstFailure()
    only = ["-m", "not slow"] if fast else []
    code = pytest.main(
        ["-x", "--tb=short", "-p", "no:cacheprovider", "-p", "no:unraisableexception", *only, *tests], plugins=[first]
    )
    return {"code": int(code), "caught_by": first.test, "error": first.error}


def run_training(names: Sequence[str]) -> dict[str, Any]:
    """Trains reference runs until the first that is a regression."""
    regression = {
        name: importlib.import_module(f"repro.regression.{name}")
        for name in ("reference_runs", "reference_values", "trainings")
    }
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    importlib.import_module("repro.training.devices").configure_threads(deterministic=True, threads=1)
    references = regression["reference_values"].read()
    for run in regression["reference_runs"].RUNS:
        if run.name not in names:
            continue
        bands = regression["reference_values"].bands_of(run, references)
        result = regression["trainings"].judge_run(run, bands, SEED)
        if result.error:  # a crash, or other measures: broken, and no wrong algorithm
            print(result.error)
            return {"code": int(pytest.ExitCode.INTERNAL_ERROR), "caught_by": "", "error": result.error.split(":")[0]}
        if not result.passed:
            measures = [outlier.measure for outlier in result.confirmed]
            reason = measures[0] if measures else result.tries[-1].error
            more = f" and {len(measures) - 1} more" if measures[1:] else ""
            return {"code": 1, "caught_by": f"{run.name}: {reason}{more}", "error": ""}
    return {"code": 0, "caught_by": "", "error": ""}


class Job:
    """A fork that runs something in a tree, its output in a file."""

    def __init__(self, tree: Path, run: Callable[[], dict[str, Any]], timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self.tree, self.started = tree, time.perf_counter()
        self._result, self.output = tree / "result.json", tree / "output.txt"
        self._result.unlink(missing_ok=True)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            with open(self.output, "w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            try:
                enter(tree)
                self._result.write_text(json.dumps(run()))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(0)

    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def finished(self) -> bool:
        """Whether it has ended; kills it once it has taken too long."""
        if self.seconds() > self._timeout_s:
            os.kill(self.pid, signal.SIGKILL)
        return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid

    def result(self) -> dict[str, Any]:
        """What was returned; of a fork that died, a code of -1."""
        if not self._result.exists():
            return {"code": -1, "caught_by": "", "error": "died"}
        return json.loads(self._result.read_text())


def copy_tree(tree: Path) -> None:
    """Copies what is imported with what is compiled of it; a file that changes is newer than that."""
    for name in ("repro", "tests", "paper_configs"):
        shutil.copytree(ROOT / name, tree / name)
    shutil.copy(ROOT / "pyproject.toml", tree)


class Check(NamedTuple):
    """What must catch a variant.

    variant: the wrong code.
    by: a test, or reference runs, in words.
    run: called in a fork, in a tree that holds the variant.
    """

    variant: Variant
    by: str
    run: Callable[[], dict[str, Any]]
    timeout_s: float = TIMEOUT_S


def by_test(variant: Variant, fast: bool) -> Check:
    return Check(variant, variant.test, lambda: run_tests([variant.test], fast))


def by_training(variant: Variant) -> Check:
    names = TRAINING[variant.name]
    return Check(variant, f"training {', '.join(names)}", lambda: run_training(names), TRAINING_TIMEOUT_S)


def verdict(check: Check, result: dict[str, Any]) -> tuple[bool, str]:
    """Whether the variant was caught for a right reason, and what to print."""
    if result["code"] == pytest.ExitCode.OK:
        return False, f"SURVIVED {check.by}"
    if result["code"] != pytest.ExitCode.TESTS_FAILED or result["error"] in MISTAKES:
        return False, f"BROKEN ({result['error'] or result['code']}) {check.by}"
    return True, result["caught_by"]


def run_all(checks: Sequence[Check], trees: Sequence[Path]) -> list[Variant]:
    """Returns the variants that were not caught."""
    waiting, free, survivors = list(checks), list(trees), []
    running: dict[str, tuple[Check, Job, str]] = {}
    while waiting or running:
        while waiting and free:
            check, tree = waiting.pop(0), free.pop()
            path = tree / check.variant.file
            source = path.read_text()
            path.write_text(check.variant.apply(source))
            running[check.variant.name] = (check, Job(tree, check.run, check.timeout_s), source)
        time.sleep(0.02)
        for name, (check, job, source) in list(running.items()):
            if job.finished():
                caught, text = verdict(check, job.result())
                print(f"{job.seconds():5.1f} s  {name:56} {text}", flush=True)
                if not caught:
                    survivors.append(check.variant)
                    print(job.output.read_text()[-2000:], flush=True)
                (job.tree / check.variant.file).write_text(source)
                free.append(job.tree)
                del running[name]
    return survivors


def passes_unchanged(tree: Path, variants: list[Variant], by: str) -> bool:
    """Whether nothing is caught without a variant: every named test passes, or no reference run is a regression."""
    if by == "training":
        names = sorted({name for variant in variants for name in TRAINING[variant.name]})
        job = Job(tree, lambda: run_training(names), TRAINING_TIMEOUT_S)
    else:
        tests = sorted({variant.test for variant in variants})
        job = Job(tree, lambda: run_tests(tests, fast=False))
    while not job.finished():
        time.sleep(0.05)
    result = job.result()
    if result["code"] != 0:
        print(f"Caught without any variant: {result['caught_by'] or result['error']}\n{job.output.read_text()}")
    return result["code"] == 0


def one_of_each_file(variants: list[Variant]) -> list[Variant]:
    """The first variant of each source file and of each test file, of those whose test is not slow."""
    taken: set[str] = set()
    chosen = []
    for variant in variants:
        files = {variant.file, variant.test.partition("::")[0]}
        if not variant.slow and not files <= taken:
            taken |= files
            chosen.append(variant)
    return chosen


def one_of_each_paper(variants: list[Variant]) -> list[Variant]:
    """The first variant that the shortest reference run of its paper trains alone, in `FAST_SECONDS` at most."""
    values = json.loads((ROOT / "repro/regression/reference_values.json").read_text())
    runs = importlib.import_module("repro.regression.reference_runs").RUNS
    first: dict[str, Variant] = {}
    short = [run for run in runs if values[run.name]["seconds"] <= FAST_SECONDS]
    for run in sorted(short, key=lambda run: values[run.name]["seconds"]):
        for variant in variants:
            if TRAINING[variant.name] == (run.name,):
                first.setdefault(run.config.partition(".")[0], variant)
    return list(first.values())


def parse_share(text: str) -> tuple[int, int]:
    """Returns k and n of `k/n`, for `argparse`."""
    try:
        return selection.parse_share(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the variants whose name or file contains this")
    parser.add_argument("--fast", action="store_true", help="for CI: one of each source and test file, or paper")
    parser.add_argument("--share", type=parse_share, default=(1, 1), help="k/n: every n-th of them, from the k-th on")
    parser.add_argument("--jobs", type=int, default=2, help="forks side by side")
    parser.add_argument("--training", action="store_true", help="judge by the reference runs, then by the test")
    arguments = parser.parse_args()
    variants = [variant for variant in VARIANTS if arguments.only in variant.name + variant.file]
    if arguments.training:
        variants = [variant for variant in variants if variant.name in TRAINING]
        variants = one_of_each_paper(variants) if arguments.fast else variants
    elif arguments.fast:
        variants = one_of_each_file(variants)
    first, step = arguments.share
    variants = variants[first - 1 :: step]
    if not variants:
        parser.error(f"no variant has {arguments.only!r} in its name or file, or none is in this share of them")
    start = time.perf_counter()
    importlib.import_module("repro.cli").quiet()  # each fork imports its own copy of the package
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # or every fork would go through all that is imported when pytest collects garbage
    with tempfile.TemporaryDirectory() as folder:
        trees = [Path(folder).resolve() / str(i) for i in range(arguments.jobs)]
        for tree in trees:
            copy_tree(tree)
        by = "training" if arguments.training else "test"
        if not arguments.fast and not passes_unchanged(trees[0], variants, by):  # CI runs both beside `--fast`
            return 1
        untrained = run_all([by_training(variant) for variant in variants], trees) if arguments.training else variants
        survivors = run_all([by_test(variant, arguments.fast) for variant in untrained], trees)
    total, caught = len(variants), len(variants) - len(survivors)
    seconds = f"{time.perf_counter() - start:.0f} s"
    if not arguments.training:
        print(f"{caught} of {total} caught in {seconds}")
        return 1 if survivors else 0
    trained = total - len(untrained)
    print(f"{trained} of {total} caught by training, {caught} by training or tests, in {seconds}")
    enough = arguments.fast or trained >= BY_TRAINING * total  # few of them show no share
    return 0 if enough and caught >= BY_ANY * total else 1


if __name__ == "__main__":
    sys.exit(main())
