"""The replay of unrolls, against plain lists of the added ones."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from repro.environments.specs import STACK, FrameStackSpec
from repro.replay.frame_stacks import OLDER, Frames
from repro.replay.unrolls import UnrollReplay

T, HEIGHT, WIDTH = 5, 6, 4
SPEC = Trajectory(
    step_type=tf.TensorSpec((), tf.int32),
    observation=FrameStackSpec((HEIGHT, WIDTH, STACK), tf.uint8, 0, 255),
    action=tf.TensorSpec((), tf.int32),
    policy_info={"logits": tf.TensorSpec((2,), tf.float32)},
    next_step_type=tf.TensorSpec((), tf.int32),
    reward=tf.TensorSpec((), tf.float32),
    discount=tf.TensorSpec((), tf.float32),
)


def _unrolls(rng, count, starts=()):
    """A group of unrolls, each different from any other, in which games start at the given rows."""

    def sample(spec):
        shape = (count, T + 1, *spec.shape)
        return rng.standard_normal(shape).astype(spec.dtype.as_numpy_dtype)

    sampled = tf.nest.map_structure(sample, SPEC)
    sampled.step_type[:] = StepType.MID
    for row in starts:
        sampled.step_type[:, row - 1 : row + 1] = StepType.LAST, StepType.FIRST
    pixels = rng.integers(1, 255, (count, OLDER + T + 1, HEIGHT, WIDTH), np.uint8)
    return sampled._replace(observation=Frames(pixels))


def _rows(unrolls):
    """Each unroll as bytes."""
    leaves = tf.nest.flatten(unrolls)
    return [b"".join(leaf[g].tobytes() for leaf in leaves) for g in range(len(leaves[0]))]


@pytest.mark.parametrize("starts", [(), (3,), (1, 3)])
def test_what_is_sampled_is_what_went_in(starts):
    rng = np.random.default_rng(0)
    replay = UnrollReplay(SPEC, T, 8)
    stored = []
    for count in (3, 2, 4, 4, 1):
        unrolls = _unrolls(rng, count, starts)
        replay.add(unrolls)
        stored += _rows(unrolls)
        kept = stored[-len(replay) :]
        sampled = set(_rows(replay.sample(rng, 200)))
        assert sampled == set(kept)  # all of the last ones, and no other
    assert len(replay) == 8 or (starts and 4 <= len(replay) < 8)


def test_samples_are_uniform():
    rng = np.random.default_rng(1)
    replay = UnrollReplay(SPEC, T, 10)
    replay.add(_unrolls(rng, 10))
    counts = np.unique(replay.sample(rng, 5_000).reward[:, 0], return_counts=True)[1]
    assert len(counts) == 10
    assert ((counts - 500) ** 2 / 500).sum() < 27.9  # chi-squared, 9 degrees of freedom, 0.1 %


def test_an_unroll_whose_frames_do_not_fit_is_not_kept():
    """There is room for 3 + 6 frames; the game that starts inside brings 3 more, in place of the first ones."""
    rng = np.random.default_rng(0)
    replay = UnrollReplay(SPEC, T, 1)
    replay.add(_unrolls(rng, 1, (3,)))
    assert (len(replay), replay.end) == (0, 1)
    replay.check_valid()
    replay.add(_unrolls(rng, 1))
    assert len(replay) == 1


def test_the_oldest_unroll_is_searched_from_where_it_was_found(monkeypatch):
    """Its games all take three frames more, so that a quarter of the unrolls leaves before its time."""
    rng = np.random.default_rng(0)
    replay = UnrollReplay(SPEC, T, 40)
    replay.add(_unrolls(rng, 60, (3,)))
    kept = len(replay)
    assert 20 < kept < 40
    looked, minimum = [], np.min

    class Noting(np.ndarray):
        def min(self, *arguments, **keywords):
            looked.append(None)
            return minimum(np.asarray(self), *arguments, **keywords)

    monkeypatch.setattr(replay, "_arrays", [array.view(Noting) for array in replay._arrays])
    assert len(replay) == kept
    assert len(looked) == 1
    replay.add(_unrolls(rng, 1))
    assert (len(replay), len(looked)) == (kept, 3)


def test_a_state_of_before_takes_the_oldest_unroll_back():
    rng = np.random.default_rng(0)
    replay, other = (UnrollReplay(SPEC, T, 4) for _ in range(2))
    replay.add(_unrolls(rng, 3))
    other.add(_unrolls(rng, 9))
    assert len(other) == 4
    other.set_state(replay.get_state())
    assert len(other) == 3
    other.check_valid()


def test_frames_are_stored_once():
    spec = SPEC._replace(observation=FrameStackSpec((84, 84, STACK), tf.uint8, 0, 255))
    whole = 100 * (T + 1) * 84 * 84 * STACK
    assert UnrollReplay(spec, T, 100).nbytes == pytest.approx(whole * (T + 1 + 3) / (T + 1) / STACK, rel=0.01)


def test_observations_of_other_kinds_are_stored_as_they_are():
    rng = np.random.default_rng(0)
    spec = SPEC._replace(observation=tf.TensorSpec((3,), tf.float32))
    replay = UnrollReplay(spec, T, 4)
    unrolls = _unrolls(rng, 2)._replace(observation=rng.random((2, T + 1, 3), np.float32))
    replay.add(unrolls)
    assert set(_rows(replay.sample(rng, 30))) == set(_rows(unrolls))


def test_of_a_core_s_state_the_first_row_is_stored():
    info = {"logits": tf.TensorSpec((2,), tf.float32), "core_state": (tf.TensorSpec((3,), tf.float32),) * 2}
    spec = SPEC._replace(policy_info=info)
    rng = np.random.default_rng(0)
    unrolls = _unrolls(rng, 4)
    states = tuple(rng.standard_normal((4, T + 1, 3), np.float32) for _ in range(2))
    unrolls = unrolls._replace(policy_info=unrolls.policy_info | {"core_state": states})
    replay = UnrollReplay(spec, T, 8)
    replay.add(unrolls)
    assert replay.nbytes == UnrollReplay(SPEC, T, 8).nbytes + 8 * 2 * 3 * 4
    for part, sampled in zip(states, replay.take(np.array([2, 0])).policy_info["core_state"], strict=True):
        assert sampled.shape == (2, T + 1, 3)
        np.testing.assert_array_equal(sampled[:, 0], part[[2, 0], 0])
        assert not sampled[:, 1:].any()


def test_broken_books_are_found():
    rng = np.random.default_rng(4)
    for break_books in (
        lambda replay: setattr(replay, "_end", -1),
        lambda replay: replay._arrays[1].fill(10**6),  # numbers of frames that never came
    ):
        replay = UnrollReplay(SPEC, T, 4)
        replay.check_valid()
        for _ in range(3):
            replay.add(_unrolls(rng, 2, (1,)))
            replay.check_valid()
        break_books(replay)
        with pytest.raises(RuntimeError):
            replay.check_valid()


def test_state_goes_around():
    rng = np.random.default_rng(2)
    replay = UnrollReplay(SPEC, T, 6)
    for _ in range(4):
        replay.add(_unrolls(rng, 2, (2,)))
    other = UnrollReplay(SPEC, T, 6)
    other.set_state(replay.get_state())
    for _ in range(3):
        assert len(other) == len(replay)
        one, two = (_rows(x.sample(np.random.default_rng(3), 20)) for x in (replay, other))
        assert one == two
        more = _unrolls(rng, 2)
        replay.add(more)
        other.add(more)


def test_a_replay_without_unrolls_says_so():
    with pytest.raises(ValueError, match="The capacity of a replay must be 1 or more, got 0"):
        UnrollReplay(SPEC, T, 0)
    with pytest.raises(ValueError, match="empty"):
        UnrollReplay(SPEC, T, 2).sample(np.random.default_rng(0), 1)
