"""The recursion by doubling against one row at a time."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import tensorflow as tf

from repro.ops import recursion


def row_by_row(delta: np.ndarray, decay: np.ndarray, goes_on: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    e, next_e = np.zeros((2, *delta.shape))
    for s in reversed(range(len(delta))):
        if s + 1 < len(delta):
            next_e[s] = np.where(goes_on[s], e[s + 1], 0.0)
        e[s] = delta[s] + np.where(goes_on[s], np.nan_to_num(decay[s]), 0.0) * next_e[s]  # NaN is never read
    return e, next_e


def rows(num_steps: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    delta, decay = rng.normal(size=(2, num_steps, 8)).astype(np.float32)
    goes_on = rng.random((num_steps, 8)) < 0.8
    decay[~goes_on] = np.nan
    decay[-1] = np.nan
    return delta, decay, goes_on


def agrees(module: ModuleType, num_steps: int) -> bool:
    """In half of the columns the last delta is NaN: it shows in the rows that read it, and only there."""
    delta, decay, goes_on = rows(num_steps, seed=num_steps)
    delta[-1, ::2] = np.nan
    actual = module.backward_recursion(*(tf.constant(x) for x in (delta, decay, goes_on)))
    expected = row_by_row(delta, decay, goes_on)
    return all(np.allclose(x, y, rtol=1e-4, atol=1e-4, equal_nan=True) for x, y in zip(actual, expected))


@pytest.mark.parametrize("num_steps", [1, 2, 3, 4, 5, 7, 8, 9, 16, 33])
def test_equals_one_row_at_a_time(num_steps):
    assert agrees(recursion, num_steps)


def test_later():
    x = tf.reshape(tf.range(8.0), [4, 2])
    np.testing.assert_array_equal(recursion.later(x, 1), [[2, 3], [4, 5], [6, 7], [0, 0]])
    np.testing.assert_array_equal(
        recursion.later(x > 3, 3), [[True, True], [False, False], [False, False], [False, False]]
    )
    np.testing.assert_array_equal(recursion.later(x, 5), np.zeros((4, 2)))


def test_gradients_are_exact_and_free_of_what_is_not_read():
    delta, decay, goes_on = (tf.constant(x) for x in rows(9, seed=1))
    with tf.GradientTape() as tape:
        tape.watch([delta, decay])
        total = tf.reduce_sum(recursion.backward_recursion(delta, decay, goes_on)[0])
    delta_gradient, decay_gradient = (x.numpy() for x in tape.gradient(total, [delta, decay]))
    _, next_e = row_by_row(delta.numpy(), decay.numpy(), goes_on.numpy())
    expected = np.ones(delta.shape)  # of delta_s: 1 + decay_{s-1} times that of delta_{s-1}
    for s in range(1, 9):
        expected[s] += np.where(goes_on[s - 1], np.nan_to_num(decay[s - 1]), 0.0) * expected[s - 1]
    np.testing.assert_allclose(delta_gradient, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(decay_gradient, expected * next_e, rtol=1e-4, atol=1e-4)


MUTANTS = {
    "one row late": ("later(e, 1), 0.0)", "later(e, 2), 0.0)"),
    "last rounds missing": ("while span <", "while 4 * span <"),
    "rounds overlap": ("span *= 2", "span += 1"),
    "rows read on": ("covered &= later(covered, span)", "pass"),
    "decay of the last row is read": ("goes_on & later(tf.ones_like(goes_on), 1)", "goes_on"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_one_row_at_a_time_rejects_a_mutated_recursion(mutant):
    with open(recursion.__file__) as file:
        source = file.read()
    old, new = MUTANTS[mutant]
    assert source.count(old) == 1, "the mutation must apply"
    module = ModuleType("mutant")
    exec(compile(source.replace(old, new), "mutant", "exec"), module.__dict__)
    assert not all(agrees(module, num_steps) for num_steps in (9, 16))
