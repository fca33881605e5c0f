"""Wrong variants of STAC's loss, metagradient and agent."""

from tests.mutations.variant import Variant

LOSS = "repro/papers/stac/loss.py"
METAGRADIENT = "repro/papers/stac/metagradient.py"
AGENT = "repro/papers/stac/agent.py"
RMSPROP = "repro/optimizers/rmsprop_tf1.py"
NETWORK = "repro/networks/multi_head_actor_critic.py"
TEST_ALGORITHM_1 = "tests/papers/stac/test_loss.py::test_loss_and_gradients_are_those_of_algorithm_1"
TEST_METAGRADIENT = "tests/papers/stac/test_metagradient.py"
TEST_AGENT = "tests/papers/stac/test_agent.py"
TEST_RMSPROP = "tests/optimizers/test_rmsprop_tf1.py"

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
        "STAC: outer loss before the update",
        METAGRADIENT,
        "    optimizer.apply_gradients(zip(gradients, variables), skip_gradients_aggregation=True)\n",
        "",
        f"{TEST_METAGRADIENT}::test_a_closed_form",
    ),
    Variant(
        "STAC: metagradient around the clip",
        METAGRADIENT,
        "variables), clip_global_norm)",
        "variables), NO_CLIP)",
        f"{TEST_METAGRADIENT}::test_a_clip_takes_the_size_of_the_gradient_away",
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
        "categorical.kl(logits[:-1], tf.stop_gradient(inner.logits[:-1, :, acting]))",
        "categorical.kl(tf.stop_gradient(inner.logits[:-1, :, acting]), logits[:-1])",
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
]
