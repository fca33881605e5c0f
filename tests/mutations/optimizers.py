"""Wrong variants of the optimisers, the clip and the schedule."""

from tests.mutations.variant import Variant

RMSPROP = "repro/optimizers/rmsprop_tf1.py"
ADAM = "repro/optimizers/fused_adam.py"
GRADIENTS = "repro/optimizers/gradients.py"
SCHEDULES = "repro/optimizers/schedules.py"
TEST_RMSPROP_TF1 = "tests/optimizers/test_rmsprop_tf1.py"
TEST_FUSED_ADAM = "tests/optimizers/test_fused_adam.py"
TEST_GRADIENTS = "tests/optimizers/test_gradients.py"
TEST_TWO_REPLICAS = "tests/optimizers/test_two_replicas.py"
TEST_SCHEDULES = "tests/optimizers/test_schedules.py"

VARIANTS = [
    Variant(
        "RMSProp: squares start at zero",
        RMSPROP,
        "initial_value=tf.ones_like(variable)",
        "initial_value=tf.zeros_like(variable)",
        f"{TEST_RMSPROP_TF1}::test_equals_tensorflow_1_over_100_steps",
    ),
    Variant(
        "RMSProp: epsilon outside the root",
        RMSPROP,
        "epsilon=tf.constant(self.epsilon, variable.dtype)",
        "epsilon=tf.constant(self.epsilon**2, variable.dtype)",
        f"{TEST_RMSPROP_TF1}::test_equals_tensorflow_1_over_100_steps",
    ),
    Variant(
        "RMSProp: no momentum",
        RMSPROP,
        "momentum=tf.constant(self.momentum, variable.dtype)",
        "momentum=tf.constant(0.0, variable.dtype)",
        f"{TEST_RMSPROP_TF1}::test_equals_tensorflow_1_over_100_steps",
    ),
    Variant(
        "RMSProp: decay of the new part",
        RMSPROP,
        "rho=tf.constant(self.decay, variable.dtype)",
        "rho=tf.constant(1.0 - self.decay, variable.dtype)",
        f"{TEST_RMSPROP_TF1}::test_equals_tensorflow_1_over_100_steps",
    ),
    Variant(
        "RMSProp: slots of the first variable",
        RMSPROP,
        "ms=self._mean_squares[index].handle",
        "ms=self._mean_squares[index - 1].handle",
        f"{TEST_RMSPROP_TF1}::test_equals_tensorflow_1_over_100_steps",
    ),
    Variant(
        "RMSProp: a second build resets the slots",
        RMSPROP,
        'if getattr(self, "_built", False):',
        "if False:",
        f"{TEST_RMSPROP_TF1}::test_equals_tensorflow_1_over_100_steps",
        slow=True,
    ),
    Variant(
        "RMSProp: momentum not in the configuration",
        RMSPROP,
        '            "momentum": self.momentum,\n',
        "",
        f"{TEST_RMSPROP_TF1}::test_config_round_trip",
        slow=True,
    ),
    Variant(
        "RMSProp: gradient ascent",
        RMSPROP,
        "grad=gradient,",
        "grad=-gradient,",
        f"{TEST_RMSPROP_TF1}::test_equals_tensorflow_1_over_100_steps",
    ),
    Variant(
        "Adam: bias not corrected",
        ADAM,
        "beta1_power=beta_1**step",
        "beta1_power=0.0 * step",
        f"{TEST_FUSED_ADAM}::test_steps_are_those_of_keras",
    ),
    Variant(
        "Adam: correction one update late",
        ADAM,
        "step = tf.cast(self.iterations + 1, dtype)",
        "step = tf.cast(self.iterations + 2, dtype)",
        f"{TEST_FUSED_ADAM}::test_steps_are_those_of_keras",
    ),
    Variant(
        "Adam: betas exchanged",
        ADAM,
        "            beta1=beta_1,\n            beta2=beta_2,",
        "            beta1=beta_2,\n            beta2=beta_1,",
        f"{TEST_FUSED_ADAM}::test_steps_are_those_of_keras",
    ),
    Variant(
        "Adam: scales not read",
        ADAM,
        "* (self._scales[index] if self._scales else 1.0)",
        "",
        f"{TEST_FUSED_ADAM}::test_each_variable_may_have_a_rate_of_its_own",
        slow=True,
    ),
    Variant(
        "Adam: Keras's epsilon",
        ADAM,
        "epsilon = tf.constant(self.epsilon, dtype)",
        "epsilon = tf.constant(1e-7, dtype)",
        f"{TEST_FUSED_ADAM}::test_steps_are_those_of_keras",
    ),
    Variant(
        "Adam: epsilon corrected by the other beta",
        ADAM,
        "epsilon *= tf.sqrt(1.0 - beta_2**step)",
        "epsilon *= tf.sqrt(1.0 - beta_1**step)",
        f"{TEST_FUSED_ADAM}::test_with_the_corrected_epsilon_steps_are_those_of_algorithm_1",
    ),
    Variant(
        "clip: each tensor by its own norm",
        GRADIENTS,
        "return tf.clip_by_global_norm(gradients, clip_global_norm or _NO_CLIP)",
        "return [tf.clip_by_norm(g, clip_global_norm) for g in gradients], tf.linalg.global_norm(gradients)",
        f"{TEST_GRADIENTS}::test_clips_the_norm_of_all_tensors_together",
    ),
    Variant(
        "clip: values, not the norm",
        GRADIENTS,
        "return tf.clip_by_global_norm(gradients, clip_global_norm or _NO_CLIP)",
        "return [tf.clip_by_value(g, -clip_global_norm, clip_global_norm) for g in gradients], "
        "tf.linalg.global_norm(gradients)",
        f"{TEST_GRADIENTS}::test_clips_the_norm_of_all_tensors_together",
    ),
    Variant(
        "clip: no clip",
        GRADIENTS,
        "return tf.clip_by_global_norm(gradients, clip_global_norm or _NO_CLIP)",
        "return gradients, tf.linalg.global_norm(gradients)",
        f"{TEST_GRADIENTS}::test_clips_the_norm_of_all_tensors_together",
    ),
    Variant(
        "clip: short gradients are stretched to the bound",
        GRADIENTS,
        "return tf.clip_by_global_norm(gradients, clip_global_norm or _NO_CLIP)",
        "norm = tf.linalg.global_norm(gradients)\n    return [g * clip_global_norm / norm for g in gradients], norm",
        f"{TEST_GRADIENTS}::test_leaves_a_shorter_gradient_as_it_is",
        slow=True,
    ),
    Variant(
        "clip: mean over replicas",
        GRADIENTS,
        "ReduceOp.SUM",
        "ReduceOp.MEAN",
        f"{TEST_TWO_REPLICAS}::test_gradients_are_summed_before_the_clip",
        slow=True,
    ),
    Variant(
        "clip: each replica before the sum",
        GRADIENTS,
        "    if context.num_replicas_in_sync > 1:\n"
        "        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)\n"
        "    return tf.clip_by_global_norm(gradients, clip_global_norm or _NO_CLIP)",
        "    gradients, norm = tf.clip_by_global_norm(gradients, clip_global_norm or _NO_CLIP)\n"
        "    if context.num_replicas_in_sync > 1:\n"
        "        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)\n"
        "    return gradients, norm",
        f"{TEST_TWO_REPLICAS}::test_gradients_are_summed_before_the_clip",
        slow=True,
    ),
    Variant(
        "schedule: goes on below its end",
        SCHEDULES,
        "fraction = tf.minimum(tf.cast(step, tf.float32) / total_updates, 1.0)",
        "fraction = tf.cast(step, tf.float32) / total_updates",
        f"{TEST_SCHEDULES}::test_values_of_the_atari_schedule",
    ),
    Variant(
        "schedule: one update late",
        SCHEDULES,
        "tf.cast(step, tf.float32) / total_updates",
        "(tf.cast(step, tf.float32) + 1.0) / total_updates",
        f"{TEST_SCHEDULES}::test_values_of_the_atari_schedule",
    ),
    Variant(
        "schedule: budget counted in updates",
        SCHEDULES,
        "self.total_frames / self.frames_per_update",
        "self.total_frames",
        f"{TEST_SCHEDULES}::test_values_of_the_atari_schedule",
    ),
    Variant(
        "schedule: from final to initial",
        SCHEDULES,
        "(1.0 - fraction) * self.initial + fraction * self.final",
        "fraction * self.initial + (1.0 - fraction) * self.final",
        f"{TEST_SCHEDULES}::test_values_of_the_atari_schedule",
    ),
    Variant(
        "schedule: whole updates only",
        SCHEDULES,
        "total_updates = self.total_frames / self.frames_per_update",
        "total_updates = self.total_frames // self.frames_per_update",
        f"{TEST_SCHEDULES}::test_ends_exactly_at_a_final_rate_above_zero_and_may_rise",
    ),
    Variant(
        "schedule: the rate does not fall",
        SCHEDULES,
        "fraction = tf.minimum(tf.cast(step, tf.float32) / total_updates, 1.0)",
        "fraction = 0.0 * tf.cast(step, tf.float32) / total_updates",
        f"{TEST_SCHEDULES}::test_values_of_the_atari_schedule",
    ),
    Variant(
        "clip: at 1 unless told otherwise",
        GRADIENTS,
        "clip_global_norm: float = 0.0)",
        "clip_global_norm: float = 1.0)",
        f"{TEST_GRADIENTS}::test_clips_nothing_unless_told_to",
    ),
]
