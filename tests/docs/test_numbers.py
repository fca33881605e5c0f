"""Numbers on the pages that come from records are equal to those of the records."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from repro.evidence import intervals, published, statistics
from repro.evidence.records import COMMITTED, read_record

ROOT = Path(__file__).resolve().parents[2]
MISTAKES = {  # of random problems: the row's first words, and the record's name
    "impala": {
        "that rate is eta": "eta",
        "fixed point V of pi_rho_bar": "fixed_point",
        "and the same fixed point": "truncated_fixed_point",
        "E[q_s] is Q": "unbiased_q",
        "on-policy v_s": "on_policy",
        "on-policy, with lambda": "td_lambda",
        "with rho_bar near 0": "behaviour_limit",
    },
    "acer": {
        "fixed point Q^pi": "fixed_point",
        "B is Retrace": "retrace",
        "c = 0:": "bellman",
        "c infinite:": "importance_sampling",
        "Eq. (7): the gradient": "unbiased",
        "Eq. (13): Q~ is V": "consistent",
    },
    "stac": {
        "fixed point V": "fixed_point",
        "and the same fixed point": "truncated_fixed_point",
        "alphas of 1": "alpha_1",
        "alphas of 0": "alpha_0",
    },
}


def page(paper: str) -> str:
    return (ROOT / f"repro/papers/{paper}/README.md").read_text()


def unwrapped(text: str) -> str:
    """A text in one line, for sentences that the page breaks."""
    return " ".join(text.split())


def records(paper: str, experiment: str, task: str, agent: str) -> list[dict]:
    """Of all seeds, in their order."""
    files = (COMMITTED / paper / experiment / task / agent).glob("seed_*.json")
    return sorted(map(read_record, files), key=lambda record: record["seed"])


def digits(number: float) -> str:
    """Two digits that count, or three where they stand before the point."""
    return f"{number:.0f}" if number >= 100 else f"{number:#.2g}".removesuffix(".")


@pytest.mark.parametrize(
    ("paper", "statement", "agent"),
    [(paper, *row) for paper, rows in MISTAKES.items() for row in rows.items()],
)
def test_differences_on_random_problems(paper, statement, agent):
    (record,) = records(paper, "theorems", "finite_mdp", agent)
    most = float(re.search(r"at most (\S+) unrounded", record["evaluation"]["protocol"])[1])
    row = re.search(rf"^\| {re.escape(statement)}.*$", page(paper), re.M)[0]
    assert f"{most:.1e}".replace("e-0", "e-") in row


def test_scores_of_acer():
    text = page("acer")
    rows = re.findall(r"^\| `(acer_ratio_\w+)` \| ([\d., ]+) \| ([\d, ]+) \|$", text, re.M)
    files = [path.relative_to(COMMITTED / "acer/atari") for path in (COMMITTED / "acer/atari").glob("*/*/seed_*.json")]
    assert {agent for agent, *_ in rows} == {path.parts[1] for path in files if path.parts[1] != "random"}
    assert {path.parts[0] for path in files if path.parts[1] != "random"} == {"breakout"}
    for agent, scores, minutes in rows:
        found = records("acer", "atari", "breakout", agent)
        assert scores == ", ".join(f"{record['evaluation']['mean']:.1f}" for record in found)
        assert minutes == ", ".join(f"{record['wall_seconds'] / 60:.0f}" for record in found)
    longest = records("acer", "atari", "breakout", "acer_ratio_4")[0]["wall_seconds"]
    assert f"the committed run with replay ratio 4 took {longest / 60:.0f} minutes on one core" in text


def test_the_cart_pole_of_acer_is_the_only_control_task_with_a_record():
    text = page("acer")
    trained = {path for path in (COMMITTED / "acer/continuous").glob("*/*/seed_*.json") if path.parts[-2] != "random"}
    (path,) = trained
    record = read_record(path)
    assert path.parts[-3:] == ("cartpole", "acer", "seed_4.json")
    score = f"**The cart-pole**: {record['evaluation']['mean']:.1f}, the mean of the last 100 000 of 5M steps"
    assert score in unwrapped(text)
    sampled = record["sampled_hparams"]
    setting = f"number 4 (learning rate {sampled['learning_rate']:.1e}, delta {sampled['delta']:.2f})"
    assert setting.replace("e-0", "e-") in unwrapped(text)
    assert f"the committed run took {record['wall_seconds'] / 60:.0f} minutes on one core" in text
    assert "\nOther settings and tasks have no records yet;" in text


def test_scores_of_impala_on_breakout():
    found = records("impala", "atari_shallow", "breakout", "impala_shallow")
    scores = ", ".join(f"{record['evaluation']['mean']:.1f}" for record in found)
    assert f"| {scores} (seeds 1 to {len(found)}) |" in page("impala")
    (played,) = records("impala", "atari_shallow", "breakout", "random")
    random = published.normaliser("atari57")["breakout"]["random"]
    assert f"| Breakout | {random} in DQN Zoo, {played['evaluation']['mean']:.1f} ours |" in page("impala")


def test_means_of_impala_by_the_scores_of_dqn_zoo():
    scores: dict[str, dict[str, list[float]]] = {}
    for row in published.load("impala").rows:
        if row.table == "C.1":
            scores.setdefault(row.agent, {})[row.task] = [row.value]
    shallow, deep, together = (
        100
        * statistics.aggregate(
            statistics.normalised_scores(scores[agent], published.normaliser("atari57")), statistics.mean
        )
        for agent in ("impala_shallow", "impala_deep", "impala_multitask")
    )
    assert f"they would be {shallow:.0f}, {deep:.0f} and {together:.0f} %" in unwrapped(page("impala"))


def over_problems(paper, experiment, name):
    """Mean of a study's record and its interval over random problems; an exact number has none."""
    (record,) = records(paper, experiment, "finite_mdp", name)
    found = record["evaluation"]
    ends = {}
    if not found.get("exact"):
        ends = dict(zip(("low", "high"), intervals.mean_interval(found["returns"], unit=found["unit"]), strict=True))
    return {"mean": found["mean"]} | ends


