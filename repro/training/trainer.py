"""The base class of trainers: updates until the budget is used up, with checkpoints in between."""

from __future__ import annotations

import abc
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_collections
import numpy as np
import tensorflow as tf

from repro.acting.evaluator_process import Evaluated, Evaluator
from repro.acting.rollout import Episode
from repro.acting.supervision import SILENT_SECONDS, ActorPoolError, EnvironmentFailedError, Interrupted, Supervision
from repro.config import total_budget
from repro.training import checkpoint
from repro.training.run_directory import RunDirectory
from repro.training.task_returns import CAPPED_SCORE, TaskReturns
from repro.training.trailing_returns import TrailingReturns

RECENT_GAMES = 100
"""Number of latest games whose mean return is shown in the progress line and in the learning curve."""


class EpisodeLog:
    """The returns of the last games, appended by actors from their own threads, or by the source of batches.

    Every method except `set_state` may be called from any thread.

    Attributes:
        games: number of games counted so far.
        frames: units of the budget learned from so far, set by the training loop; `trailing_returns` dates games by it.
        trailing_returns: the evaluation of papers that evaluate by the games of training itself; None for others.
        task_returns: returns of each task, where several tasks are learned together; None otherwise.
        collected: number of games since the last `clear_collected`, and the mean return of each task; NaN for a task
            without games.
    """

    def __init__(
        self, trailing_returns: TrailingReturns | None = None, task_returns: TaskReturns | None = None
    ) -> None:
        self.games = 0
        self.frames = 0
        self.trailing_returns = trailing_returns
        self.task_returns = task_returns
        self._recent: deque[Episode] = deque(maxlen=RECENT_GAMES)
        self._collected = [[0.0, 0.0] for _ in (task_returns.tasks if task_returns else (None,))]  # games, total return
        self._lock = threading.Lock()
        self._closed = False
        self._means: tuple[int, float, dict[str, float]] | None = None  # games, mean return, scalars

    def close(self) -> None:
        """Leaves out all games that end from now on; called at the last update, beside which actors play on."""
        with self._lock:
            self._closed = True

    def append(self, episode: Episode) -> None:
        """Adds a finished game."""
        with self._lock:
            if self._closed:
                return
            self._recent.append(episode)
            totals = self._collected[episode.task if self.task_returns else 0]
            totals[0] += 1
            totals[1] += episode.score
            if self.trailing_returns:
                self.trailing_returns.append(self.frames, episode.score)
            if self.task_returns:
                self.task_returns.append(episode.task, episode.score)
            self.games += 1  # last, so that means computed for this number of games include all of them

    def mean_return(self) -> float:
        """Mean unclipped return of the last `RECENT_GAMES` games of all tasks; NaN before the first game ended."""
        return self._find_means()[1]

    def scalars(self) -> dict[str, float]:
        """Returns the returns by task as they are logged (`TaskReturns.scalars`); empty if there is only one task."""
        return self._find_means()[2]

    def _find_means(self) -> tuple[int, float, dict[str, float]]:
        """Number of games, mean return and scalars; computed only if a game has ended since the last call."""
        games, means = self.games, self._means  # no lock: the next call finds a game that is added meanwhile
        if means is None or means[0] != games:
            scores = [episode.score for episode in tuple(self._recent)]
            mean = float(np.mean(scores)) if scores else float("nan")
            means = self._means = games, mean, self.task_returns.scalars() if self.task_returns else {}
        return means

    @property
    def collected(self) -> tuple[int, list[float]]:
        with self._lock:
            means = [total / games if games else float("nan") for games, total in self._collected]
            return int(sum(games for games, _ in self._collected)), means

    def clear_collected(self) -> None:
        """Empties `collected`, as after a comparison of the members of a population."""
        with self._lock:
            self._collected = [[0.0, 0.0] for _ in self._collected]

    def evaluation(self, frames: int) -> dict[str, Any] | None:
        """Returns `TrailingReturns.evaluation` at this number of frames; None without `trailing_returns`.

        Raises:
            NoEpisodeError: no game has ended so far.
        """
        with self._lock:
            return self.trailing_returns.evaluation(frames) if self.trailing_returns else None

    def get_state(self) -> dict[str, Any]:
        with self._lock:
            recent = np.array([episode[:2] for episode in self._recent], np.float64).reshape(-1, 2)  # without the task
            state: dict[str, Any] = {"games": self.games, "recent": recent, "collected": np.array(self._collected)}
            if self.trailing_returns:
                state["window"] = self.trailing_returns.get_state()
            if self.task_returns:
                state["tasks"] = self.task_returns.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        self.games = state["games"]
        self._recent.extend(Episode(float(score), int(frames)) for score, frames in state["recent"])
        self._collected = state["collected"].tolist()
        self._means = None
        if self.trailing_returns:
            self.trailing_returns.set_state(state["window"])
        if self.task_returns:
            self.task_returns.set_state(state["tasks"])


