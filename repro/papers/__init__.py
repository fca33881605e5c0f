"""One package per paper; no paper imports another."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import ml_collections


def find_experiment(paper: str) -> ModuleType:
    """The module `experiment` of a paper, with `build_training` and `load_policy`.

    Raises:
        ValueError: the suite has no such paper.
    """
    papers = [module.name for module in pkgutil.iter_modules(__path__)]
    if paper not in papers:
        raise ValueError(f"No paper {paper!r}; the suite has {', '.join(papers)}.")
    return importlib.import_module(f"{__name__}.{paper}.experiment")


def experiment_of(config: ml_collections.ConfigDict) -> tuple[ModuleType, ml_collections.ConfigDict]:
    """The module that builds a configuration's agent, and the configuration as it reads it.

    An agent named in `config.baselines` is another paper's: the entry is that paper, and the section of that name holds
    the fields that its module reads instead.

    Raises:
        ValueError: the suite has no such paper.
    """
    paper = config.get("baselines", {}).get(config.agent)
    if paper is None:
        return find_experiment(config.paper), config
    read = config.copy_and_resolve_references()
    with read.unlocked():
        read.update(config[paper])
    return find_experiment(paper), read
