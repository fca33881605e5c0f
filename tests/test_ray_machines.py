"""`python -m tests.ray_machines`, if machines can be made and Ray is installed."""

from __future__ import annotations

import importlib.util

import pytest

from tests.ray_machines import SCENARIOS, outcomes
from tests.support.network import refusal

REFUSAL = refusal() or (None if importlib.util.find_spec("ray") else "Ray, an optional extra, is not installed.")


@pytest.mark.slow
@pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))
def test_runs_on_a_ray_cluster_of_three_machines_survive():
    assert {name for name, _ in outcomes()} == set(SCENARIOS)
