"""NAF with ReF-ER on Gym's MuJoCo tasks: Figure 3 of arXiv 1807.05827.

Fields shared with V-RACER are those of `figure_4_vracer.py`, with their sources and scales: Appendix A gives NAF the
same network, learning rate, batch, discount and memory. Every field set here names its source in the same way.
"""

import ml_collections

from paper_configs.refer import figure_4_vracer


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; the scale changes the same fields as for V-RACER."""
    config = figure_4_vracer.get_config(scale)
    config.experiment = "figure_3_naf"
    config.variants = ml_collections.ConfigDict(  # agents; Figure 3
        figure_4_vracer.replay_variants("naf") | figure_4_vracer.proportional_variant("naf")
    )
    config.agent = "naf_refer"  # one of `variants`; its name in records
    config.recorded = ("kl", "far_policy_fraction", "beta", "c_max", "value")  # log columns that a record keeps

    del config.network.initial_variance, config.network.advantage  # read by V-RACER alone
    del config.refer.max_log_ratio, config.refer.value_target  # likewise: no gradient here is weighted by rho
    config.exploration = ml_collections.ConfigDict()
    config.exploration.std = 0.2  # sigma of the noise, and of the policy in rho and the KL; Section 2, Appendix A
    config.learner.method = "naf"
    config.learner.target_update = 0.01  # alpha, rate at which the target network follows; Appendix A
    return config
