"""The arithmetic of benchmarks; speed itself is not tested here."""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.acer import gymnasium as acer_gymnasium
from paper_configs.ctrace import dqn
from paper_configs.impala import atari_deep, atari_population, atari_shallow, dmlab_table1_throughput, gymnasium
from paper_configs.refer import figure_4_vracer
from paper_configs.stac import atari
from repro import benchmark
from repro.benchmarks import (
    ctrace_tabular,
    impala_atari,
    impala_dmlab,
    ingestion,
    population,
    refer_halfcheetah,
    replay,
    stac,
    table1,
)
from repro.benchmarks.measuring import actor_learner, alternating, raw, replay_server, sequences, timing
from repro.config import resolve
from repro.environments.dmlab_module import MISSING
from repro.environments.mujoco import make_mujoco
from repro.networks import recurrent
from repro.papers import find_experiment
from repro.training.trainer import Trainer
from tests.support.forked_train import run_command


def test_serial_bound_is_the_rate_of_one_after_the_other():
    assert timing.serial_bound({"a": 2.0, "b": 2.0}) == 1.0
    assert timing.serial_bound({"a": 6500, "b": 28000, "c": 13500}) == pytest.approx(3793.1, abs=0.1)


def test_a_measurement_on_one_core_gives_the_others_back_when_it_fails(monkeypatch):
    cores, bound = {2, 3, 5}, []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cores)
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: bound.append(cores))
    monkeypatch.setattr(ctrace_tabular.simulation, "simulate", lambda *_: {}["a measurement that fails"])
    with pytest.raises(KeyError, match="a measurement that fails"):
        ctrace_tabular.measure(0.1, 1)
    assert bound == [{2}, cores]


def test_ratio_is_the_median_of_ratios_within_a_repeat():
    repeats = [
        {"parts": {"a": 2.0, "b": 2.0}, "whole": 0.9},
        {"parts": {"a": 4.0, "b": 4.0}, "whole": 1.6},  # a faster minute
        {"parts": {"a": 2.0, "b": 2.0}, "whole": 0.7},
    ]
    result = timing.summarise("x", "steps_per_second", repeats)
    assert result["ratio"] == pytest.approx(0.8)
    assert result["spread"] == pytest.approx([0.7, 0.9])
    assert result["parts"] == {"a": 2.0, "b": 2.0}


def test_the_outer_bound_is_that_of_the_outer_parts():
    repeats = [
        {"outer_parts": {"a": 4.0, "b": 4.0}, "whole": 0.9},
        {"outer_parts": {"a": 8.0, "b": 8.0}, "whole": 1.6},
        {"outer_parts": {"a": 4.0, "b": 4.0}, "whole": 0.7},
    ]
    result = timing.summarise_outer(repeats)
    assert result["outer_parts"] == {"a": 4.0, "b": 4.0}
    assert result["outer_bound"] == 2.0
    assert result["outer_ratio"] == pytest.approx(0.4)
    assert result["outer_spread"] == pytest.approx([0.35, 0.45])
    lines = dict(benchmark._lines(result | {"parts": {}, "whole": 0.9, "bound": 1.0, "ratio": 0.9, "spread": [0.7, 1]}))
    assert lines["whole / outer bound"] == "0.40 (0.35 to 0.45)"


def test_products_are_those_that_the_results_of_a_graph_need():
    """Forward 3, backward 5: the frames' own gradient is in the graph, but nothing needs it."""
    kernel, matrix = tf.Variable(tf.ones([3, 3, 2, 5])), tf.Variable(tf.ones([4 * 4 * 5, 7]))
    core = tf.Variable(tf.ones([7, 4]))

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            features = tf.nn.relu(tf.nn.conv2d(x, kernel, 2, "VALID"))
            hidden = tf.linalg.matmul(tf.reshape(features, [6, -1]), matrix)
            loss = tf.reduce_sum(tf.einsum("btf,fg->btg", tf.reshape(hidden, [2, 3, 7]), core) ** 2)
        gradients = tape.gradient(loss, [kernel, matrix, core, x])
        kernel.assign_sub(gradients[0])
        return loss, gradients[1:3]

    found = raw.products(step.get_concrete_function(tf.TensorSpec([6, 9, 9, 2])).graph)
    assert sorted((product.func.__name__, tuple(product().shape)) for product in found) == [
        ("conv2d", (6, 4, 4, 5)),
        ("conv2d_backprop_filter", (3, 3, 2, 5)),
        ("einsum", (2, 3, 4)),
        ("einsum", (2, 3, 7)),
        ("einsum", (7, 4)),
        ("mat_mul", (6, 7)),
        ("mat_mul", (6, 80)),
        ("mat_mul", (80, 7)),
    ]
    for product in found:
        assert np.isfinite(product().numpy()).all()


