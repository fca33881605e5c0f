"""The loop of an evaluator's process beside training: take weights, play, report, until the learner is gone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import numpy as np
import reverb
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.acting.evaluator_process import OFFERED, PLAYED
from repro.acting.play import play_games
from repro.acting.rollout import CompiledPolicy
from repro.acting.weights import compile_assign
from repro.environments.batched import BatchedEnvironment

POLL_SECONDS = 0.5
LIFE_SECONDS = 2.0
"""Time between two signs of life."""
SEED_KEY = 2**32 - 1
"""Key of the seeds of evaluations, in place of an actor's number."""


class Offer(NamedTuple):
    """Weights to play with; header: see `evaluator_process.HEADER_SPEC`."""

    header: np.ndarray
    values: Sequence[np.ndarray]


class LearnerLink:
    """The evaluator's connection to the learner. If it breaks, the present call is tried again.

    Args:
        address: address of the server.
    """

    def __init__(self, address: str) -> None:
        self._client = reverb.Client(address)
        self._next_sign = 0.0

    def take(self) -> Offer:
        """Waits for weights to play with, with signs of life meanwhile."""
        while True:
            with contextlib.suppress(RuntimeError):  # raised by Reverb when a connection breaks
                if self._client.server_info()[OFFERED].current_size:
                    (sample,) = self._client.sample(OFFERED, 1, emit_timesteps=False)
                    header, *values = (part for (part,) in sample.data)
                    return Offer(header, values)
            self.live()
            time.sleep(POLL_SECONDS)

    def live(self) -> None:
        """Gives a sign of life if one is due."""
        if time.monotonic() >= self._next_sign:
            self._send(np.zeros(3, np.int64), np.zeros((0, 0)))
            self._next_sign = time.monotonic() + LIFE_SECONDS

    def report(self, offer: Offer, returns: np.ndarray) -> None:
        """Sends the result of an offer, until it arrives; the learner counts it once.

        Args:
            offer: the weights that were played with.
            returns: float64 [tasks, episodes].
        """
        while not self._send(offer.header, returns):
            time.sleep(POLL_SECONDS)

    def _send(self, header: np.ndarray, returns: np.ndarray) -> bool:
        """Sends a report; returns whether the learner has it for certain."""
        try:
            self._client.insert([header, returns], {PLAYED: 1.0})
        except RuntimeError:
            return False
        return True


def seed_of(seed: int, updates: int) -> int:
    """Returns the seed of an evaluation's games, different from those of the actors.

    Args:
        seed: seed of the run.
        updates: number of updates behind the weights.
    """
    return int(np.random.SeedSequence(seed, spawn_key=(SEED_KEY, updates)).generate_state(1)[0] % 2**31)


def evaluate_offers(
    policy: tf_policy.TFPolicy,
    variables: Sequence[tf.Variable],
    make_environments: Sequence[Callable[[int], BatchedEnvironment]],
    num_envs: int,
    episodes: int,
    seed: int,
    link: LearnerLink,
) -> NoReturn:
    """Plays forever; `end_with` must have been called, so that the process ends with the server.

    Args:
        policy: policy as it is evaluated after training.
        variables: variables of the policy, in the order in which the learner offers them.
        make_environments: functions that return the environments of each task, given a seed.
        num_envs: number of environments of each task.
        episodes: number of episodes of each task, a multiple of `num_envs`.
        seed: seed of the run.
        link: connection to the learner.
    """
    act, assign = CompiledPolicy(policy, num_envs, seed), compile_assign(variables)
    beginning = act.get_state()
    while True:
        offer = link.take()
        assign(offer.values)
        own_seed = seed_of(seed, int(offer.header[0]))
        returns = []
        for make_environment in make_environments:
            act.set_state(beginning | {"seed": np.array([own_seed, 0], np.int32)})
            with contextlib.closing(make_environment(own_seed)) as environment:
                games = play_games(act, environment, episodes, on_step=link.live)
            returns.append([game.score for game in games])
        link.report(offer, np.array(returns, np.float64))
