"""Cost of self-tuning beside IMPALA: Table 4 and Section 9.4 of arXiv 2002.12928, operations instead of time.

Every field names its source: a table, figure or section of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.stac import atari, dm_control_features
from repro.config import SCALES, unknown_scale


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings of Atari and control; `smoke` has only control, with small networks.

    Raises:
        ValueError: unknown scale.
    """
    if scale not in SCALES:
        raise unknown_scale(scale)
    config = ml_collections.ConfigDict()
    config.paper = "stac"
    config.experiment = "update_cost"
    config.study = "update_cost"  # module of repro/papers/stac that runs it; nothing is trained
    config.agent = "stac"  # first of the answers
    config.answers = ("stac", "stacx")  # agents, one record each; their sentences are in published/stac.json
    config.scale = scale

    config.env = ml_collections.ConfigDict()
    config.env.name = "atari"  # environment suite
    config.env.task = "any"  # the tasks are those of `setups`

    config.setups = ("dm_control_features",) if scale == "smoke" else ("atari", "dm_control_features")  # Table 4
    config.dm_control_features = dm_control_features.get_config("smoke" if scale == "smoke" else "paper")
    config.atari = atari.get_config("paper")
    for setup in (config.dm_control_features, config.atari):
        variants = setup.variants.to_dict()
        setup.variants = ml_collections.ConfigDict({name: variants[name] for name in ("impala", *config.answers)})

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = len(config.setups)  # values of each answer
    config.evaluation.num_envs = config.evaluation.episodes  # all at once
    return config
