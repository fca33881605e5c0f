"""Readings of the papers in published rows: strict words, margins, sentences that count once, what cannot be run."""

import collections
import math
import re

import pytest

from paper_configs.impala import closed_form
from paper_configs.stac import atari, figure_4_robustness
from repro.environments import rwrl
from repro.environments.dm_control_task import import_suite
from repro.evidence import claim_intervals, claim_kinds, comparisons, published, random_player, records, staleness
from repro.evidence.claim_kinds import find_claim
from repro.evidence.verdicts import find

ROWS = [row for paper in published.papers() for row in published.load(paper).rows]
STRICT = re.compile(
    r"\b(better|worse|faster|slower|higher|lower|less|fewer|outperforms?|improves?|gains?|above|below|ahead|decreases?)\b"
)
WEAK = re.compile(
    r"comparable or superior|similar or worse|matches|competitive|at most|attains|not require a significant"
)
COUNTED = re.compile(r"tasks (won )?of \d|share of the tasks|percent of (setups|the time)|1 if ")
NEUTRAL = {"probability of improvement": 0.5, "difference": 0, "ratio": 1}
"""Beginnings of units to the number that says that two agents are equal."""
SCORES = ("percent", "game score", "episode return")


def one(paper, table, column, task=None):
    found = [r for r in published.load(paper).rows if (r.table, r.column) == (table, column) and task in (None, r.task)]
    assert len(found) == 1
    return found[0]


def judge(row, low, high, random=0.0):
    return find(row.value, row.better, (low, high), row.tolerance(random))


def parts(paper, sentence):
    return [row for row in published.load(paper).rows if row.sentence == sentence]


def test_strict_words_are_not_read_as_numbers_to_be_reached():
    loose = [
        f"{row.paper}, {row.table}: {row.statement}"
        for row in ROWS
        if row.statement is not None
        and row.better in ("more", "less")
        and not COUNTED.match(row.unit)
        and STRICT.search(row.statement)
        and not WEAK.search(row.statement)
    ]
    assert loose == []


def test_agents_that_may_be_equal_are_compared_by_weak_words_alone():
    equal = [row for row in ROWS for unit, value in NEUTRAL.items() if row.unit.startswith(unit) and row.value == value]
    assert len(equal) > 100
    odd = [row.column for row in equal if row.better in ("more", "less") and not WEAK.search(str(row.statement))]
    assert odd == []


def test_every_number_to_be_met_has_a_margin_and_every_margin_a_reason():
    open_ = [row.agent for row in ROWS if row.better == "equal" and row.margin is None]
    nothing_decides = ["evaluation_late_importance", "cost_over_acer"]
    assert open_ == nothing_decides  # as their notes say
    assert [(row.paper, row.column) for row in ROWS if (row.margin is None) != (row.margin_note is None)] == []
    strict = [row for row in ROWS if row.better in ("above", "under") and row.margin is not None]
    assert all(published.load(row.paper).tables[row.table].get("margin") for row in strict)  # not one of their own


def test_a_note_names_the_tasks_on_which_the_agent_compared_plays_as_at_random():
    row = one("refer", "Figure 4", "V-RACER, ReF-ER over ER")
    stored = [item.record for item in records.read_all(records.ROOT / "results")[0]]
    levels, means = random_player.levels(stored), collections.defaultdict(list)
    for record in stored:
        if (record["experiment"], [record["agent"]]) == (row.experiment, row.protocol["against"]):
            upper = levels[random_player.game_of(record)].upper
            means[record["task"]].append(record["evaluation"]["mean"] - upper)
    at_random = [task for task, above in means.items() if sum(above) <= 0]
    assert "Swimmer" in at_random
    assert [task for task in at_random if task not in row.note] == []


def test_what_a_note_calls_a_reading_of_ours_is_assumed():
    ours = [row for row in ROWS if row.statement and re.search("our reading|assumed", row.note or "")]
    assert len(ours) > 25
    assert [(row.paper, row.column) for row in ours if row.assumed is None] == []


