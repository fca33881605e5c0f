"""Golden values: what each agent logs of its first updates, from a fixed seed.

Most agents play a small environment in lockstep. DQN and R2D2 learn from fixed sequences, so the steps before their
loss (exploration, first priorities, sampling) are not covered.

`paper_configs/behaviour/<paper>.json` has the values with a version for each agent, and `tests/test_golden.py` compares
them with the code. As a program this module computes them again:

    python -m tests.golden --raise=refer.vracer_refer  # after an intended change, which makes its older records stale
    python -m tests.golden --add                       # for agents without values; their version is 1
    python -m tests.golden --paper=refer --out=x.json  # only writes the values of the present code
    python -m tests.golden --check=refer.vracer_refer  # a sentence for each value that differs, as JSON
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import math
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np

from paper_configs.impala import atari_shallow
from repro import cli
from repro.config import resolve
from repro.evidence import behaviour
from repro.evidence.staleness import CONFIGS_DIR
from repro.files import write_whole

SEED = 3
BATCH = 4
UPDATES = 4
DIGITS = 7
ROUNDING = 1e-6
"""Of the largest displacement of a variable; a smaller one is rounding, which depends on the processor."""
TOLERANCE = 1e-3
"""Relative to a value and to the largest of its series. Two threads in place of one change at most 0.006 of it, XLA in
place of the graph 0.1, but for ACER's dueling samples, which have other random numbers there."""

OF_LOGARITHMS = {"kl": 1e-6}
"""Absolute tolerance of means of differences between logarithms near 1, which rounding of float32 alone may make."""

FIRST_IS_ROUNDING = {"stac.pixels_stac": ("weights_moved",)}
"""Series whose first value is left out. Of a batch that is on-policy the gradient of STAC's alpha is rounding, of which
Adam makes a whole step unless it is 0."""

Series = Mapping[str, Sequence[float]]
"""What is logged by name, a number for each update."""


@dataclasses.dataclass(frozen=True)
class Case:
    """How an agent is run.

    Attributes:
        experiment: `<paper>.<file>` in `paper_configs`.
        agent: one of the experiment.
        agents: of which experiments and agents the values are, as `behaviour.Behaviour` has them.
        changes: dotted names of fields to the values that make the run small.
        updates: how many.
    """

    experiment: str
    agent: str
    agents: Sequence[str]
    changes: Mapping[str, Any]
    updates: int = UPDATES

    def config(self, compile_: str = "graph") -> ml_collections.ConfigDict:
        """The configuration as the agent reads it, at desk scale, with the changes."""
        config = importlib.import_module(f"paper_configs.{self.experiment}").get_config("desk")
        config.agent = self.agent
        config = resolve(config)
        for name, value in {**self.changes, "runtime.compile": compile_}.items():
            *sections, field = name.split(".")
            section = config
            for part in sections:
                section = section[part]
            with section.unlocked(), section.ignore_type():
                section[field] = value
        return config


def gymnasium(task: str, max_steps: int) -> dict[str, Any]:
    """The section `env` of a classic control task."""
    return {"env": {"name": "gymnasium", "task": task, "max_steps": max_steps, "kwargs": {}}}


def stac_agents(experiments: str, *agents: str) -> tuple[str, ...]:
    """Patterns of STAC's agents in experiments, as `atari gymnasium`."""
    return tuple(f"{experiment}/{agent}" for experiment in experiments.split() for agent in agents)


