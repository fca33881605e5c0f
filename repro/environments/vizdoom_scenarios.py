"""Scenarios of ViZDoom: their names and actions."""

from __future__ import annotations

from collections.abc import Sequence

from repro.environments.lookup import match_task

SCENARIOS = (
    "basic",
    "deadly_corridor",
    "defend_the_center",
    "defend_the_line",
    "health_gathering",
    "health_gathering_supreme",
    "my_way_home",
    "predict_position",
    "take_cover",
)
"""Single-player scenarios of the package in which every button is either pressed or not."""

FORWARD, TURNS = "MOVE_FORWARD", ("TURN_LEFT", "TURN_RIGHT")


def scenario_name(task: str) -> str:
    """Returns this suite's name of a scenario; letter case, underscores and blanks make no difference.

    Args:
        task: name of a scenario, such as `my_way_home` or `MyWayHome`.

    Raises:
        UnknownTaskError: no scenario has this name; the message lists the most similar names.
    """
    return match_task(task, SCENARIOS, "scenario of ViZDoom")


def actions_of(buttons: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Returns the buttons that each action presses: none, each alone, and forward with each turn if both exist.

    Args:
        buttons: buttons of a scenario, in its order.
    """
    together = [(FORWARD, turn) for turn in TURNS if {FORWARD, turn} <= set(buttons)]
    return ((), *((button,) for button in buttons), *together)
