"""V-RACER, DDPG and NAF with ReF-ER or plain experience replay."""

from __future__ import annotations

import functools

import ml_collections
import numpy as np
from tf_agents.policies import tf_policy

from repro.config import check_choice, check_rates, check_schedule
from repro.environments.batched import VectorEnvironment
from repro.machine_memory import check_fits
from repro.papers.refer.advantages import FORMS
from repro.papers.refer.ddpg import Ddpg, DdpgSettings
from repro.papers.refer.experiment import ControlExperiment
from repro.papers.refer.fused import FusedAgent
from repro.papers.refer.gaussian_policy import MeanActionPolicy, WindowPolicy
from repro.papers.refer.loss import VALUE_TARGETS, Variant
from repro.papers.refer.naf import Naf, NafSettings
from repro.papers.refer.prioritised import Prioritised
from repro.papers.refer.recurrent_vracer import RecurrentVRacer
from repro.papers.refer.refer_rules import LARGEST_LOG_RATIO, RULES
from repro.papers.refer.training import ReferSettings, ReferTrainer
from repro.papers.refer.vracer import VRacer, VRacerSettings
from repro.replay.prioritised import SAMPLERS
from repro.replay.refer import ReferMemory
from repro.training.experiment import Experiment, Warn
from repro.training.run_directory import RunDirectory
from repro.training.trainer import run_settings, supervision

METHODS = ("vracer", "recurrent_vracer", "ddpg", "naf")
"""Values of `learner.method`."""


