"""A replay in a process of its own: real processes, of which one is killed."""

from __future__ import annotations

import time

import numpy as np

from tests.papers.ctrace.small import make_loop


def test_a_killed_replay_begins_again_with_what_was_saved_and_the_loss_is_counted(tmp_path):
    """What came after the checkpoint is lost; a resume goes on with what its own checkpoint has."""
    lines = []
    settings = {"updates": 400, "prioritised": True, "schedule": "replay", "warn": lines.append}
    loop, _, agent = make_loop(tmp_path, **settings)
    replay, process = loop._replay, loop._actor_pool._actors.launcher.replays
    updates = iter(loop)
    next(updates)
    while len(replay) < 100:
        next(updates)
    loop.save()
    saved = len(replay)
    while len(replay) < saved + 50:
        next(updates)
    time.sleep(2.5)  # it says what it holds every second; actors go on until the queue is full
    before = len(replay)
    process[0].kill()
    for _ in range(20):
        next(updates)
    held = len(replay)
    loop.save()
    assert len(process) == 2
    assert "The replay was restarted (restart 1 of this process): it ended with code -9" in lines[0]
    assert lines[1].startswith("The replay begins again with what the last checkpoint has")
    assert saved <= held < before + 20 * 20
    assert 50 <= replay.lost <= before - 90
    totals = loop.summary()
    assert totals["lost"]["sequences"] == replay.lost
    assert totals["replay_restarts"] == 1
    lost = replay.lost
    loop.close()
    assert not loop._replay._relay._thread.is_alive()

    again, _, agent = make_loop(tmp_path, **settings)
    assert len(again._replay) >= held
    steps = int(agent.train_step_counter)
    for _ in zip(range(5), again):
        pass
    assert int(agent.train_step_counter) == steps + 5
    assert again.summary()["lost"]["sequences"] == lost
    assert np.isfinite(again._scalars["loss"])
    again.close()
