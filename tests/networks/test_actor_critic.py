"""The actor-critic network: time, state, last action and reward, sizes, seeds."""

import numpy as np
import pytest
import tensorflow as tf

from repro.networks.actor_critic import ActorCritic
from repro.networks.atari import deep_torso, shallow_torso
from repro.networks.instruction_encoder import InstructionEncoder

B, T, ACTIONS, UNITS = 2, 5, 4, 7
FRAME = (36, 36, 2)
FIRST, MID, LAST = 0, 1, 2
STEP_TYPE = np.array([[MID, MID, LAST, FIRST, MID], [MID, FIRST, MID, MID, LAST]], np.int32)  # [B, T]


def spec(frame=FRAME, core=True):
    frame_spec = tf.TensorSpec(frame, tf.uint8)
    if not core:
        return frame_spec
    return {
        "frame": frame_spec,
        "last_action": tf.TensorSpec([], tf.int32),
        "last_reward": tf.TensorSpec([], tf.float32),
    }


def make(core_units=UNITS, seed=3):
    network = ActorCritic(shallow_torso(2), ACTIONS, core_units, seed=seed)
    network.build_variables(spec(core=core_units is not None))
    return network


def observation(core=True, seed=0):
    rng = np.random.default_rng(seed)
    frame = rng.integers(0, 256, size=(B, T, *FRAME), dtype=np.uint8)
    if not core:
        return frame
    return {
        "frame": frame,
        "last_action": rng.integers(0, ACTIONS, size=(B, T), dtype=np.int32),
        "last_reward": rng.uniform(-1, 1, size=(B, T)).astype(np.float32),
    }


def some_state(network):
    rng = np.random.default_rng(1)
    return tuple(tf.constant(rng.normal(size=part.shape), tf.float32) for part in network.initial_state(B))


def make_reader(seed=3):
    """A network that reads instructions of up to three of nine words."""
    network = ActorCritic(shallow_torso(2), ACTIONS, UNITS, InstructionEncoder(10, 4, 5, 1), seed=seed)
    network.build_variables(spec() | {"instruction": tf.TensorSpec([3], tf.int32)})
    return network


def instructed(seed=0):
    """Observations whose instruction changes with the episodes of `STEP_TYPE`."""
    instruction = np.zeros((B, T, 3), np.int32)
    instruction[0], instruction[0, 3:] = (4, 0, 0), (7, 2, 0)
    instruction[1, 1:] = 1, 2, 3
    return observation(seed=seed) | {"instruction": instruction}


def rows(x, start, stop):
    return tf.nest.map_structure(lambda part: part[:, start:stop], x)


def test_entries_that_it_does_not_read_are_refused():
    with pytest.raises(ValueError, match="the network does not read instruction: leave it out of the observations"):
        make(UNITS)(observation() | {"instruction": np.zeros((B, T, 8), np.int32)}, tf.zeros([B, T], tf.int32))


@pytest.mark.parametrize("kind", [None, UNITS, "instructed"])
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_a_whole_unroll_is_step_by_step(kind, mode):
    network, x = (make_reader(), instructed()) if kind == "instructed" else (make(kind), observation(kind is not None))
    state = some_state(network)
    whole = network if mode == "eager" else tf.function(network, jit_compile=mode == "xla", autograph=False)
    logits, value, final = whole(x, STEP_TYPE, state)
    assert logits.shape == (B, T, ACTIONS)
    assert value.shape == (B, T)
    for t in range(T):
        step_logits, step_value, state = network(rows(x, t, t + 1), STEP_TYPE[:, t : t + 1], state)
        np.testing.assert_allclose(logits[:, t], step_logits[:, 0], atol=1e-5)
        np.testing.assert_allclose(value[:, t], step_value[:, 0], atol=1e-5)
    assert len(final) == (0 if kind is None else 2)
    for a, b in zip(final, state):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("cut", [1, 3, 4])
