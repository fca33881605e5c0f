"""A member of a population: an ordinary run that is trained from one comparison to the next."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import threading
from collections.abc import Callable, Iterator

import ml_collections
import numpy as np
import tensorflow as tf

from repro.launch.pieces import Piece, PieceResult
from repro.papers import find_experiment
from repro.training import devices
from repro.training.experiment import Warn
from repro.training.learner import NonFiniteLossError
from repro.training.progress import Progress
from repro.training.run_directory import RunDirectory, replace_config, wait_until_free, write_json
from repro.training.trainer import Trainer

RESULT = "piece.json"
"""File in a member's folder with the result of its newest piece."""
POLL_SECONDS = 0.5
"""Seconds between two checks whether to stop, by a thread, as the member itself may be waiting for its actors."""


def train_piece(piece: Piece, stop: Callable[[], bool], warn: Warn) -> PieceResult | None:
    """Trains a piece from its beginning, or from the run's last checkpoint within it, and saves at its end.

    The run is built again with the hyper-parameters of this piece, because the compiled step has them as constants.

    Args:
        piece: the piece to train; if it has ended before, its result is returned at once.
        stop: returns whether to save and end; called after every update, by another thread, and while the folder is in
            use.
        warn: called with a line when a broken checkpoint is skipped.

    Returns:
        The result; None if the piece was stopped and saved.

    Raises:
        ValueError: a field of the configuration has an impossible value.
        CheckpointError: no checkpoint is valid.
        RunDirectoryError: another process uses the folder, or it cannot be read or written.
    """
    if (result := _read_result(piece)) is not None:
        return result
    if not wait_until_free(piece.folder, stop) and stop():  # a process left by a killed population may be saving
        return None
    if (result := _read_result(piece)) is not None:
        return result
    replace_config(piece.folder, piece.config)
    run = RunDirectory(piece.folder, piece.config, piece.seed)
    try:
        config = ml_collections.ConfigDict(piece.config)
        lockstep, threads = config.runtime.schedule == "lockstep", config.runtime.get("threads", 0)
        devices.configure_threads(deterministic=lockstep, threads=threads or piece.threads)
        trainer = find_experiment(config).build_trainer(piece.seed, run, warn)
        try:
            _begin(piece, trainer)
            result = _train(piece, trainer, run, stop)
        finally:
            trainer.close()
    finally:
        run.release()
        tf.keras.backend.clear_session()
        gc.collect()
    if result is not None:
        write_json(piece.folder / RESULT, {"number": piece.number} | result._asdict())
    return result


def _read_result(piece: Piece) -> PieceResult | None:
    """Returns the stored result of a piece; None if the member's newest result is of another piece or missing."""
    path = piece.folder / RESULT
    stored = json.loads(path.read_text()) if path.exists() else {"number": None}
    return PieceResult(**stored) if stored.pop("number") == piece.number else None


def _begin(piece: Piece, trainer: Trainer) -> None:
    """Prepares the run for the beginning of the piece, unless it has a checkpoint within the piece.

    Raises:
        ValueError: a piece could have no update, because the last one may be half as long as the others.
    """
    interval = piece.config["population"]["interval"]
    if interval < 2 * trainer.frames_per_update:
        raise ValueError(
            f"population.interval={interval} is too short for updates of {trainer.frames_per_update} {trainer.unit}: "
            f"choose {2 * trainer.frames_per_update} or more, for two updates."
        )
    if trainer.updates > piece.start:
        return
    if piece.parent is not None:
        trainer.adopt(piece.parent, piece.start)
    if piece.collects_from_none:
        trainer.episodes.clear_collected()


@contextlib.contextmanager
def _interrupts(trainer: Trainer, stop: Callable[[], bool]) -> Iterator[None]:
    """Interrupts a wait for actors as soon as the piece is to stop."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(POLL_SECONDS):
            if stop():
                trainer.interrupt()
                return

    threading.Thread(target=watch, name="stop", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _train(piece: Piece, trainer: Trainer, run: RunDirectory, stop: Callable[[], bool]) -> PieceResult | None:
    """Makes updates up to the end of the piece; returns the result, or None if the piece was stopped."""
    end = min(trainer.total_updates, math.ceil(piece.end / trainer.frames_per_update))
    totals = trainer.total_updates, trainer.frames_per_update, trainer.updates
    progress = Progress(run, *totals, f"member {piece.member}", trainer.unit, trainer.progress_scalars)
    try:
        updates = iter(trainer) if trainer.updates < end else iter(())  # it may have been killed after its last update
        with _interrupts(trainer, stop):
            for update in updates:
                progress(update)
                if trainer.can_save and not trainer.complete and (trainer.updates >= end or stop()):
                    break
        if trainer.saved_updates < trainer.updates:
            trainer.save()
    except NonFiniteLossError:
        return PieceResult(end, 0, [], diverged=True)
    finally:
        progress.close()
    if trainer.updates < end:
        return None
    if trainer.complete:
        run.complete(trainer.summary())
    games, means = trainer.episodes.collected
    return PieceResult(trainer.updates, games, [] if np.isnan(means).any() else means, diverged=False)
