"""`repro.train` that places its actors and learners on the machines of `network.py`, as forks of the process it is in.

The variable `PLACES` of its environment has names of the machines, for each of the chief's actors that of its machine,
and those of an evaluator and of a replay. While the folder of the run has a file `gone_<machine>`, such processes are
placed beside the chief, as Ray places them where a core is free. `-m tests.support.placed_train` is the run, and starts
others as `repro.train` does. At the end it leaves `totals.json` beside the run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from repro import cli
from repro.training import learner_group
from repro.training.on_policy_trainer import OnPolicyTrainer
from repro.training.run_directory import write_json
from repro.training.sequence_trainer import SequenceTrainer
from repro.training.trainer import Trainer
from tests.support.forked_run import become
from tests.support.forks import ForkedLauncher, train_as_forks
from tests.support.network import ADDRESSES, enter

VARIABLE = "REPRO_TESTS_PLACES"
NO_BEAT_SECONDS = 20.0
"""After which the chief gives up a learner, in place of half a minute: tests wait for it."""


class PlacedLauncher(ForkedLauncher):
    """Learner i is on machine i, with its actors; those of the chief are where the variable says."""

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
    """Has trainers of a kind write their totals before they close."""
    close = kind.close

    def write_and_close(trainer: Trainer) -> None:
        write_json(folder / "totals.json", trainer.summary())
        close(trainer)

    kind.close = write_and_close


def train_placed() -> None:
    """The run, in this process."""
    from repro import train  # not before forks whose modules have flags with the same names

    def main(argv: list[str]) -> None:
        for kind in (OnPolicyTrainer, SequenceTrainer):
            leave_totals(kind, Path(train.RUN_DIR.value).parent)
        train.main(argv)

    learner_group.NO_BEAT_SECONDS = NO_BEAT_SECONDS
    cli.run(main)


def run_placed(arguments: Sequence[str], stderr: Path, environment: Mapping[str, str]) -> None:
    """The run and all that it starts, in forks of this process, which enters the first machine.

    Args:
        arguments: flags.
        stderr: gets what the run says.
        environment: variables, the one above among them.
    """
    become(arguments, stderr, environment)
    enter(json.loads(environment[VARIABLE])["names"][0])
    train_as_forks(PlacedLauncher, train_placed)


if __name__ == "__main__":
    train_placed()
