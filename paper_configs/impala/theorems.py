"""IMPALA, Appendix A: what its theorem and its policy gradient say about V-trace, on random finite MDPs.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

SCALES = ("smoke", "desk", "paper")


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """The same statements at every scale; `smoke` and `desk` check them on fewer problems.

    Raises:
        ValueError: unknown scale.
    """
    if scale not in SCALES:
        raise ValueError(f"Unknown scale {scale!r}: choose one of {', '.join(SCALES)}.")
    config = ml_collections.ConfigDict()
    config.paper = "impala"
    config.experiment = "theorems"
    config.study = "theorems"  # module of repro/papers/impala that runs it; nothing is trained
    config.agent = "contraction"  # the first of the answers
    config.answers = (  # one record each; the sentences stand in published/impala.json
        "contraction",
        "fixed_point",
        "unbiased_q",
    )
    config.scale = scale

    config.env = ml_collections.ConfigDict()
    config.env.name = "finite_mdp"  # the package of environments
    config.env.task = "finite_mdp"  # transitions Dirichlet(1, .., 1), rewards uniform on [-1, 1]; assumed: any MDP
    config.env.num_states = 3  # assumed: every path of num_steps steps is summed
    config.env.num_actions = 3  # assumed: as above
    config.env.min_discount = 0.5  # of each problem, uniform between the two; assumed: any discount below 1
    config.env.max_discount = 0.95  # assumed: as above

    config.clips = (  # rho_bar, c_bar with rho_bar >= c_bar, 0 = no truncation; Theorem 1 holds for all of them
        (1.0, 1.0),  # Section 5.2.2
        (1.0, 0.5),
        (2.0, 1.0),
        (2.0, 2.0),
        (0.6, 0.6),
        (0.0, 1.0),  # Remark 3: V of pi
    )
    config.num_steps = 3  # of a trajectory, whose last state has the expected target of an endless one; Eq. (5)
    config.pairs = 8  # random pairs of estimates whose distance is measured beside the exact rate; assumed

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = {"smoke": 4, "desk": 40, "paper": 200}[scale]  # random problems; assumed
    config.evaluation.num_envs = 1  # one after the other
    return config
