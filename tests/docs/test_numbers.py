"""Numbers on the pages that are read off records are those of the records."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from repro.evidence import intervals, run_measures
from repro.evidence.records import COMMITTED, read_record

ROOT = Path(__file__).resolve().parents[2]
MISTAKES = {  # of random problems: the row's first words, and the record's name
    "impala": {
        "that rate is eta": "eta",
        "fixed point V of pi_rho_bar": "fixed_point",
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
    "stac": {"fixed point V": "fixed_point", "alphas of 1": "alpha_1", "alphas of 0": "alpha_0"},
}
REPLAYS = {
    "V-RACER, ReF-ER": ("figure_4_vracer", "vracer_refer"),
    "V-RACER, plain replay": ("figure_4_vracer", "vracer_er"),
    "PPO": ("figure_4_vracer", "ppo"),
    "ACER, 1e-5": ("figure_4_vracer", "acer"),
    "ACER, 1e-4": ("figure_4_vracer", "acer_fast"),
    "DDPG, ReF-ER": ("figure_1_ddpg", "ddpg_refer"),
    "DDPG, plain replay": ("figure_1_ddpg", "ddpg_er"),
}


def page(paper: str) -> str:
    return (ROOT / f"repro/papers/{paper}/README.md").read_text()


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


def test_returns_and_divergences_of_refer():
    rows = re.findall(r"^\| (\w+)-v5 \| ([A-Z][^|]+) \| ([-\d, ]+) \| ([\d., ]+) \|$", page("refer"), re.M)
    assert {name for _, name, _, _ in rows} == {*REPLAYS}
    for task, name, returns, divergences in rows:
        experiment, agent = REPLAYS[name]
        found = records("refer", experiment, task, agent)
        assert returns == ", ".join(f"{record['evaluation']['mean']:.0f}" for record in found), (task, name)
        ends = [run_measures.divergences(record)[1] for record in found]
        assert divergences == ", ".join(map(digits, ends)), (task, name)


def test_scores_of_impala_on_breakout():
    found = records("impala", "atari_shallow", "breakout", "impala_shallow")
    scores = ", ".join(f"{record['evaluation']['mean']:.1f}" for record in found)
    assert f"| {scores} (seeds 1 to {len(found)}) |" in page("impala")


def test_random_play_on_deepmind_lab():
    text = (ROOT / "docs/dmlab.md").read_text()
    rows = re.findall(r"^\| `(\w+)`[^|]*\| -?[\d.]+ \| (-?[\d.]+) \| (\S+) to (\S+) \|$", text, re.M)
    assert len(rows) == 13
    for task, mean, *ends in rows:
        experiment = "dmlab_table2" if task == "rooms_keys_doors_puzzle" else "dmlab_30_experts"
        (record,) = records("impala", experiment, task, "random")
        returns = record["evaluation"]["returns"]
        expected = [np.mean(returns), *intervals.mean_interval(returns)]
        assert [float(mean), *map(float, ends)] == [round(float(number), 2) for number in expected], task


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


@pytest.mark.parametrize(
    "comparison", ["STAC over IMPALA", "STACX over IMPALA with auxiliary tasks", "STACX over STAC"]
)
def test_differences_of_stac_in_control(comparison):
    """What the generated page has of the same claim, with fewer digits."""
    text = (ROOT / "docs/results.md").read_text()
    row = re.escape(f"| dm_control_features | {comparison} | ") + r"[<>] 0 \| (\S+) \[(\S+), (\S+)\]"
    difference, low, high = (digits(float(number)) for number in re.search(row, text).groups())
    assert f"\n| {comparison} | {difference} [{low}, {high}] |\n" in page("stac")


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


@pytest.mark.parametrize(
    ("figure", "answer", "decimals"),
    [
        ("fig1", "pareto_share", 3),
        ("fig1", "pareto_bias_ratio", 3),
        ("fig1", "retrace_equivalent_n", 2),
        ("fig3", "evaluation_early", 2),
        ("fig3", "evaluation_early_n", 2),
        ("fig3", "evaluation_early_rest", 1),
        ("fig3", "evaluation_late_importance", 1),
        ("fig3", "control_early", 2),
        ("fig3_rounds", "evaluation_early", 2),
        ("fig3_rounds", "evaluation_early_n", 2),
        ("fig3_visits", "evaluation_early", 2),
        ("fig3_visits", "evaluation_early_n", 2),
        ("fig3_visits", "evaluation_late_importance", 1),
        ("fig3_visits", "control_early", 2),
        ("fig5", "pareto_share", 3),
        ("fig5", "pareto_bias_ratio", 3),
        ("fig5", "tree_backup_gain", 3),
        ("fig5", "tree_backup_bias", 2),
        ("fig5", "tree_backup_variance", 2),
    ],
)
def test_answers_of_the_tabular_study(figure, answer, decimals):
    (file,) = (COMMITTED / f"ctrace/tabular_{figure}").glob(f"*/{answer}/seed_1.json")
    evaluation = read_record(file)["evaluation"]
    low, high = intervals.mean_interval(evaluation["returns"], unit=evaluation["unit"])
    mean, low, high = (f"{number:.{decimals}f}" for number in (evaluation["mean"], low, high))
    assert f"{mean} [{low}, {high}]" in page("ctrace")
