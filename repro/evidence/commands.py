"""The shell command that makes the runs behind a row."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from repro.config import tasks
from repro.evidence import claims, comparisons, findings, published, random_player, staleness, verdicts
from repro.evidence.comparisons import Key
from repro.evidence.groups import Group


class Run(NamedTuple):
    """Run that a command is to make; an empty task stands for the task or tasks of the configuration."""

    paper: str
    experiment: str
    agent: str
    task: str = ""
    scale: str = "desk"
    seed: int = 1


def of_record(record: Mapping[str, Any]) -> Run:
    """Returns the run that made a record."""
    return Run(*(record[name] for name in Run._fields))


def first_runs(printed: published.PublishedRow, configs_dir: pathlib.Path = staleness.CONFIGS_DIR) -> list[Run]:
    """Returns first runs for a printed number: of each agent in the row as many as a verdict needs.

    For a set of tasks they are on the task that the configuration names. Their scale is `desk`, or the only scale that
    answers the row.

    Args:
        printed: row with an experiment.
        configs_dir: folder with a directory of configs for each paper.
    """
    runs = _first_of_each(printed)
    return with_seeds(runs, _runs_to_decide(printed, runs[0], configs_dir))


def _first_of_each(printed: published.PublishedRow) -> list[Run]:
    """Returns the run of the first seed of each agent."""
    task = "" if printed.task in comparisons.TASK_SETS else printed.task
    names = (str(printed.agent), *printed.protocol.get("against", ()))
    scale = printed.protocol.get("scale", "paper" if printed.protocol.get("sampled") else "desk")
    return [Run(printed.paper, *comparisons.experiment_and_agent(printed, name), task, scale) for name in names]


def _runs_to_decide(printed: published.PublishedRow, run: Run, configs_dir: pathlib.Path) -> int:
    """Returns the fewest runs of each agent that decide a row; `run` is one of them."""
    path = staleness.config_path(run.paper, run.experiment, configs_dir)
    learned = not path.is_file() or "study" not in staleness.current_config(*run[:2], run.scale, configs_dir)
    if printed.claim is not None:
        return max(claims.runs_to_decide(printed, learned), claims.runs_to_order(printed))
    return verdicts.runs_to_decide(printed, learned)


def with_seeds(runs: Iterable[Run], seeds: int) -> list[Run]:
    """Returns each run with the seeds 1 to `seeds`."""
    return [run._replace(seed=seed) for run in runs for seed in range(1, seeds + 1)]


def command(runs: Iterable[Run], configs_dir: pathlib.Path = staleness.CONFIGS_DIR) -> str | None:
    """Returns the shell command that makes some runs, or None if an experiment or an agent does not exist.

    Agents with the same tasks and seeds share a command; several commands are joined by `&&`. Tasks that an agent
    learns together have one run, which names no task.

    Args:
        runs: one run or more.
        configs_dir: folder with a directory of configs for each paper.
    """
    seeds: dict[Run, set[int]] = {}
    for run in runs:
        same = run._replace(seed=0, task="" if learns_together(run, configs_dir) else run.task)
        seeds.setdefault(same, set()).add(run.seed)
    by_run: dict[tuple[Run, tuple[int, ...]], list[str]] = {}
    for run, own in seeds.items():
        by_run.setdefault((run._replace(task=""), tuple(sorted(own))), []).append(run.task)
    agents: dict[tuple[Run, tuple[int, ...]], list[str]] = {}
    for (run, own_seeds), names in by_run.items():
        if not _is_known(run, configs_dir):
            return None
        agents.setdefault((run._replace(agent="", task=",".join(names)), own_seeds), []).append(run.agent)
    return " && ".join(_command(run, own_seeds, names, configs_dir) for (run, own_seeds), names in agents.items())


def row_command(
    printed: published.PublishedRow,
    used: Sequence[Mapping[str, Any]],
    groups: Mapping[Key, Group],
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
) -> str | None:
    """Returns the shell command that makes a row's runs again, or its first runs if it has none.

    If a row is about the best of several runs, the others are made again, too. Of tasks that are learned together, the
    published scale has all and smaller scales may have some.

    Args:
        printed: the row.
        used: records behind the row; empty if there are none.
        groups: groups of all agents and tasks.
        configs_dir: folder with a directory of configs for each paper.

    Returns:
        Command, or None if the row has no experiment, if its configuration or agent does not exist, for an aggregate
        that cannot be run here, and for a set of tasks with neither claim nor statistic, unless its tasks are learned
        together.
    """
    if printed.experiment is None:
        return None
    first = _first_of_each(printed)[0]
    together = learns_together(first, configs_dir)
    if used:
        kinds = dict.fromkeys((comparisons.key_of(record), record["scale"]) for record in used)
        every = [record for key, scale in kinds for record in groups[key].every if record["scale"] == scale]
        return command(map(of_record, every), configs_dir)
    if printed.statistic is not None and not together:  # takes all tasks, by the name of their set
        if printed.cannot_run is not None:
            return None
        runs = with_seeds([first._replace(task=printed.task)], findings.runs_of_aggregate(printed))
        return command(runs, configs_dir)
    if printed.task in comparisons.TASK_SETS and printed.claim is None and not together:
        return None
    if together and printed.claim is None and printed.task not in together:
        return command((run._replace(scale="paper") for run in first_runs(printed, configs_dir)), configs_dir)
    return command(first_runs(printed, configs_dir), configs_dir)


def learns_together(run: Run, configs_dir: pathlib.Path = staleness.CONFIGS_DIR) -> tuple[str, ...]:
    """Returns the tasks that a run's agent learns together; empty if it learns a single one or plays at random."""
    if run.agent == random_player.AGENT or not staleness.config_path(run.paper, run.experiment, configs_dir).is_file():
        return ()
    return tasks(staleness.current_config(run.paper, run.experiment, run.scale, configs_dir))


def _command(run: Run, seeds: tuple[int, ...], agents: Sequence[str], configs_dir: pathlib.Path) -> str:
    """Returns the command of one run; its task may be several joined by commas, agents are named only if needed."""
    several = "variants" in staleness.current_config(run.paper, run.experiment, run.scale, configs_dir)
    agent = ",".join(agents) if several or random_player.AGENT in agents else ""
    fields = {"EXPERIMENT": run.experiment, "AGENT": agent, "TASK": run.task, "SCALE": run.scale}
    if seeds == tuple(range(1, len(seeds) + 1)):
        fields["SEEDS"] = str(len(seeds))
    else:
        fields["SEED"] = ",".join(map(str, seeds))
    return " ".join((f"make reproduce-{run.paper}", *(f"{name}={value}" for name, value in fields.items() if value)))


def _is_known(run: Run, configs_dir: pathlib.Path) -> bool:
    """Returns whether the experiment exists and, if it has several agents, has this one."""
    if not staleness.config_path(run.paper, run.experiment, configs_dir).is_file():
        return False
    known = staleness.current_config(run.paper, run.experiment, run.scale, configs_dir).get("variants")
    return known is None or run.agent in (*known, random_player.AGENT)