PENDULUM = gymnasium("Pendulum-v1", 30)
ATARI = {"env.task": "breakout", "env.noop_max": 5, "env.max_frames": 400, "runtime.num_actors": 1}
IMPALA = ATARI | {
    "learner.batch_size": 4,
    "learner.unroll_length": 8,
    "learner.learning_rate": 3e-3,
    "runtime.envs_per_actor": 4,
    "runtime.schedule": "lockstep",
}
A3C = IMPALA | {"runtime.schedule": "a3c", "learner.unroll_length": 6}
IMPALA_LSTM = {name: value for name, value in IMPALA.items() if not name.startswith("env.")} | {
    "env": atari_shallow.get_config("desk").env.to_dict()
    | {name.removeprefix("env."): value for name, value in ATARI.items() if name.startswith("env.")}
    | {"last_action_and_reward": True},
    "learner.learning_rate": 0.05,
    "loss.entropy_cost": 0.1,
}
IMPALA_REPLAY = IMPALA_LSTM | {"learner.batch_size": 8, "replay.capacity": 10}
TOGETHER = {
    "env.task": "two_games",
    "env.tasks": ("breakout", "pong"),
    "env.full_action_set": True,
    "env.noop_max": 5,
    "env.max_frames": 400,
    "runtime.num_actors": 1,
}
IMPALA_TOGETHER = IMPALA | TOGETHER
IMPALA_LSTM_TOGETHER = {name: value for name, value in IMPALA_LSTM.items() if not name.startswith("env.")} | {
    "env": IMPALA_LSTM["env"]
    | {name.removeprefix("env."): value for name, value in TOGETHER.items() if "env." in name},
    "evaluation.normaliser": "atari57",
    "learner.rmsprop_epsilon": 1e-3,
}
ACER = ATARI | {
    "learner.unroll_length": 8,
    "learner.learning_rate": 3e-3,
    "loss.delta": 1e-5,
    "loss.truncation": 0.995,
    "replay.frames": 2_000,
    "runtime.envs_per_actor": 2,
}
CONTINUOUS = PENDULUM | {
    "learner.unroll_length": 8,
    "loss.truncation": 0.995,
    "replay.frames": 500,
    "runtime.envs_per_actor": 2,
}
TWO_ACTIONS = CONTINUOUS | gymnasium("Reacher-v5", 30)
FIXED_RATE = CONTINUOUS | {
    "learner.policy_learning_rate": 1e-3,
    "loss.delta": 1e-4,
    "replay.batch_size": 3,
    "replay.gradients_per_step": 0.25,
    "runtime.envs_per_actor": 1,
}
REPLAY = PENDULUM | {
    "learner.batch_size": 16,
    "learner.learning_rate": 3e-3,
    "learner.steps_per_call": 4,
    "memory.capacity": 256,
    "memory.start_steps": 90,
    "refer.beta_step_size": 0.05,
    "refer.c": 0.1,
}
DDPG = REPLAY | {"learner.policy_learning_rate": 3e-3}
LSTM = REPLAY | {"network.lstm_units": (8, 8), "network.window": 4, "refer.c": 0.01}
PPO = PENDULUM | {
    "memory.start_steps": 60,
    "ppo.batch_size": 32,
    "ppo.clip": 0.01,
    "ppo.epochs": 2,
    "ppo.policy_learning_rate": 3e-3,
    "ppo.steps": 64,
}
STAC = IMPALA | {
    "loss.entropy_cost": 0.1,
    "meta.initial": 1.0,
    "meta.initial_gamma": 2.0,
    "meta.learning_rate": 0.1,
}
STAC_CONTROL = gymnasium("Pendulum-v1", 5) | {
    "learner.batch_size": 4,
    "learner.burn_in": 4,
    "learner.overlap": 4,
    "learner.unroll_length": 8,
    "loss.entropy_cost": 0.1,
    "meta.initial": 1.0,
    "meta.initial_gamma": 2.0,
    "meta.learning_rate": 0.1,
    "network.core_units": 16,
    "network.head_units": 16,
    "network.units": (16,),
    "runtime.envs_per_actor": 4,
    "runtime.schedule": "lockstep",
}
STAC_PIXELS = {
    **{name: value for name, value in STAC_CONTROL.items() if name != "network.units"},
    **gymnasium("tests.support.custom_environments:repro_tests/Pixels-v0", 5),
}
SEQUENCES = ATARI | {"learner.batch_size": BATCH, "learner.target_period": 2, "loss.rate_steps": 3}
DQN = {**SEQUENCES, "replay.steps": 6}
R2D2 = {
    **SEQUENCES,
    "network.core_units": 16,
    "network.dueling_units": 16,
    "replay.steps": 6,
    "replay.burn_in": 3,
    "learner.adam_epsilon": 1e-3,
}
REPLAYS = ("refer", "er", "refer1", "refer2", "per")

