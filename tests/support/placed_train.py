"""`repro.train` with actors and learners on the machines of `network.py`, as forks of the process that it runs in.

The environment variable `VARIABLE` has the names of the machines, and the machine of each of the chief's actors, of an
evaluator and of a replay, as JSON. While there is a file `gone_<machine>` beside the run, processes of this machine are
placed beside the chief, as Ray places them on a free core. `-m tests.support.placed_train` is the run, and starts
others like `repro.train`. At the end it leaves `totals.json` beside the run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from repro import cli
from repro.training import learner_group
from repro.training.run_directory import write_json
from repro.training.sequence_trainer import SequenceTrainer
from repro.training.trainer import Trainer
from repro.training.unroll_trainer import UnrollTrainer
from tests.support.forked_run import become
from tests.support.forks import ForkedLauncher, train_as_forks
from tests.support.network import ADDRESSES, enter

VARIABLE = "REPRO_TESTS_PLACES"
NO_BEAT_SECONDS = 20.0
"""Seconds after which the chief gives up a learner, shorter than the usual half minute because tests wait for it."""


class PlacedLauncher(ForkedLauncher):
    """Launcher that puts learner i and its actors on machine i, and the chief's actors where `VARIABLE` says."""

    home = ADDRESSES[0]

    def _start(self, module, flags, log, variables=None):
        places = json.loads(os.environ[VARIABLE])
        if "learner" in flags:
            machine = flags["learner"]
        elif "evaluates" in flags or "stores" in flags:
            machine = places["evaluator" if "evaluates" in flags else "replay"]
        else:
            machine = places["actors"][flags["actor"]]
        if (self._run_dir.parent / f"gone_{machine}").exists():
            machine = 0
        flags = flags | {"address": f"{self.home}:{flags['address'].rsplit(':', 1)[1]}"}
        return self._fork(module, flags, log, variables, places["names"][machine])


def leave_totals(kind: type[Trainer], folder: Path) -> None:
    """Makes trainers of a class write their totals before they close."""
    close = kind.close

    def write_and_close(trainer: Trainer) -> None:
        write_json(folder / "totals.json", trainer.summary())
        close(trainer)

    kind.close = write_and_close


def train_placed() -> None:
    """Trains in this process."""
    from repro import train  # not before forks whose modules define flags with the same names

    def main(argv: list[str]) -> None:
        for kind in (UnrollTrainer, SequenceTrainer):
            leave_totals(kind, Path(train.RUN_DIR.value).parent)
        train.main(argv)

    learner_group.NO_BEAT_SECONDS = NO_BEAT_SECONDS
    cli.run(main)


def run_placed(arguments: Sequence[str], stderr: Path, environment: Mapping[str, str]) -> None:
    """Runs a training and all that it starts in forks of this process, which enters the first machine.

    Args:
        arguments: flags.
        stderr: file for the output of the run.
        environment: environment variables, including `VARIABLE`.
    """
    become(arguments, stderr, environment)
    enter(json.loads(environment[VARIABLE])["names"][0])
    train_as_forks(PlacedLauncher, train_placed)


if __name__ == "__main__":
    train_placed()
