"""Numbers on ReF-ER's page that come from records are equal to those of the records."""

from __future__ import annotations

import re

import numpy as np
import pytest

from repro.evidence import outliers, published, run_measures
from repro.evidence.records import COMMITTED
from tests.docs.test_numbers import ROOT, digits, page, records, unwrapped

REPLAYS = {
    "V-RACER, ReF-ER": ("figure_4_vracer", "vracer_refer"),
    "V-RACER, plain replay": ("figure_4_vracer", "vracer_er"),
    "PPO": ("figure_4_vracer", "ppo"),
    "ACER, 1e-5": ("figure_4_vracer", "acer"),
    "ACER, 1e-4": ("figure_4_vracer", "acer_fast"),
    "DDPG, ReF-ER": ("figure_1_ddpg", "ddpg_refer"),
    "DDPG, plain replay": ("figure_1_ddpg", "ddpg_er"),
}


def test_returns_and_divergences_of_refer():
    rows = re.findall(r"^\| (\w+)-v5 \| ([A-Z][^|]+) \| ([-\d, ]+) \| ([\d., ]+) \|$", page("refer"), re.M)
    assert {name for _, name, _, _ in rows} == {*REPLAYS}
    for task, name, returns, divergences in rows:
        experiment, agent = REPLAYS[name]
        found = records("refer", experiment, task, agent)
        assert returns == ", ".join(f"{record['evaluation']['mean']:.0f}" for record in found), (task, name)
        ends = [run_measures.divergences(record)[1] for record in found]
        assert divergences == ", ".join(map(digits, ends)), (task, name)


def span(values):
    return f"{min(values):.0f} to {max(values):.0f}"


DDPG_WINS = {"HalfCheetah": 25, "Hopper": 12, "Walker2d": 21}


@pytest.mark.parametrize("task", DDPG_WINS)
def test_what_ddpg_gains_by_refer(task):
    text = page("refer")
    er, refer = (records("refer", "figure_1_ddpg", task, agent) for agent in ("ddpg_er", "ddpg_refer"))
    theirs, ours = ([record["evaluation"]["mean"] for record in found] for found in (er, refer))
    wins = sum(x > y for x in ours for y in theirs)
    assert (wins, len(ours) * len(theirs)) == (DDPG_WINS[task], 25)
    mean = np.mean([run_measures.divergences(record)[1] for record in refer])
    ratios = [run_measures.divergences(record)[1] / mean for record in er]
    assert f"\n| {task} | {wins} | {span(ours)} | {span(theirs)} | {span(ratios)} |\n" in text
    assert "wins all pairs of runs on HalfCheetah, most on Walker2d, and is not better on Hopper." in text
    if task == "HalfCheetah":
        assert f"plain replay here {span(theirs)}." in text


VRACER_TASKS = ("HalfCheetah", "Hopper", "Swimmer", "Walker2d")


def test_what_vracer_gains_by_refer():
    text = page("refer")
    for task in VRACER_TASKS:
        er, refer = (records("refer", "figure_4_vracer", task, agent) for agent in ("vracer_er", "vracer_refer"))
        theirs, ours = ([record["evaluation"]["mean"] for record in found] for found in (er, refer))
        assert (len(theirs), len(ours)) == (5, 5)
        assert min(ours) > max(theirs)
        random = records("refer", "figure_4_vracer", task, "random")[0]["evaluation"]["mean"]
        assert f"\n| {task} | {span(ours)} | {span(theirs)} | {round(random)} |\n" in text
    assert "ReF-ER wins all 25 pairs of runs on each of four tasks." in text


def reason(task, seed):
    """The reason of a known outlier of plain replay, its curve, and its logged divergences."""
    path = COMMITTED / f"refer/figure_4_vracer/{task}/vracer_er/seed_{seed}.json"
    record = records("refer", "figure_4_vracer", task, "vracer_er")[seed - 1]
    return outliers.read(COMMITTED)[path].reason, np.array(record["curve"]), run_measures.column(record, "kl")


def test_the_reason_of_the_outlier_on_halfcheetah():
    text, curve, divergences = reason("HalfCheetah", 5)
    assert curve[:, 1].argmax() == 0
    assert curve[0, 0] < 2000
    assert f"its return is highest, {curve[0, 1]:.0f}, in the first 2000 steps, before any gradient step" in text
    frames, lowest = curve[curve[:, 1].argmin()]
    before = np.interp(167_000, *curve.T)
    fall = f"It is {before:.0f} after 167,000 steps and falls to {lowest:.0f} after {round(frames, -3):,.0f}."
    assert fall in text
    end = run_measures.start_and_end(divergences)[1]
    assert f"reaches {divergences.max():.0f} nats and is {end:.0f} over the last tenth of training" in text
    er, refer = (
        [run["evaluation"]["mean"] for run in records("refer", "figure_4_vracer", "HalfCheetah", f"vracer_{replay}")]
        for replay in ("er", "refer")
    )
    assert f"end between {min(er[:4]):.0f} and {max(er[:4]):.0f}," in text
    assert f"the five runs with ReF-ER at {min(refer):.0f} and more" in text


