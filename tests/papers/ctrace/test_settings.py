"""Effect of configs on C-trace's agents: transitions per update, n, Gamma, lambda."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from paper_configs.ctrace import dqn, r2d2
from repro.config import SCALES, agents
from repro.evidence.records import plain_config
from repro.evidence.staleness import config_difference
from repro.papers import ctrace, find_experiment
from repro.papers.ctrace.loss import SequenceLossSettings
from repro.replay.sequence_writer import SequenceSettings
from repro.training.run_directory import RunDirectory
from repro.training.sequence_trainer import ReplayTrainingConfig

README = Path(ctrace.__file__).with_name("README.md")


def config_of(module, agent, scale="desk", **changes):
    config = module.get_config(scale)
    config.agent = agent
    config.update_from_flattened_dict(changes)
    return config


def transitions_per_update(config):
    """Steps to learn from in a batch, burn-ins apart."""
    experiment = find_experiment(config)
    steps = experiment.sequence_settings.steps - experiment.optimization.burn_in
    return experiment.replay_training.batch_size * steps


def samples_per_transition(config):
    """How often a transition is learned from while it is in the replay, on average."""
    return transitions_per_update(config) * config.env.frame_skip / find_experiment(config).frames_per_update


@pytest.mark.parametrize("module", [dqn, r2d2])
@pytest.mark.parametrize("scale", SCALES)
def test_every_agent_learns_from_as_many_transitions(module, scale):
    configs = [config_of(module, agent, scale) for agent in agents(module.get_config(scale))]
    assert len({transitions_per_update(config) for config in configs}) == 1
    assert len({samples_per_transition(config) for config in configs}) == 1


def test_transitions_of_each_scale():
    for scale, count, samples in (("desk", 128, 16), ("paper", 512, 128)):
        for agent in ("double_dqn", "ctrace_gamma10"):
            config = config_of(dqn, agent, scale)
            assert (transitions_per_update(config), samples_per_transition(config)) == (count, samples)
    for scale, count, samples in (("desk", 320, 4), ("paper", 5120, 0.8)):  # 0.8: Kapturowski et al. (2019), appendix
        config = config_of(r2d2, "ctrace", scale)
        assert (transitions_per_update(config), samples_per_transition(config)) == (count, samples)
    standard = config_of(
        dqn, "double_dqn", "paper", **{"variants.double_dqn.learner.batch_size": 32}
    )  # Mnih et al. (2015)
    assert (transitions_per_update(standard), samples_per_transition(standard)) == (32, 8)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["double_dqn", "ctrace_gamma10"])
def test_batches_that_reach_the_learner_have_as_many_transitions(agent, tmp_path):
    config = config_of(dqn, agent, "smoke", **{"replay.first_frames": 400, "runtime.compile": "graph"})
    config.num_env_frames = 600
    loop = find_experiment(config).build_trainer(1, RunDirectory(tmp_path, plain_config(config), 1), print)
    counts, sample = [], loop._replay.sample

    def count(size):
        sampled = sample(size)
        counts.append(sampled.sequences.reward[:, :-1].size)
        return sampled

    loop._replay.sample = count
    try:
        for _ in loop:
            pass
    finally:
        loop.close()
    assert len(counts) > 5
    assert set(counts) == {128}
    assert transitions_per_update(config) == 128


@pytest.mark.parametrize(
    ("module", "agent", "target", "n", "rate_steps", "trace_lambda"),
    [
        (dqn, "double_dqn", "double_dqn", 1, 10, 1.0),
        (dqn, "n_step_3", "n_step", 3, 3, 1.0),
        (dqn, "n_step_5", "n_step", 5, 5, 1.0),
        (dqn, "retrace", "retrace", 1, 10, 1.0),
        (dqn, "retrace_lambda97", "retrace", 1, 10, 0.97),
        (dqn, "ctrace_gamma10", "c_trace", 1, 10, 1.0),
        (dqn, "ctrace_gamma7", "c_trace", 1, 7, 1.0),
        (dqn, "ctrace_gamma5", "c_trace", 1, 5, 1.0),
        (dqn, "ctrace_gamma10_lambda97", "c_trace", 1, 10, 0.97),
        (r2d2, "n_step_5", "n_step", 5, 5, 1.0),
        (r2d2, "retrace", "retrace", 1, 10, 1.0),
        (r2d2, "ctrace", "c_trace", 1, 10, 1.0),
        (r2d2, "retrace_lambda97", "retrace", 1, 10, 0.97),
        (r2d2, "ctrace_lambda97", "c_trace", 1, 10, 0.97),
    ],
)
def test_an_agent_is_what_its_name_says(module, agent, target, n, rate_steps, trace_lambda):
    config = config_of(module, agent)
    experiment = find_experiment(config)
    loss = experiment.loss_settings
    assert (loss.method, loss.n, loss.trace_lambda) == (target, n, trace_lambda)
    assert experiment.optimization.target_rate == pytest.approx(config.loss.discount**rate_steps)


def test_an_agent_of_another_experiment_is_an_error():
    with pytest.raises(ValueError, match="agent='double_dqn': choose ctrace, ctrace_lambda97, n_step_5"):
        find_experiment(config_of(r2d2, "double_dqn"))


def test_lambda_of_the_configuration_holds_where_an_agent_has_none_of_its_own():
    for agent, expected in (("retrace", 0.9), ("retrace_lambda97", 0.97)):
        config = config_of(r2d2, agent, **{"loss.trace_lambda": 0.9})
        assert find_experiment(config).loss_settings.trace_lambda == expected


def test_the_only_n_step_agent_of_r2d2_has_the_n_of_its_paper():
    """Kapturowski et al. (2019), Section 2.3: 5. The 10 of C-trace's Section 4.1 is that of its contraction target."""
    config = r2d2.get_config("paper")
    assert [agent for agent in agents(config) if agent.startswith("n_step")] == ["n_step_5"]


