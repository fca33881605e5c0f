"""The stepping loop: what a step reports, when actions count, and that it continues from where it was saved."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from repro.acting.rollout import FIRST, LAST, MID, CompiledPolicy, Episode, Rollout, next_step_type
from tests.support.catch import Catch
from tests.support.training import make_policy

REPRO = Path(__file__).resolve().parents[2] / "repro"


class Counter:
    """Two environments that observe their number of steps, in memory that each step uses again.

    Row 0: games of 3 steps that terminate. Row 1: loses a life at step 2 and is cut at step 4.
    """

    num_envs = 2

    def __init__(self):
        self._observation, self._over = np.zeros((2, 1), np.float32), np.zeros(2, bool)
        self.actions = []

    def reset(self, seed=None):
        return self._observation, {}

    def step(self, actions):
        self.actions.append(np.array(actions))
        begins = self._over
        self._observation[:] = np.where(begins[:, None], 0, self._observation + 1)
        steps = self._observation[:, 0]
        terminated = np.array([steps[0] == 3, steps[1] == 2]) & ~begins
        over = np.array([steps[0] == 3, steps[1] == 4]) & ~begins
        self._over = over
        info = {"game_over": over, "episode_return": 10 * steps, "episode_frames": steps.astype(np.int32)}
        return self._observation, steps.copy(), terminated, over & ~terminated, info

    def get_state(self):
        return {"steps": self._observation.copy(), "over": self._over.copy()}

    def set_state(self, state):
        self._observation[:], self._over = state["steps"], state["over"].copy()
        return self._observation


def counting(seen):
    """An `Act` that notes what it was given, and gives the number of its call as action and info."""

    def act(observation, step_type):
        seen.append((observation[:, 0].tolist(), step_type.tolist()))
        return np.full(2, len(seen)), len(seen)

    return act


def test_steps_are_those_of_the_environment():
    seen = []
    environment = Counter()
    rollout = Rollout(environment, counting(seen))
    assert rollout.observation is None
    rollout.reset()
    steps = [rollout.step() for _ in range(7)]
    assert seen == [
        ([0, 0], [FIRST, FIRST]),
        ([1, 1], [MID, MID]),
        ([2, 2], [MID, FIRST]),  # a lost life
        ([3, 3], [LAST, MID]),
        ([0, 4], [FIRST, LAST]),  # one begins while the other is cut
        ([1, 0], [MID, FIRST]),
        ([2, 1], [MID, MID]),
    ]
    assert [step.episodes for step in steps] == [
        [],
        [],
        [(0, Episode(30.0, 3))],
        [(1, Episode(40.0, 4))],
        [],
        [],
        [(0, Episode(30.0, 3))],
    ]
    assert [step.terminated.tolist() for step in steps[1:4]] == [[False, True], [True, False], [False, False]]
    np.testing.assert_array_equal([step.reward for step in steps[:3]], [[1, 1], [2, 2], [3, 3]])
    np.testing.assert_array_equal([step.action for step in steps], environment.actions)
    assert [step.info for step in steps] == list(range(1, 8))


def test_games_that_could_not_go_on_end_and_do_not_count():
    environment = Counter()
    step = environment.step

    def losing(actions):
        *found, info = step(actions)
        return *found, info | {"lost": info["game_over"] & [True, False]}

    environment.step = losing
    rollout = Rollout(environment, counting([]))
    rollout.reset()
    steps, types = zip(*[(rollout.step(), rollout.step_type.tolist()) for _ in range(5)])
    assert [step.episodes for step in steps] == [[], [], [], [(1, Episode(40.0, 4))], []]
    assert [row for row, _ in types] == [MID, MID, LAST, FIRST, MID]


@pytest.mark.parametrize("at", range(6))
def test_it_goes_on_where_it_was_saved(at):
    seen, rest = [], []
    whole = Rollout(Counter(), counting(seen))
    whole.reset()
    for _ in range(at):
        whole.step()
    resumed = Rollout(Counter(), counting(rest))
    resumed.set_state(whole.get_state())
    for _ in range(8):
        a, b = whole.step(), resumed.step()
        assert a.episodes == b.episodes
        np.testing.assert_array_equal(whole.observation, resumed.observation)
    assert seen[at:] == rest


def test_step_types_are_those_of_the_rule_at_every_step():
    """Also where the loop need not ask the rule, with ends of every kind at random."""
    g = np.random.default_rng(0)

    class Random(Counter):
        def step(self, actions):
            observation, reward, _, _, info = super().step(actions)
            info["game_over"] = g.random(2) < 0.2
            return observation, reward, g.random(2) < 0.2, np.zeros(2, bool), info

    class Noting(Random):
        def step(self, actions):
            found.append(super().step(actions))
            return found[-1]

    found = []
    rollout = Rollout(Noting(), counting([]))
    rollout.reset()
    for _ in range(200):
        before = rollout.step_type.copy()
        rollout.step()
        _, _, terminated, _, info = found[-1]
        np.testing.assert_array_equal(rollout.step_type, next_step_type(before, terminated, info["game_over"]))


def test_a_policy_has_a_new_seed_at_each_call_and_goes_on_where_it_was_saved():
    environment = Catch(8, seed=0)
    observation, _ = environment.reset()
    policy, step_type = make_policy(environment), np.full(8, MID, np.int32)

    def play(act, calls):
        return np.array([act(observation, step_type)[0] for _ in range(calls)])

    act = CompiledPolicy(policy, 8, 1)
    first, saved = play(act, 6), act.get_state()
    rest = play(act, 6)
    assert len(np.unique(first, axis=0)) > 1
    assert not np.array_equal(first, rest)
    assert not np.array_equal(play(CompiledPolicy(policy, 8, 2), 6), first)
    resumed = CompiledPolicy(policy, 8, 7)
    resumed.set_state(saved)
    np.testing.assert_array_equal(play(resumed, 6), rest)


def test_no_other_loop_steps_an_environment():
    """Benchmarks measure parts alone, and environments step their tasks."""
    found = {
        str(path.relative_to(REPRO))
        for path in REPRO.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr == "step"
        and ast.unparse(node.value).rpartition(".")[2].lstrip("_") == "environment"
    }
    assert {name for name in found if not name.startswith("benchmarks/")} == {"acting/rollout.py"}
