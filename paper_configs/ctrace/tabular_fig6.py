"""C-trace, Figure 6: trade-offs on a Dirichlet-uniform MDP for six pairings of target and behaviour policy."""

import ml_collections

from paper_configs.ctrace import tabular_fig1

PAIRINGS = (  # letter, target and behaviour policy; Figures 6 to 8
    ("a", "uniform", "dirichlet"),
    ("b", "dirichlet", "dirichlet"),
    ("c", "dirichlet", "uniform"),
    ("d", "optimal", "uniform"),
    ("e", "optimal", "dirichlet"),
    ("f", "optimal", "exploring"),
)


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns `tabular_fig1` with 20 states, six pairings and more steps.

    Q = 0 and a uniform first state are printed for Figure 1 alone (Appendix C.2) and assumed for Figures 6 to 8. A
    learning rate of 0.1 (Appendix D.1) has no use here, as nothing is learned.
    """
    config = tabular_fig1.get_config(scale)
    config.experiment = "tabular_fig6"
    config.agent = "pareto_share_a"
    names = ("pareto_share", "pareto_bias_ratio")
    config.answers = tuple(f"{name}_{letter}" for name in names for letter, _, _ in PAIRINGS)
    config.env.num_states = 20  # Figure 6
    config.env.num_actions = 3  # Figure 6
    config.env.discount = 0.9  # gamma; Appendix D.1
    config.problem.pairings = PAIRINGS  # Figure 6
    config.problem.exploration = 0.1  # epsilon; Figure 6 (f); assumed: the uniform action may be the optimal one, too
    config.methods.uncorrected_n = 50  # Appendix D.1
    config.methods.importance_n = 4  # Appendix D.1
    config.methods.lambda_ = 1.0  # lambda of the traces; Appendix D.1
    if scale == "paper":
        config.variance.trajectories = 5_000  # Appendix D.1, as are the 100 steps
        config.evaluation.episodes = 200  # random MDPs for each pairing; assumed: the figure shows one
    return config