@pytest.mark.parametrize(
    ("paper", "name", "row"),
    [
        ("impala", "contraction", "| rate at most 1 - (1 - gamma) beta | largest ratio {mean:.4f} |"),
        (
            "impala",
            "biased_v",
            "| E[v_s] is not | {mean:.2f} [{low:.2f}, {high:.2f}], for the pair of levels that differs least, mean "
            "over problems |",
        ),
        (
            "impala",
            "rate_by_c_bar",
            "| halving c_bar brings the rate nearer to 1 | {mean:.3f} [{low:.3f}, {high:.3f}] more,",
        ),
        (
            "impala",
            "truncated_contraction",
            "| for trajectories of 1, 2 and 3 steps the same bound on the rate | largest ratio {mean:.4f}, with one "
            "step |",
        ),
        ("acer", "contraction", "| rate at most gamma | largest ratio {mean:.4f} |"),
        (
            "stac",
            "truncated_contraction",
            "| for trajectories of 1, 2 and 3 steps the same bound for alpha_rho <= alpha_c | largest ratio "
            "{mean:.4f}, with one step |",
        ),
    ],
)
def test_rates_on_random_problems(paper, name, row):
    assert f"\n{row.format(**over_problems(paper, 'theorems', name))}" in page(paper)


@pytest.mark.parametrize(
    ("paper", "other", "row"),
    [
        (
            "impala",
            "between_probabilities",
            "| pi_rho_bar is between mu and pi | share of problems: {:.3f} by total variation, {:.3f} by each single "
            "probability |",
        ),
        (
            "stac",
            "between_states",
            "| the fixed point is between V of pi and V of mu | **false**, share of problems: {:.3f} by the sup norm, "
            "{:.3f} in every state |",
        ),
    ],
)
def test_what_is_between_pi_and_mu(paper, other, row):
    shares = (over_problems(paper, "theorems", name)["mean"] for name in ("between", other))
    assert f"\n{row.format(*shares)}\n" in page(paper)


