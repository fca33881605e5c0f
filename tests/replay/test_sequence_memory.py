"""The replay of sequences in this process, against Reverb's on the same games, and its own invariants."""

from __future__ import annotations

import numpy as np
import pytest
import reverb
import scipy.stats
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from repro.aligned import ALIGNMENT
from repro.environments.specs import STACK, FrameStackSpec
from repro.replay.frame_stacks import Frames
from repro.replay.sequence_memory import SequenceMemory
from repro.replay.sequence_writer import TABLE, SequenceSettings
from repro.replay.sequences import SequenceReplay, make_writer
from repro.replay.shared_rows import SharedRows
from repro.replay.step_layout import FRAME, STATE, STEP, StepLayout
from repro.replay.sum_tree import SumTree
from tests.replay.stacks import to_frames

SIZE, UNITS, ENVS, UNROLL = 5, 3, 3, 7
SPEC = Trajectory(
    step_type=tf.TensorSpec((), tf.int32),
    observation={"frame": FrameStackSpec((SIZE, SIZE, STACK), tf.uint8, 0, 255), "x": tf.TensorSpec((2,), tf.float32)},
    action=tf.TensorSpec((), tf.int32),
    policy_info={
        "epsilon": tf.TensorSpec((), tf.float32),
        "core_state": (tf.TensorSpec((UNITS,), tf.float32), tf.TensorSpec((2,), tf.float32)),
    },
    next_step_type=tf.TensorSpec((), tf.int32),
    reward=tf.TensorSpec((), tf.float32),
    discount=tf.TensorSpec((), tf.float32),
)
SETTINGS = SequenceSettings(steps=8, period=3, lead=2, capacity=1000, priority_exponent=0.6)


def priority_of(rows: Trajectory) -> float:
    """Of rewards and step types, so that a wrong row shows."""
    return float(np.abs(rows.reward @ np.arange(1, len(rows.reward) + 1)) + rows.step_type.sum() / 10)


def played(seed: int, unrolls: int) -> list[list[Trajectory]]:
    """Unrolls [T, ...] of each environment, one after the other: games of 2 to 30 steps, one of them amid a game.

    Lost lives, FIRST in the midst of a game, come now and then.
    """
    rng = np.random.default_rng(seed)
    return [list(_cut(_play(rng, unrolls * UNROLL, amid_a_game=env == 1))) for env in range(ENVS)]


def _play(rng: np.random.Generator, total: int, amid_a_game: bool, length: int = 0) -> Trajectory:
    def sample(leaf: tf.TensorSpec) -> np.ndarray:
        return (100 * rng.standard_normal((total, *leaf.shape))).astype(leaf.dtype.as_numpy_dtype)

    steps, kinds, stacks = tf.nest.map_structure(sample, SPEC), [], []
    stack = rng.integers(1, 255, (SIZE, SIZE, STACK), np.uint8)
    left = length or int(rng.integers(2, 30))
    begins = not amid_a_game
    for _ in range(total):
        frame = rng.integers(1, 255, (SIZE, SIZE, 1), np.uint8)
        stack = np.concatenate([np.zeros_like(stack[..., 1:]) if begins else stack[..., 1:], frame], axis=-1)
        left -= 1
        kind = StepType.FIRST if begins or rng.random() < 0.05 else StepType.MID
        kinds.append(StepType.LAST if left == 0 else kind)
        stacks.append(stack)
        begins = left == 0
        if begins:
            left = length or int(rng.choice([2, 3, 4, rng.integers(2, 30)]))
    return steps._replace(
        step_type=np.array(kinds, np.int32), observation=steps.observation | {"frame": np.array(stacks)}
    )


def _cut(steps: Trajectory) -> list[Trajectory]:
    unrolls = []
    for begin in range(0, len(steps.step_type), UNROLL):
        unroll = tf.nest.map_structure(lambda leaf, begin=begin: leaf[begin : begin + UNROLL], steps)
        frames = Frames(to_frames(unroll.observation["frame"][np.newaxis]).pixels[0])
        unrolls.append(unroll._replace(observation=unroll.observation | {"frame": frames}))
    return unrolls


def filled(settings: SequenceSettings, seed: int = 0, unrolls: int = 12, priority=priority_of) -> SequenceMemory:
    memory = SequenceMemory(SPEC, settings, ENVS, UNROLL, np.random.default_rng(5), priority)
    write(memory, played(seed, unrolls))
    return memory


def write(memory: SequenceMemory, unrolls: list[list[Trajectory]]) -> None:
    for together in zip(*unrolls):
        for writer, unroll in zip(memory.writers, together):
            writer.append(unroll)


