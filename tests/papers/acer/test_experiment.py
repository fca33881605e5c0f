"""ACER's experiments: meaning of an agent's name and of a seed, and whole runs that resume bit for bit."""

import contextlib
import re
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import time_step as ts

from paper_configs.acer import atari, continuous, gymnasium
from repro import machine_memory
from repro.config import SCALES, agents, resolve
from repro.papers import find_experiment
from repro.training import devices
from repro.training.learner import Learner
from repro.training.replay_trainer import ReplaySettings
from tests.support.training import games_of


class Folder:
    """A run's folder, as far as training knows it."""

    def __init__(self, path):
        self.checkpoints, self.actors = path / "checkpoints", path / "actors"


def test_names_of_atari_agents_say_ratio_and_trust_region():
    """The agents of Figure 1: replay ratios of 0, 1, 4 and 8, each with the trust region and without, and A3C."""
    config, found = atari.get_config("paper"), {}
    for name in agents(config):
        config.agent = name
        found[name] = find_experiment(config).replay_settings
    assert found == {
        f"acer_ratio_{ratio}{end}": ReplaySettings(on_policy=True, ratio=float(ratio))
        for ratio in (0, 1, 4, 8)
        for end in ("", "_no_trust_region")
    } | {"a3c": ReplaySettings(on_policy=True, ratio=0.0)}
    config.agent = "acer_ratio_3"
    with pytest.raises(ValueError, match="agent='acer_ratio_3': choose a3c, acer_ratio_0, "):
        find_experiment(config)


@pytest.mark.parametrize(("agent", "has_region"), [("acer_ratio_0", True), ("acer_ratio_8_no_trust_region", False)])
def test_the_trust_region_needs_an_average_network(agent, has_region):
    experiment = find_experiment(_small_atari(agent))
    environment = experiment.make_environment(1, 0)
    made = experiment.make_agent(environment, 0)
    assert (made._average_network is not None) == has_region
    environment.close()


def test_names_of_control_agents_say_what_they_learn_from():
    """Section 6: those that are on-policy learn from new unrolls alone, the others from stored ones alone."""
    config, found = continuous.get_config("paper"), {}
    for name in agents(config):
        config.agent = name
        settings = find_experiment(config).replay_settings
        found[name] = (settings.on_policy, settings.ratio)
    on_policy, replayed = ("a3c", "trust_a3c", "acer_on_policy"), ("tis", "trust_tis", "acer", "acer_q_ret")
    expected = dict.fromkeys(on_policy, (True, 0.0)) | dict.fromkeys(replayed, (False, 4.0))
    assert found == expected | {"acer_plain_traces": (False, 4.0)}


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "new", "replayed"), [("acer", 0, 4), ("a3c", 1, 0)])
def test_control_agents_learn_from_what_the_paper_says(tmp_path, monkeypatch, agent, new, replayed):
    """In whole runs: batches that actors bring, each once, or four stored ones for each of them."""
    config = _small_continuous(agent)
    training = find_experiment(config).build_trainer(3, Folder(tmp_path), print)
    source, step, steps, brought, learned = training._source, Learner.step, Learner.steps, [], []
    next_batch = source.next

    def noting_next():
        batch = next_batch()
        brought.append(batch.trajectory)
        return batch

    def noting_step(learner, batch, *arguments):
        learned.append(batch is brought[-1])
        return step(learner, batch, *arguments)

    def noting_steps(learner, batches, count):
        learned.extend([False] * count)
        return steps(learner, batches, count)

    monkeypatch.setattr(source, "next", noting_next)
    monkeypatch.setattr(Learner, "step", noting_step)
    monkeypatch.setattr(Learner, "steps", noting_steps)
    list(training)
    training.close()
    assert sum(learned) == new * len(brought) == new * 24
    assert (
        abs(len(learned) - sum(learned) - replayed * 24) <= 3.3 * (replayed * 24) ** 0.5
    )  # Poisson's standard deviation


OPTIMIZER = {"rmsprop_decay": 0.93, "rmsprop_epsilon": 0.04, "clip_global_norm": 41.0}
LOSS = {"discount": 0.91, "average_decay": 0.92, "truncation": 3.0}


