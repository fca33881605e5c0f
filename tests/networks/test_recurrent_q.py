"""R2D2's network: time, resets, burn-in, last action and reward, sizes."""

import numpy as np
import pytest
import tensorflow as tf

from repro.networks.atari import nature_torso, shallow_torso
from repro.networks.dueling import DuelingHead
from repro.networks.recurrent_q import RecurrentQ
from repro.networks.sequence_network import unroll_after_burn_in

B, T, ACTIONS, UNITS, DUELING = 2, 5, 4, 7, 6
FRAME = (36, 36, 2)
FIRST, MID, LAST = 0, 1, 2
STEP_TYPE = np.array([[MID, MID, LAST, FIRST, MID], [MID, FIRST, MID, MID, LAST]], np.int32)  # [B, T]
ALL_MID = np.full((B, T), MID, np.int32)


def spec(frame):
    return {
        "frame": tf.TensorSpec(frame, tf.uint8),
        "last_action": tf.TensorSpec([], tf.int32),
        "last_reward": tf.TensorSpec([], tf.float32),
    }


def make(seed=3):
    network = RecurrentQ(shallow_torso(2), ACTIONS, UNITS, DUELING, seed=seed)
    network.build_variables(spec(FRAME))
    return network


def observation(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "frame": rng.integers(0, 256, size=(B, T, *FRAME), dtype=np.uint8),
        "last_action": rng.integers(0, ACTIONS, size=(B, T), dtype=np.int32),
        "last_reward": rng.normal(scale=3.0, size=(B, T)).astype(np.float32),
    }


def some_state(seed=1):
    rng = np.random.default_rng(seed)
    return tuple(tf.constant(rng.normal(size=(B, UNITS)), tf.float32) for _ in range(2))


