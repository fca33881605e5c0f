"""Effect of a control config's fields, and a run with overlapping unrolls that resumes bit for bit."""

from __future__ import annotations

import types

import numpy as np
import pytest
from tf_agents.trajectories import StepType

from paper_configs.stac import atari, dm_control_features, dm_control_pixels, rwrl
from repro.acting import sources
from repro.papers import find_experiment
from repro.papers.stac.action_distribution import SquashedGaussian
from tests.papers.stac.test_experiment import Folder, made_from, state_of

TABLE_3 = {
    "num_env_steps": 30_000_000,
    "learner.learning_rate": 1e-3,
    "learner.final_learning_rate": 1e-4,
    "learner.rmsprop_decay": 0.99,
    "learner.rmsprop_epsilon": 0.1,
    "learner.batch_size": 24,
    "learner.unroll_length": 40,
    "learner.overlap": 30,
    "loss.discount": 0.99,
    "network.units": (256, 256),
    "network.core_units": 256,
    "network.head_units": 256,
}


def test_paper_scale_has_the_settings_of_tables_2_and_3():
    config, on_atari = dm_control_features.get_config("paper"), atari.get_config("paper")
    for name, value in TABLE_3.items():
        found = config
        for part in name.split("."):
            found = found[part]
        assert found == value, name
    assert config.meta == on_atari.meta  # Table 3 has one column for both
    assert {**config.loss, "discount": 0.995} == dict(on_atari.loss)


@pytest.mark.parametrize("module", [dm_control_pixels, rwrl])
def test_pixels_and_challenges_differ_in_their_tasks_and_torso_alone(module):
    found, features = module.get_config("paper").to_dict(), dm_control_features.get_config("paper").to_dict()
    assert found.pop("experiment") != features.pop("experiment")
    env, of_features = found.pop("env"), features.pop("env")
    assert env["name"] == ("rwrl" if module is rwrl else of_features["name"])
    assert env["max_steps"] == of_features["max_steps"] == 0
    if module is dm_control_pixels:
        assert found["network"].pop("torso") == "strided"
        assert features["network"].pop("torso") == "dense"
        del features["network"]["units"]
    assert found == features


def test_fields_of_control_reach_their_places():
    config = dm_control_features.get_config("smoke")
    config.agent = "stacx"
    config.network.update({"log_std_min": -2.5, "log_std_max": 0.25, "core_units": 7, "units": (9,), "head_units": 6})
    config.learner.update({"unroll_length": 12, "overlap": 8, "burn_in": 4, "batch_size": 3})
    config.evaluation.greedy = True
    experiment = find_experiment(config)
    assert experiment.frames_per_update == 3 * 4
    assert experiment.describe_evaluation(10, "then").count("median actions") == 1
    agent = made_from(config)
    assert agent._distribution == SquashedGaussian(1, -2.5, 0.25)
    assert agent._burn_in == 4
    assert agent.policy._greedy
    assert not agent.collect_policy._greedy
    assert agent._network._core._units == 7
    assert len(agent._network._policies) == 3
    sizes = [tuple(v.shape) for v in agent._network.trainable_variables]
    assert sizes.count((5, 9)) == 1  # features to units
    assert sizes.count((9 + 7, 28)) == 1  # units and state to the gates of the core
    assert sizes.count((7, 6)) == 6  # core to the hidden layers of three policies and values
    assert [part.shape for part in agent.collect_data_spec.policy_info["core_state"]] == [(7,), (7,)]
    config.network.core_units = 0  # none
    assert made_from(config)._network._core is None


@pytest.mark.parametrize(("overlap", "burn_in"), [(40, 30), (30, 40), (30, 35), (25, 30)])
def test_an_overlap_that_learns_from_some_steps_more_often_is_refused(overlap, burn_in):
    config = dm_control_features.get_config("smoke")
    config.learner.update({"overlap": overlap, "burn_in": burn_in})
    with pytest.raises(ValueError, match="every step is learned from"):
        find_experiment(config)


