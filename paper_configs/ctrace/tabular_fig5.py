"""C-trace, Figure 5: Figure 1's trade-offs with alpha-TreeBackup, on the chain."""

import ml_collections

from paper_configs.ctrace import tabular_fig1


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """`tabular_fig1` on the chain, with more steps and alpha-TreeBackup."""
    config = tabular_fig1.get_config(scale)
    config.experiment = "tabular_fig5"
    config.answers = ("pareto_share", "pareto_bias_ratio", "tree_backup_gain", "tree_backup_bias")
    config.env.task = "chain"  # Figure 5
    config.env.num_states = 20  # assumed: that of Figures 3 and 8, the caption has none
    config.env.num_actions = 2  # Appendix C.1
    config.methods.uncorrected_n = 50  # Figure 5
    config.methods.importance_n = 4  # Figure 5
    config.methods.tree_backup = True  # Figure 5
    return config
