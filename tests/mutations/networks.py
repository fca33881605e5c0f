"""Wrong variants of the networks whose form a paper prescribes."""

from tests.mutations.variant import Variant

DUELING, STOCHASTIC = "repro/networks/q_network.py", "repro/networks/stochastic_dueling.py"
RECURRENT, RECURRENT_Q = "repro/networks/recurrent.py", "repro/networks/recurrent_q.py"
ACTOR_CRITIC, LSTM = "repro/networks/actor_critic.py", "repro/networks/lstm.py"
T_D, T_S = "tests/networks/test_q_network.py", "tests/networks/test_stochastic_dueling.py"
T_R, T_Q = "tests/networks/test_recurrent.py", "tests/networks/test_recurrent_q.py"
T_A, T_L = "tests/networks/test_actor_critic.py", "tests/networks/test_lstm.py"

VARIANTS = [
    Variant("dueling: advantages not centred", DUELING, "value + advantage - tf.reduce_mean(advantage, axis=-1, keepdims=True)", "value + advantage", T_D),
    Variant("dueling: largest advantage subtracted", DUELING, "tf.reduce_mean(advantage, axis=-1, keepdims=True)", "tf.reduce_max(advantage, axis=-1, keepdims=True)", T_D),
    Variant("dueling: mean over the batch", DUELING, "tf.reduce_mean(advantage, axis=-1, keepdims=True)", "tf.reduce_mean(advantage, axis=0, keepdims=True)", T_D),
    Variant("stochastic dueling: sum over the samples", STOCHASTIC, "tf.reduce_mean(found[:, count:], axis=1, keepdims=True)", "tf.reduce_sum(found[:, count:], axis=1, keepdims=True)", T_S),
    Variant("stochastic dueling: the actions among the samples", STOCHASTIC, "tf.reduce_mean(found[:, count:], axis=1, keepdims=True)", "tf.reduce_mean(found, axis=1, keepdims=True)", T_S),
    Variant("stochastic dueling: samples pass a gradient", STOCHASTIC, "tf.stop_gradient(tf.concat([actions, samples], axis=1))", "tf.concat([actions, samples], axis=1)", T_S),
    Variant("stochastic dueling: value passes no gradient", STOCHASTIC, "return value[:, tf.newaxis] + found", "return tf.stop_gradient(value[:, tf.newaxis]) + found", T_S),
    Variant("LSTM: no constant on the forget gate", RECURRENT, "tf.sigmoid(f + 1.0)", "tf.sigmoid(f)", T_R),
    Variant("LSTM: state kept over a first step", RECURRENT, "h, c = tf.where(keep_t, h, 0.0), tf.where(keep_t, c, 0.0)", "pass", T_R),
    Variant("LSTM: cell kept over a first step", RECURRENT, "tf.where(keep_t, h, 0.0), tf.where(keep_t, c, 0.0)", "tf.where(keep_t, h, 0.0), c", T_R),
    Variant("LSTM: gates in another order", RECURRENT, "i, g, f, o = tf.split", "i, f, g, o = tf.split", T_R),
    Variant("R2D2: gradient through the burn-in", RECURRENT_Q, "tf.nest.map_structure(tf.stop_gradient, state))", "state)", T_Q),
    Variant("R2D2: burn-in from the stored state", RECURRENT_Q, "        _, state = network(before, step_type[:, :burn_in], state)\n", "        network(before, step_type[:, :burn_in], state)\n", T_Q),
    Variant("R2D2: last action left out", RECURRENT_Q, 'tf.one_hot(observation["last_action"], self._num_actions)', '0.0 * tf.one_hot(observation["last_action"], self._num_actions)', T_Q),
    Variant("IMPALA's core: last reward not clipped", ACTOR_CRITIC, 'tf.clip_by_value(observation["last_reward"], -1.0, 1.0)', 'observation["last_reward"]', T_A),
    Variant("IMPALA's core: reset after a last step", ACTOR_CRITIC, "step_type == StepType.FIRST", "step_type == StepType.LAST", T_A),
    Variant("window LSTM: reads before the window", LSTM, "gates = tf.where(inside, h_t @ w_x + bias, SHUT)", "gates = h_t @ w_x + bias", T_L),
    Variant("window LSTM: forget bias of 0", LSTM, "np.repeat([0.0, 1.0, 0.0, 0.0], width)", "np.repeat([0.0, 0.0, 0.0, 0.0], width)", T_L),
    Variant("window LSTM: output gate before the cell", LSTM, "h = o * tf.tanh(c)\n        every_h", "h = o * c\n        every_h", T_L),
]
