"""Rank-based sampling: frequencies, weights, order, and rows without a priority."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from repro.replay.prioritised import RankHeap


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
        rows, values, without, _ = heap.ordered()
        assert dict(zip(rows.tolist(), values.tolist())) == pytest.approx(priority)
        assert sorted(without.tolist()) == sorted(new)
        if priority:
            assert values[0] == pytest.approx(max(priority.values()))


def test_the_order_is_exact_again_after_as_many_writes_as_rows_fit():
    heap, _ = filled(64, 64)  # 64 priorities written: sorted
    assert np.all(np.diff(heap.ordered()[1]) <= 0)
    random = np.random.default_rng(5)
    for _ in range(7):
        heap.write(random.integers(0, 64, 8), random.random(8).astype(np.float32))
    assert not np.all(np.diff(heap.ordered()[1]) <= 0)
    heap.write(random.integers(0, 64, 8), random.random(8).astype(np.float32))
    assert np.all(np.diff(heap.ordered()[1]) <= 0)
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


def test_rows_are_sampled_uniformly_before_any_has_a_priority():
    heap = RankHeap(8)
    heap.insert(np.array([5, 2, 7, 1]))
    rows, weights = heap.sample(np.random.default_rng(8), 8, 0.7, 0.4)
    assert sorted(rows.tolist()) == [1, 1, 2, 2, 5, 5, 7, 7]
    np.testing.assert_array_equal(weights, 1.0)


def test_a_thousand_new_steps_have_half_of_the_samples():
    """In a memory of 2^18 with the exponent 0.5, as ReF-ER's page says."""
    size, new = 2**18, np.arange(1_000)
    heap = RankHeap(size)
    heap.restore(np.arange(1_000, size), np.linspace(1.0, 0.0, size - 1_000, dtype=np.float32), new, 0)
    sampled, _ = heap.sample(np.random.default_rng(9), 100_000, 0.5, 0.5)
    assert round(np.isin(sampled, new).mean(), 2) == 0.49


def test_a_row_is_new_until_its_priority_is_written():
    heap, _ = filled()
    heap.insert(np.array([60, 61]))
    heap.write(np.array([60]), np.array([0.5], np.float32))
    rows, values, new, _ = heap.ordered()
    assert dict(zip(rows.tolist(), values.tolist()))[60] == 0.5
    assert new.tolist() == [61]


def test_restored_rows_are_sampled_as_before():
    heap, _ = filled()
    heap.insert(np.array([60, 61, 55]))
    heap.remove(np.array([60, 3]))
    other, _ = filled(20, seed=1)
    other.restore(*heap.ordered())
    for batch in range(1, 9):
        for found, expected in zip(*(h.sample(np.random.default_rng(batch), 8, 0.7, 0.4) for h in (other, heap))):
            np.testing.assert_array_equal(found, expected)
