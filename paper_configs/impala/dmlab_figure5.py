"""IMPALA, batched A2C and A3C on the five levels of Table 2: Section 5.2.1, Figure 5.

At scale `paper` each seed samples its setting from Table C.1, the same for all agents and levels, and 24 seeds are the
sweep: their final returns, sorted, are the lower row of Figure 5.
"""

import ml_collections

from paper_configs.impala import dmlab_table1_throughput, dmlab_table2

SCALES = dmlab_table2.SCALES


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """`dmlab_table2` with one agent for each schedule; IMPALA has the actors that it has there."""
    config = dmlab_table2.get_config(scale)
    config.experiment = "dmlab_figure5"
    num_envs = {"paper": 48, "desk": 8, "smoke": 4}[scale]  # of batched A2C, A3C has two thirds; assumed: as in Table 1
    schedules = dmlab_table1_throughput.schedules(num_envs)
    config.variants = ml_collections.ConfigDict(  # agents, with the fields that are their own
        {"impala": {}, "a2c": schedules["a2c_sync_step"], "a3c": schedules["a3c"]}
    )
    config.agent = "impala"  # one of them, and the name in records
    return config
