"""Shared settings of the studies of operators on random finite MDPs: problems, trajectories and their numbers.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.studies import study_config


def theorems_config(
    paper: str, answers: tuple[str, ...], scale: str, study: str = "theorems"
) -> ml_collections.ConfigDict:
    """Returns the study, the same at every scale except that `smoke` and `desk` check fewer problems.

    Args:
        paper: short name; `repro/papers/<paper>/<study>.py` runs the study.
        answers: names of the answers, one record each; their sentences are in `published/<paper>.json`.
        scale: one of `SCALES`.
        study: name of the experiment and of the module that runs it.

    Raises:
        ValueError: unknown scale.
    """
    # transitions from Dirichlet(1, .., 1), rewards uniform on [-1, 1]; assumed: any MDP
    config = study_config(paper, study, answers, scale, "finite_mdp", "finite_mdp")
    config.env.num_states = 3  # assumed: small, as every path of num_steps steps is summed
    config.env.num_actions = 3  # assumed: as above
    config.env.min_discount = 0.5  # each problem samples its gamma uniformly from min to max; assumed: any below 1
    config.env.max_discount = 0.95  # assumed: as above

    # steps of a trajectory; its last state or pair has the expected target of endless ones (IMPALA Eq. 5, ACER Eq. 20)
    config.num_steps = 3

    config.evaluation.episodes = {"smoke": 4, "desk": 40, "paper": 200}[scale]  # random problems; assumed
    config.evaluation.num_envs = 1  # one after the other
    return config
