"""Actors in threads of the learner's process, each of which is replaced when it fails or hangs."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tf_agents.policies import tf_policy

from repro.acting.actor import Actor, successor_seeds
from repro.acting.inference import DynamicBatching
from repro.acting.rollout import Episode
from repro.acting.unrolls import UnrollGroup
from repro.acting.weights import Published
from repro.environments.batched import BatchedEnvironment, one_line

MAX_FAILURES = 3
"""Number of failures of an actor in a row, without an unroll in between, that ends the run."""
SILENT_SECONDS = 1800.0
"""Default time without an unroll after which an actor counts as hanging. It must exceed the time limits of
environments: DeepMind Lab ends a level after 600 seconds, and one unroll may run into that limit several times."""
AWAY_SECONDS = 10.0
"""Longest time between two checks of the actors that counts as silence, since the learner may be saving, or the process
may have been stopped. If half of the time after which an actor counts as hanging is shorter, that is the limit, so that
a single absence of the learner never makes an actor count as hanging."""


class ActorPoolError(Exception):
    """The actors cannot go on; the message says why. It is raised only where the run can be saved."""


class Interrupted(Exception):
    """Another thread ended the wait for actors; the run can be saved."""


class EnvironmentFailedError(Exception):
    """The only environment of a run failed, and so did those that took its place; the message says why."""


class PatientClock:
    """A clock that counts the time between two looks at it only up to the limit of `AWAY_SECONDS`.

    Args:
        silent_seconds: silence after which an actor counts as hanging.

    Attributes:
        seconds: time counted up to the last look.
    """

    def __init__(self, silent_seconds: float) -> None:
        self.seconds = 0.0
        self._most = min(AWAY_SECONDS, silent_seconds / 2)
        self._looked = time.monotonic()

    def look(self) -> float:
        """Counts the time since the last look; returns the total in seconds."""
        now = time.monotonic()
        self.seconds += min(now - self._looked, self._most)
        self._looked = now
        return self.seconds


class Supervision(NamedTuple):
    """How actors are watched.

    warn: called with one line for each actor that is replaced, and for events of the evaluator, the replay and
        learners.
    logs: folder for the tracebacks of actors that failed, created when one does.
    silent_seconds: time without an unroll after which an actor counts as hanging; above 0.
    """

    warn: Callable[[str], None]
    logs: Path
    silent_seconds: float = SILENT_SECONDS

    def report(self, lines: deque[str]) -> None:
        """Warns of all lines that other threads have left, and removes them; called in the learner's thread."""
        while lines:
            self.warn(lines.popleft())


class Place:
    """The place of one actor of a run, held by one thread; only that thread changes it.

    Attributes:
        index: number of the actor, from 0.
        actor: the actor that plays.
        fault: why the actor must be replaced before it plays again; None if it need not be.
        restarts: number of actors that were replaced in this place, in this process.
        failures: number of failures in a row.
        began: time on the clock at which the present unroll began, in seconds; None between unrolls.
    """

    def __init__(
        self, index: int, actor: Actor, fault: str | None = None, restarts: int = 0, failures: int = 0
    ) -> None:
        self.index, self.actor, self.fault = index, actor, fault
        self.restarts, self.failures = restarts, failures
        self.began: float | None = None


