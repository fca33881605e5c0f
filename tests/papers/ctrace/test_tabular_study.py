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

from paper_configs.ctrace import (
    tabular_fig1,
    tabular_fig3,
    tabular_fig3_legend,
    tabular_fig3_rounds,
    tabular_fig3_visits,
    tabular_fig5,
    tabular_fig6,
    tabular_fig7,
    tabular_fig8,
)
from repro.evidence import published, records
from repro.launch.recorded_job import Stopped
from repro.launch.study_job import StudyJob
from repro.papers.ctrace import replot, tabular_learning, tabular_tradeoffs
from repro.tabular import mdps, operators
from repro.tabular.learning import Stream, learn
from repro.tabular.operators import Method
from repro.training.study import Study

CONTEXT = {"retrace_equivalent_n", "control_late_importance"}  # answers that no sentence of the paper has
READINGS = (tabular_fig3_legend, tabular_fig3_rounds, tabular_fig3_visits)
"""Of what the paper leaves open, beside `tabular_fig3`."""
CONFIGS = (tabular_fig1, tabular_fig3, tabular_fig5, tabular_fig6, tabular_fig7, tabular_fig8)
TRADEOFFS = (tabular_fig1, tabular_fig5, tabular_fig6, tabular_fig7, tabular_fig8)


def make_job(module, folder: Path) -> StudyJob:
    config = module.get_config("smoke")
    return StudyJob(config, config.env.task, 1, folder)


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


@pytest.mark.parametrize(
    ("module", "part", "field", "read"),
    [
        (tabular_fig3_legend, "methods", "importance_n", (2, 3)),
        (tabular_fig3_rounds, "learning", "trajectory", "round"),
        (tabular_fig3_visits, "learning", "visits", "mean"),
    ],
)
def test_another_reading_of_figure_3_differs_in_one_field(module, part, field, read):
    config, other = tabular_fig3.get_config("paper").to_dict(), module.get_config("paper").to_dict()
    assert other[part].pop(field) == read != config[part].pop(field)
    assert {*other.pop("answers")} <= {*config.pop("answers")}
    assert other.pop("experiment") != config.pop("experiment")
    assert other == config
    assert not [row for row in published.load("ctrace").rows if row.experiment == module.get_config().experiment]


@pytest.mark.parametrize("module", CONFIGS)
def test_every_answer_has_its_statement_in_its_unit(module):
    config = module.get_config("paper")
    rows = [row for row in published.load("ctrace").rows if row.experiment == config.experiment]
    not_printed = CONTEXT | ({"pareto_share", "pareto_bias_ratio"} if config.experiment == "tabular_fig5" else set())
    readings = {name for row in rows for name in row.protocol.get("readings", ())}
    assert sorted(row.agent for row in rows) == sorted(
        {*config.answers} - not_printed - ({"control_early_n"} & readings)
    )
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


@pytest.mark.parametrize("module", [tabular_fig6, tabular_fig7])
def test_problems_have_the_configured_size(module):
    env = module.get_config("smoke").env
    mdp = tabular_tradeoffs.make_problem(module.get_config("smoke"), 1, "a", 0).mdp
    assert mdp.rewards.shape == (env.num_states, env.num_actions)
    np.testing.assert_array_equal((mdp.transitions > 0).sum(-1), env.branching or env.num_states)


@pytest.mark.parametrize(
    ("module", "letter", "steps"), [(tabular_fig1, "b", range(2, 7)), (tabular_fig8, "f", (20, 50))]
)
def test_pareto_ratios_are_bias_over_bias_at_equal_contraction(module, letter, steps):
    problem = tabular_tradeoffs.make_problem(module.get_config("smoke"), 1, letter, 0)
    mdp, pi, mu = problem
    ratios = tabular_tradeoffs.pareto_ratios(problem, max(steps))
    mixed = [operators.operator(mdp, pi, mu, Method("retrace", alpha=a)) for a in np.linspace(0, 1, 2001)]
    rates = np.array([operators.contraction_rate(op) for op in mixed])
    biases = np.array([operators.fixed_point_bias(op, mdp, pi) for op in mixed])
    for n in steps:
        op = operators.operator(mdp, pi, mu, Method("uncorrected", n=n))
        best = biases[rates <= operators.contraction_rate(op)].min()
        assert best > 0
        assert ratios[n - 2] == pytest.approx(best / operators.fixed_point_bias(op, mdp, pi), abs=2e-3)


