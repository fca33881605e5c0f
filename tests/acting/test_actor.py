"""Unrolls that actors write."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import StepType

from repro.acting.actor import Actor, successor_seeds
from repro.acting.rollout import next_step_type
from repro.acting.unrolls import UnrollGroup, stack_groups
from repro.acting.weights import WeightsPublisher
from tests.support.catch import Catch
from tests.support.training import UNROLL, make_agent, make_policy

FIRST, MID, LAST = (int(x) for x in (StepType.FIRST, StepType.MID, StepType.LAST))


@pytest.fixture
def parts():
    environment = Catch(4, seed=0)
    agent = make_agent(environment)
    weights = WeightsPublisher(agent.collect_policy.variables())
    weights.publish(7)
    policy = make_policy(environment, seed=1)
    games = []
    actor = Actor(environment, policy, weights, UNROLL, 5, games.append)
    return actor, agent, weights, policy, games


def unroll(actor, agent, groups=1):
    made = [UnrollGroup(agent.collect_data_spec, 4 // groups, UNROLL) for _ in range(groups)]
    actor.sync_weights()
    actor.collect(made)
    return made


@pytest.mark.parametrize(
    ("before", "terminated", "game_over", "after"),
    [
        (MID, False, False, MID),
        (FIRST, False, False, MID),
        (MID, True, False, FIRST),  # a lost life: a new episode for learning, the same game
        (MID, True, True, LAST),
        (MID, False, True, LAST),  # a time limit that is not terminal
        (LAST, False, False, FIRST),  # the step that reset the game
    ],
)
def test_next_step_type(before, terminated, game_over, after):
    found = next_step_type(np.array([before]), np.array([terminated]), np.array([game_over]))
    assert found.tolist() == [after]


def test_rows_hold_what_the_game_did(parts):
    actor, agent, _, _, games = parts
    (first,), (second,) = unroll(actor, agent), unroll(actor, agent)
    a, b = first.arrays, second.arrays
    np.testing.assert_array_equal(a.observation[:, -1], b.observation[:, 0])
    np.testing.assert_array_equal(a.step_type[:, -1], b.step_type[:, 0])
    np.testing.assert_array_equal(a.next_step_type[:, :UNROLL], a.step_type[:, 1:])
    # Games last 5 steps and a row for the reset: observations FIRST MID MID MID MID LAST, again and again.
    pattern = ([FIRST, MID, MID, MID, MID, LAST] * 4)[: UNROLL + 1]
    np.testing.assert_array_equal(a.step_type, np.tile(pattern, (4, 1)))
    ends = [4, 10]
    np.testing.assert_array_equal(np.flatnonzero(a.reward[0, :UNROLL]), ends[:1])
    np.testing.assert_array_equal(np.flatnonzero(a.discount[0, :UNROLL] == 0), ends[:1])
    assert len(games) == 4 * 3
    assert all(game.frames == 5 and game.score in (-1.0, 1.0) for game in games)


def test_logits_are_those_of_the_published_weights(parts):
    actor, agent, weights, _, _ = parts
    (group,) = unroll(actor, agent)
    assert group.version == 7
    x = group.arrays
    logits, _, _ = agent._network(tf.constant(x.observation), tf.constant(x.step_type))
    np.testing.assert_allclose(x.policy_info["logits"][:, :UNROLL], logits[:, :UNROLL], atol=1e-5)


@pytest.mark.parametrize("change", ["assign", "kernel of the optimiser"])
def test_a_snapshot_does_not_follow_the_learner(parts, change):
    actor, agent, weights, policy, _ = parts
    unroll(actor, agent)
    before, snapshot = [v.numpy().copy() for v in policy.variables()], weights.latest
    learned = agent.collect_policy.variables()
    if change == "assign":
        for variable in learned:
            variable.assign(variable + 1.0)
    else:  # RMSProp's, which writes into the variable's own memory; then on to the values of the other case
        gradients = [tf.random.stateless_normal(v.shape, [1, 2]) for v in learned]
        agent._optimizer.apply_gradients(zip(gradients, learned), skip_gradients_aggregation=True)
        assert all((v.numpy() != b).any() for v, b in zip(learned, before))
        for variable, start in zip(learned, before):
            variable.assign_add(start + 1.0 - variable)
    assert snapshot.version == weights.latest.version == 7
    for a, b in zip(before, weights.latest.values, strict=True):
        np.testing.assert_array_equal(a, b)
    weights.latest = snapshot._replace()  # another one, or it would not look at what it has
    actor.sync_weights()
    for a, b in zip(before, policy.variables()):
        np.testing.assert_array_equal(a, b)
    weights.publish(8)
    actor.sync_weights()
    for a, b in zip(before, policy.variables()):
        np.testing.assert_allclose(a + 1.0, b, rtol=1e-6)


def test_another_number_of_weights_is_refused(parts):
    actor, _, weights, _, _ = parts
    weights.latest = weights.latest._replace(version=8, values=weights.latest.values[:-1])
    with pytest.raises(ValueError, match="values for"):
        actor.sync_weights()


@pytest.mark.parametrize("numbered", [False, True])
def test_to_begin_again_is_to_reset_with_another_seed_where_episodes_have_no_numbers(parts, numbered):
    actor, agent, *_ = parts
    if numbered:
        actor.environment.get_counters = lambda: {"episodes": np.zeros(4)}
        actor.environment.set_counters = lambda counters: None
    actor.begin_again(1)
    seed, action_seed = successor_seeds(5, 1)
    assert actor._inference._seed.tolist() == [action_seed, 0]
    (group,) = unroll(actor, agent)
    expected, _ = Catch(4, 0 if numbered else seed).reset()
    np.testing.assert_array_equal(group.arrays.observation[:, 0], expected)
    assert len({successor_seeds(seed, number) for seed in range(3) for number in range(1, 4)}) == 9


def test_groups_split_the_environments_in_order(parts):
    actor, agent, _, _, _ = parts
    state = None
    (whole,) = unroll(actor, agent)
    state = actor.get_state()
    (after,) = unroll(actor, agent)
    actor.set_state(state)
    halves = unroll(actor, agent, groups=2)
    joined = stack_groups(halves)
    for a, b in zip(tf.nest.flatten(after.arrays), tf.nest.flatten(joined)):
        np.testing.assert_array_equal(a[:, :UNROLL], b[:, :UNROLL])
    assert stack_groups([whole]) is whole.arrays
