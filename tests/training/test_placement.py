"""Which device has the parts of a training: the learner's that of the strategy, also where it is not the first one, and
the actors' that on which TensorFlow computes by itself, which is a GPU where there is one."""

import json

import pytest

from tests.support.forked_train import run_command
from tests.training.placement import DEFAULT, HOST, STRATEGY

OWN, SHARED = "a2c_sync_trajectories", "a2c_dynamic_batching"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("placement") / "found.json"
    done = run_command(path.parent, "tests.training.placement", str(path))
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(path.read_text())


def assert_computed_on(device, operations):
    """That all was executed there but what passes values on."""
    assert device in operations
    assert operations.keys() <= {device, HOST}
    assert set(operations.get(HOST, [])) <= {"Identity"}


@pytest.mark.parametrize("schedule", [OWN, SHARED])
def test_weights_slots_and_updates_are_on_the_device_of_the_strategy(found, schedule):
    of = found[schedule]
    for what in ("weights", "slots", "scalars"):
        assert set(of[what]) == {STRATEGY}, what
    assert_computed_on(STRATEGY, of["learning"])


def test_an_update_is_seen_as_operations_or_as_the_one_that_xla_compiled(found):
    assert {"MatMul", "ResourceApplyRMSProp"} <= set(found[OWN]["learning"][STRATEGY])
    assert found[SHARED]["learning"][STRATEGY] == ["Pack", "StatefulPartitionedCall"]  # what `auto` is with a GPU


@pytest.mark.parametrize("schedule", [OWN, SHARED])
def test_actors_compute_where_tensorflow_does_by_itself(found, schedule):
    of = found[schedule]
    assert set(of["policies"]) == {DEFAULT}
    assert_computed_on(DEFAULT, of["acting"])
    assert {"AssignVariableOp", "_FusedMatMul"} <= set(of["acting"][DEFAULT])


def test_with_dynamic_batching_actors_share_one_policy(found):
    assert (found[OWN]["shared"], found[SHARED]["shared"]) == (0, 1)