def test_carrying_the_state_over_two_calls_is_one_call(cut):
    network, x = make(), observation()
    logits, value, final = network(x, STEP_TYPE, some_state(network))
    logits_1, value_1, state = network(rows(x, 0, cut), STEP_TYPE[:, :cut], some_state(network))
    logits_2, value_2, state = network(rows(x, cut, T), STEP_TYPE[:, cut:], state)
    np.testing.assert_allclose(logits, np.concatenate([logits_1, logits_2], 1), atol=1e-5)
    np.testing.assert_allclose(value, np.concatenate([value_1, value_2], 1), atol=1e-5)
    for a, b in zip(final, state):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_only_a_first_step_resets_the_core():
    network, x = make(), observation()
    state = some_state(network)
    logits, _, _ = network(x, STEP_TYPE, state)
    # Row 0 begins again at step 3, row 1 at step 1: from there on the same as from the initial state.
    for row, start in ((0, 3), (1, 1)):
        fresh, _, _ = network(rows(x, start, T), np.full((B, T - start), MID, np.int32), network.initial_state(B))
        np.testing.assert_allclose(logits[row, start:], fresh[row], atol=1e-5)
    never, _, _ = network(x, np.full((B, T), MID, np.int32), state)
    last, _, _ = network(x, np.full((B, T), LAST, np.int32), state)
    np.testing.assert_array_equal(never, last)
    assert np.abs(logits[0, 3] - never[0, 3]).max() > 1e-4
    np.testing.assert_allclose(logits[0, :3], never[0, :3], atol=1e-6)


def test_an_instruction_reaches_every_later_step_of_its_episode_and_no_other():
    network, x = make_reader(), instructed()
    state = network.initial_state(B)
    logits, value, _ = network(x, STEP_TYPE, state)
    changed = x | {"instruction": x["instruction"].copy()}
    changed["instruction"][0, 1] = 2, 7, 0  # row 0 begins again at step 3
    new_logits, new_value, _ = network(changed, STEP_TYPE, state)
    for old, new in ((logits, new_logits), (value[..., np.newaxis], new_value[..., np.newaxis])):
        differs = np.abs(old - new).max(axis=-1) > 1e-6
        assert differs.tolist() == [[False, True, True, False, False], [False] * T]


def test_an_instruction_needs_a_core_and_is_needed_by_a_network_that_reads_it():
    with pytest.raises(ValueError, match="instructions need a recurrent core, and there is none"):
        ActorCritic(shallow_torso(2), ACTIONS, None, InstructionEncoder(10, 4, 5, 1), seed=0)
    network = make_reader()
    with pytest.raises(ValueError, match="reads {frame, instruction, last_action, last_reward}"):
        network(observation(), STEP_TYPE, network.initial_state(B))


@pytest.mark.parametrize("name", ["last_action", "last_reward"])
def test_last_action_and_reward_reach_the_core(name):
    network, x = make(), observation()
    step_type = np.full((B, T), MID, np.int32)
    logits, value, _ = network(x, step_type, network.initial_state(B))
    changed = {key: part.copy() for key, part in x.items()}
    changed[name][0, 2] = (x[name][0, 2] + 1) % ACTIONS if name == "last_action" else -x[name][0, 2] + 0.1
    new_logits, new_value, _ = network(changed, step_type, network.initial_state(B))
    np.testing.assert_array_equal(logits[0, :2], new_logits[0, :2])
    np.testing.assert_array_equal(logits[1], new_logits[1])
    assert (np.abs(logits[0, 2:] - new_logits[0, 2:]).max(axis=-1) > 1e-7).all()
    assert (np.abs(value[0, 2:] - new_value[0, 2:]) > 1e-7).all()


def test_last_reward_is_clipped():
    network, x = make(), observation()

    def logits(reward):
        changed = x | {"last_reward": np.full((B, T), reward, np.float32)}
        return network(changed, STEP_TYPE, network.initial_state(B))[0].numpy()

    np.testing.assert_array_equal(logits(1.0), logits(400.0))
    np.testing.assert_array_equal(logits(-1.0), logits(-2.0))
    assert not np.array_equal(logits(1.0), logits(0.5))


def test_each_action_is_its_own_input():
    network, x = make(), observation()
    outputs = [
        network(x | {"last_action": np.full((B, T), a, np.int32)}, STEP_TYPE, network.initial_state(B))[0]
        for a in range(ACTIONS)
    ]
    for i, a in enumerate(outputs):
        assert all(not np.array_equal(a, b) for b in outputs[:i])


def test_feed_forward_ignores_step_type_and_needs_no_static_time():
    network, x = make(None), observation(core=False)
    logits, value, state = network(x, STEP_TYPE)
    assert state == ()
    other, _, _ = network(x, np.zeros_like(STEP_TYPE))
    np.testing.assert_array_equal(logits, other)

    @tf.function(input_signature=[tf.TensorSpec([None, None, *FRAME], tf.uint8)], autograph=False)
    def run(frames):
        return network(frames, tf.zeros(tf.shape(frames)[:2], tf.int32))[:2]

    dynamic_logits, dynamic_value = run(x)
    np.testing.assert_allclose(dynamic_logits, logits, atol=1e-6)
    np.testing.assert_allclose(dynamic_value, value, atol=1e-6)


