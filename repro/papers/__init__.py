"""One package per paper; no paper imports another."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING

import ml_collections

from repro.config import check_numbers, resolve

if TYPE_CHECKING:
    from repro.training.experiment import Experiment
    from repro.training.study import RunStudy


def find_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment that a configuration describes.

    `config.algorithm` is `<paper>.<name>`, for the module `repro/papers/<paper>/experiments/<name>.py` whose
    `make_experiment` builds it. A baseline of one paper that is another paper's algorithm names that paper's module.
    `<module>:<function>` names any function that does the same, such as one in the current folder.

    Raises:
        ValueError: there is no such module, function or agent, a number is out of range, or the configuration is from
            an older version.
    """
    config = resolve(config)
    check_numbers(config)
    if "algorithm" not in config:
        raise ValueError("the configuration has no field 'algorithm': an older version wrote it; start a new run.")
    if ":" in config.algorithm:
        return _make_own(config)
    paper, _, name = config.algorithm.partition(".")
    known = _modules(paper, "experiments")
    if name not in known:
        choices = ", ".join(f"{paper}.{module}" for module in known) or f"one of {', '.join(papers())}"
        raise ValueError(f"algorithm={config.algorithm!r}: choose {choices}, or <module>:<function> for your own.")
    module = importlib.import_module(f"{__name__}.{paper}.experiments.{name}")
    make_experiment: Callable[[ml_collections.ConfigDict], Experiment] = module.make_experiment
    return make_experiment(config)


def _make_own(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment that a function outside the suite makes of a resolved configuration.

    Raises:
        ValueError: the function cannot be found, does not take a configuration, or returns no experiment.
    """
    function = _find_function(config.algorithm)
    try:
        inspect.signature(function).bind(config)
    except TypeError as error:
        raise ValueError(
            f"algorithm={config.algorithm!r}: it is called with a configuration alone ({error}), see docs/extending.md."
        ) from error
    made = function(config)
    if not hasattr(made, "build_trainer"):
        raise ValueError(
            f"algorithm={config.algorithm!r}: it returned {type(made).__name__} instead of an experiment, see "
            "docs/extending.md."
        )
    return made


def _find_function(algorithm: str) -> Callable[[ml_collections.ConfigDict], Experiment]:
    """Returns the function that `<module>:<function>` names.

    Raises:
        ValueError: there is no such module or function, or the module cannot be imported.
    """
    name, _, function = algorithm.partition(":")
    try:
        module = importlib.import_module(name)
    except Exception as error:  # whatever a user's module raises
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"algorithm={algorithm!r}: {name} cannot be imported ({reason}). It is looked for in this folder and in "
            "PYTHONPATH."
        ) from error
    if not callable(found := getattr(module, function, None)):
        raise ValueError(f"algorithm={algorithm!r}: {name} has no function {function!r}.")
    return found


class UnknownStudyError(ValueError):
    """Error for a configuration that names a study or paper that does not exist."""


def find_study(config: ml_collections.ConfigDict) -> RunStudy:
    """Returns the study, which involves no training, that `config.study` names in the package of `config.paper`.

    Raises:
        UnknownStudyError: there is no such paper or module, or the module has no function `run`.
    """
    paper = config.paper
    known = _modules(paper, "")
    run = _find_run(paper, config.study) if config.study in known else None
    if run is None:
        if paper not in papers():
            raise UnknownStudyError(f"paper={paper!r}: choose one of {', '.join(papers())}.")
        choices = ", ".join(name for name in known if _find_run(paper, name) is not None)
        raise UnknownStudyError(f"study={config.study!r}: choose one of {choices}.")
    return run


def papers() -> list[str]:
    """Returns the names of all papers."""
    return [module.name for module in pkgutil.iter_modules(__path__)]


def _find_run(paper: str, name: str) -> RunStudy | None:
    """Returns the `run` of a paper's module; None if the module is no study."""
    return getattr(importlib.import_module(f"{__name__}.{paper}.{name}"), "run", None)


def _modules(paper: str, package: str) -> list[str]:
    """Returns the names of the modules in a paper's package; empty if that does not exist."""
    folders = [f"{path}/{paper}/{package}" for path in __path__]
    return sorted(module.name for module in pkgutil.iter_modules(folders))
