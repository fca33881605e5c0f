"""A job that trains a population and records its best member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from repro.launch.lineage import read_lineage
from repro.launch.population import member_folder
from repro.launch.training_job import TrainingJob
from repro.training.run_directory import LINEAGE, read_complete


class PopulationJob(TrainingJob):
    """Trains a population, evaluates its best member, and records it with its last hyper-parameters.

    The record's budget and time are those of the best member, as in Figure 6 (IMPALA); the whole population took
    `population.size` times as much. The job fails if no member has a fitness.
    """

    def share_done(self) -> float:
        """Returns the share of the frames that the members had at the last comparison."""
        if not (self.run_dir / LINEAGE).exists():
            return 0.0
        lineage = read_lineage(self.run_dir)
        return lineage.boundaries[len(lineage.rounds) - 1] / lineage.boundaries[-1] if lineage.rounds else 0.0

    def seconds_done(self) -> float:
        """Returns 0, since the time is not known."""
        return 0.0

    def _training(self, cores: int) -> Sequence[str]:
        return "repro.population", f"--jobs={cores}"

    @property
    def _trained_dir(self) -> Path:
        return member_folder(self.run_dir, read_complete(self.run_dir)["best"])

    def _make_record(
        self, complete: Mapping[str, Any], task: str, evaluation: Mapping[str, Any], cores: int
    ) -> dict[str, object]:
        lineage = read_lineage(self.run_dir)
        hparams = lineage.rounds[-1][lineage.best].hparams
        return super()._make_record(complete, task, evaluation, cores) | {"sampled_hparams": hparams}
