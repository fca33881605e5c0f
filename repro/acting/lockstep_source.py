"""Batches from actors in lockstep with the learner."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from repro.acting.batches import CLOSE_SECONDS, POLL_SECONDS, Batch, GroupSizes
from repro.acting.rollout import Episode, pack_episodes, unpack_episodes
from repro.acting.supervision import ActorPoolError, Interrupted, Place, SupervisedActors
from repro.acting.unrolls import UnrollGroup, make_groups
from repro.threads import CallThread

PATIENCE_SECONDS = 10.0
"""Longest wait for unrolls in progress when the run is to end."""


class _Round(NamedTuple):
    """The unrolls that all actors played with the same weights, and the games that ended in them."""

    groups: list[UnrollGroup]
    episodes: list[Episode]


class LockstepSource:
    """Actors and learner in fixed alternation, so that a run is the same bit for bit each time.

    In a round every actor plays one unroll with the weights at the round's start, and the learner takes the batches of
    the round `lag` rounds before. With lag 0 it waits for the round to end; this is batched A2C, whose actors are
    synchronised after every step if they share one batch of environments, and after every unroll otherwise. Unrolls
    that are too few for a batch wait for those of the next round. If an actor is replaced, its unroll is played again
    with the same weights but in other games, so that the run can no longer be reproduced.

    A game is reported to `on_episode` when the learner takes the round in which it ended: in the learner's thread,
    before the first batch of the round, ordered by actor and then by time. So the reported games depend on the number
    of updates alone, and not on how far the actors are or when the run is saved. Games in rounds that are never learned
    from are not reported. Games that an actor finished in an unroll that was lost are reported with the unroll that
    replaces it.

    Args:
        actors: the actors, all with the same `on_episode`.
        make_group, sizes, to_device: as for `AsyncSource`.
        lag: rounds between acting and learning, at least 0.

    Raises:
        MemoryError: see `make_groups`.
    """

    def __init__(
        self,
        actors: SupervisedActors,
        make_group: Callable[[], UnrollGroup],
        sizes: GroupSizes,
        lag: int,
        to_device: Callable[[Any], Any] | None,
    ) -> None:
        groups_per_round = len(actors) * sizes.per_actor
        self._actors = actors
        self._make_group = make_group
        self._sizes = sizes
        self._to_device = to_device
        self._lag = lag
        left = sizes.per_batch - math.gcd(groups_per_round, sizes.per_batch)  # at most, after a round
        self._free = deque(make_groups(make_group, groups_per_round * (lag + 2) + left))
        self._rounds: deque[_Round] = deque()  # played, not yet learned from
        self._on_episode = actors.places[0].actor.on_episode
        self._ended: list[list[Episode]] = [[] for _ in actors.places]  # games of each actor, not yet in a round
        for place, ended in zip(actors.places, self._ended):
            place.actor.on_episode = ended.append
        self._threads = [CallThread(f"actor-{place.index}") for place in actors.places]
        self._in_flight: list[Future] = []  # one for each thread
        self._learning: deque[UnrollGroup] = deque()  # groups of taken rounds, not yet learned from
        self._begins_games = False  # whether the next round begins new games after a resume
        self._patient_until: float | None = None  # deadline, set by `interrupt`

    @property
    def between_rounds(self) -> bool:
        return len(self._learning) < self._sizes.per_batch

    @property
    def restarts(self) -> int:
        return self._actors.restarts

    def next(self) -> Batch:
        while self.between_rounds:
            self._begin_round()
        groups = [self._learning.popleft() for _ in range(self._sizes.per_batch)]
        return Batch(groups, self._to_device)

    def finish_playing(self) -> None:
        """Waits until no actor plays; `next` starts them again.

        Raises:
            ActorPoolError: an actor cannot go on.
            Interrupted: see `interrupt`.
        """
        if self._in_flight:
            played = [group for i in range(len(self._threads)) for group in self._wait_for(i)]
            for group in played:
                group.new_games |= self._begins_games
            self._begins_games = False
            self._rounds.append(_Round(played, self._take_ended()))
            self._in_flight = []

    def interrupt(self) -> None:
        """Ends a wait for a batch once `PATIENCE_SECONDS` have passed from now."""
        self._patient_until = time.monotonic() + PATIENCE_SECONDS

    def release(self, batch: Batch) -> None:
        self._free.extend(batch.groups)

    def totals(self) -> dict[str, Any]:
        return {}

    def get_state(self) -> dict[str, Any]:
        """Returns everything that the next round depends on; without games in progress if an actor cannot finish."""
        try:
            self.finish_playing()
        except (ActorPoolError, Interrupted):
            ended = {str(i): pack_episodes(list(episodes)) for i, episodes in enumerate(self._ended)}
            games = {"actors": {}, "counters": self._actors.get_counters(), "ended": ended}
        else:
            places = [place for place in self._actors.places if place.actor.started]
            games = {"actors": {str(place.index): place.actor.get_state() for place in places}}
        rounds = {
            str(i): {str(j): _group_state(group) for j, group in enumerate(played.groups)}
            for i, played in enumerate(self._rounds)
        }
        episodes = {str(i): pack_episodes(played.episodes) for i, played in enumerate(self._rounds)}
        acting = {str(i): _acting_state(played.groups[0]) for i, played in enumerate(self._rounds)}
        left = {
            str(i): _group_state(group) | {"acting": _acting_state(group)} for i, group in enumerate(self._learning)
        }
        predecessors = self._actors.get_predecessors()
        own = {"rounds": rounds, "episodes": episodes, "acting": acting, "left": left, "restarts": predecessors}
        return own | games

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues where `get_state` was taken; if it has no games in progress, new ones begin after those begun."""
        for i, actor_state in state["actors"].items():
            self._actors.places[int(i)].actor.set_state(actor_state)
        self._actors.set_counters(state.get("counters", {}))
        self._actors.set_predecessors(state["restarts"])
        if "counters" in state:
            self._actors.begin_again()
        self._begins_games = not state["actors"]
        for i, ended in state.get("ended", {}).items():
            self._ended[int(i)].extend(unpack_episodes(ended))
        for i in range(len(state["rounds"])):
            saved, acting = state["rounds"][str(i)], _restored_acting(state["acting"][str(i)])  # of the whole round
            groups = [self._free.popleft() for _ in saved]
            for j, group in enumerate(groups):
                _restore_group(group, saved[str(j)], acting)
            self._rounds.append(_Round(groups, unpack_episodes(state["episodes"][str(i)])))
        for i in range(len(state["left"])):
            group, saved = self._free.popleft(), state["left"][str(i)]
            _restore_group(group, saved, _restored_acting(saved["acting"]))
            self._learning.append(group)

    def close(self) -> None:
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            thread.end()
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._actors.close()

    def _begin_round(self) -> None:
        self.finish_playing()
        while len(self._rounds) < max(self._lag, 1):
            self._start_playing()
            self.finish_playing()
        taken = self._rounds.popleft()
        self._learning.extend(taken.groups)
        if self._lag:
            self._start_playing()
        for episode in taken.episodes:
            self._on_episode(episode)

    def _take_ended(self) -> list[Episode]:
        """Returns the games that ended since the last call, in the order of the actors."""
        taken = []
        for ended in self._ended:
            number = len(ended)  # an actor that hung may wake up and add one meanwhile
            taken += ended[:number]
            del ended[:number]
        return taken

    def _start_playing(self) -> None:
        for thread, place in zip(self._threads, self._actors.places):
            place.actor.sync_weights()  # here, not in its thread: the learner may publish before that runs
            groups = [self._free.popleft() for _ in range(self._sizes.per_actor)]
            self._in_flight.append(thread.call(self._play, place, groups))

    def _play(self, place: Place, groups: list[UnrollGroup]) -> list[UnrollGroup]:
        """Returns the filled groups; nobody asks for them if another thread has taken the actor's place."""
        self._actors.collect(place, groups)
        return groups

    def _wait_for(self, index: int) -> list[UnrollGroup]:
        """Returns the unroll of an actor once it is played.

        Raises:
            ActorPoolError: the actor cannot go on.
            Interrupted: see `interrupt`.
        """
        while True:
            for place in self._actors.check():
                self._replace_thread(place)
            try:
                return self._in_flight[index].result(timeout=POLL_SECONDS)
            except TimeoutError:
                if self._patient_until is not None and time.monotonic() > self._patient_until:
                    raise Interrupted from None

    def _replace_thread(self, place: Place) -> None:
        """Plays the unroll of a thread that hangs again, in new memory that the thread cannot write to."""
        self._threads[place.index].end()
        thread = self._threads[place.index] = CallThread(f"actor-{place.index}")
        groups = [self._make_group() for _ in range(self._sizes.per_actor)]
        self._in_flight[place.index] = thread.call(self._play, self._actors.supersede(place), groups)


def _group_state(group: UnrollGroup) -> dict[str, Any]:
    arrays = {str(i): array for i, array in enumerate(tf.nest.flatten(group.arrays))}
    return {"arrays": arrays, "version": np.int64(group.version), "new_games": int(group.new_games)}


def _acting_state(group: UnrollGroup) -> dict[str, Any]:
    return {str(i): value.numpy() for i, value in enumerate(group.acting)}


def _restored_acting(state: dict[str, Any]) -> tuple[tf.Tensor, ...]:
    return tuple(tf.constant(state[str(i)]) for i in range(len(state)))


def _restore_group(group: UnrollGroup, state: dict[str, Any], acting: tuple[tf.Tensor, ...]) -> None:
    group.version, group.acting = int(state["version"]), acting
    group.new_games = bool(state["new_games"])
    saved = state["arrays"]
    group.set_all(saved[str(i)] for i in range(len(saved)))
