"""Frames per second of one machine on an Atari game, as Table 1 measures them on two tasks of DeepMind Lab.

It answers no row of Table 1, which has larger colour frames, an LSTM and unrolls of 100 steps (Table C.3 of version 1).
The result is the record's `frames_per_second`, from the first frame on, with compilation; its score means nothing.
"""

import ml_collections

from paper_configs.impala import atari_shallow
from paper_configs.impala.dmlab_table1_throughput import schedules


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns `atari_shallow` with the batch of Table 1, a budget for timing and a token evaluation."""
    config = atari_shallow.get_config(scale)
    published = atari_shallow.get_config("paper")
    config.experiment = "atari_table1_throughput"
    config.runtime.num_actors = 48  # actor threads of IMPALA; Table 1
    config.runtime.envs_per_actor = 1  # one environment per actor; Section 3
    config.runtime.dynamic_batching = False  # one policy call for all waiting actors; set by each variant; Table 1
    config.variants = ml_collections.ConfigDict(schedules(config.runtime.num_actors))
    config.agent = "impala_async"
    config.learner = published.learner  # batches of 32, Table 1; unrolls of 20, Table F.1
    config.evaluation.episodes = 2  # assumed: throughput needs no evaluation, but a record does
    config.evaluation.num_envs = 2
    config.env.max_frames = 8_000  # frames of a game; assumed: keeps the token evaluation short; cuts timed games, too
    if scale != "smoke":
        config.num_env_frames = 2_000_000  # assumed: minutes of steady state on two cores
    return config