CASES: dict[str, Case] = {
    "impala.shallow": Case(
        "impala.atari_shallow",
        "impala_shallow",
        (
            "atari_shallow/impala_shallow",
            "atari_table1_throughput/impala_*",
            "gymnasium/impala",
            "atari_population/*",
            "gymnasium_population/*",
        ),
        IMPALA,
    ),
    "impala.deep": Case("impala.atari_deep", "impala_deep", ("atari_deep/impala_deep",), IMPALA, 2),
    "impala.multitask": Case("impala.atari_57", "impala_multitask", ("*/impala_multitask",), IMPALA_TOGETHER, 2),
    "impala.multitask_lstm_shallow": Case(
        "impala.dmlab_30", "impala_shallow", ("dmlab_30/impala_shallow",), IMPALA_LSTM_TOGETHER
    ),
    "impala.multitask_lstm_deep": Case(
        "impala.dmlab_30",
        "impala_deep",
        ("dmlab_30/impala_deep", "dmlab_30_experts/impala_deep", "dmlab_30_population/*"),
        IMPALA_LSTM_TOGETHER,
        2,
    ),
    **{
        f"impala.lstm_{agent}": Case("impala.dmlab_table2", agent, agents, IMPALA_LSTM)
        for agent, agents in (
            (
                "vtrace",
                (
                    "*/vtrace",
                    "*/vtrace_lag_1",
                    "dmlab_table1_throughput/impala_*",
                    "dmlab_figure5/impala",
                    "dmlab_population/*",
                ),
            ),
            ("one_step", ("*/one_step",)),
            ("vtrace_rho_10", ("*/vtrace_rho_*",)),
            # 1e-6 in a logarithm shows where a probability is that small
            ("epsilon", ("*/epsilon", "*/no_correction", "*/epsilon_lag_1", "*/no_correction_lag_1")),
        )
    },
    **{
        f"impala.lstm_{agent}_late": Case(
            "impala.dmlab_figure_d1",
            f"{agent}_lag_10",
            tuple(f"*/{name}_lag_10*" for name in agents),
            IMPALA_LSTM | {"runtime.weights_delay": 2},
            5,
        )
        for agent, *agents in (("vtrace", "vtrace"), ("epsilon", "epsilon", "no_correction"))
    },
    **{
        f"impala.lstm_{agent}_replay": Case(
            "impala.dmlab_table2", f"{agent}_replay", tuple(f"*/{name}_replay" for name in agents), IMPALA_REPLAY
        )
        for agent, *agents in (
            ("vtrace", "vtrace"),
            ("one_step", "one_step"),
            ("epsilon", "epsilon", "no_correction"),
        )
    },
    "impala.a2c": Case("impala.atari_table1_throughput", "a2c_sync_step", ("*/a2c_*", "*/a2c"), IMPALA),
    "impala.a3c": Case(  # of one worker, since several do not take turns
        "impala.atari_table1_throughput",
        "a3c",
        ("*/a3c", "*/a3c_shallow"),
        A3C,
    ),
    "impala.a3c_deep": Case("impala.atari_a3c", "a3c_deep", ("*/a3c_deep",), A3C, 2),
    "impala.lstm_deep": Case("impala.dmlab_table2", "vtrace_deep", ("*/vtrace_deep",), IMPALA_LSTM, 2),
    "acer.discrete": Case("acer.atari", "acer_ratio_4", ("atari/acer_ratio_[0-9]", "gymnasium/acer"), ACER),
    "acer.discrete_no_trust_region": Case(
        "acer.atari", "acer_ratio_4_no_trust_region", ("atari/acer_ratio_[0-9]_no_trust_region",), ACER
    ),
    "acer.discrete_a3c": Case("acer.atari", "a3c", ("atari/a3c",), ACER),
    "acer.continuous_acer": Case(
        "acer.continuous", "acer", ("continuous/acer", "gymnasium/acer_continuous"), CONTINUOUS
    ),
    "acer.continuous_acer_plain_traces": Case(  # on two actions: with one all weights are the same
        "acer.continuous", "acer_plain_traces", ("continuous/acer_plain_traces",), TWO_ACTIONS
    ),
    **{
        f"acer.continuous_{agent}": Case("acer.continuous", agent, (f"continuous/{agent}",), CONTINUOUS)
        for agent in ("a3c", "trust_a3c", "tis", "trust_tis", "acer_q_ret", "acer_on_policy")
    },
    **{
        f"refer.ddpg_{rule}": Case("refer.figure_1_ddpg", f"ddpg_{rule}", (f"*/ddpg_{rule}",), DDPG)
        for rule in (*REPLAYS, "per_proportional", "er_untuned")
    },
    **{
        f"refer.ddpg_{rule}_annealed": Case(
            "refer.figure_1_ddpg",
            f"ddpg_{rule}_annealed",
            (f"*/ddpg_{rule}_annealed",),
            DDPG | {"learner.annealing": 0.1},  # so that it is seen in the first updates
        )
        for rule in ("er", "per")
    },
    **{
        f"refer.naf_{rule}": Case("refer.figure_3_naf", f"naf_{rule}", (f"*/naf_{rule}",), REPLAY)
        for rule in (*REPLAYS, "per_proportional")
    },
    "refer.vracer_refer": Case(
        "refer.figure_4_vracer", "vracer_refer", ("*/vracer_refer", "*/vracer_half_*", "*/vracer_twice_*"), REPLAY
    ),
    **{
        f"refer.vracer_{rule}": Case("refer.figure_4_vracer", f"vracer_{rule}", (f"*/vracer_{rule}",), REPLAY)
        for rule in REPLAYS[1:]
    },
    **{
        f"refer.vracer_{form}": Case("refer.figure_8_sensitivity", f"vracer_{form}", (f"*/vracer_{form}",), REPLAY)
        for form in ("gaussian", "quadratic")
    },
    **{
        f"refer.{agent}": Case("refer.recurrent", agent, (f"recurrent/{agent}",), LSTM)
        for agent in ("lstm_refer", "lstm_er")
    },
    "refer.ppo": Case("refer.figure_4_vracer", "ppo", ("*/ppo",), PPO),
    "refer.acer": Case("refer.figure_4_vracer", "acer", ("*/acer", "*/acer_fast"), FIXED_RATE),
    **{
        f"ctrace.dqn_{target}": Case("ctrace.dqn", agent, (f"dqn/{pattern}", f"gymnasium/{pattern}"), DQN)
        for target, agent, pattern in (
            ("double", "double_dqn", "double_dqn"),
            ("n_step", "n_step_3", "n_step_*"),
            ("retrace", "retrace", "retrace*"),
            ("ctrace", "ctrace_gamma10", "ctrace*"),
        )
    },
    **{
        f"ctrace.r2d2_{target}": Case(
            "ctrace.r2d2",
            agent,
            (f"r2d2/{agent.removesuffix('_5')}*", f"gymnasium/r2d2_{agent.removesuffix('_5')}*"),
            R2D2,
        )
        for target, agent in (("n_step", "n_step_5"), ("retrace", "retrace"), ("ctrace", "ctrace"))
    },
    "stac.impala": Case(
        "stac.atari",
        "impala",
        (*stac_agents("atari gymnasium", "impala", "impala_gamma_99"), "figure_4_robustness/impala_*"),
        STAC,
    ),
    "stac.stac": Case(
        "stac.atari",
        "stac",
        stac_agents("atari gymnasium", "stac", "stac_gamma", "stac_gamma_lambda", "stac_no_alpha", "stac_untuned"),
        STAC,
    ),
    "stac.stacx": Case(
        "stac.atari",
        "stacx",
        (
            *stac_agents(
                "atari gymnasium",
                "stacx",
                "stacx_gamma*",
                "stacx_no_alpha",
                "stacx_untuned",
                "stacx_heads_*",
                "stacx_kl_*",
            ),
            "figure_4_robustness/stacx_*",
        ),
        STAC,
    ),
    **{
        f"stac.{agent}": Case("stac.atari", agent, stac_agents("atari gymnasium", agent), STAC)
        for agent in (
            "impala_aux",
            "stacx_two_alphas",
            "stacx_truncation",
            "stacx_random_ensemble",
            "stacx_average_ensemble",
            "stac_gamma_lambda_embedding",
            "stacx_shared_embedding",
            "stacx_separate_embedding",
        )
    },
    **{
        f"stac.control_{agent}": Case(
            "stac.dm_control_features",
            agent,
            stac_agents("dm_control_features rwrl", agent, f"{agent}_*"),
            STAC_CONTROL,
        )
        for agent in ("stac", "stacx")
    },
    **{
        f"stac.control_{agent}": Case(
            "stac.dm_control_features", agent, stac_agents("dm_control_features rwrl", agent), STAC_CONTROL
        )
        for agent in ("impala", "impala_aux")
    },
    **{
        f"stac.pixels_{agent}": Case(
            "stac.dm_control_pixels", agent, stac_agents("dm_control_pixels", agent, *others), STAC_PIXELS, 2
        )
        for agent, others in (("stac", ("stac_*", "impala")), ("stacx", ("stacx_*", "impala_aux")))
    },
}
"""Behaviour to how it is run; the settings make clips, trust regions, rules and far policies matter at once."""


