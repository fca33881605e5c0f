"""Keeps third-party messages out of the tests' output, begins with the tests that wait, and imports quickly."""

import gc
from pathlib import Path

from repro import cli

cli.quiet()
gc.disable()  # until all is imported: it would go through that again and again, see `cli.load_tensorflow`

WAITING = tuple(
    Path(__file__).parent / name
    for name in (
        "test_machines.py",
        "test_kill_and_resume.py",
        "launch/test_campaign.py",
        "test_faults.py",
        "test_ray_machines.py",
        "test_commands.py",
        "test_soak.py",
    )
)
"""Their tests wait for other processes most of the time. One worker has them from the start, while the others compute;
at the end they would wait alone."""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path not in WAITING)


def pytest_collection_finish():
    gc.freeze()
    gc.enable()
