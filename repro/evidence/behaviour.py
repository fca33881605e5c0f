"""Behaviour versions: which agents train otherwise than when a record was made, whatever their configs say.

`paper_configs/behaviour/<paper>.json` has a version for each way to train of a paper, the agents that train in this
way, and golden values: what it logs of its first updates, on a small environment or, where it learns from sequences, on
fixed ones. A test computes them again with the code at hand (`tests/test_golden.py`). A change that alters them
raises the version; records of other versions are stale.
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
"""Version of records that name none, and of what has no golden values: studies and random players."""


class Behaviour(NamedTuple):
    """One way to train.

    version: raised with each change of `values`.
    agents: `<experiment>/<agent>` of those that train in this way, as the shell expands `*` and `[...]`.
    values: name of what is logged to a number for each update.
    """

    version: int
    agents: Sequence[str]
    values: Mapping[str, Sequence[float]]


def behaviour_path(configs_dir: pathlib.Path, paper: str) -> pathlib.Path:
    """Returns the file of a paper's behaviours."""
    return configs_dir / "behaviour" / f"{paper}.json"


@functools.cache
def load(paper: str, configs_dir: pathlib.Path) -> Mapping[str, Behaviour]:
    """Returns a paper's behaviours by name; none without a file."""
    path = behaviour_path(configs_dir, paper)
    if not path.is_file():
        return {}
    return {name: Behaviour(**fields) for name, fields in json.loads(path.read_text(encoding="utf-8")).items()}


def names_of(paper: str, experiment: str, agent: str, configs_dir: pathlib.Path) -> list[str]:
    """Returns the behaviours that an agent of an experiment has: one, or none where nothing is trained."""
    place = f"{experiment}/{agent}"
    return [
        name
        for name, found in load(paper, configs_dir).items()
        if any(fnmatch.fnmatchcase(place, pattern) for pattern in found.agents)
    ]


def version_of(paper: str, experiment: str, agent: str, configs_dir: pathlib.Path) -> int:
    """Returns the version of what an agent of an experiment does now.

    Of an agent that a file elsewhere trains, which no behaviour names, it is the highest of the paper's.
    """
    known = load(paper, configs_dir)
    is_elsewhere = records.is_elsewhere(experiment) and agent != random_player.AGENT
    names = known if is_elsewhere else names_of(paper, experiment, agent, configs_dir)
    return max((known[name].version for name in names), default=FIRST)


def of_record(record: Mapping[str, Any]) -> int:
    """Returns the version that a record was made with."""
    return record.get("behaviour", FIRST)
