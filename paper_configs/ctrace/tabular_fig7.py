"""C-trace, Figure 7: Figure 6 on a garnet."""

import ml_collections

from paper_configs.ctrace import tabular_fig6


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns `tabular_fig6` on a garnet; its settings have the sources and assumptions of Figure 6."""
    config = tabular_fig6.get_config(scale)
    config.experiment = "tabular_fig7"
    config.env.task = "garnet"  # Figure 7
    config.env.num_states = 20  # Figure 7
    config.env.num_actions = 3  # Figure 7
    config.env.branching = 3  # next states of each pair; assumed: not specified in the paper
    return config