@pytest.mark.parametrize("core_units", [None, UNITS])
def test_refuses_the_other_kind_of_observation(core_units):
    with pytest.raises(ValueError, match="recurrent core reads"):
        make(core_units)(observation(core_units is None), STEP_TYPE, ())


@pytest.mark.parametrize("core_units", [None, UNITS])
def test_every_variable_exists_after_building_and_gets_a_gradient(core_units):
    check_variables(make(core_units), observation(core_units is not None))


def test_variables_of_a_network_that_reads_instructions_get_a_gradient():
    check_variables(make_reader(), instructed())


def check_variables(network, x):
    names = {variable.name for variable in network.variables}
    with tf.GradientTape() as tape:
        logits, value, _ = network(x, STEP_TYPE, some_state(network))
        loss = tf.reduce_sum(logits**2) + tf.reduce_sum(value**2)
    gradients = tape.gradient(loss, network.trainable_variables)
    assert {variable.name for variable in network.variables} == names
    assert all(np.abs(gradient).max() > 0 for gradient in gradients)
    assert len(names) == len(network.trainable_variables)


@pytest.mark.parametrize("core_units", [None, UNITS])
def test_weights_follow_from_the_seed(core_units):
    tf.random.set_seed(0)
    first = make(core_units, seed=3).get_weights()
    tf.random.set_seed(1)
    again, other = make(core_units, seed=3).get_weights(), make(core_units, seed=4).get_weights()
    for a, b in zip(first, again):
        np.testing.assert_array_equal(a, b)
    torso_variables = 6
    changed = [not np.array_equal(a, b) for a, b in zip(first, other) if a.ndim > 1]
    assert changed == [index >= torso_variables // 2 for index in range(len(changed))]


def test_a_feed_forward_network_has_the_heads_of_the_recurrent_one():
    """The core's seed comes last, so that the two differ by the core alone where widths allow it."""
    plain, recurrent = make(None), make(256)
    heads = [w for w in plain.get_weights() if w.shape in {(256, ACTIONS), (256, 1)}]
    others = [w for w in recurrent.get_weights() if w.shape in {(256, ACTIONS), (256, 1)}]
    assert len(heads) == 2
    for a, b in zip(heads, others):
        np.testing.assert_array_equal(a, b)


def built(make_torso, frame, actions, core_units, words=0):
    """Number of parameters; with `words` above 0, of a network that reads instructions."""
    encoder = InstructionEncoder(words, 20, 64, seed=0) if words else None
    network = ActorCritic(make_torso(0), actions, core_units, encoder, seed=0)
    instruction = {"instruction": tf.TensorSpec([16], tf.int32)} if words else {}
    frames = spec(frame, core_units is not None)
    network.build_variables(frames | instruction if words else frames)
    return network.count_params()


@pytest.mark.parametrize(("make_torso", "torso_count"), [(shallow_torso, 676_144), (deep_torso, 1_089_232)])
@pytest.mark.parametrize("actions", [3, 6, 18])
def test_atari_parameter_counts(make_torso, torso_count, actions):
    heads = 257 * actions + 257
    assert built(make_torso, (84, 84, 4), actions, None) == torso_count + heads
    core = (256 + actions + 1 + 256 + 1) * 4 * 256
    assert built(make_torso, (84, 84, 4), actions, 256) == torso_count + core + heads


@pytest.mark.parametrize(
    ("make_torso", "without", "paper"), [(shallow_torso, 1_123_130, 1.2), (deep_torso, 1_520_714, 1.6)]
)
def test_figure_4_counts_include_the_instruction_channel(make_torso, without, paper):
    """Figure 4's 1.2 and 1.6 million are the DMLab networks with their instruction channel.

    72 x 96 x 3 frames, 9 actions, LSTM 256. The network without instructions falls short of both numbers;
    with an embedding of 1 000 hashed words in 20 dimensions (assumed, as in the released code), an LSTM of
    64 units over it, and 64 more inputs to the core, both come out.
    """
    assert built(make_torso, (72, 96, 3), 9, 256) == without
    assert round(without / 1e6, 1) != paper
    count = built(make_torso, (72, 96, 3), 9, 256, words=1000)
    assert count - without == 20_000 + (20 + 64 + 1) * 4 * 64 + 64 * 4 * 256
    assert round(count / 1e6, 1) == paper
