"""Sets up an evaluator beside training from a configuration, at the learner's end and in its own process."""

from __future__ import annotations

import functools
from typing import NoReturn

import ml_collections
from tf_agents.agents import tf_agent

from repro.acting.actor_processes import Launcher
from repro.acting.evaluator_process import Evaluator
from repro.acting.remote_actor import end_with
from repro.acting.remote_evaluator import LearnerLink, evaluate_offers
from repro.acting.supervision import Supervision
from repro.config import PROCESSES, tasks
from repro.environments.make import make_evaluation_environment
from repro.environments.names import configs_by_task, task_names
from repro.training.evaluation import largest_divisor
from repro.training.experiment import FindExperiment, RemoteActing


def evaluator_episodes(config: ml_collections.ConfigDict) -> int:
    """Returns how many episodes of each task an evaluator beside training plays each time; 0 if there is none.

    Args:
        config: resolved configuration.

    Raises:
        ValueError: the number is below 0, or actors are not processes, so that no weights are published to processes.
    """
    runtime = config.get("runtime", {})
    episodes = runtime.get("evaluator_episodes", 0)
    if episodes < 0:
        raise ValueError(f"runtime.evaluator_episodes={episodes}: choose 0 or more.")
    if episodes and runtime.get("schedule") != PROCESSES:
        raise ValueError(
            f"runtime.evaluator_episodes={episodes} needs actors in processes: choose "
            f"runtime.schedule={PROCESSES}, or give --cluster."
        )
    return episodes


def make_evaluator(
    config: ml_collections.ConfigDict, launcher: Launcher, agent: tf_agent.TFAgent, watched: Supervision
) -> Evaluator | None:
    """Returns a run's evaluator; None if it has none.

    Args:
        config: resolved configuration.
        launcher: launcher of the run's processes.
        agent: the learning agent.
        watched: how the run's actors are watched, and the evaluator as well.
    """
    if not evaluator_episodes(config):
        return None
    played = task_names(config.env.name, tasks(config))
    return Evaluator(launcher, agent.collect_policy.variables(), played, watched)


def run_evaluator(
    find_experiment: FindExperiment, config: ml_collections.ConfigDict, seed: int, address: str
) -> NoReturn:
    """Evaluates until the learner is gone, one task after the other, as `repro.evaluate` does.

    Args:
        find_experiment: see `FindExperiment`.
        config: configuration of the run.
        seed: seed of the run.
        address: address of the learner's server.
    """
    end_with(address)
    experiments = [find_experiment(own) for own in configs_by_task(config).values()]
    first = experiments[0]
    assert isinstance(first, RemoteActing)
    episodes = evaluator_episodes(first.config)
    num_envs = largest_divisor(episodes, first.evaluation.num_envs)
    agent, environment = first.make_evaluation_agent(num_envs, seed)
    environment.close()
    make_environments = [
        functools.partial(make_evaluation_environment, own.config, num_envs, env_threads=1) for own in experiments
    ]
    policy, variables = agent.policy, agent.collect_policy.variables()
    evaluate_offers(policy, variables, make_environments, num_envs, episodes, seed, LearnerLink(address))