def measure(name: str, compile_: str = "graph") -> dict[str, list[float]]:
    """Returns what an agent logs of each of its updates by name, and how far its weights moved.

    Mean returns of tasks are left out, which are NaN until a game ends. `weights_moved` is the geometric mean, over the
    variables that are learned, of the distance from their start.
    """
    case = CASES[name]
    run = _learn_from_sequences if case.experiment.startswith("ctrace.") else _train
    series: dict[str, list[float]] = {}
    for scalars in run(case, case.config(compile_)):
        for key, value in scalars.items():
            if math.isnan(value):
                continue  # returns of tasks of which no game ended
            series.setdefault(key, []).append(float(f"{value:.{DIGITS}g}"))
    return series


def _train(case: Case, config: ml_collections.ConfigDict) -> Iterator[dict[str, float]]:
    """A run of the experiment itself."""
    from repro.papers import find_experiment
    from repro.training.run_directory import RunDirectory

    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory(Path(folder), config.to_dict(), SEED)
        trainer = find_experiment(config).build_trainer(SEED, run, print)
        moved = _displacement(trainer._variables)
        try:
            for update in trainer:
                yield update.scalars | {"weights_moved": moved()}
                if update.updates == case.updates:
                    break
        finally:
            trainer.close()


def _learn_from_sequences(case: Case, config: ml_collections.ConfigDict) -> Iterator[dict[str, float]]:
    """Updates of the learner on the same random sequences each, which no schedule or replay changes."""
    import tensorflow as tf

    from repro.papers import find_experiment
    from repro.training import devices
    from repro.training.learner import Learner

    experiment = find_experiment(config)
    environment = experiment.make_environment(1, SEED)
    agent = experiment.make_agent(environment, SEED)
    environment.close()
    strategy = devices.make_strategy()
    learner = Learner(agent, strategy, devices.use_xla(config.runtime.compile, strategy))
    moved = _displacement(agent)
    steps = experiment.sequence_settings.steps
    batch = _sequences(agent.collect_data_spec, agent.action_spec.maximum + 1, steps)
    for _ in range(case.updates):
        output = learner.step(learner.to_device(batch), tf.constant([1.0, 0.5, 0.25, 0.75]))
        priorities = {"priorities": float(output.per_sequence["priorities"].mean())}
        yield output.scalars | priorities | {"weights_moved": moved()}


