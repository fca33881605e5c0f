"""Nested configurations: dotted names of fields, and the agents of an experiment with their own fields."""

from __future__ import annotations

import inspect
import math
import re
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import ml_collections

MAX_SEED = 999_999
"""Largest seed of a run; later ones are those of evaluations."""
SCALES = ("smoke", "desk", "paper")
"""Scales of an experiment, the smallest first."""
PROCESSES = "processes"
"""Value of `runtime.schedule` for actors in separate processes."""
CHOSEN_FIELDS = ("num_actors", "envs_per_actor", "threads", "env_threads")
"""Fields of `runtime` in which 0 is replaced by a value for the machine; see `repro/training/sizes.py`."""

LATER: Mapping[str, Mapping[str, Any]] = {
    "runtime": {"num_learners": 1, "steps_per_call": 8, "evaluator_episodes": 0, "replay_gb": 0.0},
    "network": {"compute_dtype": "float32", "gamma_embedding": "none", "gamma_embedding_units": 16},
    "loss": {"traces": "root", "policy_target": "q_opc"},
    "prioritised": {"by": "rank"},
}
"""Fields that were added later, by section, with the values that older runs imply."""

MACHINE_FIELDS = (
    "runtime.checkpoint_seconds",
    "runtime.silent_seconds",
    "runtime.threads",
    "runtime.env_threads",
    "runtime.steps_per_call",
    "runtime.evaluator_episodes",
    "runtime.replay_gb",
)
"""Fields on which an algorithm does not depend. They may change when a run is resumed, and make no record stale."""

RANGES: Sequence[tuple[str, Callable[[float], bool], Sequence[str]]] = (
    ("a finite number above 0", lambda x: 0 < x < math.inf, (
        "num_env_frames", "num_env_steps", "refer.c", "network.std", "hidden_scale", "rmsprop_epsilon", "adam_epsilon",
        "meta.epsilon",
    )),
    ("a number above 0 and at most 10000", lambda x: 0 < x <= 10_000, (
        "initial_variance", "exploration.std", "time_steps_per_gradient", "gradients_per_step",
    )),
    ("a number from 0 to 10000", lambda x: 0 <= x <= 10_000, ("replay.ratio",)),
    ("a number above 0", lambda x: x > 0, (
        "clip_rho", "clip_c", "clip_pg_rho", "truncation", "clip_error", "ppo.clip", "silent_seconds",
    )),
    ("a finite number of 0 or more", lambda x: 0 <= x < math.inf, (
        "learning_rate", "final_learning_rate", "policy_learning_rate", "value_learning_rate", "weight_decay",
        "clip_global_norm", "entropy_cost", "baseline_cost", "value_cost", "policy_cost", "kl_cost", "delta",
        "rescaling", "rate_steps", "prioritised.alpha", "priority_exponent", "importance_exponent", "output_scale",
        "mean_bound", "core_units", "spread", "learner.burn_in", "replay.burn_in", "overlap", "first_frames",
        "weights_delay", "lockstep_lag", "checkpoint_seconds",
    )),
    ("a finite number", math.isfinite, ("meta.initial", "initial_gamma", "log_std_min", "log_std_max", "threshold")),
    ("a number from 0 to 1", lambda x: 0 <= x <= 1, (
        "discount", "lambda_", "gae_lambda", "trace_lambda", "loss.alpha", "alpha_rho", "alpha_c", "average_decay",
        "rmsprop_decay", "initial_beta", "max_far_policy_fraction", "beta_step_size", "annealing", "evaluation.epsilon",
        "exploration.first", "exploration.last", "exploration.theta", "priority_of_max",
    )),
    ("a number above 0 and at most 1", lambda x: 0 < x <= 1, ("target_update",)),
    ("a number above 0 and below 1", lambda x: 0 < x < 1, ("exploration.base",)),
    ("a number of 0 or more and below 1", lambda x: 0 <= x < 1, ("rmsprop_momentum", "beta_1", "beta_2")),
    ("1 or more", lambda x: x >= 1, (
        "batch_size", "unroll_length", "units", "advantage_units", "lstm_units", "embedding_units", "language_units",
        "gamma_embedding_units", "network.window", "head_units", "dueling_units", "replay.steps", "replay.period",
        "replay.capacity", "target_period", "publish_steps", "steps_per_update", "loss.n", "memory.capacity",
        "start_steps", "queue_capacity", "ppo.steps", "ppo.epochs", "evaluation.episodes", "evaluation.num_envs",
        "window_frames", "window_steps",
    )),
    ("a number from 1 to 10000", lambda x: 1 <= x <= 10_000, (
        "steps_per_call", "first_priority_n", "num_heads", "dueling_samples",
    )),
    ("at most 10000", lambda x: x <= 10_000, (
        "num_actors", "envs_per_actor", "num_learners", "runtime.threads", "env_threads",
    )),
)  # fmt: skip
"""Ranges of numeric fields: description, predicate, and the endings of the names of the fields to which they apply.
Each number of a field with several must be in the range; values that are not numbers are not checked."""


