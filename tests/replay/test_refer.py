"""The ReF-ER memory against a naive twin, and rule by rule against the paper."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from repro.ops import v_targets
from repro.replay.refer import Minibatch, ReferMemory
from tests.replay.naive import NaiveMemory, random_advantages, random_episode

GAMMA = 0.9


def memory_of(lengths, capacity=64, longest=32, seed=0, terminated=False, **options):
    random = np.random.default_rng(seed)
    memory = ReferMemory(capacity, 3, 2, longest, discount=GAMMA, **options)
    for length in lengths:
        memory.add_episode(**random_episode(random, length), terminated=terminated)
    return memory, random


KINDS = None, "rank", "error"


def stored(memory):
    """Serial numbers of all stored steps, found through the public interface."""
    end = memory.get_state()["head"] + len(memory)
    return np.arange(end - len(memory), end)


def assert_same(memory, twin):
    assert len(memory) == len(twin.serials())
    assert memory.episodes == len(twin.stored)
    assert memory.far_policy_fraction == twin.far()
    assert memory.reward_scale == pytest.approx(twin.scale, rel=1e-12)
    if len(memory):
        assert stored(memory).tolist() == twin.serials()
        found, expected = memory.gather(stored(memory)), twin.minibatch(twin.serials())
        assert set(expected) == set(Minibatch._fields)
        for name, array in expected.items():
            np.testing.assert_allclose(getattr(found, name), array, rtol=1e-5, atol=1e-5, err_msg=name)
        assert_same_windows(memory, twin, longest=5)


def assert_same_windows(memory, twin, longest):
    states, lengths = memory.gather_windows(stored(memory), longest)
    assert states.shape == (len(memory), longest, 3)
    for found, length, expected in zip(states, lengths, twin.windows(twin.serials(), longest), strict=True):
        assert length == len(expected)
        np.testing.assert_array_equal(found[longest - length :], expected)
        assert not found[: longest - length].any()


def random_ratio(random, c_max):
    """Ratios of every kind: usual, extreme, and on or close to the bounds."""
    bound = min(c_max, 1e6) ** random.choice([-1.0, 1.0])
    kinds = [np.exp(random.normal(0, 0.8)), 0.0, np.inf, bound, bound * (1 + random.normal() * 1e-3)]
    return np.float32(random.choice(kinds, p=[0.4, 0.03, 0.03, 0.1, 0.44]))


@pytest.mark.parametrize("has_advantages", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_random_operations_match_the_naive_twin(seed, has_advantages):
    random = np.random.default_rng(seed)
    memory = ReferMemory(41, 3, 2, 17, discount=GAMMA, prioritised=KINDS[seed % 3])
    twin = NaiveMemory(41, float(np.float32(GAMMA)))
    for _ in range(250):
        action = random.choice(
            ["add", "update", "last", "ease", "c_max", "scale", "restore"], p=[0.2, 0.3, 0.1, 0.2, 0.1, 0.05, 0.05]
        )
        if action == "add":
            episode = random_episode(random, int(random.integers(1, 18)))
            terminated = bool(random.integers(2))
            advantages = random_advantages(random, episode) if has_advantages else None
            memory.add_episode(**episode, terminated=terminated, advantages=advantages)
            twin.add_episode(**episode, terminated=terminated, advantages=advantages)
        elif action == "update" and len(memory):
            serials = memory.sample(random, 9)
            rho = np.array([random_ratio(random, twin.c_max) for _ in serials])
            value = random.normal(size=9).astype(np.float32)
            advantage = random.normal(size=9).astype(np.float32) if has_advantages else None
            memory.update(serials, rho, value, advantage)
            twin.update(serials, rho, value, advantage)
            if KINDS[seed % 3]:
                memory.set_priorities(serials, value)
        elif action == "last" and len(memory):
            ends = memory.cut_ends(stored(memory))
            assert ends.tolist() == twin.cut_ends(twin.serials())
            if ends.size:
                values = random.normal(size=ends.size).astype(np.float32)
                memory.update_last_values(ends, values)
                twin.update_last_values(ends, values)
        elif action == "ease" and np.isfinite(twin.c_max):
            twin.c_max = 1.0 + (twin.c_max - 1.0) * (1.0 - 2e-4 * random.random())
            memory.set_c_max(twin.c_max)
        elif action == "c_max":
            twin.c_max = 1.0 + float(random.exponential(2.0))
            memory.set_c_max(twin.c_max)
        elif action == "scale" and len(memory):
            memory.refresh_reward_scale()
            twin.refresh()
        elif action == "restore":
            state = memory.get_state()
            memory = ReferMemory(41, 3, 2, 17, discount=GAMMA, prioritised=KINDS[seed % 3])
            memory.set_state(state)
        memory.check_valid()
        assert_same(memory, twin)
    assert twin.seen > 5 * 41  # the ring went round several times


def test_oldest_episodes_leave_whole():
    memory, random = memory_of([10, 20, 30])
    assert (len(memory), memory.episodes) == (60, 3)
    memory.add_episode(**random_episode(random, 4), terminated=True)  # 64 of 64 steps
    assert (len(memory), memory.episodes) == (64, 4)
    memory.add_episode(**random_episode(random, 1), terminated=True)
    assert (len(memory), memory.episodes) == (55, 4)
    memory.add_episode(**random_episode(random, 30), terminated=True)  # 20 are not enough, so 30 more leave
    assert (len(memory), memory.episodes) == (35, 3)
    memory.check_valid()


def test_an_episode_as_long_as_the_memory_stays_alone():
    memory, random = memory_of([10, 20, 30], longest=64)
    memory.add_episode(**random_episode(random, 64), terminated=False)
    assert (len(memory), memory.episodes) == (64, 1)
    memory.check_valid()


def test_an_advantage_takes_its_part_of_the_error_by_hand():
    """V_tbc = V + min(1, rho) (r + gamma V_tbc' - V - A); Q_ret of the step itself has no A of its own."""
    memory = ReferMemory(8, 1, 1, 4, discount=GAMMA)
    one = np.ones((2, 1))
    memory.add_episode(one[:1].repeat(3, 0), one, [1.0, 2.0], one, one, [0.5, 0.25, 5.0], False, [0.125, -0.5])
    v_1 = 2.0 + GAMMA * 5.0 + 0.5  # ratios are 1
    v_0 = 1.0 + GAMMA * v_1 - 0.125
    batch = memory.gather(np.array([0, 1]))
    np.testing.assert_allclose(batch.v_tbc, [v_0, v_1], rtol=1e-6)
    np.testing.assert_allclose(batch.q_ret, [1.0 + GAMMA * v_1, 2.0 + GAMMA * 5.0], rtol=1e-6)
    memory.update(np.array([1]), np.array([0.5]), np.array([1.0]), np.array([4.0]))
    v_1 = 1.0 + 0.5 * (2.0 + GAMMA * 5.0 - 1.0 - 4.0)
    batch = memory.gather(np.array([0, 1]))
    np.testing.assert_allclose(batch.v_tbc, [1.0 + GAMMA * v_1 - 0.125, v_1], rtol=1e-6)
    memory.check_valid()
    without = 1.0 + 0.5 * (2.0 + GAMMA * 5.0 - 1.0)
    assert not np.allclose(batch.v_tbc[1], without)


def test_without_advantages_it_is_eq_8_to_the_bit():
    """Against float32 arithmetic written here, with and without zeros given; another A gives other bits."""
    random = np.random.default_rng(3)
    episode, rho = random_episode(random, 30), random.uniform(0.0, 2.0, 30).astype(np.float32)
    values = random.normal(size=30).astype(np.float32)
    bits = []
    for advantages in (None, np.zeros(30), np.full(30, 1e-3)):
        memory = ReferMemory(64, 3, 2, 32, discount=GAMMA)
        memory.add_episode(**episode, terminated=False, advantages=advantages)
        memory.update(np.arange(30), rho, values, advantages)
        bits.append(memory.gather(np.arange(30)).v_tbc)
    gamma, v_tbc, expected = np.float32(GAMMA), np.float64(episode["values"][-1]), []
    for t in range(29, -1, -1):
        weight = min(rho[t], np.float32(1.0))
        first = np.float64(values[t]) + np.float64(weight) * np.float64(episode["rewards"][t] - values[t])
        product = np.float64(weight * gamma)  # one fused multiplication and addition each: one rounding
        v_tbc = np.float64(np.float32(np.float64(np.float32(first)) + product * v_tbc))
        expected.append(v_tbc)
    np.testing.assert_array_equal(bits[0], np.float32(expected[::-1]))
    np.testing.assert_array_equal(bits[1], bits[0])
    assert not np.array_equal(bits[2], bits[0])


@pytest.mark.parametrize("terminated", [False, True])
def test_eq_8_is_v_trace_with_all_weights_clipped_at_1(terminated):
    """As Section 2 says, against the V-trace operator; a bound of 2 gives other targets."""
    random = np.random.default_rng(4)
    episode, rho = random_episode(random, 30), random.uniform(0.1, 3.0, 30).astype(np.float32)
    values = random.normal(size=30).astype(np.float32)
    memory = ReferMemory(64, 3, 2, 32, discount=GAMMA)
    memory.add_episode(**episode, terminated=terminated)
    memory.update(np.arange(30), rho, values)
    batch = memory.gather(np.arange(30))

    def v_trace(clip):
        last = 0.0 if terminated else episode["values"][-1]
        column = (np.log(rho), batch.discount, episode["rewards"][:30], values, np.append(values[1:], last))
        arguments = [np.float32(x)[:, np.newaxis] for x in column]
        return v_targets.vtrace(*arguments, clip_rho=clip, clip_c=clip, clip_pg_rho=clip).targets[:, 0]

    np.testing.assert_allclose(batch.v_tbc, v_trace(1.0), rtol=1e-4, atol=1e-5)
    assert np.abs(batch.v_tbc - v_trace(2.0)).max() > 0.1


def test_a_new_value_of_the_last_state_reaches_the_whole_episode():
    memory, random = memory_of([5, 5], terminated=False)
    memory.add_episode(**random_episode(random, 5), terminated=True)
    before = memory.gather(np.arange(15)).v_tbc
    assert memory.cut_ends(np.array([14, 9, 3, 4, 9])).tolist() == [4, 9]  # 14 is the end of one that terminated
    np.testing.assert_array_equal(
        memory.last_states(np.array([9, 2])), memory.get_state()["episode_last_state"][[1, 0]]
    )
    memory.update_last_values(np.array([4]), np.array([100.0]))
    after = memory.gather(np.arange(15))
    assert (after.v_tbc[:5] > before[:5] + 50.0).all()
    np.testing.assert_allclose(after.q_ret[4], after.reward[4] + GAMMA * 100.0, rtol=1e-6)
    np.testing.assert_array_equal(after.v_tbc[5:], before[5:])
    memory.check_valid()
    for wrong in (14, 3):
        with pytest.raises(ValueError, match="not the last of an episode that was cut"):
            memory.update_last_values(np.array([wrong]), np.array([1.0]))


@pytest.mark.parametrize(("terminated", "last", "discount"), [(True, 0.0, 0.0), (False, 5.0, GAMMA)])
def test_time_limit_against_termination_by_hand(terminated, last, discount):
    memory = ReferMemory(8, 1, 1, 4, discount=GAMMA)
    one = np.ones((2, 1))
    memory.add_episode(np.array([[7.0], [8.0], [9.0]]), one, [1.0, 2.0], one, one, [0.5, 0.25, 5.0], terminated)
    batch = memory.gather(np.array([0, 1]))
    v_1 = 2.0 + GAMMA * last  # ratios are 1
    np.testing.assert_allclose(batch.q_ret, [1.0 + GAMMA * v_1, v_1], rtol=1e-6)
    np.testing.assert_allclose(batch.v_tbc, batch.q_ret, rtol=1e-6)
    np.testing.assert_allclose(batch.discount, [GAMMA, discount], rtol=1e-6)
    np.testing.assert_array_equal(batch.next_state, [[8.0], [9.0]])
    memory.update(np.array([1]), np.array([0.5]), np.array([1.0]))
    batch = memory.gather(np.array([0, 1]))
    half = 1.0 + 0.5 * (v_1 - 1.0)
    np.testing.assert_allclose(batch.v_tbc, [1.0 + GAMMA * half, half], rtol=1e-6)


def test_gathered_arrays_are_contiguous_float32_copies():
    memory, random = memory_of([20, 20])
    batch = memory.gather(memory.sample(random, 16))
    for name, array in batch._asdict().items():
        assert array.dtype == np.float32, name
        assert array.flags.c_contiguous, name
        array[:] = np.nan
    memory.check_valid()


def test_windows_end_with_the_sampled_step_and_begin_with_its_episode():
    memory = ReferMemory(8, 1, 1, 4, discount=GAMMA)
    for first in (10, 20, 30):  # the third lies over the end of the ring: rows 6, 7, 0
        steps = np.ones((3, 1))
        states = first + np.arange(4)[:, None]
        memory.add_episode(states, steps, np.ones(3), steps, steps, np.ones(4), terminated=False)
    windows = memory.gather_windows(np.array([8, 3, 7, 8]), 2)
    np.testing.assert_array_equal(windows.states[..., 0], [[31, 32], [0, 20], [30, 31], [31, 32]])
    np.testing.assert_array_equal(windows.lengths, [2, 1, 2, 2])
    assert (windows.states.dtype, windows.lengths.dtype) == (np.float32, np.int32)
    longer = memory.gather_windows(np.array([8]), 5)
    np.testing.assert_array_equal(longer.states[..., 0], [[0, 0, 30, 31, 32]])
    np.testing.assert_array_equal(longer.lengths, [3])
    alone = memory.gather_windows(np.array([8, 3]), 1)
    np.testing.assert_array_equal(alone.states[..., 0], [[32], [20]])
    np.testing.assert_array_equal(alone.lengths, [1, 1])
    with pytest.raises(ValueError, match="gather_windows: longest must be 1 or more, got 0"):
        memory.gather_windows(np.array([8]), 0)
    with pytest.raises(ValueError, match="gather_windows: step 2 is not in the memory"):
        memory.gather_windows(np.array([2]), 2)


def test_a_batch_with_duplicates_equals_one_step_after_the_other():
    lengths = [30, 1, 25]
    together, random = memory_of(lengths)
    apart, _ = memory_of(lengths)
    for memory in (together, apart):
        memory.set_c_max(1.5)
    for _ in range(20):
        serials = together.sample(random, 40)  # of 56: duplicates for certain
        assert np.unique(serials).size < serials.size
        rho, value = np.exp(random.normal(0, 0.5, 40)), random.normal(size=40)
        together.update(serials, rho, value)
        for i in range(40):
            apart.update(serials[i : i + 1], rho[i : i + 1], value[i : i + 1])
        for name, array in together.get_state().items():
            np.testing.assert_array_equal(array, apart.get_state()[name], err_msg=name)
        np.testing.assert_array_equal(together.gather(stored(together)).v_tbc, apart.gather(stored(apart)).v_tbc)


def test_corrections_of_a_long_episode_are_exact_although_they_stop_early():
    memory = ReferMemory(4096, 3, 2, 3000, discount=0.995)
    random = np.random.default_rng(1)
    memory.add_episode(**random_episode(random, 3000), terminated=False)
    for std in (0.3, 0.01):
        for _ in range(10):
            memory.update(memory.sample(random, 8), np.exp(random.normal(0, std, 8)), random.normal(size=8))
            memory.check_valid()


def test_only_earlier_steps_of_the_same_episode_are_corrected():
    memory, _ = memory_of([10, 10, 10])
    before = memory.gather(stored(memory)).v_tbc
    memory.update(np.array([15]), np.array([0.7]), np.array([50.0]))
    changed = np.flatnonzero(memory.gather(stored(memory)).v_tbc != before)
    assert changed.tolist() == list(range(10, 16))


def test_far_count_is_exact_along_the_annealing_of_the_paper():
    memory, random = memory_of([32] * 63, capacity=2048)
    serials = stored(memory)
    memory.update(serials, np.exp(random.normal(0, 1.2, len(memory))), np.zeros(len(memory)))
    recounts = 0
    for t in range(0, 4_000_000, 1000):
        c_max = 1.0 + 4.0 / (1.0 + 5e-7 * t)
        low = memory._low
        memory.set_c_max(c_max)
        recounts += memory._low != low
        if t % 3000 == 0:
            memory.update(memory.sample(random, 16), np.exp(random.normal(0, 1.2, 16)), np.zeros(16))
        rho = memory.get_state()["rho"].astype(np.float64)
        assert memory.far_policy_fraction == np.mean((rho <= 1.0 / c_max) | (rho >= c_max))
    assert 0 < recounts < 4000  # both ways were taken
    memory.check_valid()


def test_small_decreases_of_c_max_do_not_count_again():
    memory, _ = memory_of([32] * 2)
    memory.set_c_max(5.0)
    low = memory._low
    for t in range(900):  # Eq. 13 at its fastest
        memory.set_c_max(1.0 + 4.0 / (1.0 + 5e-7 * t))
    assert memory._low == low


def test_bounds_themselves_are_far():
    memory, _ = memory_of([4])
    memory.set_c_max(2.0)
    memory.update(np.arange(4), np.array([2.0, 0.5, np.nextafter(np.float32(2), np.float32(0)), 0.51]), np.zeros(4))
    assert (memory.num_far_policy, memory.far_policy_fraction) == (2, 0.5)


def test_far_fraction_of_an_empty_memory_and_without_a_bound():
    assert ReferMemory(4, 1, 1, 4, discount=GAMMA).far_policy_fraction == 0.0
    memory, _ = memory_of([4])
    memory.update(np.arange(4), np.array([1e30, 1e-30, 3.0, 0.1]), np.zeros(4))
    assert memory.far_policy_fraction == 0.0


def test_a_new_scale_rescales_rewards_and_leaves_values():
    memory, _ = memory_of([10, 12])
    before = memory.get_state()
    memory.update(np.arange(22), np.full(22, 0.6), before["value"])
    memory.refresh_reward_scale()
    rms = np.sqrt(np.mean(before["reward"].astype(np.float64) ** 2))
    assert memory.reward_scale == pytest.approx(rms + 1e-7, rel=1e-12)
    after = memory.get_state()
    np.testing.assert_array_equal(after["value"], before["value"])
    np.testing.assert_array_equal(after["reward"], before["reward"])
    batch = memory.gather(np.array([9]))
    np.testing.assert_allclose(batch.reward, before["reward"][9] / memory.reward_scale, rtol=1e-6)
    last_value = after["episode_last_value"][0]
    np.testing.assert_allclose(batch.q_ret, batch.reward + GAMMA * last_value, rtol=1e-5)
    memory.check_valid()


def test_rewards_of_zero_leave_the_scale():
    memory = ReferMemory(8, 3, 2, 8, discount=GAMMA)
    episode = random_episode(np.random.default_rng(0), 4)
    memory.add_episode(**episode | {"rewards": np.zeros(4)}, terminated=True)
    memory.refresh_reward_scale()
    assert memory.reward_scale == 1.0


def test_state_statistics_are_of_the_first_call():
    memory, random = memory_of([20, 20])
    states = memory.get_state()["state"]
    mean, std = memory.state_statistics()
    np.testing.assert_allclose(mean, states.mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(std, states.std(axis=0), rtol=1e-5)
    memory.add_episode(**random_episode(random, 30), terminated=True)
    np.testing.assert_array_equal(memory.state_statistics()[0], mean)


def test_uniform_samples_have_equal_frequencies():
    memory, random = memory_of([30, 30, 30], capacity=64)  # two episodes are left, across the end of the ring
    sampled = np.concatenate([memory.sample(random, 256) for _ in range(100)])
    assert sampled.dtype == np.int64
    counts = [np.count_nonzero(sampled == serial) for serial in stored(memory)]
    assert sum(counts) == sampled.size
    assert stats.chisquare(counts).pvalue > 0.01


@pytest.mark.parametrize("prioritised", ["rank", "error"])
def test_restored_memory_continues_identically(prioritised):
    first, random = memory_of([20, 30, 25, 12], prioritised=prioritised)
    first.sample_prioritised(random, 8, 0.7, 0.5)
    first.set_c_max(1.4)
    first.refresh_reward_scale()
    first.state_statistics()
    serials = first.sample(random, 30)
    first.update(serials, np.exp(random.normal(0, 0.5, 30)), random.normal(size=30))
    first.set_priorities(serials, random.normal(size=30))
    state = first.get_state()
    assert all(np.size(array) in (1, 3) or len(array) in (len(first), first.episodes) for array in state.values())
    second, _ = memory_of([7], prioritised=prioritised)
    second.set_state(state)
    generators = [np.random.default_rng(5), np.random.default_rng(5)]
    for _ in range(30):
        for memory, rng in zip((first, second), generators):
            serials, _ = memory.sample_prioritised(rng, 8, 0.7, 0.5)
            memory.update(serials, np.exp(rng.normal(0, 0.5, 8)), rng.normal(size=8))
            memory.set_priorities(serials, memory.gather(serials).q_ret)
            memory.set_c_max(1.0 + (memory.c_max - 1.0) * 0.9999)
            memory.add_episode(**random_episode(rng, int(rng.integers(1, 20))), terminated=True)
        assert first.far_policy_fraction == second.far_policy_fraction
        a, b = first.get_state(), second.get_state()
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)
        np.testing.assert_array_equal(first.gather(stored(first)).v_tbc, second.gather(stored(second)).v_tbc)
    second.check_valid()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda m: m._fields.state.__setitem__((3, 0), np.nan), "state holds an entry that is not finite"),
        (lambda m: m._fields.std.__setitem__((3, 0), 0.0), "std holds an entry that is not greater than 0"),
        (lambda m: m._fields.rho.__setitem__(3, -1.0), "rho holds an entry that is negative or NaN"),
        (lambda m: m._fields.rho.__setitem__(3, 9.0), "0 far steps are counted, but there are 1"),
        (lambda m: m._far_policy.edge.__setitem__(0, 5), "the edge does not hold"),
        (lambda m: m._fields.v_tbc.__setitem__(3, 7.0), "V_tbc of step 3 is not that of Eq. 7"),
        (lambda m: m._steps.slot.__setitem__(5, 1), "belongs to another"),
        (lambda m: m._episodes.start.__setitem__(1, 2), "the episode of step 10 says that it starts at 2"),
        (lambda m: setattr(m, "_count", 3), "2 episodes are stored, but 3 are counted"),
        (lambda m: m._free.__setitem__(0, 0), "used and free slots together"),
        (lambda m: m._sampler.remove(np.array([4])), "prioritised rows are not the stored steps"),
        (lambda m: m._sampler.remove(np.array([16])), "prioritised rows are not the stored steps"),
        (lambda m: m._sampler._place.__setitem__(16, 3), "places of prioritised rows do not match their order"),
        (lambda m: m._sampler._priority.__setitem__(12, 99.0), "higher priority than the one above it"),
        (lambda m: setattr(m, "_scale", 0.0), "the reward scale is 0.0"),
    ],
)
def test_every_broken_invariant_is_named(spoil, message):
    memory, _ = memory_of([10, 10], prioritised="rank")
    memory.set_c_max(4.0)
    memory.update(np.array([8]), np.array([3.9999]), np.array([0.0]))
    memory.set_priorities(np.arange(15), np.arange(15.0))
    memory.check_valid()
    spoil(memory)
    with pytest.raises(RuntimeError, match=message):
        memory.check_valid()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"states": np.full((5, 3), np.nan)}, r"states must be finite, but entry \[0, 0\] is nan"),
        ({"rewards": np.array([0.0, 1.0, np.nan, 1.0])}, r"rewards must be finite, but entry \[2\] is nan"),
        ({"values": np.array([0.0, 0.0, 0.0, 0.0, np.inf])}, r"values must be finite, but entry \[4\] is inf"),
        ({"states": np.zeros((4, 3))}, r"states must have shape \(5, 3\), got \(4, 3\)"),
        ({"actions": np.zeros(4)}, r"actions must have shape \(4, 2\), got \(4,\)"),
        ({"values": np.zeros(4)}, r"values must have shape \(5,\), got \(4,\)"),
        ({"rewards": np.zeros((4, 1))}, r"rewards must be \[T\], got shape \(4, 1\)"),
        ({"stds": np.zeros((4, 2))}, "stds must be greater than 0"),
        ({"rewards": np.zeros(0)}, "an episode must have 1 to 8 steps, got 0"),
        ({"rewards": np.zeros(9)}, "an episode must have 1 to 8 steps, got 9"),
    ],
)
def test_bad_episodes_are_refused_and_nothing_is_stored(change, message):
    memory = ReferMemory(16, 3, 2, 8, discount=GAMMA)
    episode = random_episode(np.random.default_rng(0), 4)
    with pytest.raises(ValueError, match=rf"^ReferMemory.add_episode: {message}.*\.$"):
        memory.add_episode(**episode | change, terminated=True)
    assert len(memory) == 0
    memory.add_episode(**episode, terminated=True)


