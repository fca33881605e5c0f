"""Saved games continue exactly: states, replays, and the property of the emulator that this depends on."""

from __future__ import annotations

import io
from typing import Any

import ale_py
import numpy as np
import pytest
from ale_py import roms

from repro.environments import atari
from repro.environments.atari import AtariEnvironment, make_atari
from tests.environments.reference import PROTOCOL


def make(seed: int, **overrides: Any) -> AtariEnvironment:
    return make_atari({**PROTOCOL, "task": "breakout", **overrides}, 2, seed)


def flat(step: tuple) -> dict[str, np.ndarray]:
    """Everything a step returned, by name."""
    observation, reward, terminated, truncated, info = step
    frames = observation if isinstance(observation, dict) else {"observation": observation}
    return {**frames, "reward": reward, "terminated": terminated, "truncated": truncated, **info}


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """Saves and loads a state without pickle."""
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        return dict(loaded)


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param({}, id="plain", marks=pytest.mark.slow),
        pytest.param(
            {"last_action_and_reward": True, "noop_max": 1}, id="last_action_and_refused_starts", marks=pytest.mark.slow
        ),
        pytest.param({"sticky_probability": 0.25, "noop_max": 2}, id="sticky", marks=pytest.mark.slow),
        pytest.param({"sticky_probability": 0.25, "max_frames": 90}, id="sticky_time_limit", marks=pytest.mark.slow),
        pytest.param({"task": "ice_hockey", "max_frames": 90}, id="keeps_memory_time_limit"),
        pytest.param({"max_frames": 90, "time_limit_is_terminal": False}, id="time_limit", marks=pytest.mark.slow),
    ],
)
def test_restored_games_go_on_exactly(overrides: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Across game ends and new seeds, from the last step of a game, from the first of the next, and from the middle."""
    monkeypatch.setattr(atari, "_RESETS_PER_SEED", 2)
    monkeypatch.setattr(atari, "_STEPS_PER_SEED", 30)
    steps = 500 if "max_frames" not in overrides else 150
    original = make(7, **overrides)
    observation, _ = original.reset()
    actions = np.random.default_rng(2).integers(original.num_actions, size=(steps, 2), dtype=np.int32)
    wanted: dict[int, Any] = {0: original.get_state()}
    seen: list[dict[str, np.ndarray]] = []
    seeds_sampled: list[np.ndarray] = [wanted[0]["seeds_sampled"]]
    for step in range(steps):
        seen.append(flat(original.step(actions[step])))
        ended = len(seen) > 1 and seen[-2]["game_over"].any()
        if seen[-1]["game_over"].any() or ended or step + 1 == steps // 2:
            wanted[step + 1] = original.get_state()
        seeds_sampled.append(original.get_state()["seeds_sampled"])
    assert (seeds_sampled[-1] > 1).all()  # every emulator was seeded again

    just_ended = [step for step in wanted if step and seen[step - 1]["game_over"].any()]
    assert len(just_ended) >= 2
    begun = [step for step in wanted if step > 1 and seen[step - 2]["game_over"].any()]
    restored = make(99, **overrides)
    for step in (0, just_ended[0], begun[1], steps // 2):
        current = restored.set_state(through_a_file(wanted[step]))
        before = seen[step - 1] if step else {"observation": observation}
        if isinstance(current, dict):
            assert all(np.array_equal(current[name], before[name]) for name in current if step)
        else:
            np.testing.assert_array_equal(current, before["observation"])
        assert all(np.array_equal(wanted[step][key], value) for key, value in restored.get_state().items())
        length = min(steps - step, 170)
        for later in range(step, step + length):
            for name, value in flat(restored.step(actions[later])).items():
                np.testing.assert_array_equal(value, seen[later][name], err_msg=f"{name} of step {later}")
                assert value.dtype == seen[later][name].dtype


def test_a_state_does_not_change_as_the_games_go_on() -> None:
    environment = make(0)
    environment.reset()
    environment.step(np.array([1, 2]))
    state = environment.get_state()
    copy = {key: np.copy(value) for key, value in state.items()}
    for _ in range(5):
        environment.step(np.array([3, 3]))
    for key, value in state.items():
        np.testing.assert_array_equal(value, copy[key])


def test_more_actions_than_first_made_room_for() -> None:
    environment = make(0, noop_max=0)
    environment.reset()
    room = environment._actions.shape[1]
    for step in range(room + 3):  # without FIRE, the game does not begin, and so does not end
        environment.step(np.full(2, step % 2 * 2, np.int32))
    state = environment.get_state()
    assert state["actions"].shape == (2, room + 3)
    np.testing.assert_array_equal(state["actions"][0], np.arange(room + 3) % 2 * 2)


def test_each_emulator_is_reset_as_often_as_it_was() -> None:
    """Each reset samples another number of no-ops, here seen in the frames before the game."""
    environment, everywhere = make(0), np.ones(2, bool)
    environment.reset()

    def first_frames(*resets: int) -> list[int]:
        return environment._load(everywhere, np.array(resets))["episode_frame_number"].tolist()

    none, twice = first_frames(0, 0), first_frames(2, 2)
    assert none[0] != twice[0]
    assert none[1] != twice[1]
    assert first_frames(0, 2) == [none[0], twice[1]]
    assert first_frames(2, 0) == [twice[0], none[1]]


def test_states_of_others_are_refused() -> None:
    environment = make(0)
    environment.reset()
    environment.step(np.array([1, 2]))
    state = environment.get_state()
    with pytest.raises(ValueError, match="state is of breakout, the environment is pong"):
        make(0, task="pong").set_state(state)
    with pytest.raises(ValueError, match="state is of 2 environments, the batch has 1"):
        make_atari({**PROTOCOL, "task": "breakout"}, 1, seed=0).set_state(state)
    wrong = {**state, "actions": state["actions"] * 0 + 3, "seeds": state["seeds"] + 1}
    with pytest.raises(RuntimeError, match="replayed games differ from the saved ones"):
        environment.set_state(wrong)


def emulator_after_reset(game: str, overwrite_with: int | None) -> bytes:
    """The state of the whole emulator after a reset, with the memory overwritten at random before or not."""
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    emulator = ale_py.ALEInterface()
    emulator.setInt("random_seed", 5)
    emulator.setFloat("repeat_action_probability", 0.0)
    rom = roms.get_rom_path(game)
    assert rom is not None
    emulator.loadROM(rom)
    if overwrite_with is not None:
        for address, value in enumerate(np.random.default_rng(overwrite_with).integers(256, size=128)):
            emulator.setRAM(address, int(value))
    emulator.reset_game()
    return emulator.cloneState(include_rng=False).__getstate__()


@pytest.mark.parametrize("game", ["pong", "breakout", "space_invaders", "qbert", "beam_rider", "road_runner"])
def test_a_reset_clears_the_memory(game: str) -> None:
    untouched = emulator_after_reset(game, None)
    assert all(emulator_after_reset(game, seed) == untouched for seed in (1, 2))


@pytest.mark.parametrize("game", sorted(atari._KEEPS_MEMORY))
def test_games_that_keep_memory(game: str) -> None:
    untouched = emulator_after_reset(game, None)
    assert any(emulator_after_reset(game, seed) != untouched for seed in (1, 2, 3))
