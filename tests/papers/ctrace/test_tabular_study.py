"""The tabular study from configuration to records: settings, answers, figures, stopping and starting again."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
import xml.dom.minidom
from pathlib import Path

import numpy as np
import pytest

from paper_configs.ctrace import tabular_fig1, tabular_fig3, tabular_fig5, tabular_fig6, tabular_fig7, tabular_fig8
from repro import jobs
from repro.evaluation import published, records
from repro.papers.ctrace import tabular_learning, tabular_tradeoffs
from repro.tabular import mdps, operators
from repro.tabular.operators import Method

CONFIGS = (tabular_fig1, tabular_fig3, tabular_fig5, tabular_fig6, tabular_fig7, tabular_fig8)
TRADEOFFS = (tabular_fig1, tabular_fig5, tabular_fig6, tabular_fig7, tabular_fig8)


def make_job(module, folder: Path) -> jobs.StudyJob:
    config = module.get_config("smoke")
    return jobs.StudyJob(config, config.env.task, 1, folder)


def nothing(done: int, pieces: int) -> None:
    pass


@pytest.mark.parametrize("module", TRADEOFFS)
def test_paper_scale_has_the_settings_of_appendix_c(module):
    config = module.get_config("paper")
    assert (config.env.discount, config.methods.lambda_) == (0.9, 1.0)
    assert (config.variance.trajectories, config.variance.steps) == (5_000, 100)
    first = module is tabular_fig1
    assert config.env.num_states == (5 if first else 20)
    assert config.env.num_actions == (2 if config.env.task == "chain" else 3)
    assert (config.methods.uncorrected_n, config.methods.importance_n) == ((20, 3) if first else (50, 4))
    assert len(config.problem.pairings) == (1 if module in (tabular_fig1, tabular_fig5) else 6)


def test_figure_3_has_the_settings_of_appendix_c():
    config = tabular_fig3.get_config("paper")
    assert (config.env.num_states, config.env.discount) == (20, 0.9)
    assert (config.learning.learning_rate, config.learning.round_steps) == (0.1, 100)
    assert config.evaluation.episodes == 200


@pytest.mark.parametrize("module", CONFIGS)
def test_every_answer_has_its_statement_in_its_unit(module):
    config = module.get_config("paper")
    rows = [row for row in published.load("ctrace").rows if row.experiment == config.experiment]
    assert sorted(row.agent for row in rows) == sorted(config.answers)
    assert config.agent in config.answers
    units = tabular_learning.UNITS if config.study == "tabular_learning" else tabular_tradeoffs.UNITS
    letters = len(config.get("problem", {}).get("pairings", ())) > 1
    for row in rows:
        assert row.task == config.env.task
        assert row.statement
        assert row.unit == units[row.agent[:-2] if letters else row.agent]


def test_pairings_of_one_number_share_the_mdp_and_have_the_named_policies():
    config = tabular_fig6.get_config("smoke")
    found = {p[0]: tabular_tradeoffs.make_problem(config, 1, p[0], 3) for p in config.problem.pairings}
    mdp = found["a"].mdp
    for problem in found.values():
        np.testing.assert_array_equal(problem.mdp.transitions, mdp.transitions)
    best = mdps.optimal_policy(mdp)
    for letter in "def":
        np.testing.assert_array_equal(found[letter].pi, best)
    np.testing.assert_allclose(found["a"].pi, 1 / 3)
    np.testing.assert_allclose(found["c"].mu, 1 / 3)
    np.testing.assert_allclose(found["f"].mu, 0.9 * best + 0.1 / 3)
    assert np.abs(found["b"].pi - found["b"].mu).max() > 0.1
    other = tabular_tradeoffs.make_problem(config, 1, "a", 4)
    assert np.abs(other.mdp.transitions - mdp.transitions).max() > 0.1


def test_pareto_ratios_are_bias_over_bias_at_equal_contraction():
    problem = tabular_tradeoffs.make_problem(tabular_fig1.get_config("smoke"), 1, "b", 0)
    mdp, pi, mu = problem
    for n, ratio in enumerate(tabular_tradeoffs.pareto_ratios(problem, 6), 2):
        best = min(
            operators.fixed_point_bias(op, mdp, pi)
            for op in (operators.operator(mdp, pi, mu, Method("retrace", alpha=a)) for a in np.linspace(0, 1, 2001))
            if operators.contraction_rate(op) <= 0.9**n
        )
        op = operators.operator(mdp, pi, mu, Method("uncorrected", n=n))
        assert ratio == pytest.approx(best / operators.fixed_point_bias(op, mdp, pi), abs=2e-3)


def test_answers_about_learning_are_differences_within_a_repetition():
    """With errors that name their method, each answer shows which methods it compares, and when."""
    config = tabular_fig3.get_config("paper")
    lines = list(tabular_learning.methods(config).values())
    late = np.arange(301)[:, None, None] * 1000.0
    name = np.array([{"uncorrected": 0, "importance": 100, "retrace": 200}[line.rule] for line in lines])
    which = np.array([line.n + 10 * line.alpha * (line.rule == "retrace") for line in lines])
    errors = late + (name + which)[None, :, None] + np.zeros(3)
    found = tabular_learning._answers(config, errors, errors[:201])
    expected = {
        "evaluation_early": 210 - 202,
        "evaluation_early_n": 1 - 20,
        "evaluation_early_importance": 102 - 202,
        "evaluation_late": 202 - 210,
        "evaluation_late_importance": 102 - 210,
        "evaluation_best_alpha_rise": 0.0,
        "control_early": 210 - 202,
        "control_early_n": 1 - 20,
        "control_late": 202 - 210,
    }
    assert {key: answer.values.tolist() for key, answer in found.items()} == {k: [v] * 3 for k, v in expected.items()}
    retrace = [line.rule == "retrace" and line.alpha == 1.0 for line in lines]
    errors[config.comparison.early_evaluation_round, retrace] = 0
    rise = tabular_learning._answers(config, errors, errors[:201])["evaluation_best_alpha_rise"]
    assert rise.values.tolist() == [-1.0] * 3


def test_learning_curves_begin_before_the_first_round():
    config = tabular_fig3.get_config("smoke")
    mdp = mdps.chain(20, 0.9)
    best = mdps.optimal_policy(mdp)
    start = tabular_learning.learning_curves(config, 1, "evaluation", 0)
    assert start.shape == (21, 14, 2)
    np.testing.assert_allclose(start[0], np.linalg.norm(mdps.action_values(mdp, best)))
    regret = tabular_learning.learning_curves(config, 1, "control", 0)
    uniform = mdps.state_values(mdp, best) - mdps.state_values(mdp, mdps.uniform_policy(mdp))
    np.testing.assert_allclose(regret[0], uniform @ mdp.initial)
    assert np.all(regret > -1e-9)
    assert regret[-1].mean() < 0.8 * regret[0].mean()


def test_a_study_gives_valid_records_and_the_same_figure_again(tmp_path):
    job = make_job(tabular_fig1, tmp_path)
    assert not job.recorded()
    job.run([0], quiet=True)
    assert job.recorded()
    stored, faults = records.read_all(tmp_path)
    assert faults == []
    assert {item.record["agent"] for item in stored} == set(job.config.answers)
    (main,) = (item.record for item in stored if item.record["agent"] == job.config.agent)
    rows = main["series"]["rows"]
    assert len(rows) == 20 + 3 + 21
    assert [row[2:4] for row in rows[:2]] == [pytest.approx([1, 0.9]), pytest.approx([2, 0.81])]
    assert main["frames"] == 200 * 100
    folder = tmp_path / "ctrace/tabular_fig1"
    first = [(folder / name).read_bytes() for name in ("figure.png", "figure.svg")]
    assert first[0].startswith(b"\x89PNG")
    xml.dom.minidom.parseString(first[1])
    job.record_paths[-1].unlink()
    again = make_job(tabular_fig1, tmp_path)
    assert not again.recorded()
    again.run([0], quiet=True)
    assert [(folder / name).read_bytes() for name in ("figure.png", "figure.svg")] == first


def test_a_stopped_study_writes_nothing(tmp_path):
    job = make_job(tabular_fig8, tmp_path)
    job.stop()
    with pytest.raises(jobs.Stopped):
        job.run([0], quiet=True)
    assert not list(tmp_path.rglob("*.*"))


def test_records_of_two_scales_lie_beside_each_other_and_the_figure_is_of_the_larger(tmp_path):
    job = make_job(tabular_fig1, tmp_path)
    job.run([0], quiet=True)
    for path in job.record_paths:
        path.write_text(path.read_text().replace('"scale": "smoke"', '"scale": "desk"', 1))
    figure = tmp_path / "ctrace/tabular_fig1/figure.svg"
    figure.write_text("of the larger scale")
    again = make_job(tabular_fig1, tmp_path)
    assert not again.recorded()
    again.run([0], quiet=True)
    assert again.recorded()
    assert {path.name for path in again.record_paths} == {"seed_1_smoke.json"}
    stored, faults = records.read_all(tmp_path)
    assert faults == []
    assert sorted(item.record["scale"] for item in stored) == sorted(["desk", "smoke"] * len(job.config.answers))
    assert figure.read_text() == "of the larger scale"


def test_another_task_is_refused(tmp_path):
    config = tabular_fig7.get_config("smoke")
    with pytest.raises(ValueError, match="tabular_fig7 has one task, garnet, and not 'chain'"):
        jobs.StudyJob(config, "chain", 1, tmp_path)


def reproduce(*arguments: str, folder: Path) -> list[str]:
    command = [sys.executable, "-m", "repro.reproduce", "--paper=ctrace", "--scale=smoke"]
    return [*command, f"--results_dir={folder}", *arguments]


def test_tabular_stands_for_every_figure_and_an_unknown_name_is_one_sentence(tmp_path):
    reproduce_module = importlib.import_module("repro.reproduce")
    known = [module.__name__.split(".")[-1] for module in CONFIGS]
    assert list(reproduce_module._expand(["tabular"], known)) == known
    assert list(reproduce_module._expand(["tabular_fig3"], known)) == ["tabular_fig3"]
    done = subprocess.run(reproduce("--experiment=tab", folder=tmp_path), capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "no experiment 'tab' in paper_configs/ctrace" in done.stderr
    assert done.stderr.count("\n") == 1


def commands_of_children(pid: int) -> list[str]:
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):  # it has ended
            found.append(Path(f"/proc/{child}/cmdline").read_text())
    return found


def test_an_interrupted_study_says_so_and_starts_again(tmp_path):
    arguments = reproduce("--experiment=tabular_fig8", folder=tmp_path)
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not any("spawn_main" in command for command in commands_of_children(process.pid)):  # its workers start
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    stdout, stderr = process.communicate(timeout=60)
    assert "Traceback" not in stdout + stderr
    assert "1 of 1 runs are not finished; the same command resumes them." in stdout
    assert not list(tmp_path.rglob("*.json"))
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.rglob("seed_1.json"))) == 12
    skipped = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert "tabular_fig8 chain seed 1: complete" in skipped.stdout


def test_the_study_starts_without_tensorflow():
    modules = "repro.reproduce, repro.papers.ctrace.tabular_learning, repro.papers.ctrace.tabular_tradeoffs"
    check = f"import sys, {modules}; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], timeout=60).returncode == 0
