"""IMPALA, Sections 4 and 5.2.2, Remark 3: effect of truncation on bias and variance, on random finite MDPs.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.finite_mdp import theorems_config

ANSWERS = (
    "variance_by_c_bar",
    "retrace_on_policy",
    "bias_by_rho_bar",
    "bias_falls",
    "variance_by_rho_bar",
    "variance_grows",
    "variance_by_horizon",
    "product_by_horizon",
    "truncated_product_by_horizon",
    "reduction_by_horizon",
    "product_by_policies",
    "product_grows",
    "untruncated_by_policies",
    "untruncated_grows",
    "q_by_rho_bar",
    "variance_by_baseline",
    "vtrace_gradient_variance",
    "vtrace_gradient_bias",
    "one_step_gradient_variance",
    "one_step_gradient_bias",
    "one_step_gap",
    "one_step_gap_grows",
)


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the study, the same at every scale except that `smoke` and `desk` check fewer problems.

    Raises:
        ValueError: unknown scale.
    """
    config = theorems_config("impala", ANSWERS, scale, study="tradeoffs")
    config.rho_bars = (1.0, 2.0, 4.0, 8.0, 16.0)  # in rising order; 1 in Section 5.2.2, others assumed
    config.horizons = (1, 2, 4, 8, 16, 32)  # steps of a target and factors of a product of weights; doublings, assumed
    config.shares_of_mu = (0.25, 0.5, 0.75, 1.0)  # from pi (0) to mu (1), rising; assumed: how dissimilar they are
    return config
