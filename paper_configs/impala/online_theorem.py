"""IMPALA, Appendix A.2: Theorem 2, V-trace learned online, on random finite MDPs.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.finite_mdp import theorems_config


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """The same statement at every scale; `smoke` and `desk` check it on fewer problems.

    Raises:
        ValueError: unknown scale.
    """
    config = theorems_config("impala", ("online_values",), scale, "online_theorem")
    config.clips = (  # rho_bar, c_bar with rho_bar >= c_bar; Theorem 2 holds for all of them
        (1.0, 1.0),  # Section 5.2.2
        (1.0, 0.5),
        (2.0, 1.0),
        (2.0, 2.0),
        (0.6, 0.6),
    )  # assumed: some level, since without one single weights reach hundreds and limits are far off
    config.num_steps = 10  # of a trajectory; assumed: the theorem's are endless
    config.num_trajectories = 20_000  # assumed: for each problem and pair of levels; the theorem is about the limit
    config.step_size_power = 0.75  # alpha_k(x) = n^-power at the n-th visit; assumed: any power in (1/2, 1]
    return config