def test_points_of_a_figure_are_exact_rates_and_biases_and_estimated_variances_at_q_0():
    config = tabular_fig1.get_config("desk")
    config.variance.trajectories = 20_000
    problem = tabular_tradeoffs.make_problem(config, 1, "b", 0)
    rows = tabular_tradeoffs.tradeoffs(config, 1, "b")
    lines = tabular_tradeoffs.methods(config)
    assert [row[1] for row in rows] == [*range(1, 21), *range(1, 4), *np.linspace(0, 1, 21)]
    for line, (_, _, rate, bias, variance) in zip(lines, rows, strict=True):
        op = operators.operator(*problem, line)
        assert rate == pytest.approx(operators.contraction_rate(op))
        assert bias == pytest.approx(operators.fixed_point_bias(op, problem.mdp, problem.pi), abs=1e-9)
        if line.rule != "importance":  # whose weights have heavy tails
            assert variance == pytest.approx(tabular_tradeoffs._variance(problem, line), rel=0.1, abs=1e-12)
    assert rows[0][4] == pytest.approx(0, abs=1e-12)  # at Q = 0 the 1-step target is the reward, which is certain
    assert rows[-1][3] == 0  # Retrace


def one_state(pi: float, mu: float, reward: int) -> mdps.Problem:
    """A state that leads to itself, gamma = 1/2, where the action `reward` gains 1; pi, mu: chance of action 1."""
    rewards = np.eye(2)[[reward]]
    mdp = mdps.FiniteMDP(np.ones((1, 2, 1)), rewards, 0.5, np.zeros(1, bool), np.ones(1))
    return mdps.Problem(mdp, *(np.array([[1 - p, p]]) for p in (pi, mu)))


def test_steps_that_retrace_itself_beats_are_not_averaged():
    """Retrace contracts like 4.4 steps: for n = 2, 3, 4 no alpha has equal contraction; a ratio of 0 is no answer."""
    config = tabular_fig1.get_config("smoke")
    problem = one_state(pi=0.0, mu=0.05, reward=1)
    ratios = tabular_tradeoffs.pareto_ratios(problem, 20)
    assert np.isnan(ratios).tolist() == [True] * 3 + [False] * 16
    found = tabular_tradeoffs._pareto(config, problem)
    assert found["pareto_left_out"] == 3
    assert found["pareto_bias_ratio"] == pytest.approx(ratios[3:].mean())
    assert found["pareto_bias_ratio"] > 1.1 * np.nan_to_num(ratios).mean()
    assert found["pareto_share"] == float(np.all(ratios[3:] < 1))


def test_importance_weighting_by_hand():
    """pi takes action 0, mu either: rho is 2 or 0.

    At Q = 0 the variance of gamma rho_1 + gamma^2 rho_1 rho_2 is 1/4 (2 (1 + 1 + 1/2) - 9/4) = 11/16, of its first term
    1/4. Uncorrected, terms of variance 1/4 gamma^2 and 1/4 gamma^4 add up.
    """
    problem = one_state(pi=0.0, mu=0.5, reward=0)
    assert tabular_tradeoffs._growth(problem, "importance") == pytest.approx(np.log10((11 / 16) / (1 / 4)))
    assert tabular_tradeoffs._growth(problem, "uncorrected") == pytest.approx(np.log10(1 + 1 / 4))
    found = tabular_tradeoffs._importance(tabular_fig1.get_config("smoke"), problem)
    assert found["importance_variance_growth"] == pytest.approx(np.log10(2.75 / 1.25))
    assert found["importance_bias"] == 0


