"""Unrolls that actors in other processes play, on their way to the learner through a queue of Reverb's.

A group of unrolls is one item of the queue: its header, and the arrays of `UnrollGroup` as they are. The queue's rate
limiter lets an actor wait while it is full, and gives out every group once, in the order of their coming.
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
"""Most groups that a learner reads."""
NOBODY = -1
"""In place of an actor's number, in groups that do not count."""
END_MS = 1000
"""Longest wait for a place in the queue when reading ends."""


class Header(NamedTuple):
    """What an actor says of a group of unrolls.

    actor: its number. start: how often it was started before. number: of the group since then, from 0. version: of the
    weights that played it. machine: that it was played on, see `machines.machine_number`.
    """

    actor: int
    start: int
    number: int
    version: int
    machine: int


def make_queue(group: UnrollGroup, max_groups: int) -> reverb.Table:
    """The queue.

    Args:
        group: like those that come.
        max_groups: that may wait for the learner; an actor with another one waits itself.
    """
    arrays = [tf.TensorSpec(array.shape, array.dtype) for array in tf.nest.flatten(group.arrays)]
    signature = [tf.TensorSpec([len(Header._fields)], tf.int64), *arrays]
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

    def send(self, groups: Sequence[UnrollGroup], timeout_ms: int | None = None) -> None:
        """Returns when the queue has all of them; waits while it is full.

        Raises:
            reverb.errors.DeadlineExceededError: longer than `timeout_ms`.
        """
        for group in groups:
            header = Header(self._actor, self._start, self._sent, group.version, self._machine)
            self._writer.append([np.array(header, np.int64), *tf.nest.flatten(group.arrays)])
            self._writer.create_item(EXPERIENCE, 1.0, [column[-1] for column in self._writer.history])
            self._sent += 1
            self._writer.flush(timeout_ms=timeout_ms)


class UnrollReader:
    """The learner's end of the queue, out of which it holds one group ahead.

    Reverb writes a line on the screen when reading begins, which is kept off it. So that this takes no time, the first
    group is one of zeros, from here.

    Args:
        address: of the server, whose queue is empty.
        group: like those that come.
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
        """Ends a wait for a group, from another thread, by one that does not count."""
        with contextlib.suppress(reverb.errors.DeadlineExceededError):  # the queue is full, and nobody waits
            self._sender.send([self._group], END_MS)
