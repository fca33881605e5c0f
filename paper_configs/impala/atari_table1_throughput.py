"""The single-machine rows of Table 1 (frames per second) on Atari instead of DeepMind Lab.

Table 1 times IMPALA on two DeepMind Lab tasks, 48 actors on 48 cores. Here the same system is timed on a game;
the record's `frames_per_second` is the result, its score means nothing. `runtime.schedule=lockstep` with
`runtime.lockstep_lag=0` is the table's batched A2C with synchronised trajectories.
"""

import ml_collections

from paper_configs.impala import atari_shallow


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """`atari_shallow` with the batch of Table 1, a budget for timing and a token evaluation."""
    config = atari_shallow.get_config(scale)
    published = atari_shallow.get_config("paper")
    config.experiment = "atari_table1_throughput"
    config.agent = "impala_async"
    config.learner = published.learner  # batch 32, unroll 20; Table 1
    config.evaluation.episodes = 2  # assumed: throughput needs none, a record needs some
    config.evaluation.num_envs = 2
    config.env.max_frames = 8_000  # frames; assumed: keeps the token evaluation short
    if scale == "paper":
        config.runtime.num_actors = 48  # Table 1, "IMPALA 48 actors"
        config.runtime.envs_per_actor = 1  # one environment per actor; Section 3
    else:
        config.runtime = published.runtime
    if scale != "smoke":
        config.frames = 2_000_000  # assumed: minutes of steady state on two cores
    return config