def test_stability_and_robustness_of_impala_are_readings_of_ours_where_chances_of_improvement_stand_for_them():
    rows = [row for row in published.load("impala").rows if row.claim == "improvement"]
    rows = [row for row in rows if re.search("stab(le|ility)|robust", row.statement)]
    assert len(rows) == 5
    assert [row.column for row in rows if row.assumed is None] == []


def test_every_score_may_fall_short_by_a_tenth():
    scores = [
        row
        for row in ROWS
        if row.statement is None and row.unit in SCORES and row.measure == "evaluation" and row.agent
    ]
    assert len(scores) > 250
    assert {(row.better, row.margin) for row in scores} == {("more", ("share", 0.1))}
    pong = next(row for row in scores if (row.task, row.agent) == ("pong", "impala_shallow"))  # 20.4 printed
    assert pong.tolerance(-20.7)[0] == pytest.approx(20.4 - 0.1 * 41.1)


def test_acer_is_ahead_on_all_tasks_by_a_known_count_of_all_six_alone():
    row = one("acer", "Figure 2", "ACER over all other methods", "acer_control")
    reach = claim_intervals.COUNT_REACH / comparisons.TASK_SETS[row.task]
    assert reach < row.margin[1] < 1.1 * reach
    assert judge(row, 1 - reach, 1 + reach) == "agrees"
    assert judge(row, 5 / 6 - reach, 5 / 6 + reach) == "contradicts"


def test_half_of_ten_tasks_are_many_and_four_are_not():
    columns = {
        "V-RACER with ReF-ER over the best of DDPG, NAF, PPO and ACER": "refer",
        "STAC over IMPALA with and without auxiliary tasks, domains": "stac",
        "STACX over IMPALA with and without auxiliary tasks, domains": "stac",
    }
    reach = claim_intervals.COUNT_REACH / 10
    for column, paper in columns.items():
        (row,) = (row for row in published.load(paper).rows if row.column == column)
        assert judge(row, 0.5 - reach, 0.5 + reach) == "agrees", column
        assert judge(row, 0.4 - reach, 0.4 + reach) == "contradicts", column
        assert judge(row, 0.4, 0.6) == "undecided", column


def test_exact_numbers_are_met_exactly():
    units = ("network evaluations for a gradient", "network outputs", "beta", "metaparameters", "largest difference")
    exact = [row for row in ROWS if row.unit in units or "Largest divergence possible" in row.column]
    exact += [row for row in ROWS if row.unit.startswith("distance of its fixed point")]
    assert len(exact) == 1 + 2 + 2 + 2 + 6 + 2 + 3 + 2 + 6 + 1 + 3 + 5
    assert {(row.better, row.margin, row.margin_note) for row in exact} == {
        ("equal", ("absolute", 0), "an exact number")
    }
    assert {judge(row, row.value, row.value) for row in exact} == {"agrees"}
    assert {judge(row, row.value + 1e-6, row.value + 1e-6) for row in exact if row.value <= 1} == {"contradicts"}


def test_claims_can_be_answered_as_they_are_named():
    for row in ROWS:
        if row.claim is not None:
            claim_kinds.find_claim(row)
            assert row.agent
    without = {row.unit for row in ROWS if row.claim is None and row.agent and "against" in row.protocol}
    assert not {unit for unit in without if unit.startswith(("place among 4 corrections", "rank correlation"))}


def test_stac_s_improvements_are_strict():
    """A difference of 0 is none."""
    differences = [row for row in published.load("stac").rows if row.unit.startswith("difference")]
    assert len(differences) == 16 + 16 + 2 + 8 + 9 + 4 + 1
    for row in differences:
        assert judge(row, 0.0, 0.0) == "contradicts"
    of_atari = [row for row in differences if row.table == "Figure 2"]
    assert {row.claim for row in of_atari} == {"human_normalised_median_difference"}
    assert {row.sentence for row in of_atari} == {"two_trends", "more_metaparameters", "subsets_over_baseline", None}
    of_control = [row for row in differences if row.table == "Figure 3" and "against" in row.protocol]
    assert {row.claim for row in of_control} == {"score_difference"}
    sizes = {row.task: comparisons.TASK_SETS[row.task] for row in of_control}
    benchmark = len(import_suite().BENCHMARKING)
    assert sizes == {"dm_control_features": benchmark, "dm_control_pixels": benchmark, "rwrl": len(rwrl.TASKS)}


