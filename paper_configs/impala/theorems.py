"""IMPALA, Section 4 and Appendix A: their statements about V-trace and its policy gradient, on random finite MDPs.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.finite_mdp import theorems_config

ANSWERS = (
    "contraction",
    "eta",
    "fixed_point",
    "truncated_contraction",
    "truncated_fixed_point",
    "between",
    "between_probabilities",
    "unbiased_q",
    "biased_v",
    "on_policy",
    "td_lambda",
    "target_limit",
    "behaviour_limit",
    "rate_by_c_bar",
    "q_limit",
)


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the study, the same at every scale except that `smoke` and `desk` check fewer problems.

    Raises:
        ValueError: unknown scale.
    """
    config = theorems_config("impala", ANSWERS, scale)
    config.pairs = 8  # random pairs of estimates whose distance is measured beside the exact rate; assumed
    config.clips = (  # pairs of rho_bar and c_bar, rho_bar >= c_bar, 0 = no truncation; Theorem 1 holds for all
        (1.0, 1.0),  # Section 5.2.2
        (1.0, 0.5),
        (2.0, 1.0),
        (2.0, 2.0),
        (0.6, 0.6),
        (0.0, 1.0),  # Remark 3: V of pi
    )
    return config
