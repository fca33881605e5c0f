"""The cost of a gradient step, counted in its graph: V-RACER's, DDPG's and NAF's (Appendix A), ACER's (Section 4)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import tensorflow as tf
from tf_agents.agents import tf_agent

from repro.environments.mujoco import MujocoEnvironment
from repro.papers.refer.fused import FusedAgent
from repro.training import graph_cost
from repro.training.experiment import Experiment


def replay_cost(agent: FusedAgent, batch_size: int, state_size: int) -> int:
    """Counts the floating-point operations of one gradient step on `batch_size` sampled steps.

    Args:
        agent: agent of any task.
        batch_size: B.
        state_size: S.
    """
    return graph_cost.operations(agent.gradient_step, tf.TensorSpec([3]), batch_spec(agent, batch_size, state_size))


def batch_spec(agent: FusedAgent, batch_size: int, state_size: int) -> dict[str, tf.TensorSpec]:
    """Returns the specs of the batch that `FusedAgent.gradient_step` takes; arguments as for `replay_cost`."""
    sizes = dict.fromkeys(("state", "next_state"), [state_size])
    sizes |= dict.fromkeys(("action", "mean", "std"), [agent.action_size])
    return {name: tf.TensorSpec([batch_size, *sizes.get(name, ())]) for name in (*agent.FIELDS, "weight")}


@runtime_checkable
class MakesUnrollAgent(Protocol):
    """The part of the interface of ACER's experiment that is used here."""

    def make_agent(self, environment: MujocoEnvironment, seed: int) -> tf_agent.TFAgent: ...


def acer_cost(experiment: Experiment, environment: MujocoEnvironment) -> int:
    """Counts the floating-point operations of a gradient step of continuous ACER, on episodes up to the time limit.

    Args:
        experiment: ACER's experiment; the batch size of its replay is the number of episodes.
        environment: environment of the task; an episode has its `max_steps` steps and one more row.

    Raises:
        TypeError: the experiment makes no agent that learns from unrolls.
    """
    if not isinstance(experiment, MakesUnrollAgent):
        raise TypeError(f"{type(experiment).__name__} does not make an agent that learns from unrolls.")
    agent, config = experiment.make_agent(environment, 0), experiment.config
    rows = environment.max_steps + 1
    experience = graph_cost.batch_spec(agent.collect_data_spec, config.replay.batch_size, rows)
    return graph_cost.operations(agent.train, experience)
