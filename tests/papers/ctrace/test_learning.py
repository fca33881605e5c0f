"""C-trace-DQN learns Catch with its own loop and a real replay; with the target's sign reversed it does not."""

from __future__ import annotations

import numpy as np
import pytest

from repro.papers.ctrace import agent as agent_module
from tests.papers.ctrace.small import make_loop


def scores(folder, method, updates, until, prioritised=False):
    """Of games, in order; ends before so many updates where the mean of the last 200 is as `until` asks."""
    loop, episodes, _ = make_loop(folder, updates=updates, method=method, prioritised=prioritised)
    games = []
    append = episodes.append
    episodes.append = lambda episode: (games.append(episode.score), append(episode))[1]
    loop._actor_pool._source._on_episode = episodes.append
    for _ in loop:
        if len(games) >= 300 and until(np.mean(games[-200:])):
            break
    loop.close()
    return np.array(games)


@pytest.mark.slow
@pytest.mark.parametrize("prioritised", [False, True])
def test_learns_catch(tmp_path, prioritised):
    games = scores(tmp_path, "c_trace", 500, lambda mean: mean > 0.7, prioritised)
    assert games[:50].mean() < -0.3  # random play catches one ball in five
    assert games[-200:].mean() > 0.6  # one action in ten is random


@pytest.mark.slow
def test_with_the_sign_of_rewards_reversed_it_gets_worse_than_random(tmp_path, monkeypatch):
    dqn_loss = agent_module.dqn_loss
    monkeypatch.setattr(agent_module, "dqn_loss", lambda r_t, **data: dqn_loss(r_t=-r_t, **data))
    # Random play has -0.6 in the mean; of so many looks at 200 of its games none finds less than -0.85.
    assert scores(tmp_path, "c_trace", 400, lambda mean: mean < -0.85)[-200:].mean() < -0.7