class Update(NamedTuple):
    """What the training loop yields after each learner update."""

    updates: int
    frames: int
    seconds: float  # training time, without interruptions
    scalars: dict[str, float]  # the loss, the agent's extras, and returns by task if there are several
    lag: float  # policy lag: gradient steps from the acting to the learning weights, mean over the new batch
    mean_return: float  # of the last `RECENT_GAMES` games
    games: int
    actor_restarts: int = 0  # actors replaced in the whole run, whose unfinished games were lost
    evaluations: Sequence[Evaluated] = ()  # finished since the previous update
    evaluator_restarts: int = 0  # evaluators replaced in the whole run


class RunSettings(NamedTuple):
    """Settings of a run that every trainer takes.

    budget: number of frames or steps to learn from, as `unit` says.
    unit: unit of the budget, "frames" or "steps", also in the progress line.
    checkpoints: folder for checkpoints.
    checkpoint_seconds: time between two checkpoints.
    warn: called with one line when a broken checkpoint is passed over.
    evaluator: the evaluator that plays beside training; None for a run without one.
    sampled_hparams: hyper-parameters that the seed sampled, by name, for the record; None or empty if it samples none.
    """

    budget: int
    unit: str
    checkpoints: Path
    checkpoint_seconds: float
    warn: Callable[[str], None]
    evaluator: Evaluator | None = None
    sampled_hparams: Mapping[str, float] | None = None


def run_settings(
    config: ml_collections.ConfigDict,
    run: RunDirectory,
    warn: Callable[[str], None],
    evaluator: Evaluator | None = None,
    sampled_hparams: Mapping[str, float] | None = None,
) -> RunSettings:
    """Returns the settings of a run of this configuration; other arguments as in `RunSettings`."""
    (unit, amount), seconds = total_budget(config), config.runtime.checkpoint_seconds
    return RunSettings(amount, unit, run.checkpoints, seconds, warn, evaluator, sampled_hparams)


def supervision(config: ml_collections.ConfigDict, logs: Path, warn: Callable[[str], None]) -> Supervision:
    """Returns how the actors of a configuration are watched; `logs` and `warn` as in `Supervision`."""
    return Supervision(warn, logs, config.runtime.get("silent_seconds", SILENT_SECONDS))


