"""IMPALA on DMLab-30, one deep agent per level: Section 5.3.1, Table 3 and Table B.1, columns of the experts."""

import ml_collections

from paper_configs.impala import dmlab_30


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns `dmlab_30` on one level, for as many frames as the agent of all levels plays on it."""
    config = dmlab_30.get_config(scale)
    config.experiment = "dmlab_30_experts"
    del config.variants
    config.agent = "impala_deep"
    config.env.task = "rooms_watermaze"  # level
    del config.env.tasks
    config.network.torso = "deep"  # Section 5.3.1
    del config.evaluation.normaliser
    if scale == "paper":
        config.runtime.num_actors = 150  # assumed: as the agent that learns all levels
    return config
