"""Tests that wait for other processes come before all others."""

from types import SimpleNamespace

from tests.conftest import WAITING, pytest_collection_modifyitems


def test_those_that_wait_are_there_and_come_first():
    assert all(path.is_file() for path in WAITING)
    folder = WAITING[0].parent
    paths = [folder / "ops/test_traces.py", WAITING[1], folder / "test_files.py", WAITING[0]]
    items = [SimpleNamespace(path=path) for path in paths]
    pytest_collection_modifyitems(items)
    assert [item.path for item in items] == [paths[1], paths[3], paths[0], paths[2]]
