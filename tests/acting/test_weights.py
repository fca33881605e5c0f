"""Weights that reach actors late."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.impala import dmlab_figure_d1, gymnasium
from repro.acting.remote import RemoteWeights
from repro.acting.weights import WeightsPublisher
from repro.config import agents, resolve
from repro.papers import find_experiment
from repro.training import unroll_actors
from tests.support.training import make_loop, weights_of


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_the_latest_snapshot_is_so_many_publications_old(delay):
    variable = tf.Variable(0.0)
    publisher = WeightsPublisher([variable], acting=[variable], delay=delay)
    assert publisher.latest.version == -1
    for version in range(8):
        variable.assign(10.0 * version)
        for _ in range(2):  # the second is in place of the first
            publisher.publish(version)
            expected = max(0, version - delay)
            assert publisher.latest.version == expected
            assert [float(x) for x in (*publisher.latest.values, *publisher.latest.acting)] == [10.0 * expected] * 2


def test_state_goes_around():
    variable = tf.Variable(0.0)
    publisher, other = (WeightsPublisher([variable], acting=[variable], delay=2) for _ in range(2))
    assert publisher.get_state() == {}
    for version in range(5):
        variable.assign(10.0 * version)
        publisher.publish(version)
    other.set_state(publisher.get_state())
    other.publish(4)
    for version in range(5, 9):
        variable.assign(10.0 * version)
        for x in (publisher, other):
            x.publish(version)
        assert publisher.latest.version == other.latest.version == version - 2
        assert float(publisher.latest.values[0]) == float(other.latest.values[0]) == 10.0 * (version - 2)


@pytest.mark.parametrize("publisher", [WeightsPublisher, RemoteWeights])
def test_what_follows_the_variables_is_named(publisher):
    with pytest.raises(TypeError, match="positional"):
        publisher([tf.Variable(1.0)], ())


def test_a_negative_delay_is_refused():
    with pytest.raises(ValueError, match="runtime.weights_delay=-1"):
        WeightsPublisher([], delay=-1)


def test_many_publishers_are_nothing_that_tensorflow_warns_of(caplog, monkeypatch):
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    for _ in range(10):
        WeightsPublisher([tf.Variable(1.0)]).publish(1)
    assert "retracing" not in caplog.text


@pytest.mark.slow
def test_old_weights_are_to_the_bit_what_old_batches_are_also_after_a_stop(tmp_path):
    """Lag 4 in lockstep: batches that wait for three rounds more, or weights that are three updates older."""
    settings = {"updates": 12, "num_actors": 1, "envs_per_actor": 8}
    waiting, _, waiting_agent = make_loop(tmp_path / "waiting", lag=4, **settings)
    lags = [update.lag for update in waiting]
    waiting.close()
    assert lags == [min(n, 4) for n in range(12)]
    first, _, _ = make_loop(tmp_path / "late", lag=1, delay=3, **settings)
    late_lags = []
    for update in first:
        late_lags.append(update.lag)
        if update.updates == 6:
            first.save()
            break
    first.close()
    second, _, late_agent = make_loop(tmp_path / "late", lag=1, delay=3, **settings)
    late_lags += [update.lag for update in second]
    second.close()
    assert late_lags == lags
    for a, b in zip(weights_of(waiting_agent), weights_of(late_agent), strict=True):
        np.testing.assert_array_equal(a, b)


def test_weights_of_actors_in_processes_are_as_late_as_the_configuration_says(monkeypatch):
    config = gymnasium.get_config("smoke")
    config.runtime.schedule, config.runtime.weights_delay = "processes", 2
    experiment, delays = find_experiment(config), []
    monkeypatch.setattr(unroll_actors, "RemoteWeights", lambda _, delay, **__: delays.append(delay))
    monkeypatch.setattr(unroll_actors, "make_remote_source", lambda *_, **__: None)
    monkeypatch.setattr(type(experiment), "_make_actors", lambda *_: None)
    collecting = SimpleNamespace(variables=lambda: [tf.Variable(0.0)])
    agent = SimpleNamespace(collect_policy=collecting, collect_data_spec=None)
    experiment.make_remote_source(agent, None, None, print, None)
    assert delays == [2]


@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_the_agents_of_figure_d1_have_the_lag_of_their_name(scale):
    """In lockstep at lag 1 with one batch a round; at other lags the weights are later by the rest."""
    table = dmlab_figure_d1.get_config(scale)
    assert len(agents(table)) == 9
    for table.agent in agents(table):
        config = resolve(table)
        runtime, lag = config.runtime, int(config.agent.rpartition("_")[2])
        assert (runtime.schedule, runtime.lockstep_lag, runtime.weights_delay) == ("lockstep", 1, lag - 1)
        assert runtime.num_actors * runtime.envs_per_actor == config.learner.batch_size
        experiment = find_experiment(config)
        assert experiment.sample_hparams(1) == {}
        assert experiment.num_replayed == 0