@pytest.mark.parametrize(
    ("mu", "steps", "like_three"), [(1 / 2, np.log2(3), 0.0), (1 / 7, 3.0, 1.0), (0.05, np.log2(21), 0.0)]
)
def test_retrace_by_hand(mu, steps, like_three):
    """pi takes action 0, c is 1 there and 0 else: C = gamma (mu_1 + mu_0 C), as a trace ends with chance mu_1."""
    found = tabular_tradeoffs._retrace(tabular_fig1.get_config("smoke"), one_state(pi=0.0, mu=mu, reward=0))
    assert found["retrace_equivalent_n"] == pytest.approx(steps)
    assert found["retrace_three_steps"] == like_three


def test_variance_of_retrace_by_hand():
    """Y = c (1 + gamma Y') has the mean 2/3 and the mean square 20/21, so gamma Y the variance 8/63; 3 steps: 11/16."""
    found = tabular_tradeoffs._retrace(tabular_fig1.get_config("smoke"), one_state(pi=0.0, mu=0.5, reward=0))
    assert found["retrace_variance"] == pytest.approx(np.log10((8 / 63) / (11 / 16)))


def test_what_the_mixture_trades_by_hand():
    """pi takes action 1, mu takes it with chance p; C = gamma alpha (1 - p) / (1 - gamma + gamma alpha (1 - p)).

    Q of the mixture is r + gamma (p + alpha (1 - p)) / (1 - gamma): off by 1 - p for both actions at alpha = 0.
    """
    config = tabular_fig1.get_config("smoke")
    found = tabular_tradeoffs._mixture(config, one_state(pi=1.0, mu=0.25, reward=1))
    assert found["mixture_bias"] == pytest.approx(0.75 * 2**0.5)
    assert found["mixture_share"] == 1.0
    same = tabular_tradeoffs._mixture(config, one_state(pi=0.25, mu=0.25, reward=1))
    assert same == {"mixture_share": 0.0, "mixture_bias": pytest.approx(0.0)}


def test_a_mixture_whose_bias_falls_at_a_step_is_no_trade_off():
    """Some problem has more bias at an alpha above 0 than at 0, although it contracts worse there."""
    config = tabular_fig1.get_config("smoke")
    problems = [tabular_tradeoffs.make_problem(config, 1, "b", number) for number in range(60)]
    shares = [tabular_tradeoffs._mixture(config, problem)["mixture_share"] for problem in problems]
    for (mdp, pi, mu), share in zip(problems, shares):
        alphas = np.linspace(1, 0, config.methods.alphas)
        ops = [operators.operator(mdp, pi, mu, Method("retrace", alpha=alpha)) for alpha in alphas]
        biases = [operators.fixed_point_bias(op, mdp, pi) for op in ops]
        rates = [operators.contraction_rate(op) for op in ops]
        assert share == float(sorted(biases) == biases and sorted(rates, reverse=True) == rates)
    assert set(shares) == {0.0, 1.0}


def test_tree_backup_by_hand():
    """pi takes action 1, mu takes it with chance 1/4; C = gamma (1 - k) / (1 - gamma k), k = E[c].

    TreeBackup has k = 1/4 at alpha = 1 and 5/8 at alpha = 0, so C = 3/7 and 3/11. Retrace has 3/7, too, and
    alpha-Retrace k = 1 - 3/4 alpha, so 3/11 at alpha = 1/2, where half the distance from Q^mu to Q^pi is left.
    Y = c (r + gamma Y'): mean 2/7 and mean square 12/35 at alpha = 1, 1/11 and 4/209 at alpha = 0.
    """
    config = tabular_fig5.get_config("smoke")
    config.methods.alphas = 2
    found = tabular_tradeoffs._tree_backup(config, one_state(pi=1.0, mu=0.25, reward=1))
    assert found["tree_backup_gain"] == pytest.approx((3 / 7 - 3 / 11) / (3 / 7))
    assert found["tree_backup_bias"] == pytest.approx(2.0)
    left = (4 / 209 - 1 / 121) / (12 / 35 - 4 / 49)
    assert found["tree_backup_variance"] == pytest.approx(1 - left)


