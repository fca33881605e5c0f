"""IMPALA, deep residual network, one expert per game: Table 4 and Table C.1, column "IMPALA (deep)"."""

import ml_collections

from paper_configs.impala import atari_shallow


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns `atari_shallow` with the network of Figure 4 (right); everything else is the same."""
    config = atari_shallow.get_config(scale)
    config.experiment = "atari_deep"
    config.agent = "impala_deep"
    config.network.torso = "deep"
    return config
