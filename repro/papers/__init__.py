"""One package per paper; no paper imports another."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def find_experiment(paper: str) -> ModuleType:
    """The module `experiment` of a paper, with `build_training` and `load_policy`.

    Raises:
        ValueError: the suite has no such paper.
    """
    papers = [module.name for module in pkgutil.iter_modules(__path__)]
    if paper not in papers:
        raise ValueError(f"No paper {paper!r}; the suite has {', '.join(papers)}.")
    return importlib.import_module(f"{__name__}.{paper}.experiment")
