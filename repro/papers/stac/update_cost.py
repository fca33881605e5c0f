"""The cost of self-tuning: the number of operations of STAC and STACX over that of IMPALA (Section 9.4)."""

from __future__ import annotations

from collections.abc import Sequence

import ml_collections
import numpy as np
import tensorflow as tf

from repro.config import frames_per_step, resolve_plain
from repro.papers.stac.experiment import StacExperiment
from repro.training.experiment import Experiment, FindExperiment
from repro.training.graph_cost import batch_spec, operations
from repro.training.study import Advance, Study, StudyResult

BASELINE = "impala"
UNIT = "ratio of costs"
PROTOCOL = (
    "floating-point operations of the matrix products and convolutions of an update and of acting in its new steps; "
    "one value for each of {}"
)


def run(
    config: ml_collections.ConfigDict,
    seed: int,
    cores: Sequence[int],
    advance: Advance,
    find_experiment: FindExperiment,
) -> Study:
    """Computes the configuration's answers from graphs, without training. Arguments as for `RunStudy`."""
    agents = (BASELINE, *config.answers)
    costs: list[float] = []
    for name in config.setups:
        setup = config[name].to_dict()
        for agent in agents:
            advance(len(costs), len(config.setups) * len(agents))
            costs.append(step_cost(find_experiment(ml_collections.ConfigDict(resolve_plain(setup, agent))), seed))
    advance(len(costs), len(costs))
    baseline, *others = np.reshape(costs, (len(config.setups), len(agents))).T
    protocol = PROTOCOL.format(" and ".join(config.setups))
    answers = {
        agent: StudyResult(UNIT, cost / baseline, protocol, exact=True)
        for agent, cost in zip(config.answers, others, strict=True)
    }
    return Study(answers, steps=0)


def step_cost(experiment: Experiment, seed: int) -> float:
    """Counts the floating-point operations of learning and acting for each new step.

    Args:
        experiment: experiment of any agent of STAC's.
        seed: seed of the agent.

    Raises:
        TypeError: the experiment is not one of STAC's.
    """
    if not isinstance(experiment, StacExperiment):
        raise TypeError(f"{type(experiment).__name__} does not make an agent of STAC.")
    config = experiment.config
    environment = experiment.make_environment(1, seed)
    agent = experiment.make_agent(environment, seed)
    environment.close()

    learner, new_steps = config.learner, experiment.frames_per_update // frames_per_step(config)
    update = operations(agent.train, batch_spec(agent.collect_data_spec, learner.batch_size, learner.unroll_length + 1))
    policy = agent.collect_policy
    acting = operations(
        policy.action,
        batch_spec(agent.time_step_spec, new_steps),
        batch_spec(policy.policy_state_spec, new_steps),
        tf.TensorSpec([2], tf.int32),
    )
    return (update + acting) / new_steps
