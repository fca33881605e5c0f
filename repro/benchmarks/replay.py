"""Benchmark of replays: sequences written and sampled per second, by how many are stored, and bytes per transition."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import ml_collections
import numpy as np
import reverb
from tf_agents.trajectories import Trajectory

from paper_configs.acer import atari as acer_atari
from paper_configs.acer import gymnasium as acer_gymnasium
from paper_configs.ctrace import dqn, r2d2
from paper_configs.impala import atari_shallow
from paper_configs.refer import figure_4_vracer
from repro.acting.relay import Relay
from repro.benchmarks.measuring import sequences, timing
from repro.benchmarks.measuring.replay_server import serving
from repro.config import frames_per_step, resolve
from repro.evidence import records
from repro.papers import find_experiment
from repro.papers.ctrace.experiment import SequenceExperiment
from repro.papers.ctrace.experiments.r2d2 import R2d2Experiment
from repro.replay.refer import ReferMemory
from repro.replay.sequence_memory import SequenceMemory
from repro.replay.sequence_writer import SequenceSettings, SequenceWriter
from repro.replay.sequences import Sample, SequenceReplay, StoredSequences, make_writer
from repro.replay.step_layout import StepLayout
from repro.replay.unrolls import UnrollReplay
from repro.training import devices
from repro.training.actor_experiment import ActorExperiment

SIZES = {"desk": (250, 1000, 4000), "paper": (100, 400, 1600)}
"""Scale of R2D2 on Pong, whose sequences are stored, to the numbers of sequences in a replay."""
UNROLLS = 100
"""Number of unrolls over which the memory of an unroll replay is counted."""
EPISODES, EPISODE_STEPS = 10, 1000
"""Number of episodes and of their steps over which the memory of ReF-ER's replay is counted."""
HALFCHEETAH = 17, 6
"""Sizes of HalfCheetah's states and actions."""


class Sampled(Protocol):
    """Replay that sequences are sampled from."""

    def __len__(self) -> int: ...
    def sample(self, size: int) -> Sample: ...


class Store(NamedTuple):
    """Replay that is measured.

    writer: writer of one environment.
    flush: function that waits until everything that was written is stored.
    sampled: replay to sample from.
    pid: id of the process of the replay if it has nothing else; otherwise None.
    """

    writer: SequenceWriter
    flush: Callable[[], None]
    sampled: Sampled
    pid: int | None = None


