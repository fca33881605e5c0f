"""The replay of sequences, against plain lists of what went in."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from repro.replay.sequences import SequenceReplay, SequenceSettings

HEIGHT, WIDTH, STACK, UNITS = 6, 4, 4, 3


def started(spec, settings, folder, saved=None):
    replay = SequenceReplay(spec, settings, folder / "working")
    replay.start(saved)
    return replay


def _spec(core: bool) -> Trajectory:
    state = {"core_state": (tf.TensorSpec((UNITS,), tf.float32), tf.TensorSpec((UNITS,), tf.float32))} if core else {}
    return Trajectory(
        step_type=tf.TensorSpec((), tf.int32),
        observation={"frame": tf.TensorSpec((HEIGHT, WIDTH, STACK), tf.uint8), "x": tf.TensorSpec((2,), tf.float32)},
        action=tf.TensorSpec((), tf.int32),
        policy_info={"epsilon": tf.TensorSpec((), tf.float32)} | state,
        next_step_type=tf.TensorSpec((), tf.int32),
        reward=tf.TensorSpec((), tf.float32),
        discount=tf.TensorSpec((), tf.float32),
    )


def _games(generator, spec, lengths):
    """Steps of games one after the other, arrays [T, ...]; the last game does not end."""
    total = sum(lengths)

    def draw(leaf):
        return (100 * generator.standard_normal((total, *leaf.shape))).astype(leaf.dtype.as_numpy_dtype)

    steps = tf.nest.map_structure(draw, spec)
    step_type, stacks, start = [], [], 0
    for i, length in enumerate(lengths):
        first = generator.integers(0, 255, (HEIGHT, WIDTH, STACK), np.uint8)
        stacks.append(first)
        for _ in range(length - 1):
            frame = generator.integers(0, 255, (HEIGHT, WIDTH, 1), np.uint8)
            stacks.append(np.concatenate([stacks[-1][..., 1:], frame], axis=-1))
        last = StepType.LAST if i < len(lengths) - 1 else StepType.MID
        step_type += [StepType.FIRST] + [StepType.MID] * (length - 2) + [last]
        start += length
    observation = steps.observation | {"frame": np.stack(stacks)}
    return steps._replace(step_type=np.array(step_type, np.int32), observation=observation)


def _expected(steps, lengths, settings):
    """Rows of every sequence as (number of the step, step type), by a plain walk over each game."""
    rows, sequences, start = settings.steps + 1, [], 0
    for i, length in enumerate(lengths):
        numbers = list(range(start, start + length))
        game = [(numbers[0], int(StepType.LAST))] * settings.lead + [(n, int(steps.step_type[n])) for n in numbers]
        ended = i < len(lengths) - 1
        starts = range(0, len(game), settings.period)
        for first in starts:
            if ended and first >= len(game) - 1:
                continue  # nothing but the last observation
            sequence = game[first : first + rows]
            if ended:
                sequence += [game[-1]] * (rows - len(sequence))
            if len(sequence) == rows:
                sequences.append(sequence)
        start += length
    return sequences


def _as_bytes(steps, sequence, spec):
    numbers = [number for number, _ in sequence]
    drawn = tf.nest.map_structure(lambda leaf: leaf[numbers], steps)
    drawn = drawn._replace(step_type=np.array([step_type for _, step_type in sequence], np.int32))
    if "core_state" in spec.policy_info:
        state = tf.nest.map_structure(lambda leaf: leaf[0], drawn.policy_info["core_state"])
        drawn = drawn._replace(policy_info=drawn.policy_info | {"core_state": state})
    return _bytes(drawn)


def _bytes(sequence):
    """One sequence, the frames of its filling left out: rows LAST before a game's first, or behind its last."""
    is_last = sequence.step_type == StepType.LAST
    begin = int(np.argmin(is_last))
    filling = is_last & (np.arange(len(is_last)) < begin) | (np.cumsum(is_last) > begin + 1)
    frame = np.where(filling[:, np.newaxis, np.newaxis, np.newaxis], 0, sequence.observation["frame"])
    sequence = sequence._replace(observation=sequence.observation | {"frame": frame.astype(np.uint8)})
    return b"".join(leaf.tobytes() for leaf in tf.nest.flatten(sequence))