def bytes_of(sequence: Trajectory) -> bytes:
    return b"".join(np.ascontiguousarray(leaf).tobytes() for leaf in tf.nest.flatten(sequence))


def in_memory(memory: SequenceMemory) -> dict[bytes, float]:
    """Every sequence, to the last bit, with the probability of its being sampled."""
    found: dict[bytes, float] = {}
    for _ in range(10_000):
        if len(found) == len(memory):
            break
        sample = memory.sample(64)
        for b, (key, probability) in enumerate(zip(sample.keys.tolist(), sample.probabilities.tolist())):
            found[bytes_of(tf.nest.map_structure(lambda leaf, b=b: leaf[b], sample.sequences))] = probability
    return found


def on_reverb(settings: SequenceSettings, unrolls: list[list[Trajectory]], folder) -> dict[bytes, float]:
    """The same of a Reverb table that was given the same unrolls in the same order."""
    replay, layout = SequenceReplay(SPEC, settings, folder / "working"), StepLayout(SPEC)
    replay.start()
    client = reverb.Client(replay.address)
    writers = [make_writer(client, SPEC, settings, priority_of) for _ in range(ENVS)]
    for together in zip(*unrolls):
        for writer, unroll in zip(writers, together):
            writer.append(unroll)
            writer.flush()  # so that the sequences of the environments come in this order
    found: dict[bytes, float] = {}
    count = len(replay)
    for _ in range(10_000):
        if len(found) == count:
            break
        for sample in client.sample(TABLE, 200, emit_timesteps=False, unpack_as_table_signature=True):
            leaves = layout.unpack(sample.data[STEP][np.newaxis], sample.data[STATE][np.newaxis])
            leaves[layout.image] = Frames(sample.data[FRAME][np.newaxis])
            sequence = tf.nest.pack_sequence_as(layout.spec, [np.asarray(leaf) for leaf in leaves])
            found[bytes_of(sequence)] = sample.info.probability
    replay.close()
    return found


@pytest.mark.parametrize(
    ("steps", "period", "lead", "capacity"), [(8, 3, 2, 1000), (8, 3, 2, 25), (1, 1, 0, 60), (4, 6, 1, 1000)]
)
def test_the_sequences_are_those_on_reverb_byte_for_byte(tmp_path, steps, period, lead, capacity):
    """Also how likely each is, which its first priority says, and which ones have left where there are too many."""
    settings = SequenceSettings(steps, period, lead, capacity, 0.6)
    unrolls = played(0, 12)
    expected = on_reverb(settings, unrolls, tmp_path)
    memory = filled(settings)
    memory.check_valid()
    assert len(memory) == len(expected) > 20
    found = in_memory(memory)
    assert found.keys() == expected.keys()
    for sequence, probability in found.items():
        assert probability == pytest.approx(expected[sequence], rel=1e-9)


def test_probabilities_are_powers_of_the_priorities_over_their_sum():
    """Priorities 1, 4 and 0 at an exponent of 1/2: 1/3, 2/3 and 0; of one key twice the last counts."""
    memory = filled(SETTINGS._replace(priority_exponent=0.5, capacity=3))
    keys = memory.sample(100).keys
    first, second, third = sorted(set(keys.tolist()))
    memory.set_priorities(np.uint64([first, second, third, second]), np.float32([1.0, 9.0, 0.0, 4.0]))
    memory.set_priorities(np.uint64([first - 1]), np.float32([1e9]))  # has left
    sample = memory.sample(2000)
    expected = {first: 1 / 3, second: 2 / 3}
    np.testing.assert_allclose(sample.probabilities, [expected[key] for key in sample.keys.tolist()])
    np.testing.assert_array_equal(sample.size, np.full(2000, 3))
    memory.check_valid()


def test_sequences_are_as_likely_as_each_other_where_no_priority_is_above_0():
    memory = filled(SETTINGS._replace(capacity=4))
    keys = np.arange(1000, dtype=np.uint64)
    memory.set_priorities(keys[: memory._end], np.zeros(memory._end))
    sample = memory.sample(400)
    assert len(set(sample.keys.tolist())) == 4
    np.testing.assert_array_equal(sample.probabilities, 0.25)