class Found(NamedTuple):
    """Sequences written and sampled per second, and bytes per transition, or None if its process has more in memory."""

    written: float
    sampled: float
    bytes_per_transition: float | None = None


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Measures rates of one writer and of one reader of full replays, each alone, on this machine.

    Replays are those of R2D2: in the learner's memory, as with the schedule `lockstep`; on Reverb in the learner's
    process, as with actors in processes; and on Reverb in a separate process. Transitions are real ones of Pong, but of
    the same steps over and over, each time compressed separately. The result also has the memory per transition of each
    agent's replay, and its total at the size of the paper.

    Args:
        seconds: length of the measurement of each rate in seconds.
        repeats: how often everything is measured.
    """
    devices.configure_threads(deterministic=False)
    results: list[dict[str, Found]] = []
    experiments = {scale: R2d2Experiment(resolve(r2d2.get_config(scale))) for scale in SIZES}
    played = {scale: play(experiment) for scale, experiment in experiments.items()}
    for _ in range(repeats):
        results.append({})
        for scale, experiment in experiments.items():
            for kind in KINDS:
                for size in SIZES[scale] if kind != OWN else SIZES[scale][-1:]:
                    results[-1][f"{kind}, {scale}, {size}"] = measure_one(
                        kind, experiment, played[scale], size, seconds
                    )
    return summarise(results, memory())


def play(experiment: SequenceExperiment) -> tuple[Trajectory, Trajectory]:
    """Returns the spec of a step, and steps of one environment."""
    spec = step_spec(experiment)
    return spec, sequences.play(experiment, spec)


def step_spec(experiment: ActorExperiment) -> Trajectory:
    """Returns the spec of a stored step."""
    with contextlib.closing(experiment.make_environment(1, 0)) as environment:
        return experiment.make_agent(environment, 0).collect_data_spec


def measure_one(
    kind: str, experiment: SequenceExperiment, played: tuple[Trajectory, Trajectory], size: int, seconds: float
) -> Found:
    """Fills a replay of `size` sequences, and then measures writing and sampling."""
    spec, steps = played
    settings = experiment.sequence_settings._replace(capacity=size)
    batch_size = experiment.replay_training.batch_size
    with tempfile.TemporaryDirectory() as folder, KINDS[kind](spec, settings, Path(folder)) as store:
        before = sequences.resident_bytes(store.pid) if store.pid else 0
        store.writer.append(steps)
        store.flush()
        count = len(store.sampled)
        for _ in range(-(-size // count)):
            store.writer.append(steps)
        store.flush()
        stored = (sequences.resident_bytes(store.pid) - before) / (size * settings.period) if store.pid else None

        def write() -> int:
            store.writer.append(steps)
            return count

        def sample() -> int:
            store.sampled.sample(batch_size)
            return batch_size

        written = timing.rate([write], seconds)
        store.flush()
        return Found(written, timing.rate([sample], seconds), stored)


@contextlib.contextmanager
def in_memory(spec: Trajectory, settings: SequenceSettings, folder: Path) -> Iterator[Store]:
    """Opens the replay of the schedule `lockstep`."""
    del folder
    replay = SequenceMemory(spec, settings, 1, sequences.PLAYED, np.random.default_rng(0))
    yield Store(replay.writers[0], lambda: None, replay)


@contextlib.contextmanager
def on_reverb(spec: Trajectory, settings: SequenceSettings, folder: Path) -> Iterator[Store]:
    """Opens the replay of the schedule `processes`."""
    replay = SequenceReplay(spec, settings, folder / "working")
    replay.start()
    try:
        writer = make_writer(reverb.Client(replay.address), spec, settings, None)
        yield Store(writer, writer.flush, replay)
    finally:
        replay.close()


@contextlib.contextmanager
def in_own_process(spec: Trajectory, settings: SequenceSettings, folder: Path) -> Iterator[Store]:
    """Opens the replay of `processes` in a separate process, by the learner's port, as with `runtime.replay_gb`."""
    with (
        serving(spec, settings, folder / "working") as (server, pid),
        contextlib.closing(Relay("127.0.0.1")) as relay,
    ):
        relay.forward_to(server)
        address = f"127.0.0.1:{relay.port}"
        stored = StoredSequences(StepLayout(spec), address)
        writer = make_writer(reverb.Client(address), spec, settings, None)
        yield Store(writer, writer.flush, stored, pid)
        writer.close()
        stored.close()


OWN = "Reverb in its own process"
"""Kind that is measured only at the largest size, because its process needs time to start."""
KINDS = {"memory": in_memory, "Reverb": on_reverb, OWN: in_own_process}


