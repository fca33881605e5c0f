"""C-trace, Figure 1: contraction rate, fixed-point bias and variance of methods on a small random MDP.

Every field names its source: a figure, section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from repro.config import unknown_scale


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """The published settings; `smoke` and `desk` sample fewer MDPs and trajectories, and change nothing else."""
    config = ml_collections.ConfigDict()
    config.paper = "ctrace"
    config.experiment = "tabular_fig1"
    config.study = "tabular_tradeoffs"  # module of repro/papers/ctrace that runs it; nothing is trained
    config.agent = "pareto_share"  # the answer whose record holds the figure's numbers
    config.answers = (  # one record each; the sentences stand in published/ctrace.json
        "pareto_share",
        "pareto_bias_ratio",
        "importance_bias",
        "importance_variance_growth",
        "retrace_equivalent_n",  # no sentence of its own: context of the next
        "retrace_three_steps",
        "retrace_variance",
    )
    config.scale = scale

    config.env = ml_collections.ConfigDict()
    config.env.name = "finite_mdp"  # the package of environments
    config.env.task = "dirichlet_uniform"  # dirichlet_uniform, garnet or chain; Appendix C.2
    config.env.num_states = 5  # Appendix C.2
    config.env.num_actions = 3  # Appendix C.2; a chain has 2
    config.env.branching = 0  # next states of a garnet's pair, 0 = no garnet
    config.env.discount = 0.9  # Appendix C.2

    config.problem = ml_collections.ConfigDict()
    config.problem.pairings = (("b", "dirichlet", "dirichlet"),)  # letter, target, behaviour; Appendix C.2
    config.problem.exploration = 0.1  # of the behaviour `exploring`; Figure 6 (f)
    config.problem.stream = 0  # of random numbers: problems of different streams are independent

    config.methods = ml_collections.ConfigDict()
    config.methods.uncorrected_n = 20  # n = 1 .. this; Figure 1
    config.methods.importance_n = 3  # n = 1 .. this; Figure 1
    config.methods.alphas = 21  # evenly spaced in [0, 1]; assumed: the figure's spacing is not printed
    config.methods.tree_backup = False  # alpha-TreeBackup too; Figure 5
    config.methods.lambda_ = 1.0  # Section 2; Appendix D.1

    config.variance = ml_collections.ConfigDict()
    config.variance.trajectories = 5_000  # from Q = 0; Appendix C.2
    config.variance.steps = 100  # of each trajectory; Appendix C.2

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = 1_000  # random MDPs a statement is checked on; assumed: the figure shows one
    config.evaluation.num_envs = 20  # MDPs in one piece of work; divides `episodes`

    return apply_scale(config)


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes a configuration of the published settings to its scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # seconds: proves the path
        config.evaluation.episodes = 8
        config.evaluation.num_envs = 4
        config.variance.trajectories = 200
    elif config.scale == "desk":
        config.evaluation.episodes = 100
        config.variance.trajectories = 1_000
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    return config
