"""Every agent for any Gymnasium environment refuses one whose actions it cannot take, and names a config that can."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from repro.config import agents
from repro.papers import find_experiment

TASKS = {True: "Pendulum-v1", False: "CartPole-v1"}
FILES = sorted(path.as_posix() for path in Path("paper_configs").glob("*/gymnasium.py"))
CONTINUOUS = {"acer_continuous", "vracer_refer", "ddpg_refer"}


def load(file: str):
    return importlib.import_module(file.removesuffix(".py").replace("/", ".")).get_config("smoke")


AGENTS = [(file, agent) for file in FILES for agent in agents(load(file))]


def make(file: str, agent: str, is_continuous: bool):
    config = load(file)
    config.agent = agent
    config.env.task = TASKS[is_continuous]
    return find_experiment(config).make_environment(1, 0)


@pytest.mark.parametrize(("file", "agent"), AGENTS)
def test_actions_of_the_other_kind_are_refused(file, agent):
    is_continuous = agent in CONTINUOUS
    assert make(file, agent, is_continuous).num_actions == (1 if is_continuous else 2)
    found = "Discrete(2)" if is_continuous else "Box(1,)"
    with pytest.raises(ValueError, match=re.escape(f"those of {TASKS[not is_continuous]} are {found};")) as error:
        make(file, agent, not is_continuous)
    assert str(error.value).startswith(f"agent {agent} takes ")
    named = re.search(r"paper_configs/\w+/gymnasium\.py", str(error.value)).group()
    for other in agents(load(named)):
        assert make(named, other, not is_continuous)
