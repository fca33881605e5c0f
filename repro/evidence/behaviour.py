"""Behaviour versions: they tell which agents train differently than when a record was made, with the same config.

`paper_configs/behaviour/<paper>.json` has an entry for each way in which agents of a paper train: its version, these
agents, and golden values. Golden values are what the first updates log on a small environment or, for agents that learn
from sequences, on fixed sequences. `tests/test_golden.py` computes them again with the present code. A change of code
that alters them must raise the version; records of other versions are stale.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from repro.evidence import random_player, records

FIRST = 1
"""Version of records that name none, and of studies and random players, which have no golden values."""


class Behaviour(NamedTuple):
    """One way to train.

    version: number that is raised with each change of `values`.
    agents: `<experiment>/<agent>` of the agents that train in this way, with the wildcards `*` and `[...]`.
    values: logged quantity to its numbers, one per update.
    """

    version: int
    agents: Sequence[str]
    values: Mapping[str, Sequence[float]]


def behaviour_path(configs_dir: pathlib.Path, paper: str) -> pathlib.Path:
    """Returns the path of the file with a paper's behaviours."""
    return configs_dir / "behaviour" / f"{paper}.json"


@functools.cache
def load(paper: str, configs_dir: pathlib.Path) -> Mapping[str, Behaviour]:
    """Returns a paper's behaviours by name; an empty mapping if it has no file."""
    path = behaviour_path(configs_dir, paper)
    if not path.is_file():
        return {}
    return {name: Behaviour(**fields) for name, fields in json.loads(path.read_text(encoding="utf-8")).items()}


def names_of(paper: str, experiment: str, agent: str, configs_dir: pathlib.Path) -> list[str]:
    """Returns the names of an agent's behaviours: one, or none if nothing is trained."""
    return [name for name, found in load(paper, configs_dir).items() if is_of(found.agents, experiment, agent)]


def is_of(patterns: Sequence[str], experiment: str, agent: str) -> bool:
    """Returns whether an agent is one of those that the patterns of a behaviour name, see `Behaviour.agents`."""
    return any(fnmatch.fnmatchcase(f"{experiment}/{agent}", pattern) for pattern in patterns)


def version_of(paper: str, experiment: str, agent: str, configs_dir: pathlib.Path) -> int:
    """Returns the present version of an agent's behaviour.

    Agents of a config outside `paper_configs`, which no behaviour names, have the highest version of the paper.
    """
    known = load(paper, configs_dir)
    is_elsewhere = records.is_elsewhere(experiment) and agent != random_player.AGENT
    names = known if is_elsewhere else names_of(paper, experiment, agent, configs_dir)
    return max((known[name].version for name in names), default=FIRST)


def of_record(record: Mapping[str, Any]) -> int:
    """Returns the version that a record was made with."""
    return record.get("behaviour", FIRST)
