"""Wrong variants of the distributions."""

from tests.mutations.variant import Variant

CATEGORICAL = "repro/distributions/categorical.py"
GAUSSIAN = "repro/distributions/gaussian.py"
TEST_CATEGORICAL = "tests/distributions/test_categorical.py"
TEST_GAUSSIAN = "tests/distributions/test_gaussian.py"
SQUASHED = "repro/distributions/squashed_gaussian.py"
TEST_SQUASHED = "tests/distributions/test_squashed_gaussian.py"
TEST_SLOPE = f"{TEST_SQUASHED}::test_log_prob_is_the_slope_of_the_distribution_function"

VARIANTS = [
    Variant(
        "categorical: entropy negative",
        CATEGORICAL,
        "return -tf.reduce_sum(probs(logits)",
        "return tf.reduce_sum(probs(logits)",
        f"{TEST_CATEGORICAL}::test_equals_its_definition",
    ),
    Variant(
        "categorical: entropy in bits",
        CATEGORICAL,
        "tf.nn.log_softmax(tf.cast(logits, tf.float32)), axis=-1)",
        "tf.nn.log_softmax(tf.cast(logits, tf.float32)), axis=-1) / 0.6931472",
        f"{TEST_CATEGORICAL}::test_equals_its_definition",
    ),
    Variant(
        "categorical: entropy averaged over actions",
        CATEGORICAL,
        "return -tf.reduce_sum(probs(logits)",
        "return -tf.reduce_mean(probs(logits)",
        f"{TEST_CATEGORICAL}::test_equals_its_definition",
    ),
    Variant(
        "categorical: KL of the other direction",
        CATEGORICAL,
        "return tf.reduce_sum(probs(logits_p) * log_ratios, axis=-1)",
        "return tf.reduce_sum(-probs(logits_q) * log_ratios, axis=-1)",
        f"{TEST_CATEGORICAL}::test_equals_its_definition",
    ),
    Variant(
        "categorical: KL weighted by q",
        CATEGORICAL,
        "probs(logits_p) * log_ratios",
        "probs(logits_q) * log_ratios",
        f"{TEST_CATEGORICAL}::test_equals_its_definition",
    ),
    Variant(
        "categorical: logits not normalised",
        CATEGORICAL,
        "log_ratios = tf.nn.log_softmax(logits_p) - tf.nn.log_softmax(logits_q)",
        "log_ratios = logits_p - logits_q",
        f"{TEST_CATEGORICAL}::test_equals_its_definition",
    ),
    Variant(
        "categorical: ratio upside down",
        CATEGORICAL,
        "return log_prob(target_logits, actions) - log_prob(behaviour_logits, actions)",
        "return log_prob(behaviour_logits, actions) - log_prob(target_logits, actions)",
        f"{TEST_CATEGORICAL}::test_equals_its_definition",
    ),
    Variant(
        "categorical: Gumbel noise subtracted",
        CATEGORICAL,
        "tf.argmax(logits - tf.math.log",
        "tf.argmax(logits + tf.math.log",
        f"{TEST_CATEGORICAL}::test_samples_follow_the_probabilities",
        slow=True,
    ),
    Variant(
        "categorical: same noise for every row",
        CATEGORICAL,
        "tf.random.stateless_uniform(tf.shape(logits), seed,",
        "tf.random.stateless_uniform(tf.shape(logits)[-1:], seed,",
        f"{TEST_CATEGORICAL}::test_samples_follow_the_probabilities",
        slow=True,
    ),
    Variant(
        "Gaussian: square not halved",
        GAUSSIAN,
        "return -0.5 * tf.square((action - mean) / std)",
        "return -tf.square((action - mean) / std)",
        f"{TEST_GAUSSIAN}::test_equals_tensorflow_probability",
    ),
    Variant(
        "Gaussian: variance for the standard deviation",
        GAUSSIAN,
        "tf.square((action - mean) / std) -",
        "tf.square(action - mean) / std -",
        f"{TEST_GAUSSIAN}::test_equals_tensorflow_probability",
    ),
    Variant(
        "Gaussian: constant of the density missing",
        GAUSSIAN,
        "- tf.math.log(std) - HALF_LOG_2_PI",
        "- tf.math.log(std)",
        f"{TEST_GAUSSIAN}::test_equals_tensorflow_probability",
    ),
    Variant(
        "Gaussian: half of log 2 pi missing",
        GAUSSIAN,
        "HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)",
        "HALF_LOG_2_PI = math.log(2.0 * math.pi)",
        f"{TEST_GAUSSIAN}::test_equals_tensorflow_probability",
    ),
    Variant(
        "Gaussian: KL of the other direction",
        GAUSSIAN,
        "ratio = std_p / std_q  # [..., A] or [A]",
        "ratio = std_q / std_p  # [..., A] or [A]",
        f"{TEST_GAUSSIAN}::test_equals_tensorflow_probability",
    ),
    Variant(
        "Gaussian: KL measured in p's standard deviations",
        GAUSSIAN,
        "distance = (mean_p - mean_q) / std_q",
        "distance = (mean_p - mean_q) / std_p",
        f"{TEST_GAUSSIAN}::test_equals_tensorflow_probability",
    ),
    Variant(
        "Gaussian: KL averaged over components",
        GAUSSIAN,
        "return tf.reduce_sum(0.5 * (tf.square(ratio)",
        "return tf.reduce_mean(0.5 * (tf.square(ratio)",
        f"{TEST_GAUSSIAN}::test_equals_tensorflow_probability",
    ),
    Variant(
        "Gaussian: softplus gives the std",
        GAUSSIAN,
        "return tf.sqrt(tf.nn.softplus(raw))",
        "return tf.nn.softplus(raw)",
        f"{TEST_GAUSSIAN}::test_softplus_gives_the_variance",
        slow=True,
    ),
    Variant(
        "Gaussian: noise clipped, not resampled",
        GAUSSIAN,
        "    while (beyond := np.abs(noise) > TRUNCATION).any():\n"
        "        noise[beyond] = rng.standard_normal(np.count_nonzero(beyond))\n",
        "    noise = np.clip(noise, -TRUNCATION, TRUNCATION)\n",
        f"{TEST_GAUSSIAN}::test_samples_follow_the_truncated_normal",
        slow=True,
    ),
    Variant(
        "Gaussian: no truncation",
        GAUSSIAN,
        "TRUNCATION = 3.0",
        "TRUNCATION = 30.0",
        f"{TEST_GAUSSIAN}::test_samples_follow_the_truncated_normal",
    ),
    Variant(
        "Gaussian: ratio upside down",
        GAUSSIAN,
        "return tf.reduce_sum(target - _log_density(behaviour_mean, behaviour_std, action), axis=-1)",
        "return tf.reduce_sum(_log_density(behaviour_mean, behaviour_std, action) - target, axis=-1)",
        f"{TEST_GAUSSIAN}::test_equals_tensorflow_probability",
    ),
    Variant(
        "squashed Gaussian: no Jacobian",
        SQUASHED,
        " - tf.reduce_sum(log_jacobian, axis=-1)",
        "",
        TEST_SLOPE,
    ),
    Variant(
        "squashed Gaussian: Jacobian upside down",
        SQUASHED,
        " - tf.reduce_sum(log_jacobian, axis=-1)",
        " + tf.reduce_sum(log_jacobian, axis=-1)",
        TEST_SLOPE,
    ),
    Variant(
        "squashed Gaussian: density of the action as it is",
        SQUASHED,
        "gaussian.log_prob(mean, std, unsquash(action))",
        "gaussian.log_prob(mean, std, action)",
        TEST_SLOPE,
    ),
    Variant(
        "squashed Gaussian: infinite at the bounds",
        SQUASHED,
        "return tf.clip_by_value(action, -LARGEST, LARGEST)",
        "return action",
        f"{TEST_SQUASHED}::test_values_and_gradients_are_finite_and_right_at_the_bounds",
    ),
    Variant(
        "squashed Gaussian: log std beyond its bound",
        SQUASHED,
        "0.5 * (log_std_max - log_std_min)",
        "(log_std_max - log_std_min)",
        f"{TEST_SQUASHED}::test_the_std_is_the_papers_formula",
    ),
    Variant(
        "squashed Gaussian: KL from the standard normal",
        SQUASHED,
        "gaussian.kl(mean, std, tf.zeros_like(mean), tf.ones_like(std))",
        "gaussian.kl(tf.zeros_like(mean), tf.ones_like(std), mean, std)",
        f"{TEST_SQUASHED}::test_divergences_are_integrals_over_actions",
    ),
    Variant(
        "squashed Gaussian: samples of the mean squashed first",
        SQUASHED,
        "return tf.tanh(mean + std * noise)",
        "return tf.tanh(mean) + std * noise",
        f"{TEST_SQUASHED}::test_samples_follow_the_distribution_and_the_seed",
    ),
]
