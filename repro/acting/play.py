"""Plays a number of whole games in each environment."""

from __future__ import annotations

from collections.abc import Callable

from tf_agents.policies import tf_policy

from repro.acting.rollout import Act, CompiledPolicy, Episode, Rollout
from repro.environments.batched import BatchedEnvironment


def play(
    policy: tf_policy.TFPolicy,
    environment: BatchedEnvironment,
    episodes: int,
    seed: int,
    on_episode: Callable[[Episode], None],
    on_step: Callable[[], None] = lambda: None,
) -> list[Episode]:
    """Plays the same number of games in each environment, side by side.

    Args:
        policy: chooses the actions.
        seed: seed of the policy's sampling.
        environment, episodes, on_episode, on_step: as for `play_games`.

    Returns:
        the games, ordered by environment, then by time.

    Raises:
        ValueError: the games do not divide evenly.
    """
    act = CompiledPolicy(policy, environment.num_envs, seed)
    return play_games(act, environment, episodes, on_episode, on_step)


def play_games(
    act: Act,
    environment: BatchedEnvironment,
    episodes: int,
    on_episode: Callable[[Episode], None] = lambda _: None,
    on_step: Callable[[], None] = lambda: None,
) -> list[Episode]:
    """Plays as `play` does, with an `Act` at the beginning of its games.

    Each environment plays the same number of games, since counting the first games to end would favour short ones.

    Args:
        act: see `Act`.
        environment: batch of environments to play in.
        episodes: number of games in all, a multiple of the number of environments.
        on_episode: called with each counted game, for a progress bar.
        on_step: called after each step of all environments.

    Returns:
        the games, ordered by environment, then by time.

    Raises:
        ValueError: the games do not divide evenly.
    """
    num_envs = environment.num_envs
    if episodes % num_envs:
        raise ValueError(f"{episodes} episodes do not divide evenly among {num_envs} environments.")
    rollout = Rollout(environment, act)
    rollout.reset()
    games: list[list[Episode]] = [[] for _ in range(num_envs)]
    left = episodes
    while left:
        for i, game in rollout.step().episodes:
            if len(games[i]) < episodes // num_envs:
                games[i].append(game)
                left -= 1
                on_episode(game)
        on_step()
    return [game for played in games for game in played]