def test_products_of_a_loop_are_those_of_its_steps(monkeypatch):
    """An LSTM is a loop on a GPU; it has the products that it has without one, forward and backward."""
    steps = recurrent.UNROLLED + 3
    core = recurrent.ResettingLSTM(5, seed=1)

    def gradients(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(core(x, tf.zeros([2, steps], tf.bool), core.initial_state(2))[0] ** 2)
        return loss, tape.gradient(loss, core.trainable_variables)

    found = []
    for gpus in ([], ["GPU:0"]):
        monkeypatch.setattr(recurrent, "visible_gpus", lambda gpus=gpus: gpus)
        graph = tf.function(gradients, autograph=False).get_concrete_function(tf.TensorSpec([2, steps, 3])).graph
        made = (product() for product in raw.products(graph))
        found.append(collections.Counter(tuple(product.shape) for product in made))
    assert found[0][2, 5] == steps - 1  # gradients of h, which is zero before the first step
    assert found[0][5, 20] == found[0][2, 20] == steps
    assert found[0] + collections.Counter({(2, 5): 1}) == found[1]  # that of the first step, which a loop has too


def test_products_of_functions_count_for_each_call():
    matrix = tf.ones([2, 2])
    square = tf.function(lambda x: x @ matrix, autograph=False)
    graph = (
        tf.function(lambda x: square(square(x)) @ matrix, autograph=False)
        .get_concrete_function(tf.TensorSpec([2, 2]))
        .graph
    )
    assert len(raw.products(graph)) == 3


def test_products_of_another_type_keep_it():
    kernel, matrix = (tf.ones(shape, tf.bfloat16) for shape in ([3, 3, 2, 5], [80, 7]))

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            features = tf.nn.conv2d(x, kernel, 2, "VALID")
            loss = tf.reduce_sum(tf.reshape(features, [6, -1]) @ matrix)
        return loss, tape.gradient(loss, kernel)

    found = raw.products(step.get_concrete_function(tf.TensorSpec([6, 9, 9, 2], tf.bfloat16)).graph)
    assert {product().dtype for product in found} == {tf.bfloat16}
    assert len(found) == 4


def test_products_that_cannot_be_counted_are_refused():
    matrix = tf.ones([2, 2])
    unbounded = tf.function(
        lambda x: tf.while_loop(lambda x: x[0, 0] < 9.0, lambda x: [x @ matrix], [x]), autograph=False
    )
    branch = tf.function(lambda x: tf.cond(x[0, 0] < 9.0, lambda: x @ matrix, lambda: x), autograph=False)
    case = tf.function(
        lambda x: tf.switch_case(tf.cast(x[0, 0], tf.int32), [lambda: x @ matrix, lambda: x]), autograph=False
    )
    for function, said in (
        (unbounded, "a loop without a number of rounds"),
        (branch, "it is not known which one"),
        (case, "it is not known which one"),
    ):
        with pytest.raises(ValueError, match=rf"^products: .*{said}.*\.$"):
            raw.products(function.get_concrete_function(tf.TensorSpec([2, 2])).graph)
    unknown = tf.function(lambda x: x @ matrix, autograph=False).get_concrete_function(tf.TensorSpec([None, 2]))
    with pytest.raises(ValueError, match="has a shape that is not known"):
        raw.products(unknown.graph)


@pytest.mark.parametrize("gpus", [[], ["GPU:0"]])
def test_products_on_a_gpu_are_done_before_they_count(monkeypatch, gpus):
    waits = []
    monkeypatch.setattr(raw, "visible_gpus", lambda: gpus)
    monkeypatch.setattr(tf.test.experimental, "sync_devices", lambda: waits.append(True))
    body = raw.one_call([lambda: tf.ones([])], units=3)
    assert (body(), body()) == (3, 3)
    assert len(waits) == 2 * len(gpus)


def test_rate_counts_what_every_thread_did():
    counts = [0, 0]

    def body(i):
        counts[i] += 1
        return 10

    rate = timing.rate([lambda: body(0), lambda: body(1)], seconds=0.05)
    done = sum(counts) - 2 * timing.WARM_UP
    assert done > 0
    assert 0 < rate <= 10 * done / 0.05


def test_a_body_that_fails_ends_the_measurement_of_a_rate():
    units = [1] * (timing.WARM_UP + 2)
    with pytest.raises(IndexError):
        timing.rate([lambda: 1, units.pop], seconds=60.0)  # which it does not take


def test_a_replay_server_whose_process_fails_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_server, "_serve", os.kill)  # fails, given four arguments
    errors = []

    def serve():
        try:
            with replay_server.serving(None, None, tmp_path):
                pass
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    thread.join(60.0)
    assert errors == ["The replay's process ended with code 1."]