def _sequences(spec: Any, num_actions: int, steps: int) -> Any:
    """Random observations, actions and rewards, with ends: [B, T + 1, ...], burn-in among them."""
    import tensorflow as tf

    rng = np.random.default_rng(SEED)
    shape = BATCH, steps + 1

    def sample(item: tf.TensorSpec) -> np.ndarray:
        kind = item.dtype.as_numpy_dtype
        if item.dtype == tf.uint8:
            return rng.integers(0, 256, (*shape, *item.shape), kind)
        if item.dtype == tf.int32:
            return rng.integers(0, num_actions, (*shape, *item.shape), kind)
        return rng.normal(size=(*shape, *item.shape)).astype(kind)

    batch = tf.nest.map_structure(sample, spec)
    info = batch.policy_info | {"epsilon": rng.choice(np.float32([0.1, 0.6]), shape)}
    if "core_state" in info:
        info["core_state"] = tf.nest.map_structure(lambda part: part[:, 0], info["core_state"])
    step_type = np.where(rng.random(shape) < 0.15, 2, 1).astype(np.int32)
    step_type[:, 0] = 0
    discount = (rng.random(shape) > 0.15).astype(np.float32)
    return batch._replace(step_type=step_type, discount=discount, policy_info=info)


def _displacement(trackable: Any) -> Callable[[], float]:
    """Returns how far the variables that are learned have moved since this call, a geometric mean over them.

    Those that have moved by rounding alone, as the bias of an advantage whose mean is taken off it, do not count.
    """
    import tensorflow as tf

    found = tf.train.TrackableView(trackable).descendants()
    learned = [item for item in found if isinstance(item, tf.Variable) and item.trainable]
    start = [variable.numpy() for variable in learned]

    def moved() -> float:
        norms = [np.linalg.norm(variable.numpy() - before) for variable, before in zip(learned, start, strict=True)]
        return math.exp(np.mean([math.log(norm) for norm in norms if norm > ROUNDING * max(norms)]))

    return moved


