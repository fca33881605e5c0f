"""Tests that wait for other processes come before all others, in two groups that two workers begin with."""

from types import SimpleNamespace

import pytest

from tests.conftest import WAITING, pytest_collection_modifyitems
from tests.support.forked_train import run_program

FOLDER = WAITING[0][0].parent
OTHERS = [FOLDER / "ops/test_traces.py", FOLDER / "test_files.py", FOLDER / "test_layers.py"]


@pytest.mark.parametrize(("workers", "starts"), [("1", (0, 1)), ("4", (0, 3))])
def test_those_that_wait_are_there_and_a_worker_begins_with_each_group(workers, starts, monkeypatch):
    """Of seven tests the four workers have 1, 2, 2 and 2."""
    assert all(path.is_file() for files in WAITING for path in files)
    first, second = WAITING[0][0], WAITING[1][0]
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", workers)
    items = [SimpleNamespace(path=path) for path in (*OTHERS, second, *OTHERS[:2], first)]
    pytest_collection_modifyitems(items)
    paths = [item.path for item in items]
    assert (paths.index(first), paths.index(second)) == starts
    assert [path for path in paths if path not in (first, second)] == sorted([*OTHERS, *OTHERS[:2]])


def test_a_fork_begins_with_what_takes_long_to_load(tmp_path):
    """Another preload, of a module that is imported later, would take its place."""
    done = run_program(tmp_path, "import sys; print('tests.support.preloaded' in sys.modules)")
    assert done.stdout == "True\n", done.stderr
