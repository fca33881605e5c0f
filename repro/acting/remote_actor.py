"""The loop of an actor's process: play, send what it played, report, fetch weights, until the learner is gone."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from typing import NoReturn

import numpy as np
import reverb
from tf_agents.trajectories import Trajectory

from repro.acting import weights_relay
from repro.acting.actor import Actor
from repro.acting.batches import GroupSizes
from repro.acting.remote import Reporter
from repro.acting.remote_unrolls import UnrollSender
from repro.acting.unrolls import UnrollGroup
from repro.replay.sequence_writer import Priority, SequenceSettings, write_group
from repro.replay.sequences import make_writer

LOOK_SECONDS = 2.0
"""Time between two checks whether the server is there."""
MAX_FAILED_LOOKS = 3
"""Failed checks in a row after which the process ends; a single one may be due to a busy machine."""
PATIENCE_SECONDS = 60.0
"""Longest wait for a machine that cannot be reached, at each check."""


def run_actor(
    actor: Actor,
    spec: Trajectory,
    settings: SequenceSettings,
    priority: Priority | None,
    reporter: Reporter,
    replay: str,
    steps: int,
) -> NoReturn:
    """Plays forever for a replay of sequences; `begin` must have been called, so that the process ends with the server.

    Args:
        actor: actor with weights from the server, whose games go to `reporter`.
        spec: spec of one step of one environment.
        settings: settings of the replay.
        priority: computes the priority of new sequences; None for 1.
        reporter: reports to the learner.
        replay: address of the replay's server.
        steps: length T of an unroll, after which it is stored and reported and the actor takes new weights.
    """
    client = reverb.Client(replay)
    num_envs = actor.environment.num_envs
    writers = [make_writer(client, spec, settings, priority) for _ in range(num_envs)]
    group = UnrollGroup(spec, num_envs, steps)
    while True:
        actor.sync_weights()
        actor.collect([group])
        write_group(writers, group.arrays)
        reporter.report(steps * num_envs, group.version)


def run_unroll_actor(
    actor: Actor, make_group: Callable[[], UnrollGroup], sizes: GroupSizes, sender: UnrollSender, reporter: Reporter
) -> NoReturn:
    """Plays forever for a learner that learns from the unrolls themselves; `begin` must have been called.

    Args:
        actor: actor with weights from the server, whose games go to `reporter`.
        make_group: allocates the memory of one group.
        sizes: sizes of the groups.
        sender: sends groups to the learner's queue.
        reporter: reports to the learner.
    """
    groups = [make_group() for _ in range(sizes.per_actor)]
    while True:
        actor.sync_weights()
        actor.collect(groups)
        reporter.report_games()
        sender.send(groups)


def begin(num_actors: int, seed: int, index: int, start: int, address: str) -> tuple[int, int]:
    """Returns the seeds of an actor's environment and of its sampling, after a call of `end_with`.

    Args:
        num_actors: number of actors of the run.
        seed: seed of the run, from which those of the actor follow.
        index: number of the actor, from 0.
        start: how often it was started before.
        address: address of the server.

    Raises:
        ValueError: the run has no such actor.
    """
    if index >= num_actors:
        raise ValueError(f"There is no actor {index}: runtime.num_actors={num_actors}.")
    end_with(address)
    environment_seed, action_seed = np.random.SeedSequence(seed, spawn_key=(index, start)).generate_state(2) % 2**31
    return int(environment_seed), int(action_seed)


def end_with(address: str) -> None:
    """Ends this process once no server is at an address; to be called before the first call of Reverb.

    Such a call waits for a server, which may already be gone when this process starts and never come back.
    """
    threading.Thread(target=_watch, args=(address,), daemon=True).start()


def _watch(address: str) -> None:
    failed = 0
    while failed < MAX_FAILED_LOOKS:
        time.sleep(LOOK_SECONDS)
        failed = 0 if _answers(address) else failed + 1
    weights_relay.close_all()
    os._exit(0)


def _answers(address: str) -> bool:
    """Whether a server is there; waits for a machine that cannot be reached, but not if it refuses the connection."""
    host, port = address.rsplit(":", 1)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS).close()
            return True
        except ConnectionRefusedError:
            return False
        except OSError:
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS)