@pytest.mark.parametrize(("module", "expected"), [(dqn, "mean"), (r2d2, "sum")])
def test_each_experiments_reduction_over_time_reaches_its_agent(module, expected):
    for scale, other in itertools.product(SCALES, (None, "mean", "sum")):
        config = config_of(module, "retrace", scale, **({"loss.time_reduction": other} if other else {}))
        assert find_experiment(config).optimization.time_reduction == (other or expected)


def test_r2d2_takes_what_its_own_paper_prints():
    """Kapturowski et al. (2019): Section 2.3; Table 2, which refers to Ape-X for the rest; C-trace's Table 1."""
    config = r2d2.get_config("paper")
    assert config.env.full_action_set
    assert r2d2.get_config("desk").env.full_action_set
    assert config.replay.first_frames == 50_000 * config.env.frame_skip
    for agent in agents(config):
        experiment = find_experiment(config_of(r2d2, agent, "paper"))
        assert experiment.optimization.clip_global_norm == 40.0
        period = experiment.replay_training.publish_period
        assert period * config.learner.steps_per_update == 400


def test_what_is_printed_reaches_the_learner_and_the_replay():
    """C-trace's Table 1 for R2D2; for DQN Mnih et al. (2015), except sequences, learning rate and epsilon."""
    experiment = find_experiment(config_of(r2d2, "ctrace", "paper"))
    assert experiment.sequence_settings == SequenceSettings(120, 40, 40, 100_000, 0.9)
    assert experiment.replay_training == ReplayTrainingConfig(64, 200_000, 16, 0.6)
    assert experiment.loss_settings == SequenceLossSettings("c_trace", 1, 0.997, float("inf"), 1e-3, 1.0)
    optimization = experiment.optimization
    assert (optimization.target_period, optimization.burn_in, optimization.priority_of_max) == (2_500, 40, 0.9)
    assert adam_settings(optimization) == pytest.approx((1e-4, 0.9, 0.999, 1e-3))
    experiment = find_experiment(config_of(dqn, "ctrace_gamma10", "paper"))
    assert experiment.sequence_settings == SequenceSettings(16, 4, 0, 250_000, 0.0)
    assert experiment.replay_training == ReplayTrainingConfig(32, 200_000, 1, None)
    assert experiment.loss_settings == SequenceLossSettings("c_trace", 1, 0.99, 1.0, None, 1.0)
    optimization = experiment.optimization
    assert (optimization.target_period, optimization.burn_in, optimization.clip_global_norm) == (10_000, 0, 0.0)
    assert adam_settings(optimization) == pytest.approx((1e-5, 0.9, 0.999, 1e-8))


def adam_settings(optimization):
    adam = optimization.optimizer
    return float(adam.learning_rate), adam.beta_1, adam.beta_2, adam.epsilon


def desk_table():
    """Rows of the README's table of both scales: field to (DQN paper, desk, R2D2 paper, desk), as numbers or names."""
    section = README.read_text().split("## Desk scale of the agents")[1]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    return {row[0].strip("`"): tuple(map(cell_value, row[1:5])) for row in cells}


def cell_value(text):
    text = text.removesuffix(" (assumed)").strip("`")
    if number := re.fullmatch(r"(\d[\d ]*(?:\.\d+)?(?:e-?\d+)?)([MG]?)", text):
        return float(number[1].replace(" ", "")) * {"": 1.0, "M": 1e6, "G": 1e9}[number[2]]
    return text


@pytest.mark.parametrize(("module", "columns"), [(dqn, slice(0, 2)), (r2d2, slice(2, 4))])
def test_desk_differs_from_the_paper_only_where_the_readme_says(module, columns):
    paper, desk = (plain_config(module.get_config(scale)) for scale in ("paper", "desk"))
    written = {field: row[columns] for field, row in desk_table().items() if row[columns] != ("", "")}
    assert {field: (value_of(paper, field), value_of(desk, field)) for field in written} == written
    assert set(config_difference(desk, paper)) - {"scale"} == set(written)


def value_of(config, field):
    for name in field.split("."):
        config = config[name]
    return config
