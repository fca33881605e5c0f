"""Wrong variants of the networks whose architecture a paper prescribes."""

from tests.mutations.variant import Variant

ATARI = "repro/networks/atari.py"
DUELING = "repro/networks/dueling.py"
STOCHASTIC = "repro/networks/stochastic_dueling.py"
RECURRENT = "repro/networks/recurrent.py"
RECURRENT_Q = "repro/networks/recurrent_q.py"
SEQUENCE_NETWORK = "repro/networks/sequence_network.py"
ACTOR_CRITIC = "repro/networks/actor_critic.py"
ENCODER = "repro/networks/instruction_encoder.py"
LSTM = "repro/networks/lstm.py"
TEST_BFLOAT16 = "tests/networks/test_bfloat16.py"
TEST_DUELING = "tests/networks/test_dueling.py"
TEST_STOCHASTIC_DUELING = "tests/networks/test_stochastic_dueling.py"
TEST_RECURRENT = "tests/networks/test_recurrent.py"
TEST_RECURRENT_Q = "tests/networks/test_recurrent_q.py"
TEST_ACTOR_CRITIC = "tests/networks/test_actor_critic.py"
TEST_ENCODER = "tests/networks/test_instruction_encoder.py"
TEST_LSTM = "tests/networks/test_lstm.py"

