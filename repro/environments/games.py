"""Names of the Atari games in this suite, found from any usual spelling; errors suggest similar names."""

from __future__ import annotations

import functools
import re

from ale_py import roms

from repro.environments.lookup import bare, match_task

# ALE has these ROMs without single-player settings, and loading one of them ends the process.
_WITHOUT_SINGLE_PLAYER_SETTINGS = frozenset({"combat", "joust", "maze_craze", "warlords"})


@functools.cache
def all_games() -> tuple[str, ...]:
    """Returns every playable game in this suite's spelling (`space_invaders`), sorted."""
    return tuple(sorted(set(roms.get_all_rom_ids()) - _WITHOUT_SINGLE_PLAYER_SETTINGS))


def game_name(task: str) -> str:
    """Returns this suite's name of an Atari game.

    Letter case, underscores, blanks, an `ALE/` prefix and the suffixes of gymnasium's ids (`-v5`,
    `NoFrameskip-v4`, `Deterministic-v4`) make no difference.

    Args:
        task: the game in any usual spelling: `pong`, `Pong`, `ALE/Pong-v5`, `SpaceInvaders`, `space_invaders`,
          `PongNoFrameskip-v4`.

    Returns:
        The name in lower case with underscores, which is also ALE's name of the ROM: `space_invaders`.

    Raises:
        UnknownTaskError: no game has this name.
    """
    otherwise = "repro.environments.games.all_games() lists them."
    return match_task(task, all_games(), "Atari game", otherwise, key=_key, max_near=4)


def is_game(task: str) -> bool:
    """Returns whether a name, in any spelling that `game_name` takes, is that of an Atari game."""
    return _key(task) in map(_key, all_games())


def _key(name: str) -> str:
    return bare(re.sub(r"^ALE/|(NoFrameskip|Deterministic)?-v\d+$", "", name, flags=re.IGNORECASE))