class SupervisedActors:
    """The actors of a run. One that fails or hangs is replaced by another, which begins new games.

    Its unfinished games are lost and not counted. A thread that hangs cannot be ended: it loses its place, and what it
    still plays is refused.

    Args:
        actors: the first actors, one for each place.
        remake: returns another actor, given the number of its place and how many were there before in the run; an error
            that it raises counts as a failure of the actor.
        supervision: see `Supervision`.

    Attributes:
        places: the present place of each actor.

    Raises:
        ValueError: `silent_seconds` is not above 0.
    """

    def __init__(self, actors: Sequence[Actor], remake: Callable[[int, int], Actor], supervision: Supervision) -> None:
        if not supervision.silent_seconds > 0:
            raise ValueError(f"runtime.silent_seconds must be above 0, got {supervision.silent_seconds}.")
        self.places = [Place(i, actor) for i, actor in enumerate(actors)]
        self._remake = remake
        self._supervision = supervision
        self._clock = PatientClock(supervision.silent_seconds)
        self._lines: deque[str] = deque()  # from the actors' threads, for the learner's thread to report
        self._before = [0] * len(actors)  # actors in each place before those of this process

    def __len__(self) -> int:
        return len(self.places)

    @property
    def restarts(self) -> int:
        """Number of actors that were replaced so far, in this process."""
        return sum(place.restarts for place in self.places)

    def close(self) -> None:
        """Closes all environments in which no thread is still playing, and reports what `check` did not yet report.

        The threads must have been told to end.
        """
        for place in self.places:
            if place.began is None and not place.actor.abandoned:
                _close(place.actor)
        self._supervision.report(self._lines)

    def get_counters(self) -> dict[str, dict[str, np.ndarray]]:
        """Returns the numbers of the games that each actor began, where games are numbered (`Actor.get_counters`)."""
        counters = {str(place.index): place.actor.get_counters() for place in self.places}
        return {index: counted for index, counted in counters.items() if counted}

    def set_counters(self, counters: dict[str, dict[str, np.ndarray]]) -> None:
        """Continues after the games of `get_counters`; to be called before actors play."""
        for index, counted in counters.items():
            self.places[int(index)].actor.set_counters(counted)

    def get_predecessors(self) -> np.ndarray:
        """Returns how many actors were in each place before the present one, in the whole run."""
        return np.array([before + place.restarts for before, place in zip(self._before, self.places)])

    def set_predecessors(self, predecessors: np.ndarray) -> None:
        """Continues the counts of `get_predecessors`, so that no replacement has the seeds of an earlier actor."""
        self._before = predecessors.tolist()

    def begin_again(self) -> None:
        """Gives actors that resume without their games seeds that no earlier actor had; called before they play."""
        self._before = [before + 1 for before in self._before]
        for place, before in zip(self.places, self._before):
            place.actor.begin_again(before)

    def collect(self, place: Place, groups: Sequence[UnrollGroup]) -> bool:
        """Fills `groups` as `Actor.collect` does; an actor that fails is replaced, and the unroll played again.

        Args:
            place: place of the calling thread.
            groups: memory of the unroll.

        Returns:
            Whether the unroll counts; False if another thread has taken the place.

        Raises:
            ActorPoolError: the actor failed `MAX_FAILURES` times in a row.
        """
        restarts = place.restarts
        while self._is_current(place):
            place.began = self._clock.seconds
            try:
                if place.fault is not None:
                    self._replace(place)
                    continue
                place.actor.collect(groups)
            except ActorPoolError:
                place.began = None  # the thread has left the environment, so that `close` closes it
                raise
            except Exception as error:  # an environment may raise anything
                log = log_traceback(self._supervision.logs / f"actor_{place.index}.txt")
                place.fault = f"{type(error).__name__}: {one_line(error)}{log}"
            else:
                place.began, place.failures, place.fault = None, 0, None
                for group in groups:
                    group.new_games = place.restarts > restarts
                if self._is_current(place):
                    return True
        _close(place.actor)
        return False

    def check(self) -> list[Place]:
        """Reports what happened since the last call, in the learner's thread; returns the places whose actors hang."""
        self._supervision.report(self._lines)
        now, limit = self._clock.look(), self._supervision.silent_seconds
        return [place for place in self.places if place.began is not None and now - place.began > limit]

    def supersede(self, place: Place) -> Place:
        """Takes a place away from a thread that hangs; returns its successor, for another thread."""
        place.actor.abandon()
        fault = f"no unroll for {self._supervision.silent_seconds:g} seconds"
        successor = Place(place.index, place.actor, fault, place.restarts, place.failures)
        self.places[place.index] = successor
        return successor

    def _is_current(self, place: Place) -> bool:
        return self.places[place.index] is place

    def _replace(self, place: Place) -> None:
        place.failures += 1
        if place.failures >= MAX_FAILURES:
            raise ActorPoolError(
                f"Actor {place.index} failed {place.failures} times in a row, the last time with {place.fault}."
            )
        if not place.actor.abandoned:  # a thread that hangs may still be in its environment
            _close(place.actor)
        successor = self._remake(place.index, self._before[place.index] + place.restarts + 1)
        if not self._is_current(place):  # another thread has the place by now
            _close(successor)
            return
        successor.succeed(place.actor)
        place.actor = successor
        place.restarts += 1
        self._lines.append(
            f"Actor {place.index} was restarted (restart {self.restarts} by this process): {place.fault}."
        )
        place.fault = None


def log_traceback(path: Path) -> str:
    """Appends the present traceback to a file; returns its path for the end of a message, or "" if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(traceback.format_exc())
    except OSError:  # the next checkpoint reports a full disk
        return ""
    return f"; see {path}"


def _close(actor: Actor) -> None:
    """Closes the environment of an actor that no longer plays."""
    with contextlib.suppress(Exception):  # it may be broken
        actor.environment.close()


def make_actors(
    environments: Sequence[BatchedEnvironment],
    make_environment: Callable[[int, int], BatchedEnvironment],
    make_policy: Callable[[BatchedEnvironment, int], tf_policy.TFPolicy | DynamicBatching],
    weights: Published,
    unroll_length: int,
    seeds: Sequence[int],
    on_episode: Callable[[Episode], None],
    supervision: Supervision,
    overlap: int = 0,
) -> SupervisedActors:
    """Returns an actor for each batch of environments; arguments not listed are as for `Actor`.

    Args:
        environments: a batch for each actor.
        make_environment: returns the batch of a replacement, given the actor's number and a seed.
        make_policy: returns a local policy, or one that actors share, given a batch and the actor's number.
        seeds: seed of each actor's action sampling; the seeds of its replacements follow from it and their number.
        supervision: see `Supervision`.
    """

    def make(index: int, environment: BatchedEnvironment, seed: int) -> Actor:
        policy = make_policy(environment, index)
        return Actor(environment, policy, weights, unroll_length, seed, on_episode, overlap)

    def remake(index: int, number: int) -> Actor:
        environment_seed, action_seed = successor_seeds(seeds[index], number)
        return make(index, make_environment(index, environment_seed), action_seed)

    actors = [make(i, *parts) for i, parts in enumerate(zip(environments, seeds, strict=True))]
    return SupervisedActors(actors, remake, supervision)