def test_figures_5_and_8_have_other_policies_on_the_same_chain():
    first, other = (module.get_config("smoke") for module in (tabular_fig5, tabular_fig8))
    for i in range(4):
        mine, theirs = (tabular_tradeoffs.make_problem(config, 1, "b", i) for config in (first, other))
        np.testing.assert_array_equal(mine.mdp.transitions, theirs.mdp.transitions)
        assert np.abs(mine.pi - theirs.pi).max() > 0.1


@pytest.mark.slow
def test_a_problem_without_anything_random_is_solved_once(tmp_path):
    config = tabular_fig8.get_config("smoke")
    assert [p[0] for p in config.problem.pairings if tabular_tradeoffs.is_certain(config, p[0])] == ["d", "f"]
    config.env.task = "garnet"
    assert not any(tabular_tradeoffs.is_certain(config, p[0]) for p in config.problem.pairings)
    job = make_job(tabular_fig8, tmp_path)
    job.run([0], quiet=True)
    found = {path.parent.name: records.read_record(path)["evaluation"] for path in job.record_paths}
    for name, evaluation in found.items():
        certain = name[-1] in "df"
        assert evaluation["episodes"] == (1 if certain else 8)
        assert ("neither MDP nor policies are random" in evaluation["protocol"]) == certain
        assert evaluation.get("exact", False) == certain
        assert "interval" not in evaluation  # no bootstrap of one value, and of several it is not stored
        assert ("n left out on average" in evaluation["protocol"]) == name.startswith("pareto_bias_ratio")


@pytest.fixture
def learned():
    """The configuration of Figure 3, its methods, and errors [K + 1, M, 3] whose means are `10 number + 1000 round`."""
    config = tabular_fig3.get_config("paper")
    lines = list(tabular_learning.methods(config).values())
    means = 1000.0 * np.arange(301)[:, None] + 10.0 * np.arange(len(lines))
    return config, lines, means[..., None] + np.array([-1.0, 0.0, 1.0])


def number(lines, **wanted) -> int:
    return [all(getattr(line, key) == value for key, value in wanted.items()) for line in lines].index(True)


def answer(config, errors) -> dict[str, np.ndarray]:
    found = tabular_learning._answers(config, errors, errors[:201], np.random.default_rng(0))
    assert set(found) == set(config.answers)
    return found


def test_answers_about_learning_compare_the_best_of_each_kind(learned):
    """The methods' numbers are their errors: n = 1, 2, 5, 10, 20, weights 2, 3, 4, alpha = 1, .8, .6, .4, .2, 0."""
    config, _, errors = learned
    found = {key: item.values.tolist() for key, item in answer(config, errors).items() if "best" not in key}
    expected = {
        "evaluation_early": 80 - 120,  # Retrace minus alpha = 0.2
        "evaluation_early_n": 80 - 30,  # minus n = 10
        "evaluation_early_rest": 0 - 120,  # n = 1 minus alpha = 0.2
        "evaluation_early_n_rest": 0 - 30,
        "evaluation_early_importance": 50 - 120,
        "evaluation_late": 120 - 80,
        "evaluation_late_importance": 50 - 80,
        "control_early": 0 - 10,  # n = 1, without bias, minus n = 2
        "control_early_n": 80 - 30,  # Retrace minus n = 10
        "control_late": 120 - 80,
        "control_late_importance": 10 - 50,  # n = 2 minus importance weights with n = 2
        "control_late_n": 30 - 0,
    }
    assert found == {key: [value] * 3 for key, value in expected.items()}


