"""The plan of a campaign: blocks of runs in the order of their worth."""

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
        purpose: what they are for, in a few words.
        paper, experiment: folder and file in `paper_configs`.
        agents: those that are compared stand in one block, since one without the others answers little. One with
            fields of its own is a variant of its experiment's configuration, so that its records are no other's.
        tasks: in any spelling; of tasks that are learned together, the name of the set, of which a random player plays
            each alone.
        scale: smoke, desk or paper.
        seeds: 1 to this number.
        core_hours: of one run, estimated, the mean over agents and tasks, above 0.
        cores: that a run is to have; more than one where it would take too many days otherwise.

    Raises:
        ValueError: it has no run, or a run takes no time or no core.
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
        """Returns its runs, all of the first seed before any of the second, so that whatever is done can be compared.

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
"""Blocks by the title of their stage, in order."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A block at its place in the plan.

    Attributes:
        stage: title of its stage.
        block: the block.
        runs: of the block, but for those of earlier ones.
        rows: printed numbers and statements that can be answered after it and not before.
        full_rows: what it adds to the answered parts of rows, 1 for a whole protocol; see `answerable.shares`.
    """

    stage: str
    block: Block
    runs: Sequence[Run]
    rows: int
    full_rows: float

    @property
    def core_hours(self) -> float:
        """Estimate for all its runs."""
        return len(self.runs) * self.block.core_hours


def load_stages(path: Path) -> Stages:
    """Returns the `STAGES` of a file such as `paper_configs/campaign.py`.

    Raises:
        ValueError: there is no such file, or it has no `STAGES`, or cannot be run.
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
    except Exception as error:  # whatever a file may raise, the reader learns which one and why
        raise ValueError(f"the plan {path} cannot be loaded ({type(error).__name__}: {error}).") from error


def order(stages: Stages) -> Iterator[Step]:
    """Yields the blocks stage by stage, within one by the answered parts of rows that a core-hour adds, most first.

    Each block is judged by what it adds to those before it; equal ones keep the order of the file.

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
                afters[block] = answerable.shares(of_paper, of=of)  # those of other rows stay as they are
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
    """Sum of the parts of rows, in an order that is the same however they were found."""
    return sum(shares[key] for key in sorted(shares))
