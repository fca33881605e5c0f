"""Wrong variants of the networks whose form a paper prescribes."""

from tests.mutations.variant import Variant

DUELING = "repro/networks/q_network.py"
STOCHASTIC = "repro/networks/stochastic_dueling.py"
RECURRENT = "repro/networks/recurrent.py"
RECURRENT_Q = "repro/networks/recurrent_q.py"
ACTOR_CRITIC = "repro/networks/actor_critic.py"
LSTM = "repro/networks/lstm.py"
TEST_Q_NETWORK = "tests/networks/test_q_network.py"
TEST_STOCHASTIC_DUELING = "tests/networks/test_stochastic_dueling.py"
TEST_RECURRENT = "tests/networks/test_recurrent.py"
TEST_RECURRENT_Q = "tests/networks/test_recurrent_q.py"
TEST_ACTOR_CRITIC = "tests/networks/test_actor_critic.py"
TEST_LSTM = "tests/networks/test_lstm.py"

VARIANTS = [
    Variant(
        "dueling: advantages not centred",
        DUELING,
        "value + advantage - tf.reduce_mean(advantage, axis=-1, keepdims=True)",
        "value + advantage",
        TEST_Q_NETWORK,
    ),
    Variant(
        "dueling: largest advantage subtracted",
        DUELING,
        "tf.reduce_mean(advantage, axis=-1, keepdims=True)",
        "tf.reduce_max(advantage, axis=-1, keepdims=True)",
        TEST_Q_NETWORK,
    ),
    Variant(
        "dueling: mean over the batch",
        DUELING,
        "tf.reduce_mean(advantage, axis=-1, keepdims=True)",
        "tf.reduce_mean(advantage, axis=0, keepdims=True)",
        TEST_Q_NETWORK,
    ),
    Variant(
        "stochastic dueling: sum over the samples",
        STOCHASTIC,
        "tf.reduce_mean(found[:, count:], axis=1, keepdims=True)",
        "tf.reduce_sum(found[:, count:], axis=1, keepdims=True)",
        TEST_STOCHASTIC_DUELING,
    ),
    Variant(
        "stochastic dueling: the actions among the samples",
        STOCHASTIC,
        "tf.reduce_mean(found[:, count:], axis=1, keepdims=True)",
        "tf.reduce_mean(found, axis=1, keepdims=True)",
        TEST_STOCHASTIC_DUELING,
    ),
    Variant(
        "stochastic dueling: samples pass a gradient",
        STOCHASTIC,
        "tf.stop_gradient(tf.concat([actions, samples], axis=1))",
        "tf.concat([actions, samples], axis=1)",
        TEST_STOCHASTIC_DUELING,
    ),
    Variant(
        "stochastic dueling: value passes no gradient",
        STOCHASTIC,
        "return value[:, tf.newaxis] + found",
        "return tf.stop_gradient(value[:, tf.newaxis]) + found",
        TEST_STOCHASTIC_DUELING,
    ),
    Variant(
        "LSTM: no constant on the forget gate",
        RECURRENT,
        "tf.sigmoid(f + 1.0)",
        "tf.sigmoid(f)",
        TEST_RECURRENT,
    ),
    Variant(
        "LSTM: state kept over a first step",
        RECURRENT,
        "h, c = tf.where(keep_t, h, 0.0), tf.where(keep_t, c, 0.0)",
        "pass",
        TEST_RECURRENT,
    ),
    Variant(
        "LSTM: cell kept over a first step",
        RECURRENT,
        "tf.where(keep_t, h, 0.0), tf.where(keep_t, c, 0.0)",
        "tf.where(keep_t, h, 0.0), c",
        TEST_RECURRENT,
    ),
    Variant(
        "LSTM: gates in another order",
        RECURRENT,
        "i, g, f, o = tf.split",
        "i, f, g, o = tf.split",
        TEST_RECURRENT,
    ),
    Variant(
        "R2D2: gradient through the burn-in",
        RECURRENT_Q,
        "tf.nest.map_structure(tf.stop_gradient, state))",
        "state)",
        TEST_RECURRENT_Q,
    ),
    Variant(
        "R2D2: burn-in from the stored state",
        RECURRENT_Q,
        "        _, state = network(before, step_type[:, :burn_in], state)\n",
        "        network(before, step_type[:, :burn_in], state)\n",
        TEST_RECURRENT_Q,
    ),
    Variant(
        "R2D2: last action left out",
        RECURRENT_Q,
        'tf.one_hot(observation["last_action"], self._num_actions)',
        '0.0 * tf.one_hot(observation["last_action"], self._num_actions)',
        TEST_RECURRENT_Q,
    ),
    Variant(
        "IMPALA's core: last reward not clipped",
        ACTOR_CRITIC,
        'tf.clip_by_value(observation["last_reward"], -1.0, 1.0)',
        'observation["last_reward"]',
        TEST_ACTOR_CRITIC,
    ),
    Variant(
        "IMPALA's core: reset after a last step",
        ACTOR_CRITIC,
        "step_type == StepType.FIRST",
        "step_type == StepType.LAST",
        TEST_ACTOR_CRITIC,
    ),
    Variant(
        "window LSTM: reads before the window",
        LSTM,
        "gates = tf.where(inside, h_t @ w_x + bias, SHUT)",
        "gates = h_t @ w_x + bias",
        TEST_LSTM,
    ),
    Variant(
        "window LSTM: forget bias of 0",
        LSTM,
        "np.repeat([0.0, 1.0, 0.0, 0.0], width)",
        "np.repeat([0.0, 0.0, 0.0, 0.0], width)",
        TEST_LSTM,
    ),
    Variant(
        "window LSTM: output gate before the cell",
        LSTM,
        "h = o * tf.tanh(c)\n        every_h",
        "h = o * c\n        every_h",
        TEST_LSTM,
    ),
]
