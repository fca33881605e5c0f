"""DDPG with ReF-ER on Gym's MuJoCo tasks: Figures 1 and 2 of arXiv 1807.05827.

Fields shared with V-RACER are those of `figure_4_vracer.py`, with their sources and scales. Every field set here names
its source in the same way.
"""

import ml_collections

from paper_configs.refer import figure_4_vracer


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; the scale changes the same fields as for V-RACER."""
    config = figure_4_vracer.get_config(scale)
    config.experiment = "figure_1_ddpg"
    # Only plain DDPG has correlated noise and constant learning rates: annealing made it worse; Section 5.1
    plain = ml_collections.ConfigDict({"exploration": {"correlated": True}, "learner": {"annealing": 0.0}})
    config.variants = ml_collections.ConfigDict(figure_4_vracer.replay_variants("ddpg"))  # agents; Figure 1
    config.variants.ddpg_er.update(plain)
    config.variants.ddpg_per.update(plain)
    config.variants.update(figure_4_vracer.proportional_variant("ddpg"))
    config.variants.ddpg_per_proportional.update(plain)
    for replay in ("er", "per"):  # annealed agents, which Section 5.1 calls worse than plain DDPG
        annealed = config.variants[f"ddpg_{replay}"].copy_and_resolve_references()
        del annealed.learner.annealing
        config.variants[f"ddpg_{replay}_annealed"] = annealed
    untuned = config.variants.ddpg_er.copy_and_resolve_references()
    untuned.exploration.correlated, untuned.learner.weight_decay = False, 0.0
    config.variants.ddpg_er_untuned = untuned
    config.agent = "ddpg_refer"  # one of `variants`; its name in records
    config.recorded = ("kl", "far_policy_fraction", "beta", "c_max", "value")  # log columns that a record keeps

    del config.network.initial_variance, config.network.advantage  # read by V-RACER alone
    del config.refer.max_log_ratio, config.refer.value_target  # likewise: no gradient here is weighted by rho
    config.exploration = ml_collections.ConfigDict()
    config.exploration.std = 0.2  # sigma of the noise, and of the policy in rho and the KL; Section 2, Appendix A
    config.exploration.correlated = False  # True = Ornstein-Uhlenbeck noise; Section 5.1
    config.exploration.theta = 0.15  # theta of the Ornstein-Uhlenbeck noise; Appendix A

    config.prioritised.annealing = 0.0  # read by ddpg_per; assumed: as in the authors' launch scripts of DDPG with PER

    config.learner.method = "ddpg"
    config.learner.batch_size = 128  # B, steps per gradient step; Appendix A
    config.learner.learning_rate = 1e-4  # critic's, at the first gradient step; Appendix A
    config.learner.policy_learning_rate = 1e-5  # policy's, at the first gradient step; Appendix A
    config.learner.weight_decay = 1e-4  # L2 penalty on the critic's weights; Appendix A
    config.learner.target_update = 0.01  # alpha, rate at which the target network follows; Appendix A
    config.refer.beta_step_size = 1e-4  # eta of Eq. 12; assumed: the critic's learning rate, as for V-RACER and NAF
    return config
