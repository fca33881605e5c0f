"""A short version of `make kill-test`."""

import pytest

from tests.kill_and_resume import kill_repeatedly


@pytest.mark.slow
def test_kills_at_random_moments_lose_nothing(tmp_path):
    report = kill_repeatedly(tmp_path, kills=3, longest=25.0, seed=1)
    assert report.kills == 3
    assert report.records >= 1
    assert any(report.resumed_from), "no kill came after a checkpoint: the test saw nothing"