@pytest.mark.parametrize(
    ("indices", "rho", "value", "message"),
    [
        ([10, 11], [1.0, np.nan], [0.0, 0.0], "rho must be 0 or more, but entry 1 is nan"),
        ([10, 11], [-1.0, 1.0], [0.0, 0.0], "rho must be 0 or more, but entry 0 is -1.0"),
        ([10, 11], [1.0, 1.0], [np.nan, 0.0], r"value must be finite, but entry \[0\] is nan"),
        ([10, 11], [1.0], [0.0, 0.0], r"rho must have shape \(2,\), got \(1,\)"),
        ([10, 11], [1.0, 1.0], [[0.0], [0.0]], r"value must have shape \(2,\), got \(2, 1\)"),
        ([10, 9], [1.0, 1.0], [0.0, 0.0], "step 9 is not in the memory, which holds steps 10 to 69"),
        ([70], [1.0], [0.0], "step 70 is not in the memory"),
        ([10.0], [1.0], [0.0], r"indices must be integers of shape \[B\], got float64 of shape \(1,\)"),
        ([[10]], [1.0], [0.0], r"indices must be integers of shape \[B\], got int64 of shape \(1, 1\)"),
        ([], [], [], r"indices must be integers of shape \[B\]"),
    ],
)
def test_bad_updates_are_refused_and_nothing_is_written(indices, rho, value, message):
    memory, _ = memory_of([10, 30, 30])
    before = memory.get_state()
    with pytest.raises(ValueError, match=rf"^ReferMemory.update: {message}"):
        memory.update(np.array(indices), np.array(rho), np.array(value))
    after = memory.get_state()
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)
    memory.check_valid()


