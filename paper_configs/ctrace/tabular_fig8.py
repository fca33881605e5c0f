"""C-trace, Figure 8: Figure 6 on the chain."""

import ml_collections

from paper_configs.ctrace import tabular_fig6


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns `tabular_fig6` on the chain of 20 states; its settings have the sources and assumptions of Figure 6.

    The first state is uniform over those that are not terminal (assumed).
    """
    config = tabular_fig6.get_config(scale)
    config.experiment = "tabular_fig8"
    config.env.task = "chain"  # Figure 8
    config.env.num_states = 20  # Figure 8
    config.env.num_actions = 2  # Appendix C.1
    return config
