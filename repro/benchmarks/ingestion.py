"""Benchmark of how many agent steps a learner takes in, by the number of actors, and of the cores of each side."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_collections
import numpy as np
import psutil
import reverb
import tensorflow as tf
from tf_agents.policies import tf_policy

from paper_configs.impala import atari_shallow, gymnasium
from repro.acting.actor import Actor
from repro.acting.actor_processes import ActorProcesses
from repro.acting.batches import GroupSizes
from repro.acting.remote import WEIGHTS, RemoteWeights, start_server
from repro.acting.remote_source import RemoteSource
from repro.acting.remote_unrolls import UnrollSender, make_queue
from repro.acting.supervision import Supervision
from repro.acting.unrolls import UnrollGroup
from repro.benchmarks.measuring import actor_learner, timing
from repro.benchmarks.measuring.senders import SenderLauncher
from repro.evidence import records
from repro.memory import as_tensor
from repro.papers.impala.experiments.discrete import DiscreteExperiment
from repro.quiet import suppress_stderr
from repro.training import devices

COUNTS = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of actors that are measured."""
CONFIGS = {"atari": atari_shallow, "vector": gymnasium}
"""Kinds of unrolls: Pong, with each frame sent once and weights of the shallow network, and CartPole."""
ENVS, BATCH = 8, 32
"""Environments of an actor, whose unrolls make up a message, and unrolls of a batch."""
PLAYED = 20
"""Unrolls that are played; the last one is sent."""
SATURATED = 0.9
"""Share of the highest rate from which on more actors count as no gain."""
TRIES = 10
"""Number of messages whose bytes are counted."""
MEGA = 1e6


class Played(NamedTuple):
    """Unrolls that are sent.

    group: unrolls of one actor.
    policy: policy whose variables are published.
    length: length T of an unroll.
    size, sent: bytes of the group in memory and on the network.
    """

    group: UnrollGroup
    policy: tf_policy.TFPolicy
    length: int
    size: int
    sent: int


class Used(NamedTuple):
    """Time and resources used up to a moment, or between two moments.

    seconds: seconds of the clock.
    learner, senders: Core-seconds of the learner's process, which has the server, and of all senders.
    fetched: how often actors have fetched weights.
    """

    seconds: float
    learner: float
    senders: float
    fetched: float


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Measures a learner that takes batches from `RemoteSource` and publishes weights after each, but does not learn.

    All processes are on this machine and share its cores. A part is the rate that one side would have with all of these
    cores, from the core time that it used per step while both sides worked. The bound is the rate of cores that are
    never idle, so a ratio near 1 means that the cores are the bottleneck. Both are for Atari, at the number of actors
    with the highest rate.

    Args:
        seconds: length of the measurement of each number of actors in seconds.
        repeats: how often everything is measured.
    """
    devices.configure_threads(deterministic=False)
    played = {name: play(config.get_config("paper")) for name, config in CONFIGS.items()}
    results = [
        {name: [measure_count(x, count, seconds) for count in COUNTS] for name, x in played.items()}
        for _ in range(repeats)
    ]
    return summarise(results)


def play(config: ml_collections.ConfigDict) -> Played:
    """Plays and returns an actor's unrolls under its first weights, from the middle of its games."""
    experiment = DiscreteExperiment(config)
    environment, length = experiment.make_environment(ENVS, seed=0), config.learner.unroll_length
    policy = experiment.make_local_policy(environment)
    weights, group = RemoteWeights(policy.variables()), UnrollGroup(policy.trajectory_spec, ENVS, length)
    weights.publish(0)
    actor = Actor(environment, policy, weights, length, 0, lambda episode: None)
    actor.sync_weights()
    for _ in range(PLAYED):
        actor.collect([group])
    environment.close()
    size = sum(array.nbytes for array in tf.nest.flatten(group.arrays))
    return Played(group, policy, length, size, sent_bytes(group))


