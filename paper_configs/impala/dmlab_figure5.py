"""IMPALA, batched A2C and A3C on the five levels of Table 2: Section 5.2.1, Figure 5.

At scale `paper` each seed samples its setting from Table C.1, the same for all agents and levels, and 24 seeds are the
sweep: their final returns, sorted, are the lower row of Figure 5.
"""

import ml_collections

from paper_configs.impala import dmlab_table1_throughput, dmlab_table2


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns `dmlab_table2` with one agent for each schedule; IMPALA has the same actors as there."""
    config = dmlab_table2.get_config(scale)
    config.experiment = "dmlab_figure5"
    num_envs = {"paper": 32, "desk": 8, "smoke": 4}[scale]  # assumed: one batch; A3C has as many workers, as in Table 1
    a2c = dmlab_table1_throughput.schedules(num_envs)["a2c_sync_step"]
    a3c = dmlab_table1_throughput.schedules(3 * num_envs // 2)["a3c"]
    config.variants = ml_collections.ConfigDict({"impala": {}, "a2c": a2c, "a3c": a3c})  # agents and their own fields
    config.agent = "impala"  # one of `variants`; its name in records
    return config
