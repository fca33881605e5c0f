"""Trains a population: `python -m repro.population --config=paper_configs/impala/atari_population.py --run_dir=runs/p`.

Members train in parallel and are compared at intervals. Ctrl-C and SIGTERM save; the same command continues.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from repro import cli
from repro.config import MAX_SEED, budget, check_numbers, resolve, total_budget

if TYPE_CHECKING:
    from repro.training.sizes import Machine

CONFIG = cli.define_config("paper_configs/impala/atari_population.py:desk")
SEED = flags.DEFINE_integer(
    "seed", 1, "Seed of initial hyper-parameters, comparisons and members.", lower_bound=0, upper_bound=MAX_SEED
)
RUN_DIR = flags.DEFINE_string(
    "run_dir", None, "Required. Folder of the population; one that holds this population resumes it.", required=True
)
JOBS = flags.DEFINE_integer(
    "jobs", 1, "Members that train in parallel on this machine, each on an equal share of the cores.", 1
)
CLUSTER = flags.DEFINE_string("cluster", None, "Ray cluster that trains the members: auto, or ray://<head>:10001.")
flags.mark_flag_as_required("config")


def main(argv: list[str]) -> None:
    del argv
    cli.quiet()
    from repro.environments.names import check_package
    from repro.launch.lineage import PopulationError
    from repro.launch.population import Population, member_folder
    from repro.launch.population_display import PopulationDisplay
    from repro.launch.ray_workers import RayPool
    from repro.launch.recorded_job import Stopped
    from repro.launch.workers import WorkerPool
    from repro.report.lineages import write_figure
    from repro.training.run_directory import RunDirectoryError, is_complete
    from repro.training.sizes import fill_in

    run_dir = Path(RUN_DIR.value).resolve() if CLUSTER.value else Path(RUN_DIR.value)
    threads = max(1, len(os.sched_getaffinity(0)) // JOBS.value)
    try:
        unit, _ = budget(CONFIG.value)
        check_numbers(resolve(CONFIG.value))
        if not CLUSTER.value and not is_complete(run_dir):  # machines of a cluster may have modules that this one lacks
            check_package(CONFIG.value.env.name)
        if chosen := fill_in(CONFIG.value, run_dir, lambda: _find_machine(threads)):
            print(chosen, file=sys.stderr)
        population = Population(CONFIG.value, SEED.value, run_dir, threads)
        folders = [member_folder(run_dir, i) for i in range(population.settings.size)]
        if not population.lineage.is_complete:
            print(_describe_start(run_dir, folders), file=sys.stderr)
        pool: WorkerPool | RayPool
        pool = RayPool(CLUSTER.value, run_dir, threads) if CLUSTER.value else WorkerPool(JOBS.value)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: pool.stop())
        with pool, PopulationDisplay(population.lineage, folders, unit) as display:
            population.train(pool, display.show)
        figure = write_figure(run_dir, population.lineage, unit)
        best = folders[population.lineage.best]
    except Stopped:
        resume = cli.command("repro.population", *sys.argv[1:])
        print(f"Stopped and saved. Resume with: {resume}", file=sys.stderr)
        return
    except (RunDirectoryError, PopulationError, ValueError) as error:
        cli.fail(error)
    except (AttributeError, KeyError) as error:
        cli.fail_for_missing_field(error, CONFIG.value)
    except OSError as error:
        cli.fail(f"{cli.describe_file_error(error, run_dir)}; the same command resumes it.", 1)
    message = f"{run_dir} is complete, see {figure}."
    if not cli.has_parent():  # otherwise the command that started it evaluates it
        message += f" Evaluate its best member with: {cli.command('repro.evaluate', f'--run_dir={best}')}"
    print(message)


def _describe_start(run_dir: Path, folders: Sequence[Path]) -> str:
    """Returns the message before the processes load TensorFlow and build the members, which takes seconds."""
    from repro.training.run_directory import has_saved

    config, (unit, amount) = CONFIG.value, total_budget(resolve(CONFIG.value))
    where = f"on a Ray cluster ({CLUSTER.value})" if CLUSTER.value else f"{JOBS.value} at a time"
    begins = "from their last checkpoints" if any(map(has_saved, folders)) else "from the beginning"
    return (
        f"Training {len(folders)} members of {config.agent} on {config.env.task}, seed {SEED.value}, for {amount:,} "
        f"{unit} each in {run_dir}, {where}, {begins}."
    )


def _find_machine(threads: int) -> Machine:
    """Returns the resources of one member; loads TensorFlow, which is needed only for this."""
    cli.load_tensorflow()
    from repro.training import devices

    return devices.find_machine()._replace(cores=threads)


if __name__ == "__main__":
    cli.run(main)
