"""Rank-based sampling: frequencies, weights, order."""

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
    heap, random, present, priority = RankHeap(40), np.random.default_rng(4), [], {}
    for _ in range(400):
        kind = random.choice(["insert", "remove", "write"])
        if kind == "insert" and len(present) < 40:
            row = int(random.choice(sorted(set(range(40)) - set(present))))
            highest = max((priority[other] for other in present), default=1.0)
            heap.insert(np.array([row]))
            present.append(row)
            priority[row] = highest
        elif kind == "remove" and present:
            row = present.pop(int(random.integers(len(present))))
            heap.remove(np.array([row]))
        elif kind == "write" and present:
            rows = random.choice(present, 5)
            values = random.random(5).astype(np.float32)
            heap.write(rows, values)
            priority |= dict(zip(rows.tolist(), values.tolist()))
        assert heap.find_error(np.array(present, int)) is None
        rows, values, _ = heap.ordered()
        assert dict(zip(rows.tolist(), values.tolist())) == pytest.approx({row: priority[row] for row in present})
        if present:
            assert values[0] == pytest.approx(max(priority[row] for row in present))


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


def test_new_rows_have_the_highest_priority():
    heap, ranked = filled()
    heap.insert(np.array([60, 61]))
    rows, values, _ = heap.ordered()
    assert np.all(values[np.isin(rows, [60, 61])] == values.max())
    heap.sort()
    assert set(heap.ordered()[0][:3].tolist()) == {60, 61, int(ranked[0])}


def test_new_rows_lie_deep_in_the_heap_until_it_is_sorted():
    """As ReF-ER's page says of a thousand steps in a memory of 2^18: less than 1 % of the samples, then 6 %."""
    size, new = 2**18, np.arange(1_000)
    heap = RankHeap(size)
    heap.restore(np.arange(size), np.linspace(1.0, 0.0, size, dtype=np.float32), 0)
    heap.remove(new)
    heap.insert(new)
    probability = np.arange(1, size + 1.0) ** -0.5
    probability /= probability.sum()
    share = probability[np.isin(heap.ordered()[0], new)].sum()
    assert new.size / size < share < 0.01
    heap.sort()
    ranked = heap.ordered()[0]
    assert set(ranked[:1_001].tolist()) == {*new.tolist(), 1_000}  # the highest of the others is as high
    assert round(probability[np.isin(ranked, new)].sum(), 2) == 0.06
