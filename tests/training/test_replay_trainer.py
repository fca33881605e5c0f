"""The loop with a replay: how often it learns from what, and that it resumes bit for bit."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

from repro.acting.unrolls import UnrollGroup
from repro.training.learner import LearnerOutput, NonFiniteLossError, RetracedError
from repro.training.replay_trainer import ReplaySettings
from tests.support.training import UNROLL, games_of, make_loop, weights_of


def _finish(loop):
    updates = list(loop)
    loop.close()
    return updates


@pytest.mark.slow
def test_without_a_replay_it_is_the_loop_of_on_policy_agents(tmp_path):
    plain, _, plain_agent = make_loop(tmp_path / "plain", updates=6)
    _finish(plain)
    loop, _, agent = make_loop(tmp_path / "replay", updates=6, replay_settings=ReplaySettings(True, 0.0))
    _finish(loop)
    for a, b in zip(weights_of(plain_agent), weights_of(agent), strict=True):
        np.testing.assert_array_equal(a, b)
    assert loop.summary()["gradient_steps"] == plain.summary()["gradient_steps"] == 6


def test_replayed_batches_may_have_a_size_of_their_own(tmp_path):
    settings = ReplaySettings(False, 2.0, batch_size=3)  # a new batch has 8
    loop, _, _ = make_loop(tmp_path, updates=10, replay_settings=settings)
    sizes, step = [], loop._learner.step

    def counting(batch):
        sizes.append(len(batch.reward))
        return step(batch)

    loop._learner.step = counting
    _finish(loop)
    assert len(sizes) == loop.summary()["gradient_steps"] > 5
    assert set(sizes) == {3}


@pytest.fixture(scope="module")
def updates_in_calls(tmp_path_factory):
    """Makes a run of twelve updates with at most so many gradient steps in a call, once: what came of it."""

    @functools.cache
    def make(most):
        settings = ReplaySettings(True, 3.0, steps_per_call=most) if most else ReplaySettings(True, 3.0)
        loop, _, agent = make_loop(tmp_path_factory.mktemp("calls"), updates=12, replay_settings=settings)
        return _finish(loop), agent, loop.summary()["gradient_steps"], loop._rng.random()

    return make


@pytest.mark.slow
@pytest.mark.parametrize("most", [2, 5])
def test_updates_in_one_call_are_the_same_updates(updates_in_calls, most):
    """Also where there are fewer or more than a call takes; what is logged is of all of them."""
    (one, one_agent, *one_counts), (several, several_agent, *several_counts) = map(updates_in_calls, (None, most))
    assert one_counts == several_counts
    for a, b in zip(weights_of(one_agent), weights_of(several_agent), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    for a, b in zip(one, several, strict=True):
        assert a.scalars == pytest.approx(b.scalars, rel=1e-3, abs=1e-5)


def test_a_call_of_several_updates_names_the_one_that_gave_nan(tmp_path):
    loop, _, agent = make_loop(tmp_path, updates=1, replay_settings=ReplaySettings(True, 1.0, steps_per_call=4))
    loop._replay.add(UnrollGroup(agent.collect_data_spec, 8, UNROLL).arrays)
    unrolls = loop._replay.take(np.arange(4)[:, np.newaxis].ravel())
    unrolls.reward[2, 0] = np.nan
    batches = tf.nest.map_structure(lambda x: tf.constant(x[:, np.newaxis]), unrolls)
    learner = loop._learner
    assert [np.isfinite(x["loss"]) for x in learner.steps(batches, 2)] == [True, True]
    with pytest.raises(NonFiniteLossError, match="gradient step 5 gave .*loss=nan"):  # the third of the next call
        learner.steps(batches, 4)
    with pytest.raises(RetracedError):
        learner.steps(tf.nest.map_structure(lambda x: x[:3], batches), 2)
    loop.close()


def test_a_call_of_no_update_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"runtime\.steps_per_call=0: choose 1 or more"):
        make_loop(tmp_path, updates=1, replay_settings=ReplaySettings(True, 1.0, steps_per_call=0))


@pytest.mark.slow
def test_every_unroll_is_stored(tmp_path):
    loop, _, _ = make_loop(tmp_path, updates=10, replay_settings=ReplaySettings(True, 1.0))
    _finish(loop)
    assert len(loop._replay) == 10 * 8


@pytest.mark.slow
@pytest.mark.parametrize("on_policy", [True, False])
def test_gradient_steps_are_the_ratio_on_average(tmp_path, on_policy):
    settings = ReplaySettings(on_policy, 4.0)
    loop, _, agent = make_loop(tmp_path, updates=100, replay_settings=settings)
    updates = _finish(loop)
    replayed = loop.summary()["gradient_steps"] - 100 * on_policy
    assert abs(replayed - 400) < 3.3 * 400**0.5  # Poisson's standard deviation; one seed in a thousand fails
    assert int(agent.train_step_counter) == loop.summary()["gradient_steps"]
    assert loop.summary()["num_env_frames"] == updates[-1].frames == 100 * 80  # replayed frames cost no budget
    assert all(np.isfinite(update.scalars["loss"]) for update in updates)


def test_the_number_of_replays_is_poissons(tmp_path):
    """Not the same in every update, nor of another law of that mean: frequencies of 0 to 6 replays, by chi-squared."""
    loop, _, agent = make_loop(tmp_path, updates=1, replay_settings=ReplaySettings(True, 2.0))
    loop._replay.add(UnrollGroup(agent.collect_data_spec, 1, UNROLL).arrays)
    loop._learner.to_device = lambda batch: batch
    loop._learner.step = lambda batch: LearnerOutput({}, {})
    counts = np.array([len(loop._learn_again(1)) for _ in range(4000)])
    loop.close()
    expected = 4000 * np.array([math.exp(-2.0) * 2.0**k / math.factorial(k) for k in range(7)])
    found = np.bincount(counts, minlength=7)[:7]
    assert ((found - expected) ** 2 / expected).sum() < 22.5  # 6 degrees of freedom, 0.1 %; the seed is fixed


def test_an_agent_that_only_replays_makes_one_gradient_step_at_least_after_the_first_unrolls(tmp_path):
    """So that its log has columns from the first update on; then Poisson's number alone counts, here 0."""
    loop, _, _ = make_loop(tmp_path, updates=5, replay_settings=ReplaySettings(False, 1e-6))
    made = [(update.scalars, loop.gradient_steps) for update in loop]
    loop.close()
    assert [steps for _, steps in made] == [1] * 5
    assert all(np.isfinite(scalars["loss"]) and scalars == made[0][0] for scalars, _ in made)


