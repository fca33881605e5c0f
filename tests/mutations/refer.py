"""Wrong variants of ReF-ER: its rules, beta, the losses of V-RACER, DDPG and NAF, advantages, exploration, PPO."""

from tests.mutations.variant import Variant

RULES = "repro/papers/refer/refer_rules.py"
BETA = "repro/papers/refer/beta_update.py"
LOSS = "repro/papers/refer/loss.py"
ADVANTAGES = "repro/papers/refer/advantages.py"
EXPLORATION = "repro/papers/refer/exploration.py"
GAE = "repro/papers/refer/ppo_advantages.py"
PPO = "repro/papers/refer/ppo.py"
PPO_LOSS = "repro/papers/refer/ppo_loss.py"
PRIORITISED = "repro/papers/refer/prioritised.py"
DDPG = "repro/papers/refer/ddpg.py"
NAF = "repro/papers/refer/naf.py"
VRACER = "repro/papers/refer/vracer.py"
TRAINING = "repro/papers/refer/training.py"
CONTROL_TRAINER = "repro/papers/refer/control_trainer.py"
FUSED = "repro/papers/refer/fused.py"
TEST_PPO_TRAINING = "tests/papers/refer/test_ppo_training.py"
EXPERIMENT = "repro/papers/refer/experiment.py"
CLOSED_FORM = "repro/papers/refer/closed_form.py"
TEST_CLOSED_FORM = "tests/papers/refer/test_closed_form.py"
TEST_REFER_RULES = "tests/papers/refer/test_refer_rules.py"
TEST_BETA_UPDATE = "tests/papers/refer/test_beta_update.py"
TEST_LOSS = "tests/papers/refer/test_loss.py"
TEST_ADVANTAGES = "tests/papers/refer/test_advantages.py"
TEST_EXPLORATION = "tests/papers/refer/test_exploration.py"
TEST_PPO = "tests/papers/refer/test_ppo.py"
TEST_PPO_ADVANTAGES = "tests/papers/refer/test_ppo_advantages.py"
TEST_PPO_LOSS = "tests/papers/refer/test_ppo_loss.py"
TEST_PRIORITISED = "tests/papers/refer/test_prioritised.py"
TEST_FUSED = "tests/papers/refer/test_fused.py"
TEST_DDPG = "tests/papers/refer/test_ddpg.py"
TEST_NAF = "tests/papers/refer/test_naf.py"
TEST_VRACER = "tests/papers/refer/test_vracer.py"
TEST_TRAINING = "tests/papers/refer/test_training.py"