@pytest.mark.parametrize(("field", "sentence"), [("overlap", "overlap=-1: choose"), ("burn_in", "burn_in=-1: choose")])
def test_an_overlap_below_0_is_refused(field, sentence):
    config = dm_control_features.get_config("smoke")
    config.learner[field] = -1
    with pytest.raises(ValueError, match=rf"^learner\.{sentence} a finite number of 0 or more"):
        find_experiment(config)


def test_bounds_of_the_std_in_the_wrong_order_are_refused():
    config = dm_control_features.get_config("smoke")
    config.network.update({"log_std_min": 0.5, "log_std_max": 0.25})
    with pytest.raises(ValueError, match=r"^network\.log_std_min=0\.5 is above network\.log_std_max=0\.25\.$"):
        made_from(config)


def small_config(updates):
    config = dm_control_features.get_config("smoke")
    config.agent = "stac"
    config.num_env_steps = updates * 2 * 3
    config.network.update({"units": (4,), "core_units": 4, "head_units": 4})
    config.learner.update({"unroll_length": 8, "overlap": 5, "burn_in": 5, "batch_size": 2})
    config.runtime.update({"envs_per_actor": 2, "schedule": "lockstep"})
    config.meta.learning_rate = 0.05
    return config


@pytest.mark.slow
def test_a_run_resumes_to_the_bit(tmp_path):
    """Also what the last unroll shares with the next, and the state of the core."""
    whole = find_experiment(small_config(8)).build_trainer(3, Folder(tmp_path / "whole"), print)
    list(whole)
    whole.close()
    first = find_experiment(small_config(8)).build_trainer(3, Folder(tmp_path / "halves"), print)
    for update in first:
        if update.updates == 4:
            first.save()
            break
    first.close()
    second = find_experiment(small_config(8)).build_trainer(3, Folder(tmp_path / "halves"), print)
    assert second.updates == 4
    list(second)
    second.close()
    (whole_eta, whole_state), (eta, state) = state_of(whole), state_of(second)
    for name in whole_eta:
        np.testing.assert_array_equal(eta[name], whole_eta[name], err_msg=name)
    for a, b in zip(whole_state, state, strict=True):
        np.testing.assert_array_equal(a, b)


def test_unrolls_of_an_actor_in_a_process_overlap(monkeypatch):
    """As those of actors in threads, whose numbers of updates and of learned steps are the same."""
    unrolls = []

    def run(actor, make_group, sizes, sender, reporter):
        (group,) = groups = [make_group() for _ in range(sizes.per_actor)]
        for _ in range(2):
            actor.collect(groups)
            unrolls.append([group.arrays.step_type.copy(), group.arrays.observation.copy()])

    monkeypatch.setattr(sources, "begin", lambda *arguments: (1, 2))
    monkeypatch.setattr(sources, "reverb", types.SimpleNamespace(Client=lambda address: None))
    monkeypatch.setattr(sources, "own_machine", lambda address: None)
    for name in ("PulledWeights", "UnrollSender"):
        monkeypatch.setattr(sources, name, lambda *arguments: None)
    monkeypatch.setattr(sources, "Reporter", lambda *arguments: types.SimpleNamespace(append=None))
    monkeypatch.setattr(sources, "run_unroll_actor", run)
    find_experiment(small_config(8)).run_remote_actor(3, 0, 0, "localhost:1")
    (step_type, observation), (next_step_type, next_observation) = unrolls
    assert (step_type[:, :5] == StepType.LAST).all()
    assert (step_type[:, 5] == StepType.FIRST).all()
    np.testing.assert_array_equal(next_step_type[:, :6], step_type[:, 3:])
    np.testing.assert_array_equal(next_observation[:, :6], observation[:, 3:])
    assert np.abs(np.diff(next_observation, axis=1)).max() > 0
