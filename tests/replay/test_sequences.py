"""The replays of sequences, on Reverb and in memory, against plain lists of the added ones."""

import numpy as np
import pytest
import reverb
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from repro.environments.specs import STACK, FrameStackSpec
from repro.replay import saved_replay
from repro.replay.frame_stacks import Frames, with_stacks
from repro.replay.sequence_memory import SequenceMemory
from repro.replay.sequence_writer import SequenceSettings
from repro.replay.sequences import SequenceReplay, make_writer
from tests.replay.stacks import to_frames

HEIGHT, WIDTH, UNITS = 6, 4, 3


def started(kind, spec, settings, folder, saved=None):
    """A replay on Reverb, or one in this process for one environment."""
    if kind == "memory":
        replay = SequenceMemory(spec, settings, 1, 1000, np.random.default_rng(1))
    else:
        replay = SequenceReplay(spec, settings, folder / "working")
    replay.start(saved)
    return replay


@pytest.fixture(params=["reverb", "memory"])
def kind(request):
    return request.param


def _spec(core: bool) -> Trajectory:
    state = {"core_state": (tf.TensorSpec((UNITS,), tf.float32), tf.TensorSpec((UNITS,), tf.float32))} if core else {}
    return Trajectory(
        step_type=tf.TensorSpec((), tf.int32),
        observation={
            "frame": FrameStackSpec((HEIGHT, WIDTH, STACK), tf.uint8, 0, 255),
            "x": tf.TensorSpec((2,), tf.float32),
        },
        action=tf.TensorSpec((), tf.int32),
        policy_info={"epsilon": tf.TensorSpec((), tf.float32)} | state,
        next_step_type=tf.TensorSpec((), tf.int32),
        reward=tf.TensorSpec((), tf.float32),
        discount=tf.TensorSpec((), tf.float32),
    )


def _games(rng, spec, lengths):
    """Steps of games one after the other, arrays [T, ...]; the last game does not end."""
    total = sum(lengths)

    def sample(leaf):
        return (100 * rng.standard_normal((total, *leaf.shape))).astype(leaf.dtype.as_numpy_dtype)

    steps = tf.nest.map_structure(sample, spec)
    step_type, stacks, start = [], [], 0
    for i, length in enumerate(lengths):
        first = np.zeros((HEIGHT, WIDTH, STACK), np.uint8)  # black before the game
        first[..., -1] = rng.integers(0, 255, (HEIGHT, WIDTH), np.uint8)
        stacks.append(first)
        for _ in range(length - 1):
            frame = rng.integers(0, 255, (HEIGHT, WIDTH, 1), np.uint8)
            stacks.append(np.concatenate([stacks[-1][..., 1:], frame], axis=-1))
        last = StepType.LAST if i < len(lengths) - 1 else StepType.MID
        step_type += [StepType.FIRST] + [StepType.MID] * (length - 2) + [last]
        start += length
    observation = steps.observation | {"frame": np.stack(stacks)}
    return steps._replace(step_type=np.array(step_type, np.int32), observation=observation)


def _expected(steps, lengths, settings):
    """Rows of every sequence as (number of the step, step type), by a plain walk over each game.

    The part behind a sequence's lead begins at the first, the period-th, the 2 period-th .. transition of a game. Rows
    before the game are its first observation, rows behind it its last, both LAST. The last game has no end yet, so that
    its sequences have to be complete.
    """
    sequences, start = [], 0
    for i, length in enumerate(lengths):
        ended, transitions = i < len(lengths) - 1, length - 1
        for trained in range(0, transitions, settings.period):
            places = range(trained - settings.lead, trained + settings.steps - settings.lead + 1)
            if not ended and places[-1] >= length:
                continue
            sequence = []
            for place in places:
                number = start + min(max(place, 0), length - 1)
                sequence.append((number, int(StepType.LAST) if place < 0 else int(steps.step_type[number])))
            sequences.append(sequence)
        start += length
    return sequences


def _as_bytes(steps, sequence, spec):
    numbers = [number for number, _ in sequence]
    sampled = tf.nest.map_structure(lambda leaf: leaf[numbers], steps)
    sampled = sampled._replace(step_type=np.array([step_type for _, step_type in sequence], np.int32))
    if "core_state" in spec.policy_info:
        state = tf.nest.map_structure(lambda leaf: leaf[0], sampled.policy_info["core_state"])
        sampled = sampled._replace(policy_info=sampled.policy_info | {"core_state": state})
    return _bytes(sampled)


