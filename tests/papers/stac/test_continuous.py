"""Continuous actions: the metagradient of a recurrent agent, overlapping unrolls, effects of the burn-in."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import StepType
from tf_agents.trajectories import time_step as ts

from repro.acting.actor import Actor
from repro.acting.unrolls import UnrollGroup
from repro.acting.weights import WeightsPublisher
from repro.distributions import gaussian, squashed_gaussian
from repro.networks import recurrent
from repro.papers.stac.action_distribution import Softmax, SquashedGaussian
from repro.training.learner import Learner
from tests.papers.stac.small import STAC
from tests.papers.stac.small_control import BURN_IN, DISTRIBUTION, LEARNED, make_agent, random_unrolls
from tests.papers.stac.test_metagradient import KeepingSGD, check_update
from tests.support.point_mass import PointMass

# The update


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_heads", "clip", "gamma_embedding"),
    [(1, 1e3, "none"), (1, 2.0, "none"), (3, 2.0, "none"), (2, 2.0, "separate")],
)
def test_the_metagradient_equals_finite_differences(num_heads, clip, gamma_embedding):
    """Through burn-in, LSTM, resets, Jacobian and the KL to a standard normal; `random_unrolls` poisons the rest."""
    agent = make_agent(
        num_heads=num_heads,
        gamma_embedding=gamma_embedding,
        meta_optimizer=KeepingSGD(),
        clip_global_norm=clip,
    )
    found, norm = check_update(agent, random_unrolls(agent, seed=1), clip=clip, kl_cost=1.0)
    assert 2 * 2.0 < norm < 1e3  # a clip of 2 is active, the other is not
    assert all(np.abs(x).min() > 0 for x in found.values())


def variables_of(agent):
    eta = list(agent._metaparameters.eta.values())
    return [v.numpy() for v in [*agent._network.trainable_variables, *eta]]


@pytest.mark.slow
def test_eager_graph_and_xla_make_the_same_update():
    results = []
    for mode in ("eager", "graph", "xla"):
        agent = make_agent(clip_global_norm=2.0)
        batch, begin = random_unrolls(agent, seed=0), variables_of(agent)
        if mode == "eager":
            agent.train(tf.nest.map_structure(tf.constant, batch))
        else:
            learner = Learner(agent, tf.distribute.get_strategy(), jit_compile=mode == "xla")
            scalars = learner.step(learner.to_device(batch)).scalars
            assert {"prior_kl", "std", "kl", "outer_loss", *(f"{name}_1" for name in STAC)} <= set(scalars)
            assert "entropy" not in scalars
        results.append(variables_of(agent))
    for eager, graph, xla, start in zip(*results, begin, strict=True):
        np.testing.assert_allclose(graph, eager, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(xla, eager, rtol=1e-5, atol=1e-6)
        assert np.abs(eager - start).max() > 1e-6


@pytest.mark.slow
def test_a_core_that_is_a_loop_makes_the_same_update(monkeypatch):
    """On a GPU the burn-in and the learned steps are loops, through which the metagradient passes twice."""
    results, calls, looped = [], [], recurrent._looped
    monkeypatch.setattr(recurrent, "_looped", lambda *arguments: calls.append(1) or looped(*arguments))
    monkeypatch.setattr(recurrent, "UNROLLED", BURN_IN - 1)
    for gpus in ([], ["GPU:0"]):
        monkeypatch.setattr(recurrent, "visible_gpus", lambda gpus=gpus: gpus)
        agent = make_agent(clip_global_norm=2.0)
        learner = Learner(agent, tf.distribute.get_strategy(), jit_compile=False)
        begin, _ = variables_of(agent), learner.step(learner.to_device(random_unrolls(agent, seed=1)))
        results.append(variables_of(agent))
        assert bool(calls) == bool(gpus)
    for unrolled, loop, start in zip(*results, begin, strict=True):
        np.testing.assert_allclose(loop, unrolled, rtol=1e-5, atol=1e-6)
        assert np.abs(loop - start).max() > 1e-6


def test_the_burn_in_warms_the_core_and_nothing_is_learned_from_it():
    """Rows that have gradients are those behind it; what stands before them changes the loss all the same."""
    agent = make_agent()
    batch = tf.nest.map_structure(tf.constant, random_unrolls(agent, seed=0))
    state = batch.policy_info["core_state"]
    with tf.GradientTape() as tape:
        tape.watch([batch.observation, state])
        loss = agent.loss(batch).loss
    observation, *of_state = tape.gradient(loss, [batch.observation, *state])
    reached = np.abs(observation).max(axis=-1) > 0
    # The observation after the last transition is the target's, which has no gradient.
    np.testing.assert_array_equal(reached[0], [False] * BURN_IN + [True] * LEARNED + [False])
    assert not reached[1, BURN_IN + 2]  # between two episodes
    assert of_state == [None, None]
    for moved in (0, 2):
        rows = np.arange(BURN_IN + LEARNED + 1)[:, None] == moved
        other = batch._replace(observation=tf.where(rows, batch.observation + 1.0, batch.observation))
        assert abs(float(agent.loss(other).loss - loss)) > 1e-5
    info = batch.policy_info | {"core_state": tuple(part + 1.0 for part in state)}
    assert abs(float(agent.loss(batch._replace(policy_info=info)).loss - loss)) > 1e-5


# Overlapping unrolls


def play(overlap, length, count, size=2):
    """Consecutive unrolls of an agent whose weights stay as they are; the agent, too."""
    agent, environment = make_agent(burn_in=0), PointMass(size, 3)
    actor = Actor(
        environment,
        agent.collect_policy,
        WeightsPublisher(agent.collect_policy.variables()),
        length,
        5,
        lambda episode: None,
        overlap,
    )
    unrolls = []
    group = UnrollGroup(agent.collect_data_spec, size, length)  # reused, as actors' memory is
    for _ in range(count):
        actor.collect([group])
        unrolls.append(tf.nest.map_structure(np.copy, group.arrays))
        for x in tf.nest.flatten(group.arrays):
            x[:] = -1
    return unrolls, agent


def rows_of(unrolls, first, last):
    """Rows [first, last) of every unroll as vectors, one list for each environment."""
    found = [[], []]
    for x in unrolls:
        parts = (x.observation, x.action, x.reward[..., None], x.step_type[..., None], x.policy_info["mean"])
        table = np.concatenate([part[:, first:last].astype(np.float64) for part in parts], axis=-1)
        for rows, mine in zip(found, table):
            rows += [tuple(row) for row in mine]
    return found


@pytest.mark.parametrize(("length", "overlap"), [(8, 6), (8, 3), (9, 8)])
def test_every_step_is_learned_once_where_the_burn_in_is_the_overlap(length, overlap):
    """In order, and the first ones too: the rows are those of an actor without overlap."""
    new = length - overlap
    count = 48 // new
    unrolls, _ = play(overlap, length, count)
    alone, _ = play(0, new, count)
    expected = rows_of(alone, 0, new)
    assert rows_of(unrolls, overlap, length) == expected
    for rows in expected:
        assert len(set(rows)) == len(rows) == count * new


def test_without_burn_in_every_step_is_learned_as_often_as_unrolls_overlap():
    unrolls, _ = play(6, 8, 24)
    for rows in rows_of(unrolls, 0, 8):
        counts = {}
        for row in rows:
            counts[row] = counts.get(row, 0) + 1
        padding = [row for row in counts if counts[row] > 4]  # rows before the first step
        assert [row[-3] for row in padding] == [StepType.LAST]
        played = [n for row, n in counts.items() if row not in padding]
        assert played[:-6] == [4] * (24 * 2 - 6)
        assert played[-6:] == [3, 3, 2, 2, 1, 1]  # the next unrolls would have them again


def test_the_first_unroll_begins_with_rows_that_are_no_transition():
    (first, second), _ = play(6, 8, 2)
    assert (first.step_type[:, :6] == StepType.LAST).all()
    assert (first.step_type[:, 6] == StepType.FIRST).all()
    np.testing.assert_array_equal(second.step_type[:, :6], first.step_type[:, 2:8])
    for one, other in zip(tf.nest.flatten(first), tf.nest.flatten(second)):
        np.testing.assert_array_equal(one[:, 2:8], other[:, :6])
        assert not np.any(one[:, :6]) or one is first.step_type


def test_new_weights_act_in_new_rows_alone():
    """What an unroll shares with the one before keeps the policy that acted; groups share the environments' rows."""
    agent = make_agent(burn_in=0)
    publisher = WeightsPublisher(agent.collect_policy.variables())
    local = make_agent(burn_in=0, seed=7)
    actor = Actor(PointMass(4, 3), local.collect_policy, publisher, 8, 5, lambda episode: None, overlap=6)
    whole = Actor(
        PointMass(4, 3), make_agent(burn_in=0, seed=8).collect_policy, publisher, 8, 5, lambda _: None, overlap=6
    )
    groups = [UnrollGroup(agent.collect_data_spec, 2, 8) for _ in range(2)]
    together = UnrollGroup(agent.collect_data_spec, 4, 8)
    before = None
    for version in range(4):
        for variable in agent._network.trainable_variables:
            variable.assign_add(0.1 * tf.random.stateless_normal(variable.shape, [version, 1]))
        publisher.publish(version)
        actor.sync_weights(), whole.sync_weights()
        actor.collect(groups)
        whole.collect([together])
        assert [group.version for group in groups] == [version] * 2
        joined = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *(group.arrays for group in groups))
        for mine, other in zip(tf.nest.flatten(joined), tf.nest.flatten(together.arrays)):
            np.testing.assert_array_equal(mine[:, :8], other[:, :8])
        if before is not None:
            for old, new in zip(tf.nest.flatten(before), tf.nest.flatten(joined)):
                np.testing.assert_array_equal(new[:, :6], old[:, 2:8])
            state = tuple(part[:, 6] for part in joined.policy_info["core_state"])
            rows = joined.observation[:, 6:8], joined.step_type[:, 6:8]
            outputs = agent._network(*map(tf.constant, rows), tuple(map(tf.constant, state)))[0]
            said = DISTRIBUTION.info(outputs[:, :, 0])["mean"]
            np.testing.assert_allclose(said, joined.policy_info["mean"][:, 6:8], atol=1e-6)
        before = joined


