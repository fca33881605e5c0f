"""Tensors that share memory with their arrays, from the environments to the learner, and memory that they leave."""

import gc
import sys
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.agents.tf_agent import LossInfo

from paper_configs.impala import atari_shallow
from repro.acting.batches import Batch
from repro.acting.remote import RemoteWeights
from repro.acting.unrolls import UnrollGroup
from repro.aligned import ALIGNMENT, aligned_empty, aligned_zeros, concatenated
from repro.environments.atari import make_atari
from repro.memory import as_tensor, stop_tensor_leak
from repro.papers.ctrace.exploration import LinearEpsilon
from repro.papers.impala.experiments.discrete import DiscreteExperiment
from repro.papers.refer.loss import Variant
from repro.papers.refer.ppo import NAMES, Ppo, PpoSettings
from repro.papers.refer.recurrent_vracer import RecurrentVRacer
from repro.papers.refer.vracer import VRacerSettings
from repro.replay.frame_stacks import with_stacks
from repro.replay.mixed_batches import MixedBatches
from repro.replay.refer import ReferMemory
from repro.replay.unrolls import UnrollReplay
from repro.training.learner import Learner

pytestmark = pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="shared on a CPU alone")


class _Capsule:
    """A tensor's memory as NumPy takes it."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, **_):
        return tf.experimental.dlpack.to_dlpack(self._tensor)

    def __dlpack_device__(self):
        return (1, 0)  # the CPU


def address(value):
    """Where the first byte of an array or a tensor lies."""
    return (value if isinstance(value, np.ndarray) else np.from_dlpack(_Capsule(value))).ctypes.data


def same_memory(arrays, tensors):
    return [address(x) == address(y) for x, y in zip(tf.nest.flatten(arrays), tf.nest.flatten(tensors), strict=True)]


def test_aligned_arrays():
    for shape in [(3, 5), (2, 3, 84, 84, 4), *((size,) for size in range(1, 60))]:
        for allocate in (aligned_zeros, aligned_empty):
            array = allocate(shape, np.float32)
            assert address(array) % ALIGNMENT == 0
            assert (array.shape, array.dtype) == (shape, np.float32)
        assert not aligned_zeros(shape, np.float32).any()


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float32, np.float64])
def test_a_tensor_lies_where_its_aligned_array_does(dtype):
    array = aligned_zeros((3, 7), dtype)
    tensor = as_tensor(array)
    assert address(tensor) == address(array)
    assert address(tf.convert_to_tensor(array)) != address(array)  # which copies, however an array is aligned
    array[1, 2] = 5
    assert tensor.numpy()[1, 2] == 5
    assert (tensor.dtype, tensor.shape) == (tf.as_dtype(dtype), array.shape)


def test_a_tensor_keeps_its_memory():
    array = aligned_zeros((1 << 20,), np.uint8)
    array[:] = 7
    tensor = as_tensor(array)
    del array
    gc.collect()
    others = [np.zeros(1 << 20, np.uint8) for _ in range(8)]  # that would get it, were it free
    assert (tensor.numpy() == 7).all()
    assert len(others) == 8


def _read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "array",
    [
        aligned_zeros((65,), np.uint8)[1:],
        aligned_zeros((8, 8), np.float32)[:, :4],
        _read_only(aligned_zeros((8,), np.float32)),
        aligned_zeros((8,), np.bool_),
    ],
    ids=["not aligned", "not contiguous", "read-only", "booleans"],
)
def test_what_tensorflow_cannot_use_is_copied(array):
    tensor = as_tensor(array)
    np.testing.assert_array_equal(tensor, array)
    assert tensor.dtype == tf.as_dtype(array.dtype)
    if array.dtype != np.bool_:  # which have no way to NumPy but a copy
        assert address(tensor) != address(array)


def test_a_tensor_is_passed_on():
    tensor = tf.constant([1, 2])
    assert as_tensor(tensor) is tensor


def test_concatenated_arrays_can_be_shared():
    parts = [np.ones((2, 3), np.float32), np.zeros((5, 3), np.float32)]
    joined = concatenated(parts)
    np.testing.assert_array_equal(joined, np.concatenate(parts))
    assert address(as_tensor(joined)) == address(joined)


@pytest.fixture(scope="module")
def agent():
    experiment = DiscreteExperiment(atari_shallow.get_config("smoke"))
    environment = experiment.make_environment(1, 0)
    yield experiment.make_agent(environment, 0)
    environment.close()


def test_a_learner_on_a_cpu_reads_unrolls_where_actors_wrote_them(agent):
    learner = Learner(agent, tf.distribute.OneDeviceStrategy("/cpu:0"))
    group = UnrollGroup(agent.collect_data_spec, 3, 4)
    batch = Batch([group], learner.to_device)
    assert all(same_memory(group.arrays, batch.trajectory))
    joined = Batch([group, UnrollGroup(agent.collect_data_spec, 3, 4)], learner.to_device)
    assert not any(same_memory(group.arrays, joined.trajectory))  # several groups are copied into one


def test_the_train_step_itself_reads_them_there(agent, monkeypatch):
    seen = []

    def record(*leaves):
        seen.extend(map(address, leaves))

    def train(experience):
        tf.py_function(record, tf.nest.flatten(experience), [])
        return LossInfo(tf.constant(0.0), {})

    monkeypatch.setattr("repro.training.learner.with_stacks", lambda trajectory: trajectory)  # as they come
    learner = Learner(agent, tf.distribute.OneDeviceStrategy("/cpu:0"), train=train)
    group = UnrollGroup(agent.collect_data_spec, 3, 4)
    for _ in range(2):  # the first call traces
        learner.step(learner.to_device(group.arrays))
    assert seen == 2 * [address(leaf) for leaf in tf.nest.flatten(group.arrays)]


def test_frames_are_a_quarter_of_their_stacks(agent):
    group = UnrollGroup(agent.collect_data_spec, 2, 20)
    pixels = group.arrays.observation.pixels
    stacks = with_stacks(tf.nest.map_structure(as_tensor, group.arrays)).observation
    assert stacks.shape == (2, 21, 84, 84, 4)
    assert pixels.nbytes * 21 * 4 == stacks.numpy().nbytes * 24


def test_replayed_unrolls_are_read_where_they_were_sampled(agent):
    learner = Learner(agent, tf.distribute.OneDeviceStrategy("/cpu:0"))
    group, rng = UnrollGroup(agent.collect_data_spec, 3, 4), np.random.default_rng(0)
    replay = UnrollReplay(agent.collect_data_spec, 4, 6)
    replay.add(group.arrays)
    mixed = MixedBatches(agent.collect_data_spec, 4, 6, num_replayed=2).mix([group.arrays], [0], rng).trajectory
    for sampled in (replay.sample(rng, 2), mixed):
        assert all(same_memory(sampled, learner.to_device(sampled)))


def test_gradient_steps_of_refer_read_what_the_memory_copied_where_it_lies():
    """Windows as well; and what is copied for the next call lies elsewhere."""
    settings = VRacerSettings((2,), 1.0, 1.0, 0.2, 1e-2, Variant("refer", "none", 7.0, "stored"))
    agent = RecurrentVRacer(3, 2, settings, np.random.default_rng(0), 2, False, window=4)
    memory, steps, seen = ReferMemory(32, 3, 2, 32, discount=0.9), agent._steps, []
    policy = [np.zeros((20, 2)), np.ones((20, 2))]
    memory.add_episode(np.ones((21, 3)), np.zeros((20, 2)), np.ones(20), *policy, np.zeros(21), terminated=False)

    def recorded(scalars, batches):
        tf.py_function(lambda *leaves: seen.extend(map(address, leaves)), [batches[name] for name in agent.FIELDS], [])
        return steps(scalars, batches)

    agent._train = tf.function(recorded, autograph=False)
    indices = memory.sample(np.random.default_rng(0), 32)
    batches = [agent.gather(memory, indices) for _ in range(2)]
    for batch in batches:
        agent.train(batch, np.ones(2), np.full(2, 4.0), np.full(2, 1e-3))
    assert seen == [address(x) for batch in batches for x in batch]
    assert len(set(seen)) == len(seen)


def test_a_policy_reads_atari_s_observations_where_they_are():
    environment = make_atari(atari_shallow.get_config("smoke").env.to_dict(), 3, seed=0, num_threads=1)
    observation, _ = environment.reset()
    for _ in range(3):
        assert address(as_tensor(observation)) == address(observation)
        observation = environment.step(np.zeros(3, np.int32))[0]
    environment.close()


def blocks_kept(each: Callable[[int], object], calls: int = 1_000, rounds: int = 5) -> float:
    """Blocks of memory that Python has after a call and had not before it, on average over a round; their median.

    What each call leaves behind is there in every round; what other threads and first calls allocate is in few.
    """
    assert stop_tensor_leak()
    for number in range(100):
        each(-1 - number)
    kept = []
    for number in range(rounds):
        gc.collect()
        before = sys.getallocatedblocks()
        for call in range(number * calls, (number + 1) * calls):
            each(call)
        gc.collect()
        kept.append((sys.getallocatedblocks() - before) / calls)
    return float(np.median(kept))


def test_blocks_that_each_call_keeps_are_counted_and_those_of_a_single_call_are_not():
    kept = []
    assert blocks_kept(lambda number: kept.append(object())) > 0.99
    assert blocks_kept(lambda number: kept.extend(object() for _ in range(5_000)) if number == 1_500 else None) < 0.05


@pytest.mark.slow
def test_an_eager_tensor_leaves_nothing_behind():
    one = tf.constant(1.0)
    add = tf.function(lambda x: (x + one, x - one), autograph=False)
    assert blocks_kept(lambda number: one + one) < 0.05
    assert blocks_kept(lambda number: add(np.float32(number))) < 0.05
    assert blocks_kept(lambda number: as_tensor(aligned_zeros([2], np.float32))) < 0.05


def test_a_tensor_still_takes_attributes_that_are_its_own():
    assert stop_tensor_leak()
    first, second = tf.constant(1.0), tf.constant(1.0)
    first.mark = [3]
    gc.collect()
    assert first.__dict__ == {"mark": [3]}
    assert not hasattr(second, "mark")
    assert float(first + second) == 2.0


@pytest.mark.slow
def test_numbers_that_change_with_each_update_are_not_kept():
    epsilon = LinearEpsilon(1.0, 0.1, 10_000, begin=0)
    assert blocks_kept(lambda number: epsilon.set_frames(max(number, 0))) < 0.5

    agent = Ppo(1, 1, PpoSettings((2,), 1.0, 1.0, 0.04, 0.2, 0.99, 0.95), np.random.default_rng(0), False)
    means = tf.zeros(len(NAMES))
    agent._train = lambda *_: means
    rates = [1e-3 / (1.0 + 1e-6 * number) for number in range(5_000)]
    minibatches = np.zeros((1, 1), np.int64)
    assert blocks_kept(lambda number: agent.train(None, minibatches, rates[number], 3 * rates[number])) < 0.5
    for optimizer, rate in ((agent._policy_optimizer, rates[-1]), (agent._value_optimizer, 3 * rates[-1])):
        assert float(optimizer.learning_rate) == float(tf.constant(rate))  # the bits of a Python number

    weights = RemoteWeights([tf.Variable(0.0)])
    weights._container = SimpleNamespace(push=lambda *_: None)
    assert blocks_kept(lambda number: weights.publish(abs(number))) < 0.5
