"""Scores of a random player: the level above which a score may show learning."""

import collections
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from repro.evidence import intervals

AGENT = "random"
"""Name of the agent in records of a random player, in every experiment."""
NOT_OF_PLAY = (
    "grey",
    "height",
    "image_size",
    "instruction_length",
    "instruction_vocabulary",
    "last_action_and_reward",
    "level_cache",
    "life_loss_ends",
    "max_pool",
    "observed",
    "reward_clip",
    "shadow_size",
    "stack",
    "stagger_steps",
    "tasks",
    "time_limit_is_terminal",
    "timeout",
    "width",
)
"""Fields of a config's `env` that change what an agent observes or learns from, but not what a random player scores.

`stagger_steps` is among them because episodes are staggered in training only."""


class Level(NamedTuple):
    """Score of a random player: the mean of its games, and the upper end of the mean's 95 % interval.

    The upper end is the mean itself if all games have the same score.
    """

    mean: float
    upper: float


def levels(records: Iterable[Mapping[str, Any]]) -> dict[str, Level]:
    """Returns a random player's score by game, as named by `game_of`, over the episodes of all its records.

    Records of one game and seed hold the same episodes, whatever their experiment or scale, and count once.

    Args:
        records: any records; those of other agents are ignored.
    """
    returns: dict[str, dict[int, list[float]]] = collections.defaultdict(dict)
    for record in records:
        if record["agent"] == AGENT:
            returns[game_of(record)][record["seed"]] = record["evaluation"]["returns"]
    found = {}
    for game, of_seeds in returns.items():
        pooled = [value for _, values in sorted(of_seeds.items()) for value in values]
        mean, interval = float(np.mean(pooled)), intervals.mean_interval(pooled)
        found[game] = Level(mean, mean if interval is None else interval[1])
    return found


def game_of(record: Mapping[str, Any]) -> str:
    """Returns a name of the game of a record, the same for experiments that differ only in `NOT_OF_PLAY`."""
    env = {name: value for name, value in record["config"]["env"].items() if name not in NOT_OF_PLAY}
    return json.dumps(env | {"task": record["task"]}, sort_keys=True)
