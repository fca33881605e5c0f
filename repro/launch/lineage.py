"""What becomes of a population: a file that is written after each comparison, and that all the rest follows from."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import NamedTuple

from repro.papers.impala.population import Hparams
from repro.training.run_directory import LINEAGE, write_json


class PopulationError(RuntimeError):
    """The population cannot go on, or there is none; the message says why."""


class MemberRound(NamedTuple):
    """What became of a member up to a comparison, and how it goes on.

    hparams: of its training up to here.
    updates: that it has made.
    episodes: whose returns it has collected since it was last due.
    mean_return: of these, of several tasks the mean of theirs; None until each task has one.
    due: whether its fitness was calculated here, so that it collects returns from none on.
    fitness: the last that was calculated; None before the first, and where it diverged.
    diverged: whether its weights are of no use.
    opponent, parent: as `Succession` has them.
    next_hparams: of its training from here on.
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
    """A population so far.

    Attributes:
        first: hyper-parameters that the members began with.
        boundaries: frames of each member at the comparisons, also those to come; the last are the budget.
        rounds: comparisons so far, the members in order.
    """

    first: list[Hparams]
    boundaries: list[int]
    rounds: list[list[MemberRound]]

    @property
    def hparams(self) -> list[Hparams]:
        """Those that the members go on with."""
        return [member.next_hparams for member in self.rounds[-1]] if self.rounds else self.first

    @property
    def is_complete(self) -> bool:
        return len(self.rounds) == len(self.boundaries)

    @property
    def best(self) -> int:
        """The member with the highest fitness; of several, as at its cap, the one with the highest last mean return.

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
        """The last fitness of the weights that a member goes on with: its own, or that of the parent it adopted."""
        if not self.rounds:
            return None
        before = self.rounds[-1]
        parent = before[member].parent
        return before[member if parent is None else parent].fitness

    def with_round(self, members: list[MemberRound]) -> Lineage:
        """This lineage and one comparison more."""
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
        PopulationError: there is none, or it is not readable.
    """
    try:
        stored = json.loads((path / LINEAGE).read_text())
        rounds = [[MemberRound(**member) for member in members] for members in stored["rounds"]]
        return Lineage(stored["first"], stored["boundaries"], rounds)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PopulationError(f"{path} holds no population (no valid {LINEAGE}).") from error
