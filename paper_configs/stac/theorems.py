"""STAC, Section 10: what its theorem states about leaky V-trace, on random finite MDPs.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.finite_mdp import theorems_config

ANSWERS = (
    "contraction",
    "contraction_proved",
    "eta",
    "eta_proved",
    "weights",
    "fixed_point",
    "truncated_contraction",
    "truncated_fixed_point",
    "between",
    "between_states",
    "alpha_1",
    "alpha_0",
    "kappa",
    "kappa_proved",
    "eta_bound",
    "mixture",
    "on_policy",
)


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the study, the same at every scale except that `smoke` and `desk` check fewer problems.

    Raises:
        ValueError: unknown scale.
    """
    config = theorems_config("stac", ANSWERS, scale)
    config.pairs = 8  # random pairs of estimates whose distance is measured beside the exact rate; assumed
    config.clips = ((1.0, 1.0), (2.0, 1.0), (0.6, 0.6))  # pairs of rho_bar and c_bar; 1 in Algorithm 2, others assumed
    config.alphas_printed = ((1.0, 0.0), (1.0, 0.5), (0.7, 0.3))  # alpha_rho >= alpha_c, the condition of Section 10
    config.alphas_proved = (  # pairs with alpha_rho <= alpha_c, which its proof needs; one alpha for both in Section 3
        (0.9, 0.9),
        (0.5, 0.5),
        (0.2, 0.9),
        (0.0, 1.0),
    )
    return config
