"""C-trace, Figure 3 with another reading of its legend: importance weighting with n = 2 and 3, as far as in Figure 1.

Its records answer no row: they show what depends on `methods.importance_n` of `tabular_fig3.py`.
"""

import ml_collections

from paper_configs.ctrace import tabular_fig3


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the configuration of Figure 3 with the other reading."""
    config = tabular_fig3.get_config(scale)
    config.experiment = "tabular_fig3_legend"
    config.answers = (
        "evaluation_early",
        "evaluation_early_rest",
        "evaluation_early_n_rest",
        "evaluation_early_importance",
    )
    # assumed: Figure 1's caption has n = 1 to 3, of which n = 1 is among the uncorrected returns; Figure 5's has 1 to 4
    config.methods.importance_n = (2, 3)
    return config
