"""Numbers of arXiv 1802.01561 that need no training: Figure 4's sizes, Section 3's bandwidth, Appendix E's factors.

Every field names its source: a section, figure or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.impala import dmlab_30, dmlab_30_population
from paper_configs.studies import study_config
from repro.config import resolve


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings, the same at every scale.

    Raises:
        ValueError: unknown scale.
    """
    answers = ("shallow_parameters", "deep_parameters", "bytes_over_a3c", "factor", "other_factor")
    config = study_config("impala", "closed_form", answers, scale, "dmlab", "dmlab_30")  # only its sizes are used

    published = dmlab_30.get_config("paper")
    for name in ("shallow", "deep"):  # networks and unrolls on DMLab-30
        published.agent = f"impala_{name}"
        config[name] = resolve(published)
    config.population = dmlab_30_population.get_config("paper").population  # factor; Appendix E
    config.other_factors = (1.2, 0.8)  # of Jaderberg et al. (2017); Appendix E

    config.evaluation.episodes = 1  # value of each answer
    config.evaluation.num_envs = 1
    return config
