"""The loop of new and replayed unrolls: what is learned from, what is counted, and that it resumes bit for bit."""

import numpy as np
import pytest

from tests.support.training import make_loop, weights_of


def finish(loop):
    updates = list(loop)
    loop.close()
    return updates


def test_a_batch_is_the_new_unrolls_and_replayed_ones(tmp_path):
    loop, _, _ = make_loop(tmp_path, updates=8, num_replayed=5, capacity=1000)
    learned, step = [], loop._learner.step

    def recording(batch):
        learned.append([row.tobytes() for row in batch.policy_info["logits"].numpy()])
        return step(batch)

    loop._learner.step = recording
    stored = set()
    for update in loop:
        new, replayed = learned[-1][:8], learned[-1][8:]
        assert len(replayed) == 5
        assert not stored & set(new)
        stored |= set(new)
        assert set(replayed) <= stored
        assert update.frames == 80 * update.updates  # replayed frames cost no budget
    loop.close()
    assert len(stored) == 64
    older = sum(unroll not in batch[:8] for batch in learned for unroll in batch[8:])
    assert older > 15  # of 40; uniformly sampled 26.4 are expected
    assert loop.summary()["gradient_steps"] == 8


@pytest.mark.slow
def test_new_and_replayed_unrolls_have_policy_lags_of_their_own(tmp_path):
    """Of a single unroll a batch, in lockstep at lag 2: unroll n is of the weights after max(0, n - 2) updates."""
    loop, _, _ = make_loop(
        tmp_path, updates=9, lag=2, num_actors=1, envs_per_actor=1, batch_size=1, num_replayed=1, capacity=1
    )
    updates = finish(loop)
    lags = [n - max(0, n - 2) for n in range(9)]
    loop.skipped_updates += 9  # as where weights of another member are adopted that is as far ahead
    loop.updates += 9
    assert [update.lag for update in updates] == lags
    assert [update.scalars["replay_lag"] for update in updates] == lags  # the only one stored is the new one
    assert loop.summary()["replay_lag"] == loop.summary()["policy_lag"] == {"mean": np.mean(lags), "max": 2.0}

    loop, _, _ = make_loop(tmp_path / "full", updates=60, lag=0, num_actors=1, num_replayed=80, capacity=160)
    updates = finish(loop)
    assert {update.lag for update in updates} == {0.0}
    assert loop.summary()["policy_lag"] == {"mean": 0.0, "max": 0.0}
    for update in updates[20:]:  # uniform over the last 20 batches of 8: mean 9.5, and of 80 samples a std of 0.65
        assert update.scalars["replay_lag"] == pytest.approx(9.5, abs=2.5)
    assert loop.summary()["replay_lag"]["max"] == 19.0
    assert loop.summary()["replay_lag"]["mean"] == pytest.approx(np.mean([u.scalars["replay_lag"] for u in updates]))


@pytest.mark.slow
def test_2n_updates_equal_n_stop_resume_n_bit_for_bit(tmp_path):
    settings = {"updates": 24, "num_replayed": 8, "capacity": 40}
    whole, _, whole_agent = make_loop(tmp_path / "whole", **settings)
    finish(whole)
    first, _, _ = make_loop(tmp_path / "halves", **settings)
    for update in first:
        if update.updates == 12:
            first.save()
            break
    first.close()
    second, _, second_agent = make_loop(tmp_path / "halves", **settings)
    assert second.updates == 12
    finish(second)
    for a, b in zip(weights_of(whole_agent), weights_of(second_agent), strict=True):
        np.testing.assert_array_equal(a, b)
    for name in ("gradient_steps", "policy_lag", "replay_lag"):
        assert whole.summary()[name] == second.summary()[name]


def test_actors_may_run_freely(tmp_path):
    loop, episodes, _ = make_loop(tmp_path, updates=20, schedule="async", num_replayed=8)
    assert len(finish(loop)) == 20
    assert episodes.games > 0
    loop._batches.check_valid()
    assert len(loop._batches._replay) == 100