def test_the_reason_of_the_outlier_on_hopper():
    text, curve, divergences = reason("Hopper", 3)
    frames, highest = curve[curve[:, 1].argmax()]
    (below, *_) = curve[(curve[:, 0] > frames) & (curve[:, 1] < 20), 0]
    assert f"rises to {highest:.0f} after {round(frames, -3):,.0f} steps" in text
    assert f"falls below 20 after {round(below, -3):,.0f};" in text
    assert curve[curve[:, 0] > 800_000, 1].max() < 25
    assert "recovers for a while" in text
    assert "but not after 800,000 steps" in text
    assert f"reaches {divergences.max():.0f} nats" in text
    record = records("refer", "figure_4_vracer", "Hopper", "vracer_er")[2]
    assert f"an episode has {200_000 / record['evaluation']['episodes']:.0f} steps" in text
    ends = [f"{run['evaluation']['mean']:.0f}" for run in records("refer", "figure_4_vracer", "Hopper", "vracer_er")]
    assert f"end at {', '.join(ends[:2])}, {ends[3]} and {ends[4]}." in text


@pytest.mark.parametrize("task", VRACER_TASKS)
def test_what_vracer_has_beside_ppo(task):
    ours, theirs = (
        [record["evaluation"]["mean"] for record in records("refer", "figure_4_vracer", task, agent)]
        for agent in ("vracer_refer", "ppo")
    )
    ratio = np.mean(ours) / np.mean(theirs)
    assert ratio > 1
    assert f"\n| {task} | {span(ours)} | {span(theirs)} | {ratio:.2f} |\n" in page("refer")
    (row,) = [row for row in published.load("refer").rows if row.column == "V-RACER with ReF-ER over PPO"]
    assert f"{ratio:.2g}" in row.note or f"{ratio:.2f}" in row.note


def test_ppo_on_swimmer_beside_public_results():
    text = (ROOT / "docs/results.md").read_text()
    table = re.search(r"^### ReF-ER: figure_4_vracer/ppo\n.*?(?=^###)", text, re.M | re.S)[0]
    found = [row.rsplit(" | ", 1)[1].rstrip(" |") for row in re.findall(r"^\| Swimmer \|.*$", table, re.M)]
    assert sorted(found) == ["lower"] * 3 + ["not told apart"] * 2
    assert "| Lower than three of five public results and level with the others" in page("refer")


def test_the_divergence_that_annealing_asks_for():
    """Of a normal logarithm of the importance ratio, a tenth of which lies beyond c_max and 1 / c_max."""
    kl = [(np.log(c_max) / 1.645) ** 2 / 2 for c_max in (3.7, 1.7)]
    sentence = (
        f"about s^2 / 2: {kl[0]:.2f} and {kl[1]:.2f}, which is {np.log10(kl[0] / kl[1]):.1f} orders of magnitude."
    )
    assert sentence in unwrapped(page("refer"))


def test_the_divergence_of_ddpg_with_plain_replay_over_its_maximum():
    shares = {}
    for task, largest in (("Walker2d", 300), ("HalfCheetah", 300), ("Hopper", 150)):
        found = records("refer", "figure_1_ddpg", task, "ddpg_er")
        shares[task] = np.mean([run_measures.divergences(record)[1] for record in found]) / largest
    assert {task for task, share in shares.items() if share >= 0.1} == {"Walker2d", "Hopper"}
    assert "300 on Walker2d and HalfCheetah, 150 on Hopper. At least a tenth" in unwrapped(page("refer"))


def test_the_divergence_of_ddpg_with_plain_replay_on_walker2d():
    ends = [run_measures.divergences(record)[1] for record in records("refer", "figure_1_ddpg", "Walker2d", "ddpg_er")]
    assert len(ends) == 5
    of_runs = f"Here the five runs have {span(ends)} after a tenth of the paper's training."
    assert of_runs in unwrapped(page("refer"))


def test_ddpg_over_three_tasks_of_refer():
    row = r"\| mujoco_gym \| DDPG, ReF-ER over ER \| > 0\.5 \| (\S+) \[(\S+), (\S+)\]"
    found = re.search(row, (ROOT / "docs/results.md").read_text()).groups()
    sentence = "84 % on another and 48 % on the third make {:.2f}, with an interval of {:.2f} to {:.2f}."
    assert sentence.format(*map(float, found)) in page("refer")


def test_public_returns_beside_ddpg_of_refer():
    text = (ROOT / "docs/results.md").read_text()
    table = re.search(r"^### ReF-ER: figure_1_ddpg/ddpg_er\n.*?(?=^###)", text, re.M | re.S)[0]
    rows = [row for row in re.findall(r"^\| HalfCheetah \|.*$", table, re.M) if "(another algorithm)" not in row]
    theirs = [100 * round(float(row.split(" | ")[4]) / 100) for row in rows]
    highest = f"{max(theirs):,}".replace(",", " ")
    assert f"Public runs of DDPG have {min(theirs)} to {highest} on HalfCheetah after 1M steps" in page("refer")


