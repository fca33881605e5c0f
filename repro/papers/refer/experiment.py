"""Builds ReF-ER's parts from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
from tf_agents.policies import tf_policy

from repro.environments.mujoco import MujocoEnvironment, make_mujoco
from repro.papers.refer.ddpg import Ddpg, DdpgSettings
from repro.papers.refer.fused import FusedAgent
from repro.papers.refer.gaussian_policy import GaussianPolicy, WindowPolicy
from repro.papers.refer.loss import Variant
from repro.papers.refer.naf import Naf, NafSettings
from repro.papers.refer.ppo import Ppo, PpoSettings
from repro.papers.refer.ppo_training import PpoTrainer, PpoTrainerSettings
from repro.papers.refer.prioritised import Prioritised
from repro.papers.refer.recurrent_vracer import RecurrentVRacer
from repro.papers.refer.training import ReferSettings, ReferTrainer
from repro.papers.refer.vracer import VRacer, VRacerSettings
from repro.replay.refer import ReferMemory
from repro.training import checkpoint
from repro.training.run_directory import RunDirectory
from repro.training.trailing_returns import TrailingReturns
from repro.training.trainer import EpisodeLog, run_settings

SCORE_UNIT = "episode return"
"""Unit of returns in records."""

PROTOCOL = "episodes that entered the memory in the last {} steps of training, actions sampled"
"""Of the evaluation that training brings along."""

EPISODES = 10
"""Of an evaluation after training."""

RULES = {"refer": "refer", "refer1": "refer_1", "refer2": "refer_2", "er": "none", "per": "none"}
"""Rule of `refer_rules.RULES` by the second half of an agent's name."""


def make_agent(
    config: ml_collections.ConfigDict, environment: MujocoEnvironment, generator: np.random.Generator
) -> FusedAgent:
    """Any agent with a replay memory, that is all but PPO, with newly initialised weights.

    Raises:
        ValueError: an unknown agent.
    """
    use_xla = _checked_use_xla(config)
    method, _, way = config.agent.partition("_")
    rule = "refer" if _own(config) else RULES[way]
    sizes, steps_per_call = (environment.state_size, environment.num_actions), config.learner.steps_per_call
    if method == "ddpg":
        return Ddpg(*sizes, _ddpg_settings(config, rule), generator, steps_per_call, use_xla)
    if method == "naf":
        return Naf(*sizes, _naf_settings(config, rule), generator, steps_per_call, use_xla)
    settings = _vracer_settings(config, rule)
    if method == "lstm":
        settings, window = settings._replace(units=tuple(config.network.lstm_units)), config.network.window
        return RecurrentVRacer(*sizes, settings, generator, steps_per_call, use_xla, window)
    return VRacer(*sizes, settings, generator, steps_per_call, use_xla)


def make_ppo(config: ml_collections.ConfigDict, environment: MujocoEnvironment, generator: np.random.Generator) -> Ppo:
    """PPO with newly initialised weights.

    Raises:
        ValueError: the experiment has no PPO.
    """
    use_xla = _checked_use_xla(config)
    return Ppo(environment.time_step_spec, environment.action_spec, _ppo_settings(config), generator, use_xla)


def _checked_use_xla(config: ml_collections.ConfigDict) -> bool:
    """Whether to compile with XLA, once the agent and the way to compile are known ones."""
    if config.agent not in config.agents:
        raise ValueError(f"agent={config.agent!r}: choose {', '.join(config.agents)}.")
    if config.runtime.compile not in ("xla", "graph"):
        raise ValueError(f"runtime.compile={config.runtime.compile!r}: choose xla or graph.")
    return config.runtime.compile == "xla"


def _own(config: ml_collections.ConfigDict) -> Mapping[str, Any]:
    """The fields that the agent has of its own in an experiment that varies one at a time; empty in others."""
    return config.get("variants", {}).get(config.agent, {})


