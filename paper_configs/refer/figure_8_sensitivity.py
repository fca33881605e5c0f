"""V-RACER's sensitivity to A, the width of its layers and a closed-form advantage: Figure 8 of arXiv 1807.05827.

Settings are those of `figure_4_vracer.py`, with their sources and scales, except the one in each agent's name. The
figure shows the values of A and of the width only in the picture, not in the text: here each is halved and doubled.
The agents are compared with `vracer_refer` of `figure_4_vracer.py`, which is not trained again.
"""

import ml_collections

from paper_configs.refer import figure_4_vracer


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings and the variants; the scale changes the same fields as for Figure 4."""
    config = figure_4_vracer.get_config(scale)
    config.experiment = "figure_8_sensitivity"
    variants = {  # agents, each with the fields that it changes; assumed: half and twice the values of Appendix A
        "vracer_half_a": {"refer": {"annealing": 2.5e-7}, "learner": {"annealing": 2.5e-7}},  # A of all schedules
        "vracer_twice_a": {"refer": {"annealing": 1e-6}, "learner": {"annealing": 1e-6}},
        "vracer_half_s": {"network": {"units": (64, 64)}},  # S
        "vracer_twice_s": {"network": {"units": (256, 256)}},
        "vracer_quadratic": {"network": {"advantage": "quadratic"}},  # Eqs. 18 and 19; Appendix E
        "vracer_gaussian": {"network": {"advantage": "gaussian"}},  # Eqs. 20 to 22; Appendix E
    }
    config.agent = "vracer_half_a"  # one of `variants`; its name in records
    config.variants = ml_collections.ConfigDict(variants)
    return config