def test_costs_of_gradients_in_refer():
    text = unwrapped(page("refer"))
    ddpg, naf, acer = (
        records("refer", "closed_form", "gym", name)[0]["evaluation"]["returns"]
        for name in ("ddpg_cost_over_vracer", "naf_cost_over_vracer", "cost_over_acer")
    )
    average = f"DDPG's is {np.mean(ddpg):.2f} times V-RACER's on average over the ten tasks"
    assert f"{average} ({min(ddpg):.2f} to {max(ddpg):.2f})" in text
    assert f"NAF's {np.mean(naf):.2f} times ({min(naf):.2f} to {max(naf):.2f}, most on Humanoid" in text
    assert (
        f"it is {np.mean(acer):.2f} orders below ({min(acer):.2f} on Reacher, whose limit is 50, to {max(acer):.2f})"
        in text
    )
    steps = 1000 * 10 ** (2 - acer[1])  # on HalfCheetah, where the limit is 1000: cost rises with the length
    assert f"some {round(steps, -1):.0f} steps would make it two" in text
    (outputs,) = {*records("refer", "closed_form", "gym", "quadratic_outputs_humanoid")[0]["evaluation"]["returns"]}
    assert f"whose L has {outputs:.0f} entries" in text
    assert f"and {100 * round(10 ** acer[1] / 100)} times its operations on HalfCheetah" in text  # second of the tasks


def test_ppo_s_divergence_rises_within_its_runs():
    first, last = [], []
    for task in ("HalfCheetah", "Hopper", "Swimmer", "Walker2d"):
        for record in records("refer", "figure_4_vracer", task, "ppo"):
            series = record["series"]
            kl = np.array([row[series["columns"].index("kl")] for row in series["rows"]], np.float64)
            tenth = len(kl) // 10
            first.append(kl[:tenth].mean())
            last.append(kl[-tenth:].mean())
        assert np.mean(first[-5:]) < np.mean(last[-5:])
    sentence = "it is {:.3f} to {:.3f} in the first tenth and {:.3f} to {:.3f} in the last"
    assert sentence.format(min(first), max(first), min(last), max(last)) in unwrapped(page("refer"))


def test_runs_of_acer_in_refer():
    text = unwrapped(page("refer"))
    found = [
        run for agent in ("acer", "acer_fast") for run in records("refer", "figure_4_vracer", "HalfCheetah", agent)
    ]
    minutes = [record["wall_seconds"] / 60 for record in found]
    assert f"the runs of the records took {span(minutes)} minutes, beside other work" in text
    assert max(run_measures.column(record, "kl").max() for record in found) < 0.06  # as the page says


def test_beta_falls_early_in_refer():
    found = records("refer", "figure_4_vracer", "HalfCheetah", "vracer_refer")
    steps = [np.array(record["series"]["rows"])[:, 0] for record in found]
    ends = [np.interp(20_000, x, run_measures.column(record, "beta")) for x, record in zip(steps, found)]
    assert 0.45 < min(ends) < max(ends) < 0.6
    assert "here beta falls to some 0.5 within the first 20 000 steps of HalfCheetah." in unwrapped(page("refer"))


def test_which_agents_of_refer_have_records():
    files = [path.relative_to(COMMITTED / "refer") for path in (COMMITTED / "refer").glob("figure_*/*/*/seed_*.json")]
    files += [path.relative_to(COMMITTED / "refer") for path in (COMMITTED / "refer").glob("recurrent/*/*/seed_*.json")]
    trained = [path.parts[:3] for path in files if path.parts[2] != "random"]
    ppo = {task: trained.count(("figure_4_vracer", task, "ppo")) for _, task, agent in trained if agent == "ppo"}
    assert len(ppo) == 4 + 6  # four stand in the table
    assert {*ppo.values()} == {5}
    assert "PPO has records of five seeds on each of the other six tasks" in page("refer")
    assert {(task, agent) for experiment, task, agent in trained if agent != "ppo"} == {
        *((task, f"vracer_{replay}") for task in VRACER_TASKS for replay in ("refer", "er")),
        *((task, f"ddpg_{replay}") for task in ("HalfCheetah", "Hopper", "Walker2d") for replay in ("refer", "er")),
        *(("HalfCheetah", agent) for agent in ("acer", "acer_fast")),
        *(("HalfCheetah", f"naf_{replay}") for replay in ("refer", "er")),
    }
    first = "NAF on HalfCheetah"
    rest = "has its first runs, which decide no row; V-RACER, DDPG and NAF on other tasks have none;"
    assert f"{first} {rest}" in unwrapped(page("refer"))
    assert trained.count(("figure_4_vracer", "HalfCheetah", "vracer_refer")) == 5
    assert "# the paper's vracer_refer has five runs there" in (ROOT / "docs/extending.md").read_text()