VARIANTS = [
    Variant(
        "bfloat16: a bias's gradient is summed in it",
        ATARI,
        "x + tf.cast(bias, x.dtype)",
        "tf.nn.bias_add(x, tf.cast(bias, x.dtype))",
        f"{TEST_BFLOAT16}::test_sums_of_thousands_of_terms_are_exact",
        slow=True,  # skipped on other processors
    ),
    Variant(
        "bfloat16: features stay in it",
        ATARI,
        "return tf.cast(x, tf.float32)",
        "return x",
        f"{TEST_BFLOAT16}::test_weights_gradients_and_features_are_float32_and_all_between_is_not",
        slow=True,  # skipped on other processors
    ),
    Variant(
        "bfloat16: pooling makes float32 of it",
        ATARI,
        "MaxPool(autocast=False)",
        "MaxPool()",
        f"{TEST_BFLOAT16}::test_weights_gradients_and_features_are_float32_and_all_between_is_not",
        slow=True,  # skipped on other processors
    ),
    Variant(
        "dueling: advantages not centred",
        DUELING,
        "value + advantage - tf.reduce_mean(advantage, axis=-1, keepdims=True)",
        "value + advantage",
        f"{TEST_DUELING}::test_the_dueling_head",
    ),
    Variant(
        "dueling: largest advantage subtracted",
        DUELING,
        "tf.reduce_mean(advantage, axis=-1, keepdims=True)",
        "tf.reduce_max(advantage, axis=-1, keepdims=True)",
        f"{TEST_DUELING}::test_the_dueling_head",
    ),
    Variant(
        "dueling: mean over the batch",
        DUELING,
        "tf.reduce_mean(advantage, axis=-1, keepdims=True)",
        "tf.reduce_mean(advantage, axis=0, keepdims=True)",
        f"{TEST_DUELING}::test_the_dueling_head",
    ),
    Variant(
        "stochastic dueling: sum over the samples",
        STOCHASTIC,
        "tf.reduce_mean(found[:, count:], axis=1, keepdims=True)",
        "tf.reduce_sum(found[:, count:], axis=1, keepdims=True)",
        f"{TEST_STOCHASTIC_DUELING}::test_eq_13_term_by_term",
    ),
    Variant(
        "stochastic dueling: the actions among the samples",
        STOCHASTIC,
        "tf.reduce_mean(found[:, count:], axis=1, keepdims=True)",
        "tf.reduce_mean(found, axis=1, keepdims=True)",
        f"{TEST_STOCHASTIC_DUELING}::test_eq_13_term_by_term",
    ),
    Variant(
        "stochastic dueling: samples pass a gradient",
        STOCHASTIC,
        "tf.stop_gradient(tf.concat([actions, samples], axis=1))",
        "tf.concat([actions, samples], axis=1)",
        f"{TEST_STOCHASTIC_DUELING}::test_gradients_reach_weights_and_value_and_no_action",
    ),
    Variant(
        "stochastic dueling: value passes no gradient",
        STOCHASTIC,
        "return value[:, tf.newaxis] + found",
        "return tf.stop_gradient(value[:, tf.newaxis]) + found",
        f"{TEST_STOCHASTIC_DUELING}::test_gradients_reach_weights_and_value_and_no_action",
    ),
    Variant(
        "LSTM: no constant on the forget gate",
        RECURRENT,
        "tf.sigmoid(f + 1.0)",
        "tf.sigmoid(f)",
        f"{TEST_RECURRENT}::test_equals_the_equations",
    ),
    Variant(
        "LSTM: state kept over a first step",
        RECURRENT,
        "h, c = tf.where(keep, h, 0.0), tf.where(keep, c, 0.0)",
        "pass",
        f"{TEST_RECURRENT}::test_equals_the_equations",
    ),
    Variant(
        "LSTM: cell kept over a first step",
        RECURRENT,
        "tf.where(keep, h, 0.0), tf.where(keep, c, 0.0)",
        "tf.where(keep, h, 0.0), c",
        f"{TEST_RECURRENT}::test_equals_the_equations",
    ),
    Variant(
        "LSTM: gates in another order",
        RECURRENT,
        "i, g, f, o = tf.split",
        "i, f, g, o = tf.split",
        f"{TEST_RECURRENT}::test_equals_the_equations",
    ),
    Variant(
        "R2D2: gradient through the burn-in",
        SEQUENCE_NETWORK,
        "tf.nest.map_structure(tf.stop_gradient, state), **options)",
        "state, **options)",
        f"{TEST_RECURRENT_Q}::test_the_burn_in_moves_the_values_but_passes_no_gradient",
    ),
    Variant(
        "R2D2: burn-in from the stored state",
        SEQUENCE_NETWORK,
        "        *_, state = network(before, step_type[:, :burn_in], state)\n",
        "        network(before, step_type[:, :burn_in], state)\n",
        f"{TEST_RECURRENT_Q}::test_values_behind_the_burn_in_are_those_of_the_whole_sequence",
    ),
    Variant(
        "R2D2: last action left out",
        RECURRENT,
        "tf.one_hot(last_action, num_actions)",
        "0.0 * tf.one_hot(last_action, num_actions)",
        f"{TEST_RECURRENT_Q}::test_last_action_and_reward_reach_the_core",
    ),
    Variant(
        "IMPALA's core: last reward not clipped",
        ACTOR_CRITIC,
        'tf.clip_by_value(observation["last_reward"], -1.0, 1.0)',
        'observation["last_reward"]',
        f"{TEST_ACTOR_CRITIC}::test_last_reward_is_clipped",
    ),
    Variant(
        "IMPALA's core: reset after a last step",
        ACTOR_CRITIC,
        "step_type == StepType.FIRST",
        "step_type == StepType.LAST",
        f"{TEST_ACTOR_CRITIC}::test_only_a_first_step_resets_the_core",
    ),
    Variant(
        "instructions: output behind the padding",
        ENCODER,
        "tf.one_hot(length - 1, words.shape[-1])",
        "tf.one_hot(0 * length + words.shape[-1] - 1, words.shape[-1])",
        f"{TEST_ENCODER}::test_equals_a_loop_over_words",
    ),
    Variant(
        "instructions: output of the last word but one",
        ENCODER,
        "tf.one_hot(length - 1, words.shape[-1])",
        "tf.one_hot(length - 2, words.shape[-1])",
        f"{TEST_ENCODER}::test_equals_a_loop_over_words",
    ),
    Variant(
        "instructions: sum of all outputs",
        ENCODER,
        "is_last = tf.one_hot(length - 1, words.shape[-1])",
        "is_last = tf.sequence_mask(length, words.shape[-1], tf.float32)",
        f"{TEST_ENCODER}::test_equals_a_loop_over_words",
    ),
    Variant(
        "instructions: words without order",
        ENCODER,
        "begins = tf.zeros_like(words, tf.bool)",
        "begins = tf.ones_like(words, tf.bool)",
        f"{TEST_ENCODER}::test_the_order_of_words_matters",
    ),
    Variant(
        "instructions: an empty one is read",
        ENCODER,
        "tf.one_hot(length - 1, words.shape[-1])",
        "tf.one_hot(tf.maximum(length - 1, 0), words.shape[-1])",
        f"{TEST_ENCODER}::test_an_empty_instruction_is_zeros_and_padding_changes_nothing",
    ),
    Variant(
        "instructions: more runs than are encoded",
        ENCODER,
        "tf.reduce_max(run) < FEW",
        "tf.reduce_max(run) <= FEW",
        f"{TEST_ENCODER}::test_what_repeats_is_encoded_once",
    ),
    Variant(
        "instructions: a change of the first word alone",
        ENCODER,
        "tf.reduce_any(instruction[:, 1:] != instruction[:, :-1], axis=-1)",
        "(instruction[:, 1:] != instruction[:, :-1])[..., 0]",
        f"{TEST_ENCODER}::test_equals_a_loop_over_words",
    ),
    Variant(
        "instructions: the embedding learns nothing",
        ENCODER,
        "tf.gather(1.0 * self._embedding, words)",
        "tf.stop_gradient(tf.gather(1.0 * self._embedding, words))",
        f"{TEST_ENCODER}::test_the_gradient_is_that_of_every_step_encoded_alone",
        slow=True,
    ),
    Variant(
        "instructions: a sparse gradient",
        ENCODER,
        "1.0 * self._embedding",
        "self._embedding",
        f"{TEST_ENCODER}::test_the_gradient_is_that_of_every_step_encoded_alone",
        slow=True,
    ),
    Variant(
        "IMPALA's core: no instruction",
        ACTOR_CRITIC,
        "tf.concat([core_input, encoded], axis=-1)",
        "tf.concat([core_input, 0.0 * encoded], axis=-1)",
        f"{TEST_ACTOR_CRITIC}::test_an_instruction_reaches_every_later_step_of_its_episode_and_no_other",
    ),
    Variant(
        "window LSTM: reads before the window",
        LSTM,
        "gates = tf.where(inside, h_t @ w_x + bias, GATE_CLOSED_LOGIT)",
        "gates = h_t @ w_x + bias",
        f"{TEST_LSTM}::test_what_is_before_a_window_is_not_read",
    ),
    Variant(
        "window LSTM: forget bias of 0",
        LSTM,
        "np.repeat([0.0, 1.0, 0.0, 0.0], width)",
        "np.repeat([0.0, 0.0, 0.0, 0.0], width)",
        f"{TEST_LSTM}::test_shapes_and_types",
    ),
    Variant(
        "window LSTM: output gate before the cell",
        LSTM,
        "h = o * tf.tanh(c)\n        every_h",
        "h = o * c\n        every_h",
        f"{TEST_LSTM}::test_learning_and_acting_are_kerass_lstm",
    ),
]