@pytest.mark.parametrize("exponent", [0.0, 0.7])
def test_frequencies_are_those_of_the_probabilities(exponent):
    memory = filled(SETTINGS._replace(priority_exponent=exponent, capacity=50))
    counts, expected = np.zeros(50), np.full(50, np.nan)
    for _ in range(200):
        sample = memory.sample(100)
        places = sample.keys.astype(np.int64) - memory._first
        np.add.at(counts, places, 1)
        expected[places] = sample.probabilities
    assert expected.sum() == pytest.approx(1.0)
    assert scipy.stats.chisquare(counts, 20_000 * expected).pvalue > 1e-3
    wrong = expected**0.8 / (expected**0.8).sum() if exponent else np.arange(1, 51) / np.arange(1, 51).sum()
    assert scipy.stats.chisquare(counts, 20_000 * wrong).pvalue < 1e-6


def test_what_is_sampled_lies_where_tensors_can_read_it_and_is_no_one_else_s():
    memory = filled(SETTINGS)
    sample, again = memory.sample(6), filled(SETTINGS).sample(6)
    for leaf in tf.nest.flatten(sample.sequences):
        assert leaf.flags.c_contiguous
        assert leaf.ctypes.data % ALIGNMENT == 0
    write(memory, played(1, 12))
    assert bytes_of(sample.sequences) == bytes_of(again.sequences)


def test_empty_replay_is_not_sampled_from():
    memory = SequenceMemory(SPEC, SETTINGS, ENVS, UNROLL, np.random.default_rng(0))
    assert len(memory) == 0
    with pytest.raises(ValueError, match="The replay is empty"):
        memory.sample(1)


@pytest.mark.parametrize("stop", [0, 1, 5, 12])
def test_state_goes_around_between_any_two_unrolls(stop):
    """In the midst of games and sequences, before and after the first sequence has left."""
    settings, unrolls = SETTINGS._replace(capacity=25), played(0, 20)
    whole = SequenceMemory(SPEC, settings, ENVS, UNROLL, np.random.default_rng(5), priority_of)
    write(whole, [env[:stop] for env in unrolls])
    if len(whole):
        whole.sample(3)
    other = SequenceMemory(SPEC, settings, ENVS, UNROLL, np.random.default_rng(6), priority_of)
    other.set_state(tf.nest.map_structure(np.copy, whole.get_state()) | {"rng": whole.get_state()["rng"]})
    other.check_valid()

    def assert_same_samples():
        for _ in range(5):
            a, b = whole.sample(10), other.sample(10)
            assert bytes_of(a.sequences) == bytes_of(b.sequences)
            for name in ("keys", "probabilities", "size"):
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name))

    if len(whole):
        assert_same_samples()  # below, new sequences have taken the places of all that were restored
    for memory in (whole, other):
        write(memory, [env[stop:] for env in unrolls])
        memory.check_valid()
    assert len(other) == 25
    assert_same_samples()


def test_steps_after_a_restart_follow_none_before():
    """What a writer held is given up, and the steps that come are as those of a writer that begins amid a game."""
    memory, unrolls = filled(SETTINGS, unrolls=4), played(1, 6)
    stored = len(memory)
    for writer in memory.writers:
        writer.restart()
    memory.check_valid()
    write(memory, unrolls)
    fresh = SequenceMemory(SPEC, SETTINGS, ENVS, UNROLL, np.random.default_rng(0), priority_of)
    write(fresh, unrolls)
    memory.check_valid()
    assert len(memory) == stored + len(fresh)
    assert in_memory(fresh).keys() < in_memory(memory).keys()


def test_steps_and_frames_are_stored_once_and_their_memory_is_used_again():
    memory = SequenceMemory(SPEC, SETTINGS._replace(capacity=20, steps=17), ENVS, UNROLL, np.random.default_rng(0))
    used = []
    for seed in range(6):
        write(memory, played(seed, 12))
        used.append((memory.steps._used, memory.frames._used))
    memory.check_valid()
    assert used[5] == pytest.approx(used[2], rel=0.15)
    assert max(used[5]) < 20 * 17  # a copy for each sequence would be more


def test_oldest_sequences_leave_where_broken_off_games_take_the_room():
    """A writer that begins again after each unroll has 9 rows in a sequence where a long game would have 3."""
    settings = SETTINGS._replace(capacity=400, lead=0, priority_exponent=0.0)
    memory = SequenceMemory(SPEC, settings, 1, 9, np.random.default_rng(0))
    steps = _play(np.random.default_rng(0), 9, amid_a_game=True)
    steps.step_type[:] = StepType.MID
    (unroll, rest) = _cut(steps)
    unroll = tf.nest.map_structure(lambda *leaves: np.concatenate(leaves), unroll, rest)
    pixels = to_frames(steps.observation["frame"][np.newaxis]).pixels[0]
    unroll = unroll._replace(observation=unroll.observation | {"frame": Frames(pixels)})
    for _ in range(400):
        memory.writers[0].append(unroll)
        memory.writers[0].restart()
    memory.check_valid()
    assert 100 < len(memory) < 400
    assert memory.frames.room < 12
    keys = memory.sample(4000).keys.astype(int)
    assert (keys.min(), keys.max()) == (memory._first, memory._end - 1)  # and none that has left


