"""ACER, Sections 3.2, 5.1 and 7, Appendix B: its identities and what it says of two operators, on random finite MDPs.

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
    """The same statements at every scale; `smoke` and `desk` check them on fewer problems.

    Raises:
        ValueError: unknown scale.
    """
    config = theorems_config("acer", ANSWERS, scale)
    config.pairs = 8  # random pairs of estimates whose distance is measured beside the exact rate; assumed
    config.truncations = (0.5, 1.0, 2.0, 10.0)  # c; 1 in Retrace, 10 in Section 4; Proposition 1 holds for any
    config.dueling_samples = 5  # n of Eq. 13; Section 6
    # Of policies that are close, of the distance below which Harutyunyan et al. (2016) prove a contraction; assumed.
    config.closeness = 0.5
    return config
