"""C-trace, Figure 3 with another reading of evaluation: methods learn from each round of 100 steps, as in control.

Its records answer no row: they show what depends on `learning.trajectory` of `tabular_fig3.py`.
"""

import ml_collections

from paper_configs.ctrace import tabular_fig3


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the configuration of Figure 3 with the other reading."""
    config = tabular_fig3.get_config(scale)
    config.experiment = "tabular_fig3_rounds"
    config.answers = tuple(answer for answer in config.answers if answer.startswith("evaluation"))
    config.learning.trajectory = "round"  # assumed: Appendix C.2 prints rounds for control alone
    return config
