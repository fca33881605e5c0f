"""Frames that are stored once and stacked again, against slow loops that keep every stack."""

import copy

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.trajectories import StepType, Trajectory

from paper_configs.impala import atari_shallow
from repro.acting.actor import Actor
from repro.acting.lockstep_source import _group_state, _restore_group
from repro.acting.uniform_policy import UniformPolicy
from repro.acting.unrolls import UnrollGroup, stack_groups
from repro.acting.weights import WeightsPublisher
from repro.environments import specs
from repro.environments.atari import make_atari
from repro.replay.frame_stacks import OLDER, FrameRing, Frames, game_starts, to_stacks, with_stacks
from repro.training.learner import Learner
from tests.replay.stacks import to_frames

STACK, HEIGHT, WIDTH = specs.STACK, 5, 3
FIRST, MID, LAST = (int(x) for x in (StepType.FIRST, StepType.MID, StepType.LAST))
SPEC = Trajectory(
    step_type=tf.TensorSpec((), tf.int32),
    observation={
        "frame": specs.FrameStackSpec((HEIGHT, WIDTH, STACK), tf.uint8, 0, 255, "frame"),
        "last_action": tf.TensorSpec((), tf.int32),
    },
    action=tf.TensorSpec((), tf.int32),
    policy_info=(),
    next_step_type=tf.TensorSpec((), tf.int32),
    reward=tf.TensorSpec((), tf.float32),
    discount=tf.TensorSpec((), tf.float32),
)
PLAYS = {
    "one game": [FIRST] + [MID] * 7,
    "amid a game": [MID] * 8,
    "an end inside": [MID, MID, MID, LAST, FIRST, MID, MID, MID],
    "an end at the first row": [LAST, FIRST, MID, MID, MID, MID, MID, MID],
    "an end at the last row": [MID] * 7 + [LAST],
    "a start at the last row": [MID] * 6 + [LAST, FIRST],
    "games of one step": [LAST, FIRST, LAST, FIRST, LAST, FIRST, LAST, FIRST],
    "games of two and three": [FIRST, MID, LAST, FIRST, LAST, FIRST, MID, MID],
    "lost lives": [MID, FIRST, MID, FIRST, FIRST, MID, LAST, FIRST],
    "the first row alone starts": [FIRST, FIRST, MID, MID, LAST, FIRST, FIRST, MID],
    "rows that fill up": [LAST, LAST, FIRST, MID, MID, LAST, LAST, LAST],
}


def _play(step_types, rng):
    """Stacks of rows [B, rows, H, W, STACK], kept by the rule of the environment: black frames before a game's first.

    Games that go on at the first row have frames from before it. A row that fills up shows its last frame again.
    """
    played = []
    for kinds in step_types:
        stack = rng.integers(1, 255, (HEIGHT, WIDTH, STACK), np.uint8)
        rows = []
        for row, kind in enumerate(kinds):
            frame = rng.integers(1, 255, (HEIGHT, WIDTH), np.uint8)
            if row and kinds[row - 1] == LAST and kind == FIRST:
                stack = np.zeros_like(stack)
            if row:
                stack = np.stack([stack[..., 1], stack[..., 2], stack[..., 3], frame], axis=-1)
            rows.append(stack)
        played.append(rows)
    return np.array(played)


@pytest.fixture
def played():
    """Step types and stacks of all plays."""
    step_type = np.array(list(PLAYS.values()), np.int32)
    return step_type, _play(step_type, np.random.default_rng(0))


def _write(step_type, stacks):
    group = UnrollGroup(SPEC, len(stacks), stacks.shape[1] - 1)
    for row in range(stacks.shape[1]):
        observation = {"frame": stacks[:, row], "last_action": np.full(len(stacks), row)}
        group.write(row, observation=observation, step_type=step_type[:, row])
    return group