def test_stac_s_metaparameters_and_printed_theorem_have_rows():
    counts = parts("stac", "metaparameters")
    assert [(row.value, row.better) for row in counts] == [(21, "equal"), (2, "equal")]
    assert judge(counts[0], 18, 18) == "contradicts"
    theorem = parts("stac", "theorem_2")
    printed = [row for row in theorem if "alpha_rho >= alpha_c" in row.statement]
    assert (len(theorem), len(printed)) == (6, 5)
    for row in printed:
        assert "wrong way round" in row.note


def test_stac_s_robustness_is_read_from_agents_that_differ_in_one_field():
    """Of Figure 4: the lower value against the published one, for STACX and for IMPALA; all starts against 0.99."""
    agents = figure_4_robustness.variants()
    both = parts("stac", "less_severe")
    losses = [row for row in both if row.claim == "difference_of_losses"]
    assert {row.task for row in losses} == {"jamesbond", "chopper_command"}
    of_one = {(row.task, row.agent, *row.protocol["against"]) for row in both if row not in losses}
    assert of_one == {
        (row.task, changed, before)
        for row in losses
        for changed, before in ((row.agent, row.protocol["against"][0]), row.protocol["against"][1:])
    }
    for row in losses:
        changed, before, *theirs = (agents[name]["loss"] for name in (row.agent, *row.protocol["against"]))
        assert [changed, before] == theirs
        (field,) = changed
        assert before[field] == atari.get_config("paper").loss[field] > changed[field]
        assert row.agent.startswith("stacx")
        assert [name.split("_")[0] for name in row.protocol["against"]] == ["stacx", "impala", "impala"]
    for row, field in zip(parts("stac", "starting_values"), ("initial", "initial_gamma")):
        starts = [1 / (1 + math.exp(-agents[name]["meta"][field])) for name in (row.agent, *row.protocol["against"])]
        assert starts == pytest.approx([0.99, 0.992, 0.995, 0.997, 0.999])


def test_stac_s_metaparameters_at_the_end_are_those_that_records_keep():
    of_figure = [row for row in published.load("stac").rows if row.table == "Figure 5"]
    rows = [row for row in of_figure if row.claim == "logged_at_the_end"]
    kept = atari.get_config("paper").recorded
    read = [column for row in rows for column in row.protocol["columns"]]
    assert sorted(read) == sorted(column for column in kept if column.startswith(("gamma_", "alpha_")))
    assert [judge(row, 0.99, 0.99) for row in rows] == ["contradicts"] * 3  # where metaparameters begin
    assert [judge(row, 0.985, 0.9899) for row in rows[1:]] == ["contradicts"] * 2  # a move that none would see
    needs = {need.partition(".")[2] for row in of_figure if row.agent == "stacx" for need in find_claim(row).needs}
    assert needs == {column for column in kept if column not in ("entropy", "kl")}


def test_stac_s_two_alphas_are_those_that_records_keep():
    """As many rows as the paper has numbers; what is never tuned does not pass."""
    rows = [row for row in published.load("stac").rows if row.claim == "share_of_log_above"]
    assert [(row.value, row.protocol["factor"]) for row in rows] == [(91.2, 1), (99.2, 0.99), (50, 1)]
    kept = atari.variants()["stacx_two_alphas"]["recorded"]
    for row in rows:
        assert (row.agent, row.cannot_run) == ("stacx_two_alphas", None)
        assert {need.partition(".")[2] for need in find_claim(row).needs} == {c for c in kept if "alpha" in c}
    assert [judge(row, 50, 50) for row in rows] == ["contradicts"] * 3
    assert "scale" in rows[1].protocol  # what hardly moves has all of the time there


