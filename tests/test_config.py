"""Invalid numbers in a config give an error in one sentence before anything is built."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import ml_collections
import pytest

from paper_configs.acer import gymnasium as acer
from paper_configs.ctrace import dqn, r2d2
from paper_configs.impala import atari_shallow, gymnasium
from paper_configs.refer import gymnasium as refer
from paper_configs.stac import gymnasium as stac
from repro.config import (
    RANGES,
    agents,
    check_numbers,
    flatten,
    frames_per_step,
    missing_field,
    resolve,
    resolve_plain,
    whole_product,
)

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("config", "field", "value", "sentence"),
    [
        (atari_shallow, "loss.discount", 1.5, "loss.discount=1.5: choose a number from 0 to 1."),
        (atari_shallow, "loss.discount", math.nan, "loss.discount=nan: choose a number from 0 to 1."),
        (atari_shallow, "loss.clip_rho", -1.0, "loss.clip_rho=-1.0: choose a number above 0."),
        (atari_shallow, "learner.batch_size", 0, "learner.batch_size=0: choose 1 or more."),
        (
            atari_shallow,
            "learner.rmsprop_momentum",
            1.0,
            "learner.rmsprop_momentum=1.0: choose a number of 0 or more and below 1.",
        ),
        (gymnasium, "network.core_units", -2, "network.core_units=-2: choose a finite number of 0 or more."),
        (acer, "replay.ratio", -1.0, "replay.ratio=-1.0: choose a number from 0 to 10000."),
        (refer, "refer.c", -1.0, "refer.c=-1.0: choose a finite number above 0."),
        (refer, "memory.start_steps", 0, "memory.start_steps=0: choose 1 or more."),
        (gymnasium, "network.units", (64, 0), r"network.units=\(64, 0\): choose 1 or more for each."),
        (gymnasium, "network.units", (0,), r"network.units=\(0,\): choose 1 or more."),
        (gymnasium, "learner.rmsprop_epsilon", 0.0, "learner.rmsprop_epsilon=0.0: choose a finite number above 0."),
        (gymnasium, "loss.entropy_cost", -0.01, "loss.entropy_cost=-0.01: choose a finite number of 0 or more."),
        (gymnasium, "runtime.envs_per_actor", 10_001, "runtime.envs_per_actor=10001: choose at most 10000."),
        (dqn, "replay.steps", 0, "replay.steps=0: choose 1 or more."),
        (dqn, "replay.period", 0, "replay.period=0: choose 1 or more."),
        (dqn, "loss.clip_error", -1.0, "loss.clip_error=-1.0: choose a number above 0."),
        (r2d2, "exploration.base", 1.0, "exploration.base=1.0: choose a number above 0 and below 1."),
        (
            r2d2,
            "replay.priority_exponent",
            math.inf,
            "replay.priority_exponent=inf: choose a finite number of 0 or more.",
        ),
        (stac, "meta.initial", math.nan, "meta.initial=nan: choose a finite number."),
    ],
)
def test_a_number_out_of_its_range_is_named_with_the_range(config, field, value, sentence):
    settings = resolve(config.get_config("smoke"))
    check_numbers(settings)
    settings.update_from_flattened_dict({field: value})
    with pytest.raises(ValueError, match=f"^{sentence}"):
        check_numbers(settings)


def test_the_ends_of_a_range_and_what_is_no_number_are_taken():
    ends = {"learner": {"discount": 1.0, "batch_size": 1, "learning_rate": (5e-6, 5e-3)}, "loss": {"lambda_": 0.0}}
    check_numbers(ml_collections.ConfigDict(ends | {"clip_rho": math.inf, "clip_c": None, "unroll_length": True}))
    check_numbers(
        ml_collections.ConfigDict({"env": {"kwargs": {"truncation": 0, "overlap": -0.1}}})
    )  # its own business


def test_a_field_that_is_missing_is_told_from_other_errors():
    config = ml_collections.ConfigDict({"env": {"task": "pong"}})
    for read, field in (
        (lambda: config.env.tasc, "tasc"),
        (lambda: config["env"]["tasc"], "tasc"),
        (lambda: config.nev.task, "nev"),
        (lambda: {}["tasc"], None),
        (lambda: math.tasc, None),
    ):
        with pytest.raises((AttributeError, KeyError)) as raised:
            read()
        assert missing_field(raised.value) == field


@pytest.mark.parametrize("frame_skip", [0, -4])
def test_an_action_is_repeated_for_a_frame_at_least(frame_skip):
    config = atari_shallow.get_config("smoke")
    assert frames_per_step(config) == 4
    config.env.frame_skip = frame_skip
    with pytest.raises(ValueError, match=f"^env.frame_skip={frame_skip}: choose 1 or more.$"):
        frames_per_step(config)
    assert frames_per_step(gymnasium.get_config("smoke")) == 1


def test_every_range_is_that_of_a_field():
    names = set()
    for path in ROOT.glob("paper_configs/*/[a-z]*.py"):
        config = importlib.import_module(f"paper_configs.{path.parent.name}.{path.stem}").get_config("desk").to_dict()
        names.update(f".{name}" for agent in agents(config) for name in flatten(resolve_plain(config, agent)))
    assert [x for _, _, fields in RANGES for x in fields if not any(name.endswith(f".{x}") for name in names)] == []


def test_products_with_a_fraction_are_whole_but_for_rounding_or_are_not():
    assert [whole_product(*pair) for pair in ((0.28, 25), (0.29, 100), (1.1, 50), (0.5, 32), (0.0, 8), (-0.25, 4))] == [
        7, 29, 55, 16, 0, -1,
    ]  # fmt: skip
    assert [whole_product(0.01 * i, 100) for i in range(100)] == list(range(100))
    for pair in ((0.3, 4), (0.28001, 25), (0.125, 4), (math.inf, 4), (math.nan, 4)):
        assert whole_product(*pair) is None
