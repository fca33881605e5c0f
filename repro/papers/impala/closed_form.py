"""Answers without training: sizes of networks and messages (Figure 4, Section 3) and PBT's factors (Appendix E).

Each number is computed by the code that trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import gymnasium
import ml_collections
import numpy as np
import tensorflow as tf
from tf_agents.specs import BoundedTensorSpec
from tf_agents.trajectories import time_step as ts

from repro.environments import specs
from repro.environments.batched import BatchedEnvironment
from repro.environments.dmlab_game import ACTIONS
from repro.papers.impala.agent import ImpalaAgent
from repro.papers.impala.experiments.discrete import DiscreteExperiment
from repro.papers.impala.population import perturb
from repro.training.experiment import FindExperiment
from repro.training.study import Advance, Study, StudyResult

UNITS = {
    "shallow_parameters": "parameters",
    "deep_parameters": "parameters",
    "bytes_over_a3c": "ratio of bytes",
    "factor": "mean logarithm of the factor",
    "other_factor": "mean logarithm of the factor",
}
"""Unit of each answer, by name."""
CHANNELS = 3
"""Channels of a frame of DeepMind Lab."""
NUM_SAMPLES = 64
"""Number of perturbations among which both factors are seen, except once in 2^63 times."""
DIGITS = 9
"""Decimals of a mean logarithm."""


class LevelSpecs(NamedTuple):
    """What networks and agents read of an environment: that of DeepMind Lab's levels, without the engine."""

    time_step_spec: ts.TimeStep
    action_spec: BoundedTensorSpec
    num_actions: int


def run(
    config: ml_collections.ConfigDict,
    seed: int,
    cores: Sequence[int],
    advance: Advance,
    find_experiment: FindExperiment | None = None,
) -> Study:
    """Computes the configuration's answers, without training. Arguments as for `RunStudy`."""
    advance(0, 1)
    shallow, deep = (make_agent(config[name]) for name in ("shallow", "deep"))
    counted = "variables of the network on DMLab-30, with its instruction channel"
    sent = "one unroll and the weights over one gradient and the weights, single precision"
    factors = seen_factors(config.population.factor, np.random.default_rng(seed))
    found = {
        "shallow_parameters": (num_parameters(shallow), counted),
        "deep_parameters": (num_parameters(deep), counted),
        "bytes_over_a3c": (bytes_over_a3c(shallow, config.shallow.learner.unroll_length), sent),
        "factor": (mean_logarithm(factors), "factors of the perturbation that trains"),
        "other_factor": (mean_logarithm(config.other_factors), "factors of Jaderberg et al. (2017)"),
    }
    advance(1, 1)
    answers = {
        name: StudyResult(UNITS[name], np.array([value]), protocol, exact=True)
        for name, (value, protocol) in found.items()
    }
    return Study(answers, steps=0)


def level_specs(config: ml_collections.ConfigDict) -> LevelSpecs:
    """Returns the specs of a level with last action and last reward, from a configuration's `env`."""
    env = config.env
    actions: gymnasium.spaces.Discrete = gymnasium.spaces.Discrete(len(ACTIONS))
    entries: dict[str, gymnasium.Space] = {
        "frame": gymnasium.spaces.Box(0, 255, (env.height, env.width, CHANNELS), np.uint8),
        "last_action": actions,
        "last_reward": gymnasium.spaces.Box(-np.inf, np.inf, (), np.float32),
    }
    if env.instruction_length:
        words = gymnasium.spaces.Box(0, env.instruction_vocabulary - 1, (env.instruction_length,), np.int32)
        entries["instruction"] = words
    observation_spec = specs.tensor_spec_of(gymnasium.spaces.Dict(entries), "observation")
    action_spec = specs.tensor_spec_of(actions, "action")
    return LevelSpecs(ts.time_step_spec(observation_spec), action_spec, len(ACTIONS))


def make_agent(config: ml_collections.ConfigDict) -> ImpalaAgent:
    """Returns a new agent for DMLab-30 of a resolved configuration."""
    environment = cast(BatchedEnvironment, level_specs(config))  # of which an agent reads only these
    return DiscreteExperiment(config).make_agent(environment, seed=0)


def num_parameters(agent: ImpalaAgent) -> int:
    """Number of the network's parameters."""
    return sum(int(np.prod(variable.shape)) for variable in agent.collect_policy.variables())


def bytes_over_a3c(agent: ImpalaAgent, unroll_length: int) -> float:
    """Bytes that an actor of IMPALA exchanges for an unroll over those of a worker of A3C, which sends a gradient.

    Both receive the weights as well. Everything is as large as in memory.
    """
    leaves = tf.nest.flatten(specs.unwrapped(agent.collect_data_spec))
    step = sum(int(np.prod(leaf.shape)) * leaf.dtype.size for leaf in leaves)
    weights = tf.float32.size * num_parameters(agent)
    return ((unroll_length + 1) * step + weights) / (2 * weights)


def seen_factors(factor: float, rng: np.random.Generator) -> list[float]:
    """Returns the factors by which `population.perturb` changes a parameter, in rising order."""
    return sorted({perturb({"rate": 1.0}, 1.0, factor, rng)["rate"] for _ in range(NUM_SAMPLES)})


def mean_logarithm(factors: Sequence[float]) -> float:
    """The mean of log(factor), 0 where repeated multiplication does not drift; rounded to `DIGITS`."""
    return float(np.log(factors).mean().round(DIGITS)) + 0.0