def test_stacks_are_those_that_were_played(played):
    step_type, stacks = played
    group = _write(step_type, stacks)
    frames = group.arrays.observation["frame"]
    assert frames.pixels.shape == (len(PLAYS), OLDER + 8, HEIGHT, WIDTH)
    batch = with_stacks(tf.nest.map_structure(tf.constant, group.arrays))
    np.testing.assert_array_equal(batch.observation["frame"], stacks)
    np.testing.assert_array_equal(batch.observation["last_action"], np.tile(np.arange(8), (len(PLAYS), 1)))
    np.testing.assert_array_equal(to_frames(stacks).pixels, frames.pixels)


def test_without_the_step_types_stacks_reach_over_the_end_of_a_game(played):
    step_type, stacks = played
    whole = to_stacks(to_frames(stacks), np.full_like(step_type, MID)).numpy()
    differ = dict(zip(PLAYS, (whole != stacks).any(axis=(1, 2, 3, 4))))
    same = {"one game", "amid a game", "an end at the last row"}
    assert {name for name, differs in differ.items() if not differs} == same


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_unrolls_shorter_than_a_stack(played, rows):
    step_type, stacks = (x[:, :rows] for x in played)
    np.testing.assert_array_equal(to_stacks(to_frames(stacks), np.ascontiguousarray(step_type)), stacks)


def test_a_game_starts_behind_a_row_last_alone():
    found = game_starts(np.array([[FIRST, FIRST, MID, LAST, FIRST, LAST, LAST, FIRST]]))
    assert np.flatnonzero(found[0]).tolist() == [3, 6]


class Observer:
    """In place of an agent; reports what it sees of each sequence."""

    def train(self, experience):
        seen = tf.cast(tf.reshape(experience.observation["frame"], [len(PLAYS), -1]), tf.int32)
        return tf_agent.LossInfo(tf.constant(0.0), {"seen": seen})


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_learner_sees_whole_stacks(played, jit_compile):
    step_type, stacks = played
    learner = Learner(Observer(), tf.distribute.get_strategy(), jit_compile)
    output = learner.step(learner.to_device(_write(step_type, stacks).arrays))
    np.testing.assert_array_equal(output.per_sequence["seen"], stacks.reshape(len(stacks), -1))


def test_rows_of_an_unroll_go_to_the_next(played):
    step_type, stacks = played
    first, second = _write(step_type, stacks), UnrollGroup(SPEC, len(stacks), 3)
    second.set_rows(slice(0, 3), first.get_rows(slice(5, 8)))
    second.write(3, observation={"frame": stacks[:, 7], "last_action": 0}, step_type=MID)
    batch = with_stacks(tf.nest.map_structure(tf.constant, second.arrays))
    np.testing.assert_array_equal(batch.step_type[:, :3], step_type[:, 5:])
    np.testing.assert_array_equal(batch.observation["frame"][:, :3], stacks[:, 5:])


def test_lockstep_checkpoints_hold_frames(played):
    step_type, stacks = played
    group, restored = _write(step_type, stacks), UnrollGroup(SPEC, len(stacks), 7)
    group.version = 3
    _restore_group(restored, _group_state(group), ())
    assert restored.version == 3
    for one, other in zip(_leaves(restored), _leaves(group), strict=True):
        np.testing.assert_array_equal(one, other)


def _leaves(group):
    return tf.nest.flatten(group.arrays)