@pytest.fixture(scope="module")
def whole_and_halves(tmp_path_factory):
    """A run, and another that was stopped and resumed: of each its updates, games, agent and summary."""
    folder = tmp_path_factory.mktemp("runs")
    settings = {"updates": 24, "replay_settings": ReplaySettings(True, 3.0)}
    whole, whole_episodes, whole_agent = make_loop(folder / "whole", **settings)
    updates = _finish(whole)
    first, _, _ = make_loop(folder / "halves", **settings)
    halves = []
    for update in first:
        halves.append(update)
        if update.updates == 12:
            first.save()
            break
    first.close()
    second, episodes, second_agent = make_loop(folder / "halves", **settings)
    assert second.updates == 12
    halves += _finish(second)
    return (updates, whole_episodes, whole_agent, whole.summary()), (halves, episodes, second_agent, second.summary())


def test_2n_updates_equal_n_stop_resume_n_bit_for_bit(whole_and_halves):
    (updates, whole_episodes, whole_agent, whole), (halves, episodes, second_agent, second) = whole_and_halves
    for a, b in zip(weights_of(whole_agent), weights_of(second_agent), strict=True):
        np.testing.assert_array_equal(a, b)
    assert whole["gradient_steps"] == second["gradient_steps"]
    np.testing.assert_equal(games_of(halves, episodes), games_of(updates, whole_episodes))


@pytest.mark.slow
def test_policy_lag_counts_gradient_steps_over_every_batch(tmp_path):
    # Two batches a round under the same weights: the second waits for the gradient steps on the first and the replay.
    loop, _, agent = make_loop(tmp_path, updates=40, lag=0, replay_settings=ReplaySettings(True, 3.0))
    steps, lags = [0], []
    for update in loop:
        steps.append(int(agent.train_step_counter))
        lags.append(update.lag)
    loop.close()
    waited = [steps[i] - steps[i - i % 2] for i in range(40)]
    assert lags == waited
    assert max(waited) > 4  # more than the one batch before it
    assert loop.summary()["policy_lag"] == {"mean": pytest.approx(np.mean(waited)), "max": max(waited)}


def test_policy_lag_survives_a_stop(whole_and_halves):
    (*_, whole), (*_, second) = whole_and_halves
    assert second["policy_lag"] == whole["policy_lag"]


def test_actors_may_run_freely(tmp_path):
    settings = ReplaySettings(True, 1.0)
    loop, episodes, _ = make_loop(tmp_path, updates=20, schedule="async", replay_settings=settings)
    assert len(_finish(loop)) == 20
    assert episodes.games > 0


def test_a_loop_that_could_not_learn_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nothing to learn from"):
        make_loop(tmp_path, updates=1, replay_settings=ReplaySettings(False, 0.0))
