"""Every agent for any Gymnasium environment reads the fields that its config has for it."""

from __future__ import annotations

import importlib

import ml_collections
import pytest

from repro.config import agents, flatten
from repro.papers import find_experiment
from repro.training.run_directory import RunDirectory
from tests.papers.test_actions import CONTINUOUS, TASKS

AGENTS = {
    "acer": ("acer", "acer_continuous"),
    "ctrace": ("ctrace_gamma10", "r2d2_ctrace"),
    "impala": ("impala",),
    "refer": ("vracer_refer", "ddpg_refer"),
    "stac": ("stac", "stacx"),
}
"""Those of which others differ in values alone."""
ELSEWHERE = {"runtime", "env"}
"""Sections that commands and schedules read as well, and one of which a field that is not read is an error."""
SWITCHED = {
    "exploration.theta": "exploration.correlated",
    "prioritised.alpha": "memory.prioritised",
    "prioritised.annealing": "memory.prioritised",
    "prioritised.initial_beta": "memory.prioritised",
    "replay.capacity": "replay.fraction",
}
"""Fields that are read where another one is set."""
OF_THE_OTHERS = {
    "acer_continuous": {"loss.entropy_cost", "network.torso"},
    "r2d2_ctrace": {
        *("exploration.first", "exploration.frames", "exploration.last"),
        *("loss.clip_error", "replay.frames"),
    },
}
"""Fields of the agents that a file is written for, which those of another kind in it do not read."""


def note_reads(config: ml_collections.ConfigDict) -> set[str]:
    """Returns the dotted names of the fields of sections that are read from now on, as the set grows."""
    read: set[str] = set()
    for name, section in config.items():
        if isinstance(section, ml_collections.ConfigDict):

            def noting(self, key, name=name):
                read.add(f"{name}.{key}")
                return ml_collections.ConfigDict.__getitem__(self, key)

            kind = type("Noting", (ml_collections.ConfigDict,), {"__getitem__": noting})  # copies have it, too
            config[name] = kind(section)
    read.clear()
    return read


def unread(config: ml_collections.ConfigDict, path) -> set[str]:
    """Fields that are not read while an agent and its training are built."""
    experiment = find_experiment(config)
    fields = {name for name in flatten(experiment.config) if "." in name and name.split(".")[0] not in ELSEWHERE}
    read = note_reads(experiment.config)
    training = experiment.build_trainer(1, RunDirectory(path, config.to_dict(), 1), print)
    assert experiment.evaluation
    training.close()
    return fields - read


def config_of(paper: str, agent: str) -> ml_collections.ConfigDict:
    config = importlib.import_module(f"paper_configs.{paper}.gymnasium").get_config("smoke")
    config.agent, config.env.task = agent, TASKS[agent in CONTINUOUS]
    return config


def test_agents_are_of_all_configurations_and_switches_are_fields():
    configs = {paper: config_of(paper, names[0]) for paper, names in AGENTS.items()}
    fields = set().union(*(flatten(config) for config in configs.values()))
    assert all(set(names) <= set(agents(configs[paper])) for paper, names in AGENTS.items())
    assert all(any(name.endswith(switch) for name in fields) for switch in (*SWITCHED, *SWITCHED.values()))


@pytest.mark.parametrize(("paper", "agent"), [(paper, agent) for paper, names in AGENTS.items() for agent in names])
def test_every_field_is_read(tmp_path, paper, agent):
    assert unread(config_of(paper, agent), tmp_path) - set(SWITCHED) == OF_THE_OTHERS.get(agent, set())


def test_a_field_that_another_agent_reads_is_found(tmp_path):
    config = config_of("refer", "ddpg_refer")
    config.network.advantage = "none"
    config.ppo = {"epochs": 10}
    assert unread(config, tmp_path) - set(SWITCHED) == {"network.advantage", "ppo.epochs"}