class FakeClock:
    """A clock of a machine whose load rises, so that the same work takes longer and longer."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def work(self, cost):
        self.now += cost * (1.0 + 0.05 * self.now)
        return 1


COSTS = {"impala": 0.010, "impala_aux": 0.015, "stac": 0.020, "stacx": 0.030}


def test_turns_cancel_a_load_that_rises(monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(timing, "time", clock)
    turns = timing.take_turns({name: functools.partial(clock.work, cost) for name, cost in COSTS.items()}, 60.0)
    assert {len(times) for times in turns.values()} == {len(turns["stac"])}
    assert turns["stac"][-1] > 2 * turns["stac"][0]
    for name, cost in COSTS.items():
        np.testing.assert_allclose(np.median(turns[name] / turns["impala"]), cost / COSTS["impala"], rtol=0.02)
    clock.now = 0.0
    apart = [timing.rate([functools.partial(clock.work, COSTS[name])], 10.0) for name in ("impala", "stac")]
    assert apart[0] / apart[1] > 1.2 * 2.0  # one after the other: the second had the higher load


def _stac(monkeypatch, **changes):
    """The result of the benchmark of STAC whose updates, of whole runs too, take `COSTS`, with the default settings."""
    clock, measured, running = FakeClock(), [], []

    class FakeProgram:
        """A run that counts its updates."""

        def __init__(self, command):
            settings = json.loads((Path(command.partition("--run_dir=")[2]) / "config.json").read_text())
            self.config, self.count = settings["config"], 0.0
            self.end = functools.partial(running.remove, self)
            running.append(self)

        def warm_up(self, seconds, limit):
            self.take_turn(seconds)

        def take_turn(self, seconds):
            start = clock.now
            while clock.now - start < seconds:
                self.count += clock.work(COSTS[self.config["agent"]])
            return alternating.Turn(clock.now - start, self.count)

    def measure_on_policy(experiment, seed, seconds):
        measured.append(experiment.config)
        parts = {"environment": 3000.0, "inference": 6000.0, "learner": 2000.0}
        outer = {"emulation": 4000.0, "products of learner": 4000.0}
        return {"parts": parts, "outer_parts": outer, "whole": 900.0 - 100 * seed}

    monkeypatch.setattr(timing, "time", clock)
    monkeypatch.setattr(stac.devices, "configure_threads", lambda **arguments: 1)
    monkeypatch.setattr(actor_learner, "measure_on_policy", measure_on_policy)
    monkeypatch.setattr(
        actor_learner,
        "unroll_learner_body",
        lambda experiment: functools.partial(clock.work, COSTS[experiment.config.agent]),
    )
    monkeypatch.setattr(alternating, "Program", FakeProgram)
    result = stac.measure(5.0, 3, **changes)
    assert not running
    return result, measured


def test_updates_of_stac_are_compared_within_a_turn(monkeypatch):
    result, measured = _stac(monkeypatch)
    assert result["ratios"] == {
        "update, impala_aux / impala": pytest.approx(1.5, rel=0.02),
        "update, stac / impala": pytest.approx(2.0, rel=0.02),
        "update, stacx / impala": pytest.approx(3.0, rel=0.02),
        "run time, impala_aux / impala": pytest.approx(1.5, rel=0.02),
        "run time, stac / impala": pytest.approx(2.0, rel=0.02),
        "run time, stacx / impala": pytest.approx(3.0, rel=0.02),
    }
    assert result["published"] == {
        "run time, impala_aux / impala": 83 / 70,
        "run time, stac / impala": 71 / 70,
        "run time, stacx / impala": 84 / 70,
    }
    assert (result["ratio"], result["bound"], result["frames_per_step"]) == (pytest.approx(0.8), 1000.0, 4)
    assert (result["outer_ratio"], result["outer_bound"]) == (pytest.approx(0.4), 2000.0)
    assert [repeat["ratio"] for repeat in result["repeats"]] == pytest.approx([0.9, 0.8, 0.7])
    first, _, last = (repeat["update_milliseconds"] for repeat in result["repeats"])
    assert last["stac"] > first["stac"] > 1e3 * COSTS["stac"]  # the machine slows down
    assert {(c.agent, c.env.task, c.network.torso, c.network.num_heads) for c in measured} == {
        ("stac", "breakout", "shallow", 1)
    }
    lines = dict(benchmark._lines(result))
    assert lines["update, stac / impala"] == f"x {result['ratios']['update, stac / impala']:.3f}"
    assert lines["whole"] == "800 (3,200 frames)"
    low, high = result["intervals"]["run time, stac / impala"]
    assert low <= result["ratios"]["run time, stac / impala"] <= high
    assert re.fullmatch(r"x [\d.]+ \([\d.]+ to [\d.]+\), paper 1\.014", lines["run time, stac / impala"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "measure"),
    [
        (gymnasium.get_config("smoke"), actor_learner.measure_on_policy),
        (acer_gymnasium.get_config("smoke"), actor_learner._measure_replay_once),
        (dqn.get_config("smoke"), sequences._measure_once),
    ],
)
def test_actors_have_environments_as_in_a_training_and_all_are_closed(monkeypatch, config, measure):
    if "num_actors" in config.runtime:
        config.runtime.num_actors = 2
    experiment = find_experiment(resolve(config))
    opened, closed, shards, make = [], [], [], experiment.make_environment

    def make_environment(*arguments, **keywords):
        environment = make(*arguments, **keywords)
        opened.append(environment)
        shards.extend(arguments[2:])  # the number of the actor, and how many there are
        close = environment.close
        monkeypatch.setattr(environment, "close", lambda: (closed.append(environment), close()))
        return environment

    monkeypatch.setattr(experiment, "make_environment", make_environment)
    monkeypatch.setattr(timing, "rate", lambda bodies, seconds: 1.0)
    monkeypatch.setattr(timing, "whole", lambda build, seconds, warm_up=0: 1.0)
    monkeypatch.setattr(sequences, "STORED", 1)
    measure(experiment, 0, 0.0)
    assert shards == [(i, experiment.num_actors) for i in range(experiment.num_actors)]
    assert set(map(id, closed)) == set(map(id, opened))


@pytest.mark.slow
def test_an_adoption_through_the_disk_is_measured_beside_the_time_between_comparisons(monkeypatch):
    adopted, adopt = [], Trainer.adopt
    monkeypatch.setattr(population.devices, "configure_threads", lambda **arguments: 1)
    monkeypatch.setattr(Trainer, "adopt", lambda trainer, *given: (adopted.append(given), adopt(trainer, *given)))
    seconds_of_update = population._seconds_of_update
    monkeypatch.setattr(population, "_seconds_of_update", lambda *given: (seconds_of_update(*given), 0.5)[1])
    config = atari_population.get_config("smoke")
    config.learner.batch_size = 4
    config.runtime.update({"num_actors": 1, "envs_per_actor": 4})
    experiment = find_experiment(resolve(config))
    result = population.measure(0.0, 2, config)
    assert len(adopted) == 2
    assert result["checkpoint_bytes"] > 1e6
    assert min(result["rows"].values()) > 0
    updates = config.population.interval / experiment.frames_per_update
    assert result["rows"]["between two comparisons"] == pytest.approx(500 * updates)
    with pytest.raises(ValueError, match="atari_shallow has none"):
        population.measure(0.0, 1, atari_shallow.get_config("smoke"))


def test_a_configuration_chooses_what_is_measured(monkeypatch):
    config = atari.get_config("paper")
    _, measured = _stac(monkeypatch, config=config)
    assert {(c.agent, c.env.task, c.network.torso) for c in measured} == {("stacx", "pong", "deep")}


TABLE_1_RATES = {
    "a3c": (200.0, 300.0, 60.0),
    "a2c_sync_step": (300.0, 600.0, 150.0),
    "a2c_sync_trajectories": (150.0, 300.0, 75.0),
    "a2c_dynamic_batching": (400.0, 800.0, 200.0),
    "impala_async": (600.0, 1200.0, 300.0),
    "impala_dynamic_batching": (1200.0, 2400.0, 600.0),
}
"""Frames a second in each repeat, of which the second is twice as fast as the first, and the third half as fast."""


@pytest.mark.parametrize(
    ("config", "task"),
    [(None, "pong"), (dmlab_table1_throughput.get_config("paper"), "seekavoid_arena_01")],
    ids=["atari", "dmlab"],
)
def test_table_1_compares_its_schedules_at_the_published_sizes(monkeypatch, config, task):
    """Batches of 32 but for A3C; 48 environments but for A3C's 32 workers."""
    measured = []

    def whole(build, seconds, warm_up):
        experiment, seed = build(None)
        measured.append((experiment.config.agent, seed, seconds, warm_up, experiment.config))
        return TABLE_1_RATES[experiment.config.agent][seed]

    monkeypatch.setattr(table1.devices, "configure_threads", lambda **arguments: 1)
    monkeypatch.setattr(table1, "_build", lambda experiment, seed, run: (experiment, seed))
    monkeypatch.setattr(timing, "whole", whole)
    result = table1.measure(5.0, 3, config)
    names = list(TABLE_1_RATES)
    assert [(agent, seed) for agent, seed, *_ in measured] == [(agent, seed) for seed in range(3) for agent in names]
    assert {seconds for _, _, seconds, *_ in measured} == {5.0}
    settings = {
        agent: (
            c.runtime.schedule,
            c.runtime.num_actors,
            c.runtime.envs_per_actor,
            c.runtime.dynamic_batching,
            c.learner.batch_size,
            c.loss.correction,
            warm_up,
        )
        for agent, _, _, warm_up, c in measured
    }
    a2c, impala = ("none", 3 + 6 * 48 // 32), ("vtrace", 3 + 6 * 48 // 32)
    assert settings == {
        "a3c": ("a3c", 32, 1, False, 1, "none", 3 + 6 * 32),
        "a2c_sync_step": ("lockstep", 1, 48, False, 32, *a2c),
        "a2c_sync_trajectories": ("lockstep", 48, 1, False, 32, *a2c),
        "a2c_dynamic_batching": ("lockstep", 48, 1, True, 32, *a2c),
        "impala_async": ("async", 48, 1, False, 32, *impala),
        "impala_dynamic_batching": ("async", 48, 1, True, 32, *impala),
    }
    assert {c.runtime.lockstep_lag for *_, c in measured if c.runtime.schedule == "lockstep"} == {0}
    assert result["rows"] == {agent: rates[0] for agent, rates in TABLE_1_RATES.items()}  # the medians
    assert result["ratios"] == {
        "IMPALA / a3c": 4.0,  # of 3, 4 and 5 within a repeat; that of the medians would be 3
        "IMPALA / a2c_sync_step": 2.0,
        "IMPALA / a2c_sync_trajectories": 4.0,
        "IMPALA / a2c_dynamic_batching": 1.5,
        "IMPALA / impala_dynamic_batching": 0.5,
    }
    assert (result["task"], result["unit"]) == (task, "frames_per_second")
    lines = dict(benchmark._lines(result))
    assert (lines["a3c"], lines["IMPALA / a3c"]) == ("200.0", "x 4.000")


def test_table_1_is_not_measured_without_its_schedules():
    with pytest.raises(ValueError, match="measures the schedules of Table 1, which atari_shallow does not have"):
        table1.measure(5.0, 1, atari_shallow.get_config("paper"))


def test_a_level_of_deepmind_lab_is_measured_at_desk_scale(monkeypatch, tmp_path):
    """Each update takes seconds: the whole is warm after three."""
    measured = []

    def measure_on_policy(experiment, seed, seconds, warm_up):
        measured.append((experiment.config, seed, seconds, warm_up))
        parts = {"environment": 300.0, "inference": 600.0, "learner": 200.0}
        return {"parts": parts, "outer_parts": {"emulation": 170.0}, "whole": 90.0 - 10 * seed}

    (tmp_path / "deepmind_lab").mkdir()
    (tmp_path / "provenance.json").write_text('{"text": "commit b1db91a"}')
    monkeypatch.setenv("REPRO_DMLAB", str(tmp_path))
    monkeypatch.setattr(impala_dmlab.devices, "configure_threads", lambda **arguments: 1)
    monkeypatch.setattr(actor_learner, "measure_on_policy", measure_on_policy)
    result = impala_dmlab.measure(5.0, 2)
    assert [others for _, *others in measured] == [[0, 5.0, 3], [1, 5.0, 3]]
    (config, *_), _ = measured
    assert (config.env.task, config.agent, config.runtime.envs_per_actor) == ("seekavoid_arena_01", "vtrace", 8)
    assert (result["ratio"], result["bound"], result["outer_ratio"]) == (pytest.approx(0.85), 100.0, 0.5)
    assert result["versions"]["deepmind_lab"] == "commit b1db91a"
    assert dict(benchmark._lines(result))["whole"] == "85 (340 frames)"
    with pytest.raises(ValueError, match="measures levels of DeepMind Lab, not env.name='atari'"):
        impala_dmlab.measure(5.0, 2, atari_shallow.get_config("desk"))


def test_impala_is_measured_with_another_network_and_type(monkeypatch):
    """By default Pong with the published shallow network."""
    measured = []

    def measure_on_policy(experiment, seed, seconds):
        measured.append((experiment.config, seed, seconds))
        return {"parts": {"learner": 100.0}, "outer_parts": {"emulation": 180.0}, "whole": 90.0 - 10 * seed}

    monkeypatch.setattr(impala_atari.devices, "configure_threads", lambda **arguments: 1)
    monkeypatch.setattr(actor_learner, "measure_on_policy", measure_on_policy)
    config = atari_deep.get_config("desk")
    config.network.compute_dtype = "bfloat16"
    results = [impala_atari.measure(5.0, 2), impala_atari.measure(5.0, 2, config)]
    assert [others for _, *others in measured] == 2 * [[0, 5.0], [1, 5.0]]
    assert [
        (c.experiment, c.scale, c.env.task, c.network.torso, c.network.compute_dtype) for c, *_ in measured[::2]
    ] == [
        ("atari_shallow", "paper", "pong", "shallow", "float32"),
        ("atari_deep", "desk", "breakout", "deep", "bfloat16"),
    ]
    assert [result["agent"] for result in results] == ["impala_shallow", "impala_deep"]
    for result in results:
        assert (result["ratio"], result["outer_ratio"]) == (pytest.approx(0.85), pytest.approx(85 / 180))
        assert dict(benchmark._lines(result))["whole"] == "85 (340 frames)"
    with pytest.raises(ValueError, match="measures IMPALA on Atari, not algorithm impala.discrete with env.name='gymn"):
        impala_atari.measure(5.0, 1, gymnasium.get_config("desk"))


def test_actors_in_processes_are_not_measured():
    config = resolve(atari_shallow.get_config("desk"))
    config.runtime.schedule = "processes"
    with pytest.raises(
        ValueError, match="^runtime.schedule=processes: choose another one; benchmarks measure actors in threads.$"
    ):
        actor_learner.measure_on_policy(find_experiment(config), 0, 1.0)


def test_what_v_racer_cannot_do_without_is_simulated_and_multiplied(monkeypatch):
    """The simulation is the task's own, begun again after each episode, at a scaled action."""
    config = resolve(figure_4_vracer.get_config("smoke"))
    config.env.max_steps, config.network.units, config.learner.batch_size = 150, (8, 5), 4
    stepped, reset, products, mj_step = [], [], [], refer_halfcheetah.mujoco.mj_step

    def step(model, data, nstep):
        stepped.append((nstep, data.ctrl.copy()))
        mj_step(model, data, nstep=nstep)

    def one_call(found, units):
        products.extend(tuple(product().shape) for product in found)
        return lambda: units

    monkeypatch.setattr(refer_halfcheetah.mujoco, "mj_step", step)
    monkeypatch.setattr(refer_halfcheetah.mujoco, "mj_resetData", lambda *_: reset.append(len(stepped)))
    monkeypatch.setattr(raw, "one_call", one_call)
    units = []
    monkeypatch.setattr(timing, "rate", lambda bodies, seconds: units.append([body() for body in bodies]) or 10.0)
    with contextlib.closing(make_mujoco(config.env, 1, 0)) as environment:
        refer_halfcheetah._measure_outer_parts(config, environment, 0, 1.0)
        body = refer_halfcheetah._simulation_body(environment, 0)
        stepped.clear(), reset.clear()
        assert (body(), body()) == (100, 100)
        task, scale = environment.config.make_task(), environment.action_scale
    assert units == [[100], [100], [1]]
    assert reset == [0, 150]
    assert {nstep for nstep, _ in stepped} == {task.frame_skip}
    np.testing.assert_allclose(stepped[-1][1], np.random.default_rng(0).normal(size=1) * scale)
    forward, to_inputs = [(4, 8), (4, 5), (4, 2)], [(4, 8), (4, 5)]
    to_weights = [(environment.state_size, 8), (8, 5), (5, 2)]
    assert sorted(shape for shape in products if shape[0] > 1) == sorted(forward + to_inputs + to_weights)


def test_the_help_says_what_each_benchmark_measures(tmp_path):
    lines = run_command(tmp_path, "repro.benchmark", "--help").stdout.splitlines()
    assert len(benchmark.NAMES) > 10
    for name in benchmark.NAMES:
        (line,) = (line.strip() for line in lines if line.strip().startswith(f"{name}: "))
        assert len(line) > len(name) + 30


@pytest.mark.slow
def test_what_is_not_built_is_one_sentence(tmp_path):
    command = [sys.executable, "-m", "repro.benchmark", "--what=impala_dmlab"]
    environment = {**os.environ, "REPRO_DMLAB": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert (done.returncode, done.stdout) == (2, "Measuring impala_dmlab: 3 x 8 s of each part.\n")
    assert done.stderr == f"repro.benchmark: {MISSING}\n"


@pytest.mark.parametrize(
    ("what", "config", "begins", "sentence"),
    [
        (
            "stac",
            "impala/atari_shallow.py",
            "Measuring stac: 3 x 8 s of each part.\n",
            "agent='impala': choose impala_shallow.",
        ),
        (
            "impala_atari",
            "stac/atari.py",
            "Measuring impala_atari: 3 x 8 s of each part.\n",
            "--what=impala_atari measures IMPALA on Atari, not algorithm stac.discrete with env.name='atari'.",
        ),
        (
            "ctrace_dqn",
            "ctrace/dqn.py",
            "",
            "--what=ctrace_dqn measures its own settings; leave out --config.",
        ),
    ],
)
def test_a_configuration_that_cannot_be_measured_is_one_sentence(tmp_path, what, config, begins, sentence):
    done = run_command(tmp_path, "repro.benchmark", f"--what={what}", f"--config=paper_configs/{config}")
    assert (done.returncode, done.stdout) == (2, begins)
    assert done.stderr == f"repro.benchmark: {sentence}\n"


def _curve(*rates, cores=(1.0, 0.5)):
    counts = (1, 2, 4)
    names = "actors", "steps_per_second", "sender_cores", "learner_cores"
    return [dict(zip(names, (count, rate, *cores))) for count, rate in zip(counts, rates)]


def test_ingestion_is_compared_with_cores_that_are_never_idle(monkeypatch):
    monkeypatch.setattr(ingestion.records, "hardware", lambda: {"cores": 2})
    results = [{"atari": _curve(100.0, 190.0 + i, 200.0), "vector": _curve(300.0, 200.0, 100.0 * i)} for i in range(3)]
    found = ingestion.summarise(results)
    assert found["saturation"] == {"atari": 2, "vector": 1}
    assert (found["whole"], found["parts"]) == (200.0, {"sender": 400.0, "learner": 800.0})
    assert found["bound"] == pytest.approx(2 / 1.5 * 200.0)  # 1.5 of 2 cores were in use
    assert found["ratio"] == pytest.approx(0.75)
    assert found["rows"]["atari, actors: 2"] == 191.0
    assert found["curves"]["vector"][2]["spread"] == [0.0, 200.0]


def test_senders_bring_a_learner_what_was_played():
    config = gymnasium.get_config("paper")
    played = ingestion.play(config)
    step = played.size / (ingestion.ENVS * config.learner.unroll_length)
    assert 4 * 4 < step < 200  # bytes; the observation has four numbers
    assert played.sent > 1000
    found = ingestion.measure_count(played, count=2, seconds=0.2)
    assert found["steps_per_second"] > 0
    assert found["megabytes_per_second"] == pytest.approx(found["steps_per_second"] * step / 1e6)
    assert found["learner_cores"] > 0
    assert found["sender_cores"] > 0
    assert found["weights_fetched_per_version"] > 0


def test_rates_of_a_replay_are_compared_by_size_and_by_kind(monkeypatch):
    monkeypatch.setattr(replay, "SIZES", {"desk": (10, 20)})
    rates = {"memory": (100.0, 80.0), "Reverb": (40.0, 20.0), "Reverb in its own process": (30.0, 60.0)}
    results = [
        {
            f"{kind}, desk, {size}": replay.Found(shift + written, 3.0 * written, 7.0 if kind == replay.OWN else None)
            for kind, both in rates.items()
            for size, written in zip((10, 20), both)
        }
        for shift in (-1.0, 0.0, 5.0)
    ]
    found = replay.summarise(results, {"DQN": (7000.0, 7.0)})
    assert found["rows"]["memory, desk, 20: written"] == 80.0
    assert found["spreads"]["memory, desk, 20: written"] == [79.0, 85.0]
    assert found["rows"]["DQN: bytes_per_transition"] == 7000.0
    assert found["rows"]["Reverb in its own process, desk, 20: bytes_per_transition"] == 7.0
    assert "memory, desk, 20: bytes_per_transition" not in found["rows"]
    assert found["ratios"]["written, Reverb, desk: 20 over 10"] == 0.5
    assert found["ratios"]["sampled, desk: Reverb over memory"] == 0.25
    assert found["ratios"]["sampled, desk: Reverb in its own process over memory"] == 0.75


@pytest.mark.slow
@pytest.mark.parametrize("kind", replay.KINDS)
def test_a_replay_is_full_when_it_is_measured(monkeypatch, kind):
    experiment = replay.R2d2Experiment(resolve(replay.r2d2.get_config("smoke")))
    spec, steps = replay.play(experiment)
    sizes = []
    monkeypatch.setattr(timing, "rate", lambda bodies, seconds: sizes.append(bodies[0]()) or 5.0)
    found = replay.measure_one(kind, experiment, (spec, steps), 300, 1.0)
    assert sizes == [200 // 5, experiment.replay_training.batch_size]
    assert (found.written, found.sampled) == (5.0, 5.0)
    assert (found.bytes_per_transition is not None) == (kind == replay.OWN)


def test_bytes_of_a_transition_are_those_of_its_frame_and_what_goes_with_it():
    size, gigabytes = replay.sequence_memory(dqn.get_config("desk"))
    assert 84 * 84 < size < 84 * 84 + 100
    assert gigabytes == pytest.approx(size * 100_000 / 1e9, rel=0.01)
    size, gigabytes = replay.unroll_memory(acer_gymnasium.get_config("desk"), 1000)
    assert 4 * 4 < size < 100
    assert gigabytes == pytest.approx(size / 1e6)
    size, _ = replay.refer_memory(1000)
    assert 4 * (17 + 3 * 6) < size < 200
