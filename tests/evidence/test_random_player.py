"""Random play: which records are of the same game, and the score that no random player surpasses by chance."""

import copy

import numpy as np
import pytest

from repro.evidence import intervals, random_player
from tests.evidence.synthetic_records import make_record, random_records


def _with_env(record, **env):
    config = copy.deepcopy(record["config"])
    config["env"] |= env
    return record | {"config": config}


def test_the_bound_is_the_upper_end_of_the_interval_of_the_mean_over_games():
    (record,) = random_records(final=-20.0)
    returns = record["evaluation"]["returns"]
    (level,) = random_player.levels([make_record(1), record]).values()
    assert level.mean == pytest.approx(np.mean(returns))
    assert level.upper == intervals.mean_interval(returns)[1] > level.mean


def test_seeds_are_pooled_and_the_same_episodes_count_once():
    first, second = (random_records(final=final)[0] for final in (-20.0, -10.0))
    again = first | {"scale": "paper", "experiment": "atari_deep"}
    returns = first["evaluation"]["returns"] + second["evaluation"]["returns"]
    for order in ([first, second | {"seed": 2}, again], [again, second | {"seed": 2}]):
        (level,) = random_player.levels(order).values()
        assert level.mean == pytest.approx(np.mean(returns))
        assert level.upper == pytest.approx(intervals.mean_interval(returns)[1])
        assert -20.0 < level.mean < -10.0


def test_a_random_player_that_always_scores_the_same_has_this_bound():
    (record,) = random_records()
    record["evaluation"] |= {"mean": -21.0, "std": 0.0, "returns": [-21.0] * 20}
    assert list(random_player.levels([record]).values()) == [(-21.0, -21.0)]


def test_without_a_random_player_there_is_no_bound():
    assert random_player.levels([make_record(1), make_record(2, agent="other")]) == {}


@pytest.mark.parametrize(
    "env",
    [
        {"grey": False, "height": 96, "width": 96, "stack": 1, "max_pool": 1},
        {"reward_clip": None, "life_loss_ends": False, "time_limit_is_terminal": False},
        {"last_action_and_reward": True, "observed": "velocities"},
        {"image_size": 48, "shadow_size": 256, "stagger_steps": 900},
    ],
)
def test_what_an_agent_sees_and_learns_from_makes_no_other_game(env):
    record = make_record(1)
    assert random_player.game_of(_with_env(record, **env)) == random_player.game_of(record)


@pytest.mark.parametrize(
    "env",
    [
        {"sticky_probability": 0.25},
        {"frame_skip": 5},
        {"noop_max": 0},
        {"max_frames": 18_000},
        {"full_action_set": True},
        {"fire_on_reset": True},
        {"name": "gym"},
        {"version": "v4"},
    ],
)
def test_what_the_game_does_makes_another_game(env):
    record = make_record(1)
    changed = _with_env(record, **env)
    assert random_player.game_of(changed) != random_player.game_of(record)
    levels = random_player.levels(random_records())
    assert random_player.game_of(record) in levels
    assert random_player.game_of(changed) not in levels


def test_experiments_with_one_environment_share_a_random_player():
    shallow, deep = make_record(1), make_record(2, experiment="atari_deep", agent="impala_deep", scale="paper")
    assert shallow["config"]["learner"] != deep["config"]["learner"]
    assert random_player.game_of(shallow) == random_player.game_of(deep)


def test_the_task_is_that_of_the_record_and_not_of_its_config():
    """Tasks that are learned together have one configuration, which names the first."""
    pong = make_record(1, "pong")
    alien = make_record(1, "alien") | {"config": pong["config"]}
    assert random_player.game_of(pong) != random_player.game_of(alien)