@pytest.mark.parametrize(
    ("paper", "name", "row"),
    [
        ("impala", "variance_by_c_bar", "| c_bar reduces the variance | {mean:.2f} [{low:.2f}, {high:.2f}] orders"),
        (
            "impala",
            "bias_by_rho_bar",
            "| the larger rho_bar, the smaller the bias | {mean:.2f} [{low:.2f}, {high:.2f}] less with 16 than with 1;",
        ),
        (
            "impala",
            "variance_by_rho_bar",
            "| the variance grows with rho_bar | {mean:.2f} [{low:.2f}, {high:.2f}] orders of magnitude from 1 to 16;",
        ),
        (
            "impala",
            "retrace_on_policy",
            "| Retrace is not the n-step return on-policy | largest difference {mean:.1f} [{low:.1f}, {high:.1f}] |",
        ),
        (
            "impala",
            "q_by_rho_bar",
            "| with a larger rho_bar q_s is a better estimate of Q of pi | {mean:.2f} [{low:.2f}, {high:.2f}] nearer",
        ),
        (
            "impala",
            "variance_by_baseline",
            "| V(x_s) as a baseline reduces the variance of the policy gradient | {mean:.2f} [{low:.2f}, {high:.2f}]",
        ),
        (
            "impala",
            "vtrace_gradient_variance",
            "| clipping at 1 reduces that variance, V-trace | {mean:.2f} [{low:.2f}, {high:.2f}] orders of magnitude |",
        ),
        (
            "impala",
            "one_step_gradient_variance",
            "| clipping at 1 reduces that variance, 1-step | {mean:.2f} [{low:.2f}, {high:.2f}] orders of magnitude |",
        ),
        (
            "impala",
            "vtrace_gradient_bias",
            "| and introduces a bias, V-trace | {mean:.3f} [{low:.3f}, {high:.3f}] |",
        ),
        (
            "impala",
            "one_step_gradient_bias",
            "| and introduces a bias, 1-step | {mean:.3f} [{low:.3f}, {high:.3f}], besides",
        ),
        (
            "impala",
            "one_step_gap",
            "| 1-step becomes insufficient as the policies deviate | {mean:.3f} [{low:.3f}, {high:.3f}] more bias than",
        ),
        (
            "impala",
            "product_by_policies",
            "| the more dissimilar mu and pi, the larger the variance of the product of the c_i, with a c_bar of 1 | "
            "**false**: {mean:.2f} [{low:.2f}, {high:.2f}] orders",
        ),
        (
            "impala",
            "untruncated_by_policies",
            "| the same without c_bar | {mean:.2f} [{low:.2f}, {high:.2f}] orders",
        ),
        (
            "impala",
            "reduction_by_horizon",
            "| truncation is important because the product of the c_i is taken | a c_bar of 1 reduces the variance of "
            "a product of 32 by {mean:.1f} [{low:.1f}, {high:.1f}] orders",
        ),
        ("stac", "rate_by_alpha", "| less of alpha contracts better | {mean:.3f} [{low:.3f}, {high:.3f}] less at"),
        ("stac", "rate_at_alpha_0", "| with alpha_rho = 0 the rate is at most gamma | largest difference {mean:.4f} |"),
        (
            "stac",
            "variance_by_alpha",
            "| importance sampling varies more than V-trace | {mean:.2f} [{low:.2f}, {high:.2f}] orders",
        ),
    ],
)
def test_tradeoffs_on_random_problems(paper, name, row):
    assert f"\n{row.format(**over_problems(paper, 'tradeoffs', name))}" in page(paper)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bias_falls", "with 1; it rises at some doubling"),
        ("variance_grows", "from 1 to 16; it falls at some doubling"),
        ("product_grows", "of the way to mu and mu; it falls at some quarter"),
        ("untruncated_grows", "orders of magnitude; it falls at some quarter"),
    ],
)
def test_shares_of_problems_on_which_bias_rises_and_variance_falls(name, words):
    found = over_problems("impala", "tradeoffs", name)
    share, low, high = (100 * (1 - found[end]) for end in ("mean", "high", "low"))
    assert f"{words} on {share:.0f} % [{low:.0f}, {high:.0f}] of the problems |" in page("impala")


def test_variances_by_horizon_on_random_problems():
    rows = {
        "product_by_horizon": "products of c_i without c_bar | {:.4f} or more on each of the 200 problems | yes",
        "truncated_product_by_horizon": "products of c_i with a c_bar of 1 | {:.4f} at most | no",
        "variance_by_horizon": "v_s, with a c_bar of 1 and a rho that is not truncated | {:.4f} at most | no",
    }
    for name, row in rows.items():
        assert f"\n| {row.format(over_problems('impala', 'tradeoffs', name)['mean'])} |\n" in page("impala")


def test_what_is_left_of_the_distance_from_theorem_2_of_impala():
    (record,) = records("impala", "online_theorem", "finite_mdp", "online_values")
    left = record["evaluation"]["returns"]
    low, high = intervals.mean_interval(left)
    sentence = f"{np.mean(left):.3f} [{low:.3f}, {high:.3f}] of the initial distance is left in the mean over problems"
    assert f"{sentence}, and {max(left):.2f} on the worst problem." in unwrapped(page("impala"))


DMLAB_TWICE = ("rooms_watermaze", "explore_goal_locations_small", "lasertag_three_opponents_small")