def memory() -> dict[str, tuple[float, float]]:
    """Returns bytes per transition in each agent's replay that is in memory, and GB at the size of its paper."""
    found: dict[str, tuple[float, float]] = {}
    for name, config in (("R2D2, Pong", r2d2.get_config("paper")), ("DQN, Pong", dqn.get_config("paper"))):
        found[name] = sequence_memory(config)
    acer, control = acer_atari.get_config("paper"), acer_gymnasium.get_config("paper")
    found["ACER, Pong"] = unroll_memory(acer, acer.replay.frames // frames_per_step(acer))
    found[f"ACER, {control.env.task}"] = unroll_memory(control, control.replay.frames)
    impala = atari_shallow.get_config("paper")
    found["IMPALA, Pong"] = unroll_memory(impala, impala.replay.capacity * impala.learner.unroll_length)
    found["V-RACER, HalfCheetah"] = refer_memory(figure_4_vracer.get_config("paper").memory.capacity)
    return found


def sequence_memory(config: ml_collections.ConfigDict) -> tuple[float, float]:
    """Returns bytes per transition and GB at full size of a `SequenceMemory`."""
    experiment = find_experiment(resolve(config))
    assert isinstance(experiment, SequenceExperiment)
    spec, settings = step_spec(experiment), experiment.sequence_settings
    full, empty = (
        SequenceMemory.nbytes(spec, settings._replace(capacity=n), 1, experiment.config.learner.steps_per_update)
        for n in (settings.capacity, 0)
    )
    return (full - empty) / (settings.capacity * settings.period), full / 1e9


def unroll_memory(config: ml_collections.ConfigDict, transitions: int) -> tuple[float, float]:
    """Returns bytes per transition and GB of an `UnrollReplay` with `transitions` transitions."""
    config = resolve(config)
    experiment, length = find_experiment(config), config.learner.unroll_length
    assert isinstance(experiment, ActorExperiment)
    size = UnrollReplay(step_spec(experiment), length, UNROLLS).nbytes / (UNROLLS * length)
    return size, size * transitions / 1e9


def refer_memory(transitions: int) -> tuple[float, float]:
    """Returns bytes per transition and GB of a `ReferMemory` with `transitions` transitions."""
    stored = ReferMemory(EPISODES * EPISODE_STEPS, *HALFCHEETAH, EPISODE_STEPS, discount=0.995)
    states, actions = (np.zeros((EPISODE_STEPS + 1, size), np.float32) for size in HALFCHEETAH)
    actions, numbers = actions[1:], np.zeros(EPISODE_STEPS + 1, np.float32)
    for _ in range(EPISODES):
        stored.add_episode(states, actions, numbers[1:], actions, actions + 1.0, numbers, False)
    arrays = (array for array in stored.get_state().values() if isinstance(array, np.ndarray))
    size = sum(array.nbytes for array in arrays) / len(stored)
    return size, size * transitions / 1e9


def summarise(results: Sequence[Mapping[str, Found]], transitions: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """Returns the result of the benchmark: medians over repeats.

    Args:
        results: for each repeat the rates by kind, scale and size.
        transitions: result of `memory`.
    """
    rows: dict[str, float] = {}
    spreads: dict[str, list[float]] = {}
    for name in results[0]:
        for field, values in zip(Found._fields, zip(*(result[name] for result in results))):
            if None in values:
                continue
            rows[f"{name}: {field}"] = float(np.median(values))
            spreads[f"{name}: {field}"] = [min(values), max(values)]
    for agent, (size, gigabytes) in transitions.items():
        rows[f"{agent}: bytes_per_transition"] = size
        rows[f"{agent}: GB at the paper's size"] = gigabytes
    return {
        "what": "replay",
        "unit": "sequences_per_second",
        "rows": rows,
        "spreads": spreads,
        "ratios": _ratios(rows),
        "hardware": records.hardware(),
        "versions": records.versions(),
    }


def _ratios(rows: Mapping[str, float]) -> dict[str, float]:
    """Returns ratios of rates: of the largest to the smallest replay, and of Reverb to memory at the largest size."""
    first, *others = KINDS
    ratios = {}
    for scale, sizes in SIZES.items():
        for field in ("written", "sampled"):
            for kind in (first, *others[:-1]):
                small, large = (rows[f"{kind}, {scale}, {size}: {field}"] for size in (sizes[0], sizes[-1]))
                ratios[f"{field}, {kind}, {scale}: {sizes[-1]} over {sizes[0]}"] = large / small
            for kind in others:
                ends = (rows[f"{one}, {scale}, {sizes[-1]}: {field}"] for one in (kind, first))
                ratios[f"{field}, {scale}: {kind} over {first}"] = next(ends) / next(ends)
    return ratios
