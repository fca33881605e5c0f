"""Frames per second of one machine on two levels of DeepMind Lab: Table 1 and Section 5.1.

The agents are the schedules of its single-machine lines, all with the shallow network of Figure 4. The result is the
record's `frames_per_second`, from the first frame on, with compilation; its score means nothing.
"""

from typing import Any

import ml_collections

from paper_configs.impala import dmlab_table2


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns `dmlab_table2` with the batch of Table 1, a budget for timing and a token evaluation."""
    config = dmlab_table2.get_config(scale)
    config.experiment = "dmlab_table1_throughput"
    config.sweep.sampled = False  # nothing is learned here
    config.runtime.num_actors = 48 if scale == "paper" else 8  # actor threads of IMPALA; Table 1
    config.runtime.envs_per_actor = 1  # one environment per actor; Section 3
    config.runtime.dynamic_batching = False  # one policy call for all waiting actors; set by each variant; Table 1
    config.variants = ml_collections.ConfigDict(schedules(config.runtime.num_actors))
    config.agent = "impala_async"
    config.env.task = "seekavoid_arena_01"  # seekavoid_arena_01 or rooms_keys_doors_puzzle; Table 1
    config.evaluation.episodes = 2  # assumed: throughput needs no evaluation, but a record does
    config.evaluation.num_envs = 2
    if scale == "paper":
        config.num_env_frames = 10_000_000  # assumed: minutes of steady state at published rates
    elif scale == "desk":
        config.num_env_frames = 400_000  # assumed: minutes on two cores
    return config


def schedules(num_envs: int) -> dict[str, dict[str, Any]]:
    """Returns the agents of Table 1's single-machine lines, each with the fields that it changes.

    A2C and A3C have no off-policy correction.

    Args:
        num_envs: environments of batched A2C and of IMPALA; A3C has two thirds. The paper prints 48 actors of IMPALA,
            32 workers of A3C and 48 CPUs for batched A2C.
    """
    steps = {"num_actors": 1, "envs_per_actor": num_envs, "schedule": "lockstep", "lockstep_lag": 0}
    unrolls = {"num_actors": num_envs, "envs_per_actor": 1, "schedule": "lockstep", "lockstep_lag": 0}
    free = {"num_actors": num_envs, "envs_per_actor": 1, "schedule": "async"}
    workers = {"num_actors": 2 * num_envs // 3, "envs_per_actor": 1, "schedule": "a3c"}
    uncorrected = {"loss": {"correction": "none"}}
    return {
        "a3c": uncorrected | {"runtime": workers, "learner": {"batch_size": 1}},
        "a2c_sync_step": uncorrected | {"runtime": steps},
        "a2c_sync_trajectories": uncorrected | {"runtime": unrolls},
        "a2c_dynamic_batching": uncorrected | {"runtime": unrolls | {"dynamic_batching": True}},
        "impala_async": {"runtime": free},
        "impala_dynamic_batching": {"runtime": free | {"dynamic_batching": True}},
    }
