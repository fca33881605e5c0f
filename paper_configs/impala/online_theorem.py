"""IMPALA, Appendix A.2: Theorem 2, V-trace learned online, on random finite MDPs.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.finite_mdp import theorems_config


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the study, the same at every scale except that `smoke` and `desk` check fewer problems.

    Raises:
        ValueError: unknown scale.
    """
    config = theorems_config("impala", ("online_values",), scale, "online_theorem")
    config.clips = (  # pairs of rho_bar and c_bar, rho_bar >= c_bar; Theorem 2 holds for all
        (1.0, 1.0),  # Section 5.2.2
        (1.0, 0.5),
        (2.0, 1.0),
        (2.0, 2.0),
        (0.6, 0.6),
    )  # assumed: finite levels, since single untruncated weights reach hundreds and limits are far off
    config.num_steps = 10  # steps of a trajectory; assumed: those of the theorem are endless
    config.num_trajectories = 20_000  # per problem and pair of levels; assumed: the theorem is about the limit
    config.step_size_power = 0.75  # alpha_k(x) = n^-power at the n-th visit to x; assumed: any power in (1/2, 1]
    return config
