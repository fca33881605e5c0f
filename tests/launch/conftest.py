"""What tests of clusters share."""

import fcntl

import pytest


@pytest.fixture
def alone_on_ray(tmp_path_factory):
    """Waits for tests of other processes: `--cluster=auto` would join the cluster of one, which has no core free."""
    with (tmp_path_factory.getbasetemp().parent / "ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
