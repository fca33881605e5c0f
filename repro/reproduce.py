"""Reproduces experiments: `python -m repro.reproduce --paper=impala --scale=desk --task=pong --seeds=3`.

Trains, evaluates and records each run, or runs a study, which trains nothing. Skips runs that have a valid record,
resumes interrupted ones, prints the rows with the published numbers, and builds the report page.
"""

from __future__ import annotations

import importlib
import itertools
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import ml_collections
from absl import flags

from repro import cli
from repro.config import MAX_SEED, agents
from repro.evidence.commands import Run
from repro.launch import jobs, ray_cluster, task_sets
from repro.launch.cluster_job import Cluster, ClusterJob
from repro.launch.ray_runs import RayRuns
from repro.launch.recorded_job import RecordedJob
from repro.launch.scheduler import run_jobs, run_on_cluster

if TYPE_CHECKING:
    from rich.console import Console

    from repro.evidence.records import StoredRecord

PAPER = flags.DEFINE_string(
    "paper", None, "Required. Folder in paper_configs: impala, acer, refer, ctrace or stac.", required=True
)
SCALE = flags.DEFINE_string("scale", "desk", "Scale of the runs: smoke, desk or paper.")
EXPERIMENT = flags.DEFINE_list(
    "experiment",
    [],
    "Experiments: names in paper_configs/<paper>, their first words, all, or files such as my/lander.py; the paper's "
    "default experiment if not given.",
)
TASK = flags.DEFINE_list(
    "task", [], "Tasks such as pong, or sets of tasks such as atari57; the configuration's task if not given."
)
AGENT = flags.DEFINE_list(
    "agent", [], "Agents, all, or random for random play; the configuration's agent if not given."
)
SEEDS = flags.DEFINE_integer("seeds", 1, "Number of runs of each task; their seeds are 1 to this number.", 1)
SEED = flags.DEFINE_list("seed", [], "Only these seeds, instead of 1 to --seeds.")
JOBS = flags.DEFINE_integer(
    "jobs",
    None,
    "Number of runs in parallel, each on an equal share of the cores; 1 if not given. With --spread=runs, the largest "
    "number; if 0 or not given, as many as the cluster has cores for.",
    0,
)
CLUSTER = flags.DEFINE_string("cluster", None, "Ray cluster to use: auto, or ray://<head>:10001.")
SPREAD = flags.DEFINE_enum(
    "spread",
    None,
    ["actors", "runs"],
    "What to put on the cluster: the actors of runs that learn here, or whole runs. If not given, actors for agents "
    "whose actors can be separate processes, else whole runs.",
)
CORES_PER_RUN = flags.DEFINE_integer("cores_per_run", 1, "Number of cores of each run, with --spread=runs.", 1)
RESULTS_DIR = flags.DEFINE_string(
    "results_dir", None, "Folder of the records; if not given, results/, or records/ in --runs_dir at smoke scale."
)
RUNS_DIR = flags.DEFINE_string("runs_dir", "runs", "Folder of checkpoints and logs.")


def find_jobs(cluster: Cluster | None = None, say: Callable[[str], None] = print) -> Iterator[RecordedJob]:
    """Yields the job of each run that the flags ask for, once each.

    Args:
        cluster: cluster for whole runs; None for none.
        say: called with a line when a short name stands for experiments, and when a run on the cluster is lost.

    Raises:
        ValueError: a paper, experiment, scale, agent, task or seed is unknown or invalid; the message names known ones.
    """
    known = jobs.experiments(PAPER.value)
    package = importlib.import_module(f"paper_configs.{PAPER.value}")
    folders = results_dir(), Path(RUNS_DIR.value)
    made: set[tuple[Path, ...]] = set()  # records of the jobs so far, since several names may mean the same run
    for name in _expand(EXPERIMENT.value or [package.DEFAULT_EXPERIMENT], known, say):
        config = jobs.load_config(PAPER.value, name, SCALE.value)
        for named, agent in itertools.product(task_sets.expand(TASK.value) or [config.env.task], _agents(config)):
            spread = SPREAD.value or (CLUSTER.value and _default_spread(config, agent))
            if spread == "runs":
                jobs.check_is_everywhere(PAPER.value, name)
            for task, seed in itertools.product(jobs.played_tasks(config, named, agent), _seeds()):
                run = Run(PAPER.value, name, agent, task, SCALE.value, seed)
                whole = cluster if spread == "runs" else None
                job = jobs.make_job(run, *folders, None if whole else CLUSTER.value)
                if tuple(job.paths) in made:
                    continue
                made.add(tuple(job.paths))
                yield ClusterJob(job, run, whole, say) if whole else job


