"""Names of DeepMind Lab's levels: the thirty of DMLab-30 with their test variants, and other levels."""

from __future__ import annotations

import re
from typing import NamedTuple

from repro.environments.lookup import match_task

FOLDER = "contributed/dmlab30"


class Level(NamedTuple):
    """Names in the engine of the levels of a task.

    Attributes:
        train: level for training.
        test: level for tests.
    """

    train: str
    test: str


_ONE_LEVEL = (
    "rooms_select_nonmatching_object",
    "rooms_watermaze",
    "rooms_keys_doors_puzzle",
    "language_select_described_object",
    "language_select_located_object",
    "language_execute_random_task",
    "language_answer_quantitative_question",
    "lasertag_one_opponent_large",
    "lasertag_three_opponents_large",
    "lasertag_one_opponent_small",
    "lasertag_three_opponents_small",
    "natlab_fixed_large_map",
    "natlab_varying_map_regrowth",
    "natlab_varying_map_randomized",
    "skymaze_irreversible_path_hard",
    "skymaze_irreversible_path_varied",
    "psychlab_arbitrary_visuomotor_mapping",
    "psychlab_continuous_recognition",
    "psychlab_sequential_comparison",
    "psychlab_visual_search",
    "explore_object_locations_small",
    "explore_object_locations_large",
    "explore_obstructed_goals_small",
    "explore_obstructed_goals_large",
    "explore_goal_locations_small",
    "explore_goal_locations_large",
    "explore_object_rewards_few",
    "explore_object_rewards_many",
)
_TWO_LEVELS = ("rooms_collect_good_objects", "rooms_exploit_deferred_effects")

DMLAB30 = {
    **{f"{name}_test": Level(f"{FOLDER}/{name}_train", f"{FOLDER}/{name}_test") for name in _TWO_LEVELS},
    **{name: Level(f"{FOLDER}/{name}", f"{FOLDER}/{name}") for name in _ONE_LEVEL},
}
"""Levels of DMLab-30 by the names of Table B.1 (IMPALA), which lists two by the names of their test levels.

The others have one level for both purposes; tests use seeds that training never uses.
"""

OTHER = {
    name: Level(name, name)
    for name in (
        "seekavoid_arena_01",
        "stairway_to_melon",
        "lt_chasm",
        "lt_hallway_slope",
        "lt_horseshoe_color",
        "lt_space_bounce_hard",
        "nav_maze_random_goal_01",
        "nav_maze_random_goal_02",
        "nav_maze_random_goal_03",
        "nav_maze_static_01",
        "nav_maze_static_02",
        "nav_maze_static_03",
    )
}

LEVELS = DMLAB30 | OTHER


def level_name(task: str) -> str:
    """Returns this suite's name of a level, a key of `LEVELS`.

    Letter case, the folder, and the endings `_train` and `_test` make no difference.

    Args:
        task: name of a level, such as `explore_goal_locations_small` or
            `contributed/dmlab30/rooms_collect_good_objects_train`.

    Raises:
        UnknownTaskError: no level has this name.
    """
    otherwise = "repro.environments.dmlab_levels lists them."
    return match_task(task, LEVELS, "level of DeepMind Lab", otherwise, key=_key, cutoff=0.6)


def _key(name: str) -> str:
    return re.sub(r"_(train|test)$", "", name.lower().rpartition("/")[2])
