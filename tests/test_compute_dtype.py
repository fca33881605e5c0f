"""Agents whose torso computes in bfloat16: their first updates, what stays float32, and their checkpoints."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from repro.benchmarks.measuring.actor_learner import random_unrolls
from repro.evidence import behaviour, staleness
from repro.papers import find_experiment
from repro.training import devices
from repro.training.learner import Learner
from tests import golden

FIELD = "network.compute_dtype"
pytestmark = pytest.mark.skipif(
    not devices.is_fast_in_bfloat16(), reason="neither a GPU from Ampere on nor a processor with AVX512-BF16 or AMX"
)


def with_dtype(name, dtype, updates=1):
    case = golden.CASES[name]
    return dataclasses.replace(case, changes={**case.changes, FIELD: dtype}, updates=updates)


@pytest.mark.parametrize(
    "name",
    ["impala.shallow", "impala.lstm_vtrace", "acer.discrete", "ctrace.dqn_double", "ctrace.r2d2_n_step", "stac.stac"],
)
def test_the_first_update_is_that_of_float32_but_for_rounding(name, monkeypatch, capsys):
    """Of random numbers that act alike, and on the same frames; a later batch may have other actions."""
    monkeypatch.setitem(golden.CASES, name, with_dtype(name, "bfloat16"))
    found = golden.measure(name)
    paper, _, short = name.partition(".")
    known = behaviour.load(paper, staleness.CONFIGS_DIR)[short].values
    assert found.keys() == known.keys()
    for key in ("loss", "gradient_norm", "weights_moved"):
        assert found[key][0] == pytest.approx(known[key][0], rel=0.02), key
    assert found["gradient_norm"][0] != pytest.approx(known["gradient_norm"][0], rel=1e-6)
    if not name.startswith("ctrace."):  # of which no run is built here
        assert "The torso computes in bfloat16" in capsys.readouterr().out


def made(dtype):
    """IMPALA's agent with the shallow network."""
    experiment = find_experiment(with_dtype("impala.shallow", dtype).config())
    environment = experiment.make_environment(1, 0)
    agent = experiment.make_agent(environment, 0)
    environment.close()
    return agent


@pytest.mark.parametrize(("dtype", "other"), [("bfloat16", "float32"), ("float32", "bfloat16")])
def test_a_checkpoint_of_one_type_is_read_by_the_other(tmp_path, dtype, other):
    agent, reader = made(dtype), made(other)
    learner = Learner(agent, tf.distribute.get_strategy())
    learner.step(learner.to_device(random_unrolls(agent, 4, 8).arrays))
    learned = tf.train.Checkpoint(agent=agent)
    path = learned.write(str(tmp_path / "x"))
    tf.train.Checkpoint(agent=reader).read(path).assert_consumed()
    for ours, theirs in zip(agent._optimizer.variables, reader._optimizer.variables, strict=True):
        assert ours.dtype in (tf.float32, tf.int64)
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(agent.acting_variables, reader.acting_variables, strict=True):
        assert ours.dtype == theirs.dtype == tf.float32
        np.testing.assert_array_equal(ours, theirs)