def _default_spread(config: ml_collections.ConfigDict, agent: str) -> str:
    return "actors" if jobs.has_remote_actors(config, agent) else "runs"


def _agents(config: ml_collections.ConfigDict) -> Sequence[str]:
    """Returns the agents of an experiment that the flags ask for."""
    if AGENT.value == ["all"]:
        return agents(config)
    jobs.check_agents(config, AGENT.value)
    return AGENT.value or [config.agent]


def _seeds() -> Sequence[int]:
    """Returns the seeds that the flags ask for."""
    for text in SEED.value:
        if not text.isdecimal() or int(text) > MAX_SEED:
            raise ValueError(f"--seed={text!r}: choose whole numbers from 0 to {MAX_SEED}.")
    return [int(text) for text in SEED.value] or range(1, SEEDS.value + 1)


def _expand(names: list[str], known: list[str], say: Callable[[str], None]) -> Iterator[str]:
    """Yields the experiments given by name, by file, by first words (`tabular` for `tabular_...`), or by `all`."""
    for name in names:
        path, _, scale = name.partition(":")
        if path.endswith(".py"):
            if scale:
                raise ValueError(f"--experiment={name}: give the scale as --scale={scale}.")
            yield jobs.name_of_file(PAPER.value, path)
            continue
        meant = [name] if name in known else [k for k in known if name == "all" or k.startswith(f"{name}_")]
        if not meant:
            folder = jobs.CONFIGS / PAPER.value
            raise ValueError(
                f"no experiment {name!r} in {folder}{cli.nearest(name, known)} (there are {', '.join(known)})"
            )
        if name not in (*known, "all"):
            say(f"--experiment={name} stands for {', '.join(meant)}.")
        yield from meant


def results_dir() -> Path:
    """Returns the root of the records."""
    return Path(RESULTS_DIR.value or jobs.default_results_dir(SCALE.value, Path(RUNS_DIR.value)))


def _own_folders() -> str:
    """Returns flags and the variable of `make` for runs and records apart from those of the suite."""
    again = Path(RUNS_DIR.value) / "again"
    return f"--runs_dir={again} --results_dir={again / 'records'} (make: OUT={again})"


