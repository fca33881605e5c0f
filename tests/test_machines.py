"""A short version of `python -m tests.machines`; `training/test_synchronous_learners.py` has its weights."""

from __future__ import annotations

import pytest

from tests.machines import SCENARIOS
from tests.support.network import machines, refusal

REFUSAL = refusal()


@pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))
@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("actors", "SIGTERM"),
        pytest.param("evaluator", "SIGTERM", marks=pytest.mark.slow),
        pytest.param("learners", "SIGTERM, to both", marks=pytest.mark.slow),
        pytest.param("replay", "SIGTERM, to both", marks=pytest.mark.slow),
    ],
)
def test_a_run_on_three_machines_survives(name, last):
    with machines(3) as made:
        outcomes = list(SCENARIOS[name](made, 3.0))
    assert outcomes[-1].fault == last