def test_random_play_on_deepmind_lab():
    text = (ROOT / "docs/dmlab.md").read_text()
    rows = re.findall(r"^\| `(\w+)`[^|]*\| (-?[\d.]+) \| (-?[\d.]+) \| ([^|]+) \|$", text, re.M)
    tasks = {path.parts[-3] for path in (ROOT / "results/impala").glob("dmlab_*/*/random/seed_1.json")}
    assert {task for task, *_ in rows} == tasks - {"seekavoid_arena_01"}  # which Table B.1 does not have
    agree = []
    for task, printed, mean, ends in rows:
        experiment = "dmlab_table2" if task == "rooms_keys_doors_puzzle" else "dmlab_30_experts"
        (record,) = records("impala", experiment, task, "random")
        returns = record["evaluation"]["returns"]
        interval = intervals.mean_interval(returns)
        assert mean == f"{np.mean(returns):.2f}", task
        assert ends == ("{:.2f} to {:.2f}".format(*interval).replace("-0.00", "0.00") if interval else "all 0"), task
        low, high = interval or (0.0, 0.0)
        agree.append(low <= float(printed) <= high)
    assert (sum(agree), len(agree)) == (7, 15)  # as in both sentences
    assert "\nSeven of fifteen agree." in text
    assert "our random player has others on eight of fifteen levels" in unwrapped(page("impala"))


def test_what_random_play_finds_on_deepmind_lab():
    text = (ROOT / "docs/dmlab.md").read_text()
    of_experts, of_table_2 = (
        {task: records("impala", experiment, task, "random")[0]["evaluation"]["returns"] for task in DMLAB_TWICE}
        for experiment in ("dmlab_30_experts", "dmlab_table2")
    )
    found = np.count_nonzero(of_experts["rooms_watermaze"])
    assert f"was found here in {found} of 100 episodes" in text
    others = {task: np.count_nonzero(np.subtract(of_experts[task], of_table_2[task])) for task in DMLAB_TWICE}
    assert others == {"rooms_watermaze": 0, "explore_goal_locations_small": 0, "lasertag_three_opponents_small": 27}
    sentence = "had the same 100 returns, `lasertag_three_opponents_small` 27 others."
    assert f"`rooms_watermaze` and `explore_goal_locations_small` {sentence}" in unwrapped(text)
    assert f"`rooms_watermaze` has {np.mean(of_experts['rooms_watermaze']):.1f} for 4.1." in unwrapped(page("impala"))


def test_scores_of_vtrace_on_deepmind_lab():
    (trained,) = records("impala", "dmlab_table2", "seekavoid_arena_01", "vtrace")
    (played,) = records("impala", "dmlab_table2", "seekavoid_arena_01", "random")
    means = (record["evaluation"]["mean"] for record in (trained, played))
    sentence = "(`seekavoid_arena_01` comes to {:.1f} of its 43.8 by then; a random player has {:.1f}.)"
    assert sentence.format(*means) in unwrapped(page("impala"))


def test_random_play_in_the_challenges():
    """Beside the other table of the page, and beside records of more episodes; tests/environments plays some again."""
    text = (ROOT / "docs/control_tasks.md").read_text()
    suite = dict(re.findall(r"^\| (\w+) \| \d+ \| \d+ \| [\d.]+ s, \d+ \| ([\d.]+ ± [\d.]+) \|$", text, re.M))
    rows = re.findall(r"^\| (\w+) \| ([\d.]+ ± [\d.]+) \| ([\d.]+) ± ([\d.]+) \| .* \|$", text, re.M)
    assert [task for task, *_ in rows] == ["cartpole_swingup", "walker_walk", "quadruped_walk", "humanoid_walk"]
    assert {path.parent.parent.name for path in (ROOT / "results/stac/rwrl").glob("*/random/seed_*.json")} >= {
        "cartpole_easy",
        "walker_easy",
        "quadruped_easy",
    }
    for task, unchallenged, mean, error in rows:
        assert unchallenged == suite[task]
        for record in records("stac", "rwrl", f"{task.partition('_')[0]}_easy", "random"):
            assert abs(record["evaluation"]["mean"] - float(mean)) < 5 * float(error), task


STAC_AGENTS = {"impala": "IMPALA", "impala_aux": "IMPALA with auxiliary tasks", "stac": "STAC", "stacx": "STACX"}
STAC_TASKS = ("cartpole_swingup", "walker_walk")


