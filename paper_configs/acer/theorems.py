"""ACER, Sections 3.2, 5.1 and 7, Appendix B: identities and statements about two operators, on random finite MDPs.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.finite_mdp import theorems_config

ANSWERS = (
    "contraction",
    "fixed_point",
    "retrace",
    "bellman",
    "importance_sampling",
    "unbiased",
    "consistent",
    "opc_close",
    "opc_far",
)


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the study, the same at every scale except that `smoke` and `desk` check fewer problems.

    Raises:
        ValueError: unknown scale.
    """
    config = theorems_config("acer", ANSWERS, scale)
    config.pairs = 8  # random pairs of estimates whose distance is measured beside the exact rate; assumed
    config.truncations = (0.5, 1.0, 2.0, 10.0)  # c: 1 in Retrace, 10 in Section 4; Proposition 1 holds for any
    config.dueling_samples = 5  # n of Eq. 13, actions sampled for each state; Section 6
    # Largest distance of close policies, as a share of that below which Harutyunyan et al. (2016) prove a contraction;
    # assumed
    config.closeness = 0.5
    return config
