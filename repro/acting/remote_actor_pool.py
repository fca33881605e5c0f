"""Actors in processes of their own, for a learner that learns from a replay."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from repro.acting import weights_relay
from repro.acting.actor_processes import ActorProcesses
from repro.acting.evaluator_process import Evaluator
from repro.acting.machines import describe_totals, with_own_machine
from repro.acting.remote import PlayedUnroll, RemoteWeights, Reports
from repro.acting.replay_keeper import ReplayKeeper
from repro.acting.rollout import Episode
from repro.acting.supervision import Interrupted

POLL_SECONDS = 0.02


class ServedReplay(Protocol):
    """A replay that actors in processes fill.

    address: address of the learner's server.
    restarts: restarts of the replay alone, in the whole run.
    lost: number of sequences that it lost.
    """

    @property
    def address(self) -> str: ...
    @property
    def restarts(self) -> int: ...
    @property
    def lost(self) -> int: ...


class RemoteActorPool:
    """Fills a replay with actors in processes of their own.

    The learner takes as many reports of unrolls from the queue of `remote.make_tables` as it needs for an update, and
    actors wait while that queue is full. So every update follows the same number of new steps, as in lockstep,
    whichever actors made them; actors are ahead of the learner by the unrolls in the queue and one more each.

    Args:
        replay: replay to fill, whose server has the tables of `remote.make_tables` and those of `evaluator`.
        weights: publisher of the learner's weights.
        actors: the processes of the actors.
        envs_per_actor: number of environments of each actor.
        on_episode: called with every finished game.
        frames_per_step: units of the budget in a step of an environment.
        evaluator: the evaluator beside training, if there is one.
        keeper: keeper of the replay's process, if it has one of its own.
    """

    can_save = True

    def __init__(
        self,
        replay: ServedReplay,
        weights: RemoteWeights,
        actors: ActorProcesses,
        envs_per_actor: int,
        on_episode: Callable[[Episode], None],
        frames_per_step: int,
        evaluator: Evaluator | None = None,
        keeper: ReplayKeeper | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._keeper = keeper
        self._replay = replay
        self._weights = weights
        self._actors = actors
        self._envs_per_actor = envs_per_actor
        self._on_episode = on_episode
        self._frames_per_step = frames_per_step
        self._frames = 0  # in the unrolls that were read, in the whole run
        self._unroll_frames = 0  # in the last unroll; 0 before the first
        self._version = 0.0
        self._machines: set[int] = set()  # of actors, and of this learner before a resume
        self._interrupted = threading.Event()

    @property
    def restarts(self) -> int:
        return self._actors.restarts

    def start(self) -> None:
        address = self._replay.address
        self._weights.connect(address)
        self._reports = Reports(address)
        self._actors.start(address)
        if self._evaluator is not None:
            self._evaluator.start(address)

    def play(self, gradient_steps: int, frames: int) -> float:
        """Waits until actors have played up to `frames`, and takes no more of their reports than that."""
        taken: list[PlayedUnroll] = []
        while True:
            self._actors.check()
            if self._keeper is not None:
                self._keeper.look()
            if self._keeper is None or self._keeper.answers:
                self._actors.look()
            else:
                self._actors.excuse()  # they wait for the replay
            if self._evaluator is not None:
                self._evaluator.look()
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
        if self._keeper is not None:
            self._keeper.interrupt()

    def totals(self) -> dict[str, Any]:
        """See `describe_totals`; one lost unroll is counted for each unfinished game of a process that ended."""
        games = self._envs_per_actor * self._actors.broken_off
        lost, restarts = self._replay.lost, self._replay.restarts
        totals = describe_totals(self._actors.launcher.home, [self.get_state()], games, games, lost)
        return totals | ({"replay_restarts": restarts} if restarts else {})

    def get_state(self) -> dict[str, Any]:
        machines = with_own_machine(self._machines, self._actors.launcher.home)
        actors = self._actors.get_state()
        return {"frames": self._frames, "version": self._version, "actors": actors, "machines": machines}

    def set_state(self, state: dict[str, Any]) -> None:
        self._frames = state["frames"]
        self._version = state["version"]
        self._machines = {int(machine) for machine in state["machines"]}
        self._actors.set_state(state["actors"])

    def close(self) -> None:
        if self._evaluator is not None:
            self._evaluator.close()
        self._actors.close()
        weights_relay.remove_unused()

    def _take(self, frames: int) -> list[PlayedUnroll]:
        """Takes waiting reports of unrolls until `frames` have been played; returns them."""
        taken: list[PlayedUnroll] = []
        while self._frames < frames:
            max_count = -(-(frames - self._frames) // self._unroll_frames) if self._unroll_frames else 1
            unrolls = self._reports.read_unrolls(max_count)
            if not unrolls:
                break
            for unroll in unrolls:
                self._unroll_frames = unroll.steps * self._frames_per_step
                self._frames += self._unroll_frames
                if self._actors.is_known(unroll.actor, unroll.start):  # not one from before a resume
                    self._actors.report(unroll.actor, unroll.start)
                self._machines.add(unroll.machine)
            taken += unrolls
        return taken