def test_stac_s_fall_by_gamma_alone_is_to_be_less_than_that_of_the_agent_it_cites():
    """Of Section 9.5's numbers: 243 to 240 %, and 257.1 to 183 %, which has another start of games."""
    fall, smaller = parts("stac", "decrease_of_gamma_alone")
    assert smaller.value == round(183 / 257.1, 3)
    assert (fall.agent, fall.protocol["against"]) == (smaller.agent, smaller.protocol["against"])
    assert judge(fall, 240 - 243, 240 - 243) == judge(smaller, 240 / 243, 240 / 243) == "agrees"
    assert judge(smaller, smaller.value, smaller.value) == "contradicts"


def test_stac_s_weights_of_the_kl_loss_are_in_order():
    row = one("stac", "Section 9.3", "STACX, weight of the KL loss")
    agents = atari.variants()
    weights = [
        agents[name]["meta"].get("kl_cost", atari.get_config("paper").meta.kl_cost)
        for name in (row.agent, *row.protocol["against"])
    ]
    assert (row.claim, weights) == ("trend", [0, 0.3, 1, 2])


def test_stacx_s_sets_of_metaparameters_grow_in_the_order_of_their_trend():
    row = one("stac", "Figure 2", "STACX, more metaparameters tuned")
    agents = atari.variants()
    tuned = [set(agents[name]["meta"]["tuned"]) for name in (row.agent, *row.protocol["against"])]
    assert all(fewer < more for fewer, more in zip(tuned, tuned[1:]))
    assert (tuned[0], row.claim, row.value, row.better) == (set(), "trend", 0.5, "above")


def test_refer_s_learning_rate_is_task_specific_where_none_of_three_is_best_on_all_tasks():
    rows = [row for row in parts("refer", "batch_and_learning_rate") if row.claim == "tasks_won_share"]
    compared = [[row.agent, *(name.split("/")[-1] for name in row.protocol["against"])] for row in rows]
    assert [agents[0] for agents in compared] == ["vracer_refer", "vracer_half_eta", "vracer_twice_eta"]
    assert [set(agents) for agents in compared] == [{"vracer_refer", "vracer_half_eta", "vracer_twice_eta"}] * 3
    reach, of_nine = (claim_intervals.COUNT_REACH / tasks for tasks in (comparisons.TASK_SETS["mujoco_gym"], 9))
    for row in rows:
        assert judge(row, 1 - reach, 1 + reach) == "contradicts"
        assert judge(row, 1 - of_nine, 1 + of_nine) == "undecided"  # the tenth task may have another best rate
        assert judge(row, 0.9 - reach, 0.9 + reach) == "agrees"
        assert judge(row, 0.9 - reach, 1 + reach) == "undecided"


def test_about_is_read_both_ways():
    for task, value in (("Humanoid", 100), ("Walker2d", 50)):
        row = one("refer", "Figure 2", "DDPG with ER", task)
        found = [judge(row, share * value, share * value) for share in (0.4, 0.7, 1.5, 3.0)]
        assert found == ["contradicts", "agrees", "agrees", "contradicts"]
    time = one("stac", "Section 9.4", "Self-tuning, extra time")
    assert [judge(time, x, x) for x in (10, 23, 25, 29, 40)] == [
        "contradicts", "agrees", "agrees", "agrees", "contradicts",
    ]  # fmt: skip
    compute = parts("stac", "slightly_more_compute")  # of one judgement, which counts once
    costs = [row for row in ROWS if row.experiment == "update_cost"]
    assert [row for row in costs if row not in compute] == [
        one("stac", "Section 9.4", "STAC, compute of self-tuning over IMPALA's")
    ]
    assert {row.table for row in compute} == {"Abstract", "Section 9.4"}
    for row in compute:
        assert [judge(row, x, x) for x in (1.0, 1.27, 1.6)] == ["agrees", "agrees", "contradicts"]
        assert judge(row, 0.9, 0.9) == ("contradicts" if "slightly more" in row.statement else "agrees")
        assert "calls hard to measure" in row.assumed
    hours = one("impala", "Section 5.3.1", "IMPALA, 1 learner, to the final performance of A3C")
    assert [judge(hours, x, x) for x in (1, 10, 20)] == ["contradicts", "agrees", "contradicts"]
    assert (
        judge(one("refer", "Figure 5", "V-RACER with ReF-ER against PPO, divergence at the end"), 0.6, 0.7)
        == "contradicts"
    )


