"""Numbers on C-trace's page that come from records are equal to those of the records."""

from __future__ import annotations

import re

import numpy as np
import pytest

from repro.evidence import intervals, run_measures, task_measures
from repro.evidence.records import COMMITTED, ROOT, read_record
from tests.docs.test_numbers import page, records, unwrapped


def answer(figure: str, name: str) -> dict:
    """The record of an answer of the tabular study."""
    (file,) = (COMMITTED / f"ctrace/tabular_{figure}").glob(f"*/{name}/seed_1.json")
    return read_record(file)


def in_ctrace(sentence: str) -> bool:
    return sentence in unwrapped(page("ctrace"))


def means(figure: str, name: str) -> tuple[list[int], dict[str, np.ndarray]]:
    """The steps of a learning curve of Figure 3, and each method's mean."""
    series = answer(figure, name)["series"]
    table = np.transpose(series["rows"])
    methods = {
        column.removesuffix(": mean"): at for at, column in enumerate(series["columns"]) if column.endswith(": mean")
    }
    return table[0].astype(int).tolist(), {
        method.replace("alpha-Retrace, ", "").replace("uncorrected, ", ""): table[at] for method, at in methods.items()
    }


@pytest.mark.parametrize(
    ("figure", "name", "decimals"),
    [
        ("fig1", "pareto_share", 3),
        ("fig1", "pareto_bias_ratio", 3),
        ("fig1", "retrace_equivalent_n", 2),
        ("fig1", "retrace_three_steps", 3),
        ("fig3", "evaluation_early", 2),
        ("fig3", "evaluation_early_n", 2),
        ("fig3", "evaluation_early_rest", 1),
        ("fig3", "evaluation_early_n_rest", 1),
        ("fig3", "evaluation_early_importance", 1),
        ("fig3", "evaluation_late_importance", 1),
        ("fig3", "control_early", 2),
        ("fig3_legend", "evaluation_early_rest", 2),
        ("fig3_legend", "evaluation_early_n_rest", 2),
        ("fig3_legend", "evaluation_early_importance", 2),
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
def test_answers(figure, name, decimals):
    evaluation = answer(figure, name)["evaluation"]
    low, high = intervals.mean_interval(evaluation["returns"], unit=evaluation["unit"])
    mean, low, high = (f"{number:.{decimals}f}" for number in (evaluation["mean"], low, high))
    assert f"{mean} [{low}, {high}]" in page("ctrace")


def test_how_many_steps_retrace_is_like():
    steps = answer("fig1", "retrace_equivalent_n")["evaluation"]["returns"]
    assert in_ctrace(f"on average, {min(steps):.1f} to {max(steps):.1f} |")


@pytest.mark.parametrize("letter", "abcdef")
def test_pareto_efficiency(letter):
    (row,) = re.findall(rf"^\| \({letter}\) [^|]+\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", page("ctrace"), re.M)
    for figure, cell in zip(("fig6", "fig7", "fig8"), row):
        share, bias = (
            answer(figure, f"{name}_{letter}")["evaluation"] for name in ("pareto_share", "pareto_bias_ratio")
        )
        expected = "1"
        if share["mean"] < 1:
            low, high = intervals.mean_interval(share["returns"], unit=share["unit"])
            expected = f"{share['mean']:.3f} [{low:.3f}, {high:.3f}]" + ", undecided" * (low < 0.95 < high)
        left_out = float(re.search(r"([\d.]+) of 49 n left out", bias["protocol"])[1])
        found, of_page = re.fullmatch(r"(.+) \(([\d.]+)\)(?:, one exact value)?", cell).groups()
        assert (found, float(of_page)) == (f"{expected}, {bias['mean']:.3f}", round(left_out, 1))
        assert cell.endswith("one exact value") == (len(share["returns"]) == 1)


@pytest.mark.parametrize(
    ("figure", "cell"),
    [
        ("fig1", "Left out of the mean are {:.1f} of the {} n of Figure 1"),
        ("fig5", "and {:.2f} of the {} of Figure 5."),
    ],
)
def test_how_many_n_are_left_out(figure, cell):
    protocol = answer(figure, "pareto_bias_ratio")["evaluation"]["protocol"]
    number, total = re.search(r"([\d.]+) of (\d+) n left out", protocol).groups()
    assert in_ctrace(cell.format(float(number), total))


def test_problems_of_figure_1_without_pareto_efficiency():
    shares = answer("fig1", "pareto_share")["evaluation"]["returns"]
    assert in_ctrace(f"on {shares.count(0)} of Figure 1's {len(shares)} MDPs")


@pytest.mark.parametrize(
    ("figure", "name", "sign", "cell"),
    [
        ("fig1", "importance_variance_growth", 1, "by a factor 10^{:.2f} = {:.1f} [{:.1f}, {:.1f}] more"),
        ("fig1", "retrace_variance", -1, "by a factor 10^{:.2f} = {:.0f} [{:.0f}, {:.0f}] on average"),
    ],
)
def test_orders_of_magnitude(figure, name, sign, cell):
    orders = sign * np.array(answer(figure, name)["evaluation"]["returns"])
    powers = (10**number for number in (orders.mean(), *intervals.mean_interval(orders)))
    assert in_ctrace(cell.format(orders.mean(), *powers))


@pytest.mark.parametrize(
    ("figure", "name", "beyond", "cell"),
    [
        (
            "fig1",
            "retrace_variance",
            lambda x: x < 0,
            "less variance than 3-step importance weighting on {:.1f} % of MDPs",
        ),
        ("fig5", "tree_backup_bias", lambda x: x > 1, "more on {:.1f} % of policy pairs"),
        ("fig5", "tree_backup_variance", lambda x: x > 0.5, "more than half on {:.0f} % of policy pairs"),
    ],
)
def test_shares_of_problems(figure, name, beyond, cell):
    found = np.array(answer(figure, name)["evaluation"]["returns"])
    assert in_ctrace(cell.format(100 * beyond(found).mean()))


@pytest.mark.parametrize(
    ("figure", "name", "cell"),
    [
        ("fig3", "evaluation_best_alpha_early", "| best alpha after 200 steps | {:.0f} [{:g}, {:g}] |"),
        ("fig3_rounds", "evaluation_best_alpha_early", "[0, 0.1] | in rounds: {:.2f} [{:g}, {:g}] |"),
        ("fig3", "evaluation_best_alpha_late", "| best alpha at the end | {:.0f} [{:g}, {:g}]; error at alpha = 0.2"),
    ],
)
def test_best_alphas(figure, name, cell):
    alphas = answer(figure, name)["evaluation"]["returns"]
    low, high = np.quantile(alphas, (0.025, 0.975))
    assert in_ctrace(cell.format(np.mean(alphas), round(max(low - 0.1, 0.0), 1), round(min(high + 0.1, 1.0), 1)))


@pytest.mark.parametrize(
    ("figure", "name", "cell"),
    [
        ("fig3", "fall", "it falls below that of fewer steps, from 200 steps on | {:.2g} [{:g}, {:g}] |"),
        ("fig3_rounds", "fall", "[0, 0.2] | in rounds: {:.2f} [{:g}, {:g}] |"),
        ("fig3", "step", "| its largest rise within 100 steps | {:.1f} [{:g}, {:g}] |"),
        ("fig3_visits", "step", "[0, 0.4] | once an episode: {:.1f} [{:g}, {:g}] |"),
    ],
)
def test_moves_of_the_best_alpha(figure, name, cell):
    evaluation = answer(figure, f"evaluation_best_alpha_{name}")["evaluation"]
    low, high = (round(end, 1) for end in evaluation["interval"])
    assert in_ctrace(cell.format(evaluation["mean"], low, high))


ALPHAS = ("0", "0.2", "0.4", "0.6", "0.8", "1")


@pytest.mark.parametrize(
    ("figure", "best", "sentence"),
    [
        (
            "fig3",
            {300: "0", 400: "0.2", 600: "0.4", 800: "0.6", 1000: "0.8", 1100: "1"},
            "is 0 up to 300 steps, 0.2 at 400, 0.4 at 600, 0.6 at 800, 0.8 at 1000 and 1 from 1100 on",
        ),
        (
            "fig3_rounds",
            {100: "0.2", 200: "0.4", 500: "0.6", 900: "1"},
            "is 0.2 after 100 steps, 0.4 after 200, 0.6 after 500 and 1 from 900 on",
        ),
    ],
)
def test_best_alpha_after_each_number_of_steps(figure, best, sentence):
    steps, curves = means(figure, "evaluation_early")
    found = {step: min(ALPHAS, key=lambda alpha: curves[f"alpha = {alpha}"][at]) for at, step in enumerate(steps)}
    assert {step: found[step] for step in best} == best
    assert {alpha for step, alpha in found.items() if step >= max(best)} == {"1"}
    if figure == "fig3":
        assert {alpha for step, alpha in found.items() if step <= 300} == {"0"}
    assert in_ctrace(sentence)


def test_importance_weighting_is_ahead_early():
    steps, curves = means("fig3", "evaluation_early")
    best = [min(curves, key=lambda method: curves[method][at]) for at in range(len(steps))]
    ahead = [name.startswith("importance weighted, n = ") for name in best]
    last = steps[ahead.index(False) - 1]
    assert {name[-1] for name in best[: ahead.index(False)]} == {"3", "4"}
    assert len(curves) == 14
    assert in_ctrace(f"n = 4 and then n = 3 is the best of all 14 methods up to {last} steps.")


@pytest.mark.parametrize(
    ("figure", "name", "step", "methods", "cell"),
    [
        (
            "fig3",
            "evaluation_early",
            200,
            ("importance weighted, n = 2", "alpha = 0"),
            "after 200 steps, {:.1f} against {:.1f}.",
        ),
        (
            "fig3_rounds",
            "evaluation_early",
            200,
            ("n = 10", "n = 20", "alpha = 1"),
            "at 200 steps n = 10 has a mean error of {:.2f} and n = 20 one of {:.2f}, Retrace {:.2f}.",
        ),
        ("fig3_rounds", "evaluation_early", 100, ("alpha = 0.2",), "after 100 steps, of an error of {:.0f}."),
        (
            "fig3",
            "evaluation_late",
            30_000,
            ("n = 5", "n = 20"),
            "is less than the {:.0f} to {:.0f} of uncorrected n = 5 to 20.",
        ),
        ("fig3", "evaluation_late", 30_000, ("importance weighted, n = 2",), "but its {:.1f} is less than"),
        (
            "fig3_visits",
            "evaluation_late",
            30_000,
            ("importance weighted, n = 2",),
            "the error of the best is {:.1f}, the most",
        ),
        (
            "fig3",
            "control_early",
            10,
            ("n = 20", "n = 2", "alpha = 1"),
            "all have more ({:.1f} to {:.1f} against {:.1f})",
        ),
        (
            "fig3_visits",
            "control_early",
            10,
            ("n = 10", "n = 20", "alpha = 1"),
            "less loss than Retrace ({:.1f} and {:.1f} against {:.1f})",
        ),
    ],
)
def test_means_of_figure_3(figure, name, step, methods, cell):
    steps, curves = means(figure, name.replace("late", "early"))
    assert in_ctrace(cell.format(*(curves[method][steps.index(step)] for method in methods)))


@pytest.mark.parametrize(
    ("figure", "name", "step", "behind", "ahead", "cell"),
    [
        ("fig3_rounds", "evaluation_early", 100, "alpha = 1", "alpha = 0.2", "0.2 leads 1 by {:.2f} after 100 steps"),
        (
            "fig3",
            "evaluation_early",
            30_000,
            "alpha = 0.2",
            "alpha = 1",
            "error at alpha = 0.2 minus alpha = 1: {:.1f} |",
        ),
        (
            "fig3",
            "control_early",
            200,
            "alpha = 0.2",
            "alpha = 1",
            "loss at alpha = 0.2 minus alpha = 1 at the end | {:.2f} |",
        ),
    ],
)
def test_leads_in_figure_3(figure, name, step, behind, ahead, cell):
    steps, curves = means(figure, name)
    at = steps.index(step)
    assert in_ctrace(cell.format(curves[behind][at] - curves[ahead][at]))


def test_plotted_problems():
    def rows(figure: str, pairing: str, family: int) -> dict[float, np.ndarray]:
        table = np.array(answer(figure, "pareto_share_a")["series"]["rows"])
        chosen = table[(table[:, 0] == "abcdef".index(pairing)) & (table[:, 1] == family)]
        return {row[2]: row[3:] for row in chosen}

    higher = set()
    for figure in ("fig6", "fig7", "fig8"):
        for pairing in "abcdef":
            variances = {alpha: row[2] for alpha, row in rows(figure, pairing, 2).items()}
            if variances[1.0] > variances[0.0]:
                higher.add((figure, pairing))
    assert higher == {("fig6", "f"), ("fig7", "f"), ("fig8", "f"), ("fig8", "e")}
    variances = {alpha: row[2] for alpha, row in rows("fig8", "e", 2).items()}
    assert in_ctrace(f"and in Figure 8 (e): {variances[0.0]:.1f} at 0 and {variances[1.0]:.1f} at 1.")
    assert in_ctrace(f"5000 trajectories give {rows('fig6', 'b', 1)[4.0][2]:.1f},")
    shares = [row[0] / 0.9**n for n, row in rows("fig8", "f", 0).items() if n in (20, 30, 50)]
    assert in_ctrace("in Figure 8 (f) it is {:.2f}, {:.2f} and {:.2f} of gamma^n at n = 20, 30 and 50.".format(*shares))


def test_what_ctrace_learns_online():
    phi, q = (
        np.array(records("ctrace", "online_theorem", "finite_mdp", f"online_{name}")[0]["evaluation"]["returns"])
        for name in ("phi", "values")
    )
    assert in_ctrace(f"{phi.mean():.3f} of the distance of phi from its limit is left, mean over problems,")
    assert in_ctrace(f"mean over problems, and {q.mean():.3f} of the distance of Q.")
    assert np.sum(q > 0.1) == 3
    assert in_ctrace(f"On three problems more than a tenth is left of Q's, up to {q.max():.2f}.")


DQN_RUNS = {
    ("breakout", "double_dqn"): "Double DQN",
    ("breakout", "n_step_5"): "n-step",
    ("breakout", "retrace"): "Retrace",
    ("breakout", "ctrace_gamma10"): "C-trace",
    ("qbert", "retrace"): "Retrace",
    ("qbert", "ctrace_gamma10"): "C-trace",
    ("road_runner", "retrace"): "Retrace",
    ("road_runner", "ctrace_gamma10"): "C-trace",
    ("pong", "retrace"): "Retrace",
}


def test_the_agents_of_ctrace_have_these_records_alone():
    files = [path for name in ("dqn", "r2d2") for path in (COMMITTED / "ctrace" / name).glob("*/*/seed_*.json")]
    trained = {path.relative_to(COMMITTED / "ctrace").parts[:-1] for path in files if path.parent.name != "random"}
    assert trained == {("dqn", task, agent) for task, agent in DQN_RUNS} | {
        ("r2d2", "breakout", agent) for agent in ("ctrace", "retrace", "n_step_5")
    }
    ends = []
    for agent in ("ctrace", "retrace", "n_step_5", "random"):
        scores = [f"{record['evaluation']['mean']:.1f}" for record in records("ctrace", "r2d2", "breakout", agent)]
        ends.append(" and ".join(filter(None, (", ".join(scores[:-1]), scores[-1]))))
    of_agents = "They end at {} with C-trace, at {} with Retrace and at {} with n-step returns"
    assert in_ctrace(f"{of_agents}, where a random player has {{}}.".format(*ends))


def frames_to_the_target(record: dict) -> float:
    """The frames until the mean excess of the rate over its target in ten kept batches is at most 0.002."""
    columns = dict(zip(record["series"]["columns"], np.transpose(record["series"]["rows"])))
    excess = columns["contraction"] - columns["contraction_target"]
    means = np.convolve(excess, np.full(10, 0.1), "valid")
    return float(columns["num_env_frames"][9:][means <= 0.002][0])


def test_alpha_of_r2d2_takes_most_of_a_run():
    reached = [frames_to_the_target(record) / 1e6 for record in records("ctrace", "r2d2", "breakout", "ctrace")]
    assert in_ctrace(f"after {min(reached):.1f} to {max(reached):.1f}M frames by the same measure")


@pytest.mark.parametrize(("task", "agent"), DQN_RUNS)
def test_the_runs_of_dqn_have_these_scores(task, agent):
    found = records("ctrace", "dqn", task, agent)
    ends = [record["evaluation"]["mean"] for record in found]
    halfway = [min(record["curve"], key=lambda row: abs(row[0] - 300_000))[1] for record in found]
    (random,) = records("impala", "atari_shallow", task, "random")  # of the same actions
    numbers = [", ".join(f"{score:.1f}" for score in scores) for scores in (ends, halfway)]
    game = task.replace("_", " ").title()
    cells = game, DQN_RUNS[task, agent], *numbers, f"{random['evaluation']['mean']:.1f}"
    assert f"\n| {' | '.join(cells)} |\n" in page("ctrace")


def test_the_rows_of_dqn_are_on_the_page():
    results = (ROOT / "docs/results.md").read_text()
    rows = re.findall(
        r"^\| atari57 \| (\S+-DQN .*?) \| (.*?) \| (.*?) \| 600k .*? \| (\w+) \| scale desk", results, re.M
    )
    answered = {f"\n| {' | '.join(row)} |" for row in rows}
    assert len(answered) == 7
    assert [row for row in answered if row not in page("ctrace")] == []
    assert in_ctrace("Seven rows come from them, five on one game of 57, Breakout, and the last two on three:")


def test_the_speed_of_ctrace_beside_retrace_on_each_game():
    ratios = []
    for task in ("qbert", "breakout", "road_runner"):
        runs = [records("ctrace", "dqn", task, agent) for agent in ("ctrace_gamma10", "retrace")]
        weights = [np.full((1, len(found)), 1 / len(found)) for found in runs]
        ratios.append(float(task_measures.ratio_of_frames(runs)(weights)[0]))
    cells = "in {:.2f} of its frames on Qbert, {:.2f} on Breakout and {:.2f} on Road Runner".format(*ratios)
    assert in_ctrace(cells)
    row = re.search(
        r"^\| atari57 \| C-trace-DQN over Retrace-DQN, speed .*$", (ROOT / "docs/results.md").read_text(), re.M
    )
    assert "the answer differs without breakout or without qbert" in row[0]
    assert float(re.search(r"\[[\d.]+, ([\d.]+)\]", row[0])[1]) < 1


def test_one_run_of_twelve_leaves_its_target():
    ends = {}
    for task in ("qbert", "breakout", "road_runner"):
        for record in records("ctrace", "dqn", task, "ctrace_gamma10"):
            columns, rows = record["series"]["columns"], np.array(record["series"]["rows"], np.float64)
            rate, target, alpha = (rows[:, columns.index(n)] for n in ("contraction", "contraction_target", "alpha"))
            last = len(rows) // 6
            below = np.mean((target - rate)[-last:])
            ends[task, record["evaluation"]["mean"]] = below, alpha[-last], alpha[-1]
    assert sum(abs(below) > 0.001 for below, _, _ in ends.values()) == 1
    below, low, high = ends["road_runner", 850.0]
    assert in_ctrace(f"{below:.4f} below it in its last sixth, while alpha rises from {low:.2f} to {high:.2f}")


def test_frames_to_returns_that_all_targets_reach():
    def frames(agent, level):
        """In which the mean curve of the runs first reaches a return."""
        at, scores = run_measures.on_common_frames(records("ctrace", "dqn", "breakout", agent))
        mean = scores.mean(axis=0)
        first = int(np.argmax(mean >= level))
        assert mean[first - 1] < level <= mean[first]
        return np.interp(level, mean[first - 1 : first + 1], at[first - 1 : first + 1])

    ratios = [
        [frames("ctrace_gamma10", level) / frames(other, level) for level in (5, 10, 15)]
        for other in ("n_step_5", "retrace")
    ]
    cells = ["{:.2f}, {:.2f} and {:.2f}".format(*row) for row in ratios]
    assert in_ctrace(f"needs {cells[0]} times the frames of n-step returns, and {cells[1]} times those of Retrace.")
    n_step = records("ctrace", "dqn", "breakout", "n_step_5")
    level = task_measures.their_level([n_step, n_step])
    assert 0.98 * n_step[0]["num_env_frames"] <= frames("n_step_5", level) <= n_step[0]["num_env_frames"]
    assert in_ctrace("n-step returns first have theirs in the last fiftieth of the frames.")


def test_alpha_takes_half_of_a_run():
    reached = [
        frames_to_the_target(record)
        for task, agent in DQN_RUNS
        if agent == "ctrace_gamma10"
        for record in records("ctrace", "dqn", task, agent)
    ]
    low, high = (f"{round(frames, -3):,.0f}" for frames in (min(reached), max(reached)))
    assert in_ctrace(f"C-trace's rate reaches its target after {low} to {high} of the 600,000 frames")


def test_pong_is_played_as_at_random():
    (run,), (random,) = (
        records("ctrace", "dqn", "pong", "retrace"),
        records("impala", "atari_shallow", "pong", "random"),
    )
    _, high = intervals.mean_interval(random["evaluation"]["returns"])
    assert run["evaluation"]["mean"] <= high
    assert in_ctrace("**On Pong** the agent with Retrace does not learn within these 600,000 frames.")
