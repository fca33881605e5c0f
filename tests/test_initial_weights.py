"""Initial weights of every network of every experiment: no two variables are made from the same random numbers."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path

import ml_collections
import numpy as np
import pytest

from repro.config import agents, tasks
from repro.environments.dmlab_module import FOLDER_VARIABLE
from repro.networks.gaussian_actor_critic import GaussianActorCritic
from repro.papers import find_experiment
from repro.papers.refer.experiment import ControlExperiment
from repro.papers.refer.fused import FlatWeights
from tests.test_paper_configs import EXPERIMENTS

SEED = 5
FAKE_DMLAB = Path(__file__).parent / "support/fake_dmlab"

CORRELATIONS: dict[tuple[type, str], list[tuple[int, float]]] = {}
"""By experiment and the fields that its network is made of, and is given alone; many agents have them in common."""
LARGE, SMALL = 100, 8
"""Entries from which unrelated variables correlate below 0.3, and from which they do not look the same."""


def trained_agents() -> list[tuple[str, str]]:
    found = []
    for name in EXPERIMENTS:
        config = importlib.import_module(f"paper_configs.{name}").get_config("paper")
        if "study" not in config:
            found += [(name, agent) for agent in agents(config)]
    return found


def initial_correlations(config: ml_collections.ConfigDict) -> list[tuple[int, float]]:
    """Correlations of the weights of all networks that a new agent of the configuration trains."""
    if "env_threads" in config.runtime:
        config.runtime.env_threads = 1
    experiment = find_experiment(config)
    if isinstance(experiment, ControlExperiment):
        environment = experiment.make_environment(1, 0)
        agent = experiment.make_agent(environment, np.random.default_rng(SEED))
        networks = [x for x in vars(agent).values() if isinstance(x, FlatWeights)]
        return correlations([array for network in networks for array in network.numpy()])
    fields = {"env": experiment.config.env, "network": experiment.config.network}
    made_of = ml_collections.ConfigDict(fields | {"loss": {"method": experiment.config.loss.get("method")}})
    key = type(experiment), made_of.to_json(sort_keys=True)
    if key not in CORRELATIONS:
        environment = experiment.make_environment(max(1, len(tasks(config))), 0)
        experiment.config = made_of
        network = experiment.make_network(environment, SEED)
        if not isinstance(network, GaussianActorCritic):
            network.build_variables(environment.time_step_spec.observation)
        environment.close()
        CORRELATIONS[key] = correlations([variable.numpy() for variable in network.trainable_variables])
    return CORRELATIONS[key]


def correlations(arrays: list[np.ndarray]) -> list[tuple[int, float]]:
    """For each pair of random arrays, the length of their common prefix, and its correlation."""
    flat = [array.ravel() for array in arrays if array.size >= SMALL and array.std() > 0]
    flat = [x for x in flat if np.unique(x).size > 2]  # biases are constant, or one constant for each gate
    found = []
    for x, y in itertools.combinations(flat, 2):
        size = min(x.size, y.size)
        found.append((size, abs(float(np.corrcoef(x[:size], y[:size])[0, 1]))))
    return found


@pytest.mark.parametrize(("name", "agent"), trained_agents())
def test_no_two_variables_share_random_numbers(name, agent, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(FAKE_DMLAB))
    config = importlib.import_module(f"paper_configs.{name}").get_config("paper")
    config.agent = agent
    if (name, agent) == ("acer.gymnasium", "acer_continuous"):
        config.env.task = "Pendulum-v1"
    if tasks(config):
        with config.unlocked():
            config.env.tasks = tasks(config)[:2]  # their observations and actions are those of all
    if config.env.name == "dmlab":
        config.env.instruction_length = 8  # so that the encoder of instructions is there
    pairs = initial_correlations(config)
    assert len(pairs) >= 3
    assert max((r for size, r in pairs if size >= LARGE), default=0.0) < 0.3
    assert max((r for size, r in pairs if size < LARGE), default=0.0) < 0.95


def test_a_scaled_copy_of_a_prefix_is_noticed():
    rng = np.random.default_rng(0)
    torso = rng.normal(size=(8, 8, 4, 16))
    head = 0.3 * torso.ravel()[:600].reshape(100, 6)
    assert correlations([torso, head]) == [(600, pytest.approx(1.0))]
    assert correlations([torso, rng.normal(size=(100, 6))])[0][1] < 0.3
