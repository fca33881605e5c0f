"""Messages between a learner and actors in processes of their own, by a Reverb server in the learner's process.

Besides experience the server holds the learner's latest weights, their version alone, and a queue of finished games.
For a replay of sequences it also has a queue of reports of the unrolls that were stored.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import reverb
import tensorflow as tf
from reverb.platform.default.checkpointers import DefaultCheckpointer
from tf_agents.experimental.distributed import reverb_variable_container

from repro.acting.machines import check_reached
from repro.acting.rollout import Episode, unpack_episodes
from repro.acting.weights import WeightsPublisher, WeightsSnapshot
from repro.acting.weights_relay import WeightsRelay
from repro.quiet import suppress_stderr

WEIGHTS, VERSION, UNROLLS, GAMES, REPLAY = "weights", "version", "played_unrolls", "games", "replay"
"""Names of tables. Older checkpoints have a queue "unrolls" with other rows, which is dropped with its contents."""
MAX_REPORTS = 100_000
"""Largest number of reports of games that wait for the learner."""
GAMES_SECONDS = 1.0
"""Time between two reads of finished games by the learner, each of which takes milliseconds of an update. Games of a
run's last second are not counted."""
RETRY_SECONDS = 1.0
"""Time between two calls of a replay that has just started."""

PUBLISHED_SPEC = tf.TensorSpec([2], tf.int64)
"""Version of the weights, and a random number of the learner's process, since another process may get its address."""
UNROLL_SPEC = tf.TensorSpec([5], tf.float64)
"""The fields of `PlayedUnroll`."""
REPLAY_SPEC = tf.TensorSpec([1], tf.int64)
"""Port of the learner's machine that leads to the replay."""
GAMES_SPEC = tf.TensorSpec([None, 3], tf.float64)
"""Score, frames and task of finished games."""


class PlayedUnroll(NamedTuple):
    """Report of an actor about steps that it stored.

    actor: number of the actor.
    start: how often it was started before.
    steps: number of steps, of all its environments.
    version: version of its weights.
    machine: number of its machine, see `machines.machine_number`.
    """

    actor: int
    start: int
    steps: int
    version: int
    machine: int


def make_tables(variables: Sequence[tf.Variable], waiting_unrolls: int | None = None) -> list[reverb.Table]:
    """Returns the tables.

    Args:
        variables: variables with the shapes and types of the weights.
        waiting_unrolls: number of reported unrolls that may wait for the learner, while an actor with another one waits
            itself; None for no queue of them.
    """
    weights = [PUBLISHED_SPEC, *(tf.TensorSpec(v.shape, v.dtype) for v in variables)]
    unrolls = [reverb.Table.queue(UNROLLS, waiting_unrolls, signature=UNROLL_SPEC)] if waiting_unrolls else []
    return [
        _newest(WEIGHTS, weights),
        _newest(VERSION, [PUBLISHED_SPEC]),
        *unrolls,
        reverb.Table.queue(GAMES, MAX_REPORTS, signature=GAMES_SPEC),
    ]


def start_server(tables: Sequence[reverb.Table], port: int | None = None) -> reverb.Server:
    """Starts a Reverb server that saves nothing.

    Without a path for checkpoints Reverb would make a temporary folder and leave it behind; here it gets one that
    cannot exist, so that it finds no checkpoint.

    Args:
        tables: tables to serve.
        port: port to listen on; None for a free one.
    """
    with suppress_stderr():
        return reverb.Server(tables, port, checkpointer=DefaultCheckpointer(f"{os.devnull}/none"))


def make_replay_table() -> reverb.Table:
    """Returns the table for the port that leads to a replay in a process of its own."""
    return _newest(REPLAY, [REPLAY_SPEC])


def publish_replay(address: str, port: int) -> None:
    """Publishes the port of the replay, given the address of the server with the table of `make_replay_table`."""
    reverb.Client(address).insert([np.array([port], np.int64)], {REPLAY: 1.0})


def find_replay(address: str) -> str:
    """Waits until there is a replay; returns its address for writers, given the address of the learner's server.

    Raises:
        OSError: this machine does not reach the port that leads to it.
    """
    with suppress_stderr():
        (sample,) = reverb.Client(address).sample(REPLAY, 1, emit_timesteps=False)
    host, port = address.rsplit(":", 1)[0], int(sample.data[0].ravel()[0])
    check_reached(host, port)
    client = reverb.Client(f"{host}:{port}")
    while True:
        with contextlib.suppress(RuntimeError):  # the connection ends when the replay starts
            client.server_info()
            return f"{host}:{port}"
        time.sleep(RETRY_SECONDS)


def _newest(name: str, signature: list[tf.TensorSpec]) -> reverb.Table:
    """A table that holds the last insert alone."""
    return reverb.Table(
        name,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=1,
        rate_limiter=reverb.rate_limiters.MinSize(1),
        signature=signature,
    )


