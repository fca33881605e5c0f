"""What every run has: updates up to a budget, and checkpoints between them."""

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
"""Games that the return in the progress line and in the curve is the mean of."""


class EpisodeLog:
    """The last games' returns. Who brings the unrolls appends: actors at once, from their threads, or a source.

    Every method but `set_state` may be called from any thread.

    Attributes:
        games: that counted so far.
        frames: learned from so far, set by the loop; a game enters the window of `trailing_returns` with this number.
        trailing_returns: the paper's measure, where training brings its evaluation along.
        task_returns: of each task, where several are learned together.
        collected: returns since the last `clear_collected`: their number, and the mean of each task, NaN without any.
    """

    def __init__(
        self, trailing_returns: TrailingReturns | None = None, task_returns: TaskReturns | None = None
    ) -> None:
        self.games = 0
        self.frames = 0
        self.trailing_returns = trailing_returns
        self.task_returns = task_returns
        self._recent: deque[Episode] = deque(maxlen=RECENT_GAMES)
        self._collected = [[0.0, 0.0] for _ in (task_returns.tasks if task_returns else (None,))]  # games, their sum
        self._lock = threading.Lock()
        self._means: tuple[int, float, dict[str, float]] | None = None  # after so many games

    def append(self, episode: Episode) -> None:
        """Counts a game."""
        with self._lock:
            self._recent.append(episode)
            of_task = self._collected[episode.task if self.task_returns else 0]
            of_task[0] += 1
            of_task[1] += episode.score
            if self.trailing_returns:
                self.trailing_returns.append(self.frames, episode.score)
            if self.task_returns:
                self.task_returns.append(episode.task, episode.score)
            self.games += 1  # last: what is computed after so many games has them all

    def mean_return(self) -> float:
        """Mean unclipped return of the last `RECENT_GAMES` games of all tasks; NaN before the first game ended."""
        return self._find_means()[1]

    def scalars(self) -> dict[str, float]:
        """Returns what is logged of several tasks; empty where there is one."""
        return self._find_means()[2]

    def _find_means(self) -> tuple[int, float, dict[str, float]]:
        """Games, mean return and scalars, which are computed where a game has ended since the last call."""
        games, means = self.games, self._means  # no lock: what another thread counts meanwhile is found the next time
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
        """Collects from none on, as after a comparison of a population."""
        with self._lock:
            self._collected = [[0.0, 0.0] for _ in self._collected]

    def evaluation(self, frames: int) -> dict[str, Any] | None:
        """Returns `TrailingReturns.evaluation` after so many frames; None where training brings none along.

        Raises:
            NoEpisodeError: no game ended so far.
        """
        with self._lock:
            return self.trailing_returns.evaluation(frames) if self.trailing_returns else None

    def get_state(self) -> dict[str, Any]:
        with self._lock:
            recent = np.array([episode[:2] for episode in self._recent], np.float64).reshape(-1, 2)  # no task
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
    """What the loop yields after each learner update."""

    updates: int
    frames: int
    seconds: float  # of training, interruptions left out
    scalars: dict[str, float]  # loss and the agent's extras, and returns by task where there are several
    lag: float  # mean over the new batch: gradient steps from the weights that acted to those that learn from it
    mean_return: float  # of the last games
    games: int
    actor_restarts: int = 0  # of the whole run, whose open games were lost
    evaluations: Sequence[Evaluated] = ()  # that came since the update before
    evaluator_restarts: int = 0  # of the whole run


class RunSettings(NamedTuple):
    """What every kind of training takes of a run.

    budget: what `unit` says, to learn from.
    unit: frames or steps, in the progress line.
    checkpoints: folder for checkpoints.
    checkpoint_seconds: between two checkpoints.
    warn: called with one line when a broken checkpoint is passed over.
    evaluator: that plays beside training; None where there is none.
    sampled_hparams: hyper-parameters that the seed sampled, by name, for the record; None or empty: it samples none.
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
    """Settings of an experiment's configuration; other arguments as in `RunSettings`."""
    (unit, amount), seconds = total_budget(config), config.runtime.checkpoint_seconds
    return RunSettings(amount, unit, run.checkpoints, seconds, warn, evaluator, sampled_hparams)


def supervision(config: ml_collections.ConfigDict, logs: Path, warn: Callable[[str], None]) -> Supervision:
    """How an experiment's configuration has its actors watched; `logs` and `warn` as in `Supervision`."""
    return Supervision(warn, logs, config.runtime.get("silent_seconds", SILENT_SECONDS))


