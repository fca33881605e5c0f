"""Wrong variants of measurements of runs and studies that a record would not reveal."""

from tests.mutations.variant import Variant

PLAY = "repro/acting/play.py"
WINDOW = "repro/training/trailing_returns.py"
STATISTICS = "repro/evidence/statistics.py"
SIMULATION = "repro/tabular/simulation.py"
LEARNING = "repro/tabular/learning.py"
STUDY = "repro/papers/ctrace/tabular_learning.py"
TABULAR_TRADEOFFS = "repro/papers/ctrace/tabular_tradeoffs.py"
PRIORITY = "repro/papers/ctrace/initial_priority.py"
FUSED = "repro/papers/refer/fused.py"
SEEDS = "repro/training/seeds.py"
GROUPS = "repro/evidence/groups.py"
MIGRATIONS = "repro/evidence/migrations.py"
NAF = "repro/papers/refer/naf.py"
RECURRENT = "repro/papers/refer/recurrent_vracer.py"
TEST_WINDOW = "tests/training/test_trailing_returns.py"
TEST_STUDY = "tests/papers/ctrace/test_tabular_study.py"
TEST_SIMULATION = "tests/tabular/test_simulation.py"
TEST_PRIORITY = "tests/papers/ctrace/test_initial_priority.py"