def _drawn(replay, count, size=5):
    found = []
    for _ in range(count):
        batch = replay.sample(size).sequences
        found += [_bytes(tf.nest.map_structure(lambda leaf, b=b: leaf[b], batch)) for b in range(size)]
    return found


def _write(replay, steps, pieces):
    writer = replay.make_writer()
    total = len(steps.step_type)
    for piece in np.array_split(np.arange(total), pieces):
        writer.append(tf.nest.map_structure(lambda leaf, piece=piece: leaf[piece], steps))
    writer.flush()
    return writer


@pytest.mark.parametrize(
    ("steps_", "period", "lead", "core"), [(1, 1, 0, False), (5, 1, 0, False), (5, 2, 0, False), (7, 3, 2, True)]
)
def test_sequences_are_pieces_of_games(tmp_path, steps_, period, lead, core):
    generator, spec, lengths = np.random.default_rng(0), _spec(core), (13, 2, 6, 21)
    settings = SequenceSettings(steps_, period, lead, 1000, 0.0)
    steps = _games(generator, spec, lengths)
    replay = started(spec, settings, tmp_path)
    try:
        _write(replay, steps, 9)
        expected = {_as_bytes(steps, sequence, spec) for sequence in _expected(steps, lengths, settings)}
        assert len(replay) == len(expected)
        assert set(_drawn(replay, 40 * len(expected) // 5)) == expected
    finally:
        replay.close()


def test_oldest_sequence_gives_way(tmp_path):
    spec, settings = _spec(False), SequenceSettings(3, 1, 0, 7, 0.0)
    steps = _games(np.random.default_rng(0), spec, (30,))
    replay = started(spec, settings, tmp_path)
    try:
        _write(replay, steps, 1)
        sequences = _expected(steps, (30,), settings)[-7:]
        assert set(_drawn(replay, 60)) == {_as_bytes(steps, sequence, spec) for sequence in sequences}
    finally:
        replay.close()


def test_priorities_decide_how_often_a_sequence_is_drawn(tmp_path):
    spec, settings = _spec(False), SequenceSettings(3, 1, 0, 100, 0.5)
    steps = _games(np.random.default_rng(0), spec, (6,))
    replay = started(spec, settings, tmp_path)
    try:
        _write(replay, steps, 1)
        keys = set()
        while len(keys) < 3:
            keys |= set(replay.sample(8).keys.tolist())
        low, middle, high = sorted(keys)
        replay.set_priorities(np.array([low, middle, high], np.uint64), np.array([0.0, 1.0, 9.0]))
        for _ in range(10):  # what was drawn before
            replay.sample(8)
        counts = dict.fromkeys(keys, 0)
        for _ in range(400):
            sample = replay.sample(8)
            for key, probability in zip(sample.keys.tolist(), sample.probabilities):
                counts[key] += 1
                assert probability == pytest.approx({low: 0.0, middle: 0.25, high: 0.75}[key])
        share = counts[high] / (counts[middle] + counts[high])
        assert counts[low] == 0
        assert abs(share - 0.75) < 5 * (0.75 * 0.25 / 3200) ** 0.5
    finally:
        replay.close()


def test_saved_replay_continues(tmp_path):
    spec, settings = _spec(True), SequenceSettings(5, 2, 1, 1000, 0.9)
    steps = _games(np.random.default_rng(0), spec, (13, 9))
    replay = started(spec, settings, tmp_path)
    _write(replay, steps, 1)
    count, before = len(replay), set(_drawn(replay, 60))
    replay.save(tmp_path / "saved")
    replay.close()
    again = started(spec, settings, tmp_path, tmp_path / "saved")
    try:
        assert len(again) == count
        assert set(_drawn(again, 60)) == before
    finally:
        again.close()
    assert (tmp_path / "saved").exists()


def test_writer_that_begins_amid_a_game_has_whole_stacks(tmp_path):
    spec, settings = _spec(False), SequenceSettings(3, 1, 0, 100, 0.0)
    steps = _games(np.random.default_rng(0), spec, (12,))
    later = tf.nest.map_structure(lambda leaf: leaf[5:], steps)
    replay = started(spec, settings, tmp_path)
    try:
        _write(replay, later, 2)
        expected = {_as_bytes(later, [(n + i, 1) for i in range(4)], spec) for n in range(4)}
        assert set(_drawn(replay, 60)) == expected
    finally:
        replay.close()
