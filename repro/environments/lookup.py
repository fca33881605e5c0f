"""Finds tasks by name; errors suggest similar names or say what is missing.

This module does not import any simulator.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Collection, Mapping


class UnknownTaskError(ValueError):
    """No task has the requested name; the message lists similar names."""


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
    """Returns the name among `tasks` that equals `task` up to its spelling.

    Args:
        task: a name in any spelling.
        tasks: the names to choose from.
        kind: kind of task, for the message.
        otherwise: hint of the message if no name is similar; empty to list all names.
        key: function that maps all spellings of a name to the same key; by default it drops everything except letters
            and digits, and letter case.
        max_near, cutoff: as for `suggest_near`.

    Raises:
        UnknownTaskError: no task has this name.
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
    """Returns `did you mean a or b?`, or `otherwise` if no name is similar.

    Args:
        wanted: key of the requested name.
        known: names by their keys.
        otherwise: hint to return if no name is similar.
        max_near: largest number of suggestions, the most similar first.
        cutoff: smallest similarity of keys in [0, 1], as for `difflib.get_close_matches`.
    """
    near = [known[key] for key in difflib.get_close_matches(wanted, known, n=max_near, cutoff=cutoff)]
    return f"did you mean {' or '.join(near)}?" if near else otherwise
