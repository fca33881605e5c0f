"""The cost of self-tuning, counted by hand in a network of dense layers."""

from __future__ import annotations

import ml_collections
import pytest
import tensorflow as tf

from paper_configs.stac import atari, dm_control_features, gymnasium
from paper_configs.stac import update_cost as update_cost_config
from repro.config import resolve_plain
from repro.evidence import records, rows
from repro.launch.study_job import StudyJob
from repro.papers import find_experiment
from repro.papers.stac import update_cost

SIZE, UNITS, HEAD, ACTIONS = 4, 12, 10, 2  # of CartPole, and of the network below
LENGTH, BATCH = 5, 3


def small_setup():
    setup = gymnasium.get_config("smoke")
    setup.network.update({"units": (UNITS,), "head_units": HEAD})
    setup.learner.update({"unroll_length": LENGTH, "batch_size": BATCH})
    return setup


def by_hand(num_heads, tuned):
    """Operations for a new step.

    A gradient has the products of the forward pass three times, less those to the network's input. Self-tuning has
    those of head 1 once more, after the update, and goes back through the products of the first gradient, which are
    two thirds of it: to the gradient of each layer's output. Head 1 acts.
    """
    first, policy, value = 2 * SIZE * UNITS, 2 * (UNITS + ACTIONS) * HEAD, 2 * (UNITS + 1) * HEAD
    forward = first + num_heads * (policy + value)
    passes = 3 * forward - first
    if tuned:
        passes += 3 * (first + policy + value) - first + 2 * forward - first
    return passes * (LENGTH + 1) / LENGTH + first + policy


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "num_heads"), [("impala", 1), ("impala_aux", 3), ("stac", 1), ("stacx", 3)])
def test_self_tuning_adds_one_gradient_and_one_pass_back_through_another(agent, num_heads):
    experiment = find_experiment(ml_collections.ConfigDict(resolve_plain(small_setup().to_dict(), agent)))
    expected = by_hand(num_heads, tuned=agent.startswith("stac"))
    assert update_cost.step_cost(experiment, seed=0) == pytest.approx(expected, rel=1e-12)


def test_steps_that_unrolls_share_are_acted_in_once(monkeypatch):
    """Cost is counted for each new step: acting in it alone, learning with the rows of the burn-in."""
    setup = dm_control_features.get_config("smoke")
    setup.learner.update({"unroll_length": 7, "overlap": 4, "burn_in": 4, "batch_size": 3})
    seen = []

    def operations(function, *specs):
        seen.append(tuple(tf.nest.flatten(specs)[0].shape))
        return 90 * len(seen)

    monkeypatch.setattr(update_cost, "operations", operations)
    cost = update_cost.step_cost(find_experiment(ml_collections.ConfigDict(resolve_plain(setup.to_dict(), "stac"))), 0)
    assert seen == [(3, 8), (9,)]  # rows of the unrolls; new steps
    assert cost == (90 + 180) / 9


@pytest.mark.slow
def test_its_records_are_the_ratios_of_each_setup(tmp_path):
    config = update_cost_config.get_config("smoke")
    config.setups, config.gymnasium = ("gymnasium",), small_setup()
    StudyJob(config, "any", 1, tmp_path).run([0], quiet=True)
    stored, faults = records.read_all(tmp_path)
    assert faults == []
    found = {item.record["agent"]: item.record["evaluation"] for item in stored}
    costs = {agent: by_hand(num_heads, tuned=True) for agent, num_heads in (("stac", 1), ("stacx", 3))}
    for agent, cost in costs.items():
        assert found[agent]["mean"] == pytest.approx(cost / by_hand(1, tuned=False))
    assert all(evaluation["exact"] for evaluation in found.values())
    judged = rows.rows_for(stored)
    assert {(row.table, row.agent) for row in judged} == {
        (table, agent) for table in ("Abstract", "Section 9.4") for agent in costs
    }


def test_setups_have_the_published_settings():
    config = update_cost_config.get_config("paper")
    assert config.setups == ("atari", "dm_control_features")
    for name, module in (("atari", atari), ("dm_control_features", dm_control_features)):
        published = module.get_config("paper").to_dict()
        for agent in ("impala", "stac", "stacx"):
            assert resolve_plain(config[name].to_dict(), agent) == resolve_plain(published, agent)


def test_an_agent_of_another_paper_is_refused():
    with pytest.raises(TypeError, match="object does not make an agent of STAC"):
        update_cost.step_cost(object(), seed=0)
