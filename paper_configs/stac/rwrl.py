"""STAC and STACX on the Real-World RL challenge: Section 4.2, Figures 3 and 5, Tables 2 and 3 of arXiv 2002.12928.

The settings are those of `dm_control_features.py`, with their sources, except the fields below.
"""

import ml_collections

from paper_configs.stac import dm_control_features


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` are as for features."""
    config = dm_control_features.get_config(scale)
    config.experiment = "rwrl"
    config.env.name = "rwrl"  # environment suite
    del config.env.observed  # features
    config.env.task = "cartpole_easy"  # one of four domains and of three difficulties; Section 4.2
    return config
