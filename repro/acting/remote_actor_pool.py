"""Actors in processes of their own, kept alive for a learner that learns from a replay."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from repro.acting.remote import PlayedUnroll, RemoteWeights, Reports
from repro.acting.rollout import Episode
from repro.acting.supervision import ActorPoolError, Interrupted, PatientClock, Supervision
from repro.environments.batched import one_line
from repro.replay.sequences import SequenceReplay

POLL_SECONDS = 0.02
QUICK_SECONDS = 20.0
"""An actor that ends sooner than this failed to start, and so did one that ends before its first report."""
MOST_FAILED_STARTS = 3
START_SECONDS = 60.0
"""An actor has at least so long for its first report: it loads TensorFlow and traces its policy."""


class RemoteActorPool:
    """Starts an actor's process for each command, and again whenever one ends or hangs.

    The learner takes as many unrolls from the queue of `remote.make_tables` as it needs for an update, and actors wait
    while that queue is full. So every update follows the same number of new steps, whichever actor made them, as in
    lockstep; actors are ahead of it by the unrolls in the queue and one each.

    Args:
        replay: that is filled; its server has `remote.make_tables`.
        weights: the learner's.
        command: of an actor, given its number, how often it was started before in the run, and the server's address.
        count: actors.
        on_episode: called with every finished game.
        supervision: how they are watched; its folder also gets what actors write on the screen.
        frames_per_step: units of the budget in a step of an environment.
    """

    can_save = True

    def __init__(
        self,
        replay: SequenceReplay,
        weights: RemoteWeights,
        command: Callable[[int, int, str], Sequence[str]],
        count: int,
        on_episode: Callable[[Episode], None],
        supervision: Supervision,
        frames_per_step: int,
    ) -> None:
        self._replay = replay
        self._weights = weights
        self._command = command
        self._on_episode = on_episode
        self._frames_per_step = frames_per_step
        self._supervision = supervision
        self._frames = 0  # of unrolls that were read, of the whole run
        self._unroll_frames = 0  # of the last unroll; 0 before the first
        self._version = 0.0
        self._clock = PatientClock(supervision.silent_seconds)  # of the learner, near the reports
        self._seen: dict[int, float] = {}  # actor to the clock at its last report or start
        self._reported: set[int] = set()  # actors that did so since their start
        self._starts_before = [0] * count  # in processes of the learner before this one
        self._starts = [0] * count
        self._stop = threading.Event()
        self._interrupted = threading.Event()
        self._error: ActorPoolError | None = None
        self._warnings: deque[str] = deque()  # of the keepers, for the learner's thread to say
        self._keepers = [threading.Thread(target=self._supervise, args=(i,), daemon=True) for i in range(count)]
        self._processes: dict[int, subprocess.Popen] = {}

    @property
    def restarts(self) -> int:
        return sum(max(0, starts - 1) for starts in self._starts)

    def start(self) -> None:
        address = self._replay.address
        self._weights.connect(address)
        self._reports = Reports(address)
        self._clock.look()
        self._supervision.logs.mkdir(parents=True, exist_ok=True)
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
            if self._interrupted.wait(POLL_SECONDS):
                raise Interrupted
        if taken:
            steps = sum(unroll.steps for unroll in taken)
            self._version = sum(unroll.steps * unroll.version for unroll in taken) / steps
        for episode in self._reports.read_games():
            self._on_episode(episode)
        return gradient_steps - self._version

    def interrupt(self) -> None:
        self._interrupted.set()

    def check(self) -> None:
        while self._warnings:
            self._supervision.warn(self._warnings.popleft())
        if self._error is not None:
            raise self._error

    def flush(self) -> None:
        """What actors have not sent yet is not in the replay that is saved; they send it later."""

    def get_state(self) -> dict[str, Any]:
        starts = [before + now for before, now in zip(self._starts_before, self._starts)]
        return {"frames": self._frames, "starts": np.array(starts)}

    def set_state(self, state: dict[str, Any]) -> None:
        self._frames = state["frames"]
        self._starts_before = np.asarray(state.get("starts", self._starts_before)).tolist()  # older runs have none

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
                self._seen[unroll.actor] = self._clock.seconds
                self._reported.add(unroll.actor)
            taken += unrolls
        return taken

    def _look(self) -> None:
        """Kills actors that hang; they are then started again."""
        now, silent_seconds = self._clock.look(), self._supervision.silent_seconds
        for i, process in tuple(self._processes.items()):
            limit = silent_seconds if i in self._reported else max(silent_seconds, START_SECONDS)
            if now - self._seen[i] > limit:
                self._seen[i] = now
                self._warnings.append(f"Actor {i} reported nothing for {limit:g} seconds.")
                process.kill()

    def _supervise(self, i: int) -> None:
        """Runs actor i until the run ends, or until it cannot be started."""
        try:
            self._keep_alive(i)
        except Exception as error:  # a full disk, no memory for a process
            self._error = ActorPoolError(f"Actor {i} could not be started ({type(error).__name__}: {one_line(error)}).")

    def _keep_alive(self, i: int) -> None:
        failed = 0
        while not self._stop.is_set():
            began = time.monotonic()
            self._reported.discard(i)
            self._seen[i] = self._clock.seconds
            command = self._command(i, self._starts_before[i] + self._starts[i], self._replay.address)
            self._starts[i] += 1
            with (self._supervision.logs / f"actor_{i}.txt").open("a") as log:
                # A session of its own keeps Ctrl-C away: the learner saves first, and then ends it.
                process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
                self._processes[i] = process
                if self._stop.is_set():
                    process.terminate()
                code = process.wait()
            if self._stop.is_set():
                return
            quick = time.monotonic() - began < QUICK_SECONDS
            failed = failed + 1 if quick or i not in self._reported else 0
            if failed == MOST_FAILED_STARTS:
                self._error = ActorPoolError(f"Actor {i} ended {failed} times at its start; see {log.name}.")
                return
            self._warnings.append(f"Actor {i} ended with code {code} and was started again; see {log.name}.")
