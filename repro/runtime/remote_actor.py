"""What an actor's process does: play, store sequences, report, fetch weights, until the learner is gone."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import NoReturn

import reverb
from tf_agents.trajectories import Trajectory

from repro.replay.sequence_writer import write_group
from repro.replay.sequences import SequenceSettings, make_writer
from repro.runtime.actor import Actor
from repro.runtime.remote import Reporter
from repro.runtime.unrolls import UnrollGroup

LOOK_SECONDS = 2.0
PATIENCE_SECONDS = 60.0
"""With a machine that does not answer."""


def play_for(
    actor: Actor, spec: Trajectory, settings: SequenceSettings, reporter: Reporter, address: str, steps: int, renew: int
) -> NoReturn:
    """Plays for ever; the process ends when the server is gone.

    Args:
        actor: whose weights come from the server, and whose games go to `reporter`.
        spec: of one step of one environment.
        settings: of the replay.
        reporter: to the learner.
        address: of the server.
        steps: T of an unroll, after which it is stored and reported.
        renew: unrolls between two looks at the weights.
    """
    client = reverb.Client(address)
    threading.Thread(target=_end_with, args=(address,), daemon=True).start()
    num_envs = actor.environment.num_envs
    writers = [make_writer(client, spec, settings) for _ in range(num_envs)]
    group, unrolls = UnrollGroup(spec, num_envs, steps), 0
    while True:
        if unrolls % renew == 0:
            actor.renew_weights()
        actor.collect([group])
        write_group(writers, group.arrays)
        reporter.report(steps * num_envs, group.version)
        unrolls += 1


def _end_with(address: str) -> None:
    """Ends this process once the server is gone; a writer would wait for another one to come."""
    host, port = address.rsplit(":", 1)
    while True:
        time.sleep(LOOK_SECONDS)
        try:
            socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS).close()
        except OSError:
            os._exit(0)
