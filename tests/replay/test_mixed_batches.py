"""Batches of new and replayed unrolls, against a plain list of the added ones."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro import machine_memory
from repro.environments.specs import STACK, FrameStackSpec
from repro.replay.mixed_batches import MixedBatches

T, CAPACITY = 3, 7
SPEC = Trajectory(
    step_type=tf.TensorSpec((), tf.int32),
    observation=tf.TensorSpec((2,), tf.float32),
    action=tf.TensorSpec((), tf.int32),
    policy_info={"logits": tf.TensorSpec((2,), tf.float32), "core_state": (tf.TensorSpec((4,), tf.float32),)},
    next_step_type=tf.TensorSpec((), tf.int32),
    reward=tf.TensorSpec((), tf.float32),
    discount=tf.TensorSpec((), tf.float32),
)


def group(rng, size):
    """Unrolls [size, T+1, ...] of noise."""
    return tf.nest.map_structure(
        lambda spec: (9 * rng.standard_normal((size, T + 1, *spec.shape))).astype(spec.dtype.as_numpy_dtype), SPEC
    )


def as_bytes(unrolls):
    """Each unroll by what a learner reads of it: of the core's state, the first row."""
    (state,) = unrolls.policy_info["core_state"]
    leaves = [*tf.nest.flatten(unrolls._replace(policy_info=unrolls.policy_info["logits"])), state[:, :1]]
    return [b"".join(leaf[i].tobytes() for leaf in leaves) for i in range(len(state))]


def test_new_unrolls_come_first_and_replayed_ones_are_among_the_last_with_their_versions():
    rng, naive = np.random.default_rng(0), []  # oldest first
    batches = MixedBatches(SPEC, T, CAPACITY, num_replayed=40)
    batches.check_valid()
    for version in range(9):
        groups, versions = [group(rng, 2), group(rng, 1)], [version, version + 100]
        batch = batches.mix(groups, versions, rng)
        batches.check_valid()
        new = as_bytes(groups[0]) + as_bytes(groups[1])
        naive = (naive + list(zip(new, [version, version, version + 100])))[-CAPACITY:]
        found = as_bytes(batch.trajectory)
        assert found[:3] == new
        assert len(batches._replay) == len(naive)
        assert set(zip(found[3:], batch.replayed_versions.tolist(), strict=True)) == set(naive)


@pytest.mark.slow
def test_replayed_unrolls_are_sampled_uniformly_and_apart_from_each_other():
    rng = np.random.default_rng(1)
    batches = MixedBatches(SPEC, T, 10, num_replayed=2)
    for i in range(14):
        batches.mix([group(rng, 1)], [i], rng)
    counts = np.zeros((10, 10))
    for i in range(14, 5014):
        one, two = (i - batches.mix([group(rng, 1)], [i], rng).replayed_versions).tolist()
        counts[one, two] += 1
    assert ((counts - 50) ** 2 / 50).sum() < 148.2  # chi-squared, 99 degrees of freedom, 0.1 %


def test_a_batch_is_memory_of_its_own():
    rng = np.random.default_rng(2)
    batches, unrolls = MixedBatches(SPEC, T, CAPACITY, 2), group(rng, 2)
    batch = batches.mix([unrolls], [0], rng)
    before = as_bytes(batch.trajectory)
    for leaf in tf.nest.flatten(unrolls):
        leaf.fill(0)
    batches.mix([group(rng, CAPACITY)], [1], rng)
    assert as_bytes(batch.trajectory) == before


@pytest.mark.parametrize("count", [0, 2, 6])
def test_state_goes_around(count):
    rng = np.random.default_rng(3)
    batches, other = (MixedBatches(SPEC, T, CAPACITY, 3) for _ in range(2))
    for version in range(count):
        batches.mix([group(rng, 2)], [version], rng)
    other.set_state(batches.get_state())
    other.check_valid()
    for version in range(count, count + 4):
        unrolls = group(rng, 2)
        one, two = (x.mix([unrolls], [version], np.random.default_rng(version)) for x in (batches, other))
        assert as_bytes(one.trajectory) == as_bytes(two.trajectory)
        np.testing.assert_array_equal(one.replayed_versions, two.replayed_versions)


def test_unrolls_without_a_version_are_found():
    rng = np.random.default_rng(4)
    batches = MixedBatches(SPEC, T, CAPACITY, 1)
    batches._replay.add(group(rng, 2))
    with pytest.raises(RuntimeError, match="are not those of the 2 stored unrolls"):
        batches.check_valid()


def test_a_replay_of_one_unroll_of_frames_is_refused():
    frames = SPEC._replace(observation=FrameStackSpec((6, 4, STACK), tf.uint8, 0, 255))
    with pytest.raises(
        ValueError, match=r"replay\.capacity=1: choose 2 or more, the fewest unrolls for a replay of frames\."
    ):
        MixedBatches(frames, T, 1, 1)
    MixedBatches(frames, T, 2, 1)
    MixedBatches(SPEC, T, 1, 1)


def test_a_replay_that_does_not_fit_into_memory_is_refused(monkeypatch):
    per_unroll = (T + 1) * (4 + 8 + 4 + 8 + 4 + 4 + 4) + 16
    monkeypatch.setattr(machine_memory, "available_bytes", lambda: 100 * per_unroll)
    MixedBatches(SPEC, T, 100, 1)
    with pytest.raises(ValueError, match=r"replay.capacity=101 takes 0.0 GB .* choose at most 100\."):
        MixedBatches(SPEC, T, 101, 1)


def test_sizes_that_replay_nothing_are_refused():
    with pytest.raises(ValueError, match="must have 1 or more replayed unrolls, got 0"):
        MixedBatches(SPEC, T, CAPACITY, 0)
    with pytest.raises(ValueError, match="The capacity of a replay must be 1 or more, got 0"):
        MixedBatches(SPEC, T, 0, 1)