def _bytes(sequence):
    """One sequence, the frames of its filling left out: rows LAST before a game's first, or behind its last."""
    is_last = sequence.step_type == StepType.LAST
    begin = int(np.argmin(is_last))
    filling = is_last & (np.arange(len(is_last)) < begin) | (np.cumsum(is_last) > begin + 1)
    frame = np.where(filling[:, np.newaxis, np.newaxis, np.newaxis], 0, sequence.observation["frame"])
    sequence = sequence._replace(observation=sequence.observation | {"frame": frame.astype(np.uint8)})
    return b"".join(leaf.tobytes() for leaf in tf.nest.flatten(sequence))


def _plain_games(lengths):
    """Steps of games with so many transitions, each marked by its number as its reward; a last game has just begun."""
    spec = Trajectory(
        step_type=tf.TensorSpec((), tf.int32),
        observation=tf.TensorSpec((1,), tf.float32),
        action=tf.TensorSpec((), tf.int32),
        policy_info=(),
        next_step_type=tf.TensorSpec((), tf.int32),
        reward=tf.TensorSpec((), tf.float32),
        discount=tf.TensorSpec((), tf.float32),
    )
    step_type = [kind for n in lengths for kind in (StepType.FIRST, *[StepType.MID] * (n - 1), StepType.LAST)]
    total = len(step_type) + 1
    steps = tf.nest.map_structure(lambda leaf: np.zeros((total, *leaf.shape), leaf.dtype.as_numpy_dtype), spec)
    step_type = np.array([*step_type, StepType.FIRST], np.int32)
    return spec, steps._replace(step_type=step_type, reward=np.arange(total, dtype=np.float32))


def _all(replay):
    """Every stored sequence once, arrays [N, T + 1, ...]."""
    found = {}
    for _ in range(10_000):
        if len(found) == len(replay):
            break
        sample = replay.sample(min(8, len(replay)))
        for b, key in enumerate(sample.keys.tolist()):
            found[key] = tf.nest.map_structure(lambda leaf, b=b: leaf[b], sample.sequences)
    return tf.nest.map_structure(lambda *leaves: np.stack(leaves), *[found[key] for key in sorted(found)])


def _times_trained(sequences, lead):
    """How often each transition is learned from, by its number, and the least number that a sequence has of them.

    A row is learned from if it lies behind the burn-in, is not the last one, which is only bootstrapped from, and is a
    transition: not LAST.
    """
    counts, fewest = {}, []
    for step_type, reward in zip(sequences.step_type, sequences.reward):
        live = [r for r, kind in zip(reward[lead:-1].tolist(), step_type[lead:-1]) if kind != StepType.LAST]
        assert len(live) == len(set(live))
        fewest.append(len(live))
        for number in live:
            counts[int(number)] = counts.get(int(number), 0) + 1
    return counts, min(fewest)


def _sampled(replay, count, size=5):
    found = []
    for _ in range(count):
        batch = with_stacks(tf.nest.map_structure(tf.constant, replay.sample(size).sequences))
        batch = tf.nest.map_structure(lambda leaf: leaf.numpy(), batch)
        found += [_bytes(tf.nest.map_structure(lambda leaf, b=b: leaf[b], batch)) for b in range(size)]
    return found


def _write(replay, steps, pieces):
    if isinstance(replay, SequenceMemory):
        writer = replay.writers[0]
    else:
        writer = make_writer(reverb.Client(replay.address), replay._layout.spec, replay._settings, None)
    total = len(steps.step_type)
    for piece in np.array_split(np.arange(total), pieces):
        unroll = tf.nest.map_structure(lambda leaf, piece=piece: leaf[piece], steps)
        if isinstance(unroll.observation, dict):
            frames = to_frames(unroll.observation["frame"][np.newaxis])
            unroll = unroll._replace(observation=unroll.observation | {"frame": Frames(frames.pixels[0])})
        writer.append(unroll)
    if not isinstance(replay, SequenceMemory):
        writer.flush()


