"""Actors in lockstep and actors in processes are the same algorithm: pace, frames and priorities of both."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import reverb

from repro.replay.sequences import TABLE
from tests.papers.ctrace.small import ENVIRONMENTS, FIRST_FRAMES, make_loop

UPDATES, STEPS_PER_UPDATE = 80, 5
FRAMES_PER_UPDATE = ENVIRONMENTS * STEPS_PER_UPDATE
AHEAD = {"lockstep": FRAMES_PER_UPDATE, "processes": 2 * FRAMES_PER_UPDATE}
"""Frames that may be played before the learner takes them: in lockstep the next round; of actors in processes one
unroll each in the queue, and one each that waits for a place there."""


class Run(NamedTuple):
    """What a run says of itself, and what is seen from outside.

    gradient_steps, frames: of its summary.
    played: steps that its games were played.
    announced: priorities of new sequences, in the order in which the learner named them.
    entered: those of sequences that were never drawn.
    """

    gradient_steps: int
    frames: int
    played: int
    announced: list[float]
    entered: list[float]


def run_catch(folder: Path, schedule: str, *, forward: bool = True, frames_per_step: int = 1) -> Run:
    """Games of Catch have 5 steps, so that two sequences come of a game where a period of 4 steps would suggest 1.5.

    `forward`: whether actors hear of priorities.
    """
    folder.mkdir()
    loop, _, _ = make_loop(
        folder,
        updates=UPDATES,
        prioritised=True,
        schedule=schedule,
        period=4,
        capacity=100,  # what entered in the last 15 updates
        replay_updates=3,
        frames_per_step=frames_per_step,
    )
    announced, announce = [], loop._players.set_priority

    def set_priority(priority: float) -> None:
        announced.append(priority)
        if forward:
            announce(priority)

    loop._players.set_priority = set_priority
    try:
        for _ in loop:
            pass
        drawn = reverb.Client(loop._replay.address).sample(TABLE, 600, emit_timesteps=False)
        entered = [sample.info.priority for sample in drawn if sample.info.times_sampled == 1]
        summary = loop.summary()
    finally:
        loop.close()
    played = sum(int(file.read_text()) for file in folder.glob("played_*"))
    return Run(summary["gradient_steps"], summary["frames"], played, announced, entered)


def check_pace(run: Run, ahead: int) -> None:
    """A gradient step follows every so many new frames after the first, and these were played."""
    assert run.frames == UPDATES * FRAMES_PER_UPDATE
    assert run.frames <= run.played <= run.frames + ahead
    assert run.gradient_steps == (run.frames - FIRST_FRAMES) // FRAMES_PER_UPDATE


def check_priorities(run: Run) -> None:
    """New sequences have a priority that the learner named of late."""
    assert len(run.entered) > 10
    assert set(run.entered) <= set(run.announced[-40:])
    assert 1.0 not in run.announced[-40:]


@pytest.mark.parametrize("schedule", ["lockstep", "processes"])
def test_pace_frames_and_priorities(tmp_path, schedule):
    run = run_catch(tmp_path / "run", schedule)
    check_pace(run, AHEAD[schedule])
    check_priorities(run)


def test_wrong_count_and_deaf_actors_are_seen(tmp_path):
    run = run_catch(tmp_path / "run", "processes", forward=False, frames_per_step=2)
    with pytest.raises(AssertionError):
        check_pace(run, AHEAD["processes"])
    assert run.played < run.frames
    with pytest.raises(AssertionError):
        check_priorities(run)
    assert set(run.entered) == {1.0}
