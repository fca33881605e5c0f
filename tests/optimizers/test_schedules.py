"""The linear schedule on frames against values worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf

from repro.optimizers.schedules import LinearOnFrames


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, 6e-4),
        (1, 6e-4 * (1 - 2560 / 200_000_000)),
        (39_062, 6e-4 * (1 - 39_062 * 2560 / 200_000_000)),
        (78_125, 0.0),  # 78 125 updates of 2 560 frames are 200 million
        (78_126, 0.0),
        (10_000_000, 0.0),
    ],
)
def test_values_of_the_atari_schedule(step, expected):
    schedule = LinearOnFrames(6e-4, 0.0, total_frames=200_000_000, frames_per_update=2560)
    np.testing.assert_allclose(schedule(step), expected, rtol=1e-6, atol=1e-12)


def test_ends_exactly_at_a_final_rate_above_zero_and_may_rise():
    falling = LinearOnFrames(1e-3, 1e-4, total_frames=100, frames_per_update=30)
    assert [float(falling(k)) for k in (4, 5, 99)] == [np.float32(1e-4)] * 3  # 4 * 30 > 100
    np.testing.assert_allclose(falling(2), 0.4 * 1e-3 + 0.6 * 1e-4, rtol=1e-6)
    rising = LinearOnFrames(0.0, 1.0, total_frames=100, frames_per_update=25)
    np.testing.assert_allclose([float(rising(k)) for k in range(6)], [0, 0.25, 0.5, 0.75, 1, 1])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_reads_an_int64_counter_in_a_graph(jit_compile):
    counter = tf.Variable(3, dtype=tf.int64)
    schedule = LinearOnFrames(1.0, 0.0, total_frames=40, frames_per_update=10)
    value = tf.function(lambda: schedule(counter), jit_compile=jit_compile, autograph=False)
    assert value().dtype == tf.float32
    assert float(value()) == 0.25
    counter.assign(2)
    assert float(value()) == 0.5


def test_config_round_trip():
    schedule = LinearOnFrames(1e-3, 1e-5, total_frames=1000, frames_per_update=8)
    copy = LinearOnFrames.from_config(schedule.get_config())
    assert [float(copy(k)) for k in range(130)] == [float(schedule(k)) for k in range(130)]


@pytest.mark.parametrize(("total_frames", "frames_per_update"), [(0, 1), (1, 0), (-5, 1)])
def test_rejects_counts_that_are_not_positive(total_frames, frames_per_update):
    with pytest.raises(ValueError, match="must be positive"):
        LinearOnFrames(1.0, 0.0, total_frames, frames_per_update)