def test_other_misuse_is_refused():
    empty = ReferMemory(8, 1, 1, 8, discount=GAMMA)
    random = np.random.default_rng(0)
    for call in (lambda: empty.sample(random, 4), empty.refresh_reward_scale, empty.state_statistics):
        with pytest.raises(ValueError, match="the memory is empty"):
            call()
    with pytest.raises(ValueError, match="episodes of 9 steps do not fit into a memory of 8 steps"):
        ReferMemory(8, 1, 1, 9, discount=GAMMA)
    with pytest.raises(ValueError, match="must be 1 or more"):
        ReferMemory(8, 0, 1, 8, discount=GAMMA)
    with pytest.raises(ValueError, match="discount must be from 0 to 1, got nan"):
        ReferMemory(8, 1, 1, 8, discount=float("nan"))
    for c_max in (1.0, 0.5, float("nan")):
        with pytest.raises(ValueError, match="c_max must be greater than 1"):
            empty.set_c_max(c_max)
    memory, _ = memory_of([4])
    with pytest.raises(ValueError, match="made with prioritised='rank' or 'error'"):
        memory.sample_prioritised(random, 4, 0.7, 0.5)
    with pytest.raises(ValueError, match="made with prioritised='rank' or 'error'"):
        memory.set_priorities(np.array([0]), np.array([1.0]))


