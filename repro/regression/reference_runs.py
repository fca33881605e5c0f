"""Reference runs: every family of agents on a task that it learns, or begins to learn, within seconds.

Each run is a config of `paper_configs` with some fields replaced. Runs on small tasks learn them. Runs on Atari have
the published optimiser, schedule and preprocessing, and are too short to learn to play: they are judged by their
losses, values, gradients and policies. Settings that would have no effect in so few steps, such as rates of annealing,
are larger than the papers'.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import ml_collections

from repro import config as configs

CATCH = "repro.regression.environments:repro/Catch-v0"
MEMORY_CATCH = {
    "name": "gymnasium",
    "task": "repro.regression.environments:repro/MemoryCatch-v0",
    "last_action_and_reward": True,
}
HOMING = {"name": "gymnasium", "task": "repro.regression.environments:repro/Homing-v0"}
PENDULUM = {"name": "mujoco", "task": "InvertedPendulum", "version": "v5", "max_steps": 0, "observed": "all"}


class ReferenceRun(NamedTuple):
    """One short training.

    name: name in commands and tables.
    config: module in `paper_configs` whose desk config the run starts from.
    agent: agent of that config.
    fields: fields that replace those of the agent's config; an `env` with a `name` replaces the whole section.
    episodes: number of episodes of the evaluation after training; 0 for no evaluation.
    """

    name: str
    config: str
    agent: str
    fields: Mapping[str, Any]
    episodes: int = 100

    def make_config(self) -> ml_collections.ConfigDict:
        """Returns the config, resolved for its agent.

        Raises:
            ValueError: `fields` has a field that the config does not have.
        """
        config = importlib.import_module(f"paper_configs.{self.config}").get_config("desk")
        plain = configs.resolve_plain(config.to_dict(), self.agent)
        if "name" in self.fields.get("env", {}):  # another package of environments, with other fields
            plain["env"] = self.fields["env"]
        known = configs.flatten(plain)
        for name in configs.flatten(self.fields):
            if name not in known:
                raise ValueError(f"{self.name}: {self.config} has no field {name!r}.")
        return ml_collections.ConfigDict(configs.merge(plain, self.fields))

    def fingerprint(self) -> str:
        """Returns a hash of all settings of the run, which shows whether reference values belong to it."""
        settings = [configs.without_later(json.loads(self.make_config().to_json())), self.episodes]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def _continuous(agent: str, **sections: Mapping[str, Any]) -> ReferenceRun:
    fields = {
        "num_env_steps": 60_000,
        "window_frames": 10_000,
        "env": PENDULUM,
        "sweep": {"learning_rate": (1e-3, 1e-3), "delta": (1.0, 1.0)},
    }
    return ReferenceRun(f"continuous_{agent}", "acer.continuous", agent, configs.merge(fields, sections), episodes=20)


def _refer(steps: int, env: Mapping[str, Any] = PENDULUM, **sections: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields of a ReF-ER agent that is small enough to learn its task in `steps` steps."""
    shared = {
        "num_env_steps": steps,
        "window_steps": 3_000,
        "env": env,
        "learner": {"learning_rate": 1e-3, "batch_size": 64, "annealing": 1e-3},
        "refer": {"beta_step_size": 1e-3, "annealing": 5e-4},
        "memory": {"capacity": 2**14, "start_steps": 1_000},
        "network": {"units": (64, 64)},
    }
    return configs.merge(shared, sections)


def _on_memory_catch(target: str, **sections: Mapping[str, Any]) -> ReferenceRun:
    fields = {
        "num_env_steps": 45_000,
        "env": MEMORY_CATCH,
        "learner": {"learning_rate": 3e-3},
    }
    return ReferenceRun(f"r2d2_{target}", "ctrace.gymnasium", f"r2d2_{target}", configs.merge(fields, sections))


def _dqn_on_catch(agent: str, **sections: Mapping[str, Any]) -> ReferenceRun:
    fields = {
        "num_env_steps": 12_000,
        "env": {"name": "gymnasium", "task": CATCH},
        "exploration": {"frames": 6_000},
        "replay": {"first_frames": 500},
        "learner": {"steps_per_update": 4, "learning_rate": 5e-4},
        "runtime": {"envs_per_actor": 1, "compile": "auto"},
    }
    return ReferenceRun(f"dqn_{agent}", "ctrace.gymnasium", agent, configs.merge(fields, sections))


def _stac_on_catch(name: str, agent: str, **sections: Mapping[str, Any]) -> ReferenceRun:
    """Returns a run with a discount that begins at 0.12 and has to rise."""
    fields = {
        "num_env_steps": 60_000,
        "env": {"name": "gymnasium", "task": CATCH},
        "loss": {"discount": 0.97},
        "meta": {"initial_gamma": -2.0, "learning_rate": 0.05},
        "learner": {"batch_size": 16, "learning_rate": 5e-3},
        "runtime": {"schedule": "lockstep"},
    }
    return ReferenceRun(name, "stac.gymnasium", agent, configs.merge(fields, sections))


ONE_CORE = {"env_threads": 1}

