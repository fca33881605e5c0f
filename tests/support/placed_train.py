"""`repro.train` that places its actors and learners on the machines of `network.py`: `-m tests.support.placed_train`.

The variable `PLACES` of its environment has names of the machines, for each of the chief's actors that of its machine,
and those of an evaluator and of a replay. While the folder of the run has a file `gone_<machine>`, such processes are
placed beside the chief, as Ray places them where a core is free. At the end it leaves `totals.json` beside the run.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from repro import cli, train
from repro.acting.actor_processes import LocalLauncher, LocalProcess
from repro.papers.ctrace import experiment as ctrace_experiment
from repro.training import learner_group, on_policy_experiment
from repro.training.on_policy_trainer import OnPolicyTrainer
from repro.training.run_directory import write_json
from repro.training.sequence_trainer import SequenceTrainer
from repro.training.trainer import Trainer
from tests.support.network import ADDRESSES

VARIABLE = "REPRO_TESTS_PLACES"
NO_BEAT_SECONDS = 20.0
"""After which the chief gives up a learner, in place of half a minute: tests wait for it."""


class PlacedLauncher(LocalLauncher):
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
        command = ["ip", "netns", "exec", places["names"][machine], sys.executable, "-m", module]
        return LocalProcess(
            [*command, *(f"--{name}={value}" for name, value in flags.items())], self._logs / log, variables
        )


def leave_totals(kind: type[Trainer]) -> None:
    """Has trainers of a kind write their totals before they close."""
    close = kind.close

    def write_and_close(trainer: Trainer) -> None:
        write_json(Path(train.RUN_DIR.value).parent / "totals.json", trainer.summary())
        close(trainer)

    kind.close = write_and_close


if __name__ == "__main__":
    on_policy_experiment.LocalLauncher = ctrace_experiment.LocalLauncher = PlacedLauncher
    learner_group.NO_BEAT_SECONDS = NO_BEAT_SECONDS
    leave_totals(OnPolicyTrainer)
    leave_totals(SequenceTrainer)
    cli.run(train.main)
