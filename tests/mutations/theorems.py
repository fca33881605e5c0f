"""Wrong variants of the studies of operator theorems and of the exact MDPs that they use."""

from tests.mutations.variant import Variant

PATHS = "repro/tabular/paths.py"
MDPS = "repro/tabular/mdps.py"
TEST_MDPS = "tests/tabular/test_mdps.py"
VTRACE = "repro/tabular/vtrace.py"
STUDY = "repro/training/problem_study.py"
IMPALA = "repro/papers/impala/theorems.py"
ACER = "repro/papers/acer/theorems.py"
CTRACE = "repro/papers/ctrace/theorems.py"
UPDATES = "repro/papers/ctrace/update_errors.py"
STAC = "repro/papers/stac/theorems.py"
TRADEOFFS = "repro/papers/{}/tradeoffs.py"
TEST_TRADEOFFS = "tests/papers/{}/test_tradeoffs.py"
TEST_V_TARGETS = "tests/ops/test_v_targets_theorems.py"
TEST_IMPALA = "tests/papers/impala/test_theorems.py"
ONLINE = "repro/papers/impala/online_theorem.py"
ONLINE_VTRACE = "repro/tabular/online_vtrace.py"
TEST_ONLINE = "tests/papers/impala/test_online_theorem.py"
TEST_ACER = "tests/papers/acer/test_theorems.py"
TEST_CTRACE = "tests/papers/ctrace/test_theorems.py"
ONLINE_CTRACE = "repro/tabular/online_ctrace.py"
TEST_ONLINE_CTRACE = "tests/papers/ctrace/test_online_theorem.py"
TEST_STAC = "tests/papers/stac/test_theorems.py"
ENDLESS = f"{TEST_V_TARGETS}::test_the_operator_of_endless_trajectories_follows_from_short_ones"

