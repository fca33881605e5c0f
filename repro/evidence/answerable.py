"""Tells before any run which published rows planned runs can answer, and with how much of the paper's protocol."""

import collections
import functools
import itertools
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import ml_collections

from repro.config import SCALES, budget
from repro.evidence import (
    claim_intervals,
    claim_kinds,
    claims,
    comparisons,
    findings,
    published,
    settings,
    staleness,
    verdicts,
)
from repro.evidence.commands import Run, learns_together
from repro.evidence.comparisons import Key
from repro.evidence.published import PublishedRow
from repro.evidence.references import Differences

RowKey = tuple[str, int]
"""Paper and the row's index among its rows."""
MIN_TASKS = 2
"""Fewest tasks that decide a claim over several tasks: a single one is not enough."""


def shares(
    runs: Iterable[Run],
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
    of: Collection[tuple[str, str]] | None = None,
) -> dict[RowKey, float]:
    """Returns the rows that runs can answer, each with the fraction of its protocol that they cover, in (0, 1].

    The fraction is the product of three ratios: the runs' budget to that of the published scale, their number to the
    row's, and the available tasks to those of the row. If a row has several comparisons, their fractions are averaged.
    A row is not answered by fewer runs than its verdict or interval needs, nor by settings that it does not accept.
    Conditions that depend on results, such as whether a score shows learning or which games a row is about, are assumed
    to hold.

    Args:
        runs: planned runs, each once, with canonical task names or the name of a set of tasks that is learned together.
        published_dir, configs_dir: directories of the published numbers and of the configs, whose budgets count.
        of: pairs of experiment and agent. Rows that neither are about one of them nor compare with one are left out.
            None keeps all rows.
    """
    held: dict[Key, list[dict[str, Any]]] = collections.defaultdict(list)
    seeds: dict[Run, list[int]] = collections.defaultdict(list)
    for run in runs:
        seeds[run._replace(seed=1)].append(run.seed)
    for run, of_run in seeds.items():
        record = _prospect(run.paper, run.experiment, run.agent, run.scale, configs_dir)
        made = [{**record, "seed": seed} for seed in of_run]
        for task in learns_together(run, configs_dir) or (run.task,):
            held[run.paper, run.experiment, task, run.agent] += made
    agents = {(paper, experiment, agent) for paper, experiment, _, agent in held}
    known = published.papers(published_dir)
    found = {}

    def differences(record: Mapping[str, Any]) -> Mapping[str, tuple[Any, Any]]:
        names = (record["paper"], record["experiment"], record["agent"], record["scale"])
        return _differences(*names, configs_dir, published_dir)

    for paper in sorted({paper for paper, _, _ in agents} & set(known)):
        for place, printed in enumerate(published.load(paper, published_dir).rows):
            if (paper, printed.experiment, printed.agent) not in agents or printed.cannot_run is not None:
                continue
            if of is None or not _names(paper, place, published_dir).isdisjoint(of):
                share = _share(printed, held, differences, published_dir, configs_dir)
                if share > 0:
                    found[paper, place] = share
    return found


@functools.cache
def _names(paper: str, place: int, published_dir: pathlib.Path) -> frozenset[tuple[str, str]]:
    """Returns pairs of experiment and agent that a row is about or compares with."""
    printed = published.load(paper, published_dir).rows[place]
    opponents: Sequence[Sequence[str]] = ()
    if printed.claim is not None:
        opponents = claims.find_opponents(printed, claim_kinds.find_claim(printed))[1]
    names = {str(printed.agent), *itertools.chain.from_iterable(opponents)}
    return frozenset(comparisons.experiment_and_agent(printed, name) for name in names)


@functools.cache
def _prospect(paper: str, experiment: str, agent: str, scale: str, configs_dir: pathlib.Path) -> dict[str, Any]:
    """Returns the part of a run's future record that the selection and comparison of runs reads."""
    config = staleness.agent_config(paper, experiment, scale, agent, configs_dir)
    return {
        "paper": paper,
        "experiment": experiment,
        "agent": agent,
        "scale": scale,
        "config": config,
        "evaluation": {"mean": 0.0},
        claim_kinds.SAMPLED: config.get("sweep", {}).get("sampled", False),
    }