def test_there_is_room_for_as_many_sequences_as_there_may_be_though_every_game_has_one():
    """No game takes more rows for each sequence than one of `period` transitions: with the lead, `period` + 2."""
    memory = SequenceMemory(SPEC, SETTINGS._replace(capacity=500), 1, UNROLL, np.random.default_rng(0))
    write(memory, [_cut(_play(np.random.default_rng(0), 4 * 700, amid_a_game=False, length=4))])
    assert memory._end == 700
    assert len(memory) == 500
    memory.check_valid()


def test_rows_for_which_there_is_no_room_are_refused():
    rows = SharedRows(4, [((2,), np.uint8)])
    rows.store([np.ones((3, 2), np.uint8)])
    with pytest.raises(ValueError, match="2 rows do not fit into the 1 free rows"):
        rows.store([np.zeros((2, 2), np.uint8)])
    rows.check_valid([np.arange(3)])
    np.testing.assert_array_equal(rows.take(rows.store([np.full((1, 2), 7, np.uint8)]))[0], [[7, 7]])
    assert rows.room == 0


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_priorities_below_0_or_not_finite_are_refused(wrong):
    memory = filled(SETTINGS._replace(capacity=4))
    before = memory.get_state()["weights"].copy()
    keys = np.arange(memory._first, memory._end, dtype=np.uint64)
    with pytest.raises(ValueError, match="must be numbers of 0 or more"):
        memory.set_priorities(keys, np.array([2.0, 3.0, 4.0, wrong]))
    np.testing.assert_array_equal(memory.get_state()["weights"], before)


def test_a_wrong_sum_of_priorities_is_found():
    memory = filled(SETTINGS)
    memory.check_valid()
    memory._weights._nodes[1] += 1.0
    with pytest.raises(RuntimeError, match="A sum over priorities is wrong"):
        memory.check_valid()


def test_bytes_are_those_that_a_full_replay_takes():
    """Besides, of each environment: two sequences of 9 rows, a period, two unrolls of 7 and the 3 frames before."""
    settings = SequenceSettings(steps=8, period=4, lead=0, capacity=10, priority_exponent=0.0)
    step = 4 + 8 + 4 + 4 + 4 + 4 + 4 + SIZE * SIZE  # step type, x, action, epsilon, reward, discount
    numbers = 4 * (9 + 3 + 9)
    stored = 10 * (4 * step + numbers + 4 * (UNITS + 2)) + 5 * (2 * 9 + 4 + 2 * 7 + 3) * step
    assert SequenceMemory.nbytes(SPEC, settings, num_envs=5, unroll_length=7) == stored


def test_sum_tree_finds_what_a_walk_over_the_weights_finds():
    rng = np.random.default_rng(0)
    for capacity in (1, 2, 7, 64):
        tree, weights = SumTree(capacity), np.zeros(capacity)
        for _ in range(30):
            places = rng.integers(0, capacity, 4)
            new = rng.integers(0, 5, 4).astype(np.float64)
            tree.set(places, new)
            for place, weight in zip(places, new):
                weights[place] = weight
            tree.check_valid()
            np.testing.assert_array_equal(tree.weights, weights)
            if weights.sum():
                seed = int(rng.integers(1000))
                points = np.random.default_rng(seed).random(20) * weights.sum()
                walked = [next(i for i in range(capacity) if point < weights[: i + 1].sum()) for point in points]
                np.testing.assert_array_equal(tree.sample(np.random.default_rng(seed), 20), walked)
        again = SumTree(capacity)
        again.set_all(weights)
        np.testing.assert_array_equal(again._nodes, tree._nodes)


def test_no_weight_of_0_is_found_behind_the_last_one_that_counts():
    """Rounding may leave a point, level after level, at the end of all weights."""

    class AtTheEnd:
        def random(self, size):
            return np.ones(size)

    tree = SumTree(8)
    tree.set(np.arange(3), np.array([0.1, 0.2, 0.3]))
    np.testing.assert_array_equal(tree.sample(AtTheEnd(), 2), [2, 2])
