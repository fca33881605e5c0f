"""Actors in processes of their own, kept alive for a learner that learns from a replay."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from repro.replay.sequences import SequenceReplay
from repro.runtime.actor import Episode
from repro.runtime.players import PlayersError
from repro.runtime.remote import RemoteWeights, Reports

POLL_SECONDS = 0.2
QUICK_SECONDS = 20.0
"""An actor that ends sooner than this failed to start."""
MOST_QUICK_ENDS = 3


class RemotePlayers:
    """Starts an actor's process for each command, and again whenever one ends.

    The replay's limiter, not this class, holds actors and learner together: it makes whoever runs ahead wait.

    Args:
        replay: that is filled; its server has `remote.make_tables`.
        weights: the learner's.
        command: of an actor, given its number, how often it was started before, and the server's address.
        count: actors.
        on_episode: called with every finished game.
        first_frames: units of the budget that must be played before the learner may begin.
        frames_per_step: units of the budget in a step of an environment.
        logs: folder for what actors write on the screen.
        warn: called with one line when an actor is started again.
    """

    can_save = True

    def __init__(
        self,
        replay: SequenceReplay,
        weights: RemoteWeights,
        command: Callable[[int, int, str], Sequence[str]],
        count: int,
        on_episode: Callable[[Episode], None],
        *,
        first_frames: int,
        frames_per_step: int,
        logs: Path,
        warn: Callable[[str], None],
    ) -> None:
        self._replay = replay
        self._weights = weights
        self._command = command
        self._on_episode = on_episode
        self._first_frames = first_frames
        self._frames_per_step = frames_per_step
        self._logs = logs
        self._warn = warn
        self._frames = 0  # played, of the whole run
        self._version = 0.0
        self._last_read = 0.0
        self._stop = threading.Event()
        self._error: PlayersError | None = None
        self._warnings: deque[str] = deque()  # of the keepers, for the learner's thread to say
        self._keepers = [threading.Thread(target=self._keep, args=(i,), daemon=True) for i in range(count)]
        self._processes: dict[int, subprocess.Popen] = {}

    def start(self) -> None:
        address = self._replay.address
        self._weights.connect(address)
        self._reports = Reports(address)
        self._reports.forget()
        self._logs.mkdir(parents=True, exist_ok=True)
        for keeper in self._keepers:
            keeper.start()

    def play(self, gradient_steps: int, frames: int) -> float:
        """Waits only before the first gradient step; later the replay itself waits for new sequences."""
        while True:
            self.check()
            if time.monotonic() - self._last_read > POLL_SECONDS:
                self._read()
            if self._frames >= min(frames, self._first_frames):
                return gradient_steps - self._version
            time.sleep(POLL_SECONDS)

    def check(self) -> None:
        while self._warnings:
            self._warn(self._warnings.popleft())
        if self._error is not None:
            raise self._error

    def set_priority(self, priority: float) -> None:
        """New sequences enter with a priority of 1, which actors do not learn to change."""

    def flush(self) -> None:
        """What actors have not sent yet is not in the replay that is saved; they send it later."""

    def get_state(self) -> dict[str, Any]:
        return {"frames": self._frames}

    def set_state(self, state: dict[str, Any]) -> None:
        self._frames = state["frames"]

    def close(self) -> None:
        self._stop.set()
        for process in self._processes.values():
            process.terminate()
        for keeper in self._keepers:
            if keeper.is_alive():
                keeper.join(timeout=30)

    def _read(self) -> None:
        steps, version, episodes = self._reports.read()
        self._last_read = time.monotonic()
        self._frames += steps * self._frames_per_step
        if steps:
            self._version = version
        for episode in episodes:
            self._on_episode(episode)

    def _keep(self, i: int) -> None:
        """Runs actor i until the run ends."""
        quick_ends, starts = 0, 0
        while not self._stop.is_set():
            began = time.monotonic()
            with (self._logs / f"actor_{i}.txt").open("a") as log:
                process = subprocess.Popen(self._command(i, starts, self._replay.address), stdout=log, stderr=log)
                self._processes[i] = process
                if self._stop.is_set():
                    process.terminate()
                code = process.wait()
            if self._stop.is_set():
                return
            starts += 1
            quick_ends = quick_ends + 1 if time.monotonic() - began < QUICK_SECONDS else 0
            if quick_ends == MOST_QUICK_ENDS:
                self._error = PlayersError(f"Actor {i} ended {quick_ends} times at its start; see {log.name}.")
                self._replay.close()  # wakes a learner that waits for sequences
                return
            self._warnings.append(f"Actor {i} ended with code {code} and was started again; see {log.name}.")
