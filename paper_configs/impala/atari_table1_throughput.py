"""Frames per second of one machine on an Atari game: what Table 1 measures on two tasks of DeepMind Lab.

It answers no row of Table 1, which has larger colour frames, an LSTM and unrolls of 100 steps (Table C.3 of version 1).
The record's `frames_per_second` is the result, from the first frame on, compilation included; its score means nothing.
"""

import ml_collections

from paper_configs.impala import atari_shallow
from paper_configs.impala.dmlab_table1_throughput import schedules


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """`atari_shallow` with the batch of Table 1, a budget for timing and a token evaluation."""
    config = atari_shallow.get_config(scale)
    published = atari_shallow.get_config("paper")
    config.experiment = "atari_table1_throughput"
    config.runtime.num_actors = 48  # of IMPALA; Table 1
    config.runtime.envs_per_actor = 1  # one environment per actor; Section 3
    config.runtime.dynamic_batching = False  # one policy answers all actors that wait; set by each variant; Table 1
    config.variants = ml_collections.ConfigDict(schedules(config.runtime.num_actors))
    config.agent = "impala_async"
    config.learner = published.learner  # batch 32, Table 1; unroll 20, Table F.1
    config.evaluation.episodes = 2  # assumed: throughput needs none, a record needs some
    config.evaluation.num_envs = 2
    config.env.max_frames = 8_000  # frames of a game; assumed: keeps the token evaluation short, cuts timed games too
    if scale != "smoke":
        config.num_env_frames = 2_000_000  # assumed: minutes of steady state on two cores
    return config
