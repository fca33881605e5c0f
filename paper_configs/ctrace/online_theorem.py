"""C-trace, Section 3.2: Proposition 3.4 and Theorem 3.5, alpha and Q learned online, on random finite MDPs.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.finite_mdp import theorems_config


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the study, the same at every scale except that `smoke` and `desk` check fewer problems.

    Raises:
        ValueError: unknown scale.
    """
    config = theorems_config("ctrace", ("online_phi", "online_values"), scale, "online_theorem")
    config.env.max_discount = 0.8  # assumed: any below 1; 40 steps then leave out 0.8^40 = 1e-4 of Eq. (5)
    config.starts = (  # pairs of phi_0 (alpha is 0.05 or 0.95) and Gamma / C_nu(1), below 1; both results hold for any
        (-3.0, 0.3),
        (-3.0, 0.7),
        (3.0, 0.3),
        (3.0, 0.7),
    )
    config.num_steps = 40  # steps of a trajectory; assumed: those of Eq. (5) are endless
    config.num_trajectories = 20_000  # per problem and start; assumed: the statements are about the limit
    # epsilon_k = 0.025 / (1 + k / 3000)^0.9; assumed: any of Robbins and Monro's; at most 1 / num_steps, since one pair
    # may be visited at every step: with 0.2 / (1 + k / 300)^0.9 Q diverged on 14 of the 200 problems.
    config.step_sizes = (0.025, 3000.0, 0.9)
    return config
