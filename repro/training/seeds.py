"""The seeds of a run that has actors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class RunSeeds(NamedTuple):
    """Seeds of the weights, of each actor's environments and action sampling, and of the replay's samples."""

    weights: int
    environments: list[int]
    actions: list[int]
    replay: int


def make_run_seeds(seed: int, num_actors: int, replay_second: bool = False) -> RunSeeds:
    """Returns the seeds that follow from the seed of the run.

    Args:
        seed: seed of the run.
        num_actors: number of actors.
        replay_second: whether the replay's seed is taken after that of the weights, as for ACER, and not after those of
            the actors.
    """
    numbers = [int(number) for number in np.random.SeedSequence(seed).generate_state(2 + 2 * num_actors) % 2**31]
    weights, replay = numbers.pop(0), numbers.pop(0 if replay_second else -1)
    return RunSeeds(weights, numbers[::2], numbers[1::2], replay)
