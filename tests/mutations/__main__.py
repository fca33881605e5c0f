"""Runs each wrong variant against the test that must catch it.

    python -m tests.mutations [--fast] [--only=retrace] [--jobs=2]

Prints, for every variant, the test that failed because of it; exits with 1 if one survives. First all named tests must
pass without a variant; `--fast` leaves that to the tests' own run. Nothing is written in the working tree: every job
has a copy of it. A variant runs in a fork of this process, which has imported TensorFlow but not this package, so that
it costs the package's import and the test alone.
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
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.mutations import VARIANTS
from tests.mutations.variant import Variant

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 300.0
FEW = 2

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

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


def run_tests(tree: Path, tests: list[str]) -> dict[str, Any]:
    """Runs `tests` of the copy in `tree` until the first failure; to be called in a fork."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "repro", "paper_configs")]:
        del sys.modules[name]
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    sys.path[:] = [str(tree), *(path for path in sys.path if Path(path or ROOT).resolve() != ROOT)]
    sys.dont_write_bytecode = True
    first = FirstFailure()
    code = pytest.main(
        ["-x", "--tb=short", "-p", "no:cacheprovider", "-p", "no:unraisableexception", *tests], plugins=[first]
    )
    assert sys.modules["repro"].__file__ == str(tree / "repro" / "__init__.py"), sys.modules["repro"].__file__
    return {"code": int(code), "test": first.test, "error": first.error}


class Job:
    """A fork that runs tests in a tree, its output in a file."""

    def __init__(self, tree: Path, tests: list[str]) -> None:
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
                self._result.write_text(json.dumps(run_tests(tree, tests)))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(0)

    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def finished(self) -> bool:
        """Whether it has ended; kills it once it has taken too long."""
        if self.seconds() > TIMEOUT_S:
            os.kill(self.pid, signal.SIGKILL)
        return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid

    def result(self) -> dict[str, Any]:
        """What `run_tests` returned; of a fork that died, a code of -1."""
        if not self._result.exists():
            return {"code": -1, "test": "", "error": "died"}
        return json.loads(self._result.read_text())


def copy_tree(tree: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("repro", "tests", "paper_configs"):
        shutil.copytree(ROOT / name, tree / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tree)


def verdict(variant: Variant, result: dict[str, Any]) -> tuple[bool, str]:
    """Whether the variant was caught for a right reason, and what to print."""
    if result["code"] == pytest.ExitCode.OK:
        return False, f"SURVIVED {variant.test}"
    if result["code"] != pytest.ExitCode.TESTS_FAILED or result["error"] in MISTAKES:
        return False, f"BROKEN ({result['error'] or result['code']}) {variant.test}"
    return True, result["test"]


def run_all(variants: list[Variant], trees: list[Path]) -> int:
    """Number of variants that were not caught."""
    waiting, free, running, failures = list(variants), list(trees), {}, 0
    while waiting or running:
        while waiting and free:
            variant, tree = waiting.pop(0), free.pop()
            path = tree / variant.file
            source = path.read_text()
            path.write_text(variant.apply(source))
            running[variant.name] = (variant, Job(tree, [variant.test]), source)
        time.sleep(0.02)
        for name, (variant, job, source) in list(running.items()):
            if job.finished():
                caught, text = verdict(variant, job.result())
                failures += not caught
                print(f"{job.seconds():5.1f} s  {name:56} {text}", flush=True)
                if not caught:
                    print(job.output.read_text()[-2000:], flush=True)
                (job.tree / variant.file).write_text(source)
                free.append(job.tree)
                del running[name]
    return failures


def passes_unchanged(tree: Path, variants: list[Variant]) -> bool:
    """Whether every named test passes without a variant."""
    job = Job(tree, sorted({variant.test for variant in variants}))
    while not job.finished():
        time.sleep(0.05)
    if job.result()["code"] != 0:
        print(f"The tests fail without any variant:\n{job.output.read_text()}")
    return job.result()["code"] == 0


def few_of_each(variants: list[Variant]) -> list[Variant]:
    """The first `FEW` variants of each source file whose test is not slow."""
    taken: Counter[str] = Counter()
    chosen = []
    for variant in variants:
        if not variant.slow and taken[variant.file] < FEW:
            taken[variant.file] += 1
            chosen.append(variant)
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the variants whose name or file contains this")
    parser.add_argument("--fast", action="store_true", help=f"{FEW} of each source file, for continuous integration")
    parser.add_argument("--jobs", type=int, default=2, help="forks side by side")
    arguments = parser.parse_args()
    variants = [variant for variant in VARIANTS if arguments.only in variant.name + variant.file]
    if arguments.fast:
        variants = few_of_each(variants)
    start = time.perf_counter()
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # or every fork would go through all that is imported when pytest collects garbage
    with tempfile.TemporaryDirectory() as folder:
        trees = [Path(folder).resolve() / str(i) for i in range(arguments.jobs)]
        for tree in trees:
            copy_tree(tree)
        if not arguments.fast and not passes_unchanged(trees[0], variants):
            return 1
        failures = run_all(variants, trees)
    print(f"{len(variants) - failures} of {len(variants)} caught in {time.perf_counter() - start:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