def flatten(config: Mapping[str, Any] | ml_collections.ConfigDict, prefix: str = "") -> dict[str, Any]:
    """Returns all fields of a nested configuration by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, (Mapping, ml_collections.ConfigDict)):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def unknown_scale(scale: str) -> ValueError:
    """Returns the error for a configuration file that is called with an unknown scale."""
    return ValueError(f"Unknown scale {scale!r}: choose one of {', '.join(SCALES)}.")


def agents(config: Mapping[str, Any] | ml_collections.ConfigDict) -> tuple[str, ...]:
    """Returns the names of an experiment's agents: the keys of `variants`, or else its only agent."""
    return tuple(config["variants"]) if "variants" in config else (config["agent"],)


def is_chosen(name: str, value: Any) -> bool:
    """Returns whether a field, given by its dotted name, has a value that is chosen for the machine."""
    *_, section, field = f".{name}".rsplit(".", 2)
    return section == "runtime" and field in CHOSEN_FIELDS and value == 0


def without_later(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a nested configuration without the fields of `LATER` that have the values implied by older runs."""
    return {
        name: {field: x for field, x in section.items() if field not in LATER[name] or x != LATER[name][field]}
        if name in LATER and isinstance(section, Mapping)
        else section
        for name, section in config.items()
    }


def with_later(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a nested configuration with the missing fields of `LATER` added to its sections."""
    return {
        name: {**LATER.get(name, {}), **section} if isinstance(section, Mapping) else section
        for name, section in config.items()
    }


def merge(config: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a nested configuration in which the fields of another one, `own`, replace or extend those of `config`."""
    merged = dict(config)
    for name, value in own.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = merge(merged[name], value) if both else value
    return merged


def resolve_plain(config: Mapping[str, Any], agent: str) -> dict[str, Any]:
    """Returns the configuration of one agent: the fields of `variants.<agent>` applied, and `variants` removed.

    Args:
        config: configuration as nested plain dictionaries; without `variants` it has only one agent.
        agent: one of `agents(config)`.

    Raises:
        ValueError: the experiment has no such agent.
    """
    if agent not in agents(config):
        raise ValueError(f"agent={agent!r}: choose {', '.join(agents(config))}.")
    resolved = {name: value for name, value in config.items() if name != "variants"}
    return merge(resolved, config.get("variants", {}).get(agent, {})) | {"agent": agent}


def resolve(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Returns the configuration of `config.agent` as a copy; see `resolve_plain`."""
    return ml_collections.ConfigDict(resolve_plain(config.to_dict(), config.agent))


def split_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns the names in a field of texts; a text from the command line has several names separated by commas."""
    return tuple(name for text in texts for name in text.split(","))


def tasks(config: Mapping[str, Any] | ml_collections.ConfigDict) -> tuple[str, ...]:
    """Returns the tasks that one agent learns together, `env.tasks`; empty if it learns `env.task` only."""
    return split_names(config.get("env", {}).get("tasks", ()))


def of_task(config: ml_collections.ConfigDict, task: str) -> ml_collections.ConfigDict:
    """Returns a copy of a configuration with one task instead of those that are learned together."""
    config = config.copy_and_resolve_references()
    config.env.task = task
    if "tasks" in config.env:
        with config.unlocked():
            del config.env.tasks
    return config


def use_processes(config: ml_collections.ConfigDict) -> None:
    """Sets a configuration's schedule to actors in separate processes.

    Raises:
        ValueError: the experiment has no actors, or the agent has its own schedule.
    """
    if "schedule" not in config.get("runtime", {}):
        raise ValueError(f"{config.experiment} has no actors that could run as separate processes.")
    config.runtime.schedule = PROCESSES
    if resolve(config).runtime.schedule != PROCESSES:
        raise ValueError(f"agent {config.agent} has its own runtime.schedule, without actors in separate processes.")


def missing_field(error: AttributeError | KeyError) -> str | None:
    """Returns the name of the missing field or section whose reading raised an error; None for any other error."""
    raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
    named = re.search(r"'(\w+)\\?'", str(error))
    return named[1] if named and raised_in == inspect.getfile(ml_collections.ConfigDict) else None


def check_schedule(config: ml_collections.ConfigDict, schedules: Sequence[str]) -> None:
    """Raises ValueError if `runtime.schedule` is not one of an agent's schedules."""
    if config.runtime.schedule not in schedules:
        raise ValueError(f"runtime.schedule={config.runtime.schedule!r}: choose {' or '.join(schedules)}.")


def check_choice(field: str, value: str, choices: Collection[str]) -> None:
    """Raises ValueError if the value of a field is not one of its choices."""
    if value not in choices:
        raise ValueError(f"{field}={value!r}: choose {', '.join(choices)}.")


def check_interval(field: str, ends: Sequence[float], *, above_zero: bool) -> None:
    """Raises ValueError if a field is not two numbers in ascending order, both from 0 on, or above 0."""
    if len(ends) != 2 or not 0 <= ends[0] <= ends[1] or (above_zero and ends[0] == 0):
        lowest = "above 0" if above_zero else "of 0 or more"
        raise ValueError(f"{field}={tuple(ends)}: choose two numbers {lowest}, the smaller one first.")


def check_numbers(config: ml_collections.ConfigDict) -> None:
    """Raises ValueError for a number outside the range of its field in `RANGES`; fields of `env` are not checked."""
    for name, value in flatten(config).items():
        values = value if isinstance(value, (list, tuple)) else (value,)
        numbers = [x for x in values if isinstance(x, (int, float)) and not isinstance(x, bool)]
        for words, holds, fields in () if name.startswith("env.") else RANGES:
            if not all(map(holds, numbers)) and f".{name}".endswith(tuple(f".{field}" for field in fields)):
                raise ValueError(f"{name}={value}: choose {words}{' for each' if len(values) > 1 else ''}.")


def check_rates(learner: ml_collections.ConfigDict) -> None:
    """Raises ValueError if `learning_rate`, of which `policy_learning_rate` is applied as a multiple, is 0."""
    if not learner.learning_rate > 0:
        raise ValueError(
            f"learner.learning_rate={learner.learning_rate}: choose a finite number above 0, since "
            "learner.policy_learning_rate is applied as a multiple of it."
        )


def whole_product(factor: float, number: int) -> int | None:
    """Returns the product of a possibly fractional factor and a number if it is whole up to rounding errors.

    For example, 0.28 times 25 is 7.

    Args:
        factor: factor in a configuration.
        number: number that it multiplies.

    Returns:
        The product, or None if it is not whole.
    """
    product = factor * number
    is_whole = math.isfinite(product) and math.isclose(product, round(product), abs_tol=1e-9)
    return round(product) if is_whole else None


def budget(config: ml_collections.ConfigDict) -> tuple[str, int]:
    """Returns the unit of a task's budget, `frames` if actions are repeated and else `steps`, and the budget.

    Raises:
        ValueError: the configuration has both or none of the fields `num_env_frames` and `num_env_steps`.
    """
    if ("num_env_frames" in config) == ("num_env_steps" in config):
        raise ValueError("A configuration must have its budget in exactly one of num_env_frames and num_env_steps.")
    return ("frames", config.num_env_frames) if "num_env_frames" in config else ("steps", config.num_env_steps)


def total_budget(config: ml_collections.ConfigDict) -> tuple[str, int]:
    """Returns unit and budget of a run, which is `budget` times the number of its tasks. Errors as for `budget`."""
    unit, amount = budget(config)
    return unit, amount * max(1, len(tasks(config)))


def frames_per_step(config: ml_collections.ConfigDict) -> int:
    """Returns the number of budget units in one agent step: the frames for which an action is repeated, or 1.

    Raises:
        ValueError: `env.frame_skip` is below 1.
    """
    if (frame_skip := config.env.get("frame_skip", 1)) < 1:
        raise ValueError(f"env.frame_skip={frame_skip}: choose 1 or more.")
    return frame_skip
