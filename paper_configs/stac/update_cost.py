"""Cost of self-tuning beside IMPALA: Table 4 and Section 9.4 of arXiv 2002.12928, operations instead of time.

Every field names its source: a table, figure or section of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.stac import atari, dm_control_features
from paper_configs.studies import study_config


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings of Atari and control; `smoke` has only control, with small networks.

    Raises:
        ValueError: unknown scale.
    """
    agents = ("stac", "stacx")
    config = study_config("stac", "update_cost", agents, scale, "atari", "any")  # the tasks are those of `setups`

    config.setups = ("dm_control_features",) if scale == "smoke" else ("atari", "dm_control_features")  # Table 4
    config.dm_control_features = dm_control_features.get_config("smoke" if scale == "smoke" else "paper")
    config.atari = atari.get_config("paper")
    for setup in (config.dm_control_features, config.atari):
        variants = setup.variants.to_dict()
        setup.variants = ml_collections.ConfigDict({name: variants[name] for name in ("impala", *config.answers)})

    config.evaluation.episodes = len(config.setups)  # values of each answer
    config.evaluation.num_envs = config.evaluation.episodes  # all at once
    return config
