"""Wrong variants of what stands in a row: claims, results, shortfalls, random play and settings."""

from tests.mutations.variant import Variant

CLAIMS = "repro/evidence/claims.py"
COMPARISONS = "repro/evidence/comparisons.py"
LEARNING = "repro/evidence/learning.py"
MEASURES = "repro/evidence/task_measures.py"
RESULTS = "repro/evidence/results.py"
FINDINGS = "repro/evidence/findings.py"
SENTENCES = "repro/evidence/sentences.py"
ROWS = "repro/evidence/rows.py"
RANDOM = "repro/evidence/random_player.py"
SETTINGS = "repro/evidence/settings.py"
TEST_CLAIMS = "tests/evidence/test_claims.py"
TEST_COMPARISONS = "tests/evidence/test_comparisons.py"
TEST_LEARNING = "tests/evidence/test_learning.py"
TEST_MEASURES = "tests/evidence/test_task_measures.py"
TEST_RESULTS = "tests/evidence/test_results.py"
TEST_FINDINGS = "tests/evidence/test_findings.py"
TEST_SENTENCES = "tests/evidence/test_sentences.py"
TEST_REFERENCES = "tests/evidence/test_references.py"
TEST_CLAIM_INTERVALS = "tests/evidence/test_claim_intervals.py"
TEST_RANDOM = "tests/evidence/test_random_player.py"