VARIANTS = [
    Variant(
        "ReF-ER: with overlap actions and minibatches share an rng",
        TRAINING,
        "rng.spawn(1)[0] if settings.overlap else rng",
        "rng",
        f"{TEST_TRAINING}::test_with_overlap_what_is_done_at_the_same_time_does_not_meet",
        slow=True,
    ),
    Variant(
        "ReF-ER: gradient steps that fail leave an environment that is stepped",
        TRAINING,
        "finally:\n            failure = playing.exception()",
        "finally:\n            failure = None",
        f"{TEST_TRAINING}::test_gradient_steps_that_fail_leave_no_environment_that_is_stepped",
    ),
    Variant(
        "ReF-ER: a resume forgets which minibatches follow",
        TRAINING,
        "if self._settings.overlap:\n            unpack_rng",
        "if not self._settings:\n            unpack_rng",
        f"{TEST_TRAINING}::test_resumed_run_continues_bit_identically",
    ),
    Variant(
        "ReF-ER: Rule 1 inverted",
        RULES,
        "tf.where(near_policy(rho, c_max), loss, tf.zeros_like(loss))",
        "tf.where(near_policy(rho, c_max), tf.zeros_like(loss), loss)",
        f"{TEST_REFER_RULES}::test_values_and_gradients_of_each_rule",
    ),
    Variant(
        "ReF-ER: Rule 1 without its lower bound",
        RULES,
        "return (rho > 1.0 / c_max) & (rho < c_max)",
        "return rho < c_max",
        f"{TEST_REFER_RULES}::test_near_policy_excludes_both_bounds_and_what_is_not_finite",
    ),
    Variant(
        "ReF-ER: bounds are near-policy",
        RULES,
        "return (rho > 1.0 / c_max) & (rho < c_max)",
        "return (rho >= 1.0 / c_max) & (rho <= c_max)",
        f"{TEST_REFER_RULES}::test_near_policy_excludes_both_bounds_and_what_is_not_finite",
    ),
    Variant(
        "ReF-ER: Rule 1 skips the penalty, too",
        RULES,
        "task, penalty = beta * task, (1.0 - beta) * kl",
        "task, penalty = beta * task, tf.where(near_policy(rho, c_max), (1.0 - beta) * kl, 0.0)",
        f"{TEST_REFER_RULES}::test_values_and_gradients_of_each_rule",
    ),
    Variant(
        "ReF-ER: beta and 1 - beta exchanged",
        RULES,
        "task, penalty = beta * task, (1.0 - beta) * kl",
        "task, penalty = (1.0 - beta) * task, beta * kl",
        f"{TEST_REFER_RULES}::test_values_and_gradients_of_each_rule",
    ),
    Variant(
        "ReF-ER: the loss not weighted by beta",
        RULES,
        "task, penalty = beta * task, (1.0 - beta) * kl",
        "penalty = (1.0 - beta) * kl",
        f"{TEST_REFER_RULES}::test_values_and_gradients_of_each_rule",
    ),
    Variant(
        "ReF-ER: printed sign of the penalty",
        RULES,
        "task, penalty = beta * task, (1.0 - beta) * kl",
        "task, penalty = beta * task, -(1.0 - beta) * kl",
        f"{TEST_REFER_RULES}::test_values_and_gradients_of_each_rule",
    ),
    Variant(
        "ReF-ER: ReF-ER-1 has both rules",
        RULES,
        '"refer_1": (True,  False)',
        '"refer_1": (True,  True)',
        f"{TEST_REFER_RULES}::test_values_and_gradients_of_each_rule",
    ),
    Variant(
        "ReF-ER: ReF-ER-2 has both rules",
        RULES,
        '"refer_2": (False, True)',
        '"refer_2": (True, True)',
        f"{TEST_REFER_RULES}::test_values_and_gradients_of_each_rule",
    ),
    Variant(
        "ReF-ER: ReF-ER-2 does not clip its weights",
        RULES,
        "REFER_2_CLIP = 1e3",
        "REFER_2_CLIP = 1e6",
        f"{TEST_REFER_RULES}::test_refer_2_cuts_its_weights_at_a_thousand",
    ),
    Variant(
        "ReF-ER: ratios pass a gradient",
        RULES,
        "return tf.stop_gradient(tf.exp(tf.clip_by_value(log_rho, -max_log_ratio, max_log_ratio)))",
        "return tf.exp(tf.clip_by_value(log_rho, -max_log_ratio, max_log_ratio))",
        f"{TEST_REFER_RULES}::test_importance_ratios_are_cut_at_both_ends",
    ),
    Variant(
        "ReF-ER: ratios not cut from below",
        RULES,
        "tf.clip_by_value(log_rho, -max_log_ratio, max_log_ratio)",
        "tf.minimum(log_rho, max_log_ratio)",
        f"{TEST_REFER_RULES}::test_importance_ratios_are_cut_at_both_ends",
    ),
    Variant(
        "ReF-ER: beta passes a gradient",
        RULES,
        "beta, c_max = (tf.stop_gradient(tf.cast(x, loss.dtype)) for x in (beta, c_max))",
        "beta, c_max = (tf.cast(x, loss.dtype) for x in (beta, c_max))",
        f"{TEST_REFER_RULES}::test_values_and_gradients_of_each_rule",
    ),
    Variant(
        "ReF-ER: c_max anneals to 0",
        RULES,
        "return 1.0 + c / (1.0 + annealing * step)",
        "return (1.0 + c) / (1.0 + annealing * step)",
        f"{TEST_REFER_RULES}::test_annealing_by_hand",
    ),
    Variant(
        "ReF-ER: c_max anneals in no time",
        RULES,
        "return 1.0 + c / (1.0 + annealing * step)",
        "return 1.0 + c / (1.0 + annealing) ** step",
        f"{TEST_REFER_RULES}::test_annealing_by_hand",
    ),
    Variant(
        "ReF-ER: c_max does not anneal",
        RULES,
        "return 1.0 + c / (1.0 + annealing * step)",
        "return 1.0 + c + 0.0 * annealing * step",
        f"{TEST_REFER_RULES}::test_annealing_by_hand",
    ),
    Variant(
        "ReF-ER: learning rate does not anneal",
        RULES,
        "return learning_rate / (1.0 + annealing * step)",
        "return learning_rate + 0.0 * annealing * step",
        f"{TEST_REFER_RULES}::test_annealing_by_hand",
    ),
    Variant(
        "ReF-ER: beta moves the other way",
        BETA,
        "num_far_policy / num_samples > max_fraction",
        "num_far_policy / num_samples <= max_fraction",
        f"{TEST_BETA_UPDATE}::test_by_hand",
    ),
    Variant(
        "ReF-ER: beta falls at a share of exactly D",
        BETA,
        "num_far_policy / num_samples > max_fraction",
        "num_far_policy / num_samples >= max_fraction",
        f"{TEST_BETA_UPDATE}::test_a_share_of_exactly_d_is_the_other_case",
    ),
    Variant(
        "ReF-ER: beta rises by addition",
        BETA,
        "else shrunk + step_size",
        "else beta + step_size",
        f"{TEST_BETA_UPDATE}::test_by_hand",
    ),
    Variant(
        "ReF-ER: beta falls by subtraction",
        BETA,
        "shrunk = (1.0 - step_size) * beta",
        "shrunk = beta - step_size",
        f"{TEST_BETA_UPDATE}::test_by_hand",
    ),
    Variant(
        "V-RACER: policy climbs down",
        LOSS,
        "return -tf.stop_gradient(rho * (q_ret - v)) * log_pi",
        "return tf.stop_gradient(rho * (q_ret - v)) * log_pi",
        f"{TEST_LOSS}::test_off_policy_gradient_is_that_of_equation_5",
    ),
    Variant(
        "V-RACER: gradient not weighted by rho",
        LOSS,
        "return -tf.stop_gradient(rho * (q_ret - v)) * log_pi",
        "return -tf.stop_gradient(q_ret - v) * log_pi",
        f"{TEST_LOSS}::test_off_policy_gradient_is_that_of_equation_5",
    ),
    Variant(
        "V-RACER: no baseline",
        LOSS,
        "return -tf.stop_gradient(rho * (q_ret - v)) * log_pi",
        "return -tf.stop_gradient(rho * q_ret) * log_pi",
        f"{TEST_LOSS}::test_off_policy_gradient_is_that_of_equation_5",
    ),
    Variant(
        "V-RACER: advantage moves the value",
        LOSS,
        "return -tf.stop_gradient(rho * (q_ret - v)) * log_pi",
        "return -rho * (q_ret - v) * log_pi",
        f"{TEST_LOSS}::test_off_policy_gradient_is_that_of_equation_5",
    ),
    Variant(
        "V-RACER: square of the value not halved",
        LOSS,
        "return 0.5 * tf.square(v - tf.stop_gradient(v_tbc))",
        "return tf.square(v - tf.stop_gradient(v_tbc))",
        f"{TEST_LOSS}::test_value_and_advantage_losses_by_hand",
    ),
    Variant(
        "V-RACER: weight of the advantage not squared",
        LOSS,
        "return 0.5 * tf.square(rho * (action_advantage + v - q_ret))",
        "return 0.5 * rho * tf.square(action_advantage + v - q_ret)",
        f"{TEST_LOSS}::test_value_and_advantage_losses_by_hand",
    ),
    Variant(
        "V-RACER: KL(pi || mu)",
        LOSS,
        "kl = gaussian.kl(policies.behaviour_mean, policies.behaviour_std, policies.mean, "
        "policies.std)\n"
        "    action_advantage",
        "kl = gaussian.kl(policies.mean, policies.std, policies.behaviour_mean, "
        "policies.behaviour_std)\n"
        "    action_advantage",
        f"{TEST_LOSS}::test_vracer_under_each_rule",
    ),
    Variant(
        "DDPG and NAF: KL(pi || mu)",
        LOSS,
        "    rho = tf.stop_gradient(tf.exp(gaussian.log_ratio(*policies, action)))\n"
        "    kl = gaussian.kl(policies.behaviour_mean, policies.behaviour_std, policies.mean, "
        "policies.std)",
        "    rho = tf.stop_gradient(tf.exp(gaussian.log_ratio(*policies, action)))\n"
        "    kl = gaussian.kl(policies.mean, policies.std, policies.behaviour_mean, "
        "policies.behaviour_std)",
        f"{TEST_LOSS}::test_ddpg_under_each_rule",
    ),
    Variant(
        "V-RACER: Rule 1 spares the value",
        LOSS,
        "refer_rules.refer_loss(policy + value + fitted, ",
        "refer_rules.refer_loss(policy + fitted, ",
        f"{TEST_LOSS}::test_vracer_under_each_rule",
    ),
    Variant(
        "V-RACER: stored ratios are clipped",
        LOSS,
        "return VRacerLoss(total, policy, value, fitted, rho, ",
        "return VRacerLoss(total, policy, value, fitted, tf.minimum(rho, 2.0), ",
        f"{TEST_VRACER}::test_ratios_and_values_are_those_before_the_step",
    ),
    Variant(
        "DDPG: policy climbs down",
        LOSS,
        "refer_rules.refer_loss(-q_of_mean, kl,",
        "refer_rules.refer_loss(q_of_mean, kl,",
        f"{TEST_LOSS}::test_ddpg_under_each_rule",
    ),
    Variant(
        "DDPG: critic under beta",
        LOSS,
        "critic = refer_rules.rule_1(0.5 * tf.square(td_error), rho, c_max, rule)",
        "critic = beta * refer_rules.rule_1(0.5 * tf.square(td_error), rho, c_max, rule)",
        f"{TEST_LOSS}::test_ddpg_under_each_rule",
        slow=True,
    ),
    Variant(
        "DDPG: critic without Rule 1",
        LOSS,
        "critic = refer_rules.rule_1(0.5 * tf.square(td_error), rho, c_max, rule)",
        "critic = 0.5 * tf.square(td_error)",
        f"{TEST_LOSS}::test_ddpg_under_each_rule",
        slow=True,
    ),
    Variant(
        "DDPG and NAF: target passes a gradient",
        LOSS,
        "return tf.stop_gradient(r + discount * tf.where(goes_on, next_value, tf.zeros_like(next_value)))",
        "return r + discount * tf.where(goes_on, next_value, tf.zeros_like(next_value))",
        f"{TEST_LOSS}::test_ddpg_under_each_rule",
        slow=True,
    ),
    Variant(
        "DDPG and NAF: bootstrap past the end",
        LOSS,
        "discount * tf.where(goes_on, next_value, tf.zeros_like(next_value))",
        "discount * next_value",
        f"{TEST_LOSS}::test_targets_end_with_the_episode",
    ),
    Variant(
        "NAF: with a factor of 1/2",
        LOSS,
        "return v - tf.reduce_sum(tf.square(lower",
        "return v - 0.5 * tf.reduce_sum(tf.square(lower",
        f"{TEST_LOSS}::test_naf_value_by_hand",
        slow=True,
    ),
    Variant(
        "NAF: largest away from the mean",
        LOSS,
        "return v - tf.reduce_sum(tf.square(lower",
        "return v + tf.reduce_sum(tf.square(lower",
        f"{TEST_LOSS}::test_naf_value_by_hand",
        slow=True,
    ),
    Variant(
        "advantages: expectation as printed",
        ADVANTAGES,
        "expected = -0.5 * lower.trace(variance)",
        "expected = lower.trace(variance)",
        f"{TEST_ADVANTAGES}::test_f_minus_its_expectation_by_sampling",
    ),
    Variant(
        "advantages: expectation left out",
        ADVANTAGES,
        "return f - expected",
        "return f + 0.0 * expected",
        f"{TEST_ADVANTAGES}::test_f_minus_its_expectation_by_sampling",
    ),
    Variant(
        "advantages: diagonal may be negative",
        ADVANTAGES,
        "self._diagonal = tf.nn.softplus(entries @ (one_hot[rows] * one_hot[columns]))",
        "self._diagonal = entries @ (one_hot[rows] * one_hot[columns])",
        f"{TEST_ADVANTAGES}::test_f_minus_its_expectation_by_sampling",
    ),
    Variant(
        "advantages: L in place of its transpose",
        ADVANTAGES,
        "(self._below * (u @ self._by_row)) @ self._by_column",
        "(self._below * (u @ tf.transpose(self._by_column))) @ tf.transpose(self._by_row)",
        f"{TEST_ADVANTAGES}::test_f_minus_its_expectation_by_sampling",
    ),
    Variant(
        "advantages: sides of the Gaussian exchanged",
        ADVANTAGES,
        "width = tf.where(u > 0.0, above, below)",
        "width = tf.where(u > 0.0, below, above)",
        f"{TEST_ADVANTAGES}::test_f_minus_its_expectation_by_sampling",
    ),
    Variant(
        "advantages: std for the variance",
        ADVANTAGES,
        "variance = tf.square(std) + tf.zeros_like(mean)",
        "variance = std + tf.zeros_like(mean)",
        f"{TEST_ADVANTAGES}::test_f_minus_its_expectation_by_sampling",
    ),
    Variant(
        "advantages: gradient to the mean",
        ADVANTAGES,
        "action, mean, std = (tf.stop_gradient(tf.convert_to_tensor(x)) for x in (action, mean, std))",
        "action, mean, std = (tf.convert_to_tensor(x) for x in (action, mean, std))",
        f"{TEST_ADVANTAGES}::test_gradients_reach_the_coefficients_alone",
    ),
    Variant(
        "Ornstein-Uhlenbeck: theta of the past",
        EXPLORATION,
        "(1.0 - theta) * last_noise",
        "theta * last_noise",
        f"{TEST_EXPLORATION}::test_the_process_has_its_std_and_memory",
    ),
    Variant(
        "Ornstein-Uhlenbeck: independent noise",
        EXPLORATION,
        "mean + (1.0 - theta) * last_noise",
        "mean + 0.0 * last_noise",
        f"{TEST_EXPLORATION}::test_the_process_has_its_std_and_memory",
    ),
    Variant(
        "Ornstein-Uhlenbeck: noise of the wrong size",
        EXPLORATION,
        "sample_truncated(rng, centre, std)",
        "sample_truncated(rng, centre, theta * std)",
        f"{TEST_EXPLORATION}::test_the_process_has_its_std_and_memory",
    ),
    Variant(
        "Ornstein-Uhlenbeck: normal numbers not truncated",
        EXPLORATION,
        "return gaussian.sample_truncated(rng, centre, std)",
        "return (centre + std * rng.standard_normal(mean.shape)).astype(mean.dtype)",
        f"{TEST_EXPLORATION}::test_what_enters_the_process_is_truncated_at_three_stds",
    ),
    Variant(
        "ReF-ER: an episode too many before learning",
        TRAINING,
        "while self._memory.num_seen < self._settings.start_steps:",
        "while self._memory.num_seen <= self._settings.start_steps:",
        f"{TEST_TRAINING}::test_learning_begins_with_the_episode_that_completes_n_start_steps",
        slow=True,
    ),
    Variant(
        "PPO: the larger of both objectives",
        PPO_LOSS,
        "-tf.minimum(",
        "-tf.maximum(",
        f"{TEST_PPO_LOSS}::test_the_surrogate_by_hand",
    ),
    Variant(
        "PPO: the objective is clipped on both sides",
        PPO_LOSS,
        "-tf.minimum(rho * advantage, tf.clip_by_value(rho, 1.0 - clip, 1.0 + clip) * advantage)",
        "-tf.clip_by_value(rho, 1.0 - clip, 1.0 + clip) * advantage",
        f"{TEST_PPO_LOSS}::test_loss_and_gradients_are_those_of_tf_agents",
    ),
    Variant(
        "PPO: no clip from below",
        PPO_LOSS,
        "tf.clip_by_value(rho, 1.0 - clip, 1.0 + clip)",
        "tf.minimum(rho, 1.0 + clip)",
        f"{TEST_PPO_LOSS}::test_the_surrogate_by_hand",
    ),
    Variant(
        "PPO: the objective is minimised",
        PPO_LOSS,
        "return -tf.minimum(",
        "return tf.minimum(",
        f"{TEST_PPO_LOSS}::test_loss_and_gradients_are_those_of_tf_agents",
    ),
    Variant(
        "PPO: advantages receive gradient",
        PPO_LOSS,
        "advantage = tf.stop_gradient(advantage)",
        "advantage = tf.identity(advantage)",
        f"{TEST_PPO_LOSS}::test_who_receives_gradient",
    ),
    Variant(
        "PPO: advantages as they are",
        PPO_LOSS,
        "standardise(advantage), clip",
        "advantage, clip",
        f"{TEST_PPO_LOSS}::test_loss_and_gradients_are_those_of_tf_agents",
    ),
    Variant(
        "PPO: advantages keep their mean",
        PPO_LOSS,
        "(advantage - mean) * tf.math.rsqrt",
        "advantage * tf.math.rsqrt",
        f"{TEST_PPO_LOSS}::test_losses_of_each_step",
    ),
    Variant(
        "PPO: advantages divided by their variance",
        PPO_LOSS,
        "tf.math.rsqrt(variance + VARIANCE_EPSILON)",
        "1.0 / (variance + VARIANCE_EPSILON)",
        f"{TEST_PPO_LOSS}::test_advantages_of_a_minibatch_have_mean_0_and_variance_1",
    ),
    Variant(
        "PPO: clipped from above alone is counted",
        PPO_LOSS,
        "clipped = tf.abs(rho - 1.0) > clip",
        "clipped = rho - 1.0 > clip",
        f"{TEST_PPO_LOSS}::test_losses_of_each_step",
    ),
    Variant(
        "PPO: the divergence the other way",
        PPO_LOSS,
        "gaussian.kl(policies.behaviour_mean, policies.behaviour_std, policies.mean, policies.std)",
        "gaussian.kl(policies.mean, policies.std, policies.behaviour_mean, policies.behaviour_std)",
        f"{TEST_PPO_LOSS}::test_losses_of_each_step",
    ),
    Variant(
        "PPO: one learning rate for both networks",
        PPO,
        "self._value_optimizer.learning_rate.assign(np.float32(value_learning_rate))",
        "self._value_optimizer.learning_rate.assign(np.float32(policy_learning_rate))",
        f"{TEST_PPO}::test_each_network_has_its_own_learning_rate",
    ),
    Variant(
        "PPO: rewards as they are",
        PPO,
        "rollout.reward / scale",
        "rollout.reward",
        f"{TEST_PPO}::test_rewards_count_in_units_of_their_root_mean_square",
    ),
    Variant(
        "GAE: bootstraps after a fall",
        GAE,
        "tf.where(terminated, 0.0, next_value)",
        "next_value",
        f"{TEST_PPO_ADVANTAGES}::test_it_is_the_sum_over_the_rest_of_the_episode",
    ),
    Variant(
        "GAE: a time limit counts as a fall",
        GAE,
        "tf.where(terminated, 0.0, next_value)",
        "tf.where(last, 0.0, next_value)",
        f"{TEST_PPO_ADVANTAGES}::test_it_is_the_sum_over_the_rest_of_the_episode",
    ),
    Variant(
        "GAE: lambda missing",
        GAE,
        "discount * lambda_)",
        "discount)",
        f"{TEST_PPO_ADVANTAGES}::test_it_is_the_sum_over_the_rest_of_the_episode",
    ),
    Variant(
        "GAE: gamma missing in the trace",
        GAE,
        "tf.fill(tf.shape(delta), discount * lambda_)",
        "tf.fill(tf.shape(delta), lambda_)",
        f"{TEST_PPO_ADVANTAGES}::test_it_is_the_sum_over_the_rest_of_the_episode",
    ),
    Variant(
        "GAE: sums over the end of an episode",
        GAE,
        "decay, ~last)",
        "decay, tf.ones_like(last))",
        f"{TEST_PPO_ADVANTAGES}::test_it_is_the_sum_over_the_rest_of_the_episode",
    ),
    Variant(
        "PER: exponent falls",
        PRIORITISED,
        "settings.initial_beta + (1.0 - settings.initial_beta) *",
        "settings.initial_beta - settings.initial_beta *",
        f"{TEST_PRIORITISED}::test_exponents_reach_1_and_stay",
    ),
    Variant(
        "PER: one minibatch for every gradient step",
        PRIORITISED,
        "importance_exponent(step, settings))",
        "importance_exponent(steps[0], settings))",
        f"{TEST_PRIORITISED}::test_minibatches_of_one_call_are_sampled_separately",
    ),
    Variant(
        "DDPG: targets move after the step",
        DDPG,
        "        self.target_weights.assign_add(settings.target_update * (self.weights - self.target_weights))\n",
        "        self.target_weights.assign_add(settings.target_update * (self.weights - policy_gradient - "
        "self.target_weights))\n",
        f"{TEST_FUSED}::test_targets_move_by_a_hundredth_of_the_way_before_the_step",
    ),
    Variant(
        "DDPG: weight decay left out",
        DDPG,
        "critic_gradient = flatten(tape.gradient(critic_loss, critic_parts)) + decay",
        "critic_gradient = flatten(tape.gradient(critic_loss, critic_parts)) + 0.0 * decay",
        f"{TEST_DDPG}::test_one_step_has_the_gradients_of_algorithm_4",
    ),
    Variant(
        "DDPG: target of the present networks",
        DDPG,
        "_q(self._critic.parts(self.target_critic_weights), next_standard, next_mean)",
        "_q(self._critic.parts(self.critic_weights), next_standard, next_mean)",
        f"{TEST_DDPG}::test_one_step_has_the_gradients_of_algorithm_4",
    ),
    Variant(
        "DDPG: both learn at one rate",
        DDPG,
        "learning_rate * (settings.policy_learning_rate / settings.learning_rate)",
        "learning_rate",
        f"{TEST_DDPG}::test_the_policy_steps_by_a_tenth_of_the_critic",
        slow=True,
    ),
    Variant(
        "DDPG: means without bounds",
        DDPG,
        "return tf.tanh(mlp.apply_mlp(parts, standard))",
        "return mlp.apply_mlp(parts, standard)",
        f"{TEST_DDPG}::test_the_mean_is_bounded_and_so_is_the_divergence",
    ),
    Variant(
        "V-RACER: sum over the batch",
        VRACER,
        'loss = tf.reduce_mean(batch["weight"] * losses.total)',
        'loss = tf.reduce_sum(batch["weight"] * losses.total)',
        f"{TEST_VRACER}::test_one_step_is_adam_on_the_gradient_of_the_paper",
    ),
    Variant(
        "V-RACER: importance weights not read",
        VRACER,
        'loss = tf.reduce_mean(batch["weight"] * losses.total)',
        "loss = tf.reduce_mean(losses.total)",
        f"{TEST_PRIORITISED}::test_a_weight_multiplies_the_gradient_of_its_sample",
        slow=True,
    ),
    Variant(
        "V-RACER: std of the raw variance",
        VRACER,
        "std = gaussian.std_from_raw(parts[-1])",
        "std = tf.nn.softplus(parts[-1])",
        f"{TEST_VRACER}::test_one_step_is_adam_on_the_gradient_of_the_paper",
    ),
    Variant(
        "V-RACER: learning rate not read",
        VRACER,
        "self.optimizer.learning_rate.assign(learning_rate)",
        "pass",
        f"{TEST_VRACER}::test_one_step_is_adam_on_the_gradient_of_the_paper",
    ),
    Variant(
        "ReF-ER: beta read after its update",
        TRAINING,
        "size, fraction, step_size)\n",
        "size, fraction, step_size)\n            beta[i] = self._beta\n",
        f"{TEST_TRAINING}::test_c_max_anneals_and_beta_follows_the_far_policy_fraction",
        slow=True,
    ),
    Variant(
        "ReF-ER: one update of beta for all steps of a call",
        TRAINING,
        "            self._beta = update_beta(self._beta, num_far_policy",
        "            self._beta = self._beta if i else update_beta(self._beta, num_far_policy",
        f"{TEST_TRAINING}::test_c_max_anneals_and_beta_follows_the_far_policy_fraction",
        slow=True,
    ),
    Variant(
        "ReF-ER: beta's step does not anneal",
        TRAINING,
        "step_size = annealed_learning_rate(t, settings.beta_step_size, settings.annealing)",
        "step_size = settings.beta_step_size",
        f"{TEST_TRAINING}::test_c_max_anneals_and_beta_follows_the_far_policy_fraction",
        slow=True,
    ),
    Variant(
        "ReF-ER: far-policy fraction of the bound of the first step",
        TRAINING,
        "memory.set_c_max(c_max[-1])",
        "memory.set_c_max(2.0 * c_max[-1])",
        f"{TEST_TRAINING}::test_c_max_anneals_and_beta_follows_the_far_policy_fraction",
        slow=True,
    ),
    Variant(
        "GAE: TD error of the other sign",
        GAE,
        "delta = reward + discount * tf.where(terminated, 0.0, next_value) - value",
        "delta = value - reward - discount * tf.where(terminated, 0.0, next_value)",
        f"{TEST_PPO_ADVANTAGES}::test_it_is_the_sum_over_the_rest_of_the_episode",
    ),
    Variant(
        "ReF-ER: Rule 1 takes a loss that is already reduced",
        RULES,
        '    shapes.assert_rank_at_least("rule_1", 1, loss=loss)\n',
        "",
        f"{TEST_REFER_RULES}::test_wrong_shapes_and_rules",
    ),
    Variant(
        "GAE: single numbers pass for steps",
        GAE,
        '    shapes.assert_rank_at_least("generalised_advantages", 1, reward=reward)\n',
        "",
        f"{TEST_PPO_ADVANTAGES}::test_single_numbers_are_no_steps",
    ),
    Variant(
        "DDPG: a checkpoint without the critic's target",
        DDPG,
        "            target_critic_weights=self.target_critic_weights,\n",
        "",
        f"{TEST_FUSED}::test_a_checkpoint_holds_all_that_learning_needs",
    ),
    Variant(
        "V-RACER: the optimizer has no slots before the first step",
        VRACER,
        "        self.optimizer.build([self.weights])\n",
        "",
        f"{TEST_VRACER}::test_a_checkpoint_holds_all_that_learning_needs",
    ),
    Variant(
        "ReF-ER: XLA where the configuration says graph",
        EXPERIMENT,
        'return compile_ == "xla"',
        'return compile_ != "xla"',
        f"{TEST_TRAINING}::test_gradient_steps_are_compiled_as_the_configuration_says",
    ),
    Variant(
        "ReF-ER: largest divergences are an estimate",
        CLOSED_FORM,
        'StudyResult("nats", values, protocol, exact=True)',
        'StudyResult("nats", values, protocol)',
        f"{TEST_CLOSED_FORM}::test_its_environments_are_closed_and_its_answers_exact",
    ),
    Variant(
        "ReF-ER: the last noise is around the present mean",
        TRAINING,
        "episode.actions[t - 1] - episode.means[t - 1]",
        "episode.actions[t - 1] - episode.means[t]",
        f"{TEST_EXPLORATION}::test_only_ddpg_without_refer_has_correlated_noise",
    ),
    Variant(
        "ReF-ER: a player that outlives its trainer",
        TRAINING,
        "self._player.shutdown()",
        "pass",
        f"{TEST_TRAINING}::test_gradient_steps_that_fail_leave_no_environment_that_is_stepped",
    ),
    Variant(
        "ReF-ER: agents without an advantage have one of 1",
        FUSED,
        "return np.zeros(len(actions), np.float32)",
        "return np.ones(len(actions), np.float32)",
        f"{TEST_TRAINING}::test_an_agent_without_an_advantage_stores_none",
    ),
    Variant(
        "ReF-ER: a watch that outlives its trainer",
        CONTROL_TRAINER,
        "        self._watch.stop()\n",
        "",
        f"{TEST_PPO_TRAINING}::test_books",
    ),
    Variant(
        "ReF-ER: ACER's gradient costs a step more than the episode has",
        "repro/papers/refer/gradient_cost.py",
        "environment.max_steps + 1]",
        "environment.max_steps + 2]",
        f"{TEST_CLOSED_FORM}::test_a_gradient_of_acer_is_from_episodes_as_long_as_the_time_limit_of_the_task",
        slow=True,
    ),
    Variant(
        "NAF: learning rate not read",
        NAF,
        "self.optimizer.learning_rate.assign(learning_rate)",
        "pass",
        f"{TEST_NAF}::test_a_step_has_the_learning_rate_of_its_call",
    ),
    Variant(
        "ReF-ER: the reward scale stays as it was before learning",
        TRAINING,
        "if steps.start // REWARD_SCALE_EVERY != steps.stop // REWARD_SCALE_EVERY:",
        "if steps.start < 0:",
        f"{TEST_TRAINING}::test_the_reward_scale_follows_every_thousand_gradient_steps",
    ),
    Variant(
        "ReF-ER: the reward scale follows environment steps",
        TRAINING,
        "if steps.start // REWARD_SCALE_EVERY != steps.stop // REWARD_SCALE_EVERY:",
        "if times[0] // REWARD_SCALE_EVERY != (times[-1] + settings.time_steps_per_gradient) // REWARD_SCALE_EVERY:",
        f"{TEST_TRAINING}::test_the_reward_scale_follows_every_thousand_gradient_steps",
    ),
    Variant(
        "ReF-ER: targets of the value that the last state had before",
        TRAINING,
        "        if settings.refresh_last_value:\n"
        "            self._refresh_last_values(indices)\n"
        "        rho, value, advantage, td_error, scalars = self._agent.train(\n"
        "            self._agent.gather(memory, indices), beta, c_max, rate, weight\n"
        "        )\n",
        "        batch = self._agent.gather(memory, indices)\n"
        "        if settings.refresh_last_value:\n"
        "            self._refresh_last_values(indices)\n"
        "        rho, value, advantage, td_error, scalars = self._agent.train(batch, beta, c_max, rate, weight)\n",
        f"{TEST_TRAINING}::test_the_value_of_a_cut_episodes_last_state_follows_the_network",
    ),
]
