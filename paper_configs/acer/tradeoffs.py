"""ACER, Sections 3 to 3.2 and 5.1: bias and variance of off-policy gradients and values, on random finite MDPs.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.finite_mdp import theorems_config

ANSWERS = (
    "importance_bias",
    "importance_variance",
    "truncated_variance",
    "truncated_bias",
    "marginal_variance",
    "retrace_bias",
    "correction_below_c",
    "truncated_weight",
    "correction_weight",
    "baseline_variance",
    "value_variance",
)


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the study, the same at every scale except that `smoke` and `desk` check fewer problems.

    Raises:
        ValueError: unknown scale.
    """
    config = theorems_config("acer", ANSWERS, scale, study="tradeoffs")
    config.truncations = (0.5, 1.0, 2.0, 10.0)  # c: 10 in Section 4, others assumed, as in theorems
    config.product_truncation = 5.0  # of the product of a trajectory's weights; Appendix E.2 (Section 3 prints none)
    config.num_estimates = 8  # Q^pi with random errors, on each problem; assumed
    return config
