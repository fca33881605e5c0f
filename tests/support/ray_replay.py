"""Learner without actors that has R2D2's replay on a Ray cluster: `python -m tests.support.ray_replay`.

It writes a game, saves the replay, and prints its number of sequences. After the replay was replaced by another one, it
prints that one's number of sequences.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path

import numpy as np
import reverb
import tensorflow as tf

from paper_configs.ctrace import gymnasium
from repro.acting.remote import find_replay
from repro.acting.replay_keeper import ReplayKeeper
from repro.acting.supervision import Supervision
from repro.config import PROCESSES, resolve
from repro.launch.ray_actors import RayActors
from repro.launch.ray_cluster import AUTO
from repro.papers import find_experiment
from repro.replay.sequences import make_writer
from repro.training.remote_replay import RemoteReplay

STEPS = 100


def main() -> None:
    config = gymnasium.get_config("smoke")
    config.agent = "r2d2_ctrace"
    config = resolve(config)
    config.runtime.update(schedule=PROCESSES, replay_gb=0.1)
    experiment = find_experiment(config)
    spec = experiment.make_local_policy(experiment.make_actor_environment(0, 0), 0.0).trajectory_spec
    settings = experiment.sequence_settings
    game = tf.nest.map_structure(lambda leaf: np.ones((STEPS, *leaf.shape), leaf.dtype.as_numpy_dtype), spec)
    with tempfile.TemporaryDirectory() as name:
        saved = Path(name) / "replay"
        launcher = RayActors(AUTO, config.to_dict(), 1)
        keeper = ReplayKeeper(launcher, Supervision(say, Path(name)), settings.capacity)
        replay = RemoteReplay(keeper, spec, [])
        with contextlib.closing(replay):
            replay.start()
            client = reverb.Client(find_replay(replay.address))
            with contextlib.closing(make_writer(client, spec, settings, None)) as writer:
                writer.append(game)
                writer.flush()
            replay.save(saved)
            replay.confirm_saved(saved)
            say(f"Sequences: {len(replay)}.")
            while not keeper.restarts:
                keeper.look()
                time.sleep(0.1)
            say(f"Sequences: {len(replay)}.")


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