@pytest.mark.parametrize("task", STAC_TASKS)
@pytest.mark.parametrize("agent", STAC_AGENTS)
def test_scores_of_stac_in_control(task, agent):
    found = records("stac", "dm_control_features", task, agent)
    curves = [np.transpose(record["curve"]) for record in found]
    after = ", ".join(f"{record['evaluation']['mean']:.0f}" for record in found)
    during = ", ".join(
        f"{np.interp(0.7 * record['num_env_steps'], *curve):.0f}" for record, curve in zip(found, curves)
    )
    assert f"\n| `{task}` | {STAC_AGENTS[agent]} | {after} | {during} |\n" in page("stac")


def test_random_play_of_stac_in_control():
    played = [records("stac", "dm_control_features", task, "random")[0]["evaluation"]["mean"] for task in STAC_TASKS]
    sentence = "Random play has {:.0f} on `cartpole_swingup` and {:.0f} on `walker_walk`."
    assert sentence.format(*played) in page("stac")


def test_the_only_run_of_stac_on_atari_is_one_of_its_baseline():
    trained = {path.parent.name for path in (COMMITTED / "stac" / "atari").glob("*/*/seed_*.json")} - {"random"}
    (run,), (random,) = (
        records("stac", "atari", "breakout", "impala"),
        records("impala", "atari_shallow", "breakout", "random"),
    )
    assert trained == {"impala"}
    means = (
        f"{run['evaluation']['mean']:.1f} after 8M frames, where random play has {random['evaluation']['mean']:.1f}."
    )
    assert means in " ".join(page("stac").split())


def test_a_task_that_impala_does_not_learn_at_a_tenth():
    scores = [
        [record["evaluation"]["mean"] for record in records("stac", "dm_control_features", "ball_in_cup_catch", agent)]
        for agent in ("impala", "random")
    ]
    (after,), (at_random,) = scores
    assert f"does not learn in that time: {after:.0f} after training, and {at_random:.0f} at random." in page("stac")


@pytest.mark.parametrize(
    ("comparison", "ours", "theirs"),
    [
        ("STAC over IMPALA", "stac", "impala"),
        ("STACX over IMPALA with auxiliary tasks", "stacx", "impala_aux"),
        ("STACX over STAC", "stacx", "stac"),
    ],
)
def test_differences_of_stac_in_control(comparison, ours, theirs):
    """After training what the generated page has of the same claim, with fewer digits; over training the curves."""
    text = (ROOT / "docs/results.md").read_text()
    row = re.escape(f"| dm_control_features | {comparison} | ") + r"[<>] 0 \| (\S+) \[(\S+), (\S+)\]"
    difference, low, high = (digits(float(number)) for number in re.search(row, text).groups())

    def over_training(task, agent):
        found = records("stac", "dm_control_features", task, agent)
        return np.mean([np.mean([score for _, score in record["curve"]]) for record in found])

    each = [over_training(task, ours) - over_training(task, theirs) for task in STAC_TASKS]
    cells = " | ".join(digits(number) for number in (np.mean(each), *each))
    assert f"\n| {comparison} | {difference} [{low}, {high}] | {cells} |\n" in page("stac")


@pytest.mark.parametrize("task", STAC_TASKS)
@pytest.mark.parametrize("agent", ["stac", "stacx"])
def test_where_metaparameters_of_stac_end_in_control(task, agent):
    ends = [
        dict(zip(record["series"]["columns"], record["series"]["rows"][-1]))
        for record in records("stac", "dm_control_features", task, agent)
    ]
    groups = [("alpha_1",), ("g_p_1",), ("g_p_2", "g_p_3"), ("g_v_2", "g_v_3", "g_e_2", "g_e_3")]
    cells = []
    for names, decimals in zip(groups, (3, 2, 2, 2)):
        values = [end[name] for end in ends for name in names if name in end]
        cells.append(f" {min(values):.{decimals}f} to {max(values):.{decimals}f} " if values else " ")
    assert f"\n| `{task}` | {STAC_AGENTS[agent]} |{'|'.join(cells)}|\n" in page("stac")


def test_the_readme_says_how_far_trained_agents_are():
    readme, results = ((ROOT / name).read_text() for name in ("README.md", "docs/results.md"))
    assert "No result of a trained agent is `reproduced` yet" in readme
    assert "\nVerdicts from trained agents: reproduced 0 of " in results
    assert "with at most a tenth of the paper's budget where one is printed." in unwrapped(readme)
    assert max(float(share) for share in re.findall(r"\| ([\d.]+) % of the budget", results)) == 10