VARIANTS = [
    Variant(
        "rows: runs that diverged are not named",
        RESULTS,
        'count = sum("diverged" in record for record in every)',
        'count = sum("diverges" in record for record in every)',
        f"{TEST_FINDINGS}::test_runs_that_diverged_count_and_are_named",
    ),
    Variant(
        "rows: the first runs in place of the best",
        "repro/evidence/results.py",
        "comparisons.best_runs(printed, group.records)",
        'group.records[: printed.protocol.get("best")]',
        "tests/evidence/test_results.py"
        "::test_of_the_best_runs_of_a_sweep_those_that_end_best_count_and_the_row_says_of_how_many",
    ),
    Variant(
        "rows: any lead is a wider gap",
        "repro/evidence/task_measures.py",
        "ours - theirs > ours_before - theirs_before",
        "ours - theirs > 0 * ours_before",
        "tests/evidence/test_task_measures.py::test_a_gap_widens_where_the_lead_is_larger_with_the_change",
    ),
    Variant(
        "claim: a bootstrap of three runs",
        CLAIMS,
        "MIN_BOOTSTRAP_RUNS = 4",
        "MIN_BOOTSTRAP_RUNS = 3",
        f"{TEST_CLAIM_INTERVALS}::test_a_bootstrap_takes_four_runs_of_each_agent",
    ),
    Variant(
        "claim: a bootstrap interval without width is kept",
        CLAIMS,
        "over_tasks(np.stack(numbers)), [tail, 1 - tail]))\n    return (low, high) if low < high else None",
        "over_tasks(np.stack(numbers)), [tail, 1 - tail]))\n    return low, high",
        f"{TEST_CLAIM_INTERVALS}::test_a_ratio_whose_resamples_are_all_one_number_has_no_interval",
    ),
    Variant(
        "claim: the level of random play is not looked at",
        CLAIMS,
        "if claim.learned is None:",
        "if claim.learned is not None or claim.learned is None:",
        f"{TEST_REFERENCES}::test_a_claim_about_scores_at_the_level_of_random_play_is_not_answered",
    ),
    Variant(
        "claim: without a random player every level will do",
        LEARNING,
        'return f"no record of a random player on {task}"',
        'return ""',
        f"{TEST_REFERENCES}::test_a_claim_about_scores_at_the_level_of_random_play_is_not_answered",
    ),
    Variant(
        "claim: policies that never learned are compared",
        LEARNING,
        "low > upper and score > start for",
        "low > upper for",
        f"{TEST_REFERENCES}::test_scores_of_policies_that_never_learned_are_not_compared",
    ),
    Variant(
        "claim: what is above random play by chance counts as learned",
        LEARNING,
        "low > upper and score > start for",
        "score > upper and score > start for",
        f"{TEST_LEARNING}::test_agents_that_play_at_random_seldom_count_as_learned",
    ),
    Variant(
        "claim: the best of many runs count as if they were all",
        LEARNING,
        "tail = chance / sum(map(len, chosen_from))",
        "tail = chance / len(by_agent)",
        f"{TEST_LEARNING}::test_agents_that_play_at_random_seldom_count_as_learned",
    ),
    Variant(
        "claim: losses of agents that had nothing to lose",
        LEARNING,
        "return ours_before and theirs_before",
        "return ours_before or theirs_before",
        f"{TEST_LEARNING}::test_every_agent_that_a_claim_rests_on_must_have_learned",
    ),
    Variant(
        "claim: the level of a curve may be that of random play",
        LEARNING,
        "if level is not None and not upper < level > max(starts):",
        "if level is not None and not level > max(starts):",
        f"{TEST_LEARNING}::test_the_level_of_a_curve_must_show_learning_as_well",
    ),
    Variant(
        "claim: the best runs are chosen once for all resamples",
        "repro/evidence/statistics.py",
        "np.diff(taken, axis=-1, prepend=0) / taken[:, -1:]",
        "np.diff(taken, axis=-1, prepend=0) / best",
        f"{TEST_CLAIM_INTERVALS}::test_the_best_of_a_resample_are_chosen_anew",
    ),
    Variant(
        "claim: the best runs are a sample of their own",
        CLAIMS,
        "samples = [[runs[i] for i in rng.integers(len(runs), size=len(runs))] for runs in by_agent]",
        "samples = [[comparisons.best_of(r, best)[i] for i in rng.integers(best, size=best)] for r in by_agent]",
        f"{TEST_CLAIM_INTERVALS}::test_the_best_of_equal_agents_seldom_differ_surely",
    ),
    Variant(
        "claim: counts at the level of a single task",
        CLAIMS,
        "return _count_interval(claim, tasks, numbers, 1 - (1 - confidence) / len(tasks))",
        "return _count_interval(claim, tasks, numbers, 0.5)",
        f"{TEST_CLAIM_INTERVALS}::test_counts_cover_the_true_one_where_agents_differ_little",
    ),
    Variant(
        "claim: the best of policies that never learned count as learned",
        LEARNING,
        "starts = [_untrained(every, CHANCE / min(map(len, by_agent)))]",
        "starts = [_untrained(every)]",
        f"{TEST_LEARNING}::test_the_best_of_policies_that_never_learned_seldom_count_as_learned",
    ),
    Variant(
        "rows: what is assumed is not missing",
        FINDINGS,
        "if printed.assumed is not None:",
        "if printed.assumed is None and printed.assumed:",
        f"{TEST_CLAIMS}::test_what_is_assumed_keeps_a_row_from_being_reproduced",
    ),
    Variant(
        "claim: a count without spread is known whatever the runs",
        CLAIMS,
        "if _can_be_ordered(by_agent, confidence):",
        "if by_agent:",
        f"{TEST_CLAIM_INTERVALS}::test_a_count_of_runs_that_lie_apart_is_known_to_the_nearest_whole_number",
    ),
    Variant(
        "claim: a number of tasks from a part of the set",
        CLAIMS,
        "if claim.takes_all_tasks and 0 < len(usable) < total:",
        "if claim.takes_all_tasks and not usable:",
        f"{TEST_CLAIMS}::test_tasks_won_and_their_share",
    ),
    Variant(
        "budget: a run that diverged shortens that of all",
        RESULTS,
        'for record in records if "diverged" not in record]',
        "for record in records]",
        f"{TEST_FINDINGS}::test_the_budget_of_a_run_that_diverged_is_not_that_of_the_row",
    ),
    Variant(
        "curves: time stands still after a divergence",
        "repro/evidence/run_measures.py",
        "return np.where(frames > logged[-1], at_mean_pace, np.interp(frames, logged, seconds))",
        "return np.where(frames < logged[0], at_mean_pace, np.interp(frames, logged, seconds))",
        "tests/evidence/test_run_measures.py::test_seconds_pass_evenly_between_rows",
    ),
    Variant(
        "claim: foreign settings of an opponent are ignored",
        CLAIMS,
        "reason = reason or _without_learning(",
        "reason = _without_learning(",
        f"{TEST_REFERENCES}::test_an_opponent_with_settings_neither_the_paper_s_nor_ours_answers_nothing",
    ),
    Variant(
        "claim: settings that both agents change alike are foreign",
        CLAIMS,
        "if ours.get(name) != value and name not in not_printed",
        "if name not in not_printed",
        f"{TEST_REFERENCES}::test_an_opponent_with_settings_neither_the_paper_s_nor_ours_answers_nothing",
    ),
    Variant(
        "claim: the strongest comparison counts",
        CLAIMS,
        'return -result.value if printed.better in ("less", "under") else result.value',
        'return result.value if printed.better in ("less", "under") else -result.value',
        f"{TEST_COMPARISONS}::test_the_weakest_of_several_comparisons_counts",
    ),
    Variant(
        "claim: missing tasks are not said",
        CLAIMS,
        "if len(tasks) < total else ()",
        "if len(tasks) > total else ()",
        f"{TEST_COMPARISONS}::test_fewer_tasks_of_the_set_are_counted_and_not_reproduced",
    ),
    Variant(
        "claim: missing agents are not said",
        CLAIMS,
        "if left_out else ()",
        "if not against else ()",
        f"{TEST_COMPARISONS}::test_agents_without_runs_are_left_out_and_named",
    ),
    Variant(
        "claim: ends of an average are not rounded",
        CLAIMS,
        "low, high = map(_rounded, intervals.average(numbers, known))",
        "low, high = intervals.average(numbers, known)",
        f"{TEST_CLAIM_INTERVALS}::test_even_odds_are_not_surpassed_by_rounding",
    ),
    Variant(
        "claim: unequal searches are not said",
        COMPARISONS,
        "all(len(sizes) == 1 for sizes in chosen)",
        "all(len(sizes) >= 1 for sizes in chosen)",
        f"{TEST_COMPARISONS}::test_runs_to_choose_the_best_from_are_equally_many_and_judged_by_the_fewest",
    ),
    Variant(
        "improvement: a tie is a win",
        "repro/evidence/statistics.py",
        "return (ours[:, None] > theirs) + 0.5 * (ours[:, None] == theirs)",
        "return (ours[:, None] > theirs) + 1.0 * (ours[:, None] == theirs)",
        f"{TEST_MEASURES}::test_improvement_counts_pairs_of_runs",
    ),
    Variant(
        "claim: of comparisons that should be equal, the lowest counts",
        CLAIMS,
        'if printed.better == "equal" and printed.value is not None:',
        "if printed.better is None and printed.value is not None:",
        f"{TEST_CLAIMS}::test_the_comparison_furthest_from_a_tie_decides_where_two_should_be_equal",
    ),
    Variant(
        "claim: the end of a log is its start",
        "repro/evidence/run_measures.py",
        "[start_and_end(values)[1] for values in",
        "[start_and_end(values)[0] for values in",
        f"{TEST_MEASURES}::test_the_end_of_the_log_is_its_last_tenth_over_columns_and_runs",
    ),
    Variant(
        "claim: losses in points of each agent's own score",
        MEASURES,
        "1.0 - score / np.where(positive, before, 1.0)",
        "before - score / np.where(positive, 1.0, 1.0)",
        f"{TEST_MEASURES}::test_a_difference_of_losses_is_of_shares_of_each_agent_s_score",
    ),
    Variant(
        "row: what training comes to is contradicted early",
        FINDINGS,
        "claims.find_claim(printed).reached_by_training",
        "printed.statement is None",
        f"{TEST_CLAIMS}::test_what_training_comes_to_is_not_contradicted_by_less_of_it",
    ),
    Variant(
        "row: a finding from any number of runs",
        FINDINGS,
        'if len(ours.fields["seeds"]) < min(',
        'if len(ours.fields["seeds"]) < 0 * min(',
        f"{TEST_FINDINGS}::test_no_finding_below_five_runs_or_the_paper_s",
    ),
    Variant(
        "row: as many runs as the paper before any finding",
        FINDINGS,
        "min(MIN_RUNS, printed.n_seeds or MIN_RUNS)",
        "(printed.n_seeds or MIN_RUNS)",
        f"{TEST_FINDINGS}::test_no_finding_below_five_runs_or_the_paper_s",
    ),
    Variant(
        "row: a score contradicts before the budget is spent",
        FINDINGS,
        'if found == "contradicts" and too_early and _reached_by_training(printed):',
        'if found == "contradicts" and False and _reached_by_training(printed):',
        f"{TEST_FINDINGS}::test_a_score_that_is_not_reached_with_less_training_is_undecided",
    ),
    Variant(
        "row: more training may turn a comparison",
        FINDINGS,
        'if found == "contradicts" and too_early and _reached_by_training(printed):',
        'if found == "contradicts" and too_early:',
        f"{TEST_COMPARISONS}::test_a_comparison_the_wrong_way_round_disagrees_with_little_training_too",
    ),
    Variant(
        "row: an exact number without its interval",
        FINDINGS,
        'if ours.fields.get("exact") else interval',
        "if False else interval",
        f"{TEST_FINDINGS}::test_an_exact_number_needs_no_interval",
    ),
    Variant(
        "row: one exact run makes the mean exact",
        RESULTS,
        'measure == "evaluation" and all(record["evaluation"].get("exact"',
        'measure == "evaluation" and any(record["evaluation"].get("exact"',
        f"{TEST_RESULTS}::test_all_runs_behind_an_exact_row_are_exact",
    ),
    Variant(
        "row: settings that differ are no shortfall",
        ROWS,
        "list_shortfalls(printed, ours, share, len(differing))",
        "list_shortfalls(printed, ours, share, 0)",
        f"{TEST_FINDINGS}::test_settings_that_differ_are_counted_and_listed",
    ),
    Variant(
        "row: few games are no shortfall",
        FINDINGS,
        'if episodes is not None and fields["episodes"] < episodes:',
        'if episodes is not None and fields["episodes"] > episodes:',
        f"{TEST_FINDINGS}::test_games_of_the_evaluation_are_counted",
    ),
    Variant(
        "row: a margin from zero, not from random play",
        ROWS,
        "judge(printed, ours, share, random or 0.0)",
        "judge(printed, ours, share, 0.0)",
        f"{TEST_FINDINGS}::test_margins_are_around_the_printed_number",
    ),
    Variant(
        "row: what cannot be run here is merely not run",
        FINDINGS,
        'return "not run" if printed.cannot_run is None else "cannot run here"',
        'return "not run"',
        f"{TEST_FINDINGS}::test_what_cannot_be_run_here_says_what_it_needs",
    ),
    Variant(
        "row: the parts of a sentence count one by one",
        SENTENCES,
        "index if row.sentence is None else row.sentence",
        "index",
        f"{TEST_SENTENCES}::test_sentences_count_once_with_their_weakest_part",
    ),
    Variant(
        "row: sentences of two papers are one",
        SENTENCES,
        "parts.setdefault((row.paper, index",
        'parts.setdefault(("", index',
        f"{TEST_SENTENCES}::test_a_sentence_is_of_one_paper",
    ),
    Variant(
        "row: a single seed is taken for several",
        RESULTS,
        "intervals.mean_interval(values)\n    elif",
        "intervals.mean_interval(games)\n    elif",
        f"{TEST_RESULTS}::test_the_interval_of_one_seed_is_over_its_games_and_that_of_more_over_the_seeds",
    ),
    Variant(
        "random play: sticky actions make no other game",
        RANDOM,
        '    "stack",\n',
        '    "stack",\n    "sticky_probability",\n',
        f"{TEST_RANDOM}::test_what_the_game_does_makes_another_game",
    ),
    Variant(
        "random play: stacked frames make another game",
        RANDOM,
        '    "stack",\n',
        "",
        f"{TEST_RANDOM}::test_what_an_agent_sees_and_learns_from_makes_no_other_game",
    ),
    Variant(
        "random play: the task of the config",
        RANDOM,
        'env | {"task": record["task"]}',
        "env",
        f"{TEST_RANDOM}::test_the_task_is_that_of_the_record_and_not_of_its_config",
    ),
    Variant(
        "random play: the lower end of its interval",
        RANDOM,
        "else interval[1]",
        "else interval[0]",
        f"{TEST_RANDOM}::test_the_bound_is_the_upper_end_of_the_interval_of_the_mean_over_games",
    ),
    Variant(
        "random play: one seed for all",
        RANDOM,
        '[record["seed"]] =',
        "[0] =",
        f"{TEST_RANDOM}::test_seeds_are_pooled_and_the_same_episodes_count_once",
    ),
    Variant(
        "claims: the random player of our own game alone",
        LEARNING,
        "players = [references.random(record) for runs in by_agent for record in runs]",
        "players = [references.random(record) for record in by_agent[0]]",
        f"{TEST_REFERENCES}::test_the_random_player_of_every_agent_s_game_counts",
    ),
    Variant(
        "random play: every agent plays at random",
        RANDOM,
        'if record["agent"] == AGENT:',
        "if record:",
        f"{TEST_RANDOM}::test_without_a_random_player_there_is_no_bound",
    ),
    Variant(
        "settings: a budget is a setting",
        SETTINGS,
        'NOT_SETTINGS = ("scale", "num_env_frames",',
        'NOT_SETTINGS = ("scale",',
        f"{TEST_FINDINGS}::test_settings_of_a_smaller_scale_differ_from_those_of_the_paper_s",
    ),
    Variant(
        "settings: printed values are not compared",
        SETTINGS,
        "if field not in NOT_SETTINGS and not _same(ours, setting.equals):",
        "if False:",
        f"{TEST_FINDINGS}::test_settings_that_differ_are_counted_and_listed",
    ),
    Variant(
        "settings: those printed for one agent are every agent's",
        SETTINGS,
        'if agent != record["agent"]:',
        "if False:",
        "tests/evidence/test_published_settings.py::test_a_setting_printed_for_one_agent_is_no_other_agent_s",
    ),
    Variant(
        "settings: sections that an agent does not read count",
        SETTINGS,
        'if "algorithm" not in variant or not sections:',
        "if True:",
        "tests/evidence/test_published_settings.py"
        "::test_sections_that_an_agent_of_another_algorithm_does_not_read_hold_no_settings_of_its_own",
    ),
    Variant(
        "settings: printed values of a section that an agent does not read count",
        SETTINGS,
        'if field.partition(".")[0] in unread:',
        "if False:",
        "tests/evidence/test_published_settings.py"
        "::test_sections_that_an_agent_of_another_algorithm_does_not_read_hold_no_settings_of_its_own",
    ),
    Variant(
        "findings: one agent counts as a population",
        "repro/evidence/findings.py",
        "sizes != {population}",
        "len(sizes) > 1",
        "tests/evidence/test_findings.py::test_an_agent_of_a_population_needs_one_of_its_size",
    ),
    Variant(
        "commands: tasks learned together are asked for one by one",
        "repro/evidence/commands.py",
        'task="" if learns_together(run, configs_dir) else run.task',
        "task=run.task",
        "tests/evidence/test_commands.py::test_tasks_learned_together_are_made_by_one_command_without_a_task",
    ),
]
