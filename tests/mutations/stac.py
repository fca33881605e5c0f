"""Wrong variants of STAC's loss, metagradient and agent."""

from tests.mutations.variant import Variant

LOSS = "repro/papers/stac/loss.py"
METAGRADIENT = "repro/papers/stac/metagradient.py"
AGENT = "repro/papers/stac/agent.py"
RMSPROP = "repro/optimizers/rmsprop_tf1.py"
NETWORK = "repro/networks/multi_head_actor_critic.py"
POOL = "repro/networks/max_pool.py"
EXPERIMENT = "repro/papers/stac/experiment.py"
DISTRIBUTION = "repro/papers/stac/action_distribution.py"
ACTOR = "repro/acting/actor.py"
TEST_ALGORITHM_1 = "tests/papers/stac/test_loss.py::test_loss_and_gradients_are_those_of_algorithm_1"
TEST_METAGRADIENT = "tests/papers/stac/test_metagradient.py"
TEST_AGENT = "tests/papers/stac/test_agent.py"
TEST_IMPALA = f"{TEST_AGENT}::test_without_metaparameters_and_with_one_head_the_update_is_impalas"
TEST_FIELDS = "tests/papers/stac/test_experiment.py::test_every_field_reaches_its_place_in_the_agent"
TEST_POOL = "tests/networks/test_max_pool.py::test_the_second_derivative_is_the_transpose_of_the_first"
TEST_CONVOLUTIONS = f"{TEST_METAGRADIENT}::test_equals_finite_differences_through_convolutions"
TEST_CONTINUOUS = "tests/papers/stac/test_continuous.py"
TEST_DIFFERENCES = f"{TEST_CONTINUOUS}::test_the_metagradient_equals_finite_differences"
TEST_CORE = f"{TEST_CONTINUOUS}::test_the_core_is_where_playing_from_the_start_left_it"
TEST_CONTROL = "tests/papers/stac/test_dm_control.py"
TEST_RMSPROP = "tests/optimizers/test_rmsprop_tf1.py"
APPLY = "    optimizer.apply_gradients(zip(gradients, variables), skip_gradients_aggregation=True)\n"
OUTER_LOSS = """\
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(variables)
        outer, outer_extra = outer_loss(inner_extra)
    cotangents = [-gradient for gradient in tape.gradient(outer, variables, unconnected_gradients="zero")]
"""

