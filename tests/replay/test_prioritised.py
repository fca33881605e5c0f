"""Sampling by rank and by error: frequencies, weights, order, and rows without a priority."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from repro.replay.prioritised import SAMPLERS, SWEEP_PERIOD, ErrorSampler, RankHeap


def ordered(heap, capacity):
    """Ranked rows in order of rank, their priorities, and new rows."""
    stored = np.flatnonzero(heap._place >= 0)
    state = heap.get_state(stored)
    order = np.argsort(state["places"])
    ranked, new = np.split(order, [state["num_ranked"]])
    assert state["places"][ranked].tolist() == list(range(ranked.size))
    assert state["places"][new].tolist() == list(range(capacity - new.size, capacity))
    return stored[ranked], state["priorities"][ranked], stored[new]


def filled(size=50, capacity=64, seed=0):
    """A heap of rows size-1 to 0 with distinct priorities; returns it and the rows from the highest to the lowest."""
    heap = RankHeap(capacity)
    rows = np.arange(size)[::-1].copy()
    heap.insert(rows)
    priorities = np.random.default_rng(seed).permutation(size).astype(np.float32)
    heap.write(rows, priorities)
    return heap, rows[np.argsort(-priorities)]


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_frequencies_follow_the_ranks(alpha):
    heap, ranked = filled()
    heap.sort()
    random = np.random.default_rng(1)
    sampled = np.concatenate([heap.sample(random, 1, alpha, 0.0)[0] for _ in range(20_000)])
    counts = np.array([np.count_nonzero(sampled == row) for row in ranked])
    probability = np.arange(1, 51.0) ** -alpha
    expected = sampled.size * probability / probability.sum()
    assert counts.sum() == sampled.size
    assert stats.chisquare(counts, expected).pvalue > 0.01
    wrong = np.arange(1, 51.0) ** -(alpha + 0.1)
    assert stats.chisquare(counts, sampled.size * wrong / wrong.sum()).pvalue < 1e-6


def test_a_batch_takes_one_from_each_range_of_equal_probability():
    heap, ranked = filled()
    heap.sort()
    rank = np.empty(64, int)
    rank[ranked] = np.arange(50)
    cumulative = np.cumsum(np.arange(1, 51.0) ** -0.7)
    cumulative /= cumulative[-1]
    random = np.random.default_rng(2)
    for _ in range(100):
        places = rank[heap.sample(random, 8, 0.7, 0.4)[0]]
        assert np.all(cumulative[places] > np.arange(8) / 8)
        assert np.all(np.r_[0.0, cumulative][places] < np.arange(1, 9) / 8)


def test_weights_are_those_of_the_probabilities_over_the_largest():
    heap, ranked = filled()
    heap.sort()
    probability = np.arange(1, 51.0) ** -0.7
    probability /= probability.sum()
    weight = (50 * probability) ** -0.4
    weight /= weight.max()
    expected = dict(zip(ranked.tolist(), weight))
    rows, weights = heap.sample(np.random.default_rng(3), 32, 0.7, 0.4)
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, [expected[row] for row in rows.tolist()], rtol=1e-6)


def test_random_operations_keep_the_heap_and_its_rows():
    heap, random, new, priority = RankHeap(40), np.random.default_rng(4), set(), {}
    for _ in range(400):
        kind = random.choice(["insert", "remove", "write"], p=[0.5, 0.3, 0.2])
        absent = sorted(set(range(40)) - new - set(priority))
        present = sorted(new | set(priority))
        if kind == "insert" and len(absent) > 2:
            rows = random.choice(absent, 3, replace=False)
            heap.insert(rows)
            new |= set(rows.tolist())
        elif kind == "remove" and present:
            row = int(random.choice(present))
            heap.remove(np.array([row]))
            new.discard(row)
            priority.pop(row, None)
        elif kind == "write" and present:
            rows = random.choice(present, 5)
            values = random.random(5).astype(np.float32)
            heap.write(rows, values)
            priority |= dict(zip(rows.tolist(), values.tolist()))
            new -= set(rows.tolist())
        assert heap.find_error(np.array([*new, *priority], int)) is None
        rows, values, without = ordered(heap, 40)
        assert dict(zip(rows.tolist(), values.tolist())) == pytest.approx(priority)
        assert sorted(without.tolist()) == sorted(new)
        if priority:
            assert values[0] == pytest.approx(max(priority.values()))


def test_the_order_is_exact_again_after_as_many_writes_as_rows_fit():
    heap, _ = filled(64, 64)  # 64 priorities written: sorted
    assert np.all(np.diff(ordered(heap, 64)[1]) <= 0)
    random = np.random.default_rng(5)
    for _ in range(7):
        heap.write(random.integers(0, 64, 8), random.random(8).astype(np.float32))
    assert not np.all(np.diff(ordered(heap, 64)[1]) <= 0)
    heap.write(random.integers(0, 64, 8), random.random(8).astype(np.float32))
    assert np.all(np.diff(ordered(heap, 64)[1]) <= 0)
    assert heap.find_error(np.arange(64)) is None


def with_new_rows(new, alpha):
    """The heap of `filled` with more rows; returns the rows in order, and the probability of each."""
    heap, ranked = filled()
    heap.sort()
    heap.insert(new)
    weight = np.r_[np.ones(new.size), np.arange(1, 51.0) ** -alpha]
    return heap, np.r_[new, ranked], weight / weight.sum()


def test_each_new_row_is_sampled_as_often_as_rank_1():
    heap, rows, probability = with_new_rows(np.array([60, 61, 55]), 0.7)
    random = np.random.default_rng(6)
    sampled = np.concatenate([heap.sample(random, 4, 0.7, 0.0)[0] for _ in range(5_000)])
    counts = np.array([np.count_nonzero(sampled == row) for row in rows])
    assert counts.sum() == sampled.size
    assert stats.chisquare(counts, sampled.size * probability).pvalue > 0.01


def test_weights_of_new_rows_are_those_of_their_probability():
    heap, rows, probability = with_new_rows(np.array([60, 61, 55]), 0.7)
    weight = (53 * probability) ** -0.4
    expected = dict(zip(rows.tolist(), weight / weight.max()))
    sampled, weights = heap.sample(np.random.default_rng(7), 32, 0.7, 0.4)
    assert np.isin(sampled, [60, 61, 55]).any()
    np.testing.assert_allclose(weights, [expected[row] for row in sampled.tolist()], rtol=1e-6)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_rows_are_sampled_uniformly_before_any_has_a_priority(kind):
    heap = SAMPLERS[kind](8)
    heap.insert(np.array([5, 2, 7, 1]))
    rows, weights = heap.sample(np.random.default_rng(8), 8, 0.7, 0.4)
    assert sorted(rows.tolist()) == [1, 1, 2, 2, 5, 5, 7, 7]
    np.testing.assert_array_equal(weights, 1.0)


def test_a_thousand_new_steps_have_half_of_the_samples():
    """In a memory of 2^18 with the exponent 0.5, as ReF-ER's page says."""
    size, new = 2**18, np.arange(1_000)
    heap = RankHeap(size)
    heap.insert(np.arange(1_000, size))
    heap.write(np.arange(1_000, size), np.linspace(1.0, 0.0, size - 1_000, dtype=np.float32))
    heap.insert(new)
    sampled, _ = heap.sample(np.random.default_rng(9), 100_000, 0.5, 0.5)
    assert round(np.isin(sampled, new).mean(), 2) == 0.49


