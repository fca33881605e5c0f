"""Actors in processes of their own, which meet the learner at the replay's Reverb server.

Besides the sequences it has two tables: one with the learner's latest weights, and a queue of what actors report.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import reverb
import tensorflow as tf
from tf_agents.experimental.distributed import reverb_variable_container

from repro.quiet import quiet_stderr
from repro.runtime.actor import Episode
from repro.runtime.weights import WeightsPublisher, WeightsSnapshot

WEIGHTS, REPORTS = "weights", "reports"
MOST_REPORTS = 100_000
REPORT = tf.TensorSpec([4], tf.float64)
"""Environment steps since the report before, the version of the weights, and a finished game's score and frames, which
are NaN where no game ended."""


def make_tables(variables: Sequence[tf.Variable]) -> list[reverb.Table]:
    """The tables, for weights like these variables."""
    signature = [tf.TensorSpec([], tf.int64), *(tf.TensorSpec(v.shape, v.dtype) for v in variables)]
    newest = reverb.Table(
        WEIGHTS,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=1,
        rate_limiter=reverb.rate_limiters.MinSize(1),
        signature=signature,
    )
    return [newest, reverb.Table.queue(REPORTS, MOST_REPORTS, signature=REPORT)]


class RemoteWeights(WeightsPublisher):
    """Publishes to other processes, too.

    Args:
        variables: the learner's variables, in the order of the actors' policy variables.
    """

    def __init__(self, variables: Sequence[tf.Variable]) -> None:
        super().__init__(variables)
        self._container: reverb_variable_container.ReverbVariableContainer | None = None

    def connect(self, address: str) -> None:
        """Begins to publish to a server with `make_tables`."""
        with quiet_stderr():
            self._container = reverb_variable_container.ReverbVariableContainer(address, [WEIGHTS])

    def publish(self, version: int) -> None:
        super().publish(version)
        if self._container is not None:
            self._container.push([tf.constant(version, tf.int64), *self.latest.values], WEIGHTS)


class PulledWeights:
    """The latest published weights, in an actor's process; a look at them fetches them.

    Args:
        address: of the server.
    """

    def __init__(self, address: str) -> None:
        with quiet_stderr():
            self._container = reverb_variable_container.ReverbVariableContainer(address, [WEIGHTS])

    @property
    def latest(self) -> WeightsSnapshot:
        version, *values = self._container.pull(WEIGHTS)
        return WeightsSnapshot(int(version), tuple(values))


class Reporter:
    """Tells the learner what an actor played.

    Args:
        client: of the server.
    """

    def __init__(self, client: reverb.Client) -> None:
        self._client = client
        self._episodes: list[Episode] = []

    def append(self, episode: Episode) -> None:
        """A game ended."""
        self._episodes.append(episode)

    def report(self, steps: int, version: int) -> None:
        """Sends the steps since the last call, and the games that ended."""
        rows = [(0.0, version, episode.score, episode.frames) for episode in self._episodes]
        for row in [*rows, (steps, version, np.nan, np.nan)]:
            self._client.insert(np.array(row, np.float64), {REPORTS: 1.0})
        self._episodes.clear()


class Reports:
    """What all actors told, as the learner reads it.

    Args:
        address: of the server.
    """

    def __init__(self, address: str) -> None:
        self._client = reverb.Client(address)

    def forget(self) -> None:
        """Drops what was reported before the server was last saved."""
        self._client.reset(REPORTS)

    def read(self) -> tuple[int, float, list[Episode]]:
        """Steps since the last call, the mean version of their weights (NaN without steps), and games that ended."""
        waiting = int(self._client.server_info()[REPORTS].current_size)
        if not waiting:
            return 0, float("nan"), []
        with quiet_stderr():
            rows = [sample.data[0] for sample in self._client.sample(REPORTS, waiting, emit_timesteps=False)]
        table = np.array(rows, np.float64).reshape(-1, 4)
        played = table[np.isnan(table[:, 2])]
        games = table[~np.isnan(table[:, 2])]
        steps = played[:, 0].sum()
        version = float((played[:, 0] * played[:, 1]).sum() / steps) if steps else float("nan")
        return int(steps), version, [Episode(float(score), int(frames)) for _, _, score, frames in games]
