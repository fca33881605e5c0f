"""Learns together with the chief of a run; `repro.train` starts this command for `runtime.num_learners` above 1."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import ml_collections
from absl import flags

from repro import cli

RUN_DIR = flags.DEFINE_string("run_dir", None, "Folder with the run's config.json.", required=True)
ADDRESS = flags.DEFINE_string("address", None, "Host and port of the chief.", required=True)
LEARNER = flags.DEFINE_integer("learner", 1, "Index of this learner, from 1; the chief is 0.", 1)


def main(argv: list[str]) -> None:
    del argv
    for number in (signal.SIGINT, signal.SIGTERM):  # the chief saves first; actors do not inherit these handlers
        signal.signal(number, lambda *_: None)
    cli.load_tensorflow()

    from repro.acting.actor_processes import KEY_VARIABLE, LocalLauncher
    from repro.papers import find_experiment
    from repro.training import devices
    from repro.training.experiment import SynchronousLearning
    from repro.training.learner_group import ChiefLink
    from repro.training.run_directory import RunDirectoryError, read_settings

    run_dir = Path(RUN_DIR.value)
    try:
        settings = read_settings(run_dir)
    except RunDirectoryError as error:
        cli.fail(error)
    if (key := os.environ.pop(KEY_VARIABLE, None)) is None:
        cli.fail(f"{KEY_VARIABLE} is not set: repro.train starts this process and sets it.")
    experiment = find_experiment(ml_collections.ConfigDict(settings["config"]))
    assert isinstance(experiment, SynchronousLearning)
    devices.configure_threads(deterministic=False, threads=experiment.config.runtime.get("threads", 0))
    chief, launcher = ChiefLink(ADDRESS.value, key, LEARNER.value), LocalLauncher(run_dir, run_dir / "actors")
    experiment.run_learner(settings["seed"], chief, launcher, gpu=LEARNER.value)


if __name__ == "__main__":
    cli.run(main)