def test_a_row_is_new_until_its_priority_is_written():
    heap, _ = filled()
    heap.insert(np.array([60, 61]))
    heap.write(np.array([60]), np.array([0.5], np.float32))
    rows, values, new = ordered(heap, 64)
    assert dict(zip(rows.tolist(), values.tolist()))[60] == 0.5
    assert new.tolist() == [61]


@pytest.mark.parametrize("kind", SAMPLERS)
def test_restored_rows_are_sampled_as_before(kind):
    sampler = SAMPLERS[kind]
    first, second = sampler(64), sampler(64)
    for one, size in ((first, 50), (second, 20)):
        one.insert(np.arange(size))
        one.write(np.arange(0, size, 2), np.arange(0, size, 2, dtype=np.float32))
        one.sample(np.random.default_rng(size), 8, 0.7, 0.4)
    first.write(np.array([0, 5]), np.array([80.0, 90.0], np.float32))
    first.remove(np.array([3, 4]))
    first.sample(np.random.default_rng(1), 8, 0.7, 0.4)
    first.write(np.array([7]), np.array([200.0], np.float32))  # counts at the next sweep
    rows = np.roll(np.delete(np.arange(50), [3, 4]), 11)
    second.set_state(rows, first.get_state(rows))
    assert second.find_error(rows) is None
    for batch in range(1, 2 * SWEEP_PERIOD):
        for one in (first, second):
            one.write(np.array([batch]), np.array([3.0 * batch], np.float32)) if batch % 4 == 0 else None
        for found, expected in zip(*(s.sample(np.random.default_rng(batch), 8, 0.7, 0.4) for s in (second, first))):
            np.testing.assert_array_equal(found, expected)


