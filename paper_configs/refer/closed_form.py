"""Numbers of arXiv 1807.05827 that need no training: of Sections 2 to 4 and 5.1, and of Appendices A and E.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.refer import figure_1_ddpg, figure_3_naf, figure_4_vracer
from paper_configs.studies import study_config
from repro.config import resolve

ANSWERS = (
    "target_from_vtrace",
    "quadratic_advantage_mean",
    "gaussian_advantage_mean",
    "fixed_point_far",
    "fixed_point_near",
    "largest_divergence_humanoid",
    "largest_divergence_walker2d",
    "quadratic_outputs_humanoid",
    "gaussian_outputs_humanoid",
    "cost_over_acer",
    "ddpg_cost_over_vracer",
    "naf_cost_over_vracer",
    "rule_2_cost_over_er",
    "initial_outputs",
    "q_ret_from_retrace",
    "quadratic_concavity",
    "gaussian_concavity",
    "quadratic_maximum",
    "gaussian_maximum",
    "quadratic_kinks",
    "gaussian_kinks",
    "cholesky_bijection",
    "on_policy_limit",
    "rule_1_policy_gradient",
    "rule_1_value_gradient",
    "far_policy_by_actions",
    "quadratic_cost_over_gaussian",
    "quadratic_cost_growth",
)


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` only check fewer cases.

    Raises:
        ValueError: unknown scale.
    """
    published = figure_1_ddpg.get_config("paper")
    config = study_config("refer", "closed_form", ANSWERS, scale, "mujoco", "gym")  # the tasks are named in the answers
    config.env.version = published.env.version  # as in figure_4_vracer
    config.env.max_steps = 0  # as in figure_4_vracer
    config.env.observed = "all"  # as in figure_4_vracer

    figure_4 = figure_4_vracer.get_config("paper")
    config.vracer = resolve(figure_4)  # network and batch of V-RACER
    figure_4.agent = "acer"
    config.acer = resolve(figure_4)  # network and batch of ACER
    config.ddpg = resolve(published)  # network and batch of DDPG
    config.naf = resolve(figure_3_naf.get_config("paper"))  # network and batch of NAF

    config.refer = published.refer  # D and the step size of beta; Appendix A
    config.memory = published.memory  # capacity N; Appendix A
    config.std = published.exploration.std  # sigma of the policy; Section 5.1
    config.advantage_actions = 6  # d_A of the random functions f; assumed: HalfCheetah's and Walker2d's
    # c_max and D towards the limit of Section 3, from published ones; assumed: four steps, the last near 1 and 0
    config.limits = ((5.0, 0.1), (2.0, 0.03), (1.1, 0.01), (1.01, 0.001))
    config.limit_beta = 0.5  # beta of the compared gradients, which scales both; assumed: neither 0 nor 1
    config.limit_steps = 4_096  # steps of a gradient that is compared; assumed: enough that some are far-policy
    config.shift = 0.2  # change of each component of the mean, in stds; assumed: small
    config.samples = 10_000  # sampled actions for a share of far-policy samples; assumed
    config.updates = 300_000  # updates n of beta, after which (1 - eta)^n is 1e-13; assumed

    config.evaluation.episodes = {"smoke": 4, "desk": 20, "paper": 100}[scale]  # cases on which an answer is checked
    config.evaluation.num_envs = config.evaluation.episodes  # all at once
    return config