def test_groups_split_and_stacked_have_the_same_frames(played):
    step_type, stacks = (x[:8] for x in played)
    whole, halves = _write(step_type, stacks), [UnrollGroup(SPEC, 4, 7) for _ in range(2)]
    whole.split_into(halves)
    for one, other in zip(tf.nest.flatten(stack_groups(halves)), _leaves(whole), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_ring_stores_a_frame_once_and_a_start_in_full(played):
    step_type, stacks = played
    ring = FrameRing(1000, HEIGHT, WIDTH)
    frames = to_frames(stacks).pixels
    numbers = np.stack([ring.append(*pair) for pair in zip(frames, game_starts(step_type))])
    for b, starts in enumerate(game_starts(step_type)):
        assert numbers[b].max() + 1 - numbers[b].min() == OLDER + 8 + OLDER * starts.sum()
        for row in range(8):  # a ring that compared stacks would give the same numbers
            np.testing.assert_array_equal(ring._frames[numbers[b, row]].T.reshape(HEIGHT, WIDTH, STACK), stacks[b, row])
    np.testing.assert_array_equal(to_stacks(ring.take(numbers), step_type), stacks)


def test_a_start_behind_black_frames_adds_one_frame():
    pixels = np.zeros((OLDER + 3, HEIGHT, WIDTH), np.uint8)
    ring = FrameRing(1000, HEIGHT, WIDTH)
    ring.append(pixels, np.array([True, False]))
    assert ring.end == OLDER + 3


class Recorded:
    """An environment, and a copy of every observation that it gave."""

    def __init__(self, environment):
        self._environment = environment
        self.seen = []

    def __getattr__(self, name):
        return getattr(self._environment, name)

    def reset(self, **arguments):
        return self._keep(self._environment.reset(**arguments))

    def step(self, actions):
        return self._keep(self._environment.step(actions))

    def _keep(self, result):
        self.seen.append(tf.nest.map_structure(np.copy, result[0]))
        return result


@pytest.mark.parametrize(
    ("changes", "unroll_length", "overlap"),
    [
        ({"task": "breakout", "max_frames": 200}, 9, 0),  # lost lives and ends of games
        ({"task": "pong", "max_frames": 8}, 5, 0),  # games of two steps
        ({"task": "pong", "max_frames": 4}, 5, 0),  # and of one
        ({"task": "seaquest", "max_frames": 60, "last_action_and_reward": True}, 1, 0),
        ({"task": "breakout", "max_frames": 36}, 7, 3),
    ],
)
def test_what_is_learned_from_is_what_atari_gave(changes, unroll_length, overlap):
    config = atari_shallow.get_config("desk").env.to_dict() | changes
    environment = Recorded(make_atari(config, 3, seed=5, num_threads=1))
    policy = UniformPolicy(environment.time_step_spec, environment.action_spec)
    weights = WeightsPublisher(policy.variables())
    actor = Actor(environment, policy, weights, unroll_length, 0, lambda episode: None, overlap)
    group = UnrollGroup(policy.trajectory_spec, 3, unroll_length)
    first, starts = -overlap, 0
    for unroll in range(120 // (unroll_length - overlap)):
        actor.collect([group])
        starts += int(game_starts(group.arrays.step_type).sum())
        learned = with_stacks(tf.nest.map_structure(tf.constant, group.arrays)).observation
        learned = tf.nest.map_structure(lambda leaf: leaf.numpy(), learned)
        for row in range(overlap if unroll == 0 else 0, unroll_length + 1):
            seen = environment.seen[first + row]
            for one, other in zip(tf.nest.flatten(learned), tf.nest.flatten(seen), strict=True):
                np.testing.assert_array_equal(one[:, row], other)
        first += unroll_length - overlap
    assert starts >= 3
    environment.close()


def test_only_grey_stacks_of_four_are_stored_as_frames():
    config = atari_shallow.get_config("desk").env.to_dict() | {"height": 42, "width": 42}
    kinds = {}
    for name, changes in (("grey", {}), ("colour", {"grey": False}), ("two", {"stack": 2}), ("one", {"stack": 1})):
        environment = make_atari(config | changes, 1, seed=0, num_threads=1)
        spec = environment.time_step_spec.observation
        kinds[name] = isinstance(UnrollGroup(SPEC._replace(observation=spec), 1, 2).arrays.observation, Frames)
        environment.close()
    assert kinds == {"grey": True, "colour": False, "two": False, "one": False}
    plain = tf.TensorSpec((HEIGHT, WIDTH, STACK), tf.uint8)  # four channels that are no stack
    observation = UnrollGroup(SPEC._replace(observation=plain), 1, 2).arrays.observation
    assert observation.shape == (1, 3, HEIGHT, WIDTH, STACK)


def test_a_copy_of_a_spec_stays_one_of_stacks():
    spec = SPEC.observation["frame"]
    assert isinstance(copy.deepcopy(spec), specs.FrameStackSpec)
    assert copy.deepcopy(spec) == spec