@pytest.mark.parametrize("prioritised", KINDS)
def test_the_memory_of_a_full_one_is_that_of_its_rows(prioritised):
    memory, _ = memory_of([32, 32], prioritised=prioritised)
    arrays = [*memory._steps, memory._far_policy.edge, memory._free]
    if prioritised:
        memory.sample_prioritised(np.random.default_rng(0), 4, 0.5, 0.5)
        arrays += [x for x in vars(memory._sampler).values() if isinstance(x, np.ndarray)]
    assert sum(array.nbytes for array in arrays) == ReferMemory.nbytes(64, 3, 2, prioritised)


def test_states_of_another_kind_of_memory_are_refused():
    state = memory_of([30, 20])[0].get_state()
    with pytest.raises(ValueError, match="50 steps do not fit into a capacity of 40"):
        ReferMemory(40, 3, 2, 32, discount=GAMMA).set_state(state)
    with pytest.raises(ValueError, match=r"state must be \(50, 4\), got \(50, 3\)"):
        ReferMemory(64, 4, 2, 32, discount=GAMMA).set_state(state)
    for kind, other in (("rank", None), (None, "error"), ("rank", "error")):
        state_of_other = memory_of([30, 20], prioritised=other)[0].get_state()
        with pytest.raises(ValueError, match="prioritised in the same way"):
            ReferMemory(64, 3, 2, 32, discount=GAMMA, prioritised=kind).set_state(state_of_other)
    with pytest.raises(RuntimeError, match="starts at step 0 says that it has 30 steps"):
        ReferMemory(64, 3, 2, 29, discount=GAMMA).set_state(state)
    state["rho"][4] = np.nan
    with pytest.raises(RuntimeError, match="rho holds an entry that is negative or NaN"):
        ReferMemory(64, 3, 2, 32, discount=GAMMA).set_state(state)
