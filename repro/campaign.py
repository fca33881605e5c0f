"""Works through the results campaign: `python -m repro.campaign --dry_run`, then without the flag.

The plan is `paper_configs/campaign.py`. Runs that have a valid record are skipped, interrupted ones are resumed, and
each core has one run. Ctrl-C and SIGTERM save; the same command continues. The campaign commits nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from repro import cli
from repro.evidence import random_player

if TYPE_CHECKING:
    from rich.console import Console

    from repro.evidence.commands import Run
    from repro.launch.campaign import CampaignFolder, Estimates, Planned
    from repro.launch.cluster_job import Cluster
    from repro.launch.plan import Block, Step
    from repro.launch.recorded_job import RecordedJob

PLAN = flags.DEFINE_string("plan", "paper_configs/campaign.py", "File with the stages of runs.")
DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print the plan and its progress, and run nothing.")
PAUSE = flags.DEFINE_bool("pause", False, "Save the runs of a running campaign and free its cores until --resume.")
RESUME = flags.DEFINE_bool("resume", False, "Continue a paused campaign.")
ONLY = flags.DEFINE_list(
    "only",
    [],
    "Only runs of these papers, experiments, agents, tasks or scales, such as refer,atari_shallow/pong; words joined "
    "by a slash must all match.",
)
CORES = flags.DEFINE_string("cores", None, "Numbers of the cores to use, such as 0,2-3; all if not given.")
CLUSTER = flags.DEFINE_string("cluster", None, "Ray cluster on which to make the runs: auto, or ray://<head>:10001.")
SHARE = flags.DEFINE_string("share", "1/1", "k/n: every n-th run from the k-th on, so that n machines share the plan.")
RETRY = flags.DEFINE_bool("retry", False, "Also try runs again that failed before.")
RESULTS_DIR = flags.DEFINE_string(
    "results_dir", None, "Folder of the records; if not given, results/, or records/ in --runs_dir at smoke scale."
)
RUNS_DIR = flags.DEFINE_string("runs_dir", "runs", "Folder of checkpoints, logs and the state of the campaign.")

WIDE_COLUMNS = 120
"""Smallest width of a terminal for all columns; narrower ones show no sums, so that the names of the blocks fit."""


def main(argv: list[str]) -> None:
    del argv
    cli.quiet()
    from rich.console import Console

    from repro.evidence.records import RecordError
    from repro.launch.campaign import CampaignFolder
    from repro.launch.gate import GateError
    from repro.launch.plan import load_stages, order
    from repro.launch.ray_runs import RayRuns
    from repro.launch.selection import check_choice, choose, parse_cores

    console = Console()
    folder = CampaignFolder(Path(RUNS_DIR.value) / "campaign")
    if PAUSE.value and RESUME.value:
        cli.fail("give --pause or --resume, not both.")
    if PAUSE.value or RESUME.value:
        (_pause if PAUSE.value else _resume)(folder, console)
        return
    try:
        if CORES.value and CLUSTER.value:
            raise ValueError("give --cores or --cluster, not both: --cores names cores of this machine.")
        cores = parse_cores(CORES.value, sorted(os.sched_getaffinity(0)))
        cluster = RayRuns(CLUSTER.value) if CLUSTER.value else None
        if cluster:
            cores = list(range(cluster.connect(1)))
            cli.say(console, cluster.describe(len(cores)))
        with console.status("Reading the plan and its records"):
            stages = load_stages(Path(PLAN.value))
            every = [run for blocks in stages.values() for block in blocks for run in block.runs()]
            check_choice(every, ONLY.value, SHARE.value)  # before ordering the plan, which takes many seconds
            steps = list(order(stages))
            planned = _plan_runs(choose(steps, ONLY.value, SHARE.value), cluster, console)
        if DRY_RUN.value:
            _show_plan(steps, planned, folder, len(cores), console)
            return
        failed = _work_through(planned, folder, cores, console)
    except (ValueError, RecordError, GateError) as error:
        cli.fail(error)
    sys.exit(1 if failed else 0)


def _work_through(planned: Sequence[Planned], folder: CampaignFolder, cores: Sequence[int], console: Console) -> bool:
    """Makes the runs that are left; returns whether a run failed, was refused or is set aside, or the campaign stopped.

    Raises:
        ValueError: another campaign is working in this folder, or the code has uncommitted changes.
        GateError: the golden values could not be computed.
    """
    from repro.launch.campaign import CampaignFollower, Estimates, describe_rest, name_of
    from repro.launch.scheduler import END_SECONDS, PAUSE_SECONDS, Scheduler

    if not folder.lock():
        raise ValueError(f"another campaign is running with --runs_dir={RUNS_DIR.value}; --dry_run shows its progress.")
    if RETRY.value:
        folder.clear_failures(item.run for item in planned)
    estimates = Estimates(planned)
    aside = _set_aside(planned, folder)
    done = {item.run for item in planned if _is_done(item, estimates)}
    left = [item for item in planned if item.run not in done and name_of(item.run) not in aside]
    left_out = 0
    if not CLUSTER.value:  # machines of a cluster may have modules that this one lacks
        left, left_out = _leave_out_unplayable(left, console)
    for name, found in aside.items():
        cli.say(console, f"{name} is set aside: {found['reason']} (--retry runs it again)")
    refused = _check_code(left, folder, console)
    follower = CampaignFollower(left, folder, estimates, refused, console, len(cores), len(done))
    if folder.is_paused:
        cli.say(console, f"The campaign is paused; continue it with: {cli.command('repro.campaign', '--resume')}")
    hours = sum(estimates.left(item.job) for item in left)
    cli.say(console, f"{len(done)} of {len(planned)} runs are done; {describe_rest(hours, len(cores))}.")
    try:
        end_seconds = PAUSE_SECONDS if CLUSTER.value else END_SECONDS
        slots = [[core] for core in cores]
        failures = Scheduler([item.job for item in left], slots, console, follower, end_seconds).run()
    finally:
        folder.write_state("ended", [])
    unfinished = [item for item in left if not item.job.recorded() and item.job not in failures]
    if follower.stop_reason:
        cli.say(console, f"The campaign stopped early: {follower.stop_reason}")
    if unfinished:
        hours = sum(estimates.left(item.job) for item in unfinished)
        cli.say(console, f"Runs not finished: {len(unfinished)}, {describe_rest(hours, len(cores))}; "
                      "the same command resumes them.")  # fmt: skip
    else:
        failed = len(failures) + len(aside)
        groups = {"failed or refused": failed, "left out": left_out}
        counts = ", ".join(f"{words}: {count}" for words, count in groups.items() if count)
        message = f"All other runs are done ({counts})." if counts else "All runs are done."
        cli.say(console, f"{message} Check the records with make check, and show them with make report.")
    return bool(failures or aside or follower.stop_reason)


def _leave_out_unplayable(left: Sequence[Planned], console: Console) -> tuple[list[Planned], int]:
    """Returns the runs whose environments are installed, and the number of others; prints what these need."""
    from repro.launch.jobs import check_modules

    playable: list[Planned] = []
    counts: dict[str, int] = {}
    for item in left:
        try:
            check_modules([item.job])
            playable.append(item)
        except ValueError as error:
            counts[str(error)] = counts.get(str(error), 0) + 1
    for reason, count in counts.items():
        cli.say(console, f"{count} {'run is' if count == 1 else 'runs are'} left out: {reason}")
    return playable, sum(counts.values())


def _check_code(left: Sequence[Planned], folder: CampaignFolder, console: Console) -> dict[str, str]:
    """Returns the behaviours whose runs would soon be stale, with the reason; smoke runs are not checked.

    Raises:
        ValueError: the code has uncommitted changes.
        GateError: the golden values could not be computed.
    """
    from repro.evidence import records
    from repro.launch import gate

    recorded = [item.run for item in left if item.run.scale != "smoke"]
    if recorded and (records.git_commit() or "").endswith("-dirty"):
        raise ValueError("the code has uncommitted changes, so records could name no commit; commit them first.")
    names = {name for run in recorded if run.agent != random_player.AGENT for name in gate.behaviours(run)}
    if names:
        cli.say(
            console, f"Comparing what {len(names)} agents learn with their golden values, which takes seconds each."
        )
    return gate.find_other_behaviour(names, folder.golden_json)


def _set_aside(planned: Sequence[Planned], folder: CampaignFolder) -> dict[str, dict[str, str]]:
    """Returns the runs that failed before, as `CampaignFolder.failures` does, restricted to the planned ones."""
    from repro.launch.campaign import name_of

    names = {name_of(item.run) for item in planned}
    return {name: found for name, found in folder.failures().items() if name in names}


def _is_done(item: Planned, estimates: Estimates) -> bool:
    found = item.job.find_records()
    if found is None:
        return False
    estimates.add_record(item.job, found[0])
    return True


def _plan_runs(chosen: Sequence[tuple[Run, Block]], cluster: Cluster | None, console: Console) -> list[Planned]:
    """Returns the chosen runs with their jobs, which are made on the cluster if there is one.

    Raises:
        ValueError: as for `jobs.make_job`, or an experiment does not exist on the machines of the cluster.
    """
    from repro.launch.campaign import Planned
    from repro.launch.cluster_job import ClusterJob
    from repro.launch.jobs import check_is_everywhere, default_results_dir, make_job

    def make(run: Run) -> RecordedJob:
        if cluster:
            check_is_everywhere(run.paper, run.experiment)
        runs_dir = Path(RUNS_DIR.value)
        results_dir = Path(RESULTS_DIR.value or default_results_dir(run.scale, runs_dir))
        job = make_job(run, results_dir, runs_dir)
        return ClusterJob(job, run, cluster, lambda line: cli.say(console, line)) if cluster else job

    return [Planned(run, make(run), block) for run, block in chosen]


def _pause(folder: CampaignFolder, console: Console) -> None:
    """Requests a pause, and waits until all runs are saved and the cores are free."""
    from repro.launch.scheduler import PAUSE_SECONDS

    folder.pause()
    deadline = time.monotonic() + PAUSE_SECONDS + 30
    while not folder.lock():
        if folder.read_state() == "paused":
            cli.say(console, "Paused: all runs are saved and their cores are free. Continue with --resume.")
            return
        if time.monotonic() > deadline:
            cli.fail("the campaign has not paused yet; see what it prints.", code=1)
        time.sleep(0.2)
    cli.say(console, "No campaign is running; one that is started now waits for --resume.")


def _resume(folder: CampaignFolder, console: Console) -> None:
    if not folder.is_paused:
        cli.say(console, "The campaign is not paused.")
        return
    folder.resume()
    cli.say(console, "The pause has ended: a running campaign continues; if none is running, start it.")


def _show_plan(
    steps: Sequence[Step], planned: Sequence[Planned], folder: CampaignFolder, num_cores: int, console: Console
) -> None:
    """Prints the blocks with their runs, core-hours and rows, and on a wide terminal also cumulative sums."""
    from rich.table import Table

    from repro.launch.campaign import Estimates, describe_rest, name_of

    estimates = Estimates(planned)
    done = {item.run for item in planned if _is_done(item, estimates)}
    aside = _set_aside(planned, folder)
    table = Table(box=None, header_style="bold")
    headers = "Stage", "Block", "Runs", "Done", "Failed", "Core-hours left", "so far", "Rows", "so far", "Full rows"
    wide = console.width >= WIDE_COLUMNS
    shown = [i for i, header in enumerate(headers) if wide or header not in ("so far", "Full rows")]
    for header in (headers[i] for i in shown):
        table.add_column(header, justify="left" if header in ("Stage", "Block") else "right")
    hours_so_far, rows_so_far, full_so_far = 0.0, 0, 0.0
    for step in steps:
        rows_so_far, full_so_far = rows_so_far + step.rows, full_so_far + step.full_rows
        items = [item for item in planned if item.block is step.block]
        if not items:
            continue
        left = [item for item in items if item.run not in done]
        hours = sum(estimates.left(item.job) for item in left)
        hours_so_far += hours
        failed = sum(name_of(item.run) in aside for item in left)
        cells = (
            step.stage,
            f"{step.block.purpose}, {step.block.scale}",
            *map(str, (len(items), len(items) - len(left), failed)),
            *(f"{value:.1f}" for value in (hours, hours_so_far)),
            *map(str, (step.rows, rows_so_far)),
            f"{full_so_far:.1f}",
        )
        table.add_row(*(cells[i] for i in shown))
    console.print(table)
    cli.say(
        console,
        f"{len(done)} of {len(planned)} runs are done; {describe_rest(hours_so_far, num_cores)}. Rows are printed "
        "numbers and statements that the block makes answerable"
        + ("; full rows sum, up to the block, their shares of the paper's budget, runs and tasks." if wide else "."),
    )
    for name, found in aside.items():
        cli.say(console, f"{name} is set aside: {found['reason']} (--retry runs it again)")


if __name__ == "__main__":
    cli.run(main)
