"""Published rows whose experiment, agent or task does not exist, so that no record could ever answer them."""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from repro.evidence import published, staleness
from repro.evidence.comparisons import TASK_SETS, experiment_and_agent
from repro.evidence.published import PublishedRow
from repro.evidence.records import RecordError, ValidationError

TaskName = Callable[[str, str], str]
"""Returns the canonical name of a task of a package of environments; raises ValueError if there is no such task."""


def find_errors(
    papers: Iterable[str],
    task_name: TaskName,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
) -> list[ValidationError]:
    """Returns an error for each experiment, agent and task that rows name and that the configs of their paper lack.

    Rows that cannot run are left out, since their agents may not be built. The agents of a study are its answers.

    Args:
        papers: short names of the papers.
        task_name: see `TaskName`.
        published_dir: folder of the published numbers.
        configs_dir: folder of the current configs.

    Raises:
        PublishedError: the published numbers cannot be read.
    """
    errors = []
    for paper in papers:
        file = published_dir / f"{paper}.json"
        rows = [row for row in published.load(paper, published_dir).rows if row.experiment and not row.cannot_run]
        named = _readings(rows)
        for experiment in sorted({str(row.experiment) for row in rows} | named.keys()):
            try:
                config = staleness.current_config(paper, experiment, "paper", configs_dir)
            except RecordError as error:
                errors.append(ValidationError(file, f"Rows of {file} name an experiment that cannot be used: {error}"))
                continue
            of_experiment = [row for row in rows if row.experiment == experiment]
            faults = _agent_faults({str(row.agent) for row in of_experiment} | named.get(experiment, set()), config)
            faults += _task_faults({row.task for row in of_experiment} - TASK_SETS.keys(), config, task_name)
            errors += [
                ValidationError(file, f"Rows of {file} name {what}, which {paper}/{experiment} does not have{end}")
                for what, end in faults
            ]
    return errors


def _readings(rows: Iterable[PublishedRow]) -> dict[str, set[str]]:
    """Returns the agents that rows name as other readings, by experiment."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for name in row.protocol.get("readings", ()):
            experiment, agent = experiment_and_agent(row, name)
            found.setdefault(experiment, set()).add(agent)
    return found


def _agent_faults(agents: Iterable[str], config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the unknown agents, and for each the end of a sentence about it."""
    known = config.get("answers") or config.get("variants")
    if known is None:
        return []
    unknown = sorted(set(agents) - set(known))
    near = [difflib.get_close_matches(agent, known, n=1) for agent in unknown]
    ends = [f"; did you mean {names[0]!r}?" if names else "." for names in near]
    return [(f"an agent {agent!r}", end) for agent, end in zip(unknown, ends)]


def _task_faults(tasks: Iterable[str], config: Mapping[str, Any], task_name: TaskName) -> list[tuple[str, str]]:
    """Returns the unknown tasks, as `_agent_faults`; a study has one task."""
    faults = []
    for task in sorted(set(tasks) - {config["env"]["task"]}):
        if "study" in config:
            faults.append((f"a task {task!r}", f"; it has {config['env']['task']!r} alone."))
            continue
        try:
            known = task_name(config["env"]["name"], task)
        except ValueError as error:
            faults.append((f"a task {task!r}", f": {error}"))
        else:
            if known != task:
                faults.append((f"a task {task!r}", f" by this name; it is {known!r}."))
    return faults
