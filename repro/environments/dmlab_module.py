"""Where the `deepmind_lab` module is, and what it was built from."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

from repro.environments.lookup import MissingModuleError

FOLDER_VARIABLE = "REPRO_DMLAB"
"""Environment variable: the folder that holds the package `deepmind_lab`, where it is not `DEFAULT_FOLDER`."""
DEFAULT_FOLDER = Path(__file__).parents[2] / "build" / "dmlab"
PROVENANCE = "provenance.json"
"""File beside the package."""

MISSING = (
    "DeepMind Lab is not built here: clone https://github.com/google-deepmind/lab and run make dmlab SOURCE=<clone>, "
    f"or set {FOLDER_VARIABLE} to the folder that holds the package deepmind_lab."
)


def module_folder() -> str | None:
    """Returns the folder that has to be on the path of modules; None where `deepmind_lab` is installed.

    Raises:
        MissingModuleError: it is nowhere.
    """
    folder = Path(os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER)
    if (folder / "deepmind_lab").is_dir() or (folder / "deepmind_lab.py").is_file():
        return str(folder)
    if FOLDER_VARIABLE not in os.environ and importlib.util.find_spec("deepmind_lab") is not None:
        return None
    raise MissingModuleError(MISSING)


def provenance() -> str | None:
    """Returns the module's commit and the share of stand-ins in words; None where they are not known.

    Raises:
        MissingModuleError: there is no module.
    """
    folder = module_folder()
    path = Path(folder or "", PROVENANCE)
    return json.loads(path.read_text())["text"] if folder and path.exists() else None
