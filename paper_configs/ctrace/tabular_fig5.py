"""C-trace, Figure 5: Figure 1's trade-offs with alpha-TreeBackup, on the chain."""

import ml_collections

from paper_configs.ctrace import tabular_fig1


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns `tabular_fig1` on the chain, with more steps and alpha-TreeBackup.

    For Figure 5 the paper prints neither discount nor lambda nor how variance is estimated: Appendix D.1 gives them for
    Figures 6 to 8 (`In all cases`), and Appendix C.2 for Figure 1. Fields that are not set here are as in Figure 1.
    """
    config = tabular_fig1.get_config(scale)
    config.experiment = "tabular_fig5"
    config.answers = (
        "pareto_share",
        "pareto_bias_ratio",
        "tree_backup_gain",
        "tree_backup_bias",
        "tree_backup_variance",
    )
    config.env.task = "chain"  # Figure 5
    config.env.num_states = 20  # assumed: as in Figures 3 and 8; the caption has none
    config.env.num_actions = 2  # Appendix C.1
    config.env.discount = 0.9  # gamma; assumed: as in all other figures
    config.problem.stream = 5  # other policies than in Figure 8 (b), which has the same chain and pairing
    config.methods.uncorrected_n = 50  # Figure 5
    config.methods.importance_n = 4  # Figure 5
    config.methods.tree_backup = True  # Figure 5
    config.methods.lambda_ = 1.0  # lambda of the traces; assumed: as in all other figures
    if scale == "paper":
        # assumed: as in all other figures, and so are their 100 steps, Q = 0 and uniform x_0
        config.variance.trajectories = 5_000
    return config
