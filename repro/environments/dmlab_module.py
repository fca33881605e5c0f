"""Location and provenance of the `deepmind_lab` module."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

from repro.environments.lookup import MissingModuleError

FOLDER_VARIABLE = "REPRO_DMLAB"
"""Environment variable with the folder that holds the package `deepmind_lab`, if it is not `DEFAULT_FOLDER`."""
DEFAULT_FOLDER = Path(__file__).parents[2] / "build" / "dmlab"
PROVENANCE = "provenance.json"
"""Name of the file beside the package that says what it was built from."""

MISSING = (
    "DeepMind Lab is not built here: clone https://github.com/google-deepmind/lab and run make dmlab SOURCE=<clone>, "
    f"or set {FOLDER_VARIABLE} to the folder that holds the package deepmind_lab."
)


def module_folder() -> str | None:
    """Returns the folder that has to be on Python's path; None if `deepmind_lab` is installed.

    Raises:
        MissingModuleError: the module is not found.
    """
    folder = Path(os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER)
    if (folder / "deepmind_lab").is_dir() or (folder / "deepmind_lab.py").is_file():
        return str(folder)
    if FOLDER_VARIABLE not in os.environ and importlib.util.find_spec("deepmind_lab") is not None:
        return None
    raise MissingModuleError(MISSING)


def provenance() -> str | None:
    """Returns the module's commit and the numbers of its stand-ins in words; None if they are not known.

    Raises:
        MissingModuleError: the module is not found.
    """
    folder = module_folder()
    path = Path(folder or "", PROVENANCE)
    return json.loads(path.read_text())["text"] if folder and path.exists() else None
