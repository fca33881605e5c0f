"""Plays DeepMind Lab's levels at random: `python -m repro.benchmarks.dmlab_levels --steps=1000`.

For each level of DMLab-30 it prints frames per second, and the mean return beside the random column of IMPALA's
Table B.1. `--episodes=100` plays until each level has so many returns, and `--processes=4` runs four processes of a
level side by side.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from absl import flags

from repro import cli
from repro.environments.dmlab_levels import DMLAB30, level_name
from repro.environments.dmlab_module import DEFAULT_FOLDER, provenance
from repro.evidence import intervals, published, records

CONFIG = {
    "frame_skip": 4,
    "height": 72,
    "width": 96,
    "reward_clip": "none",
    "instruction_length": 16,
    "instruction_vocabulary": 1000,
    "test": True,
}
"""Config of the environment, as in IMPALA's evaluation (Tables B.1 and C.3)."""


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Measures frames per second of each level of DMLab-30 in one process, including resets.

    Args:
        seconds: seconds of play of each level.
        repeats: how often everything is measured; medians are reported.
    """
    rates = {
        name: [play(name, seconds=seconds, seed=i)["frames_per_second"] for i in range(repeats)] for name in DMLAB30
    }
    return {
        "what": "dmlab_levels",
        "unit": "frames_per_second",
        "rows": {name: float(np.median(values)) for name, values in rates.items()},
        "repeats": rates,
        "hardware": records.hardware(),
        "versions": records.versions() | {"deepmind_lab": provenance()},
    }


def play(
    task: str, *, steps: int = 0, episodes: int = 0, seconds: float = 0.0, processes: int = 1, seed: int = 0, **env: Any
) -> dict[str, Any]:
    """Plays one level with uniformly sampled actions until the steps, the episodes and the seconds are all reached.

    If they are all 0, one step is made.

    Args:
        task: name of the level.
        steps: fewest steps of each process.
        episodes: fewest episodes of all processes together; each contributes the same number, the first that it ends.
        seconds: shortest time of play in seconds.
        processes: number of processes side by side, which step together.
        seed: seed of the episodes and the actions.
        env: further fields of the environment's config.

    Returns:
        Frames per second of all processes together, with and without the steps in which an episode begins; seconds of
        the first reset and mean seconds of steps with a later one (None without one); returns; number of failures; most
        words of an instruction; and the task, processes and steps.
    """
    from repro.environments.dmlab import make_dmlab

    batch = make_dmlab({"task": task, **CONFIG, **env}, processes, seed)
    share = -(-episodes // processes)
    returns: list[list[float]] = [[] for _ in range(processes)]
    begins = np.zeros(processes, bool)
    taken, beginning, most_words, rng = 0, [], 0, np.random.default_rng(seed)
    try:
        start = time.perf_counter()
        batch.reset()
        reset_seconds = time.perf_counter() - start
        start = time.perf_counter()
        while not taken or taken < steps or min(map(len, returns)) < share or time.perf_counter() - start < seconds:
            before = time.perf_counter()
            *_, info = batch.step(rng.integers(batch.num_actions, size=processes))
            if begins.any():
                beginning.append(time.perf_counter() - before)
            taken += 1
            begins = info["game_over"].copy()
            most_words = max(most_words, *(len(text.split()) for text in batch.instructions))
            for row in np.flatnonzero(begins):
                returns[row].append(float(info["episode_return"][row]))
        wall = time.perf_counter() - start
    finally:
        batch.close()
    frames = processes * batch.config.frame_skip * taken
    return {
        "task": batch.config.task,
        "processes": processes,
        "steps": taken,
        "frames_per_second": frames / wall,
        "frames_per_second_within_episodes": frames * (1 - len(beginning) / taken) / (wall - sum(beginning)),
        "first_reset_seconds": reset_seconds,
        "later_reset_seconds": float(np.mean(beginning)) if beginning else None,
        "returns": [value for row in returns for value in (row[:share] if share else row)],
        "failures": batch.failures,
        "most_words": most_words,
    }


def describe(found: dict[str, Any], random_score: float | None) -> str:
    """Returns a line about a level that was played: rates, and the mean return beside the published one.

    Args:
        found: result of `play`.
        random_score: published score of a random player, or None.
    """
    later, within = found["later_reset_seconds"], found["frames_per_second_within_episodes"]
    line = (
        f"{found['task']:40s} {found['processes']:2d} x {found['steps']:6d} steps "
        f"{found['frames_per_second']:6.0f} frames/s ({within:6.0f} within episodes), "
        f"resets {found['first_reset_seconds']:5.1f} s" + (f", {later:5.1f} s" if later is not None else "")
    )
    if found["returns"]:
        interval = intervals.mean_interval(found["returns"])
        spread = f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval else ""
        line += f"; {len(found['returns'])} episodes: {np.mean(found['returns']):.2f}{spread}"
    if random_score is not None:
        line += f"; Table B.1: {random_score:g}"
    return line + (f"; {found['failures']} failures" if found["failures"] else "")


def main(argv: list[str]) -> None:
    del argv
    cli.quiet()
    values = flags.FLAGS
    if not (values.steps or values.episodes):
        cli.fail("give --steps or --episodes.")
    try:
        names, module = [level_name(name) for name in values.levels], provenance()
    except ValueError as error:  # no such level, or no module
        cli.fail(error)
    scores = published.normaliser("dmlab30")
    settings = {"level_cache": values.level_cache, "level_set": values.level_set}
    counts = {"steps": values.steps, "episodes": values.episodes, "processes": values.processes, "seed": values.seed}
    found = []
    for name in names:
        found.append(play(name, **counts, **settings))
        print(describe(found[-1], scores.get(name, {}).get("random")), flush=True)
        cli.write_json(values.json, {"module": module, "levels": found})


def _define_flags() -> None:
    flags.DEFINE_list("levels", list(DMLAB30), "Names of levels; all of DMLab-30 if not given.")
    flags.DEFINE_integer("steps", 0, "Smallest number of steps of each process.", 0)
    flags.DEFINE_integer("episodes", 0, "Smallest number of episodes of each level.", 0)
    flags.DEFINE_integer("processes", 1, "Number of parallel processes of each level.", 1)
    flags.DEFINE_integer("seed", 0, "Seed of the episodes and the actions.", 0)
    flags.DEFINE_string("level_cache", str(DEFAULT_FOLDER.with_name("dmlab_levels")), "Folder for compiled maps.")
    flags.DEFINE_integer("level_set", 0, "See repro.environments.dmlab.DmlabConfig.", 0, 2**31 - 1)
    cli.define_json()


if __name__ == "__main__":
    _define_flags()
    cli.run(main)
