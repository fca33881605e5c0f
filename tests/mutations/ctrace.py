"""Wrong variants of C-trace: targets, the update of alpha, the loss, the agent, exploration and priorities."""

from tests.mutations.variant import Variant

ALPHA, LOSS = "repro/papers/ctrace/alpha_update.py", "repro/papers/ctrace/dqn_loss.py"
TARGETS, AGENT = "repro/papers/ctrace/targets.py", "repro/papers/ctrace/agent.py"
EXPLORATION, POLICY = "repro/papers/ctrace/exploration.py", "repro/networks/epsilon_greedy_policy.py"
TRAINING = "repro/runtime/sequence_training.py"
T_A, T_L = "tests/papers/ctrace/test_alpha_update.py", "tests/papers/ctrace/test_dqn_loss.py"
T_G, T_S = "tests/papers/ctrace/test_agent.py", "tests/runtime/test_sequence_training.py"
T_P, T_X = "tests/networks/test_epsilon_greedy_policy.py", "tests/papers/ctrace/test_exploration.py"

VARIANTS = [
    Variant("alpha: N + 1 terms in the contraction estimate", ALPHA, "return 1.0 - (1.0 - gamma) * discounted_length", "return 1.0 - (1.0 - gamma) * (1.0 + gamma * discounted_length)", T_A),
    Variant("alpha: target of the whole sequence for every row", ALPHA, "tf.pow(gamma, num_steps)", "tf.pow(gamma, tf.reduce_max(num_steps, axis=0, keepdims=True) + tf.zeros_like(num_steps))", T_A),
    Variant("alpha: exponent of the contraction one too many", ALPHA, "tf.pow(gamma, num_steps)", "tf.pow(gamma, num_steps + 1.0)", T_A),
    Variant("alpha: the lower of target rate and lowest rate", ALPHA, "tf.maximum(target_rate, tf.pow(", "tf.minimum(target_rate, tf.pow(", T_A),
    Variant("alpha: ends ignored in the pieces", ALPHA, "goes_on = tf.not_equal(discount_t, 0.0) & ~boundary", "goes_on = ~boundary", T_A),
    Variant("alpha: boundary rows ignored in the pieces", ALPHA, "return ~boundary, goes_on & recursion.later(~boundary, 1)", "return ~boundary, goes_on", T_A),
    Variant("alpha: loss of the other sign", ALPHA, "return estimate - target", "return target - estimate", T_A),
    Variant("alpha: loss differentiates the estimate", ALPHA, "estimate, target = (tf.stop_gradient(tf.convert_to_tensor(x, tf.float32)) for x in (estimate, target))", "pass", T_A),
    Variant("alpha: loss not scaled by 1 / (1 - gamma)", ALPHA, "LOSS_SCALE / (1.0 - gamma) * ", "LOSS_SCALE * ", T_A),
    Variant("alpha: loss without its thousand", ALPHA, "LOSS_SCALE = 1000.0", "LOSS_SCALE = 1.0", T_A),
    Variant("alpha: trace not discounted", ALPHA, "gamma * c, reads_next)", "c, reads_next)", T_A),
    Variant("alpha: traces of Retrace, whatever alpha", ALPHA, "c = traces.alpha_retrace(log_rho, alpha)", "c = traces.retrace(log_rho) + 0.0 * alpha", T_A),
    Variant("alpha: printed step added", ALPHA, "return phi - step_size *", "return phi + step_size *", T_A),
    Variant("C-trace: mixture of pi alone", TARGETS, "traces.mixture(pi_t, mu_t, alpha)", "traces.mixture(pi_t, pi_t, alpha)", T_L),
    Variant("C-trace: pi and mu exchanged in the mixture", TARGETS, "traces.mixture(pi_t, mu_t, alpha)", "traces.mixture(mu_t, pi_t, alpha)", T_L),
    Variant("C-trace: Retrace's traces", TARGETS, "c_t=traces.alpha_retrace(log_rho_t, alpha)", "c_t=traces.retrace(log_rho_t)", T_L),
    Variant("C-trace: boundaries not given to the operator", TARGETS, "        q_t_a=q_t_a,\n        is_boundary=is_boundary,", "        q_t_a=q_t_a,\n        is_boundary=None,", T_L),
    Variant("C-trace: n-step under mu", TARGETS, "expected_q_t = traces.expected_value(q_t, pi_t)", "expected_q_t = traces.expected_value(q_t, sequences.mu_t)", T_L),
    Variant("C-trace: Double DQN of n steps", TARGETS, "return n_step(sequences, gamma, 1)", "return n_step(sequences, gamma, n)", T_L),
    Variant("C-trace: Retrace with alpha", TARGETS, "return alpha_retrace(sequences, gamma, 1.0)", "return alpha_retrace(sequences, gamma, alpha)", T_L),
    Variant("C-trace: exploration of 1 + epsilon", TARGETS, "(1.0 - epsilon) * tf.one_hot(greedy_actions, num_actions)", "tf.one_hot(greedy_actions, num_actions)", T_L),
    Variant("C-trace: greedy action does not explore", TARGETS, "+ epsilon / num_actions", "+ (1.0 - tf.one_hot(greedy_actions, num_actions)) * epsilon / (num_actions - 1)", T_L),
    Variant("C-trace: selection by the target network", LOSS, "targets.greedy(q[1:])", "targets.greedy(target_q[1:])", T_L),
    Variant("C-trace: values of the online network", LOSS, "q_t = target_q[1:]  # [T, B, A]", "q_t = tf.stop_gradient(q[1:])  # [T, B, A]", T_L),
    Variant("C-trace: mu of the state before", LOSS, "behaviour[1:]  # [T, B, A]", "behaviour[:-1]  # [T, B, A]", T_L),
    Variant("C-trace: action of the same row", LOSS, "a_t = recursion.later(actions, 1)", "a_t = actions", T_L),
    Variant("C-trace: values not taken back from h", LOSS, "q_t = value_rescaling.inverse_rescale(q_t, epsilon=settings.rescaling)", "pass", T_L),
    Variant("C-trace: target not rescaled", LOSS, "target = value_rescaling.rescale(target, epsilon=settings.rescaling)", "pass", T_L),
    Variant("C-trace: error not clipped", LOSS, "inner = tf.minimum(size, clip)", "inner = tf.minimum(size, 1e30 * clip)", T_L),
    Variant("C-trace: Huber without its offset", LOSS, "inner * (size - 0.5 * inner)", "inner * size", T_L),
    Variant("C-trace: boundary rows learn", LOSS, "td_error = tf.where(is_boundary, 0.0, target - q_a)", "td_error = target - q_a", T_L),
    Variant("C-trace: gradient through the target", LOSS, "td_error = tf.where(is_boundary, 0.0, target - q_a)", "td_error = tf.where(is_boundary, 0.0, target + 0.1 * tf.reduce_max(q[1:], -1) - tf.stop_gradient(0.1 * tf.reduce_max(q[1:], -1)) - q_a)", T_L),
    Variant("C-trace: alpha learned by every method", AGENT, 'if settings.method != "c_trace":', "if False:", T_G),
    Variant("C-trace: target network copied one update late", AGENT, "self.train_step_counter % self._learning.target_period == 0", "self.train_step_counter % self._learning.target_period == 1", T_G),
    Variant("C-trace: target network copied in every update", AGENT, "self.train_step_counter % self._learning.target_period == 0", "self.train_step_counter > 0", T_G),
    Variant("C-trace: priority of the mean alone", AGENT, "eta * tf.reduce_max(size, axis=0) + (1.0 - eta) * mean", "mean", T_G),
    Variant("C-trace: eta of the mean", AGENT, "eta * tf.reduce_max(size, axis=0) + (1.0 - eta) * mean", "(1.0 - eta) * tf.reduce_max(size, axis=0) + eta * mean", T_G),
    Variant("C-trace: importance weights not read", AGENT, "per_sequence if weights is None else weights * per_sequence", "per_sequence", T_G),
    Variant("C-trace: gamma missing", AGENT, "discount_t = settings.discount * data.discount[:-1]", "discount_t = data.discount[:-1]", T_G),
    Variant("C-trace: alpha fixed at 0.9", AGENT, "alpha=tf.sigmoid(tf.stop_gradient(self._phi))", "alpha=0.9", T_G),
    Variant("C-trace: burn-in rows are learned from", AGENT, "lambda x: time_major(x[:, learning.burn_in :])", "lambda x: time_major(x[:, : x.shape[1] - learning.burn_in])", T_G),
    Variant("C-trace: sum over the batch", AGENT, "weights * per_sequence) / batch", "weights * per_sequence) + 0.0 * batch", T_G),
    Variant("C-trace: importance weights of the other direction", TRAINING, "(sample.size * sample.probabilities) ** -beta", "(sample.size * sample.probabilities) ** beta", T_S),
    Variant("C-trace: importance weights not normalised", TRAINING, "weights = (weights / weights.max()).astype(np.float32)", "weights = weights.astype(np.float32)", T_S),
    Variant("C-trace: importance exponent not read", TRAINING, "(sample.size * sample.probabilities) ** -beta", "(sample.size * sample.probabilities) ** -1.0", T_S),
    Variant("C-trace: priorities not written", TRAINING, "self._replay.set_priorities(sample.keys, priorities)", "pass", T_S),
    Variant("C-trace: learns before the first frames", TRAINING, "if frames > self._settings.first_frames and", "if", T_S),
    Variant("epsilon: goes on below its last value", EXPLORATION, "min(frames / self._frames, 1.0)", "frames / self._frames", T_X),
    Variant("epsilon: from last to first", EXPLORATION, "self._first + share * (self._last - self._first)", "self._last + share * (self._first - self._last)", T_X),
    Variant("epsilon: does not fall", EXPLORATION, "self._first + share * (self._last - self._first)", "self._first", T_X),
    Variant("epsilon-greedy: explores where it should not", POLICY, "tf.where(uniform[0] < epsilon, any_action, greedy)", "tf.where(uniform[0] > epsilon, any_action, greedy)", T_P),
    Variant("epsilon-greedy: one number decides both", POLICY, "tf.cast(uniform[1] * scores", "tf.cast(uniform[0] * scores", T_P),
    Variant("epsilon-greedy: stores the action as the greedy one", POLICY, '{"greedy_action": greedy,', '{"greedy_action": action,', T_P),
    Variant("epsilon-greedy: exponents of Ape-X over N", POLICY, "max(count - 1, 1)", "count", T_P),
]
