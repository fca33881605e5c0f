"""DeepMind Lab's levels at random: frames a second, and returns beside the random column of IMPALA's Table B.1.

`python -m repro.benchmarks.dmlab_levels --steps=1000` plays all thirty of DMLab-30, `--episodes=100` until each has so
many returns, and `--processes=4` four processes of a level side by side.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
"""As IMPALA evaluates (Tables B.1 and C.3)."""


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Frames a second of each level of DMLab-30 in one process, resets included.

    Args:
        seconds: of play of each level.
        repeats: times that everything is measured; medians are reported.
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
    """Plays one level with actions sampled uniformly, until all of steps, episodes and seconds are reached.

    Args:
        task: the level.
        steps: of each process.
        episodes: of all processes together; each has the same share of them, the first ones that it ends.
        seconds: of play.
        processes: side by side, which step together.
        seed: of the episodes and the actions.
        env: further fields of the environment's config.

    Returns:
        frames a second of all processes together, with and without the steps in which an episode begins; seconds of
        the first reset and of later ones; the returns, and whatever else is worth a look.
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
        while taken < steps or min(map(len, returns)) < share or time.perf_counter() - start < seconds:
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
    """Returns a line about a level that was played: rates, and the mean return beside the published one."""
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", default=",".join(DMLAB30), help="names with commas between (default: DMLab-30)")
    parser.add_argument("--steps", type=int, default=0, help="at least so many of each process")
    parser.add_argument("--episodes", type=int, default=0, help="at least so many of each level")
    parser.add_argument("--processes", type=int, default=1, help="of each level, side by side (default: 1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--level_cache", default=str(DEFAULT_FOLDER.with_name("dmlab_levels")), help="compiled maps")
    parser.add_argument("--level_set", type=int, default=0, help="see repro.environments.dmlab.DmlabConfig")
    parser.add_argument("--json", type=Path, help="write all that was found to this file")
    args = parser.parse_args(arguments)
    cli.quiet()
    scores = published.normaliser("dmlab30")
    found = []
    for name in map(level_name, args.levels.split(",")):
        settings = {"level_cache": args.level_cache, "level_set": args.level_set}
        counts = {"steps": args.steps, "episodes": args.episodes, "processes": args.processes, "seed": args.seed}
        found.append(play(name, **counts, **settings))
        print(describe(found[-1], scores.get(name, {}).get("random")), flush=True)
        if args.json:
            args.json.write_text(json.dumps({"module": provenance(), "levels": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