class Trainer(abc.ABC):
    """A run that trains as it is iterated; the consumer may stop at any update. Subclasses define what an update is.

    Attributes:
        unit: unit of the budget, as the progress line names it.
        progress_scalars: names of the scalars in the progress line besides the return and the policy lag.
        updates: number of updates so far, including skipped ones.
        frames_per_update: units of the budget that one update learns from.
        total_updates: number of updates that use up the budget.
        skipped_updates: updates that this run did not make because it adopted the weights of another run.
        saved_updates: number of updates in the last checkpoint; 0 before the first one, which is made only after an
            update.
        saving: lock that is held while a checkpoint is written.

    Args:
        variables: all TensorFlow variables that a checkpoint keeps.
        episodes: log of finished games, filled by the actors or by the source of batches.
        run: see `RunSettings`.
        frames_per_update: see above.
    """

    progress_scalars: tuple[str, ...] = ("loss", "entropy")

    def __init__(
        self,
        variables: tf.train.Checkpoint,
        episodes: EpisodeLog,
        run: RunSettings,
        frames_per_update: int,
    ) -> None:
        self._variables = variables
        self._episodes = episodes
        self._run = run
        self._seconds = 0.0
        self._lag_sum = self._lag_max = 0.0
        self._restarts_before = self._evaluator_restarts_before = 0  # before this process
        self.saving = threading.Lock()
        self.saved_updates = self.skipped_updates = 0
        if episodes.task_returns:
            self.progress_scalars = (CAPPED_SCORE, *self.progress_scalars)
        self.unit = run.unit
        self.updates = 0
        self.frames_per_update = frames_per_update
        self.total_updates = -(-run.budget // frames_per_update)

    @abc.abstractmethod
    def _begin(self) -> None:
        """Prepares the first update of this process.

        Raises:
            Interrupted: `interrupt` was called during a long preparation.
        """

    @abc.abstractmethod
    def _update(self) -> tuple[dict[str, float], float]:
        """Makes one update; returns loss and extras by name, and the policy lag of the new data, in gradient steps.

        Raises:
            NonFiniteLossError: the run diverged.
            ActorPoolError, EnvironmentFailedError: no actor can go on.
            Interrupted: `interrupt` ended a wait.
        """

    @abc.abstractmethod
    def _get_state(self) -> dict[str, Any]:
        """Returns everything that the run depends on besides `variables` and the counters."""

    @abc.abstractmethod
    def _set_state(self, state: dict[str, Any]) -> None:
        """Continues from a state of `_get_state`; the variables are restored before."""

    def _save_more(self, folder: Path) -> None:  # noqa: B027 - most have none
        """Writes the trainer's own files into a checkpoint's folder."""

    def _restore_more(self, folder: Path) -> None:  # noqa: B027 - most have none
        """Reads the files of `_save_more`; called before `_set_state`."""

    @abc.abstractmethod
    def interrupt(self) -> None:
        """Ends a wait for actors, or the preparation of the first update, from another thread.

        The iteration then ends, and the run can be saved, if an update was made.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Frees environments and threads."""

    @property
    def actor_restarts(self) -> int:
        """Number of actors that failed or hung and were replaced, in the whole run."""
        return self._restarts_before + self._restarts

    @property
    def evaluator_restarts(self) -> int:
        """Number of evaluators that failed or hung and were replaced, in the whole run."""
        evaluator = self._run.evaluator
        return self._evaluator_restarts_before + (evaluator.restarts if evaluator else 0)

    @property
    @abc.abstractmethod
    def _restarts(self) -> int:
        """Number of actors that were replaced in this process."""

    @property
    def complete(self) -> bool:
        return self.updates >= self.total_updates

    @property
    def frames(self) -> int:
        """Units of the budget learned from so far."""
        return self.updates * self.frames_per_update

    @property
    def made_updates(self) -> int:
        """Updates made by this run itself."""
        return self.updates - self.skipped_updates

    @property
    def episodes(self) -> EpisodeLog:
        """The log of finished games."""
        return self._episodes

    @property
    @abc.abstractmethod
    def gradient_steps(self) -> int:
        """Number of gradient steps made so far."""

    @property
    def can_save(self) -> bool:
        """Whether a checkpoint can be made now."""
        return True

    @property
    def has_checkpoint(self) -> bool:
        """Whether the run has a checkpoint, made by this process or an earlier one."""
        return self.saved_updates > 0

    def __iter__(self) -> Iterator[Update]:
        """Yields after every update; ends when the budget is used up, with a last checkpoint, or after `interrupt`.

        The first checkpoint is made as soon as `can_save` holds after an update, so that a full disk is noticed at
        once, and a run that diverges later can be evaluated.

        Raises:
            NonFiniteLossError: the run diverged; the last checkpoint stays as it was.
            ActorPoolError, EnvironmentFailedError: no actor can go on; the run was saved, if an update was made.
            CheckpointError: the disk is full or not writable; earlier checkpoints stay as they were.
        """
        try:
            self._begin()
        except Interrupted:
            return
        self._episodes.frames = self.frames
        clock = saved = time.monotonic()
        while not self.complete:
            try:
                scalars, lag = self._update()
            except Interrupted:
                return
            except (ActorPoolError, EnvironmentFailedError):
                if self.saved_updates < self.updates:
                    self.save()
                raise
            self.updates += 1
            self._lag_sum, self._lag_max = self._lag_sum + lag, max(self._lag_max, lag)
            self._episodes.frames = self.frames
            if self.complete:
                self._episodes.close()
            now = time.monotonic()
            self._seconds += now - clock
            clock = now
            due = not self.has_checkpoint or now - saved > self._run.checkpoint_seconds
            if due and self.can_save:
                self.save()
                saved = time.monotonic()
            mean_return, games = self._episodes.mean_return(), self._episodes.games
            scalars = {**scalars, **self._episodes.scalars()}
            processes = self.actor_restarts, self._follow(), self.evaluator_restarts
            yield Update(self.updates, self.frames, self._seconds, scalars, lag, mean_return, games, *processes)
        self.save()

    def save(self) -> Path:
        """Writes a checkpoint and returns its folder; to be called only when `can_save` holds.

        Raises:
            CheckpointError: the disk is full or not writable; earlier checkpoints stay as they were.
        """
        with self.saving:
            own = self._get_state()  # first: actors finish their unrolls for it, and may be replaced meanwhile
            counters = {
                "updates": self.updates,
                "skipped_updates": self.skipped_updates,
                "seconds": self._seconds,
                "lag": np.array([self._lag_sum, self._lag_max]),
                "actor_restarts": self.actor_restarts,
                "evaluator_restarts": self.evaluator_restarts,
                "episodes": self._episodes.get_state(),
            }
            state = counters | own
            path = checkpoint.save(self._run.checkpoints, self.updates, self._variables, state, self._save_more)
            self.saved_updates = self.updates
        return path

    def adopt(self, weights: Path, updates: int) -> None:
        """Takes over weights, optimizer and their counters from a checkpoint of another run with the same shapes.

        The run's own games, budget and rngs stay as they are.

        Args:
            weights: folder of the checkpoint.
            updates: number of updates at which this run goes on, at least its present one; those in between are
                skipped.

        Raises:
            CheckpointError: the checkpoint is broken.
        """
        checkpoint.read_variables(weights, self._variables)
        self.skipped_updates += updates - self.updates
        self.updates = updates

    def summary(self) -> dict[str, Any]:
        """Returns totals of the run so far, and its evaluation if the games of training provide one.

        Raises:
            NoEpisodeError: they provide one, and no game has ended so far.
        """
        evaluation, made = self._episodes.evaluation(self.frames), self.made_updates
        sampled_hparams = self._run.sampled_hparams
        return {
            "gradient_steps": self.gradient_steps,
            f"num_env_{self.unit}": made * self.frames_per_update,
            "seconds": self._seconds,
            "games": self._episodes.games,
            **({"mean_return": self._episodes.mean_return()} if self._episodes.games else {}),
            "policy_lag": {"mean": self._lag_sum / made if made else 0.0, "max": self._lag_max},
            **({"actor_restarts": self.actor_restarts} if self.actor_restarts else {}),
            **({"evaluator_restarts": self.evaluator_restarts} if self.evaluator_restarts else {}),
            **({"evaluation": evaluation} if evaluation else {}),
            **({"sampled_hparams": sampled_hparams} if sampled_hparams else {}),
        }

    def _follow(self) -> Sequence[Evaluated]:
        """Offers the evaluator the present weights if they are due; returns the evaluations finished meanwhile."""
        if self._run.evaluator is None:
            return ()
        return self._run.evaluator.follow(self.updates, self.frames, self.total_updates)

    def _restore(self) -> None:
        """Continues from the last checkpoint, if there is one."""
        state = checkpoint.restore(self._run.checkpoints, self._variables, self._run.warn, self._restore_more)
        if state is not None:
            self.updates = self.saved_updates = state["updates"]
            self.skipped_updates = state["skipped_updates"]
            self._seconds = state["seconds"]
            self._lag_sum, self._lag_max = map(float, state["lag"])
            self._restarts_before = state["actor_restarts"]
            self._evaluator_restarts_before = state["evaluator_restarts"]
            self._episodes.set_state(state["episodes"])
            self._episodes.frames = self.frames
            self._set_state(state)
