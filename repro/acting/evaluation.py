"""Playing evaluation games."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_collections
from tf_agents.policies import tf_policy

from repro.acting.rollout import Act, CompiledPolicy, Episode, Rollout
from repro.config import of_task, resolve, tasks
from repro.environments.batched import BatchedEnvironment
from repro.environments.names import task_names


def play(
    policy: tf_policy.TFPolicy,
    environment: BatchedEnvironment,
    episodes: int,
    seed: int,
    on_episode: Callable[[Episode], None],
) -> list[Episode]:
    """Plays the same number of games in each environment, side by side.

    Args:
        policy: chooses the actions.
        seed: of the policy's sampling.
        environment, episodes, on_episode: as for `play_games`.

    Returns:
        the games, ordered by environment, then by time.

    Raises:
        ValueError: the games do not divide evenly.
    """
    act = CompiledPolicy(policy, environment.num_envs, seed)
    return play_games(act, environment, episodes, on_episode)


def play_games(
    act: Act,
    environment: BatchedEnvironment,
    episodes: int,
    on_episode: Callable[[Episode], None] = lambda _: None,
    on_step: Callable[[], None] = lambda: None,
) -> list[Episode]:
    """As `play`, with what chooses the actions, at the beginning of its own games.

    Counting the first games to end instead would favour short ones.

    Args:
        act: see `Act`.
        environment: its games.
        episodes: games in all, a multiple of the number of environments.
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


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of `number` that is at most `limit`."""
    return max(d for d in range(1, min(number, limit) + 1) if number % d == 0)


def configs_by_task(
    config: ml_collections.ConfigDict, chosen: Sequence[str] = ()
) -> dict[str, ml_collections.ConfigDict]:
    """Returns the configuration of each task to evaluate: the run's own, or one of each task that it learned.

    Args:
        config: of the run.
        chosen: some of several tasks, in any spelling; empty for all.

    Raises:
        ValueError: a task that the run did not learn, or any where it learned only one.
    """
    together = tasks(resolve(config))
    if not together:
        if chosen:
            raise ValueError(f"--task={','.join(chosen)}: the run has one task, {config.env.task}; leave the flag out.")
        return {config.env.task: config}
    learned = task_names(config.env.name, together)
    played = task_names(config.env.name, chosen) or learned
    for task in played:
        if task not in learned:
            raise ValueError(f"--task={task}: the run learned {', '.join(learned)}.")
    return {task: of_task(config, task) for task in played}


def score_unit(env: ml_collections.ConfigDict) -> str:
    """Returns the unit of returns in records."""
    return "game score" if env.name == "atari" else "episode return"


def describe_games(env: ml_collections.ConfigDict, episodes: int, actions: str) -> str:
    """Returns the protocol of an evaluation after training in one line, for records and tables.

    Args:
        env: section of a configuration.
        episodes: played in all.
        actions: how they are chosen.
    """
    if env.name == "atari":
        return (
            f"{episodes} games after training, 1 to {env.noop_max} no-ops, {actions}, at most {env.max_frames:,} frames"
        )
    if env.name == "dmlab":
        return f"{episodes} episodes of {env.task} after training, level and seeds for tests, {actions}"
    version = f"-{env.version}" if "version" in env else ""
    steps = f" of {env.max_steps} steps" if env.get("max_steps") else ""
    positions = ", positions observed" if env.get("observed") == "positions" else ""
    return f"{episodes} episodes{steps} of {env.task}{version} after training, {actions}{positions}"


def describe_window(env: ml_collections.ConfigDict) -> str:
    """Returns the protocol of an evaluation by the last games of training, with {} for the length of its window."""
    games, unit = "games" if env.name == "atari" else "episodes", "frames" if "frame_skip" in env else "steps"
    return f"{games} that ended in the last {{}} {unit} of training, actions sampled"