def test_groups_of_early_control_are_by_exact_bias_and_contraction(learned):
    config, lines, _ = learned
    found = tabular_learning.groups(config)
    biased = [line.n > 1 if line.rule == "uncorrected" else line.rule == "retrace" and line.alpha < 1 for line in lines]
    np.testing.assert_array_equal(found["unbiased"], ~np.array(biased))
    np.testing.assert_array_equal(found["contractive"], biased)
    config.methods.uncorrected_n = (1, 2)
    config.methods.lambda_ = 0.5  # all alpha-Retraces contract worse, and n = 2 better than Retrace
    lines = list(tabular_learning.methods(config).values())
    rates, biases = tabular_learning._rates_and_biases(config)
    retrace = rates[number(lines, rule="retrace", alpha=1.0)]
    found = tabular_learning.groups(config)
    np.testing.assert_array_equal(found["contractive"], (biases > 1e-9) & (rates < retrace))
    assert found["contractive"][number(lines, rule="uncorrected", n=2)]


def test_early_control_compares_the_best_biased_with_the_best_unbiased_method(learned):
    config, lines, errors = learned
    early = config.comparison.early_control_round
    errors[early] = 100.0
    errors[early, number(lines, rule="retrace", alpha=0.4)] = 40.0
    errors[early, number(lines, rule="importance", n=3)] = 70.0
    found = answer(config, errors)["control_early"]
    assert found.values.tolist() == [70.0 - 40.0] * 3
    assert "importance weighted, n = 3, against alpha-Retrace, alpha = 0.4" in found.protocol


def test_large_n_that_only_beats_one_step_is_not_best(learned):
    """A mean error far below that of n = 1 says nothing: at 200 steps all Retraces may lie below it."""
    config, lines, errors = learned
    early = config.comparison.early_evaluation_round
    errors[early, number(lines, rule="uncorrected", n=1)] = 1e6
    errors[early, number(lines, rule="uncorrected", n=20)] = 500.0
    errors[early, number(lines, rule="uncorrected", n=10)] = 600.0
    errors[early, number(lines, rule="retrace", alpha=1.0)] = 400.0
    errors[early, number(lines, rule="importance", n=4)] = 300.0
    found = answer(config, errors)
    assert found["evaluation_early_n"].values.tolist() == [400 - 500] * 3
    assert found["evaluation_early_n_rest"].values.tolist() == [300 - 500] * 3
    assert "importance weighted, n = 4, against uncorrected, n = 20" in found["evaluation_early_n_rest"].protocol


def test_the_best_method_is_chosen_by_its_mean_and_not_in_each_repetition(learned):
    config, lines, errors = learned
    two, three = (number(lines, rule="importance", n=n) for n in (2, 3))
    errors[-1, two], errors[-1, three] = [10.0, 90.0, 10.0], [80.0, 20.0, 80.0]
    errors[-1, number(lines, rule="importance", n=4)] = 1e6
    errors[-1, number(lines, rule="retrace", alpha=1.0)] = 0.0
    found = answer(config, errors)["evaluation_late_importance"]
    assert found.values.tolist() == [10.0, 90.0, 10.0]  # not 10, 20, 10


