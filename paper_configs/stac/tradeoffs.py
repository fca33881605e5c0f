"""STAC, Sections 3.1 and 10: effect of alpha and c_bar on contraction and variance of leaky V-trace, on finite MDPs.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.finite_mdp import theorems_config

ANSWERS = (
    "rate_by_alpha",
    "rate_at_alpha_0",
    "variance_by_alpha",
    "rate_by_alpha_c",
    "rate_falls_with_alpha_c",
    "eta_by_alpha_c",
    "eta_falls_with_alpha_c",
    "variance_by_alpha_c",
    "variance_grows_with_alpha_c",
    "rate_by_alpha_rho",
    "rate_falls_with_alpha_rho",
    "rate_by_alpha_rho_with_c",
    "rate_falls_with_alpha_rho_with_c",
    "rate_without_condition",
    "rate_by_c_bar",
    "rate_grows_as_c_bar_falls",
    "variance_by_c_bar",
    "variance_falls_with_c_bar",
    "variance_by_c_bar_at_limit",
    "variance_falls_with_c_bar_at_limit",
)


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the study, the same at every scale except that `smoke` and `desk` check fewer problems.

    Raises:
        ValueError: unknown scale.
    """
    config = theorems_config("stac", ANSWERS, scale, study="tradeoffs")
    config.clips = ((1.0, 1.0), (2.0, 1.0), (0.6, 0.6))  # pairs of rho_bar and c_bar; 1 in Algorithm 2, others assumed
    config.alphas = (1.0, 0.75, 0.5, 0.25, 0.0)  # from V-trace to importance sampling, Section 3.1; steps assumed
    config.c_bars = (1.0, 0.5, 0.25, 0.125, 0.0625)  # 1 in Algorithm 2; to how far below is assumed
    return config
