"""Synthetic records. As a program: `python -m tests.evidence.synthetic_records OUT_DIR COUNT`."""

import pathlib
import sys

import numpy as np

from repro.config import resolve_plain
from repro.evidence import migrations, published, random_player, records, statistics
from repro.evidence.groups import group_records
from repro.evidence.staleness import current_config

VERSIONS = ("python", "tensorflow", "tf_agents", "gymnasium", "ale_py", "mujoco")


def make_record(seed=1, task="pong", experiment="atari_shallow", agent="impala_shallow", final=15.0, **changes):
    """A valid record with a curve that rises to `final`, from a random player's score where that is lower."""
    rng = np.random.default_rng(seed)
    scale = changes.get("scale", "desk")
    config = changes.pop("config", None) or current_config("impala", experiment, scale)
    if "variants" in config and agent != random_player.AGENT:
        config = resolve_plain(config, agent)
    if "env" in config:
        config = config | {"env": config["env"] | {"task": task}}
    if agent == random_player.AGENT:
        config = config | {"agent": agent}
    unit = "frames" if "num_env_frames" in config else "steps"
    budget = changes.pop("budget", config[f"num_env_{unit}"])
    start = min(published.normaliser("atari57")[task]["random"], final - 0.5 * abs(final) - 0.01)
    spread = 0.05 * abs(final - start) + 0.01
    rise = 1 / (1 + np.exp(-12 * (np.linspace(0, 1, 200) - 0.5)))
    values = start + (final - start) * rise + spread * rng.standard_normal(200)
    curve = [[int(x), float(y)] for x, y in zip(np.linspace(0, budget, 200), values)]
    returns = (final + spread * rng.standard_normal(changes.pop("episodes", 200))).tolist()
    record = {
        "schema_version": migrations.SCHEMA_VERSION,
        "paper": "impala",
        "experiment": experiment,
        "task": task,
        "agent": agent,
        "seed": seed,
        "scale": scale,
        "schedule": "async",
        "config": config,
        "config_sha256": records.config_sha256(config),
        f"num_env_{unit}": budget,
        "agent_steps": budget // 4,
        "gradient_steps": budget // 2560,
        "wall_seconds": budget / 14000,
        f"{unit}_per_second": 14000.0,
        "policy_lag": {"mean": 2.4, "max": 5.0},
        "curve": curve,
        "evaluation": {
            "protocol": "200 games, 1-30 no-ops, sampled actions, unclipped, at most 108000 frames",
            "episodes": len(returns),
            "unit": "game score",
            "mean": float(np.mean(returns)),
            "std": statistics.sample_std(returns),
            "returns": returns,
        },
        "versions": dict.fromkeys(VERSIONS, "1.0"),
        "hardware": {"cpu": "Example CPU", "cores": 2, "gpu": None},
        "git_commit": "0123456789abcdef0123456789abcdef01234567",
        "started": "2024-05-01T12:00:00Z",
        "finished": "2024-05-01T12:12:00Z",
    }
    return record | changes


def random_records(games=("pong",), final=-1000.0, **changes):
    """A random player's record on each game, in the environment of `make_record`; its score is `final` or near it."""
    return [make_record(1, game, agent=random_player.AGENT, final=final, episodes=20, **changes) for game in games]


def store(made):
    """Records as they are found in a folder of results."""
    path = records.record_path("r", "p", "e", "t", "a", 0)
    return [records.StoredRecord(path, record) for record in made]


def make_groups(made):
    return group_records(store(made))


def write(results_dir, record):
    """Writes a record to its place and returns the path."""
    names = [record[key] for key in ("paper", "experiment", "task", "agent", "seed")]
    path = records.record_path(results_dir, *names)
    records.write_record(path, record)
    return path


def main(results_dir: pathlib.Path, count: int) -> None:
    games = published.normaliser("atari57")
    for i in range(count):
        experiment, agent = (("atari_shallow", "impala_shallow"), ("atari_deep", "impala_deep"))[i // 5 // 57 % 2]
        task = list(games)[i // 5 % 57]
        low, high = games[task]["random"], games[task]["human"]
        record = make_record(i % 5 + 1, task, experiment, agent, final=low + (0.2 + i / count) * (high - low))
        write(results_dir, record)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