def differences(values: Series, golden_values: Series, first_is_rounding: Collection[str] = ()) -> list[str]:
    """The names of series that are not the golden ones; of some the first value does not count."""
    if set(values) != set(golden_values):
        return sorted(set(values) ^ set(golden_values))
    found = []
    for name, series in golden_values.items():
        start = int(name in first_is_rounding)
        tolerance = _absolute_tolerance(name, series)
        if len(values[name]) != len(series) or not np.allclose(
            values[name][start:], series[start:], TOLERANCE, tolerance, equal_nan=True
        ):
            found.append(name)
    return found


def _absolute_tolerance(name: str, series: Sequence[float]) -> float:
    return TOLERANCE * np.abs(series).max() + OF_LOGARITHMS.get(name, 1e-9)


def sentence(name: str, values: Series, golden_values: Series) -> str | None:
    """What is to be done about values that differ; None where none does."""
    found = differences(values, golden_values, FIRST_IS_ROUNDING.get(name, ()))
    if not found:
        return None
    return (
        f"{name} learns otherwise than its golden values ({', '.join(found)}): undo the change or, if it is meant, "
        f"raise its behaviour version, which makes its records stale: python -m tests.golden --raise={name}"
    )


def store(measured: Mapping[str, Mapping[str, Sequence[float]]], raised: bool) -> list[Path]:
    """Writes golden values beside those of other agents, and returns the files.

    Args:
        measured: of some `CASES`.
        raised: whether they are of a new version.
    """
    papers = sorted({name.partition(".")[0] for name in measured})
    for paper in papers:
        known = dict(behaviour.load(paper, CONFIGS_DIR))
        for name, case in CASES.items():
            if name in measured and name.startswith(f"{paper}."):
                short = name.removeprefix(f"{paper}.")
                version = known[short].version + raised if short in known else behaviour.FIRST
                known[short] = behaviour.Behaviour(version, case.agents, measured[name])
        path = behaviour.behaviour_path(CONFIGS_DIR, paper)
        path.parent.mkdir(exist_ok=True)
        write_whole(path, _text(known))
    return [behaviour.behaviour_path(CONFIGS_DIR, paper) for paper in papers]


def _text(known: Mapping[str, behaviour.Behaviour]) -> str:
    """The JSON of a paper's file, a line for each series."""
    blocks = []
    for name, found in known.items():
        lines = ",\n".join(f"      {json.dumps(key)}: {json.dumps(list(row))}" for key, row in found.values.items())
        blocks.append(
            f"  {json.dumps(name)}: {{\n"
            f'    "version": {found.version},\n'
            f'    "agents": {json.dumps(list(found.agents))},\n'
            f'    "values": {{\n{lines}\n    }}\n  }}'
        )
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--raise", dest="raised", help="names of behaviours with commas between, as refer.vracer_er")
    what.add_argument("--add", action="store_true", help="compute those that the files do not have")
    what.add_argument("--paper", help="compute those of a paper")
    what.add_argument("--check", help="names of behaviours with commas between: compare them with the files")
    parser.add_argument("--out", type=Path, help="file for those of a paper")
    parser.add_argument("--compile", default="graph", choices=("graph", "xla"))
    parser.add_argument("--threads", default=1, type=int)
    arguments = parser.parse_args()
    if arguments.raised or arguments.check:
        names = (arguments.raised or arguments.check).split(",")
    elif arguments.add:
        names = [name for name in CASES if not _stored(name)]
    else:
        names = [name for name in CASES if name.startswith(f"{arguments.paper}.")]
    if unknown := sorted({*names} - {*CASES}):
        parser.error(f"there is no behaviour {', '.join(unknown)}; there are {', '.join(CASES)}")
    if arguments.check and (missing := [name for name in names if not _stored(name)]):
        parser.error(f"{missing[0]} has no golden values: python -m tests.golden --add")
    cli.load_tensorflow()
    from repro.training import devices

    devices.configure_threads(deterministic=False, threads=arguments.threads)
    measured = {name: measure(name, arguments.compile) for name in names}
    if arguments.check:
        print(json.dumps({name: sentence(name, measured[name], _stored(name).values) for name in names}))
    elif arguments.paper:
        (arguments.out or Path("/dev/stdout")).write_text(json.dumps(measured) + "\n")
    else:
        print("\n".join(map(str, store(measured, bool(arguments.raised)))))


def _stored(name: str) -> behaviour.Behaviour | None:
    paper, _, short = name.partition(".")
    return behaviour.load(paper, CONFIGS_DIR).get(short)


if __name__ == "__main__":
    main()