@pytest.mark.parametrize(
    ("steps_", "period", "lead", "core"), [(1, 1, 0, False), (5, 1, 0, False), (5, 2, 0, False), (7, 3, 2, True)]
)
def test_sequences_are_pieces_of_games(tmp_path, kind, steps_, period, lead, core):
    rng, spec, lengths = np.random.default_rng(0), _spec(core), (13, 2, 6, 21)
    settings = SequenceSettings(steps_, period, lead, 1000, 0.0)
    steps = _games(rng, spec, lengths)
    replay = started(kind, spec, settings, tmp_path)
    try:
        _write(replay, steps, 9)
        expected = {_as_bytes(steps, sequence, spec) for sequence in _expected(steps, lengths, settings)}
        assert len(replay) == len(expected)
        assert set(_sampled(replay, 40 * len(expected) // 5)) == expected
    finally:
        replay.close()


def overlap_count(place, trained, period):
    """In how many sequences the transition at a place of its game is learned from.

    Appendix E.1 and Kapturowski et al. (2019, Section 2.3): adjacent sequences of m = 80 overlap by 40 and never cross
    the end of an episode; burn-in comes before those 80 (Table 1). The parts to learn from thus begin 40 steps apart,
    the first with the game. A transition is in those that began at most m - 1 steps before it: two of them, and one
    among the game's first 40, before which there is nothing that a sequence could begin with. A game's end takes none
    away.
    """
    return sum(1 for begin in range(place + 1) if begin % period == 0 and begin > place - trained)


@pytest.mark.parametrize(
    ("trained", "period", "lead"),
    [(80, 40, 40), (20, 10, 10), (10, 5, 5), (16, 4, 0), (1, 1, 0), (6, 4, 3), (5, 7, 2), (8, 3, 20)],
)
def test_every_transition_is_learned_from_as_often_as_sequences_overlap(tmp_path, kind, trained, period, lead):
    lengths = (5, 47, 100, 200, 1, 39, 40, 41, 80, 120)
    spec, steps = _plain_games(lengths)
    replay = started(kind, spec, SequenceSettings(lead + trained, period, lead, 10_000, 0.0), tmp_path)
    try:
        _write(replay, steps, 7)
        counts, fewest = _times_trained(_all(replay), lead)
    finally:
        replay.close()
    assert fewest > 0
    start = 0
    for length in lengths:
        found = [counts.pop(start + place, 0) for place in range(length)]
        assert found == [overlap_count(place, trained, period) for place in range(length)]
        start += length + 1
    assert not counts
    if (trained, period) == (80, 40):
        assert [overlap_count(place, 80, 40) for place in range(200)] == [1] * 40 + [2] * 160


def test_count_of_what_is_learned_from_sees_a_wrong_lead(tmp_path, kind):
    spec, steps = _plain_games((100,))
    replay = started(kind, spec, SequenceSettings(120, 40, 0, 10_000, 0.0), tmp_path)  # no rows before a game's first
    try:
        _write(replay, steps, 1)
        counts, fewest = _times_trained(_all(replay), 40)
    finally:
        replay.close()
    assert fewest == 0  # the sequence from step 80 is burn-in and rows behind the game
    assert [counts.get(place, 0) for place in (0, 39, 40)] == [0, 0, 1]
    assert [overlap_count(place, 80, 40) for place in (0, 39, 40)] == [1, 1, 2]


def test_a_lost_life_changes_nothing(tmp_path, kind):
    """Where a lost life ends the episode for learning, its step has discount 0 and is followed by FIRST, not LAST."""
    spec, steps = _plain_games((50,))
    steps.step_type[[20, 33]] = StepType.FIRST
    steps.discount[[19, 32]] = 0.0
    replay = started(kind, spec, SequenceSettings(16, 4, 0, 10_000, 0.0), tmp_path)
    try:
        _write(replay, steps, 3)
        counts, fewest = _times_trained(_all(replay), 0)
    finally:
        replay.close()
    assert fewest > 0
    assert [counts[place] for place in range(50)] == [overlap_count(place, 16, 4) for place in range(50)]


def test_writer_that_begins_amid_a_game_puts_no_lead_before_it(tmp_path, kind):
    """The state of the core is that of the first row; rows before it would change it, and no FIRST follows."""
    spec, steps = _plain_games((30,))
    steps = tf.nest.map_structure(lambda leaf: leaf[7:], steps)
    replay = started(kind, spec, SequenceSettings(14, 5, 4, 10_000, 0.0), tmp_path)
    try:
        _write(replay, steps, 2)
        sequences = _all(replay)
        counts, fewest = _times_trained(sequences, 4)
    finally:
        replay.close()
    assert fewest > 0
    assert min(sequences.reward[:, 0]) == 7
    assert sequences.step_type[0, 0] == StepType.MID
    assert sorted(counts) == list(range(11, 30))  # the first four are burn-in


def test_oldest_sequence_gives_way(tmp_path, kind):
    spec, settings = _spec(False), SequenceSettings(3, 1, 0, 7, 0.0)
    steps = _games(np.random.default_rng(0), spec, (30,))
    replay = started(kind, spec, settings, tmp_path)
    try:
        _write(replay, steps, 1)
        sequences = _expected(steps, (30,), settings)[-7:]
        assert set(_sampled(replay, 60)) == {_as_bytes(steps, sequence, spec) for sequence in sequences}
    finally:
        replay.close()


def test_priorities_decide_how_often_a_sequence_is_sampled(tmp_path, kind):
    spec, settings = _spec(False), SequenceSettings(3, 1, 0, 100, 0.5)
    steps = _games(np.random.default_rng(0), spec, (6,))
    replay = started(kind, spec, settings, tmp_path)
    try:
        _write(replay, steps, 1)
        keys = {key for _ in range(20) for key in replay.sample(8).keys.tolist()}
        low, middle, high = sorted(keys)
        replay.set_priorities(np.array([low, middle, high], np.uint64), np.array([0.0, 1.0, 9.0]))
        for _ in range(10):  # what was sampled before
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


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_priorities_that_are_none_are_an_error(tmp_path, kind, wrong):
    replay = started(kind, _spec(False), SequenceSettings(3, 1, 0, 100, 0.5), tmp_path)
    try:
        with pytest.raises(ValueError, match="^Priorities must be numbers of 0 or more, got"):
            replay.set_priorities(np.array([1, 2], np.uint64), np.array([1.0, wrong]))
    finally:
        replay.close()


def test_sequences_are_as_likely_as_each_other_where_every_priority_is_0(tmp_path, kind):
    spec, settings = _spec(False), SequenceSettings(3, 1, 0, 100, 0.5)
    replay = started(kind, spec, settings, tmp_path)
    try:
        _write(replay, _games(np.random.default_rng(0), spec, (6,)), 1)
        keys = np.unique([replay.sample(8).keys for _ in range(20)])
        replay.set_priorities(keys, np.zeros(len(keys)))
        for _ in range(10):  # what was sampled before
            replay.sample(8)
        samples = [replay.sample(8) for _ in range(20)]
        np.testing.assert_array_equal(np.unique([sample.keys for sample in samples]), keys)
        np.testing.assert_allclose([sample.probabilities for sample in samples], 1 / len(keys))
    finally:
        replay.close()


def test_saved_replay_on_reverb_continues(tmp_path):
    spec, settings = _spec(True), SequenceSettings(5, 2, 1, 1000, 0.9)
    steps = _games(np.random.default_rng(0), spec, (13, 9))
    replay = started("reverb", spec, settings, tmp_path)
    _write(replay, steps, 1)
    count, before = len(replay), set(_sampled(replay, 60))
    replay.save(tmp_path / "saved")
    replay.close()
    again = started("reverb", spec, settings, tmp_path, tmp_path / "saved")
    try:
        assert len(again) == count
        assert set(_sampled(again, 60)) == before
    finally:
        again.close()
    assert (tmp_path / "saved").exists()


def test_tables_that_are_no_more_are_dropped_from_what_was_saved(tmp_path):
    """A run goes on without the evaluator that it had, or with its replay elsewhere, and the other way round."""
    spec, settings = _spec(core=False), SequenceSettings(3, 1, 0, 50, 0.0)
    others = [reverb.Table.queue(name, 5) for name in ("kept", "dropped")]
    first = SequenceReplay(spec, settings, tmp_path / "working", others)
    first.start()
    _write(first, _games(np.random.default_rng(2), spec, (6,)), 1)
    client = reverb.Client(first.address)
    for name in ("kept", "dropped"):
        for _ in range(3):
            client.insert(np.zeros(2), {name: 1.0})
    first.save(tmp_path / "saved")
    count, before = len(first), set(_sampled(first, 30))
    first.close()
    assert saved_replay.find_names(tmp_path / "saved") == {"sequences", "kept", "dropped"}

    again = SequenceReplay(spec, settings, tmp_path / "working", [reverb.Table.queue(n, 5) for n in ("kept", "new")])
    again.start(tmp_path / "saved")
    sizes = {name: table.current_size for name, table in reverb.Client(again.address).server_info().items()}
    assert sizes == {"sequences": count, "kept": 3, "dropped": 0, "new": 0}
    assert set(_sampled(again, 30)) == before
    again.close()


@pytest.mark.parametrize("at_a_lost_life", [False, True])
def test_writer_that_begins_amid_a_game_has_whole_stacks(tmp_path, kind, at_a_lost_life):
    """A lost life is FIRST as well, and no start of a game, before which there would be rows of burn-in."""
    spec, settings = _spec(False), SequenceSettings(3, 1, 2 if at_a_lost_life else 0, 100, 0.0)
    steps = _games(np.random.default_rng(0), spec, (12,))
    later = tf.nest.map_structure(lambda leaf: leaf[5:].copy(), steps)
    if at_a_lost_life:
        later.step_type[0] = StepType.FIRST
    replay = started(kind, spec, settings, tmp_path)
    try:
        _write(replay, later, 2)
        kinds = later.step_type
        expected = {_as_bytes(later, [(n + i, int(kinds[n + i])) for i in range(4)], spec) for n in range(4)}
        assert set(_sampled(replay, 60)) == expected
    finally:
        replay.close()
