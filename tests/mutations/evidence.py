"""Wrong variants of what a result says about a printed number: findings, bands, margins and intervals."""

from tests.mutations.variant import Variant

VERDICTS = "repro/evidence/verdicts.py"
INTERVALS = "repro/evidence/intervals.py"
BANDS = "repro/evidence/bands.py"
OUTLIERS = "repro/evidence/outliers.py"
JUDGEMENTS = "repro/evidence/judgements.py"
PUBLISHED = "repro/evidence/published.py"
TEST_BANDS = "tests/evidence/test_bands.py"
TEST_OUTLIERS = "tests/evidence/test_outliers.py"
TEST_JUDGEMENTS = "tests/evidence/test_judgements.py"
TEST_VERDICTS = "tests/evidence/test_verdicts.py"
TEST_INTERVALS = "tests/evidence/test_intervals.py"

ANSWERABLE = "repro/evidence/answerable.py"
EXTERNAL = "repro/evidence/external.py"
TEST_ANSWERABLE = "tests/evidence/test_answerable.py"
TEST_EXTERNAL = "tests/evidence/test_external.py"

VARIANTS = [
    Variant(
        "judgements: bands that known outliers widen",
        JUDGEMENTS,
        "[item for item in reference if item.path not in outliers]",
        "list(reference)",
        f"{TEST_OUTLIERS}::test_a_known_outlier_is_no_regression_and_makes_no_band",
    ),
    Variant(
        "outliers: any number of a listed record explained",
        OUTLIERS,
        'known[item.path].mean == item.record["evaluation"]["mean"]',
        "known[item.path].reason",
        f"{TEST_OUTLIERS}::test_a_record_that_changed_is_not_the_one_that_is_known",
    ),
    Variant(
        "answerable: few runs count as many",
        ANSWERABLE,
        "min(count / verdicts.expected_runs(printed, learned), 1.0)",
        "1.0",
        f"{TEST_ANSWERABLE}::test_table_2_is_answered_level_by_level_and_its_claims_by_all_agents_compared",
    ),
    Variant(
        "answerable: runs that leave a row undecided answer it",
        ANSWERABLE,
        "part = is_decided * min(",
        "part = min(",
        f"{TEST_ANSWERABLE}::test_a_game_of_table_c1_needs_its_runs_and_the_paper_s_budget",
    ),
    Variant(
        "answerable: a place is one comparison",
        "repro/evidence/claim_kinds.py",
        '(1 if self.joined_by == "all" else others)',
        "1",
        f"{TEST_ANSWERABLE}::test_a_place_and_that_one_of_several_is_ahead_need_runs_for_every_comparison",
    ),
    Variant(
        "answerable: three runs of each task make an aggregate",
        ANSWERABLE,
        "min_runs = findings.runs_of_aggregate(printed)",
        "min_runs = 1",
        f"{TEST_ANSWERABLE}::test_an_aggregate_over_tasks_needs_as_many_runs_of_each_as_its_interval",
    ),
    Variant(
        "answerable: agents at different scales are compared",
        ANSWERABLE,
        'if record["scale"] == scale]',
        "]",
        f"{TEST_ANSWERABLE}::test_a_game_of_table_c1_needs_its_runs_and_the_paper_s_budget",
    ),
    Variant(
        "external check: the mean decides without its interval",
        EXTERNAL,
        "low, high = self.interval",
        "low = high = self.value",
        f"{TEST_EXTERNAL}::test_how_ours_stands",
    ),
    Variant(
        "external check: steps that fill the replay are not counted",
        EXTERNAL,
        "np.interp(item.at, used + _played_before(record), scores)",
        "np.interp(item.at, used, scores)",
        f"{TEST_EXTERNAL}::test_steps_that_fill_the_replay_count",
    ),
    Variant(
        "external check: the largest scale counts",
        EXTERNAL,
        "records = runs[-1]",
        "records = runs[0]",
        f"{TEST_EXTERNAL}::test_the_smallest_scale_that_gets_as_far_counts",
    ),
    Variant(
        "staleness: the behaviour version is not read",
        "repro/evidence/staleness.py",
        "if behaviour.of_record(record) != version:",
        "if False:",
        "tests/evidence/test_behaviour.py::test_a_raised_version_makes_older_records_of_these_agents_stale",
    ),
    Variant(
        "band: a further run's own spread is missing",
        BANDS,
        "np.sqrt(1 + 1 / count)",
        "np.sqrt(1 / count)",
        f"{TEST_BANDS}::test_band_of_a_hand_case",
    ),
    Variant(
        "band: the average spread of a family",
        BANDS,
        "variances.max(axis=-1)",
        "variances.mean(axis=-1)",
        f"{TEST_BANDS}::test_pooled_band_of_a_hand_case",
    ),
    Variant(
        "band: all degrees of freedom of a family",
        BANDS,
        "(dofs * variances).sum(axis=-1) ** 2 / np.where(positive, squares, 1.0)",
        "dofs.sum()",
        f"{TEST_BANDS}::test_pooled_band_of_a_hand_case",
    ),
    Variant(
        "band: a run is part of its own band",
        JUDGEMENTS,
        "reference.band(item.record, item.path, rate)",
        "reference.band(item.record, None, rate)",
        f"{TEST_JUDGEMENTS}::test_each_run_is_judged_by_the_others",
    ),
    Variant(
        "band: each record of a suite has the whole rate of false alarms",
        JUDGEMENTS,
        "bands.FALSE_ALARM_RATE / max(len(items) - len(reasons), 1)",
        "bands.FALSE_ALARM_RATE",
        f"{TEST_JUDGEMENTS}::test_each_run_is_judged_by_the_others",
    ),
    Variant(
        "finding: no difference surpasses no difference",
        VERDICTS,
        "(low > published, high <= published)",
        "(low >= published, high < published)",
        f"{TEST_VERDICTS}::test_the_place_of_the_interval_decides",
    ),
    Variant(
        "finding: under is not strict",
        VERDICTS,
        "(high < published, low >= published)",
        "(high <= published, low > published)",
        f"{TEST_VERDICTS}::test_the_place_of_the_interval_decides",
    ),
    Variant(
        "finding: the better end of the interval counts",
        VERDICTS,
        '"more": (low >= near - slack',
        '"more": (high >= near - slack',
        f"{TEST_VERDICTS}::test_the_place_of_the_interval_decides",
    ),
    Variant(
        "finding: a number to be met is met on one side",
        VERDICTS,
        "low >= near - slack and high <= far + slack",
        "low >= near - slack",
        f"{TEST_VERDICTS}::test_a_tolerance_moves_the_end_that_counts",
    ),
    Variant(
        "finding: equal without a margin is decided",
        VERDICTS,
        'if ends is None or (better == "equal" and tolerance is None):',
        "if ends is None:",
        f"{TEST_VERDICTS}::test_a_number_to_be_met_is_undecided_without_a_margin",
    ),
    Variant(
        "finding: the tolerance is ignored",
        VERDICTS,
        "ends, tolerance or (published, published)",
        "ends, (published, published)",
        f"{TEST_VERDICTS}::test_a_tolerance_moves_the_end_that_counts",
    ),
    Variant(
        "finding: rounding counts against us",
        VERDICTS,
        "slack = ROUNDING",
        "slack = -ROUNDING",
        f"{TEST_VERDICTS}::test_an_exact_number_is_never_undecided",
    ),
    Variant(
        "verdict: reproduced with a share of the protocol",
        VERDICTS,
        'if finding == "agrees" and not shortfalls:',
        'if finding == "agrees":',
        f"{TEST_VERDICTS}::test_reproduced_and_contradicts_mean_that_nothing_of_the_protocol_is_missing",
    ),
    Variant(
        "verdict: contradicts with a share of the protocol",
        VERDICTS,
        'if finding == "contradicts" and shortfalls else',
        'if finding == "undecided" and not finding else',
        f"{TEST_VERDICTS}::test_reproduced_and_contradicts_mean_that_nothing_of_the_protocol_is_missing",
    ),
    Variant(
        "interval: scores that happen to be 0 or 1 are a share",
        INTERVALS,
        "if unit.startswith(SHARE):",
        "if np.isin(values, (0.0, 1.0)).all():",
        f"{TEST_INTERVALS}::test_scores_that_happen_to_be_0_or_1_are_no_share",
    ),
    Variant(
        "sentence: the strongest part counts",
        VERDICTS,
        "return min(findings",
        "return max(findings",
        f"{TEST_VERDICTS}::test_a_sentence_is_as_good_as_its_weakest_part",
    ),
    Variant(
        "margin: tolerance on the wrong side",
        PUBLISHED,
        "return self.value - size, self.value + size",
        "return self.value + size, self.value - size",
        f"{TEST_VERDICTS}::test_the_tolerance_is_the_margin_around_the_number",
    ),
    Variant(
        "margin: a share of the number itself",
        PUBLISHED,
        "size *= abs(self.value - random)",
        "size *= abs(self.value)",
        f"{TEST_VERDICTS}::test_the_tolerance_is_the_margin_around_the_number",
    ),
    Variant(
        "margin: ends of a factor swap below zero",
        PUBLISHED,
        "return min(ends), max(ends)",
        "return ends",
        f"{TEST_VERDICTS}::test_the_tolerance_is_the_margin_around_the_number",
    ),
    Variant(
        "interval: equal scores have one without width",
        INTERVALS,
        "if values.size < 2 or np.ptp(values) == 0:",
        "if values.size < 2:",
        f"{TEST_INTERVALS}::test_scores_without_spread_have_no_interval",
    ),
    Variant(
        "interval: normal quantile of a mean",
        "repro/evidence/statistics.py",
        "special.stdtrit(size - 1, 0.5 + confidence / 2)",
        "special.ndtri(0.5 + confidence / 2)",
        f"{TEST_INTERVALS}::test_the_interval_of_a_mean_is_student_s",
    ),
    Variant(
        "interval: Student's of shares",
        INTERVALS,
        "if unit.startswith(SHARE):",
        "if unit and not SHARE:",
        f"{TEST_INTERVALS}::test_scores_of_0_and_1_are_shares",
    ),
    Variant(
        "interval: one beta for both ends of a share",
        INTERVALS,
        "special.betaincinv(count + 1, total - count, 1 - tail)",
        "special.betaincinv(count, total - count + 1, 1 - tail)",
        f"{TEST_INTERVALS}::test_the_interval_of_a_share_has_beta_quantiles",
    ),
    Variant(
        "interval: pairs of runs taken as independent",
        INTERVALS,
        "others = (ours + theirs) / 2 - 1",
        "others = 0.0",
        f"{TEST_INTERVALS}::test_the_ends_of_an_interval_of_improvement_are_z_standard_errors_away",
    ),
    Variant(
        "interval: a rank correlation as sure as a plain one",
        INTERVALS,
        "(1 + correlation**2 / 2) / (runs - 3)",
        "1 / (runs - 3)",
        f"{TEST_INTERVALS}::test_the_interval_of_a_rank_correlation_is_fisher_s",
    ),
    Variant(
        "interval: a perfect rank correlation outside its own",
        INTERVALS,
        "max(math.tanh(z + reach), correlation)",
        "math.tanh(z + reach)",
        f"{TEST_INTERVALS}::test_a_perfect_rank_correlation_lies_in_its_interval",
    ),
    Variant(
        "interval: widths of an average add up",
        INTERVALS,
        "add = math.fsum if dependent else _root_of_squares",
        "add = math.fsum",
        f"{TEST_INTERVALS}::test_the_ends_of_an_average_by_hand",
    ),
    Variant(
        "interval: tasks learned together are independent",
        INTERVALS,
        "add = math.fsum if dependent else _root_of_squares",
        "add = _root_of_squares",
        f"{TEST_INTERVALS}::test_the_ends_of_an_average_of_dependent_numbers_by_hand",
    ),
    Variant(
        "best of many: a tail of the bootstrap at either end is that of both",
        INTERVALS,
        "tail = (1 - statistics.expanded_level(LEVEL, runs, runs - 1)) / 2",
        "tail = 1 - statistics.expanded_level(LEVEL, runs, runs - 1)",
        f"{TEST_INTERVALS}::test_the_interval_of_the_best_is_the_wider_one_at_either_end",
    ),
    Variant(
        "best of many: Student's interval of the worst",
        INTERVALS,
        "mean_interval(sorted(scores)[-best:])",
        "mean_interval(sorted(scores)[:best])",
        f"{TEST_INTERVALS}::test_the_interval_of_the_best_is_the_wider_one_at_either_end",
    ),
    Variant(
        "best of many: rounding is a spread",
        INTERVALS,
        "return statistics.rounded(min(low, resampled[0])), statistics.rounded(max(high, resampled[1]))",
        "return float(min(low, resampled[0])), float(max(high, resampled[1]))",
        f"{TEST_INTERVALS}::test_the_interval_of_the_best_of_equal_scores_is_their_number",
    ),
]