def rows(x, start, stop):
    return tf.nest.map_structure(lambda part: part[:, start:stop], x)


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_a_whole_sequence_is_step_by_step(mode):
    network, x, state = make(), observation(), some_state()
    whole = network if mode == "eager" else tf.function(network, jit_compile=mode == "xla", autograph=False)
    q, final = whole(x, STEP_TYPE, state)
    assert q.shape == (B, T, ACTIONS)
    for t in range(T):
        step_q, state = network(rows(x, t, t + 1), STEP_TYPE[:, t : t + 1], state)
        np.testing.assert_allclose(q[:, t], step_q[:, 0], atol=1e-5)
    for a, b in zip(final, state, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_array_equal([part.shape for part in network.initial_state(B)], [(B, UNITS)] * 2)


def test_an_observation_of_other_entries_is_refused():
    """Nothing of it passes for read: neither the instruction of a level nor a frame without what led to it."""
    network, x = make(), observation()
    with pytest.raises(ValueError, match="the network does not read instruction: leave it out of the observations"):
        network(x | {"instruction": np.zeros((B, T, 4), np.int32)}, STEP_TYPE, some_state())
    without = {name: part for name, part in x.items() if name != "last_reward"}
    for wrong in (without, x["frame"]):
        with pytest.raises(ValueError, match=r"a recurrent core reads {frame, last_action, last_reward}"):
            network(wrong, STEP_TYPE, some_state())


def test_only_a_first_step_resets_the_core():
    network, x, state = make(), observation(), some_state()
    q, _ = network(x, STEP_TYPE, state)
    for row, start in ((0, 3), (1, 1)):
        fresh, _ = network(rows(x, start, T), ALL_MID[:, start:], network.initial_state(B))
        np.testing.assert_allclose(q[row, start:], fresh[row], atol=1e-5)
    never, _ = network(x, ALL_MID, state)
    np.testing.assert_array_equal(never, network(x, np.full((B, T), LAST, np.int32), state)[0])
    np.testing.assert_allclose(q[0, :3], never[0, :3], atol=1e-6)
    assert np.abs(q[0, 3] - never[0, 3]).max() > 1e-4
    poisoned = tuple(tf.fill([B, UNITS], np.float32(np.nan)) for _ in range(2))
    assert np.isfinite(network(x, STEP_TYPE, poisoned)[0][1, 1:]).all()


def test_the_head_is_a_dueling_one_on_the_lstm():
    network, x, state = make(), rows(observation(), 0, 1), some_state()
    q, (h, _) = network(x, ALL_MID[:, :1], state)
    head = DuelingHead(DUELING, ACTIONS, seed=0)
    head(h)
    head.set_weights(network._head.get_weights())
    np.testing.assert_allclose(q[:, 0], head(h), atol=1e-6)
    assert len(network.variables) == 6 + 8 + 2


@pytest.mark.parametrize("name", ["last_action", "last_reward"])
def test_last_action_and_reward_reach_the_core(name):
    network, x = make(), observation()
    q, _ = network(x, ALL_MID, some_state())
    changed = {key: part.copy() for key, part in x.items()}
    changed[name][0, 2] = (x[name][0, 2] + 1) % ACTIONS
    new_q, _ = network(changed, ALL_MID, some_state())
    np.testing.assert_array_equal(q[0, :2], new_q[0, :2])
    np.testing.assert_array_equal(q[1], new_q[1])
    assert (np.abs(q[0, 2:] - new_q[0, 2:]).max(axis=-1) > 1e-7).all()


def test_the_last_reward_is_not_clipped():
    network, x = make(), observation()
    one, two = (
        network(x | {"last_reward": np.full((B, T), reward, np.float32)}, ALL_MID, some_state())[0] for reward in (1, 2)
    )
    assert np.abs(one - two).max() > 1e-4


@pytest.mark.parametrize(("burn_in", "mode"), [(0, "eager"), (2, "eager"), (2, "graph"), (T - 1, "eager")])
def test_values_behind_the_burn_in_are_those_of_the_whole_sequence(burn_in, mode):
    network, x, state = make(), observation(), some_state()
    whole, _ = network(x, STEP_TYPE, state)
    unroll = unroll_after_burn_in if mode == "eager" else tf.function(unroll_after_burn_in, autograph=False)
    (q,) = unroll(network, x, tf.constant(STEP_TYPE), state, burn_in)
    assert q.shape == (B, T - burn_in, ACTIONS)
    np.testing.assert_allclose(q, whole[:, burn_in:], atol=1e-5)


def test_the_burn_in_moves_the_values_but_passes_no_gradient():
    network, x, burn_in = make(), observation(), 2
    reward, state = tf.constant(x["last_reward"]), some_state()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([reward, state])
        (q,) = unroll_after_burn_in(network, x | {"last_reward": reward}, tf.constant(ALL_MID), state, burn_in)
        loss = tf.reduce_sum(q**2)
    reached = np.abs(tape.gradient(loss, reward)) > 0
    np.testing.assert_array_equal(reached, np.tile(np.arange(T) >= burn_in, (B, 1)))
    assert tape.gradient(loss, state) == (None, None)

    # The variables' gradients are those of the trained part alone, started from the state that the burn-in left.
    _, left = network(rows(x, 0, burn_in), ALL_MID[:, :burn_in], state)
    with tf.GradientTape() as alone:
        loss_alone = tf.reduce_sum(network(rows(x, burn_in, T), ALL_MID[:, burn_in:], left)[0] ** 2)
    variables = network.trainable_variables
    for a, b in zip(tape.gradient(loss, variables), alone.gradient(loss_alone, variables)):
        assert np.abs(a).max() > 0
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    (other,) = unroll_after_burn_in(network, x, tf.constant(ALL_MID), some_state(2), burn_in)
    assert np.abs(other - q).max() > 1e-4


def test_without_burn_in_no_gradient_reaches_the_state():
    network, state = make(), some_state()
    with tf.GradientTape() as tape:
        tape.watch(state)
        (q,) = unroll_after_burn_in(network, observation(), tf.constant(ALL_MID), state, 0)
        loss = tf.reduce_sum(q)
    assert tape.gradient(loss, state) == (None, None)


@pytest.mark.parametrize("burn_in", [-1, T])
def test_refuses_a_burn_in_that_leaves_nothing(burn_in):
    with pytest.raises(ValueError, match="burn_in must lie in"):
        unroll_after_burn_in(make(), observation(), tf.constant(ALL_MID), some_state(), burn_in)


def test_an_unknown_number_of_steps_is_refused():
    step_type = tf.keras.Input([None], dtype=tf.int32)
    with pytest.raises(ValueError, match="unroll_after_burn_in: the number of steps is unknown"):
        unroll_after_burn_in(make(), observation(), step_type, some_state(), 1)


def test_weights_follow_from_the_seed():
    first, again, other = (make(seed).get_weights() for seed in (3, 3, 4))
    for i, (a, b, c) in enumerate(zip(first, again, other)):
        np.testing.assert_array_equal(a, b)
        assert np.array_equal(a, c) == (i < 6 or a.ndim == 1)


def test_atari_parameter_count():
    network = RecurrentQ(nature_torso(0), 18, 512, 512, seed=0)
    network.build_variables(spec((84, 84, 4)))
    core = (512 + 18 + 1 + 512 + 1) * 4 * 512
    head = 2 * 513 * 512 + 513 * 19
    assert network.count_params() == 1_684_128 + core + head
