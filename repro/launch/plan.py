"""The plan of a campaign: blocks of runs, ordered by how much a core-hour adds to the answered rows."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from repro.environments.names import run_task
from repro.evidence import answerable
from repro.evidence.commands import Run
from repro.launch import jobs


@dataclasses.dataclass(frozen=True)
class Block:
    """Runs that belong together: each agent on each task with each seed.

    Attributes:
        purpose: purpose of the runs, in a few words.
        paper, experiment: folder and file in `paper_configs`.
        agents: agents to run. Agents that are compared belong in one block, because one without the others answers
            little. An agent with its own fields is a variant of the experiment's configuration, so that its records
            are distinct.
        tasks: tasks in any spelling; tasks that are learned together are given by the name of their set, of which a
            random player plays each task separately.
        scale: `smoke`, `desk` or `paper`.
        seeds: number of seeds, which are 1 to this number.
        core_hours: estimated core-hours of a run, the mean over agents and tasks, above 0.
        cores: number of cores of a run; more than one for runs that would otherwise take too many days.

    Raises:
        ValueError: the block has no runs, or a run has no core-hours or no cores.
    """

    purpose: str
    paper: str
    experiment: str
    agents: Sequence[str]
    tasks: Sequence[str]
    scale: str
    seeds: int
    core_hours: float
    cores: int = 1

    def __post_init__(self) -> None:
        for name in ("agents", "tasks"):
            if not getattr(self, name):
                raise ValueError(f"the block {self.purpose!r} has no {name}")
        for name in ("seeds", "core_hours", "cores"):
            if (value := getattr(self, name)) <= 0:
                raise ValueError(f"the block {self.purpose!r} has {name}={value}, which must be above 0")

    def runs(self) -> list[Run]:
        """Returns the block's runs ordered by seed, so that completed runs can be compared at any time.

        Raises:
            ValueError: there is no such paper, experiment, scale, agent or task.
        """
        config = jobs.load_config(self.paper, self.experiment, self.scale)
        jobs.check_agents(config, self.agents)
        tasks = [run_task(config, task) for task in self.tasks]
        return [
            Run(self.paper, self.experiment, agent, task, self.scale, seed)
            for seed in range(1, self.seeds + 1)
            for named in tasks
            for agent in self.agents
            for task in jobs.played_tasks(config, named, agent)
        ]


Stages = Mapping[str, Sequence[Block]]
"""Titles of the stages and the blocks of each, in order."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A block at its position in the plan.

    Attributes:
        stage: title of the block's stage.
        block: the block.
        runs: runs of the block that are in no earlier block.
        rows: number of printed numbers and statements that become answerable with this block.
        full_rows: sum of the parts of rows that this block adds, where a row answered with its whole protocol counts 1;
            see `answerable.shares`.
    """

    stage: str
    block: Block
    runs: Sequence[Run]
    rows: int
    full_rows: float

    @property
    def core_hours(self) -> float:
        """Estimated core-hours of all runs of the step."""
        return len(self.runs) * self.block.core_hours


def load_stages(path: Path) -> Stages:
    """Returns the `STAGES` of a file such as `paper_configs/campaign.py`.

    Raises:
        ValueError: the file is missing, cannot be loaded or has no `STAGES`.
    """
    if not path.is_file():
        raise ValueError(f"there is no plan {str(path)!r}.")
    spec = importlib.util.spec_from_file_location("_campaign_plan", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return module.STAGES
    except Exception as error:  # for any error of the file, the message names the file and the reason
        raise ValueError(f"the plan {path} cannot be loaded ({type(error).__name__}: {error}).") from error


def order(stages: Stages) -> Iterator[Step]:
    """Yields the blocks stage by stage; within a stage, the block that adds most to the rows per core-hour comes first.

    The gain of a block is what it adds to the answered parts of rows after all blocks before it. Blocks with equal
    gains per core-hour keep the order of the file.

    Raises:
        ValueError: as for `Block.runs`.
    """
    planned: dict[Run, None] = {}
    before: dict[answerable.RowKey, float] = {}
    for stage, blocks in stages.items():
        left = {block: block.runs() for block in blocks}
        afters: dict[Block, dict[answerable.RowKey, float]] = {}
        while left:
            for block in left.keys() - afters.keys():
                of_paper = [run for run in dict.fromkeys([*planned, *left[block]]) if run.paper == block.paper]
                of = {(run.experiment, run.agent) for run in left[block]}
                afters[block] = answerable.shares(of_paper, of=of)  # the shares of other rows do not change
            gains = {block: _sum(before | afters[block]) - _sum(before) for block in left}
            hours = {block: len(runs) * block.core_hours for block, runs in left.items()}
            best = max(left, key=lambda block: gains[block] / hours[block])
            new = [run for run in left.pop(best) if run not in planned]
            after = before | afters[best]
            yield Step(stage, best, new, len(after.keys() - before.keys()), gains[best])
            planned |= dict.fromkeys(new)
            before = after
            afters = {block: shares for block, shares in afters.items() if block.paper != best.paper}


def _sum(shares: Mapping[answerable.RowKey, float]) -> float:
    """Returns the sum of the parts of rows, added in an order that does not depend on how they were found."""
    return sum(shares[key] for key in sorted(shares))