def test_what_is_comparable_robust_or_similar_has_a_margin_that_is_ours():
    words = ("comparable", "robust to the choice", "similar", "minor", "negligible", "match", "roughly", "closely")
    rows = [
        row for row in ROWS if row.paper in ("ctrace", "refer") and row.margin is not None and row.agent is not None
    ]
    rows = [row for row in rows if any(word in row.statement for word in words) and row.claim is not None]
    assert len(rows) >= 20
    for row in rows:
        assert row.assumed is not None, row.column
    aggregates = [row for row in rows if row.unit == "ratio of aggregates"]
    assert len(aggregates) == 12
    for row in aggregates:
        assert row.tolerance() == pytest.approx((1 / 1.1, 1.1))
        assert "set before any run" in published.load("ctrace").tables[row.table]["notes"]
        assert (judge(row, 0.95, 1.05), judge(row, 0.7, 1.4)) == ("agrees", "undecided")


def test_the_same_share_of_problems_has_the_same_finding_whatever_their_number():
    shares = [row for row in published.load("ctrace").rows if row.column.endswith("less bias at every n")]
    assert len(shares) == 1 + 18
    assert all("set after the shares had been seen" in row.assumed for row in shares)
    for row in shares:
        assert row.tolerance() == pytest.approx((0.95, 1.05))
        for ends in ((0.9568, 0.9969), (0.9766, 0.9923), (0.9817, 1.0), (1.0, 1.0)):  # 200 problems, 1000, 200, one
            assert judge(row, *ends) == "agrees"
        assert judge(row, 0.80, 0.90) == "contradicts"


def test_c_trace_s_sentences_count_once():
    robust = parts("ctrace", "robust")
    assert len(robust) == 2 * 3 * 6  # what is measured, on six pairings of policies and three kinds of MDPs
    assert {row.table for row in robust} == {"Figure 6", "Figure 7", "Figure 8"}
    efficient = parts("ctrace", "pareto_efficient")
    assert [(row.table, row.agent) for row in efficient] == [
        ("Figure 1", "pareto_share"),
        ("Figure 1", "pareto_bias_ratio"),
    ]
    assert [row.agent for row in parts("ctrace", "best_alpha")] == [
        "evaluation_late",
        "evaluation_best_alpha_early",
        "evaluation_best_alpha_late",
        "evaluation_best_alpha_fall",
        "evaluation_best_alpha_step",
    ]
    assert not [row for row in ROWS if "rise" in str(row.agent)]
    assert not [
        name for name in staleness.current_config("ctrace", "tabular_fig3", "paper")["answers"] if "rise" in name
    ]


def test_large_n_is_among_the_best_only_ahead_of_all_other_methods():
    few = parts("ctrace", "evaluation_few_steps")
    assert {"evaluation_early_rest", "evaluation_early_n_rest"} < {row.agent for row in few}
    assert {row.better for row in few} == {"above"}


def test_each_paper_has_three_main_claims_that_runs_here_can_answer():
    main = [row for row in ROWS if row.main]
    assert collections.Counter(row.paper for row in main) == dict.fromkeys(published.papers(), 3)
    assert [row.column for row in main if row.cannot_run or row.experiment is None] == []


def test_what_is_consistent_is_so_on_every_task_with_every_algorithm_and_in_the_flow():
    rows = parts("refer", "consistently_improves")
    gym = [row for row in rows if row.task == "mujoco_gym"]
    assert [(row.agent, row.protocol["against"]) for row in gym] == [
        (f"{name}_refer", [f"{name}_er"]) for name in ("ddpg", "naf", "vracer")
    ]
    assert {(row.claim, row.value) for row in gym} == {("tasks_won_share", 1)}
    assert {row.assumed.split("; ")[0] for row in gym} == {"what is consistent"}
    for row in gym:
        assert judge(row, 0.975, 1.0) == "agrees"  # ten of ten, known to a quarter of a task
        assert judge(row, 0.875, 0.925) == "contradicts"
    assert [row.task for row in rows if row.cannot_run] == ["flow"]


