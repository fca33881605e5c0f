"""Unrolls of actors in other processes, on their way to the learner through a Reverb queue.

A group of unrolls is one item of the queue: its header, and the arrays of `UnrollGroup` as they are. The queue's rate
limiter makes an actor wait while it is full, and hands out every group once, in order of arrival.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import reverb
import tensorflow as tf

from repro.acting.unrolls import UnrollGroup
from repro.quiet import suppress_stderr

EXPERIENCE = "experience"
"""Name of the queue."""
MAX_GROUPS = 2**40
"""Largest number of groups that a learner reads."""
NOBODY = -1
"""Used as the actor's number in groups that do not count."""
END_MS = 1000
"""Longest wait for room in the queue when reading ends."""


class Header(NamedTuple):
    """Header of a group of unrolls, written by its actor.

    actor: number of the actor.
    start: how often it was started before.
    number: number of the group since that start, from 0.
    version: version of the weights that played it.
    machine: number of the machine that it was played on, see `machines.machine_number`.
    """

    actor: int
    start: int
    number: int
    version: int
    machine: int


def make_queue(group: UnrollGroup, max_groups: int) -> reverb.Table:
    """Returns the queue.

    Args:
        group: group with the shapes of those that will come.
        max_groups: number of groups that may wait for the learner, while an actor with another one waits itself.
    """
    arrays = [tf.TensorSpec(array.shape, array.dtype) for array in tf.nest.flatten(group.arrays)]
    signature = [tf.TensorSpec([len(Header._fields)], tf.int64), *arrays]
    return reverb.Table.queue(EXPERIENCE, max_groups, signature=signature)


class UnrollSender:
    """An actor's end of the queue.

    Args:
        client: client of the server.
        actor, start, machine: see `Header`.
    """

    def __init__(self, client: reverb.Client, actor: int, start: int, machine: int) -> None:
        self._writer = client.trajectory_writer(num_keep_alive_refs=1)
        self._actor, self._start, self._machine = actor, start, machine
        self._sent = 0

    def send(self, groups: Sequence[UnrollGroup], timeout_ms: int | None = None) -> None:
        """Puts groups into the queue, waiting while it is full.

        Raises:
            reverb.errors.DeadlineExceededError: a group had to wait longer than `timeout_ms`.
        """
        for group in groups:
            header = Header(self._actor, self._start, self._sent, group.version, self._machine)
            self._writer.append([np.array(header, np.int64), *tf.nest.flatten(group.arrays)])
            self._writer.create_item(EXPERIENCE, 1.0, [column[-1] for column in self._writer.history])
            self._sent += 1
            self._writer.flush(timeout_ms=timeout_ms)


class UnrollReader:
    """The learner's end of the queue, which holds one group in advance.

    Reverb prints a line when reading begins, which is suppressed. To begin at once, the reader sends itself a first
    group of zeros.

    Args:
        address: address of the server, whose queue is empty.
        group: group with the shapes of those that will come.
    """

    def __init__(self, address: str, group: UnrollGroup) -> None:
        client = reverb.Client(address)
        self._sender, self._group = UnrollSender(client, actor=NOBODY, start=0, machine=0), group
        self._sender.send([group])
        self._samples = client.sample(EXPERIENCE, MAX_GROUPS, emit_timesteps=False)
        with suppress_stderr():
            next(self._samples)

    def read_into(self, group: UnrollGroup) -> Header:
        """Waits for the next group of the queue; `group` gets its arrays and its version."""
        header, *arrays = next(self._samples).data
        group.set_all(arrays)
        found = Header(*(int(x) for x in header))
        group.version, group.actor = found.version, found.actor
        return found

    def end_wait(self) -> None:
        """Ends a wait for a group, from another thread, by sending a group that does not count."""
        with contextlib.suppress(reverb.errors.DeadlineExceededError):  # the queue is full, and nobody waits
            self._sender.send([self._group], END_MS)
