"""The priority of a new sequence: against the definition, and against the learner's own priority."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from paper_configs.ctrace import dqn, r2d2
from repro.config import agents
from repro.papers import find_experiment
from repro.papers.ctrace.initial_priority import InitialPriority
from tests.papers.ctrace.small import BURN_IN, GAMMA, STEPS, N, make_agent, random_batch

EPSILON = 1e-3


def h(x):
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + EPSILON * x


def h_inverse(y):
    """By bisection: h rises."""
    low, high = -1e6, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if h(middle) < y else (low, middle)
    return low


def naive_td_errors(rows, n, gamma, burn_in):
    """The definition, window by window."""
    errors = []
    total = len(rows.reward)
    for s in range(burn_in, total - 1):
        if rows.step_type[s] == StepType.LAST:
            errors.append(0.0)
            continue
        value, weight, i = 0.0, 1.0, s
        for _ in range(n):
            if i == total - 1 or (i > s and rows.step_type[i] == StepType.LAST):
                break
            value += weight * rows.reward[i]
            weight *= gamma * rows.discount[i]
            i += 1
        value += weight * h_inverse(rows.policy_info["greedy_value"][i])
        errors.append(h(value) - rows.policy_info["action_value"][s])
    return errors


def random_rows(seed, total):
    rng = np.random.default_rng(seed)
    step_type = np.where(rng.random(total) < 0.15, StepType.LAST, StepType.MID).astype(np.int32)
    step_type[-2] = StepType.MID  # a transition at least
    values = {name: (3 * rng.normal(size=total)).astype(np.float32) for name in ("action_value", "greedy_value")}
    return Trajectory(
        step_type=step_type,
        observation=(),
        action=np.zeros(total, np.int32),
        policy_info=values,
        next_step_type=step_type,
        reward=(5 * rng.normal(size=total)).astype(np.float32),
        discount=(rng.random(total) > 0.1).astype(np.float32),
    )


@pytest.mark.parametrize("n", [1, 2, 5, 30])
@pytest.mark.parametrize("burn_in", [0, 4])
def test_td_errors_are_those_of_the_definition(n, burn_in):
    priority, seen = InitialPriority(n, 0.9, EPSILON, 0.9, burn_in), False
    for seed in range(20):
        rows = random_rows(seed, 14)
        expected = naive_td_errors(rows, n, 0.9, burn_in)
        np.testing.assert_allclose(priority.td_errors(rows), expected, rtol=1e-5, atol=1e-5)
        size = np.abs(expected)
        live = (rows.step_type[burn_in:-1] != StepType.LAST).sum()
        assert priority(rows) == pytest.approx(0.9 * size.max() + 0.1 * size.sum() / live, rel=1e-4)
        seen |= not np.allclose(replace(priority, n=n + 1).td_errors(rows), expected)
    assert seen == (n < 14)  # another n is noticed where a window can be so long


def test_rows_that_are_not_learned_from_are_not_read():
    rows = random_rows(3, 14)
    priority = InitialPriority(3, 0.9, EPSILON, 0.9, 4)
    expected = priority(rows)
    boundary = rows.step_type == StepType.LAST
    for name in ("reward", "discount"):
        getattr(rows, name)[:4] = np.nan
        getattr(rows, name)[boundary] = np.nan
        getattr(rows, name)[-1] = np.nan
    rows.policy_info["greedy_value"][:5] = np.nan
    rows.policy_info["action_value"][:4] = np.nan
    rows.policy_info["action_value"][boundary] = np.nan
    rows.policy_info["action_value"][-1] = np.nan
    assert priority(rows) == expected


def test_learner_with_the_actors_weights_gives_the_same():
    agent = make_agent("n_step", recurrent=True)  # its target network has the same weights
    batch = random_batch(agent, 6, seed=1)
    step_type = batch.step_type.copy()
    step_type[:, -2] = StepType.MID
    batch = batch._replace(step_type=step_type)
    q, _ = agent._network(batch.observation, batch.step_type, batch.policy_info["core_state"])
    values = {
        "action_value": tf.gather(q, batch.action, batch_dims=2).numpy(),
        "greedy_value": tf.reduce_max(q, axis=-1).numpy(),
    }
    batch = batch._replace(policy_info=batch.policy_info | values)
    _, _, extras = agent._losses(tf.nest.map_structure(tf.constant, batch))
    priority = InitialPriority(N, GAMMA, 1e-3, agent._optimization.priority_of_max, BURN_IN)
    rows = batch._replace(observation=(), policy_info=values)
    found = [priority(tf.nest.map_structure(lambda x, b=b: x[b], rows)) for b in range(6)]
    assert batch.step_type.shape[1] == BURN_IN + STEPS + 1
    np.testing.assert_allclose(found, extras["priorities"], rtol=1e-4)


def test_configured_for_prioritised_replay_alone():
    config = r2d2.get_config("paper")
    expected = InitialPriority(5, 0.997, 1e-3, 0.9, 40)
    for agent in agents(config):
        config.agent = agent
        assert find_experiment(config).initial_priority == expected  # R2D2, Section 2.3
        config.replay.first_priority_n = 3
        n = 5 if agent.startswith("n_step") else 3
        assert find_experiment(config).initial_priority == replace(expected, n=n)
        config.replay.first_priority_n = 5
    assert find_experiment(dqn.get_config("paper")).initial_priority is None