def test_rows_that_the_same_runs_of_vracer_answer_assume_the_same_settings():
    rows = [row for row in ROWS if (row.agent, row.protocol.get("against")) == ("vracer_refer", ["vracer_er"])]
    (main,) = (row.assumed for row in rows if row.main)
    assert main.startswith("N_start, the first beta and the annealing of its step, the clip of the importance ratios'")
    assert len(rows) == 3
    assert all(row.assumed.endswith(main) for row in rows)


def test_smaller_settings_of_acer_do_no_harm_on_tasks_of_lower_dimension_and_larger_ones_do_on_the_others():
    for sentence in ("larger_learning_rates_hurt", "larger_delta_hurts"):
        rows = {row.task: row for row in parts("acer", sentence)}
        assert len(rows) == 6
        for task, row in rows.items():
            low = task in ("cartpole", "reacher3")
            assert (row.better, row.value) == (("less", 0) if low else ("under", 0))
            assert judge(row, -0.36, 0.36) == ("agrees" if low else "undecided")  # none, of thirty settings
            assert judge(row, 0.6, 0.9) == "contradicts"
            assert judge(row, -0.9, -0.6) == "agrees"


def test_a_sentence_has_several_rows():
    counts = collections.Counter((row.paper, row.sentence) for row in ROWS if row.sentence is not None)
    assert [name for name, count in counts.items() if count == 1] == []


def test_a_number_that_stands_several_times_counts_once():
    same = collections.defaultdict(list)
    for row in ROWS:
        if row.agent is not None and row.claim is None and "against" not in row.protocol and row.better == "more":
            same[row.paper, row.experiment, row.agent, row.task, row.statistic, row.unit, row.value].append(row)
    several = [rows for rows in same.values() if len(rows) > 1]
    assert len(several) >= 6
    for rows in several:
        assert rows[0].sentence is not None
        assert len({row.sentence for row in rows}) == 1
    assert [row.value for row in parts("impala", "throughput_250k")] == [250_000, 250_000, 250_000, 21e9, 250_000]
    assert len(parts("impala", "dmlab30_49_4")) == 4
    assert [row.value for row in parts("impala", "atari57_59_7")] == [60, 59.7, 59.7]


def test_every_row_of_deepmind_lab_that_nothing_here_answers_says_what_it_needs():
    """The agents of Table 2 and of its analyses are there; each of their levels is answered by itself."""
    answered = [row for row in ROWS if row.experiment in ("dmlab_table2", "dmlab_figure_d1") and row.claim is not None]
    answered += [row for row in ROWS if row.experiment == "dmlab_table2" and row.table == "2" and row.claim is None]
    assert len(answered) == 40 + 4 + 12 + 4 + 2 + 2
    assert {row.cannot_run for row in answered} == {None}
    rows = [
        r
        for r in ROWS
        if "DMLab" in r.protocol.get("environment", "") or "DeepMind Lab" in r.protocol.get("environment", "")
    ]
    rows += [row for row in ROWS if row.task.startswith("dmlab")]
    rows = [row for row in rows if row not in answered]
    assert len(rows) > 100
    needs = {row.cannot_run for row in rows if row.cannot_run is not None}
    machines = [need for need in needs if "machines" in need or "GPUs" in need]
    others = [need for need in needs if re.search("several learners|does not print", need)]
    assert len(machines) + len(others) == len(needs) == 7
    runnable = {(row.experiment, row.agent) for row in rows if row.cannot_run is None}
    assert runnable == {
        ("dmlab_30", "impala_shallow"),
        ("dmlab_30", "impala_deep"),
        ("dmlab_30", "a3c_deep"),
        ("dmlab_30_population", "pbt"),
        ("dmlab_30_experts", "impala_deep"),
        ("dmlab_figure5", "impala"),
        *(("closed_form", name) for name in closed_form.get_config().answers),
    }


