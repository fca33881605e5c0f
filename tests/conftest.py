"""Keeps third-party messages out of the tests' output, has the tests that wait begin, and imports quickly."""

import gc
import os
from pathlib import Path

from repro import cli

cli.quiet()
gc.disable()  # until all is imported: it would go through that again and again, see `cli.load_tensorflow`

TESTS = Path(__file__).parent
WAITING = tuple(
    tuple(TESTS / name for name in names)
    for names in (
        ("test_machines.py", "test_kill_and_resume.py", "launch/test_campaign.py", "launch/test_ray_workers.py"),
        ("test_ray_machines.py", "test_faults.py", "test_soak.py"),
    )
)
"""Their tests wait for other processes most of the time. Two workers have them from the start, while others compute: at
the end, or one after another, they would wait alone."""


def pytest_configure(config):
    """Has each worker begin to import elsewhere: one rewrites the assertions of a file, and the others find it done."""
    number, workers = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]), _workers()
    if workers > 1 and [Path(argument).resolve() for argument in config.args] == [TESTS.resolve()]:
        files = sorted(map(str, TESTS.rglob("test_*.py")))
        first = len(files) * number // workers
        config.args = files[first:] + files[:first]


def pytest_collection_modifyitems(items):
    """Has a worker begin with each group: at first each worker has an equal part of all, by the order of files."""
    items.sort(key=lambda item: item.path)  # whatever this worker began to import with
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