@pytest.mark.slow
def test_the_best_alpha_is_that_of_the_resampled_mean_curve(learned):
    config, lines, errors = learned
    early, last = config.comparison.early_evaluation_round, len(errors) - 1
    errors[:, [line.rule == "retrace" for line in lines]] = 1e6
    for when, alphas in ((early, (0.2, 0.4)), (last, (1.0, 0.8))):
        lower, upper = (number(lines, rule="retrace", alpha=alpha) for alpha in alphas)
        errors[when, lower], errors[when, upper] = [0.0, 30.0, 30.0], [15.0, 20.0, 31.0]  # means 20 and 22
    found = answer(config, errors)
    ends = [found[f"evaluation_best_alpha_{when}"] for when in ("early", "late")]
    for item in ends:
        assert item.values.shape == (config.evaluation.resamples,)
        assert item.interval[0] <= item.values.mean() <= item.interval[1]
    half = tabular_learning.resolution(config) / 2  # what the grid leaves open
    assert half == pytest.approx(0.1)
    assert ends[0].interval == pytest.approx((0.2 - half, 0.4 + half))
    assert ends[1].interval == pytest.approx((0.8 - half, 1.0))
    assert np.mean(ends[0].values == 0.2) == pytest.approx(17 / 27, abs=0.06)  # of all resamples of three
    errors[early, number(lines, rule="retrace", alpha=0.2)] = 0.0
    sure = answer(config, errors)["evaluation_best_alpha_early"]
    assert (sure.interval, set(sure.values)) == (pytest.approx((0.2 - half, 0.2 + half)), {0.2})


@pytest.mark.parametrize(
    ("best", "fall", "rise"),
    [
        ((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), 0.0, 0.2),
        ((0.0, 0.0, 1.0, 1.0), 0.0, 1.0),  # at once
        ((0.2, 0.4, 0.2, 0.0, 0.4), 0.4, 0.4),  # falls twice, from the second on
        ((1.0, 0.6, 0.6), 0.4, 0.0),  # never rises
    ],
)
def test_how_far_the_best_alpha_falls_and_rises_by_hand(learned, best, fall, rise):
    """Alphas that are best at one number of steps after the other; before the early one nothing counts."""
    config, lines, errors = learned
    early = config.comparison.early_evaluation_round
    errors = errors[: early + len(best)]
    errors[:, number(lines, rule="retrace", alpha=1.0)] = -1.0
    for k, alpha in enumerate(best):
        errors[early + k, number(lines, rule="retrace", alpha=1.0)] = 1e6
        errors[early + k, number(lines, rule="retrace", alpha=alpha)] = -1.0
    found = tabular_learning._answers(config, errors, learned[2], np.random.default_rng(0))
    for name, expected in (("fall", fall), ("step", rise)):
        item = found[f"evaluation_best_alpha_{name}"]
        assert set(item.values) == {expected}
        assert item.interval == pytest.approx((max(expected - 0.2, 0.0), min(expected + 0.2, 1.0)))  # a step of alphas


def test_how_far_the_best_alpha_moves_is_found_in_each_resample(learned):
    """Of the second of two numbers of steps 0.4 is best by two repetitions, 0.8 by the third."""
    config, lines, errors = learned
    early = config.comparison.early_evaluation_round
    errors = errors[: early + 2]
    errors[:, number(lines, rule="retrace", alpha=0.2)] = -1.0
    errors[-1, number(lines, rule="retrace", alpha=0.4)] = [-10.0, -10.0, 0.0]
    errors[-1, number(lines, rule="retrace", alpha=0.8)] = [0.0, 0.0, -100.0]
    found = tabular_learning._answers(config, errors, learned[2], np.random.default_rng(0))
    rises = found["evaluation_best_alpha_step"]
    assert set(rises.values) == {0.2, 0.6}
    assert np.mean(rises.values == 0.6) == pytest.approx(19 / 27, abs=0.06)  # resamples with the third
    assert rises.interval == pytest.approx((0.0, 0.8))
    assert set(found["evaluation_best_alpha_fall"].values) == {0.0}


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


