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


@pytest.mark.parametrize(("paper", "agent"), [("acer", "acer"), ("ctrace", "ctrace_gamma10"), ("stac", "stac")])
def test_the_last_action_and_reward_are_refused_where_no_network_reads_them(paper, agent):
    config = load(f"paper_configs/{paper}/gymnasium.py")
    config.agent, config.env.last_action_and_reward = agent, True
    experiment = find_experiment(config)
    environment = experiment.make_environment(1, 0)
    with pytest.raises(
        ValueError, match="^the observations have the entries frame, last_action, last_reward, and this"
    ):
        experiment.make_agent(environment, 0)


def test_images_are_refused_by_an_agent_for_vectors():
    config = load("paper_configs/acer/gymnasium.py")
    config.agent, config.env.task = "acer_continuous", "tests.support.custom_environments:repro_tests/Pixels-v0"
    experiment = find_experiment(config)
    environment = experiment.make_environment(1, 0)
    with pytest.raises(ValueError, match=r"^the observations have shape \(24, 24, 3\), and this agent needs"):
        experiment.make_agent(environment, 0)