def test_rows_of_agents_from_a_population_say_so_and_only_these():
    rows = [row for row in published.load("impala").rows if row.cannot_run is None]
    of_one = {(row.table, row.column) for row in rows if row.protocol.get("population") == 24}
    assert of_one == {
        ("Section 1", "IMPALA"),
        ("Section 1", "IMPALA, one agent for all games"),
        ("3", "IMPALA, deep, PBT"),
        ("Section 5.3.1", "IMPALA, deep, PBT over A3C, deep, final score"),
        ("Section 5.3.1", "IMPALA, deep, PBT over IMPALA-Experts, deep"),
        ("Section 6", "IMPALA"),
        ("Section 6", "IMPALA, multi-task over experts"),
        ("4", "IMPALA, deep, multi-task"),
        ("Section 5.3.2", "IMPALA, deep, multi-task"),
        ("Section 5.3.2", "IMPALA, deep, multi-task against A3C, shallow, experts"),
        ("B.1", "IMPALA"),
        ("C.1", "IMPALA, deep, multi-task"),
    }


def test_only_agents_that_are_not_built_and_rates_of_other_hardware_cannot_be_run_on_all_games():
    for row in ROWS:
        if row.task == "atari57" and row.statistic is not None and row.protocol.get("budget") == 200_000_000:
            is_run = row.agent is not None and row.measure == "evaluation" and is_built(row)
            assert (row.cannot_run is None) == is_run, row.column
        if row.agent is None or (row.claim is None and "against" in row.protocol):
            assert row.cannot_run is not None, row.column
    assert {row.agent for row in ROWS if row.agent and not row.cannot_run and not is_built(row)} == set()
    assert sum(row.cannot_run is None for row in ROWS if row.paper == "stac" and row.statistic == "median") == 15


def is_built(row):
    """Whether the experiment has the row's agent; that of a study is the name of an answer."""
    config = staleness.current_config(row.paper, row.experiment, "paper")
    return row.agent in config.get("variants", {row.agent: None})


def test_what_is_merely_not_run_yet_needs_nothing():
    """Comparisons are answered by some of the games, and a single game is days of work at most."""
    games = set(published.normaliser("atari57"))
    for row in ROWS:
        runnable = row.paper in ("acer", "ctrace", "refer") and row.claim is not None and row.task != "flow"
        if runnable or row.task in games or row.task == "finite_mdp":
            assert row.cannot_run is None, row.column


def test_no_row_of_impala_says_that_it_cannot_be_run_because_it_takes_long():
    """Budget, games, seeds and a population are shortfalls; what is not there is hardware, an agent, or not printed."""
    needs = {row.cannot_run for row in published.load("impala").rows} - {None}
    assert len(needs) == 9
    for need in needs:
        assert re.search(r"machines?\b|GPUs|A3C agent|Reactor|several learners|the paper does not print", need), need


def test_no_row_says_that_it_cannot_be_run_because_it_takes_long():
    needs = {row.cannot_run for row in ROWS} - {None}
    assert [need for need in needs if re.search(r"million frames|days|hours", need)] == []


def test_what_a_row_needs_follows_the_word_needs():
    for text in {row.cannot_run for row in ROWS if row.cannot_run is not None}:
        assert not text.endswith(".")
        assert re.match(r"[a-z0-9]|DeepMind Lab|DDPG", text)


def test_the_best_run_of_a_sweep_is_one_run():
    assert {row.n_seeds for row in published.load("impala").rows if row.table in ("3", "B.1")} == {1}
    assert {row.n_seeds for row in published.load("impala").rows if row.agent == "impala_multitask"} == {1}
    experts = [row for row in published.load("impala").rows if row.table == "C.1" and row.agent != "impala_multitask"]
    assert {row.n_seeds for row in experts} == {None}  # the paper does not say
