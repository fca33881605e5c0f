"""Names of the Atari games: any usual spelling to this suite's, with near names for a wrong one."""

from __future__ import annotations

import difflib
import functools
import re

from ale_py import roms

# ALE ships these ROMs without single-player settings, and loading one ends the process.
_WITHOUT_SINGLE_PLAYER_SETTINGS = frozenset({"combat", "joust", "maze_craze", "warlords"})


class UnknownGameError(ValueError):
    """No Atari game has the name that was asked for; the message lists the nearest names."""


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
        UnknownGameError: no game has this name.
    """
    games = {_key(game): game for game in all_games()}
    wanted = _key(re.sub(r"^ALE/|(NoFrameskip|Deterministic)?-v\d+$", "", task, flags=re.IGNORECASE))
    if wanted in games:
        return games[wanted]
    near = [games[key] for key in difflib.get_close_matches(wanted, games, n=4, cutoff=0.5)]
    hint = f"did you mean {' or '.join(near)}?" if near else "repro.environments.games.all_games() lists them."
    raise UnknownGameError(f"No Atari game is called {task!r}; {hint}")


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
