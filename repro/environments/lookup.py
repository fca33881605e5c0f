"""Tasks that are asked for by name: the one that is meant, or an error that says which are near or what is missing.

Nothing here brings a simulator.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Collection, Mapping


class UnknownTaskError(ValueError):
    """No task has the name that was asked for; the message lists the nearest names."""


class MissingModuleError(ImportError, ValueError):
    """The module of an environment cannot be found; the message says how to get it."""


def bare(name: str) -> str:
    """Returns the letters and digits of a name, in lower case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def match_task(
    task: str,
    tasks: Collection[str],
    kind: str,
    otherwise: str = "",
    *,
    key: Callable[[str], str] = bare,
    max_near: int = 3,
    cutoff: float = 0.5,
) -> str:
    """Returns the one of `tasks` that `task` spells.

    Args:
        task: a name in any spelling.
        tasks: the names to choose from.
        kind: what they are, for the message.
        otherwise: what the message says where no name is near; all names if empty.
        key: two spellings of one name have the same; by default all but letters and digits makes no difference, nor
            does letter case.
        max_near, cutoff: as for `suggest_near`.

    Raises:
        UnknownTaskError: none of them has this name.
    """
    known, wanted = _by_key(tuple(tasks), key), key(task)
    if wanted in known:
        return known[wanted]
    otherwise = otherwise or f"there are {', '.join(tasks)}."
    hint = suggest_near(wanted, known, otherwise, max_near=max_near, cutoff=cutoff)
    raise UnknownTaskError(f"No {kind} is called {task!r}; {hint}")


@functools.cache
def _by_key(tasks: tuple[str, ...], key: Callable[[str], str]) -> Mapping[str, str]:
    return {key(name): name for name in tasks}


def suggest_near(wanted: str, known: Mapping[str, str], otherwise: str, *, max_near: int, cutoff: float) -> str:
    """Returns `did you mean a or b?`, or `otherwise` where no name is near.

    Args:
        wanted: key of the name that was asked for.
        known: names by their keys.
        otherwise: what to say instead.
        max_near: names that are listed at most, the nearest first.
        cutoff: least similarity of keys in [0, 1], as of `difflib.get_close_matches`.
    """
    near = [known[key] for key in difflib.get_close_matches(wanted, known, n=max_near, cutoff=cutoff)]
    return f"did you mean {' or '.join(near)}?" if near else otherwise