class Trainer(abc.ABC):
    """A run: iterating trains, and the consumer may stop at any update. Subclasses say what an update is.

    Attributes:
        unit: of the budget, in the progress line.
        progress_scalars: scalars in the progress line besides the return and the policy lag.
        updates: made so far.
        frames_per_update: units of the budget that one update learns from.
        total_updates: in which the budget is used up.
        skipped_updates: of them, that were not made: the run went on behind them with the weights of another.
        saved_updates: of them, in the last checkpoint; 0 before the first one, which is never made without an update.
        saving: held while a checkpoint is written.

    Args:
        variables: everything TensorFlow that a checkpoint keeps.
        episodes: filled by whoever plays.
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
        self._restarts_before = self._evaluator_restarts_before = 0  # of this process
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
        """What comes before the first update of this process.

        Raises:
            Interrupted: it is long, and `interrupt` was called.
        """

    @abc.abstractmethod
    def _update(self) -> tuple[dict[str, float], float]:
        """One update: the loss and the agent's extras by name, and the policy lag, in gradient steps, of what is new.

        Raises:
            NonFiniteLossError: the run diverged.
        """

    @abc.abstractmethod
    def _get_state(self) -> dict[str, Any]:
        """Everything besides `variables` and the counters that the run depends on."""

    @abc.abstractmethod
    def _set_state(self, state: dict[str, Any]) -> None:
        """Continues where `_get_state` was taken; the variables are restored by then."""

    def _save_more(self, folder: Path) -> None:  # noqa: B027 - most have none
        """Writes files of its own into a checkpoint's folder."""

    def _restore_more(self, folder: Path) -> None:  # noqa: B027 - most have none
        """Reads the files of `_save_more`; called before `_set_state`."""

    def interrupt(self) -> None:  # noqa: B027 - most never wait
        """Ends a wait for actors, or what comes before the first update, from another thread.

        The iteration then ends, and the run can be saved, if an update was made.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Frees environments and threads."""

    @property
    def actor_restarts(self) -> int:
        """Actors that failed or hung, and were replaced, in the whole run."""
        return self._restarts_before + self._restarts

    @property
    def evaluator_restarts(self) -> int:
        """Evaluators that failed or hung, and were replaced, in the whole run."""
        evaluator = self._run.evaluator
        return self._evaluator_restarts_before + (evaluator.restarts if evaluator else 0)

    @property
    def _restarts(self) -> int:
        """Actors that were replaced, in this process."""
        return 0

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
        """What is known of the games that ended."""
        return self._episodes

    @property
    @abc.abstractmethod
    def gradient_steps(self) -> int:
        """Made so far."""

    @property
    def can_save(self) -> bool:
        """Whether a checkpoint of this moment can be made."""
        return True

    @property
    def has_checkpoint(self) -> bool:
        """Whether a checkpoint of the run was made, by this process or before it."""
        return self.saved_updates > 0

    def __iter__(self) -> Iterator[Update]:
        """Yields after every update; ends when the budget is used up, with a last checkpoint, or after `interrupt`.

        The first checkpoint comes after the first update that `can_save`, so that a disk that is full shows at once,
        and a run that diverges later can be evaluated.

        Raises:
            NonFiniteLossError: the run diverged; the last checkpoint stays as it was.
            ActorPoolError, EnvironmentFailedError: nothing plays any more; the run was saved, if an update was made.
            CheckpointError: the disk is full; the checkpoints before stay as they were.
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
        """Writes a checkpoint of this moment; call it only when `can_save`."""
        with self.saving:
            own = self._get_state()  # first: actors may have to finish what they are at, and be replaced meanwhile
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
        """Takes weights and optimizer, with their counters, from a checkpoint of another run of the same shapes.

        The run's own games, budget and random generators go on as they are.

        Args:
            weights: the checkpoint.
            updates: at which the run goes on, at least those that it has made; the ones between are not learned from.

        Raises:
            CheckpointError: the checkpoint is broken.
        """
        checkpoint.read_variables(weights, self._variables)
        self.skipped_updates += updates - self.updates
        self.updates = updates

    def summary(self) -> dict[str, Any]:
        """Totals of the run so far, and its evaluation where no games need be played for it."""
        evaluation, made = self._episodes.evaluation(self.frames), self.made_updates
        sampled_hparams = self._run.sampled_hparams
        return {
            "gradient_steps": self.gradient_steps,
            f"num_env_{self.unit}": made * self.frames_per_update,
            "seconds": self._seconds,
            "games": self._episodes.games,
            "policy_lag": {"mean": self._lag_sum / made if made else 0.0, "max": self._lag_max},
            **({"actor_restarts": self.actor_restarts} if self.actor_restarts else {}),
            **({"evaluator_restarts": self.evaluator_restarts} if self.evaluator_restarts else {}),
            **({"evaluation": evaluation} if evaluation else {}),
            **({"sampled_hparams": sampled_hparams} if sampled_hparams else {}),
        }

    def _follow(self) -> Sequence[Evaluated]:
        """Has the evaluator follow; returns what came of it."""
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
