"""Unrolls that actors in other processes play, on their way to the learner through a queue of Reverb's.

A group of unrolls is one item of the queue: its header, and the arrays of `UnrollGroup` as they are. The queue's rate
limiter lets an actor wait while it is full, and gives out every group once, in the order of their coming.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import reverb
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.acting.unrolls import UnrollGroup
from repro.environments.specs import unwrapped
from repro.quiet import suppress_stderr

EXPERIENCE = "experience"
"""Name of the queue."""


class Header(NamedTuple):
    """What an actor says of a group of unrolls.

    actor: its number. start: how often it was started before. number: of the group since then, from 0. version: of the
    weights that played it. machine: that it was played on, see `machine_number`.
    """

    actor: int
    start: int
    number: int
    version: int
    machine: int


def own_address(server: str) -> str:
    """Returns the address that this machine has on its way to a server, given as host and port.

    Raises:
        OSError: there is no way.
    """
    host, port = server.rsplit(":", 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # which sends nothing
        probe.connect((host, int(port)))
        return str(probe.getsockname()[0])


def machine_number(address: str) -> int:
    """Returns the number that an address (IPv4) stands for."""
    return int(ipaddress.IPv4Address(address))


def make_queue(spec: Trajectory, group_size: int, unroll_length: int, max_groups: int) -> reverb.Table:
    """The queue.

    Args:
        spec: of one step of one environment.
        group_size: unrolls of a group.
        unroll_length: T; an unroll has T + 1 rows.
        max_groups: that may wait for the learner; an actor with another one waits itself.
    """
    rows = [
        tf.TensorSpec([group_size, unroll_length + 1, *leaf.shape], leaf.dtype)
        for leaf in tf.nest.flatten(unwrapped(spec))
    ]
    signature = [tf.TensorSpec([len(Header._fields)], tf.int64), *rows]
    return reverb.Table.queue(EXPERIENCE, max_groups, signature=signature)


class UnrollSender:
    """An actor's end of the queue.

    Args:
        client: of the server.
        actor, start: see `Header`.
        machine: see `Header`.
    """

    def __init__(self, client: reverb.Client, actor: int, start: int, machine: int) -> None:
        self._writer = client.trajectory_writer(num_keep_alive_refs=1)
        self._actor, self._start, self._machine = actor, start, machine
        self._sent = 0

    def send(self, groups: Sequence[UnrollGroup]) -> None:
        """Returns when the queue has all of them; waits while it is full."""
        for group in groups:
            header = Header(self._actor, self._start, self._sent, group.version, self._machine)
            self._writer.append([np.array(header, np.int64), *tf.nest.flatten(group.arrays)])
            self._writer.create_item(EXPERIENCE, 1.0, [column[-1] for column in self._writer.history])
            self._sent += 1
            self._writer.flush()


class UnrollReader:
    """The learner's end of the queue.

    Args:
        address: of the server.
    """

    def __init__(self, address: str) -> None:
        self._client = reverb.Client(address)

    def read_into(self, group: UnrollGroup) -> Header | None:
        """Takes the next group out of the queue, if there is one; `group` gets its arrays and its version."""
        if not self._client.server_info()[EXPERIENCE].current_size:
            return None
        with suppress_stderr():
            sample = next(self._client.sample(EXPERIENCE, 1, emit_timesteps=False))
        header = Header(*(int(x) for x in sample.data[0]))
        group.set_rows(slice(None), sample.data[1:])
        group.version, group.actor = header.version, header.actor
        return header
