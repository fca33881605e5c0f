"""Wrong variants of the optimisers, the clip and the schedule."""

from tests.mutations.variant import Variant

RMSPROP, ADAM = "repro/optimizers/rmsprop_tf1.py", "repro/optimizers/fused_adam.py"
GRADIENTS, SCHEDULES = "repro/optimizers/gradients.py", "repro/optimizers/schedules.py"
T_R, T_A = "tests/optimizers/test_rmsprop_tf1.py", "tests/optimizers/test_fused_adam.py"
T_G, T_S = "tests/optimizers/test_gradients.py", "tests/optimizers/test_schedules.py"
T_2 = "tests/optimizers/test_two_replicas.py"

VARIANTS = [
    Variant("RMSProp: squares start at zero", RMSPROP, "initial_value=tf.ones_like(variable)", "initial_value=tf.zeros_like(variable)", T_R),
    Variant("RMSProp: epsilon outside the root", RMSPROP, "epsilon=tf.constant(self.epsilon, variable.dtype)", "epsilon=tf.constant(self.epsilon**2, variable.dtype)", T_R),
    Variant("RMSProp: no momentum", RMSPROP, "momentum=tf.constant(self.momentum, variable.dtype)", "momentum=tf.constant(0.0, variable.dtype)", T_R),
    Variant("RMSProp: decay of the new part", RMSPROP, "rho=tf.constant(self.decay, variable.dtype)", "rho=tf.constant(1.0 - self.decay, variable.dtype)", T_R),
    Variant("RMSProp: slots of the first variable", RMSPROP, "ms=self._mean_squares[index].handle", "ms=self._mean_squares[index - 1].handle", T_R),
    Variant("RMSProp: a second build resets the slots", RMSPROP, 'if getattr(self, "_built", False):', "if False:", T_R),
    Variant("RMSProp: momentum not in the configuration", RMSPROP, '            "momentum": self.momentum,\n', "", T_R),
    Variant("RMSProp: gradient ascent", RMSPROP, "grad=gradient,", "grad=-gradient,", T_R),
    Variant("Adam: bias not corrected", ADAM, "beta1_power=beta_1**step", "beta1_power=0.0 * step", T_A),
    Variant("Adam: correction one update late", ADAM, "step = tf.cast(self.iterations + 1, dtype)", "step = tf.cast(self.iterations + 2, dtype)", T_A),
    Variant("Adam: betas exchanged", ADAM, "            beta1=beta_1,\n            beta2=beta_2,", "            beta1=beta_2,\n            beta2=beta_1,", T_A),
    Variant("Adam: scales not read", ADAM, "* (self._scales[index] if self._scales else 1.0)", "", T_A),
    Variant("Adam: Keras's epsilon", ADAM, "epsilon=tf.constant(self.epsilon, dtype)", "epsilon=tf.constant(1e-7, dtype)", T_A),
    Variant("clip: each tensor by its own norm", GRADIENTS, "return tf.clip_by_global_norm(gradients, clip_global_norm)", "return [tf.clip_by_norm(g, clip_global_norm) for g in gradients], tf.linalg.global_norm(gradients)", T_G),
    Variant("clip: values, not the norm", GRADIENTS, "return tf.clip_by_global_norm(gradients, clip_global_norm)", "return [tf.clip_by_value(g, -clip_global_norm, clip_global_norm) for g in gradients], tf.linalg.global_norm(gradients)", T_G),
    Variant("clip: no clip", GRADIENTS, "return tf.clip_by_global_norm(gradients, clip_global_norm)", "return gradients, tf.linalg.global_norm(gradients)", T_G),
    Variant("clip: short gradients are stretched to the bound", GRADIENTS, "return tf.clip_by_global_norm(gradients, clip_global_norm)", "norm = tf.linalg.global_norm(gradients)\n    return [g * clip_global_norm / norm for g in gradients], norm", T_G),
    Variant("clip: mean over replicas", GRADIENTS, "ReduceOp.SUM", "ReduceOp.MEAN", T_2, slow=True),
    Variant("clip: each replica before the sum", GRADIENTS, "    if context.num_replicas_in_sync > 1:\n        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)\n    return tf.clip_by_global_norm(gradients, clip_global_norm)", "    gradients, norm = tf.clip_by_global_norm(gradients, clip_global_norm)\n    if context.num_replicas_in_sync > 1:\n        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)\n    return gradients, norm", T_2, slow=True),
    Variant("schedule: goes on below its end", SCHEDULES, "fraction = tf.minimum(tf.cast(step, tf.float32) / total_updates, 1.0)", "fraction = tf.cast(step, tf.float32) / total_updates", T_S),
    Variant("schedule: one update late", SCHEDULES, "tf.cast(step, tf.float32) / total_updates", "(tf.cast(step, tf.float32) + 1.0) / total_updates", T_S),
    Variant("schedule: budget counted in updates", SCHEDULES, "self.total_frames / self.frames_per_update", "self.total_frames", T_S),
    Variant("schedule: from final to initial", SCHEDULES, "(1.0 - fraction) * self.initial + fraction * self.final", "fraction * self.initial + (1.0 - fraction) * self.final", T_S),
    Variant("schedule: whole updates only", SCHEDULES, "total_updates = self.total_frames / self.frames_per_update", "total_updates = self.total_frames // self.frames_per_update", T_S),
]
