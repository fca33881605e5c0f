"""Trains a population: `python -m repro.population --config=paper_configs/impala/atari_population.py --run_dir=runs/p`.

Members train side by side up to a moment when they are compared; Ctrl-C and SIGTERM save, and the same command goes on.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from repro import cli
from repro.config import budget

if TYPE_CHECKING:
    from repro.training.sizes import Machine

CONFIG = cli.define_config()
SEED = flags.DEFINE_integer("seed", 1, "Seed of first hyper-parameters, comparisons and members.", lower_bound=0)
RUN_DIR = flags.DEFINE_string("run_dir", None, "Folder; one that holds this population resumes it.", required=True)
JOBS = flags.DEFINE_integer(
    "jobs", 1, "Members that train side by side on a machine, each on its share of the cores.", 1
)
RAY = flags.DEFINE_string("ray", None, "Address of a Ray cluster that trains the members; local begins one here.")
flags.declare_key_flag("config")
flags.mark_flag_as_required("config")


def main(argv: list[str]) -> None:
    del argv
    cli.load_tensorflow()
    from repro.launch.lineage import PopulationError
    from repro.launch.population import Population, member_folder
    from repro.launch.population_display import PopulationDisplay
    from repro.launch.ray_workers import RayPool
    from repro.launch.recorded_job import Stopped
    from repro.launch.workers import WorkerPool
    from repro.report.lineages import write_figure
    from repro.training.run_directory import RunDirectoryError
    from repro.training.sizes import fill_in

    run_dir = Path(RUN_DIR.value).resolve() if RAY.value else Path(RUN_DIR.value)
    threads = max(1, len(os.sched_getaffinity(0)) // JOBS.value)
    try:
        unit, _ = budget(CONFIG.value)
        if chosen := fill_in(CONFIG.value, run_dir, lambda: _find_machine(threads)):
            print(chosen, file=sys.stderr)
        population = Population(CONFIG.value, SEED.value, run_dir, threads)
        folders = [member_folder(run_dir, i) for i in range(population.settings.size)]
        pool: WorkerPool | RayPool
        pool = RayPool(RAY.value, run_dir, threads) if RAY.value else WorkerPool(JOBS.value)
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
    except OSError as error:
        cli.fail(f"could not write to {run_dir} ({error.strerror}); free some space, and the same command goes on.", 1)
    evaluate = cli.command("repro.evaluate", f"--run_dir={best}")
    print(f"{run_dir} is complete, see {figure}. Evaluate its best member with: {evaluate}")


def _find_machine(threads: int) -> Machine:
    """What one member may use; TensorFlow is loaded where this is asked for."""
    from repro.training import devices

    return devices.find_machine()._replace(cores=threads)


if __name__ == "__main__":
    cli.run(main)