def test_bands_of_figure_3_are_standard_errors_of_the_mean(learned):
    """Appendix C.2 has them by bootstrap over the repetitions: std / sqrt(R) if these are many."""
    config, lines, _ = learned
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(301, len(lines), 200)) * np.arange(1.0, 1.0 + len(lines))[:, np.newaxis]
    series = tabular_learning._series(config, "evaluation_early", 100, errors, rng)
    rows = np.array(series["rows"])
    assert [column.split(": ")[-1] for column in series["columns"][1:]] == ["mean", "standard error"] * len(lines)
    assert (rows[0, 0], rows[-1, 0]) == (100, 30_000)
    shown = errors[(rows[:, 0] / 100).astype(int)]
    np.testing.assert_allclose(rows[:, 1::2], shown.mean(-1), atol=1e-4)
    np.testing.assert_allclose(rows[:, 2::2], shown.std(-1) / 200**0.5, rtol=0.12)


def test_control_improves_each_method_by_its_own_estimate():
    """Algorithm 1: the target is greedy on the method's Q, and so is the policy that is scored."""
    config = tabular_fig3.get_config("smoke")
    config.methods.uncorrected_n, config.methods.importance_n, config.methods.alphas = (2,), (), (1.0, 0.4)
    config.learning.control_rounds, config.evaluation.num_envs = 12, 1
    mdp = mdps.chain(20, 0.9)
    uniform, best = mdps.uniform_policy(mdp), mdps.optimal_policy(mdp)
    found = tabular_learning.learning_curves(config, 1, "control", 0)[..., 0]

    def learned(improve):
        """The losses, with a target policy from the present Q."""
        stream = Stream(mdp, uniform, 1, np.random.default_rng([1, 1, 0]))
        q = np.zeros((3, 1, 20, 2))
        for _ in range(12):
            steps = stream.take(100)
            for estimate, method in zip(q, tabular_learning.methods(config).values()):
                learn(estimate, mdp, steps, improve(estimate), uniform, method, 0.1, "compound")
            values = mdps.state_values(mdp, mdps.greedy_policy(q[:, 0]))
            yield (mdps.state_values(mdp, best) - values)[:, :19].mean(axis=1)  # of states that are not terminal

    np.testing.assert_allclose(found[1:], list(learned(mdps.greedy_policy)))
    for policy in (best, uniform):
        assert not np.allclose(found[1:], list(learned(lambda _, policy=policy: policy[np.newaxis])), atol=0.01)


def test_evaluation_learns_from_each_whole_episode_at_its_end():
    """One step before the end of a repetition's first episode it has learned nothing; a round cuts the episode."""
    config = tabular_fig3.get_config("smoke")
    config.learning.round_steps, config.learning.evaluation_rounds = 1, 2_000
    config.evaluation.num_envs = 1
    mdp = mdps.chain(20, 0.9)
    steps = Stream(mdp, mdps.uniform_policy(mdp), 1, np.random.default_rng([1, 0, 0])).take(2_000)
    ends = np.flatnonzero(mdp.terminal[steps.following[:, 0]]) + 1
    assert len(ends) > 2
    errors = tabular_learning.learning_curves(config, 1, "evaluation", 0)
    assert errors.shape == (2_001, 14, 1)
    changed = np.flatnonzero(np.any(errors[1:] != errors[:-1], axis=(1, 2))) + 1
    assert changed.tolist() == ends.tolist()
    config.learning.round_steps = int(ends[1] - 1)  # the first point that sees the second episode is the one after
    config.learning.evaluation_rounds = 2
    coarse = tabular_learning.learning_curves(config, 1, "evaluation", 0)
    np.testing.assert_array_equal(coarse[1], errors[ends[0]])
    config.learning.trajectory = "round"
    assert np.any(tabular_learning.learning_curves(config, 1, "evaluation", 0)[1] != coarse[1])


def test_a_whole_episode_is_one_piece_of_experience():
    """Retrace's trace runs to the episode's end; rounds of a step cut it, and leave one-step targets."""
    config = tabular_fig3.get_config("smoke")
    config.methods.uncorrected_n, config.methods.importance_n, config.methods.alphas = (1,), (), (1.0,)
    config.learning.round_steps, config.learning.evaluation_rounds = 1, 500
    whole = tabular_learning.learning_curves(config, 1, "evaluation", 0)
    assert np.any(whole[:, 0] != whole[:, 1])
    config.learning.trajectory = "round"
    cut = tabular_learning.learning_curves(config, 1, "evaluation", 0)
    np.testing.assert_array_equal(cut[:, 0], cut[:, 1])


