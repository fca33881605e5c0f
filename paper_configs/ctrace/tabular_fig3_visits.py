"""C-trace, Figure 3 with another reading of visits: a pair moves once, by the mean target of its visits.

Its records answer no row: they show what depends on `learning.visits` of `tabular_fig3.py`.
"""

import ml_collections

from paper_configs.ctrace import tabular_fig3


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the configuration of Figure 3 with the other reading."""
    config = tabular_fig3.get_config(scale)
    config.experiment = "tabular_fig3_visits"
    config.learning.visits = "mean"  # one move of each pair, by its mean target; assumed: not printed for Figure 3
    return config
