"""A3C, shallow and deep network, one expert per game: Table 4, with the settings of Table F.1."""

import ml_collections

from paper_configs.impala import atari_shallow, dmlab_table1_throughput

NUM_ENVS = 24
"""Environments; A3C has two thirds, 16 workers; assumed: as Mnih et al. (2016), the paper prints none for Atari."""


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns `atari_shallow` with A3C's schedule, one unroll per update at every scale, and no correction."""
    config = atari_shallow.get_config(scale)
    config.experiment = "atari_a3c"
    a3c = dmlab_table1_throughput.schedules(NUM_ENVS)["a3c"]
    a3c["learner"]["rmsprop_epsilon"] = 0.01  # Table F.1, also at `desk`, where IMPALA's is lower for smaller batches
    config.variants = ml_collections.ConfigDict(  # agents, each with the fields that it changes; Section 5.3.2
        {"a3c_shallow": a3c, "a3c_deep": a3c | {"network": {"torso": "deep"}}}
    )
    config.agent = "a3c_shallow"  # one of `variants`; its name in records
    return config