VARIANTS = [
    Variant(
        "regression: the last two seeds alone confirm",
        "repro/regression/bands.py",
        "for found in tries[:-1]]",
        "for found in tries[-2:-1]]",
        "tests/regression/test_bands.py::test_a_regression_is_the_same_measure_at_the_same_end_with_every_seed",
    ),
    Variant(
        "evaluation: the first games to end",
        PLAY,
        "if len(games[i]) < episodes // num_envs:",
        "if left:",
        "tests/acting/test_play.py::test_every_environment_counts_the_same_number_of_games",
    ),
    Variant(
        "evaluation by training: games of earlier windows",
        WINDOW,
        "if entered > begin]",
        "if entered <= step]",
        f"{TEST_WINDOW}::test_only_episodes_of_the_window_count",
    ),
    Variant(
        "evaluation: std over N",
        STATISTICS,
        "np.std(values, ddof=1, dtype=np.float64)",
        "np.std(values, ddof=0, dtype=np.float64)",
        f"{TEST_WINDOW}::test_only_episodes_of_the_window_count",
    ),
    Variant(
        "simulation: next state by the number of the action",
        SIMULATION,
        "uniforms[2 * t + 1]",
        "uniforms[2 * t]",
        "tests/papers/impala/test_online_theorem.py::test_its_record_has_the_papers_statement",
        slow=True,
    ),
    Variant(
        "simulation: variance around the mean of the samples",
        SIMULATION,
        "operator(mdp, pi, mu, m, horizon=length)(q)[first]",
        "t.mean()",
        f"{TEST_SIMULATION}::test_estimated_variance_is_the_exact_one",
    ),
    Variant(
        "tabular learning: trace of the step itself",
        LEARNING,
        "c[r, y, actions[t + 1, r]]",
        "c[r, x, a]",
        f"{TEST_SIMULATION}::test_learning_follows_the_printed_targets_within_episodes_and_the_round",
    ),
    Variant(
        "tabular learning: ratio of the first action",
        LEARNING,
        "if u > t:",
        "if u >= t:",
        f"{TEST_SIMULATION}::test_learning_follows_the_printed_targets_within_episodes_and_the_round",
    ),
    Variant(
        "tabular learning: mean of visits not divided",
        LEARNING,
        "total[x, a] / count[x, a] - q[r, x, a]",
        "total[x, a] - q[r, x, a]",
        f"{TEST_SIMULATION}::test_learning_follows_the_printed_targets_within_episodes_and_the_round",
    ),
    Variant(
        "tabular learning: an episode's update seen a point too early",
        STUDY,
        "-(-end // length)",
        "end // length",
        f"{TEST_STUDY}::test_evaluation_learns_from_each_whole_episode_at_its_end",
    ),
    Variant(
        "tabular learning: a fall of the best alpha from a round to the next alone",
        STUDY,
        "(np.maximum.accumulate(best) - best).max(0)",
        "(best[:-1] - best[1:]).max(0)",
        f"{TEST_STUDY}::test_how_far_the_best_alpha_falls_and_rises_by_hand",
    ),
    Variant(
        "tabular learning: the best alpha's moves before the early round",
        STUDY,
        "errors[compared.early_evaluation_round :]",
        "errors",
        f"{TEST_STUDY}::test_how_far_the_best_alpha_falls_and_rises_by_hand",
    ),
    Variant(
        "R2D2: first priority over boundary rows",
        PRIORITY,
        "size.sum() / live.sum()",
        "size.mean()",
        f"{TEST_PRIORITY}::test_learner_with_the_actors_weights_gives_the_same",
    ),
    Variant(
        "R2D2: first priority without bootstrap at the end of the sequence",
        PRIORITY,
        "np.append(is_boundary[1:], True)",
        "np.append(is_boundary[1:], False)",
        f"{TEST_PRIORITY}::test_td_errors_are_those_of_the_definition",
    ),
    Variant(
        "ReF-ER: acting on states that are only shifted",
        FUSED,
        "(state - self._offset) / self._divisor",
        "state - self._offset",
        "tests/papers/refer/test_fused.py::test_acting_is_the_network_on_standardised_states",
    ),
    Variant(
        "run: environments and action sampling with each other's seeds",
        SEEDS,
        "numbers[::2], numbers[1::2], replay)",
        "numbers[1::2], numbers[::2], replay)",
        "tests/training/test_seeds.py::test_they_stay_what_they_were",
    ),
    Variant(
        "groups: stale records averaged with the others",
        GROUPS,
        "            stale[key][item.path] = reason\n        else:\n            current",
        "            stale[key][item.path] = reason\n        if True:\n            current",
        "tests/evidence/test_groups.py::test_stale_record_is_said_and_not_counted",
    ),
    Variant(
        "groups: the smallest scale at hand",
        GROUPS,
        'scale = max((record["scale"]',
        'scale = min((record["scale"]',
        "tests/evidence/test_groups.py::test_only_the_largest_scale_is_averaged",
    ),
    Variant(
        "records: std of older ones over N",
        MIGRATIONS,
        "if version < 4:",
        "if version < 3:",
        "tests/evidence/test_migrations.py::test_version_4_has_the_standard_deviation_over_n_minus_1",
    ),
    Variant(
        "NAF: weights of prioritised samples left out",
        NAF,
        'batch["weight"] * losses.total',
        "losses.total",
        "tests/papers/refer/test_prioritised.py::test_a_weight_multiplies_the_gradient_of_its_sample",
        slow=True,
    ),
    Variant(
        "V-RACER with memory: last value of more states than a window has",
        RECURRENT,
        "last][-self.window :]:",
        "last]:",
        "tests/papers/refer/test_recurrent_vracer.py::test_ratios_of_the_policy_that_acted_are_1_and_values_are_its_own",
    ),
    Variant(
        "tabular study: as many states in a garnet as it has actions",
        TABULAR_TRADEOFFS,
        "mdps.garnet(env.num_states, env.num_actions,",
        "mdps.garnet(env.num_actions, env.num_states,",
        f"{TEST_STUDY}::test_problems_have_the_configured_size",
    ),
    Variant(
        "tabular learning: control towards the optimal policy",
        STUDY,
        "else mdps.greedy_policy(estimate)",
        "else np.broadcast_to(optimal, estimate.shape)",
        f"{TEST_STUDY}::test_control_improves_each_method_by_its_own_estimate",
    ),
    Variant(
        "tabular learning: std of the repetitions for the standard error",
        STUDY,
        "(errors[i] @ weights.T).std(-1)",
        "errors[i].std(-1)",
        f"{TEST_STUDY}::test_bands_of_figure_3_are_standard_errors_of_the_mean",
    ),
    Variant(
        "tabular study: variance at Q of the target policy",
        TABULAR_TRADEOFFS,
        "pi, mu, points, np.zeros_like(mdp.rewards))",
        "pi, mu, points, mdps.action_values(mdp, pi))",
        f"{TEST_STUDY}::test_points_of_a_figure_are_exact_rates_and_biases_and_estimated_variances_at_q_0",
    ),
]
