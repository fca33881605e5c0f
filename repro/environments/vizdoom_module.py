"""Presence and version of the package `vizdoom`."""

from __future__ import annotations

import importlib.metadata
import importlib.util

from repro.environments.lookup import MissingModuleError

MISSING = (
    "ViZDoom is not installed here: run make vizdoom, which leaves out its dependency pygame-ce, "
    "as that overwrites files of pygame."
)


def check_module() -> None:
    """Raises MissingModuleError if ViZDoom is not installed; the message says how to install it."""
    if importlib.util.find_spec("vizdoom") is None:
        raise MissingModuleError(MISSING)


def version() -> str:
    """Returns the version of ViZDoom.

    Raises:
        MissingModuleError: ViZDoom is not installed.
    """
    check_module()
    return importlib.metadata.version("vizdoom")
