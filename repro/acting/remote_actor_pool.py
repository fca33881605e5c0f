"""Actors in processes of their own, kept alive for a learner that learns from a replay."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from repro.acting.actor_pool import ActorPoolError
from repro.acting.remote import PlayedUnroll, RemoteWeights, Reports
from repro.acting.rollout import Episode
from repro.replay.sequences import SequenceReplay

POLL_SECONDS = 0.02
QUICK_SECONDS = 20.0
"""An actor that ends sooner than this failed to start, and so did one that ends before its first report."""
MOST_FAILED_STARTS = 3
SILENT_SECONDS = 600.0
"""An actor that reported nothing for so long hangs, or takes too long to start."""
AWAY_SECONDS = 10.0
"""The most that counts of the time between two looks at the reports: an update is quick, a checkpoint may be not."""


class RemoteActorPool:
    """Starts an actor's process for each command, and again whenever one ends or hangs.

    The learner takes as many unrolls from the queue of `remote.make_tables` as it needs for an update, and actors wait
    while that queue is full. So every update follows the same number of new steps, whichever actor made them, as in
    lockstep; actors are ahead of it by the unrolls in the queue and one each.

    Args:
        replay: that is filled; its server has `remote.make_tables`.
        weights: the learner's.
        command: of an actor, given its number, how often it was started before, and the server's address.
        count: actors.
        on_episode: called with every finished game.
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
        frames_per_step: int,
        logs: Path,
        warn: Callable[[str], None],
    ) -> None:
        self._replay = replay
        self._weights = weights
        self._command = command
        self._on_episode = on_episode
        self._frames_per_step = frames_per_step
        self._logs = logs
        self._warn = warn
        self._frames = 0  # of unrolls that were read, of the whole run
        self._unroll_frames = 0  # of the last unroll; 0 before the first
        self._version = 0.0
        self._clock = 0.0  # seconds that the learner spent near the reports
        self._looked = 0.0
        self._seen: dict[int, float] = {}  # actor to the clock at its last report or start
        self._reported: set[int] = set()  # actors that did so since their start
        self._stop = threading.Event()
        self._error: ActorPoolError | None = None
        self._warnings: deque[str] = deque()  # of the keepers, for the learner's thread to say
        self._keepers = [threading.Thread(target=self._supervise, args=(i,), daemon=True) for i in range(count)]
        self._processes: dict[int, subprocess.Popen] = {}

    def start(self) -> None:
        address = self._replay.address
        self._weights.connect(address)
        self._reports = Reports(address)
        self._looked = time.monotonic()
        self._logs.mkdir(parents=True, exist_ok=True)
        for keeper in self._keepers:
            keeper.start()

    def play(self, gradient_steps: int, frames: int) -> float:
        """Waits until actors have played so many frames, and takes no more of what they reported."""
        taken: list[PlayedUnroll] = []
        while True:
            self.check()
            self._look()
            taken += self._take(frames)
            if self._frames >= frames:
                break
            time.sleep(POLL_SECONDS)
        if taken:
            steps = sum(unroll.steps for unroll in taken)
            self._version = sum(unroll.steps * unroll.version for unroll in taken) / steps
        for episode in self._reports.read_games():
            self._on_episode(episode)
        return gradient_steps - self._version

    def check(self) -> None:
        while self._warnings:
            self._warn(self._warnings.popleft())
        if self._error is not None:
            raise self._error

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

    def _take(self, frames: int) -> list[PlayedUnroll]:
        """Takes the unrolls that wait, until so many frames were played."""
        taken: list[PlayedUnroll] = []
        while self._frames < frames:
            max_count = -(-(frames - self._frames) // self._unroll_frames) if self._unroll_frames else 1
            unrolls = self._reports.read_unrolls(max_count)
            if not unrolls:
                break
            for unroll in unrolls:
                self._unroll_frames = unroll.steps * self._frames_per_step
                self._frames += self._unroll_frames
                self._seen[unroll.actor] = self._clock
                self._reported.add(unroll.actor)
            taken += unrolls
        return taken

    def _look(self) -> None:
        """Kills actors that hang; they are then started again."""
        now = time.monotonic()
        self._clock += min(now - self._looked, AWAY_SECONDS)
        self._looked = now
        for i, process in tuple(self._processes.items()):
            if self._clock - self._seen[i] > SILENT_SECONDS:
                self._seen[i] = self._clock
                self._warnings.append(f"Actor {i} reported nothing for {SILENT_SECONDS:.0f} seconds.")
                process.kill()

    def _supervise(self, i: int) -> None:
        """Runs actor i until the run ends."""
        failed, starts = 0, 0
        while not self._stop.is_set():
            began = time.monotonic()
            self._reported.discard(i)
            self._seen[i] = self._clock
            with (self._logs / f"actor_{i}.txt").open("a") as log:
                process = subprocess.Popen(self._command(i, starts, self._replay.address), stdout=log, stderr=log)
                self._processes[i] = process
                if self._stop.is_set():
                    process.terminate()
                code = process.wait()
            if self._stop.is_set():
                return
            starts += 1
            quick = time.monotonic() - began < QUICK_SECONDS
            failed = failed + 1 if quick or i not in self._reported else 0
            if failed == MOST_FAILED_STARTS:
                self._error = ActorPoolError(f"Actor {i} ended {failed} times at its start; see {log.name}.")
                return
            self._warnings.append(f"Actor {i} ended with code {code} and was started again; see {log.name}.")
