"""C-trace, Figure 3: learning on the chain, evaluation (left) and control (right).

The paper leaves details of the updates open: `tabular_fig3_rounds.py` and `tabular_fig3_visits.py` have other readings
of them, and `tabular_fig3_legend.py` has another reading of the legend.
Every field names its source: a figure, section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from repro.config import unknown_scale


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` have fewer repetitions, `smoke` also fewer rounds."""
    config = ml_collections.ConfigDict()
    config.paper = "ctrace"
    config.experiment = "tabular_fig3"
    config.study = "tabular_learning"  # module of repro/papers/ctrace that runs it
    config.agent = "evaluation_early"  # the answer whose record has the numbers of the figure's left half
    config.answers = (  # one record each; their sentences are in published/ctrace.json
        "evaluation_early",
        "evaluation_early_n",
        "evaluation_early_rest",
        "evaluation_early_n_rest",
        "evaluation_early_importance",
        "evaluation_late",
        "evaluation_late_importance",
        "evaluation_best_alpha_early",
        "evaluation_best_alpha_late",
        "evaluation_best_alpha_fall",
        "evaluation_best_alpha_step",
        "control_early",
        "control_early_n",
        "control_late",
        "control_late_importance",
        "control_late_n",
    )
    config.scale = scale

    config.env = ml_collections.ConfigDict()
    config.env.name = "finite_mdp"  # environment suite
    config.env.task = "chain"  # Appendix C.2
    config.env.num_states = 20  # Appendix C.2
    config.env.discount = 0.9  # gamma; Appendix C.2

    config.methods = ml_collections.ConfigDict()
    config.methods.uncorrected_n = (1, 2, 5, 10, 20)  # for uncorrected returns; assumed: the legend is not in the text
    config.methods.importance_n = (2, 3, 4)  # for importance weighting; assumed: the legend is not in the text
    config.methods.alphas = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)  # for alpha-Retrace; assumed: the legend is not in the text
    config.methods.lambda_ = 1.0  # lambda of the traces; Appendix C.2

    config.learning = ml_collections.ConfigDict()
    config.learning.learning_rate = 0.1  # Appendix C.2
    config.learning.round_steps = 100  # steps between two policy improvements; Appendix C.2
    # episode: evaluation learns from each whole episode; round: from each round of 100 steps, as control does; assumed:
    # rounds are printed for control alone, and an update takes a trajectory of the behaviour policy (Definition 1.1)
    config.learning.trajectory = "episode"
    # compound: a pair moves at each of its visits; mean: once, by the mean target of its visits; assumed: as in the
    # proof of Theorem 3.5, since it is not printed for Figure 3
    config.learning.visits = "compound"
    config.learning.evaluation_rounds = 300  # 30 000 steps; assumed: errors have settled; the axis is not in the text
    config.learning.control_rounds = 200  # assumed: policies have settled; the axis is not in the text

    config.comparison = ml_collections.ConfigDict()
    config.comparison.early_evaluation_round = 2  # early, after 200 steps; assumed: `low numbers of environment steps`
    config.comparison.early_control_round = 10  # counts as early; assumed: `initial improvements`
    config.comparison.small_alpha = 0.2  # largest alpha that counts as small; assumed: `close to 0`
    config.comparison.large_n = 10  # smallest n that counts as large, in evaluation alone; assumed: `large n`

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = 200  # repetitions; Appendix C.2
    config.evaluation.num_envs = 25  # repetitions in each parallel job; divides `episodes`
    config.evaluation.resamples = 1_000  # bootstrap resamples for standard errors and the best alpha; assumed

    return apply_scale(config)


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes the published settings to those of the configuration's scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # seconds, only to check that it runs
        config.evaluation.episodes = 4
        config.evaluation.num_envs = 2
        config.learning.evaluation_rounds = 20
        config.learning.control_rounds = 20
    elif config.scale == "desk":
        config.evaluation.episodes = 50
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    return config
