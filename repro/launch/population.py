"""Population-based training: members train in pieces, are compared between them, and can be resumed."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np

from repro.config import check_choice, flatten, merge, resolve, tasks, total_budget
from repro.environments.names import task_name
from repro.evidence import published
from repro.launch.lineage import Lineage, MemberRound, PopulationError, read_lineage
from repro.launch.pieces import Piece, PieceResult, TrainPieces
from repro.papers.impala.population import (
    FINAL_LEARNING_RATE,
    HPARAMS,
    Candidate,
    Hparams,
    PopulationSettings,
    Succession,
    compute_fitness,
    evolve,
    read_settings,
    sample_hparams,
)
from repro.training.run_directory import LINEAGE, RunDirectory, copy_checkpoint, write_json

PARENTS = "parents"
"""Folder of the checkpoints whose weights members adopt after the newest comparison."""
SEEDS = 1000
"""Number of members' seeds that are reserved for each seed of a population."""


class Population:
    """Members that train up to their budget and are compared on the way.

    `lineage.json` is written after each comparison and determines everything that follows: a population that is killed
    at any moment repeats no comparison, and the next one has the same outcome. The random numbers of a comparison
    depend only on the population's seed and the index of the comparison.

    Args:
        config: configuration of an experiment with a section `population`.
        seed: seed of the initial hyper-parameters, the comparisons and the members' runs.
        path: folder of the population; a folder that holds this population resumes it.
        threads: number of TensorFlow's threads for each member, as in `Piece`.

    Attributes:
        run: the folder and its lock.
        settings: settings of the section `population`.
        lineage: history of the population.

    Raises:
        ValueError: a field has an impossible value.
        RunDirectoryError: another process uses the folder, or it holds something else.
        PopulationError: `lineage.json` cannot be read.
    """

    def __init__(self, config: ml_collections.ConfigDict, seed: int, path: Path, threads: int = 0) -> None:
        if "population" not in config:
            raise ValueError(
                f"{config.experiment} has no section 'population'; choose one that has, such as atari_population."
            )
        resolved = resolve(config)
        if (num_learners := resolved.runtime.get("num_learners", 1)) > 1:
            raise ValueError(f"runtime.num_learners={num_learners}: choose 1, since a member has one learner.")
        if resolved.get("sweep", {}).get("sampled", False):
            raise ValueError(
                "sweep.sampled=True: choose False, since the section population determines the hyper-parameters of the "
                "members."
            )
        self._config = resolved.to_dict()
        self._tasks = [task_name(resolved.env.name, task) for task in tasks(resolved) or (resolved.env.task,)]
        self._seed = seed
        self._threads = threads
        self.settings = read_settings(resolved)
        if normaliser := self.settings.normaliser:
            check_choice("population.normaliser", normaliser, published.normalisers())
        self._references = published.normaliser(normaliser) if normaliser else {}
        compute_fitness(dict.fromkeys(self._tasks, 0.0), self._references)  # an unknown task fails at once
        boundaries, rng = find_boundaries(self.settings, total_budget(resolved)[1]), self._rng(0)
        first = [sample_hparams(self.settings, rng) for _ in range(self.settings.size)]
        for hparams in first:
            apply_hparams(self._config, hparams)  # a missing field fails at once
        self.run = RunDirectory(path, config.to_dict(), seed)
        self.lineage = read_lineage(path) if (path / LINEAGE).exists() else Lineage(first, boundaries, [])
        self.lineage.write(path)

    def train(self, train_pieces: TrainPieces, show: Callable[[Lineage], None]) -> None:
        """Trains until the budget is used up, and then writes the index of the best member to `complete.json`.

        Args:
            train_pieces: trains the pieces up to the next comparison; see `TrainPieces`.
            show: called with the lineage after each comparison.

        Raises:
            Stopped: the training was interrupted, and everything is saved.
            PopulationError: all members diverged, or no member has a fitness.
        """
        while not self.lineage.is_complete:
            pieces = self._pieces()
            if not pieces:
                raise PopulationError(
                    "All members diverged; start a new population with other ranges in the section population."
                )
            self._compare(dict(train_pieces(pieces)))
            show(self.lineage)
        shutil.rmtree(self.run.path / PARENTS, ignore_errors=True)
        write_json(self.run.complete_json, {"best": self.lineage.best})

    def _rng(self, number: int) -> np.random.Generator:
        """Returns the random number generator of the initial hyper-parameters (0) or of a comparison (from 1)."""
        return np.random.default_rng([self._seed, number])

    def _pieces(self) -> list[Piece]:
        """Returns the pieces up to the next comparison; members without usable weights have none."""
        number, rounds = len(self.lineage.rounds), self.lineage.rounds
        burned_in = number > 0 and self.lineage.boundaries[number - 1] <= self.settings.burn_in
        pieces = []
        for i, hparams in enumerate(self.lineage.hparams):
            before = rounds[-1][i] if rounds else None
            if before and before.diverged and before.parent is None:
                continue
            pieces.append(
                Piece(
                    member=i,
                    number=number,
                    folder=member_folder(self.run.path, i),
                    config=apply_hparams(self._config, hparams),
                    seed=SEEDS * self._seed + i,
                    start=before.updates if before else 0,
                    end=self.lineage.boundaries[number],
                    parent=self._adopted(number, before.parent) if before and before.parent is not None else None,
                    collects_from_none=burned_in or before is not None and before.due,
                    threads=self._threads,
                )
            )
        return pieces

    def _compare(self, results: Mapping[int, PieceResult]) -> None:
        """Compares the members at the end of their pieces; writes the lineage once adopted checkpoints are copied."""
        number = len(self.lineage.rounds)
        frames = self.lineage.boundaries[number]
        evolves = self.settings.evolves and self.settings.burn_in < frames < self.lineage.boundaries[-1]
        rested = PieceResult(max(result.updates for result in results.values()), 0, [], diverged=True)
        ended = [results.get(i, rested) for i in range(self.settings.size)]
        due = [self._is_due(i, result, frames) for i, result in enumerate(ended)]
        fitness = [self._fitness(i, result, due[i]) for i, result in enumerate(ended)]
        goes_on = [Succession(None, None, hparams) for hparams in self.lineage.hparams]
        if evolves:
            members = [
                Candidate(hparams, -math.inf if result.diverged else known, is_due)
                for hparams, result, known, is_due in zip(self.lineage.hparams, ended, fitness, due, strict=True)
            ]
            goes_on = evolve(members, self.settings, self._rng(number + 1))
        for parent in {succession.parent for succession in goes_on if succession.parent is not None}:
            copy_checkpoint(member_folder(self.run.path, parent), self._adopted(number + 1, parent))
        self.lineage = self.lineage.with_round(
            [
                MemberRound(
                    hparams=hparams,
                    updates=result.updates,
                    episodes=result.episodes,
                    mean_return=float(np.mean(result.mean_returns)) if result.mean_returns else None,
                    due=is_due,
                    fitness=known,
                    diverged=result.diverged,
                    opponent=succession.opponent,
                    parent=succession.parent,
                    next_hparams=succession.hparams,
                )
                for hparams, result, is_due, known, succession in zip(
                    self.lineage.hparams, ended, due, fitness, goes_on, strict=True
                )
            ]
        )
        self.lineage.write(self.run.path)
        shutil.rmtree(self._adopted(number, 0).parent, ignore_errors=True)

    def _is_due(self, member: int, result: PieceResult, frames: int) -> bool:
        """Returns whether a member's fitness is to be calculated, or it has diverged, after the burn-in.

        It is calculated when the member has collected `population.episodes` returns, or at the end of training even
        with one if it has no fitness yet. With several tasks, each needs a return.
        """
        if frames <= self.settings.burn_in:
            return False
        is_last_chance = frames == self.lineage.boundaries[-1] and self.lineage.carried_fitness(member) is None
        enough = result.episodes >= (1 if is_last_chance else self.settings.episodes)
        return result.diverged or (enough and bool(result.mean_returns))

    def _fitness(self, member: int, result: PieceResult, is_due: bool) -> float | None:
        """Returns the new fitness of a member that is due, else its last one; None if the member diverged."""
        if result.diverged:
            return None
        if is_due:
            return compute_fitness(dict(zip(self._tasks, result.mean_returns, strict=True)), self._references)
        return self.lineage.carried_fitness(member)

    def _adopted(self, number: int, parent: int) -> Path:
        """Returns the folder of a parent's weights that members adopt before a piece."""
        return self.run.path / PARENTS / f"piece_{number:04d}" / f"member_{parent:02d}"