def by_error():
    """Five rows with priorities, one of them 0, and two without; returns the sampler, rows and masses with 0.6."""
    sampler = ErrorSampler(16)
    rows = np.array([1, 3, 4, 8, 9, 12, 15])
    sampler.insert(rows)
    priorities = np.array([2.0, 0.0, 0.5, 1.0, 4.0], np.float32)
    sampler.write(rows[:5], priorities)
    mass = np.sqrt(priorities.astype(np.float64) ** 2 + 2.0**-23) ** 0.6
    return sampler, rows, np.r_[mass, 4.0**0.6, 4.0**0.6]


def test_frequencies_by_error_follow_the_errors_and_new_rows_weigh_as_the_largest():
    sampler, rows, mass = by_error()
    random = np.random.default_rng(10)
    sampled = np.concatenate([sampler.sample(random, 4, 0.6, 0.0)[0] for _ in range(5_000)])
    counts = np.array([np.count_nonzero(sampled == row) for row in rows])
    assert counts.sum() == sampled.size
    assert stats.chisquare(counts, sampled.size * mass / mass.sum()).pvalue > 0.01


def test_weights_by_error_are_those_of_the_probabilities_over_the_largest():
    sampler, rows, mass = by_error()
    weight = (7 * mass / mass.sum()) ** -0.4
    expected = dict(zip(rows.tolist(), weight / weight.max()))
    sampled, weights = sampler.sample(np.random.default_rng(11), 4_096, 0.6, 0.4)
    assert set(sampled.tolist()) == set(rows.tolist())
    np.testing.assert_allclose(weights, [expected[row] for row in sampled.tolist()], rtol=1e-5)


def test_priorities_count_after_some_minibatches_or_when_rows_enter_or_leave():
    sampler, rows, _ = by_error()
    random = np.random.default_rng(12)

    def share():
        return np.mean(sampler.sample(random, 1_000, 0.6, 0.0)[0] == 8)

    before = share()
    sampler.write(np.array([8]), np.array([1e6], np.float32))
    assert [share() > 0.3 for _ in range(SWEEP_PERIOD)] == [False] * (SWEEP_PERIOD - 1) + [True]
    assert before < 0.2  # 1 of 10; later as much as each of the two new rows
    sampler.write(np.array([8]), np.array([1e-6], np.float32))
    assert share() > 0.3
    sampler.insert(np.array([0]))
    assert share() < 0.1
    sampler.write(np.array([8]), np.array([1e6], np.float32))
    sampler.remove(np.array([0]))
    assert share() > 0.3
    assert sampler.find_error(rows) is None
    assert sampler.find_error(rows[:-1]) == "prioritised rows are not the stored steps"