@functools.cache
def _differences(
    paper: str, experiment: str, agent: str, scale: str, configs_dir: pathlib.Path, published_dir: pathlib.Path
) -> Mapping[str, tuple[Any, Any]]:
    """Returns the settings of a run that differ from the paper's, in the form of `settings.differences`."""
    return settings.differences(_prospect(paper, experiment, agent, scale, configs_dir), configs_dir, published_dir)


def _share(
    printed: PublishedRow,
    held: Mapping[Key, Sequence[Any]],
    differences: Differences,
    published_dir: pathlib.Path,
    configs_dir: pathlib.Path,
) -> float:
    """Returns the fraction of a row's protocol that the runs cover; 0 if they cannot answer it."""
    if printed.claim is None:
        tasks: Iterable[str] = (printed.task,)
        min_runs = 1
        if printed.statistic is not None:
            tasks = comparisons.tasks_of_aggregate(printed, held, published_dir)
            min_runs = findings.runs_of_aggregate(printed)
        parts = [_part(printed, task, (), min_runs, held, configs_dir) for task in tasks]
        return sum(parts) / len(parts) if parts and all(parts) else 0.0
    claim = claim_kinds.find_claim(printed)
    min_runs, opponents = claims.find_opponents(printed, claim)
    min_runs = max(min_runs, claim.interval_runs)
    total = comparisons.number_of_tasks(printed.task)
    of_all = []
    needs = [need for need in claim.needs if need == claim_kinds.SAMPLED]
    for others in opponents:
        tasks = {
            task: by_agent
            for task, by_agent in comparisons.runs_by_task(printed, held, others, min_runs, needs)[0].items()
            if not claims.foreign_settings(printed, claim, by_agent, differences)
        }
        if claim.count is not None:
            orders = claim.orders(len(tasks), len(others))
            tasks = {
                task: by_agent for task, by_agent in tasks.items() if claim_intervals.can_be_ordered(by_agent, orders)
            }
        needed = total if claim.takes_all_tasks else 1 if claim.is_of_each_task else min(total, MIN_TASKS)
        if len(tasks) < needed:
            tasks = {}
        of_all.append(sum(_part(printed, task, others, min_runs, held, configs_dir) for task in tasks) / total)
    return min(sum(of_all) / len(of_all), 1.0)


def _part(
    printed: PublishedRow,
    task: str,
    others: Sequence[str],
    min_runs: int,
    held: Mapping[Key, Sequence[Any]],
    configs_dir: pathlib.Path,
) -> float:
    """Returns the fraction of the protocol on one task, at the largest scale with at least `min_runs` of each agent.

    It is 0 without such a scale, and if these runs leave the row undecided whatever they score.
    """
    names = [comparisons.experiment_and_agent(printed, name) for name in (str(printed.agent), *others)]
    part = 0.0
    for scale in SCALES:
        runs = [
            [record for record in held.get((printed.paper, experiment, task, agent), ()) if record["scale"] == scale]
            for experiment, agent in names
        ]
        count = min(map(len, runs))
        if count >= min_runs:
            learned = any("study" not in record["config"] for of_agent in runs for record in of_agent)
            budgets = [_budget_share(printed.paper, *name, scale, configs_dir) for name in names]
            is_decided = count >= verdicts.runs_to_decide(printed, learned)
            part = is_decided * min(count / verdicts.expected_runs(printed, learned), 1.0) * min(budgets)
    return part


@functools.cache
def _budget_share(paper: str, experiment: str, agent: str, scale: str, configs_dir: pathlib.Path) -> float:
    """Returns the ratio of an agent's budget at a scale to that at the published scale, at most 1."""
    ours, paper_s = (
        budget(ml_collections.ConfigDict(staleness.agent_config(paper, experiment, name, agent, configs_dir)))[1]
        for name in (scale, "paper")
    )
    return min(ours / paper_s, 1.0)
