"""Devices of the parts of a training.

The learner's parts are on the device of the strategy, also if it is not the first one. The actors' parts are on the
device that TensorFlow uses by default, which is a GPU if there is one.
"""

import json

import pytest

from tests.support.forked_train import run_command
from tests.training.placement import DEFAULT, HOST, STRATEGY

SCHEDULES = {"a2c_sync_trajectories": "graph", "a2c_dynamic_batching": "auto"}
"""Two of Table 1's, and how the update is compiled: `auto` is XLA where there is a GPU."""


@pytest.fixture(scope="module", params=SCHEDULES.items(), ids=list(SCHEDULES))
def found(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("placement") / "found.json"
    done = run_command(path.parent, "tests.training.placement", str(path), *request.param)
    assert done.returncode == 0, done.stderr[-3000:]
    return {"schedule": request.param[0]} | json.loads(path.read_text())


def assert_computed_on(device, operations):
    """That all was executed there but what passes values on."""
    assert device in operations
    assert operations.keys() <= {device, HOST}
    assert set(operations.get(HOST, [])) <= {"Identity"}


def test_weights_slots_and_updates_are_on_the_device_of_the_strategy(found):
    for what in ("weights", "slots", "scalars"):
        assert set(found[what]) == {STRATEGY}, what
    assert_computed_on(STRATEGY, found["learning"])
    is_xla = SCHEDULES[found["schedule"]] == "auto"  # and is seen as a call
    computed = set(found["learning"][STRATEGY])
    assert ("StatefulPartitionedCall" if is_xla else "ResourceApplyRMSProp") in computed
    assert is_xla or computed & {"MatMul", "_MklMatMul"}  # of TensorFlow or oneDNN


def test_actors_compute_where_tensorflow_does_by_itself(found):
    assert set(found["policies"]) == {DEFAULT}
    assert_computed_on(DEFAULT, found["acting"])
    computed = found["acting"][DEFAULT]
    assert "AssignVariableOp" in computed  # weights are taken
    assert any("MatMul" in operation for operation in computed)


def test_with_dynamic_batching_actors_share_one_policy(found):
    assert found["shared"] == (found["schedule"] == "a2c_dynamic_batching")
