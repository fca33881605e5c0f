"""C-trace, Figure 3, visits read otherwise: a pair moves once, by the mean target of its visits.

No row is answered by its records: they show what hangs on `learning.visits` of `tabular_fig3.py`.
"""

import ml_collections

from paper_configs.ctrace import tabular_fig3


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the config of Figure 3 with what is read otherwise."""
    config = tabular_fig3.get_config(scale)
    config.experiment = "tabular_fig3_visits"
    config.learning.visits = "mean"  # assumed: not printed for Figure 3
    return config