def optimization_of(agent):
    """The values of `OPTIMIZER` and of the first two of `LOSS` in an agent."""
    optimizer, (_, *rest) = agent._optimizer, agent._optimization
    assert rest[-1] == agent._clip_global_norm
    return [optimizer.decay, optimizer.epsilon, *rest]


@pytest.mark.parametrize("name", ["acer_ratio_4", "a3c"])
def test_every_field_reaches_its_place_in_an_agent_for_discrete_actions(name):
    config = _small_atari(name)
    config.learner.update({"learning_rate": 0.05} | OPTIMIZER)
    config.loss.update(LOSS | {"delta": 0.6, "entropy_cost": 0.02})
    experiment = find_experiment(config)
    environment = experiment.make_environment(1, 0)
    agent = experiment.make_agent(environment, 0)
    environment.close()
    assert float(agent._optimizer.learning_rate) == pytest.approx(0.05)
    assert optimization_of(agent) == [0.93, 0.04, 0.91, 0.92, 41.0]
    assert agent._entropy_cost == 0.02 if name == "a3c" else agent._loss_settings == (3.0, 0.6, 0.02)
    assert not agent.policy._greedy
    assert "sampled actions" in experiment.describe_evaluation(2, "now")


@pytest.mark.parametrize("name", ["acer", "trust_a3c"])
def test_every_field_reaches_its_place_in_an_agent_for_continuous_actions(name):
    experiment = find_experiment(_distinct_continuous(name))
    environment = experiment.make_environment(1, 0)
    agent = experiment.with_hparams({"learning_rate": 0.05, "delta": 0.6}).make_agent(environment, 7)
    environment.close()
    assert float(agent._optimizer.learning_rate) == pytest.approx(0.05)
    assert optimization_of(agent) == [0.93, 0.04, 0.91, 0.92, 41.0]
    assert agent._loss_settings[:2] == (3.0, 0.6)
    assert (agent._std, agent._dueling_samples, agent._seed) == (0.2, 3, 7)
    network = agent._network
    assert network.mean_bound == 0.7
    assert [weights.shape[-1] for weights in network.policy_weights[::2]] == [9, 1]
    assert [weights.shape[-1] for weights in network.advantage_weights[::2]] == ([10, 1] if name == "acer" else [])