def test_rows_before_the_first_step_have_no_loss():
    (first, _), agent = play(6, 8, 2)
    batch = tf.nest.map_structure(tf.constant, first)
    loss = agent.loss(batch).loss
    poisoned = tf.nest.map_structure(np.copy, first)
    for x in (poisoned.reward, poisoned.discount, poisoned.action, poisoned.policy_info["mean"]):
        x[:, :6] = np.nan
    np.testing.assert_allclose(agent.loss(tf.nest.map_structure(tf.constant, poisoned)).loss, loss)


@pytest.mark.parametrize("burn_in", [6, 0])
def test_the_core_is_where_playing_from_the_start_left_it(burn_in):
    """With the same weights the learner's policy is the one that acted, in every learned row of every unroll."""
    unrolls, _ = play(6, 8, 12)
    agent = make_agent(burn_in=burn_in)
    ends = 0
    for unroll in unrolls:
        outputs, _ = agent._heads(tf.nest.map_structure(tf.constant, unroll))
        info, said = DISTRIBUTION.info(outputs[:-1, :, 0]), unroll.policy_info
        is_step = np.swapaxes(unroll.step_type, 0, 1)[burn_in:-1] != StepType.LAST
        for name in ("mean", "std"):
            expected = np.swapaxes(said[name], 0, 1)[burn_in:-1]
            np.testing.assert_allclose(info[name].numpy()[is_step], expected[is_step], atol=1e-6)
        ends += (unroll.step_type[:, burn_in:-1] == StepType.FIRST).sum()
    assert ends > 2


