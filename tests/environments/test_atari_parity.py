"""The Atari environment against gymnasium's preprocessing on the same seed, pixel by pixel and reward by reward."""

from __future__ import annotations

import numpy as np
import pytest

from repro.environments.atari import AtariEnvironment, make_atari
from tests.environments.reference import PROTOCOL, ReferenceGame


def begin(reference: ReferenceGame, environment: AtariEnvironment, row: int, resets_before: int) -> np.ndarray:
    """Begins the game in the reference that the environment has just begun; returns its observation."""
    for _ in range(environment.get_state()["resets"][row] - resets_before - 1):
        reference.skip_game()  # it had no no-op and was refused
    noops = int(environment._first_frame[row]) - int(environment.config.fire_on_reset)
    assert 1 <= noops <= environment.config.noop_max
    return reference.reset(noops)


def play_beside_reference(overrides: dict, num_envs: int, steps: int) -> dict[str, int]:
    """Compares all that a step returns on random play; returns how often games, lives and rewards came up."""
    protocol = {**PROTOCOL, **overrides}
    environment = make_atari(protocol, num_envs, seed=11)
    observation, _ = environment.reset()
    references = [ReferenceGame(protocol, int(seed)) for seed in environment.get_state()["seeds"]]
    for row, reference in enumerate(references):
        np.testing.assert_array_equal(observation[row], begin(reference, environment, row, -1))
    random = np.random.default_rng(5)
    over = np.zeros(num_envs, bool)
    counts = {"games": 0, "lives": 0, "rewards": 0}
    for _ in range(steps):
        actions = random.integers(environment.num_actions, size=num_envs, dtype=np.int32)
        was_over, resets_before = over, environment.get_state()["resets"]
        observation, reward, terminated, truncated, info = environment.step(actions)
        over = info["game_over"]
        assert not truncated.any()
        for row, reference in enumerate(references):
            if was_over[row]:
                frame = begin(reference, environment, row, resets_before[row])
                unclipped, ended, lost = 0.0, False, False
            else:
                frame, unclipped, ended, lost = reference.step(int(actions[row]))
            np.testing.assert_array_equal(observation[row], frame)
            assert reward[row] == np.clip(unclipped, -1, 1)
            assert terminated[row] == (ended or lost)
            assert over[row] == ended
            assert info["episode_return"][row] == reference.episode_return
            assert info["episode_frames"][row] == reference.frames
            counts["games"] += ended
            counts["lives"] += lost
            counts["rewards"] += unclipped != 0
    return counts


@pytest.mark.parametrize(
    ("overrides", "num_envs", "steps", "at_least"),
    [
        pytest.param(
            {"task": "pong"}, 1, 1100, {"games": 1, "lives": 0, "rewards": 20}, id="pong", marks=pytest.mark.slow
        ),
        pytest.param(
            {"task": "breakout"}, 2, 400, {"games": 3, "lives": 10, "rewards": 2}, id="breakout", marks=pytest.mark.slow
        ),
        pytest.param({"task": "space_invaders"}, 1, 700, {"games": 1, "lives": 2, "rewards": 5}, id="space_invaders"),
        pytest.param({"task": "seaquest"}, 1, 120, {"games": 0, "lives": 1, "rewards": 0}, id="seaquest"),
        pytest.param(
            {"task": "breakout", "sticky_probability": 0.25, "full_action_set": True, "noop_max": 5},
            1,
            150,
            {"games": 0, "lives": 1, "rewards": 0},
            id="sticky_full_actions",
        ),
        pytest.param(
            {"task": "breakout", "fire_on_reset": True, "noop_max": 8},
            1,
            300,
            {"games": 1, "lives": 4, "rewards": 1},
            id="fire",
        ),
        pytest.param(
            {"task": "pong", "fire_on_reset": True}, 1, 60, {"games": 0, "lives": 0, "rewards": 0}, id="fire_pong"
        ),
        pytest.param(
            {"task": "qbert", "grey": False, "height": 60, "width": 72, "stack": 2, "frame_skip": 3},
            1,
            150,
            {"games": 0, "lives": 1, "rewards": 0},
            id="colour_size_stack_skip",
        ),
        pytest.param(
            {"task": "space_invaders", "max_pool": 1, "stack": 1},
            1,
            150,
            {"games": 0, "lives": 0, "rewards": 1},
            id="no_pooling",
        ),
    ],
)
def test_equals_gymnasium_preprocessing(overrides: dict, num_envs: int, steps: int, at_least: dict[str, int]) -> None:
    counts = play_beside_reference(overrides, num_envs, steps)
    assert all(counts[name] >= count for name, count in at_least.items()), counts


def test_comparison_sees_pooling() -> None:
    """With a single frame in the environment and pooling in the reference, the comparison must fail."""
    protocol = {**PROTOCOL, "task": "space_invaders"}
    environment = make_atari({**protocol, "max_pool": 1}, 1, seed=11)
    environment.reset()
    reference = ReferenceGame(protocol, int(environment.get_state()["seeds"][0]))
    begin(reference, environment, 0, -1)
    differs = [not np.array_equal(environment.step(np.array([1]))[0][0], reference.step(1)[0]) for _ in range(30)]
    assert any(differs)