def measure_count(played: Played, count: int, seconds: float) -> dict[str, float]:
    """Returns the rates with `count` actors, once each has sent something, and the cores that both sides used."""
    weights, launcher = RemoteWeights(played.policy.variables()), SenderLauncher(played.group)
    sizes, brought = GroupSizes(ENVS, BATCH), set[int]()
    weights.publish(0)

    def learn() -> None:
        batch = source.next()
        brought.update(group.actor for group in batch.groups)
        source.release(batch)
        weights.publish(weights.latest.version + 1)

    with tempfile.TemporaryDirectory() as folder:
        source = RemoteSource(
            ActorProcesses(launcher, count, Supervision(print, Path(folder))),
            weights,
            make_group=lambda: UnrollGroup(played.group.spec, sizes.group, played.length),
            sizes=sizes,
            queue_capacity=1,
            to_device=lambda batch: tf.nest.map_structure(as_tensor, batch),
            on_episode=lambda episode: None,
        )
        try:
            while len(brought) < count:
                learn()
            first, before = weights.latest.version, used(launcher)
            while time.perf_counter() - before.seconds < seconds:
                learn()
            updates, after = weights.latest.version - first, used(launcher)
        finally:
            source.close()
    spent = Used(*(b - a for a, b in zip(before, after)))
    steps = updates * BATCH * played.length / spent.seconds
    per_step = MEGA * ENVS * played.length
    return {
        "actors": count,
        "steps_per_second": steps,
        "megabytes_per_second": steps * played.size / per_step,
        "sent_megabytes_per_second": steps * played.sent / per_step,
        "weights_fetched_per_version": spent.fetched / updates,
        "learner_cores": spent.learner / spent.seconds,
        "sender_cores": spent.senders / spent.seconds,
    }


def used(launcher: SenderLauncher) -> Used:
    """Returns the time and resources used up to now."""

    def seconds(process: psutil.Process) -> float:
        times = process.cpu_times()
        return times.user + times.system

    senders = sum(seconds(psutil.Process(sender.pid)) for sender in launcher.senders)
    fetched = reverb.Client(launcher.address).server_info()[WEIGHTS].rate_limiter_info.sample_stats.completed
    return Used(time.perf_counter(), seconds(psutil.Process()), senders, fetched)


def sent_bytes(group: UnrollGroup) -> int:
    """Returns the bytes of a compressed message on the network.

    It is the smallest number of several messages, since other programs may send at the same time.
    """
    found = []
    server = start_server([make_queue(group, TRIES)])
    with suppress_stderr():
        sender = UnrollSender(reverb.Client(f"localhost:{server.port}"), 0, 0, 0)
        for _ in range(TRIES):
            before = _loopback_bytes()
            sender.send([group])
            found.append(_loopback_bytes() - before)
        server.stop()
    return min(found)


def _loopback_bytes() -> int:
    return psutil.net_io_counters(pernic=True, nowrap=False)["lo"].bytes_sent


def summarise(results: Sequence[Mapping[str, Sequence[Mapping[str, float]]]]) -> dict[str, Any]:
    """Returns the result of the benchmark: medians over repeats, and the lowest and the highest rate.

    Args:
        results: for each repeat and kind of unrolls the results of `measure_count` for each number of actors.
    """
    curves: dict[str, list[dict[str, Any]]] = {}
    for name in results[0]:
        curves[name] = []
        for points in zip(*(result[name] for result in results)):
            rates = [point["steps_per_second"] for point in points]
            medians = {field: float(np.median([point[field] for point in points])) for field in points[0]}
            curves[name].append({**medians, "spread": [min(rates), max(rates)]})
    best = int(np.argmax([point["steps_per_second"] for point in curves["atari"]]))
    found = timing.summarise(
        "ingestion", actor_learner.UNIT, [_at(result["atari"][best]) | {"curves": result} for result in results]
    )
    return {
        **found,
        "curves": curves,
        "saturation": {name: saturation(curve) for name, curve in curves.items()},
        "rows": {
            f"{name}, actors: {point['actors']:.0f}": point["steps_per_second"]
            for name, curve in curves.items()
            for point in curve
        },
        "ratios": {"cores in use at the highest rate of atari": found["ratio"]},
    }


def saturation(curve: Sequence[Mapping[str, Any]]) -> int:
    """Returns the fewest actors of a curve with at least the share `SATURATED` of its highest rate."""
    highest = max(point["steps_per_second"] for point in curve)
    return min(int(point["actors"]) for point in curve if point["steps_per_second"] >= SATURATED * highest)


def _at(point: Mapping[str, float]) -> dict[str, Any]:
    """Returns parts and whole at one number of actors."""
    rate, cores = point["steps_per_second"], records.hardware()["cores"]
    parts = {side: cores * rate / point[f"{side}_cores"] for side in ("sender", "learner")}
    return {"parts": parts, "whole": rate}