VARIANTS = [
    Variant(
        "STAC: entropy penalised",
        LOSS,
        "entropy = -zeta.g_e",
        "entropy = zeta.g_e",
        TEST_ALGORITHM_1,
    ),
    Variant(
        "STAC: policy climbs down",
        LOSS,
        "policy = -zeta.g_p",
        "policy = zeta.g_p",
        TEST_ALGORITHM_1,
    ),
    Variant(
        "STAC: squared error halved",
        LOSS,
        "value = zeta.g_v *",
        "value = 0.5 * zeta.g_v *",
        TEST_ALGORITHM_1,
    ),
    Variant(
        "STAC: gamma missing",
        LOSS,
        "zeta.gamma * tf.where",
        "tf.where",
        TEST_ALGORITHM_1,
    ),
    Variant(
        "STAC: alphas exchanged",
        LOSS,
        "alpha_rho=zeta.alpha_rho",
        "alpha_rho=zeta.alpha_c",
        TEST_ALGORITHM_1,
    ),
    Variant(
        "STAC: policy's weight not truncated",
        LOSS,
        "clip_pg_rho=zeta.truncation",
        "clip_pg_rho=None",
        TEST_ALGORITHM_1,
    ),
    Variant(
        "STAC: boundary rows learn",
        LOSS,
        "(tf.where(boundary, 0.0, loss) for loss in",
        "(loss for loss in",
        "tests/papers/stac/test_loss.py::test_parts_add_up_and_rows_between_games_are_zero",
    ),
    Variant(
        "STAC: metagradient reversed",
        METAGRADIENT,
        "[-gradient for gradient in",
        "[gradient for gradient in",
        f"{TEST_METAGRADIENT}::test_a_closed_form",
    ),
    Variant(
        "STAC: weights stay where they are",
        METAGRADIENT,
        APPLY,
        "",
        f"{TEST_METAGRADIENT}::test_a_closed_form",
    ),
    Variant(
        "STAC: outer loss before the update",
        METAGRADIENT,
        APPLY + OUTER_LOSS,
        OUTER_LOSS + APPLY,
        f"{TEST_METAGRADIENT}::test_a_closed_form",
    ),
    Variant(
        "STAC: metagradient of the step after the next",
        METAGRADIENT,
        "        steps = optimizer.steps(gradients)\n" + APPLY,
        "        optimizer.apply_gradients(zip(gradients, variables), skip_gradients_aggregation=True)\n"
        "        steps = optimizer.steps(gradients)\n",
        f"{TEST_METAGRADIENT}::test_equals_finite_differences_with_three_heads",
    ),
    Variant(
        "STAC: not clipped",
        METAGRADIENT,
        "variables), clip_global_norm)",
        "variables))",
        f"{TEST_METAGRADIENT}::test_a_clip_takes_the_size_of_the_gradient_away",
    ),
    Variant(
        "STAC: metagradient around the clip",
        METAGRADIENT,
        "        gradients, norm = reduce_and_clip(tape.gradient(inner, variables), clip_global_norm)\n"
        "        steps = optimizer.steps(gradients)\n",
        "        whole = tape.gradient(inner, variables)\n"
        "        gradients, norm = reduce_and_clip(whole, clip_global_norm)\n"
        "        steps = optimizer.steps([g + tf.stop_gradient(c - g) for g, c in zip(whole, gradients)])\n",
        f"{TEST_METAGRADIENT}::test_a_clip_takes_the_size_of_the_gradient_away",
    ),
    Variant(
        "STAC: KL of rows between games",
        AGENT,
        "        kl = tf.where(self._is_boundary(experience)[..., tf.newaxis], 0.0, kl)\n",
        "",
        f"{TEST_METAGRADIENT}::test_equals_finite_differences_with_three_heads",
        slow=True,
    ),
    Variant(
        "STAC: coefficients without their outer value",
        METAGRADIENT,
        "(zeta[field] if name in SCALED else 1.0)",
        "1.0",
        f"{TEST_METAGRADIENT}::test_zeta_is_bounded_by_the_sigmoid_and_begins_near_the_outer_values",
    ),
    Variant(
        "STAC: gamma times its outer value",
        METAGRADIENT,
        "(zeta[field] if name in SCALED else 1.0)",
        "zeta[field]",
        f"{TEST_METAGRADIENT}::test_zeta_is_bounded_by_the_sigmoid_and_begins_near_the_outer_values",
    ),
    Variant(
        "STAC: KL the other way",
        AGENT,
        "self._distribution.kl(outputs[:-1], before)",
        "self._distribution.kl(before, outputs[:-1])",
        f"{TEST_METAGRADIENT}::test_the_kl_draws_the_new_policy_towards_the_old",
        slow=True,
    ),
    Variant(
        "STAC: KL not read",
        AGENT,
        "losses.total + self._kl_cost * kl",
        "losses.total",
        f"{TEST_METAGRADIENT}::test_the_kl_draws_the_new_policy_towards_the_old",
        slow=True,
    ),
    Variant(
        "STAC: outer loss with tuned hyper-parameters",
        AGENT,
        "values, self._outer)",
        "values, self._metaparameters.hyperparameters())",
        f"{TEST_METAGRADIENT}::test_the_kl_draws_the_new_policy_towards_the_old",
        slow=True,
    ),
    Variant(
        "STACX: sum over heads",
        AGENT,
        "_sum(losses.total, weights) / self._network.num_heads",
        "_sum(losses.total, weights)",
        f"{TEST_AGENT}::test_the_inner_loss_is_the_mean_over_heads",
    ),
    Variant(
        "STACX: the last head acts",
        NETWORK,
        '"first": slice(0, 1)',
        '"first": slice(num_heads - 1, num_heads)',
        f"{TEST_AGENT}::test_head_1_acts_alone",
    ),
    Variant(
        "RMSProp: steps with constant squares",
        RMSPROP,
        "(1.0 - self.decay) * tf.square(g)",
        "(1.0 - self.decay) * tf.square(tf.stop_gradient(g))",
        f"{TEST_RMSPROP}::test_the_gradient_of_a_step_by_hand",
    ),
    Variant(
        "RMSProp: steps without the past",
        RMSPROP,
        "self.momentum * moment + step",
        "step",
        f"{TEST_RMSPROP}::test_steps_say_what_the_update_subtracts_and_change_nothing",
    ),
    Variant(
        "STAC: advantage constant in eta",
        LOSS,
        "actions) * advantages",
        "actions) * tf.stop_gradient(advantages)",
        TEST_ALGORITHM_1,
    ),
    Variant(
        "STAC: targets constant in eta",
        LOSS,
        "tf.square(targets - v_tm1)",
        "tf.square(tf.stop_gradient(targets) - v_tm1)",
        TEST_ALGORITHM_1,
    ),
    Variant(
        "STAC: rho constant in eta",
        LOSS,
        "alpha_rho=zeta.alpha_rho",
        "alpha_rho=tf.stop_gradient(zeta.alpha_rho)",
        TEST_ALGORITHM_1,
    ),
    Variant(
        "STACX: outer loss of all heads",
        AGENT,
        "acting_heads\n        outputs, values = self._heads(experience, acting_alone=True)",
        "acting_heads\n        acting = slice(0, self._network.num_heads)\n"
        "        outputs, values = self._heads(experience)",
        f"{TEST_METAGRADIENT}::test_auxiliary_heads_do_not_matter_without_a_layer_that_is_shared",
    ),
    Variant(
        "STAC: network not told the new gamma",
        AGENT,
        "            self._tell_gammas()\n            extra",
        "            extra",
        f"{TEST_AGENT}::test_actors_play_with_the_gammas_of_the_last_update",
    ),
    Variant(
        "STAC: embedding in place of the core's output",
        NETWORK,
        "tf.concat([features, tf.broadcast_to(one, shape)], axis=-1)",
        "tf.concat([tf.zeros_like(features), tf.broadcast_to(one, shape)], axis=-1)",
        TEST_DIFFERENCES,
        slow=True,
    ),
    Variant(
        "STACX: heads read the embedding of the next head's gamma",
        NETWORK,
        "tf.unstack(self.gammas[:, tf.newaxis] * self._embedding)",
        "tf.unstack(tf.roll(self.gammas[:, tf.newaxis] * self._embedding, -1, 0))",
        "tests/networks/test_multi_head_actor_critic.py::test_heads_read_the_features_and_their_gamma_times_its_embedding",
    ),
    Variant(
        "STAC: KL from the updated policy to itself",
        AGENT,
        "tf.stop_gradient(inner.outputs[:-1, :, acting])",
        "tf.stop_gradient(outputs[:-1])",
        f"{TEST_METAGRADIENT}::test_the_kl_draws_the_new_policy_towards_the_old",
        slow=True,
    ),
    Variant(
        "STAC: means in the log with rows that are no transition",
        AGENT,
        "masked_means_over_replicas(over_heads, tf.logical_not(self._is_boundary(experience)))",
        "masked_means_over_replicas(over_heads, tf.ones_like(self._is_boundary(experience)))",
        f"{TEST_AGENT}::test_an_unroll_without_transitions_changes_nothing_in_the_log",
    ),
    Variant(
        "STAC: metaparameters logged after their update",
        AGENT,
        "inner.scalars | extra |",
        "inner.scalars | extra | self._metaparameters.scalars() |",
        f"{TEST_AGENT}::test_scalars_of_an_update",
        slow=True,
    ),
    Variant(
        "STAC: outer loss of one replica logged",
        AGENT,
        " * float(tf.distribute.get_strategy().num_replicas_in_sync)",
        "",
        f"{TEST_AGENT}::test_two_replicas_make_the_update_of_one_device_with_the_whole_batch",
        slow=True,
    ),
    Variant(
        "STAC: rewards one step late",
        AGENT,
        "r_t=self._transitions(experience.reward)",
        "r_t=time_major(experience.reward)[1:]",
        TEST_IMPALA,
    ),
    Variant(
        "STAC: discounts one step late",
        AGENT,
        "continues_t=self._transitions(experience.discount)",
        "continues_t=time_major(experience.discount)[1:]",
        TEST_IMPALA,
    ),
    Variant(
        "STAC: behaviour policy one step late",
        AGENT,
        "self._transitions(info[name])",
        "time_major(info[name])[1:]",
        TEST_IMPALA,
    ),
    Variant(
        "STAC: bootstrap from the state before",
        AGENT,
        "v_t=values[1:]",
        "v_t=values[:-1]",
        TEST_IMPALA,
    ),
    Variant(
        "STAC: NaN where the inner gradient is zero",
        METAGRADIENT,
        "[tf.where(tf.equal(norm, 0.0), 0.0, gradient) for",
        "[gradient for",
        f"{TEST_METAGRADIENT}::test_nothing_matters_where_every_row_lies_between_games",
        slow=True,
    ),
    Variant(
        "STAC: lambda has alpha's field",
        EXPERIMENT,
        "lambda_=loss.lambda_",
        "lambda_=loss.alpha",
        TEST_FIELDS,
    ),
    Variant(
        "STAC: meta-optimiser with Keras's epsilon",
        EXPERIMENT,
        "epsilon_is_corrected=True",
        "epsilon_is_corrected=False",
        TEST_FIELDS,
    ),
    Variant(
        "STAC: gamma never begins apart",
        EXPERIMENT,
        "meta.initial_gamma is not None",
        "False",
        "tests/papers/stac/test_experiment.py::test_gamma_begins_as_the_others_do_or_apart",
    ),
    Variant(
        "STAC, continuous: KL to the standard normal as a bonus",
        DISTRIBUTION,
        "return -squashed_gaussian.kl_to_standard_normal(",
        "return squashed_gaussian.kl_to_standard_normal(",
        TEST_DIFFERENCES,
        slow=True,
    ),
    Variant(
        "STAC, continuous: mean and std exchanged",
        DISTRIBUTION,
        "mean, std = tf.split(outputs, 2, axis=-1)",
        "std, mean = tf.split(outputs, 2, axis=-1)",
        f"{TEST_CONTINUOUS}::test_the_squashed_gaussian_of_outputs",
    ),
    Variant(
        "STAC, continuous: greedy mean not squashed",
        DISTRIBUTION,
        "return tf.tanh(self._mean_and_std(outputs)[0])",
        "return self._mean_and_std(outputs)[0]",
        f"{TEST_CONTINUOUS}::test_the_squashed_gaussian_of_outputs",
    ),
    Variant(
        "STAC, continuous: KL of the other direction",
        DISTRIBUTION,
        "gaussian.kl(*self._mean_and_std(outputs_p), *self._mean_and_std(outputs_q))",
        "gaussian.kl(*self._mean_and_std(outputs_q), *self._mean_and_std(outputs_p))",
        f"{TEST_CONTINUOUS}::test_the_squashed_gaussian_of_outputs",
    ),
    Variant(
        "STAC, recurrent: the last row's state",
        AGENT,
        "lambda x: x[:, 0], experience",
        "lambda x: x[:, -1], experience",
        TEST_CORE,
    ),
    Variant(
        "STAC, recurrent: rows of the burn-in with those behind it",
        AGENT,
        "return time_major(x)[self._burn_in : -1]",
        "return time_major(x)[: x.shape[1] - 1 - self._burn_in]",
        TEST_DIFFERENCES,
        slow=True,
    ),
    Variant(
        "STAC, recurrent: state kept over episodes",
        NETWORK,
        "step_type == StepType.FIRST",
        "step_type == StepType.LAST",
        "tests/networks/test_multi_head_actor_critic.py::test_the_core_runs_over_time_between_torso_and_heads",
    ),
    Variant(
        "overlap: one row too early",
        ACTOR,
        "slice(self._unroll_length - self._overlap, self._unroll_length)",
        "slice(self._unroll_length - self._overlap - 1, self._unroll_length - 1)",
        f"{TEST_CONTINUOUS}::test_the_first_unroll_begins_with_rows_that_are_no_transition",
    ),
    Variant(
        "overlap: the next unroll begins where the last ended",
        ACTOR,
        "for row in range(self._overlap, self._unroll_length):",
        "for row in range(self._unroll_length):",
        f"{TEST_CONTINUOUS}::test_every_step_is_learned_once_where_the_burn_in_is_the_overlap",
    ),
    Variant(
        "overlap: rows before the first unroll are steps",
        ACTOR,
        "played.write(row, step_type=LAST)",
        "played.write(row, step_type=1)",
        f"{TEST_CONTINUOUS}::test_the_first_unroll_begins_with_rows_that_are_no_transition",
    ),
    Variant(
        "overlap: lost in a checkpoint",
        ACTOR,
        'for i in range(len(state["end"]))] if self._overlap else []',
        'for i in range(len(state["end"]))] if not self._overlap else []',
        f"{TEST_CONTROL}::test_a_run_resumes_to_the_bit",
        slow=True,
    ),
    Variant(
        "overlap: its steps counted again",
        "repro/training/unroll_actors.py",
        "(learner.unroll_length - self.overlap)",
        "learner.unroll_length",
        f"{TEST_CONTROL}::test_fields_of_control_reach_their_places",
    ),
    Variant(
        "STAC, ablations: the set of gamma has lambda",
        "paper_configs/stac/atari.py",
        '"_gamma": ("gamma",)',
        '"_gamma": ("lambda",)',
        "tests/papers/stac/test_experiment.py::test_agents_on_atari_have_the_heads_and_metaparameters_of_the_paper",
    ),
    Variant(
        "STAC, Atari: a lost life is no end",
        "paper_configs/stac/atari.py",
        "config.env.life_loss_ends = True",
        "config.env.life_loss_ends = False",
        "tests/papers/stac/test_experiment.py::test_games_evaluation_actors_and_learner_on_atari_are_impalas",
    ),
    Variant(
        "overlap: none where actors are processes",
        "repro/training/unroll_actors.py",
        "            overlap=self.overlap,",
        "            overlap=0,",
        f"{TEST_CONTROL}::test_unrolls_of_an_actor_in_a_process_overlap",
    ),
    Variant(
        "STAC, cost of an update: acting in every row of an unroll",
        "repro/papers/stac/update_cost.py",
        "experiment.frames_per_update // frames_per_step(config)",
        "config.learner.batch_size * config.learner.unroll_length",
        "tests/papers/stac/test_update_cost.py::test_steps_that_unrolls_share_are_acted_in_once",
    ),
    Variant(
        "pooling: every equal maximum",
        POOL,
        "tf.logical_and(tf.equal(x[at], y), tf.logical_not(found))",
        "tf.equal(x[at], y)",
        TEST_POOL,
    ),
    Variant(
        "pooling: padding on the other side",
        POOL,
        "return total // 2, total - total // 2",
        "return total - total // 2, total // 2",
        TEST_POOL,
    ),
    Variant(
        "pooling: no metagradient through it",
        POOL,
        "tf.stop_gradient(y), dy)",
        "tf.stop_gradient(y), tf.stop_gradient(dy))",
        TEST_CONVOLUTIONS,
        slow=True,
    ),
    Variant(
        "STAC: no metagradient of alpha_c",
        LOSS,
        "alpha_c=zeta.alpha_c",
        "alpha_c=tf.stop_gradient(zeta.alpha_c)",
        TEST_CONVOLUTIONS,
        slow=True,
    ),
    Variant(
        "STACX: one truncation level for all heads",
        LOSS,
        "clip_rho=zeta.truncation",
        "clip_rho=tf.reduce_mean(zeta.truncation)",
        f"{TEST_METAGRADIENT}::test_equals_finite_differences_with_three_heads",
        slow=True,
    ),
]