# The distributions


def test_the_squashed_gaussian_of_outputs():
    rng = np.random.default_rng(0)
    outputs, others = (tf.constant(rng.normal(size=(4, 3, 4)), tf.float32) for _ in range(2))
    actions = tf.constant(np.tanh(rng.normal(size=(4, 3, 2))), tf.float32)
    mean, std = np.tanh(outputs[..., :2]), np.exp(-1.5 + 0.85 * (np.tanh(outputs[..., 2:]) + 1))
    info = DISTRIBUTION.info(outputs)
    np.testing.assert_allclose(info["mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(info["std"], std, rtol=1e-5)
    assert {name: spec.shape for name, spec in DISTRIBUTION.info_spec.items()} == {"mean": (2,), "std": (2,)}
    np.testing.assert_allclose(DISTRIBUTION.mode(outputs), np.tanh(mean), rtol=1e-5)
    expected = squashed_gaussian.log_prob(mean, std, actions)
    np.testing.assert_allclose(DISTRIBUTION.log_prob(outputs, actions), expected, rtol=1e-4, atol=1e-5)
    ratio = DISTRIBUTION.log_ratio(outputs, DISTRIBUTION.info(others), actions)
    both = (DISTRIBUTION.log_prob(x, actions) for x in (outputs, others))
    np.testing.assert_allclose(ratio, np.subtract(*both), rtol=1e-3, atol=1e-4)
    bonus = DISTRIBUTION.bonus(outputs)
    np.testing.assert_allclose(bonus, -gaussian.kl(mean, std, 0 * mean, 0 * std + 1), rtol=1e-4, atol=1e-5)
    kl = DISTRIBUTION.kl(outputs, others)
    other = DISTRIBUTION.info(others)
    np.testing.assert_allclose(kl, gaussian.kl(mean, std, other["mean"], other["std"]), rtol=1e-3, atol=1e-5)
    described = DISTRIBUTION.describe(outputs)
    assert set(described) == {"std", "prior_kl"}
    np.testing.assert_allclose(described["std"], std.mean(axis=-1), rtol=1e-5)
    np.testing.assert_allclose(described["prior_kl"], -bonus, rtol=1e-5)
    samples = DISTRIBUTION.sample(tf.repeat(outputs[:1, 0], 5000, axis=0), [1, 2])
    np.testing.assert_allclose(np.arctanh(samples).mean(0), mean[0, 0], atol=0.1)


def test_both_distributions_say_what_acted():
    for distribution, k in ((Softmax(5), 5), (SquashedGaussian(3, -4.0, 0.0), 6)):
        assert distribution.num_outputs == k
        outputs = tf.random.stateless_normal([7, k], [1, 2])
        info = distribution.info(outputs)
        assert {name: x.shape[1:] for name, x in info.items()} == {
            name: spec.shape for name, spec in distribution.info_spec.items()
        }
        actions = distribution.sample(outputs, [3, 4])
        np.testing.assert_allclose(distribution.log_ratio(outputs, info, actions), np.zeros(7), atol=1e-6)
        np.testing.assert_allclose(distribution.kl(outputs, outputs), np.zeros(7), atol=1e-6)
        at_mode, at_sample = (distribution.log_prob(outputs, x) for x in (distribution.mode(outputs), actions))
        assert tf.reduce_mean(at_mode) > tf.reduce_mean(at_sample)


# Acting


def test_head_1_acts_with_its_state():
    agent = make_agent(num_heads=3)
    observation = tf.constant([[0.5, -1.0], [0.2, 0.9]])
    step = ts.TimeStep(tf.fill([2], StepType.MID), tf.zeros([2]), tf.ones([2]), observation)
    rng = np.random.default_rng(0)
    state = tuple(tf.constant(rng.normal(size=(2, 6)), tf.float32) for _ in range(2))
    _, outputs, _, after = agent._network(observation[:, None], step.step_type[:, None], state)
    chosen = agent.collect_policy.action(step, state, seed=[1, 2])
    expected = DISTRIBUTION.info(outputs[:, 0, 0])
    for name in ("mean", "std"):
        np.testing.assert_allclose(chosen.info[name], expected[name], rtol=1e-6)
    for said, before, new, found in zip(chosen.info["core_state"], state, after, chosen.state):
        np.testing.assert_array_equal(said, before)
        np.testing.assert_array_equal(found, new)
    assert np.abs(chosen.action).max() < 1
    np.testing.assert_array_equal(chosen.action, agent.collect_policy.action(step, state, seed=[1, 2]).action)
    assert (chosen.action != agent.collect_policy.action(step, state, seed=[1, 3]).action).numpy().all()
    np.testing.assert_allclose(agent.policy.action(step, state).action, np.tanh(np.tanh(outputs[:, 0, 0, :2])), 1e-5)
