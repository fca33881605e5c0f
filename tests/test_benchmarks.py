"""The arithmetic of benchmarks; speed itself is never tested here."""

from __future__ import annotations

import pytest

from repro.benchmarks.measuring import timing


def test_serial_bound_is_the_rate_of_one_after_the_other():
    assert timing.serial_bound({"a": 2.0, "b": 2.0}) == 1.0
    assert timing.serial_bound({"a": 6500, "b": 28000, "c": 13500}) == pytest.approx(3793.1, abs=0.1)


def test_ratio_is_the_median_of_ratios_within_a_repeat():
    repeats = [
        {"parts": {"a": 2.0, "b": 2.0}, "whole": 0.9},
        {"parts": {"a": 4.0, "b": 4.0}, "whole": 1.6},  # a faster minute
        {"parts": {"a": 2.0, "b": 2.0}, "whole": 0.7},
    ]
    result = timing.summarise("x", "steps_per_second", repeats)
    assert result["ratio"] == pytest.approx(0.8)
    assert result["spread"] == pytest.approx([0.7, 0.9])
    assert result["parts"] == {"a": 2.0, "b": 2.0}


def test_rate_counts_what_every_thread_did():
    counts = [0, 0]

    def body(i):
        counts[i] += 1
        return 10

    rate = timing.rate([lambda: body(0), lambda: body(1)], seconds=0.05)
    done = sum(counts) - 2 * timing.WARM_UP
    assert done > 0
    assert 0 < rate <= 10 * done / 0.05
