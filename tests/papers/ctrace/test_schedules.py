"""Actors in lockstep and actors in processes are the same algorithm: pace, frames and priorities of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import reverb
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.replay.sequence_memory import SequenceMemory
from repro.replay.sequence_writer import TABLE
from repro.replay.sequences import SequenceReplay
from repro.replay.step_layout import STEP, StepLayout
from tests.papers.ctrace.small import ENVIRONMENTS, FIRST_FRAMES, N, initial_priority, make_loop

UPDATES, STEPS_PER_UPDATE = 80, 5
FRAMES_PER_UPDATE = ENVIRONMENTS * STEPS_PER_UPDATE
AHEAD = {"lockstep": FRAMES_PER_UPDATE, "processes": 2 * FRAMES_PER_UPDATE}
"""Frames that may be played before the learner takes them: in lockstep the next round; of actors in processes one
unroll each in the queue, and one each that waits for a place there."""


class Run(NamedTuple):
    """What a run says of itself, and what is seen from outside.

    gradient_steps, frames: of its summary.
    played: steps that its games were played.
    entered: sequences, of those on Reverb the ones that were never sampled, and the priority with which each entered.
    """

    gradient_steps: int
    frames: int
    played: int
    entered: list[tuple[Trajectory, float]]


def run_catch(folder: Path, schedule: str, **wrong: int) -> Run:
    """Games of Catch have 5 steps, so that two sequences come of a game where a period of 4 steps would suggest 1.5."""
    folder.mkdir()
    loop, _, agent = make_loop(
        folder, updates=UPDATES, prioritised=True, schedule=schedule, period=4, capacity=100, **wrong
    )
    entered: list[tuple[Trajectory, float]] = []
    if schedule == "lockstep":
        record_entries(loop._replay, entered)
    try:
        for _ in loop:
            pass
        if schedule == "processes":
            entered = read_entries(loop._replay, agent.collect_data_spec)
        summary = loop.summary()
    finally:
        loop.close()
    played = sum(int(file.read_text() or 0) for file in folder.glob("played_*"))
    return Run(summary["gradient_steps"], summary["num_env_frames"], played, entered)


def record_entries(memory: SequenceMemory, entered: list[tuple[Trajectory, float]]) -> None:
    """Notes the sequences that are added to a replay in this process."""
    add, layout = memory.add, memory.layout

    def recording(step_rows: np.ndarray, frame_rows: np.ndarray, state: list[np.ndarray], priority: float) -> None:
        leaves: list[Any] = [None] * len(tf.nest.flatten(layout.spec))
        for i, leaf in zip(layout.small, memory.steps.take(step_rows)):
            leaves[i] = leaf
        entered.append((tf.nest.pack_sequence_as(layout.spec, leaves), priority))
        add(step_rows, frame_rows, state, priority)

    memory.add = recording


def read_entries(replay: SequenceReplay, spec: Trajectory) -> list[tuple[Trajectory, float]]:
    """The sequences of a replay on Reverb that were never sampled."""
    sampled = reverb.Client(replay.address).sample(TABLE, 600, emit_timesteps=False, unpack_as_table_signature=True)
    layout = StepLayout(spec)
    return [
        (tf.nest.pack_sequence_as(layout.spec, layout.unpack(sample.data[STEP], None)), sample.info.priority)
        for sample in sampled
        if sample.info.times_sampled == 1
    ]


def check_pace(run: Run, ahead: int) -> None:
    """A gradient step follows every so many new frames after the first, and these were played."""
    assert run.frames == UPDATES * FRAMES_PER_UPDATE
    assert run.frames <= run.played <= run.frames + ahead
    assert run.gradient_steps == (run.frames - FIRST_FRAMES) // FRAMES_PER_UPDATE


def check_priorities(run: Run) -> None:
    """New sequences have the priority that their rows say."""
    assert len(run.entered) > 10
    for rows, priority in run.entered:
        assert priority == pytest.approx(initial_priority(N)(rows), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["lockstep", "processes"])
def test_pace_frames_and_priorities(tmp_path, schedule):
    run = run_catch(tmp_path / "run", schedule)
    check_pace(run, AHEAD[schedule])
    check_priorities(run)


@pytest.mark.slow
def test_resumed_processes_keep_the_pace(tmp_path):
    """What waited in the queue at the checkpoint is taken; what an actor held is played in vain."""
    for stop in (UPDATES // 2, None):
        loop, _, agent = make_loop(tmp_path, updates=UPDATES, prioritised=True, schedule="processes", period=4)
        frames = loop.frames
        for update in loop:
            if update.updates == stop:
                loop.save()
                break
        loop.close()
        for file in tmp_path.glob("played_*"):
            file.rename(tmp_path / f"before_{frames}_{file.name}")
    played = sum(int(file.read_text() or 0) for file in tmp_path.glob("before_*"))
    summary, ahead = loop.summary(), AHEAD["processes"]
    assert frames == FRAMES_PER_UPDATE * UPDATES // 2
    check_pace(Run(summary["gradient_steps"], summary["num_env_frames"], played, []), 2 * ahead)
    assert int(agent.train_step_counter) == summary["gradient_steps"]


@pytest.mark.slow
def test_wrong_frames_and_priorities_are_seen(tmp_path):
    run = run_catch(tmp_path / "run", "processes", initial_n=0, frames_per_step=2)
    with pytest.raises(AssertionError):
        check_pace(run, AHEAD["processes"])
    assert run.played < run.frames
    with pytest.raises(AssertionError):
        check_priorities(run)
    assert {priority for _, priority in run.entered} == {1.0}
