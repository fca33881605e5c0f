"""Plays for a learner in another process, evaluates the learner's weights during training, or serves its replay.

`repro.train` starts this command for `runtime.schedule=processes`.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import ml_collections
from absl import flags

from repro import cli

RUN_DIR = flags.DEFINE_string("run_dir", None, "Folder with the run's config.json.", required=True)
ADDRESS = flags.DEFINE_string("address", None, "Host and port of the learner.", required=True)
ACTOR = flags.DEFINE_integer("actor", 0, "Index of this actor, from 0.", 0)
EVALUATES = flags.DEFINE_boolean("evaluates", False, "Evaluate the learner's weights instead of playing.")
STORES = flags.DEFINE_boolean("stores", False, "Serve the learner's replay instead of playing.")
START = flags.DEFINE_integer("start", 0, "Number of earlier starts of this actor; each has other games and actions.", 0)


def main(argv: list[str]) -> None:
    del argv
    cli.load_tensorflow()

    from repro.acting.actor_processes import KEY_VARIABLE
    from repro.acting.replay_process import make_folder_in
    from repro.papers import find_experiment
    from repro.training import devices
    from repro.training.evaluator_setup import run_evaluator
    from repro.training.experiment import RemoteActing, RemoteStoring
    from repro.training.run_directory import RunDirectoryError, read_settings

    try:
        settings = read_settings(Path(RUN_DIR.value))
    except RunDirectoryError as error:
        cli.fail(error)
    config = ml_collections.ConfigDict(settings["config"])
    experiment = find_experiment(config)
    if not isinstance(experiment, RemoteActing):
        cli.fail(f"the run in {RUN_DIR.value} has no actors that run as separate processes.")
    devices.configure_actor()
    if EVALUATES.value:
        run_evaluator(find_experiment, config, settings["seed"], ADDRESS.value)
    if STORES.value:
        assert isinstance(experiment, RemoteStoring)
        if (key := os.environ.pop(KEY_VARIABLE, None)) is None:
            cli.fail(f"{KEY_VARIABLE} is not set: repro.train starts this process and sets it.")
        for number in (signal.SIGINT, signal.SIGTERM):  # the learner saves first, and then closes the connection
            signal.signal(number, lambda *_: None)
        experiment.run_remote_replay(make_folder_in(Path(RUN_DIR.value)), ADDRESS.value, key)
    experiment.run_remote_actor(settings["seed"], ACTOR.value, START.value, ADDRESS.value)


if __name__ == "__main__":
    cli.run(main)