class RemoteWeights(WeightsPublisher):
    """Publishes to other processes, too, and keeps the variables for gradients at the weights that acted.

    Unrolls carry only the version of their weights, so the learner has to keep these variables until they have come.

    Args:
        variables: the learner's variables, in the order of the actors' policy variables.
        acting, delay: as for `WeightsPublisher`.
        max_kept: number of versions of `acting` to keep, at least 1; the oldest are dropped first.
    """

    def __init__(
        self,
        variables: Sequence[tf.Variable],
        *,
        acting: Sequence[tf.Variable] = (),
        delay: int = 0,
        max_kept: int = 1,
    ) -> None:
        super().__init__(variables, acting=acting, delay=delay)
        self._container: reverb_variable_container.ReverbVariableContainer | None = None
        self._token = secrets.randbits(63)
        self._max_kept = max_kept
        self._kept: dict[int, tuple[tf.Tensor, ...]] = {}  # by version, in order
        self._lock = threading.Lock()  # guards `_kept`

    def acting_at(self, version: int) -> tuple[tf.Tensor, ...] | None:
        """Returns the values of `acting` at a version; () if it is empty, None if they were dropped."""
        with self._lock:
            return self._kept.get(version) if self.latest.acting else ()

    def clear_before(self, version: int) -> None:
        """Drops all versions before one, once no unroll of them can come any more."""
        with self._lock:
            while self._kept and next(iter(self._kept)) < version:
                del self._kept[next(iter(self._kept))]

    def connect(self, address: str) -> None:
        """Begins to publish to a server with the tables of `make_tables`, first the latest snapshot if there is one."""
        with suppress_stderr():
            self._container = reverb_variable_container.ReverbVariableContainer(address, [WEIGHTS, VERSION])
        if self.latest.values:
            self._push()

    def publish(self, version: int) -> None:
        super().publish(version)
        if self.latest.acting:
            with self._lock:
                self._kept[self.latest.version] = self.latest.acting
                if len(self._kept) > self._max_kept:
                    del self._kept[next(iter(self._kept))]
        if self._container is not None:
            self._push()

    def _push(self) -> None:
        assert self._container is not None
        published = tf.constant(np.array([self.latest.version, self._token], np.int64))
        self._container.push([published, *self.latest.values], WEIGHTS)
        self._container.push([published], VERSION)


class PulledWeights:
    """The latest published weights, in an actor's process; all actors of a machine fetch each version only once.

    Args:
        address: address of the server.
    """

    def __init__(self, address: str) -> None:
        with suppress_stderr():
            self._container = reverb_variable_container.ReverbVariableContainer(address, [WEIGHTS, VERSION])
        self._address = address
        self._relay: WeightsRelay | None = None
        self._held: WeightsSnapshot | None = None

    @property
    def latest(self) -> WeightsSnapshot:
        version, token = (int(x) for x in self._container.pull(VERSION)[0])
        relay = self._relay_of(token)
        if self._held is None or self._held.version < version:
            (newest, _), *values = relay.get(version, lambda: self._container.pull(WEIGHTS))
            self._held = WeightsSnapshot(int(newest), tuple(values))
        return self._held

    def _relay_of(self, token: int) -> WeightsRelay:
        """The relay for a learner's process; an earlier one's weights are dropped, since its versions may be higher."""
        if self._relay is None or self._relay.token != token:
            if self._relay is not None:
                self._relay.close()
            signature = reverb.Client(self._address).server_info()[WEIGHTS].signature
            self._relay, self._held = WeightsRelay(self._address, token, signature), None
        return self._relay


class Reporter:
    """Reports to the learner what an actor played.

    Args:
        client: client of the server.
        actor, start, machine: see `PlayedUnroll`.
    """

    def __init__(self, client: reverb.Client, actor: int, start: int, machine: int) -> None:
        self._client = client
        self._actor, self._start, self._machine = actor, start, machine
        self._episodes: list[Episode] = []

    def append(self, episode: Episode) -> None:
        """Adds a finished game."""
        self._episodes.append(episode)

    def report_games(self) -> None:
        """Sends the games that ended since the last call; if the connection breaks, some may be lost.

        They are not sent again, since the server may have them and no game may count twice.
        """
        if self._episodes:
            self._insert(self._episodes, GAMES)
        self._episodes.clear()

    def report(self, steps: int, version: int) -> None:
        """Sends the steps since the last call, and the games that ended; waits while the learner is behind.

        If the connection breaks, these steps may not be counted, like games in `report_games`, though the replay has
        them; the wait then ends, and the next report waits again.
        """
        self.report_games()
        self._insert(PlayedUnroll(self._actor, self._start, steps, version, self._machine), UNROLLS)

    def _insert(self, data: Sequence[object], table: str) -> None:
        with contextlib.suppress(RuntimeError):  # raised by Reverb when a connection breaks
            self._client.insert(np.array(data, np.float64), {table: 1.0})


class Reports:
    """Reads the reports of all actors, for the learner.

    Args:
        address: address of the server.
    """

    def __init__(self, address: str) -> None:
        self._client = reverb.Client(address)
        self._next_games = 0.0

    def read_unrolls(self, max_count: int) -> list[PlayedUnroll]:
        """Returns the next unrolls, at most `max_count`, without waiting. Each one that is read lets an actor go on."""
        rows = self._read(UNROLLS, max_count)
        return [PlayedUnroll(*(int(x) for x in row.ravel())) for row in rows]

    def read_games(self) -> list[Episode]:
        """Returns the games that ended since the last read; none within `GAMES_SECONDS` of it."""
        if time.monotonic() < self._next_games:
            return []
        self._next_games = time.monotonic() + GAMES_SECONDS
        return [game for report in self._read(GAMES, MAX_REPORTS) for game in unpack_episodes(report)]

    def _read(self, table: str, max_count: int) -> list[np.ndarray]:
        count = min(max_count, int(self._client.server_info()[table].current_size))
        if not count:
            return []
        with suppress_stderr():
            return [sample.data[0] for sample in self._client.sample(table, count, emit_timesteps=False)]