RUNS = (
    ReferenceRun(
        "impala_catch",
        "impala.gymnasium",
        "impala",
        {
            "num_env_steps": 100_000,
            "env": {"name": "gymnasium", "task": CATCH},
            "loss": {"discount": 0.9},
            "learner": {"batch_size": 16, "learning_rate": 5e-3},
            "runtime": {"schedule": "lockstep"},
        },
    ),
    ReferenceRun(
        "impala_cartpole",
        "impala.gymnasium",
        "impala",
        {"num_env_steps": 120_000, "learner": {"batch_size": 16}, "runtime": {"schedule": "async"}},
        episodes=20,
    ),
    ReferenceRun(
        "impala_lstm_replay",
        "impala.gymnasium",
        "impala",
        {
            "num_env_steps": 100_000,
            "env": {**MEMORY_CATCH, "kwargs": {"reward": 1.0}},
            "network": {"units": (32,), "core_units": 32},
            "loss": {"discount": 0.9},
            "replay": {"fraction": 0.5, "capacity": 200},
            "learner": {"batch_size": 16, "unroll_length": 10, "learning_rate": 0.01},
            "runtime": {"schedule": "lockstep"},
        },
    ),
    ReferenceRun(
        "impala_breakout",
        "impala.atari_shallow",
        "impala_shallow",
        {
            "num_env_frames": 64_000,
            "env": {"task": "breakout"},
            "learner": {"batch_size": 8},
            "runtime": {**ONE_CORE, "schedule": "lockstep", "num_actors": 1, "envs_per_actor": 16},
        },
        episodes=0,
    ),
    ReferenceRun(
        "acer_catch",
        "acer.gymnasium",
        "acer",
        {
            "num_env_steps": 40_000,
            "env": {"name": "gymnasium", "task": CATCH},
            "loss": {"discount": 0.9, "truncation": 0.5, "entropy_cost": 0.02},
            "learner": {
                "batch_size": 1,
                "learning_rate": 7e-4,
                "clip_global_norm": 4.0,
                "rmsprop_epsilon": 0.01,
            },
        },
    ),
    ReferenceRun(
        "acer_breakout",
        "acer.atari",
        "acer_ratio_4",
        {"num_env_frames": 20_000, "window_frames": 10_000, "env": {"task": "breakout"}, "runtime": ONE_CORE},
        episodes=0,
    ),
    _continuous("acer", env={"max_steps": 20}),
    _continuous("tis", loss={"truncation": 1.0}),
    _continuous("a3c", loss={"truncation": 1.0}),
    ReferenceRun("vracer_refer", "refer.figure_4_vracer", "vracer_refer", _refer(12_000), 20),
    ReferenceRun(
        "vracer_per",
        "refer.figure_4_vracer",
        "vracer_per",
        _refer(8_000, {**PENDULUM, "task": "InvertedDoublePendulum", "max_steps": 25}),  # rewards of 9
        20,
    ),
    ReferenceRun(
        "ddpg_refer",
        "refer.figure_1_ddpg",
        "ddpg_refer",
        _refer(12_000, HOMING, learner={"policy_learning_rate": 1e-3}),
        20,
    ),
    ReferenceRun(
        "ddpg_er",
        "refer.figure_1_ddpg",
        "ddpg_er",
        _refer(
            12_000,
            learner={"policy_learning_rate": 1e-3, "annealing": 0.0},
            exploration={"theta": 0.05},
        ),
        20,
    ),
    ReferenceRun("naf_refer", "refer.figure_3_naf", "naf_refer", _refer(12_000, HOMING), 20),
    ReferenceRun(
        "ppo",
        "refer.figure_4_vracer",
        "ppo",
        {
            "num_env_steps": 30_000,
            "window_steps": 5_000,
            "env": {"task": "InvertedDoublePendulum"},
            "memory": {"start_steps": 1_000},
            "ppo": {"steps": 1_024, "policy_learning_rate": 1e-3, "value_learning_rate": 1e-3},
        },
        20,
    ),
    ReferenceRun(
        "vracer_lstm",
        "refer.recurrent",
        "lstm_refer",
        {
            "num_env_steps": 8_000,
            "window_steps": 3_000,
            "network": {"window": 8},
            "learner": {"batch_size": 32},
            "memory": {"start_steps": 1_000},
        },
        20,
    ),
    _dqn_on_catch("double_dqn", loss={"discount": 0.9}, learner={"target_period": 600}),
    _dqn_on_catch("n_step_5", exploration={"last": 0.7}),
    _dqn_on_catch("retrace", loss={"discount": 0.9}),
    _dqn_on_catch("ctrace_gamma10"),
    ReferenceRun(
        "dqn_space_invaders",
        "ctrace.dqn",
        "ctrace_gamma10",
        {
            "num_env_frames": 16_000,
            "env": {"task": "space_invaders"},
            "replay": {"first_frames": 4_000},
            "learner": {"target_period": 100},
            "runtime": ONE_CORE,
        },
        episodes=0,
    ),
    _on_memory_catch("n_step_5", loss={"n": 2}),  # episodes have 7 steps; with n = 2 most targets are bootstrapped
    _on_memory_catch("retrace"),
    _on_memory_catch("ctrace"),
    _stac_on_catch("stac_catch", "stac"),
    _stac_on_catch("stacx_catch", "stacx", meta={"initial": 0.0}, learner={"learning_rate": 2e-2}),
    ReferenceRun(
        "stac_homing",
        "stac.dm_control_features",
        "stac",
        {
            "num_env_steps": 60_000,
            "env": HOMING,
            "network": {"units": (64,), "core_units": 32, "head_units": 32},
            "meta": {"initial": 2.0, "learning_rate": 1e-2},
            "learner": {"unroll_length": 16, "overlap": 8, "burn_in": 8, "batch_size": 16},
            "runtime": {"envs_per_actor": 16, "schedule": "lockstep"},
        },
    ),
)
"""Reference runs in the order of the papers."""

SPARE = frozenset(
    {
        "impala_cartpole",
        "impala_breakout",
        "continuous_a3c",
        "dqn_space_invaders",
        "r2d2_n_step_5",
        "r2d2_retrace",
        "stac_catch",
    }
)
"""Runs that detect no wrong variant of the code in the tests' list that the other runs do not detect."""
