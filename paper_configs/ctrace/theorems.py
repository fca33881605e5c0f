"""C-trace, Sections 2 and 3 and Appendix B: what the paper proves about its updates, on random finite MDPs.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.finite_mdp import theorems_config

ANSWERS = (
    "clipping_rate",
    "clipping_variance",
    "clipping_variance_at_q_pi",
    "clipping_bias",
    "lambda_rate",
    "lambda_least_rate",
    "lambda_least_rate_on_policy",
    "lambda_largest_rate",
    "lambda_growth",
    "lambda_mixture",
    "one_retrace",
    "double_dqn",
    "jump",
    "jump_of_supremum",
    "growth_of_supremum",
    "rate",
    "estimate",
    "least_rate",
    "largest_rate",
    "growth",
    "growth_printed",
    "growth_on_policy",
    "truncated",
    "truncated_on_policy",
    "greedy",
    "uncorrected",
    "importance",
    "periodic_policy",
    "periodic_policy_printed",
    "mixture",
    "error",
    "squared_error",
    "trade_off",
    "lower_bound",
)


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the study, the same at every scale except that `smoke` and `desk` check fewer problems.

    Raises:
        ValueError: unknown scale.
    """
    config = theorems_config("ctrace", ANSWERS, scale)
    config.alphas = (0.0, 0.25, 0.5, 0.75, 1.0)  # Proposition 3.2 holds for any and says what 0 and 1 give
    config.fine_alphas = 20_000  # spacings of alpha in the search for jumps; assumed: so fine that slopes are constant
    # Section 2 extends all results to lambda below 1; 0.97 is Appendix E's, 0.5 is assumed: any between 0 and 1
    config.lambdas = (0.5, 0.97)
    config.n = (1, 2, 3)  # n of n-step returns, at most num_steps; Section 2 and Proposition B.1 hold for any
    # Size of problems for Propositions 2.1 and B.2 and Theorem 2.2; assumed: small, as every update of the whole table
    # is summed
    config.update_states = 2
    config.update_actions = 2
    config.samples = (1, 2, 3, 4)  # numbers of pairs that the rules of Theorem 2.2 see; assumed: any number
    config.pairs_concentration = 0.5  # Dirichlet concentration of the pairs that they see; assumed: any distribution
    return config
