"""Wrong variants of IMPALA's loss and update."""

from tests.mutations.variant import Variant

LOSS, AGENT = "repro/papers/impala/loss.py", "repro/papers/impala/agent.py"
T_L, T_A = "tests/papers/impala/test_loss.py", "tests/papers/impala/test_agent.py"

VARIANTS = [
    Variant("IMPALA: entropy penalised", LOSS, "-settings.entropy_cost * entropy]", "settings.entropy_cost * entropy]", T_L),
    Variant("IMPALA: entropy cost not read", LOSS, "-settings.entropy_cost * entropy]", "-entropy]", T_L),
    Variant("IMPALA: baseline cost not read", LOSS, "settings.baseline_cost * baseline,", "baseline,", T_L),
    Variant("IMPALA: square always halved", LOSS, "(0.5 if settings.half_baseline else 1.0)", "0.5", T_L),
    Variant("IMPALA: half_baseline inverted", LOSS, "(0.5 if settings.half_baseline else 1.0)", "(1.0 if settings.half_baseline else 0.5)", T_L),
    Variant("IMPALA: absolute error of the baseline", LOSS, "tf.square(targets - v_tm1)", "tf.abs(targets - v_tm1)", T_L),
    Variant("IMPALA: target of the next value", LOSS, "tf.square(targets - v_tm1)", "tf.square(targets - v_t)", T_L),
    Variant("IMPALA: policy climbs down", LOSS, "policy_gradient = -log_pi * pg_advantages", "policy_gradient = log_pi * pg_advantages", T_L),
    Variant("IMPALA: behaviour's log-probability", LOSS, "log_pi = categorical.log_prob(target_logits, actions)", "log_pi = categorical.log_prob(behaviour_logits, actions)", T_L),
    Variant("IMPALA: advantage moves the value", LOSS, "policy_gradient = -log_pi * pg_advantages", "policy_gradient = -log_pi * (pg_advantages + tf.stop_gradient(v_tm1) - v_tm1)", T_L),
    Variant("IMPALA: boundary rows learn", LOSS, "losses = [tf.where(is_boundary, 0.0, loss) for loss in losses]", "pass", T_L),
    Variant("IMPALA: boundaries not given to V-trace", LOSS, "is_boundary=is_boundary,\n    )", "is_boundary=None,\n    )", T_L),
    Variant("IMPALA: ratio upside down", LOSS, "categorical.log_ratio(target_logits, behaviour_logits, actions)", "categorical.log_ratio(behaviour_logits, target_logits, actions)", T_L),
    Variant("IMPALA: clips exchanged", LOSS, "        clip_rho=settings.clip_rho,\n        clip_c=settings.clip_c,", "        clip_rho=settings.clip_c,\n        clip_c=settings.clip_rho,", T_L),
    Variant("IMPALA: advantage clipped as the value", LOSS, "clip_pg_rho=settings.clip_pg_rho", "clip_pg_rho=settings.clip_rho", T_L),
    Variant("IMPALA: alphas exchanged", LOSS, "        alpha_rho=settings.alpha_rho,\n        alpha_c=settings.alpha_c,", "        alpha_rho=settings.alpha_c,\n        alpha_c=settings.alpha_rho,", T_L),
    Variant("IMPALA: lambda not read", LOSS, "lambda_=settings.lambda_", "lambda_=1.0", T_L),
    Variant("IMPALA: epsilon outside the logarithm", LOSS, "tf.math.log(tf.exp(log_pi) + EPSILON_CORRECTION)", "tf.math.log(tf.exp(log_pi)) + EPSILON_CORRECTION", T_L),
    Variant("IMPALA: epsilon correction with weights", LOSS, '"epsilon": v_targets.no_correction', '"epsilon": v_targets.one_step_importance_sampling', T_L),
    Variant("IMPALA: one step without weights", LOSS, '"one_step": v_targets.one_step_importance_sampling', '"one_step": v_targets.no_correction', T_L),
    Variant("IMPALA: mean over time", AGENT, "per_unroll = tf.reduce_sum(losses.total, axis=0)", "per_unroll = tf.reduce_mean(losses.total, axis=0)", T_A),
    Variant("IMPALA: mean over the batch", AGENT, "tf.reduce_sum(per_unroll if weights is None", "tf.reduce_mean(per_unroll if weights is None", T_A),
    Variant("IMPALA: weights not read", AGENT, "weights * per_unroll", "per_unroll", T_A),
    Variant("IMPALA: gradient not clipped", AGENT, "reduce_and_clip(tape.gradient(loss, variables), self._clip_global_norm)", "reduce_and_clip(tape.gradient(loss, variables), 1e30)", T_A),
    Variant("IMPALA: gamma missing", AGENT, "discount_t=self._discount * time_major", "discount_t=time_major", T_A),
    Variant("IMPALA: bootstrap from the same state", AGENT, "v_t=values[1:]", "v_t=values[:-1]", T_A),
    Variant("IMPALA: last rows of the reward", AGENT, "r_t=time_major(experience.reward)[:-1]", "r_t=time_major(experience.reward)[1:]", T_A),
    Variant("IMPALA: boundary of the row after", AGENT, "time_major(experience.step_type)[:-1] == StepType.LAST", "time_major(experience.step_type)[1:] == StepType.LAST", T_A),
    Variant("IMPALA: first rows are boundaries", AGENT, "== StepType.LAST", "== StepType.FIRST", T_A),
    Variant("IMPALA: updates not counted", AGENT, "self.train_step_counter.assign_add(1)", "pass", T_A),
    Variant("IMPALA: replicas' gradients summed twice", AGENT, "skip_gradients_aggregation=True", "skip_gradients_aggregation=False", T_A, slow=True),
    Variant("IMPALA: core starts from the second state", AGENT, "lambda x: x[:, 0]", "lambda x: x[:, 1]", T_A),
]
