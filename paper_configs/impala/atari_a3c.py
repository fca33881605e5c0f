"""A3C, shallow and deep network, one expert per game: Table 4, with the settings of Table F.1."""

import ml_collections

from paper_configs.impala import atari_shallow, dmlab_table1_throughput

NUM_ENVS = 24
"""Games, of which A3C has two thirds, 16 workers; assumed: as Mnih et al. (2016), the paper prints none for Atari."""


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """`atari_shallow` with the schedule of A3C, without correction; an update has one unroll at every scale."""
    config = atari_shallow.get_config(scale)
    config.experiment = "atari_a3c"
    a3c = dmlab_table1_throughput.schedules(NUM_ENVS)["a3c"]
    a3c["learner"]["rmsprop_epsilon"] = 0.01  # Table F.1, also at `desk`, where IMPALA's goes with its smaller batches
    config.variants = ml_collections.ConfigDict(  # agents, with the fields that are their own; Section 5.3.2
        {"a3c_shallow": a3c, "a3c_deep": a3c | {"network": {"torso": "deep"}}}
    )
    config.agent = "a3c_shallow"  # one of them, and the name in records
    return config
