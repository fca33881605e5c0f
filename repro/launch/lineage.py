"""The history of a population, a file that is written after each comparison and determines everything that follows."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import NamedTuple

from repro.papers.impala.population import Hparams
from repro.training.run_directory import LINEAGE, write_json


class PopulationError(RuntimeError):
    """The population cannot continue or does not exist; the message gives the reason."""


class MemberRound(NamedTuple):
    """A member's state at a comparison, and how its training continues.

    Attributes:
        hparams: hyper-parameters of its training up to this comparison.
        updates: number of updates that it has made.
        episodes: number of episodes whose returns it has collected since its fitness was last calculated.
        mean_return: mean of these returns, or with several tasks the mean of the tasks' means; None until each task has
            a return.
        due: whether its fitness was calculated at this comparison, after which it collects new returns.
        fitness: last calculated fitness; None before the first, and if the member diverged.
        diverged: whether its loss was not finite, so that its weights cannot be used.
        opponent, parent: as in `Succession`.
        next_hparams: hyper-parameters of its training after this comparison.
    """

    hparams: Hparams
    updates: int
    episodes: int
    mean_return: float | None
    due: bool
    fitness: float | None
    diverged: bool
    opponent: int | None
    parent: int | None
    next_hparams: Hparams


@dataclasses.dataclass(frozen=True)
class Lineage:
    """History of a population.

    Attributes:
        first: initial hyper-parameters of the members.
        boundaries: number of frames of each member at every comparison, including future ones; the last one is the
            budget.
        rounds: comparisons so far, each with all members in order.
    """

    first: list[Hparams]
    boundaries: list[int]
    rounds: list[list[MemberRound]]

    @property
    def hparams(self) -> list[Hparams]:
        """Hyper-parameters with which the members continue."""
        return [member.next_hparams for member in self.rounds[-1]] if self.rounds else self.first

    @property
    def is_complete(self) -> bool:
        """Whether all comparisons have been made."""
        return len(self.rounds) == len(self.boundaries)

    @property
    def best(self) -> int:
        """The member with the highest fitness; among equals, as at a cap, the one with the highest last mean return.

        Raises:
            PopulationError: no member has a fitness.
        """
        known = {
            i: (m.fitness, -math.inf if m.mean_return is None else m.mean_return)
            for i, m in enumerate(self.rounds[-1] if self.rounds else [])
            if m.fitness is not None
        }
        if not known:
            raise PopulationError("No member has a fitness: too few episodes ended, or all members diverged.")
        return max(known, key=known.__getitem__)

    def carried_fitness(self, member: int) -> float | None:
        """Returns the last fitness of the weights with which a member continues, its own or its parent's."""
        if not self.rounds:
            return None
        before = self.rounds[-1]
        parent = before[member].parent
        return before[member if parent is None else parent].fitness

    def with_round(self, members: list[MemberRound]) -> Lineage:
        """Returns this lineage with one more comparison."""
        return dataclasses.replace(self, rounds=[*self.rounds, members])

    def write(self, path: Path) -> None:
        """Writes `lineage.json` into the folder of a population, whole or not at all.

        Raises:
            RunDirectoryError: the disk is full or not writable.
        """
        rounds = [[member._asdict() for member in members] for members in self.rounds]
        lineage = {"first": self.first, "boundaries": self.boundaries, "rounds": rounds}
        write_json(path / LINEAGE, lineage, indent=None)


def read_lineage(path: Path) -> Lineage:
    """Returns the lineage in the folder of a population.

    Raises:
        PopulationError: there is no lineage, or it cannot be read.
    """
    try:
        stored = json.loads((path / LINEAGE).read_text())
        rounds = [[MemberRound(**member) for member in members] for members in stored["rounds"]]
        return Lineage(stored["first"], stored["boundaries"], rounds)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PopulationError(f"{path} holds no population (no valid {LINEAGE}).") from error