def find_boundaries(settings: PopulationSettings, frames: int) -> list[int]:
    """Returns the frames at which members may be compared: the burn-in, then every interval, and finally the budget.

    A remainder of less than half an interval is added to the last interval.

    Raises:
        ValueError: the burn-in leaves nothing of the budget.
    """
    if settings.burn_in >= frames:
        raise ValueError(f"population.burn_in={settings.burn_in}: choose less than the budget, {frames}.")
    inner = range(settings.burn_in, frames - settings.interval // 2, settings.interval)
    return [*(boundary for boundary in inner if boundary > 0), frames]


def member_folder(path: Path, member: int) -> Path:
    """Returns the folder of a member's run."""
    return path / f"member_{member:02d}"


def apply_hparams(config: Mapping[str, Any], hparams: Hparams) -> dict[str, Any]:
    """Returns a resolved configuration with the given values of hyper-parameters.

    Without evolution, which would find a schedule, the configuration's final learning rate is kept.

    Raises:
        ValueError: the configuration lacks a field of a hyper-parameter.
    """
    known, applied = flatten(config), dict(config)
    for name, value in hparams.items():
        for field in HPARAMS[name].fields:
            if field not in known:
                raise ValueError(f"population.{name} sets {field}, which the configuration does not have.")
            if field == FINAL_LEARNING_RATE and not config["population"]["evolves"]:
                continue
            section, key = field.split(".")
            applied = merge(applied, {section: {key: value}})
    return applied