def test_actors_play_the_policy_of_the_agent():
    """Where its mean is at its bound: with the same weights and seed, the same actions and the same mu."""
    experiment = find_experiment(_distinct_continuous("acer"))
    environment = experiment.make_environment(2, 0)
    agent = experiment.with_hparams({"learning_rate": 0.05, "delta": 0.6}).make_agent(environment, 7)
    policies = agent.collect_policy, experiment.make_local_policy(environment)
    for variable, copy in zip(*(policy.variables() for policy in policies), strict=True):
        variable.assign(100.0 * variable)
        copy.assign(variable)
    observation = tf.constant(environment.reset()[0])
    environment.close()
    time_step = ts.TimeStep(tf.ones([2], tf.int32), tf.zeros([2]), tf.ones([2]), observation)
    steps = [policy.action(time_step, (), tf.constant([1, 2])) for policy in policies]
    for one, other in zip(*map(tf.nest.flatten, steps), strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.abs(steps[0].info["mean"]).max() == pytest.approx(0.7, abs=0.01)
    np.testing.assert_allclose(steps[0].info["std"], 0.2, rtol=1e-6)
    greedy = agent.policy.action(time_step, (), tf.constant([1, 2]))
    np.testing.assert_array_equal(greedy.action, steps[0].info["mean"])


def test_parts_of_acer_are_settings_of_its_loss():
    names = ("acer", "acer_plain_traces", "acer_q_ret", "acer_on_policy")
    found = []
    for name in names:
        experiment = find_experiment(_small_continuous(name))
        environment = experiment.make_environment(1, 0)
        sampled = experiment.with_hparams({"learning_rate": 1e-4, "delta": 0.5})
        settings = sampled.make_agent(environment, 0)._loss_settings
        found.append((settings.truncation, settings.delta, settings.traces, settings.policy_target))
        environment.close()
    usual = (5.0, 0.5, "root", "q_opc")
    assert found == [usual, (5.0, 0.5, "plain", "q_opc"), (5.0, 0.5, "root", "q_ret"), usual]


def test_an_agent_that_the_experiment_does_not_have_is_refused():
    config = continuous.get_config("paper")
    config.agent = "ddpg"
    with pytest.raises(ValueError, match="agent='ddpg': choose a3c, acer"):
        find_experiment(config)


def test_settings_are_sampled_from_the_paper_s_ranges():
    experiment = find_experiment(continuous.get_config("paper"))
    sampled = np.array([list(experiment.sample_hparams(seed).values()) for seed in range(1, 2001)])
    rates, deltas = np.log10(sampled[:, 0]), sampled[:, 1]
    np.testing.assert_array_less(np.abs(rates + 3.65), 0.35)
    np.testing.assert_array_less(np.abs(deltas - 1.05), 0.95)
    # Uniform numbers have their mean in the middle, up to a standard error of width / sqrt(12 n); four of them.
    assert abs(rates.mean() + 3.65) < 4 * 0.7 / (12 * 2000) ** 0.5
    assert abs(deltas.mean() - 1.05) < 4 * 1.9 / (12 * 2000) ** 0.5
    assert experiment.sample_hparams(7) == experiment.sample_hparams(7)


@pytest.mark.parametrize(
    ("seed", "rate", "delta"), [(1, 2.282e-4, 1.906), (4, 4.572e-4, 1.0715), (10, 4.669e-4, 0.4946)]
)
def test_a_number_stands_for_the_same_setting_of_every_agent(seed, rate, delta):
    """Those that the page names; the committed run of the cart-pole has number 4."""
    config, found = continuous.get_config("paper"), []
    for name in agents(config):
        config.agent = name
        found.append(find_experiment(config).sample_hparams(seed))
    assert found == [found[0]] * 8
    assert found[0] == {"learning_rate": pytest.approx(rate, rel=1e-3), "delta": pytest.approx(delta, rel=1e-3)}


def test_without_a_sweep_the_values_of_the_configuration_are_learned_with(tmp_path):
    config = gymnasium.get_config("smoke")
    config.agent, config.env.task, config.runtime.compile = "acer_continuous", "Pendulum-v1", "graph"
    own = config.variants.acer_continuous
    assert (own.learner.learning_rate, own.loss.delta) == (1e-3, 1.0)
    own.learner.learning_rate, own.loss.delta = 5e-3, 0.25
    training = find_experiment(config).build_trainer(3, Folder(tmp_path), print)
    training.close()
    agent = training._learner.agent
    assert float(agent._optimizer.learning_rate) == pytest.approx(5e-3)
    assert agent._loss_settings.delta == 0.25


@pytest.mark.parametrize(
    ("field", "ends", "lowest"),
    [
        ("learning_rate", (0.0, 1e-3), "above 0"),
        ("learning_rate", (1e-3, 1e-4), "above 0"),
        ("delta", (), "of 0 or more"),
        ("delta", (2.0, 0.1), "of 0 or more"),
    ],
)
def test_a_sweep_that_cannot_be_sampled_from_is_refused(field, ends, lowest):
    config = continuous.get_config("smoke")
    assert find_experiment(config).sample_hparams(1)["delta"] > 0.1
    config.sweep[field] = ends
    with pytest.raises(
        ValueError, match=rf"^sweep\.{field}=\(.*\): choose two numbers {lowest}, the smaller one first\.$"
    ):
        find_experiment(config).sample_hparams(1)


@pytest.mark.parametrize(
    ("agent", "section", "field", "value", "sentence"),
    [
        ("acer", "loss", "method", "retrace", "loss.method='retrace': choose acer, a3c, tis."),
        ("acer", "loss", "method", "a3c", "loss.method=a3c learns only from new unrolls, not from a replay"),
        ("a3c", "learner", "on_policy", False, "loss.method=a3c learns only from new unrolls, not from a replay"),
        (
            "acer",
            "network",
            "advantage_units",
            (),
            "loss.method=acer, but the network has 0 arrays of advantage weights",
        ),
        ("acer", "replay", "ratio", 0.0, "replay.ratio=0 leaves nothing to learn from: set learner.on_policy=True."),
    ],
)
def test_a_method_without_what_it_needs_is_refused(tmp_path, agent, section, field, value, sentence):
    config = resolve(_small_continuous(agent))
    config[section][field] = value
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        find_experiment(config).build_trainer(3, Folder(tmp_path), print)


@pytest.mark.parametrize(("section", "field"), [("learner", "learning_rate"), ("loss", "delta")])
def test_a_value_beside_a_sweep_of_it_is_refused(tmp_path, section, field):
    config = _small_continuous("acer")
    config[section][field] = 0.5
    with pytest.raises(ValueError, match=rf"^{section}\.{field}=0\.5 is not read, since sweep\.{field} samples "):
        find_experiment(config).build_trainer(3, Folder(tmp_path), print)


@pytest.mark.parametrize(
    ("schedule", "actors", "lag", "fitting"),
    [("lockstep", 2, 0, {1, 2, 4, 8, 16, 24}), ("lockstep", 2, 1, {1, 2, 4, 8}), ("async", 2, 0, {1, 2, 4})],
)
def test_a_batch_of_several_weights_is_refused_where_gradients_are_on_policy(schedule, actors, lag, fitting):
    config = gymnasium.get_config("smoke")
    config.runtime.update({"schedule": schedule, "num_actors": actors, "envs_per_actor": 4, "lockstep_lag": lag})
    for batch_size in range(1, 25):
        config.learner.batch_size = batch_size
        if batch_size in fitting:
            find_experiment(config)._check_batches()
        else:
            with pytest.raises(ValueError, match=rf"^learner\.batch_size={batch_size}: on-policy updates learn from "):
                find_experiment(config)._check_batches()


@pytest.mark.parametrize("agent", ["acer", "acer_continuous"])
def test_a_schedule_whose_workers_would_lack_their_own_updates_is_refused(tmp_path, agent):
    config = gymnasium.get_config("smoke")
    config.agent, config.runtime.schedule, config.learner.batch_size = agent, "a3c", 1
    with pytest.raises(ValueError, match=r"^runtime\.schedule='a3c': choose async or lockstep or processes\.$"):
        find_experiment(config).build_trainer(3, Folder(tmp_path), print)


def test_a_replay_too_small_for_a_batch_is_refused():
    config = _small_atari("acer_ratio_4")
    config.replay.frames, config.learner.batch_size = 100, 4
    experiment = find_experiment(config)
    environment = experiment.make_environment(1, 0)
    agent = experiment.make_agent(environment, 0)
    with pytest.raises(ValueError, match=r"replay\.frames=100 holds 1 unrolls, less than one batch"):
        experiment.make_replay(agent)
    environment.close()


def test_a_replay_of_one_unroll_of_frames_is_refused():
    config = _small_atari("acer_ratio_4")
    config.learner.unroll_length, config.replay.frames, config.learner.batch_size = 4, 31, 1
    experiment = find_experiment(config)
    environment = experiment.make_environment(1, 0)
    agent = experiment.make_agent(environment, 0)
    environment.close()
    with pytest.raises(ValueError, match=r"replay\.frames=31 holds 1 unrolls, and .* must hold 2, .* choose 32 or"):
        experiment.make_replay(agent)
    config.replay.frames = 32
    assert find_experiment(config).make_replay(agent).capacity == 2


def test_a_replay_that_does_not_fit_into_memory_is_refused(monkeypatch):
    """What fits is said in frames, which are unrolls of four steps of four frames each here."""
    config = _small_atari("acer_ratio_4")
    config.learner.unroll_length, config.replay.frames = 4, 16 * 100 + 15
    experiment = find_experiment(config)
    environment = experiment.make_environment(1, 0)
    agent = experiment.make_agent(environment, 0)
    environment.close()
    needed = experiment.make_replay(agent).nbytes
    monkeypatch.setattr(machine_memory, "available_bytes", lambda: needed)
    assert experiment.make_replay(agent).capacity == 100
    monkeypatch.setattr(machine_memory, "available_bytes", lambda: needed - 1)
    with pytest.raises(ValueError, match=r"replay\.frames=1615 takes .* choose at most 1584\.$"):
        experiment.make_replay(agent)


@pytest.mark.parametrize("agent", [pytest.param("acer", marks=pytest.mark.slow), "trust_a3c"])
def test_a_control_run_resumes_to_the_bit(tmp_path, agent):
    whole, updates = _trained(tmp_path / "whole", agent, 24)
    half = find_experiment(_small_continuous(agent)).build_trainer(3, Folder(tmp_path / "halves"), print)
    halves = []
    for update in half:
        halves.append(update)
        if update.updates == 12:
            half.save()
            break
    half.close()
    second, rest = _trained(tmp_path / "halves", agent, 24)
    for a, b in zip(_weights(whole), _weights(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert whole.summary()["evaluation"] == second.summary()["evaluation"]
    np.testing.assert_equal(games_of(halves + rest, second.episodes), games_of(updates, whole.episodes))
    assert second.episodes.games > 50


def test_a_record_keeps_what_the_seed_sampled(tmp_path):
    training, _ = _trained(tmp_path, "acer", 4)
    sampled = find_experiment(_small_continuous("acer")).sample_hparams(3)
    assert training.summary()["sampled_hparams"] == sampled
    assert float(training._learner.agent._optimizer.learning_rate) == pytest.approx(sampled["learning_rate"])


@pytest.mark.slow
@pytest.mark.parametrize("compile_", ["xla", "graph"])
def test_updates_in_one_call_are_those_of_one_call_each(tmp_path, compile_):
    """Weights, slots and average policy, beside what a run leaves that replays other batches, of a graph alone."""
    runs, weights = {"one": {}, "several": {"steps_per_call": 3}}, {}
    if compile_ == "graph":
        runs["other"] = {"seed": 4}
    for name, changes in runs.items():
        config = _small_continuous("acer")
        config.runtime.compile, config.runtime.steps_per_call = compile_, changes.get("steps_per_call", 1)
        training = find_experiment(config).build_trainer(changes.get("seed", 3), Folder(tmp_path / name), print)
        for update in training:
            if update.updates == 12:
                break
        training.close()
        weights[name] = _weights(training)
        assert training.summary()["gradient_steps"] > 24 or name == "other"
    for one, several in zip(weights["one"], weights["several"], strict=True):
        np.testing.assert_allclose(one, several, rtol=1e-4, atol=1e-6)
    if "other" in weights:
        assert not all(np.allclose(a, b, atol=1e-3) for a, b in zip(weights["one"], weights["other"], strict=True))


@pytest.mark.parametrize("module", [atari, continuous])
def test_an_update_is_one_unroll_of_one_environment(module):
    for scale in SCALES:
        config = module.get_config(scale)
        assert config.learner.batch_size == 1
        assert config.runtime.envs_per_actor > 1


def test_a_batch_that_replicas_cannot_share_is_refused(tmp_path, monkeypatch):
    strategy = SimpleNamespace(scope=contextlib.nullcontext, num_replicas_in_sync=2)
    monkeypatch.setattr(devices, "make_strategy", lambda: strategy)
    config = _small_continuous("acer")
    config.learner.batch_size = 1
    with pytest.raises(ValueError, match=r"learner\.batch_size=1 must be a multiple of the number of GPUs, 2: "):
        find_experiment(config).build_trainer(3, Folder(tmp_path), print)


def _small_atari(agent):
    config = atari.get_config("smoke")
    config.agent = agent
    return config


def _small_continuous(agent):
    config = continuous.get_config("smoke")
    config.agent = agent
    config.num_env_steps = 24 * 10 * 4
    config.env.max_steps = 12
    config.network.units = (8,)
    config.network.advantage_units = (8,)
    config.learner.unroll_length = 10
    config.learner.batch_size = 4
    config.runtime.envs_per_actor = 4
    config.runtime.compile = "graph"
    config.replay.frames = 400
    return config


def _distinct_continuous(agent):
    """No two numbers of loss, learner and network are equal."""
    config = _small_continuous(agent)
    config.learner.update(OPTIMIZER)
    config.loss.update(LOSS)
    config.network.update({"units": (9,), "advantage_units": (10,), "std": 0.2, "mean_bound": 0.7})
    config.network.dueling_samples = 3
    return config


def _trained(path, agent, updates):
    config = _small_continuous(agent)
    config.num_env_steps = updates * 40
    training = find_experiment(config).build_trainer(3, Folder(path), print)
    updates = list(training)
    training.close()
    return training, updates


def _weights(training):
    return [variable.numpy() for variable in training._learner.agent.variables]
