"""C-trace, Figure 1: contraction rate, fixed-point bias and variance of methods on a small random MDP.

Every field names its source: a figure, section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from repro.config import unknown_scale


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` only sample fewer MDPs and trajectories."""
    config = ml_collections.ConfigDict()
    config.paper = "ctrace"
    config.experiment = "tabular_fig1"
    config.study = "tabular_tradeoffs"  # module of repro/papers/ctrace that runs it; nothing is trained
    config.agent = "pareto_share"  # the answer whose record has the numbers of the figure
    config.answers = (  # one record each; their sentences are in published/ctrace.json
        "pareto_share",
        "pareto_bias_ratio",
        "importance_bias",
        "importance_variance_growth",
        "retrace_equivalent_n",  # without a sentence: context for the next one
        "retrace_three_steps",
        "retrace_variance",
        "mixture_share",
        "mixture_bias",
    )
    config.scale = scale

    config.env = ml_collections.ConfigDict()
    config.env.name = "finite_mdp"  # environment suite
    config.env.task = "dirichlet_uniform"  # dirichlet_uniform, garnet or chain; Appendix C.2
    config.env.num_states = 5  # Appendix C.2
    config.env.num_actions = 3  # Appendix C.2; 2 for the chain
    config.env.branching = 0  # next states of each pair in a garnet, 0 = no garnet
    config.env.discount = 0.9  # gamma; Appendix C.2

    config.problem = ml_collections.ConfigDict()
    config.problem.pairings = (("b", "dirichlet", "dirichlet"),)  # letter, target and behaviour policy; Appendix C.2
    config.problem.exploration = 0.1  # epsilon of the behaviour `exploring`; Figure 6 (f)
    config.problem.stream = 0  # stream of random numbers; problems of different streams are independent

    config.methods = ml_collections.ConfigDict()
    config.methods.uncorrected_n = 20  # uncorrected returns with n = 1 .. this; Figure 1
    config.methods.importance_n = 3  # importance weighting with n = 1 .. this; Figure 1
    config.methods.alphas = 21  # alphas, evenly spaced in [0, 1]; assumed: the figure's spacing is not printed
    config.methods.tree_backup = False  # whether alpha-TreeBackup is included; Figure 5
    config.methods.lambda_ = 1.0  # lambda of the traces; Section 2, Appendix D.1

    config.variance = ml_collections.ConfigDict()
    config.variance.trajectories = 5_000  # trajectories, with updates from Q = 0; Appendix C.2
    config.variance.steps = 100  # steps of each trajectory; Appendix C.2

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = 1_000  # random MDPs on which a statement is checked; assumed: the figure shows one
    config.evaluation.num_envs = 20  # MDPs in each parallel job; divides `episodes`

    return apply_scale(config)


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes the published settings to those of the configuration's scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # seconds, only to check that it runs
        config.evaluation.episodes = 8
        config.evaluation.num_envs = 4
        config.variance.trajectories = 200
    elif config.scale == "desk":
        config.evaluation.episodes = 100
        config.variance.trajectories = 1_000
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    return config