def test_visits_are_passed_on():
    curves = [
        tabular_learning.learning_curves(m.get_config("smoke"), 1, "control", 0)
        for m in (tabular_fig3, tabular_fig3_visits)
    ]
    assert np.any(curves[0] != curves[1])


def test_an_unknown_trajectory_is_refused():
    config = tabular_fig3.get_config("smoke")
    config.learning.trajectory = "step"
    with pytest.raises(ValueError, match="learning.trajectory='step': choose one of episode, round"):
        tabular_learning.learning_curves(config, 1, "evaluation", 0)


@pytest.mark.slow
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
    assert main["num_env_steps"] == 200 * 100
    folder = tmp_path / "ctrace/tabular_fig1"
    first = [(folder / name).read_bytes() for name in ("figure.png", "figure.svg")]
    assert first[0].startswith(b"\x89PNG")
    xml.dom.minidom.parseString(first[1])
    Study({}, steps=0, figure=replot.plot(folder)).save_figure(tmp_path / "from_records")
    assert (tmp_path / "from_records/figure.svg").read_bytes() == first[1]
    job.record_paths[-1].unlink()
    again = make_job(tabular_fig1, tmp_path)
    assert not again.recorded()
    again.run([0], quiet=True)
    assert [(folder / name).read_bytes() for name in ("figure.png", "figure.svg")] == first


def test_a_stopped_study_writes_nothing(tmp_path):
    job = make_job(tabular_fig8, tmp_path)
    job.stop()
    with pytest.raises(Stopped):
        job.run([0], quiet=True)
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.slow
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
    with pytest.raises(ValueError, match="tabular_fig7 has only the task garnet, not 'chain'"):
        StudyJob(config, "chain", 1, tmp_path)


def reproduce(*arguments: str, folder: Path) -> list[str]:
    command = [sys.executable, "-m", "repro.reproduce", "--paper=ctrace", "--scale=smoke"]
    return [*command, f"--results_dir={folder}", *arguments]


def test_tabular_stands_for_every_figure_and_an_unknown_name_is_one_sentence(tmp_path):
    reproduce_module = importlib.import_module("repro.reproduce")
    known = [module.__name__.split(".")[-1] for module in (*CONFIGS, *READINGS)]
    said = []
    assert list(reproduce_module._expand(["tabular"], known, said.append)) == known
    assert said == [f"--experiment=tabular stands for {', '.join(known)}."]
    assert list(reproduce_module._expand(["tabular_fig3", "all"], known, said.append)) == ["tabular_fig3", *known]
    assert len(said) == 1
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


@pytest.mark.slow
def test_an_interrupted_study_says_so_and_starts_again(tmp_path):
    arguments = reproduce("--experiment=tabular_fig8", folder=tmp_path)
    process = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell in the background ignores it
    )
    deadline = time.monotonic() + 60
    while not any("spawn_main" in command for command in commands_of_children(process.pid)):  # its workers start
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    stdout, stderr = process.communicate(timeout=60)
    assert "Traceback" not in stdout + stderr
    assert "The run is not finished; the same command resumes it." in stdout
    assert not list(tmp_path.rglob("*.json"))
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.rglob("seed_1.json"))) == 12
    skipped = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert "tabular_fig8 chain seed 1: complete" in skipped.stdout


def test_the_study_starts_without_tensorflow_and_scipys_statistics():
    modules = "repro.reproduce, repro.papers.ctrace.tabular_learning, repro.papers.ctrace.tabular_tradeoffs"
    check = f"import sys, {modules}; sys.exit(bool({{'tensorflow', 'scipy.stats'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], timeout=60).returncode == 0
