"""Keeps third-party messages out of the tests' output, runs tests that wait first, and speeds up imports."""

import gc
import os
from pathlib import Path

from repro import cli

cli.quiet()
gc.disable()  # until the imports are done, which it would slow down, see `cli.load_tensorflow`

TESTS = Path(__file__).parent
WAITING = tuple(
    tuple(TESTS / name for name in names)
    for names in (
        ("test_machines.py", "test_kill_and_resume.py", "launch/test_campaign.py", "launch/test_ray_workers.py"),
        ("test_ray_machines.py", "test_faults.py", "test_soak.py"),
    )
)
"""Files whose tests mostly wait for other processes.

Two workers begin with them, while others compute. At the end, or one after another, they would leave cores idle."""


def pytest_configure(config):
    """Makes each worker begin its imports with other files, so that the assertions of each are rewritten only once."""
    number, workers = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]), _workers()
    if workers > 1 and [Path(argument).resolve() for argument in config.args] == [TESTS.resolve()]:
        files = sorted(map(str, TESTS.rglob("test_*.py")))
        first = len(files) * number // workers
        config.args = files[first:] + files[:first]


def pytest_collection_modifyitems(items):
    """Makes a worker begin with each group of `WAITING`; workers first get equal parts of all tests, in their order."""
    items.sort(key=lambda item: item.path)  # in the same order in all workers, despite their order of imports
    first, second = ([item for item in items if item.path in files] for files in WAITING)
    others = [item for item in items if item.path not in WAITING[0] + WAITING[1]]
    workers = _workers()
    part, rest = divmod(len(items), workers)
    middle = workers // 2 * part + max(0, workers // 2 + rest - workers) - len(first)  # the last `rest` have one more
    items[:] = first + others[: max(0, middle)] + second + others[max(0, middle) :]


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def _workers():
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