class ReplayExperiment(ControlExperiment[FusedAgent]):
    """V-RACER, DDPG or NAF, which learn from a memory of episodes."""

    def make_agent(self, environment: VectorEnvironment, rng: np.random.Generator) -> FusedAgent:
        """Returns the agent with newly initialised weights.

        Raises:
            ValueError: the configuration has an unknown method, rule or other choice, or an impossible number.
        """
        config, method = self.config, self.config.learner.method
        check_choice("learner.method", method, METHODS)
        check_choice("refer.rule", config.refer.rule, RULES)
        check_choice("prioritised.by", config.prioritised.by, SAMPLERS)
        sizes = environment.state_size, environment.num_actions
        steps_per_call, use_xla = config.learner.steps_per_call, self.use_xla
        if method == "ddpg":
            return Ddpg(*sizes, self._ddpg_settings(), rng, steps_per_call, use_xla)
        if method == "naf":
            return Naf(*sizes, self._naf_settings(), rng, steps_per_call, use_xla)
        if method == "vracer":
            return VRacer(*sizes, self._vracer_settings(config.network.units), rng, steps_per_call, use_xla)
        if not config.network.lstm_units:
            raise ValueError("network.lstm_units=(): choose the number of units of one layer or more.")
        settings = self._vracer_settings(config.network.lstm_units)
        return RecurrentVRacer(*sizes, settings, rng, steps_per_call, use_xla, config.network.window)

    def _vracer_settings(self, units: tuple[int, ...]) -> VRacerSettings:
        network, refer = self.config.network, self.config.refer
        check_choice("refer.value_target", refer.value_target, VALUE_TARGETS)
        check_choice("network.advantage", network.advantage, FORMS)
        if not 0 < refer.max_log_ratio <= LARGEST_LOG_RATIO:
            raise ValueError(
                f"refer.max_log_ratio={refer.max_log_ratio}: choose a number above 0 and at most {LARGEST_LOG_RATIO:g}."
            )
        return VRacerSettings(
            units=tuple(units),
            hidden_scale=network.hidden_scale,
            output_scale=network.output_scale,
            initial_variance=network.initial_variance,
            learning_rate=self.config.learner.learning_rate,
            variant=Variant(
                rule=refer.rule,
                form=network.advantage,
                max_log_ratio=refer.max_log_ratio,
                value_target=refer.value_target,
            ),
        )

    def _ddpg_settings(self) -> DdpgSettings:
        learner = self.config.learner
        check_rates(learner)
        return DdpgSettings(
            **self._naf_settings()._asdict(),
            policy_learning_rate=learner.policy_learning_rate,
            weight_decay=learner.weight_decay,
        )

    def _naf_settings(self) -> NafSettings:
        """Returns the settings of NAF, which are also those that DDPG shares with it."""
        network, learner = self.config.network, self.config.learner
        return NafSettings(
            units=tuple(network.units),
            hidden_scale=network.hidden_scale,
            output_scale=network.output_scale,
            std=self.config.exploration.std,
            learning_rate=learner.learning_rate,
            target_update=learner.target_update,
            rule=self.config.refer.rule,
        )

    def _refer_settings(self) -> ReferSettings:
        config, learner, refer, memory = self.config, self.config.learner, self.config.refer, self.config.memory
        has_correlated_noise = "exploration" in config and config.exploration.get("correlated", False)
        return ReferSettings(
            batch_size=learner.batch_size,
            time_steps_per_gradient=learner.time_steps_per_gradient,
            start_steps=memory.start_steps,
            learning_rate=learner.learning_rate,
            beta_step_size=refer.beta_step_size,
            c=refer.c,
            annealing=refer.annealing,
            max_far_policy_fraction=refer.max_far_policy_fraction,
            learning_rate_annealing=learner.annealing,
            noise_theta=config.exploration.theta if has_correlated_noise else None,
            initial_beta=refer.initial_beta,
            prioritised=self._prioritised() if memory.prioritised else None,
            refresh_last_value=memory.refresh_last_value,
            overlap=config.runtime.schedule == "overlap",
        )

    def _prioritised(self) -> Prioritised:
        fields = self.config.prioritised
        return Prioritised(alpha=fields.alpha, initial_beta=fields.initial_beta, annealing=fields.annealing)

    def build_trainer(self, seed: int, run: RunDirectory, warn: Warn) -> ReferTrainer:
        config = self.config
        check_schedule(config, ("serial", "overlap"))
        environment, rng = self.make_environment_and_rng(seed)
        memory = self._make_memory(environment)
        return ReferTrainer(
            self.make_agent(environment, rng),
            environment,
            functools.partial(self.remake_environment, seed),
            supervision(config, run.actors, warn),
            memory,
            self._refer_settings(),
            rng,
            self.make_episode_log(),
            run_settings(config, run, warn),
        )

    def _make_memory(self, environment: VectorEnvironment) -> ReferMemory:
        """Returns the memory for a task's episodes.

        Raises:
            ValueError: it cannot hold the first `start_steps` steps or the longest episode, or does not fit into the
                machine's memory when full.
        """
        memory, max_steps = self.config.memory, environment.max_steps
        sizes = memory.capacity, environment.state_size, environment.num_actions
        if memory.start_steps > memory.capacity:
            raise ValueError(
                f"memory.start_steps={memory.start_steps} must be at most memory.capacity={memory.capacity}."
            )
        if max_steps > memory.capacity:
            raise ValueError(
                f"memory.capacity={memory.capacity} is less than an episode, which has up to {max_steps} steps "
                f"(env.max_steps): choose {max_steps} or more."
            )
        prioritised = self.config.prioritised.by if memory.prioritised else None
        check_fits("memory.capacity", memory.capacity, ReferMemory.nbytes(*sizes, prioritised))
        return ReferMemory(*sizes, max_steps, discount=self.config.learner.discount, prioritised=prioritised)

    def make_policy(self, environment: VectorEnvironment, agent: FusedAgent) -> tf_policy.TFPolicy:
        if isinstance(agent, RecurrentVRacer):
            return WindowPolicy(environment.time_step_spec, environment.action_spec, agent)
        return MeanActionPolicy(environment.time_step_spec, environment.action_spec, agent)


def make_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a resolved configuration."""
    return ReplayExperiment(config)