def _check_writable(folder: Path) -> None:
    """Creates a folder, and fails now if it is not writable: a study takes minutes and would lose its results."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        cli.fail(f"cannot write to --results_dir={folder} ({error.strerror}); give another one.")


def main(argv: list[str]) -> None:
    del argv
    cli.quiet()
    from rich.console import Console

    from repro.evidence import records, rows
    from repro.report import tables

    console = Console()
    try:
        if not CLUSTER.value and (SPREAD.value or JOBS.value == 0):
            raise ValueError("--spread and --jobs=0 are only allowed with --cluster.")
        cluster = RayRuns(CLUSTER.value) if CLUSTER.value else None
        asked = list(find_jobs(cluster, lambda line: cli.say(console, line)))
        waiting = [job for job in asked if not job.recorded()]
        here = [job for job in waiting if not isinstance(job, ClusterJob)]
        there = [job for job in waiting if isinstance(job, ClusterJob)]
        jobs.check_modules(here)
        if len(asked) > 1:
            cli.say(console, f"{len(asked)} runs at scale {SCALE.value}, of which {len(waiting)} are left.")
        if waiting:
            _check_writable(results_dir())
            if _committed_dir() == results_dir() and (records.git_commit() or "").endswith("-dirty"):
                cli.say(
                    console,
                    "The code has uncommitted changes, so repro.check will refuse these records: commit it first, or "
                    f"give other folders, such as {_own_folders()}.",
                )
        room = 0
        if cluster and there:
            room = cluster.connect(CORES_PER_RUN.value)
        elif CLUSTER.value and here:
            ray_cluster.join(CLUSTER.value)  # a cluster started here serves all runs, which join it themselves
    except (ValueError, records.RecordError) as error:
        cli.fail(error)
    for job in asked:
        if job not in waiting:
            cli.say(console, f"{job.label}: complete, {job.record_paths[0]}")
    if not waiting:
        cli.say(console, f"Nothing is left to run. To train again, give other folders, such as {_own_folders()}.")
    began = time.monotonic()
    failures = run_jobs(here, JOBS.value or 1, console)
    if cluster and there and all(job.recorded() or job in failures for job in here):  # that is, without an interruption
        at_once = min(JOBS.value or room, len(there))
        cli.say(console, cluster.describe(at_once))
        failures |= run_on_cluster(there, at_once, CORES_PER_RUN.value, console)
    complete = [path for job in asked if job.recorded() for path in job.record_paths]
    stored = [records.StoredRecord(path, records.read_record(path)) for path in complete]
    unfinished = [job for job in waiting if not job.recorded() and job not in failures]
    committed: Sequence[StoredRecord] = ()
    if stored or not unfinished:
        committed, _ = records.read_all(_committed_dir())
    if stored:
        others = [] if _committed_dir() == results_dir() else records.read_all(results_dir())[0]
        console.print(tables.terminal_table(rows.rows_for(stored, others=[*others, *committed]), console.width))
        _show_bands(stored, committed, console)
    for job, reason in failures.items():
        cli.say(console, f"{job.label} failed: {reason}", style="red")
    if unfinished:
        left = "The run is" if len(asked) == 1 else f"{len(unfinished)} of {len(asked)} runs are"
        cli.say(console, f"{left} not finished; the same command resumes {'it' if len(asked) == 1 else 'them'}.")
    elif waiting:
        cli.say(console, f"Took {time.monotonic() - began:.0f} s.")
    if stored:
        cli.say(console, f"Records: {results_dir()}")
    if not unfinished:
        _build_page(committed, console)
    sys.exit(1 if failures else 0)


def _committed_dir() -> Path:
    """Returns the folder of the committed records, in the spelling of the flags if they name it."""
    from repro.evidence import records

    return results_dir() if results_dir().resolve() == records.COMMITTED.resolve() else records.COMMITTED


def _show_bands(stored: Sequence[StoredRecord], committed: Sequence[StoredRecord], console: Console) -> None:
    """Prints for each record whether it is in the band of the committed runs, and how many records have no band."""
    from repro.evidence import judgements, outliers, records

    try:
        explained = outliers.explained(committed, outliers.read(_committed_dir()))
    except records.RecordError as error:
        cli.say(console, f"No run could be judged by a band: {error}", style="red")
        return
    known = records.committed_files(results_dir())
    judged = judgements.judge_by(committed, stored, known=known, outliers=explained)
    for found in judged:
        if found.kind != judgements.UNJUDGED:
            cli.say(console, found.message, style="red" if found.fell_out else None)
    unknown = sum(found.kind == judgements.UNJUDGED for found in judged)
    if unknown and SCALE.value != "smoke":  # smoke runs are never committed
        cli.say(console, f"{unknown} of {len(judged)} records have no band: too few committed runs.")


def _build_page(committed: Sequence[StoredRecord], console: Console) -> None:
    from repro.report.contents import collect
    from repro.report.page import write_report

    out = Path("report") if _committed_dir() == results_dir() else Path(RUNS_DIR.value) / "report"
    contents = collect(results_dir(), committed=committed)
    page = write_report(out, results_dir(), contents=contents)
    cli.say(console, f"Page: {page}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cli.run(main)