def _of_agent(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """The configuration with the agent's own fields in their places."""
    changed = config.copy_and_resolve_references()
    changed.update(_own(config))
    return changed


def _vracer_settings(config: ml_collections.ConfigDict, rule: str) -> VRacerSettings:
    network = config.network
    return VRacerSettings(
        tuple(network.units),
        network.hidden_scale,
        network.output_scale,
        network.initial_variance,
        config.learner.learning_rate,
        Variant(rule, network.advantage, config.refer.max_log_ratio, config.refer.value_target),
    )


def _ddpg_settings(config: ml_collections.ConfigDict, rule: str) -> DdpgSettings:
    return DdpgSettings(
        tuple(config.network.units),
        config.network.hidden_scale,
        config.network.output_scale,
        config.exploration.deviation,
        config.learner.learning_rate,
        config.learner.policy_learning_rate,
        config.learner.weight_decay,
        config.learner.target_update,
        rule,
    )


def _naf_settings(config: ml_collections.ConfigDict, rule: str) -> NafSettings:
    return NafSettings(
        tuple(config.network.units),
        config.network.hidden_scale,
        config.network.output_scale,
        config.exploration.deviation,
        config.learner.learning_rate,
        config.learner.target_update,
        rule,
    )


def _ppo_settings(config: ml_collections.ConfigDict) -> PpoSettings:
    return PpoSettings(
        tuple(config.ppo.units),
        config.network.hidden_scale,
        config.network.output_scale,
        config.network.initial_variance,
        config.ppo.clip,
        config.learner.discount,
        config.ppo.gae_lambda,
    )


def build_training(
    config: ml_collections.ConfigDict, seed: int, run: RunDirectory, warn: Callable[[str], None]
) -> ReferTrainer | PpoTrainer:
    """The whole of a run, restored from its last checkpoint if it has one.

    Args:
        config: of `paper_configs/refer`.
        seed: from which those of the environment, of the weights and of sampling are derived.
        run: folder for checkpoints.
        warn: called with one line when a broken checkpoint is passed over.

    Raises:
        ValueError: a field has an impossible value; the message names it.
    """
    config = _of_agent(config)
    environment_seed, agent_seed = np.random.SeedSequence(seed).generate_state(2)
    generator = np.random.default_rng(int(agent_seed))
    environment = make_mujoco(config.env, 1, int(environment_seed))
    if config.agent == "ppo":
        return _ppo_training(config, environment, generator, run, warn)
    is_prioritised = config.agent.endswith("_per")
    if config.memory.start_steps > config.memory.capacity:
        raise ValueError(
            f"memory.start_steps={config.memory.start_steps} must be at most memory.capacity={config.memory.capacity}."
        )
    memory = ReferMemory(
        config.memory.capacity,
        environment.state_size,
        environment.num_actions,
        environment.max_steps,
        discount=config.learner.discount,
        prioritised=is_prioritised,
    )
    is_plain_ddpg = config.agent in ("ddpg_er", "ddpg_per")  # alone in noise and in constant rates (Section 5.1)
    settings = ReferSettings(
        batch_size=config.learner.batch_size,
        time_steps_per_gradient=config.learner.time_steps_per_gradient,
        start_steps=config.memory.start_steps,
        learning_rate=config.learner.learning_rate,
        beta_step_size=config.refer.beta_step_size,
        c=config.refer.c,
        annealing=config.refer.annealing,
        max_far_share=config.refer.max_far_share,
        learning_rate_annealing=config.learner.er_annealing if is_plain_ddpg else config.refer.annealing,
        noise_theta=config.exploration.theta if is_plain_ddpg else None,
        initial_beta=config.refer.initial_beta,
        prioritised=Prioritised(**config.prioritised) if is_prioritised else None,
        refresh_last_value=config.memory.refresh_last_value,
    )
    return ReferTrainer(
        make_agent(config, environment, generator),
        environment,
        memory,
        settings,
        generator,
        EpisodeLog(TrailingReturns(config.window_steps, PROTOCOL, SCORE_UNIT)),
        run_settings(config, run, warn),
    )


def _ppo_training(
    config: ml_collections.ConfigDict,
    environment: MujocoEnvironment,
    generator: np.random.Generator,
    run: RunDirectory,
    warn: Callable[[str], None],
) -> PpoTrainer:
    settings = PpoTrainerSettings(
        steps=config.ppo.steps,
        epochs=config.ppo.epochs,
        batch_size=config.ppo.batch_size,
        start_steps=config.memory.start_steps,
        policy_learning_rate=config.ppo.policy_learning_rate,
        value_learning_rate=config.ppo.value_learning_rate,
        annealing=config.refer.annealing,
    )
    return PpoTrainer(
        make_ppo(config, environment, generator),
        environment,
        settings,
        generator,
        EpisodeLog(TrailingReturns(config.window_steps, PROTOCOL, SCORE_UNIT)),
        run_settings(config, run, warn),
    )


def evaluation_games(config: ml_collections.ConfigDict) -> tuple[int, int]:
    """Episodes that `repro.evaluate` plays if not told otherwise, and how many side by side.

    The paper's own evaluation needs none: it is made of training's last episodes.
    """
    return EPISODES, EPISODES


def score_unit(config: ml_collections.ConfigDict) -> str:
    """Unit of returns in records."""
    return SCORE_UNIT


def describe_evaluation(config: ml_collections.ConfigDict, episodes: int) -> str:
    """The protocol in one line."""
    task = f"{config.env.task}-{config.env.version}"
    seen = "" if config.env.get("observed", "all") == "all" else f", {config.env.observed} observed"
    return f"{episodes} episodes of {task} after training, mean actions{seen}"


def load_policy(
    config: ml_collections.ConfigDict,
    checkpoints: Path,
    num_envs: int,
    seed: int,
    warn: Callable[[str], None],
) -> tuple[tf_policy.TFPolicy, MujocoEnvironment]:
    """The trained policy of a run, which takes the mean action, and environments to evaluate it in.

    Raises:
        CheckpointError: the run has no checkpoint yet, or none is whole.
    """
    config = _of_agent(config)
    environment, generator = make_mujoco(config.env, num_envs, seed), np.random.default_rng(0)
    agent: FusedAgent | Ppo
    if config.agent == "ppo":
        agent = make_ppo(config, environment, generator)
    else:
        agent = make_agent(config, environment, generator)
    checkpoint.restore_trained(checkpoints, agent.checkpoint(), warn)
    if isinstance(agent, Ppo):
        return agent.policy, environment
    if isinstance(agent, RecurrentVRacer):
        return WindowPolicy(environment.time_step_spec, environment.action_spec, agent), environment
    return GaussianPolicy(environment.time_step_spec, environment.action_spec, agent), environment