VARIANTS = [
    Variant(
        "IMPALA theorems: eta without the first term",
        VTRACE,
        "sums = 1 + mdp.discount * following",
        "sums = mdp.discount * following",
        f"{TEST_IMPALA}::test_its_records_have_the_papers_statements",
        slow=True,
    ),
    Variant(
        "IMPALA theorems: lambda-return without the rest of its weight",
        IMPALA,
        "shares[-1] = lambda_ ** (num_steps - 1)",
        "shares[-1] *= 1.0",
        f"{TEST_IMPALA}::test_its_records_have_the_papers_statements",
    ),
    Variant(
        "IMPALA theorems: n-step return that does not bootstrap",
        IMPALA,
        "axis=0) + powers[1:] * v[1:]",
        "axis=0)",
        f"{TEST_IMPALA}::test_its_records_have_the_papers_statements",
    ),
    Variant(
        "IMPALA theorems: half of rho_bar",
        IMPALA,
        "weights._replace(clip_c=half)",
        "weights._replace(clip_rho=half)",
        f"{TEST_IMPALA}::test_half_of_c_bar_costs_nothing_where_it_truncates_nothing",
    ),
    Variant(
        "IMPALA tradeoffs: second moment in place of the variance",
        VTRACE,
        "problem).T\n    return float((square - mean**2).mean())",
        "problem).T\n    return float(square.mean())",
        f"{TEST_TRADEOFFS.format('impala')}::test_the_variance_is_that_of_one_truncated_step",
    ),
    Variant(
        "IMPALA tradeoffs: a bias that rises at some level falls",
        TRADEOFFS.format("impala"),
        "(np.diff(bias) < ROUNDING).all()",
        "(np.diff(bias) < ROUNDING).any()",
        f"{TEST_TRADEOFFS.format('impala')}::test_the_levels_are_those_of_the_configuration",
    ),
    Variant(
        "IMPALA tradeoffs: n-step return that does not bootstrap",
        TRADEOFFS.format("impala"),
        ".sum(0) + powers[-1] * expected[-1]",
        ".sum(0)",
        f"{TEST_TRADEOFFS.format('impala')}::test_retrace_is_the_n_step_return_where_its_differences_cancel",
    ),
    Variant(
        "IMPALA tradeoffs: what settles explodes",
        TRADEOFFS.format("impala"),
        "return float(last - before)",
        "return float(last)",
        f"{TEST_TRADEOFFS.format('impala')}::test_what_explodes_adds_more_with_each_doubling_and_what_settles_less",
    ),
    Variant(
        "IMPALA tradeoffs: from mu to pi",
        TRADEOFFS.format("impala"),
        "mdps.mix(pi, mu, 1 - share)",
        "mdps.mix(pi, mu, share)",
        f"{TEST_TRADEOFFS.format('impala')}::test_policies_go_from_pi_to_mu",
    ),
    Variant(
        "IMPALA tradeoffs: reduction of the long product alone",
        TRADEOFFS.format("impala"),
        "free[-1] - truncated[-1] - (free[0] - truncated[0])",
        "truncated[-1] - free[-1]",
        f"{TEST_TRADEOFFS.format('impala')}::test_only_a_product_without_truncation_explodes",
    ),
    Variant(
        "V-trace on the chain: corrections that are independent of later ones",
        VTRACE,
        "errors**2 + 2 * errors * traces * mean",
        "errors**2",
        f"{TEST_TRADEOFFS.format('impala')}::test_the_variance_of_v_s_over_the_chain_is_that_over_all_paths",
    ),
    Variant(
        "V-trace on the chain: second moment of a product in place of the variance",
        VTRACE,
        "for step in steps)\n    return float((square - mean**2).mean())",
        "for step in steps)\n    return float(square.mean())",
        f"{TEST_TRADEOFFS.format('impala')}::test_the_variance_of_a_product_is_that_over_all_paths",
    ),
    Variant(
        "STAC tradeoffs: alpha_rho stays",
        TRADEOFFS.format("stac"),
        "rates = [rate(problem, clip._replace(alpha_rho=alpha, alpha_c=alpha))",
        "rates = [rate(problem, clip._replace(alpha_c=alpha))",
        f"{TEST_TRADEOFFS.format('stac')}::test_the_least_fall_is_that_of_the_alphas_in_their_order",
    ),
    Variant(
        "STAC tradeoffs: the largest fall",
        TRADEOFFS.format("stac"),
        "-np.diff(rates).max()",
        "-np.diff(rates).min()",
        f"{TEST_TRADEOFFS.format('stac')}::test_the_least_fall_is_that_of_the_alphas_in_their_order",
    ),
    Variant(
        "online V-trace: traces of rho",
        ONLINE_VTRACE,
        "discount * c[x, a] * following",
        "discount * rho[x, a] * following",
        f"{TEST_ONLINE}::test_corrections_are_those_of_the_training_code",
    ),
    Variant(
        "online V-trace: steps that do not fall",
        ONLINE_VTRACE,
        "visits[x] += 1.0",
        "visits[x] = 10.0",
        f"{TEST_ONLINE}::test_its_record_has_the_papers_statement",
    ),
    Variant(
        "online V-trace: measured from the target policy's value",
        ONLINE,
        "vtrace.evaluated_policy(problem, weights)",
        "problem.pi",
        f"{TEST_ONLINE}::test_its_record_has_the_papers_statement",
        slow=True,
    ),
    Variant(
        "paths: trajectory that ends with its last step",
        PATHS,
        "np.linalg.inv(identity - changes[:, size:])",
        "np.linalg.inv(identity)",
        ENDLESS,
    ),
    Variant(
        "paths: first action not given",
        PATHS,
        "np.prod(mu[states[1:-1], actions[1:]], axis=0)",
        "np.prod(mu[states[:-1], actions], axis=0)",
        f"{TEST_V_TARGETS}::test_the_operator_in_expectation_is_the_sum_of_eq_5",
    ),
    Variant(
        "paths: pairs with one image",
        PATHS,
        "op.matrix @ values + op.offset[:, None]",
        "0.0 * values",
        ENDLESS,
    ),
    Variant(
        "V-trace on paths: last target with the weight of rho",
        VTRACE,
        "(last_targets[x[-1:]] - v[-1:]) / last_weight",
        "(last_targets[x[-1:]] - v[-1:])",
        ENDLESS,
    ),
    Variant(
        "V-trace on paths: bootstrap from the same state",
        VTRACE,
        "v_t=np.concatenate([v[1:], np.zeros_like(v[:1])])",
        "v_t=v",
        ENDLESS,
    ),
    Variant(
        "V-trace in closed form: traces of rho",
        VTRACE,
        "for w in (rho, c))",
        "for w in (rho, rho))",
        f"{TEST_V_TARGETS}::test_the_operator_contracts_no_slower_than_stated",
    ),
    Variant(
        "V-trace bound: beta of the leaky weight",
        VTRACE,
        "weights._replace(alpha_rho=1.0)",
        "weights",
        f"{TEST_V_TARGETS}::test_the_operator_contracts_no_slower_than_stated",
    ),
    Variant(
        "theorems: mean of the ratios",
        STUDY,
        "values.max if self.extremes[name]",
        "values.mean if self.extremes[name]",
        f"{TEST_IMPALA}::test_each_difference_is_of_one_problem_and_a_ratio_the_largest_of_all",
    ),
    Variant(
        "theorems: a mean over sampled problems that is exact",
        STUDY,
        "exact = name not in self.means",
        "exact = True",
        f"{TEST_IMPALA}::test_its_records_have_the_papers_statements",
    ),
    Variant(
        "theorems: one problem for all",
        STUDY,
        "np.random.default_rng([seed, number])",
        "np.random.default_rng(seed)",
        f"{TEST_IMPALA}::test_size_and_discount_of_the_problems_are_those_of_the_configuration",
    ),
    Variant(
        "theorems: smallest discount as the largest",
        STUDY,
        "(env.min_discount, env.max_discount)",
        "(env.min_discount, env.min_discount)",
        f"{TEST_IMPALA}::test_size_and_discount_of_the_problems_are_those_of_the_configuration",
    ),
    Variant(
        "IMPALA theorems: q_s without truncated rho",
        IMPALA,
        "clip_rho=weights.clip_rho,",
        "clip_rho=None,",
        TEST_IMPALA,
    ),
    Variant(
        "IMPALA theorems: weighted q_s",
        IMPALA,
        "clip_pg_rho=ratios.min(),",
        "clip_pg_rho=1.0,",
        TEST_IMPALA,
    ),
    Variant(
        "IMPALA theorems: ratio to gamma",
        IMPALA,
        "rate / vtrace.contraction_bound(problem, weights)",
        "rate / problem.mdp.discount",
        TEST_IMPALA,
    ),
    Variant(
        "IMPALA theorems: best of the truncation levels",
        IMPALA,
        "max(result[name] for result in found)",
        "min(result[name] for result in found)",
        TEST_IMPALA,
    ),
    Variant(
        "ACER theorems: Q of the next action in B",
        ACER,
        "lambda q: np.zeros_like(q))",
        "lambda q: q)",
        f"{TEST_ACER}::test_its_records_have_the_papers_statements",
        slow=True,
    ),
    Variant(
        "ACER theorems: Q(lambda) with Retrace's traces",
        ACER,
        'Method("q_lambda")',
        'Method("retrace")',
        f"{TEST_ACER}::test_q_lambda_contracts_where_the_policies_are_close_enough",
    ),
    Variant(
        "ACER theorems: correction under mu",
        ACER,
        "loss.correction_weight(self._log_rho, c).numpy() * self._problem.pi",
        "loss.correction_weight(self._log_rho, c).numpy() * self._problem.mu",
        f"{TEST_ACER}::test_its_records_have_the_papers_statements",
    ),
    Variant(
        "ACER theorems: ratio to 1",
        ACER,
        "max(rates) / mdp.discount",
        "max(rates)",
        f"{TEST_ACER}::test_each_truncation_counts",
    ),
    Variant(
        "ACER theorems: gradient in expectation over pi",
        ACER,
        'np.einsum("xa,xab->xb", mu, gradient)',
        'np.einsum("xa,xab->xb", pi, gradient)',
        f"{TEST_ACER}::test_its_records_have_the_papers_statements",
    ),
    Variant(
        "ACER theorems: dueling network in expectation over uniform samples",
        ACER,
        "pi[x[:, None], u].prod(axis=1)",
        "np.full(len(x), 1 / len(chosen))",
        f"{TEST_ACER}::test_its_records_have_the_papers_statements",
    ),
    Variant(
        "ACER theorems: trained Retrace not compared",
        ACER,
        "if c == 1.0:",
        "if c == -1.0:",
        f"{TEST_ACER}::test_another_trained_retrace_is_seen",
    ),
    Variant(
        "C-trace theorems: Eq. (5) with a ratio of the first action",
        CTRACE,
        "return 1 - (1 - mdp.discount) * total.sum(axis=1)",
        "return 1 - (1 - mdp.discount) * np.minimum(1.0, pi / mu).ravel() * total.sum(axis=1)",
        f"{TEST_CTRACE}::test_the_operators_of_the_agents_targets_are_the_closed_forms",
    ),
    Variant(
        "C-trace theorems: the state that is left visited again",
        CTRACE,
        "transitions[..., 0] = 0.0",
        "transitions[..., 1] = 0.0",
        f"{TEST_CTRACE}::test_the_rate_grows_where_pi_and_mu_differ_after_the_first_step",
    ),
    Variant(
        "C-trace theorems: periodic policy that begins with pi",
        CTRACE,
        "[mu] * (n - 1) + [pi]",
        "[pi] + [mu] * (n - 1)",
        f"{TEST_CTRACE}::test_the_periodic_policy_begins_with_mu",
    ),
    Variant(
        "C-trace theorems: last target not given",
        CTRACE,
        "rewards[-1] = last_targets[self._pairs[-1]].ravel()",
        "pass",
        f"{TEST_CTRACE}::test_the_operators_of_the_agents_targets_are_the_closed_forms",
    ),
    Variant(
        "C-trace theorems: variance instead of its root",
        UPDATES,
        "self.variance**0.5 + self.rate",
        "self.variance + self.rate",
        f"{TEST_CTRACE}::test_errors_stay_below_their_bounds",
    ),
    Variant(
        "C-trace theorems: bound of seen pairs",
        UPDATES,
        "(1 - delta) * q_pi.max()",
        "q_pi.max()",
        f"{TEST_CTRACE}::test_variance_rate_and_bias_exceed_their_bound_together",
    ),
    Variant(
        "C-trace, Theorem 2.2: a smaller step keeps its variance",
        UPDATES,
        "(1 - rate) * float(np.sqrt",
        "float(np.sqrt",
        f"{TEST_CTRACE}::test_each_term_of_the_trade_off_is_needed_by_some_rule",
    ),
    Variant(
        "online C-trace: alpha away from its root",
        ONLINE_CTRACE,
        "phi -= step_size *",
        "phi += step_size *",
        f"{TEST_ONLINE_CTRACE}::test_its_records_have_the_papers_statements",
        slow=True,
    ),
    Variant(
        "online C-trace: Q of the target policy",
        ONLINE_CTRACE,
        "corrections(q, alpha * pi + (1.0 - alpha) * mu, c,",
        "corrections(q, pi, c,",
        f"{TEST_ONLINE_CTRACE}::test_its_records_have_the_papers_statements",
        slow=True,
    ),
    Variant(
        "online C-trace: trace of the step before",
        ONLINE_CTRACE,
        "following *= c[x, a]",
        "following *= c[states[s + 1], actions[min(s + 1, len(actions) - 1)]]",
        f"{TEST_ONLINE_CTRACE}::test_both_updates_are_those_of_the_training_code",
        slow=True,
    ),
    Variant(
        "online C-trace: first visits alone",
        ONLINE_CTRACE,
        "for s in range(num_steps):",
        "for s in range(1):",
        f"{TEST_ONLINE_CTRACE}::test_a_trajectory_moves_what_it_visits_by_what_it_found",
    ),
    Variant(
        "STAC theorems: conditions exchanged",
        STAC,
        "(config.alphas_printed, config.alphas_proved)",
        "(config.alphas_proved, config.alphas_printed)",
        f"{TEST_STAC}::test_the_alphas_are_those_of_the_configuration",
        slow=True,
    ),
    Variant(
        "STAC theorems: importance sampling without the first ratio",
        STAC,
        "np.exp(log_rho[0])[:, None] * returns[0]",
        "returns[0]",
        f"{TEST_STAC}::test_its_records_have_the_statements_but_those_of_the_printed_condition",
        slow=True,
    ),
    Variant(
        "STAC theorems: largest difference of the weights",
        STAC,
        "output.targets[0]).numpy().min())",
        "output.targets[0]).numpy().max())",
        f"{TEST_STAC}::test_the_difference_of_the_weights_is_theirs",
    ),
    Variant(
        "MDP: an episode may begin at its end",
        MDPS,
        "np.any(self.rewards[self.terminal]) or np.any(self.initial[self.terminal])",
        "np.any(self.rewards[self.terminal])",
        f"{TEST_MDPS}::test_what_is_no_mdp_is_refused",
    ),
    Variant(
        "MDP: no chain of two states",
        MDPS,
        "if num_states < 2:",
        "if num_states <= 2:",
        f"{TEST_MDPS}::test_the_chain_step_by_step",
    ),
    Variant(
        "IMPALA tradeoffs: a product that grows with some share of mu",
        TRADEOFFS.format("impala"),
        "(np.diff(orders) > -ROUNDING).all()",
        "(np.diff(orders) > -ROUNDING).any()",
        f"{TEST_TRADEOFFS.format('impala')}::test_policies_go_from_pi_to_mu",
    ),
    Variant(
        "C-trace theorems: a greedy alpha's rate that is not over Retrace's",
        CTRACE,
        "return operators.contraction_rate(op) / retrace",
        "return operators.contraction_rate(op)",
        f"{TEST_CTRACE}::test_an_alpha_below_1_keeps_the_greedy_policy",
    ),
]
