"""Names of Atari games."""

from __future__ import annotations

import pytest
from ale_py import roms

from repro.environments.games import all_games, game_name
from repro.environments.lookup import UnknownTaskError


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("pong", "pong"),
        ("Pong", "pong"),
        ("ALE/Pong-v5", "pong"),
        ("ale/pongnoframeskip-V4", "pong"),
        ("PongNoFrameskip-v4", "pong"),
        ("space_invaders", "space_invaders"),
        ("SpaceInvaders", "space_invaders"),
        ("ALE/SpaceInvaders-v5", "space_invaders"),
        ("Space Invaders", "space_invaders"),
        ("SpaceInvadersDeterministic-v4", "space_invaders"),
        ("MsPacman", "ms_pacman"),
        ("JamesBond", "jamesbond"),
        ("Atlantis2", "atlantis2"),
    ],
)
def test_every_usual_spelling(task: str, name: str) -> None:
    assert game_name(task) == name


def test_every_game_names_itself_and_has_a_rom() -> None:
    assert len(all_games()) == 104
    for game in all_games():
        assert game_name(game) == game
        assert roms.get_rom_path(game) is not None


@pytest.mark.parametrize(
    ("task", "near"), [("pongg", "pong"), ("ALE/Brekout-v5", "breakout"), ("space_invader", "space_invaders")]
)
def test_unknown_game_names_near_ones(task: str, near: str) -> None:
    with pytest.raises(UnknownTaskError, match=rf"'{task}'.*\b{near}\b"):
        game_name(task)


def test_unknown_game_without_a_near_one() -> None:
    with pytest.raises(UnknownTaskError, match="all_games"):
        game_name("qqqqqqqqqqqq")


@pytest.mark.parametrize("task", ["combat", "joust", "maze_craze", "warlords"])
def test_games_that_would_end_the_process_are_unknown(task: str) -> None:
    with pytest.raises(UnknownTaskError):
        game_name(task)
