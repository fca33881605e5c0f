"""A short version of `python -m tests.two_machines`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.two_machines import refusal

REFUSAL = refusal()


@pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))
def test_a_machine_that_is_cut_off_goes_on_and_one_whose_actor_is_killed_gets_another():
    command = [sys.executable, "-m", "tests.two_machines", "--cut_off=3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["updates_meanwhile"] > 0
    assert found["restarts_after_cut"] == 0  # nothing was lost by the cut
    assert found["actor_restarts"] == len(found["said"]) == 1
    assert found["machines"] == 2
    assert found["lost"] == {"games": 16, "unrolls": 16}
