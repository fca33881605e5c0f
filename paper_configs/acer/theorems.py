"""ACER, Section 7: what Proposition 1 and Appendix C say about the operator B, on random finite MDPs.

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
    config.paper = "acer"
    config.experiment = "theorems"
    config.study = "theorems"  # module of repro/papers/acer that runs it; nothing is trained
    config.agent = "contraction"  # the first of the answers
    config.answers = (  # one record each; the sentences stand in published/acer.json
        "contraction",
        "fixed_point",
        "retrace",
        "bellman",
        "importance_sampling",
    )
    config.scale = scale

    config.env = ml_collections.ConfigDict()
    config.env.name = "finite_mdp"  # the package of environments
    config.env.task = "finite_mdp"  # transitions Dirichlet(1, .., 1), rewards uniform on [-1, 1]; assumed: any MDP
    config.env.num_states = 3  # assumed: every path of num_steps steps is summed
    config.env.num_actions = 3  # assumed: as above
    config.env.min_discount = 0.5  # of each problem, uniform between the two; assumed: any discount below 1
    config.env.max_discount = 0.95  # assumed: as above

    config.truncations = (0.5, 1.0, 2.0, 10.0)  # c; 1 in Retrace, 10 in Section 4; Proposition 1 holds for any
    config.num_steps = 3  # of a trajectory, whose last pair has the expected target of an endless one; Eq. (20)
    config.pairs = 8  # random pairs of estimates whose distance is measured beside the exact rate; assumed

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = {"smoke": 4, "desk": 40, "paper": 200}[scale]  # random problems; assumed
    config.evaluation.num_envs = 1  # one after the other
    return config
