"""V-RACER's sensitivity to C, D, N, B, F and the learning rate: Figure 7 of arXiv 1807.05827.

Settings are those of `figure_4_vracer.py`, with their sources and scales, except the hyper-parameter that an agent's
name says. The figure shows its values only in the picture, not in the text: here each is halved and doubled.
The middle of each row of the figure is agent `vracer_refer` of `figure_4_vracer.py`, which is not trained again.
"""

import ml_collections

from paper_configs.refer import figure_4_vracer


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings and the variants; the scale changes the same fields as for Figure 4."""
    config = figure_4_vracer.get_config(scale)
    config.experiment = "figure_7_sensitivity"
    start = config.memory.start_steps
    variants = {  # agents, each with the fields that it changes; assumed: half and twice the values of Appendix A
        "vracer_half_c": {"refer": {"c": 2.0}},  # C
        "vracer_twice_c": {"refer": {"c": 8.0}},
        "vracer_half_d": {"refer": {"max_far_policy_fraction": 0.05}},  # D
        "vracer_twice_d": {"refer": {"max_far_policy_fraction": 0.2}},
        "vracer_half_n": {"memory": {"capacity": 2**17, "start_steps": min(start, 2**17)}},  # N, at least N_start
        "vracer_twice_n": {"memory": {"capacity": 2**19}},
        "vracer_half_b": {"learner": {"batch_size": 128}},  # B
        "vracer_twice_b": {"learner": {"batch_size": 512}},
        "vracer_half_f": {"learner": {"time_steps_per_gradient": 0.5}},  # F
        "vracer_twice_f": {"learner": {"time_steps_per_gradient": 2.0}},
        "vracer_half_eta": {"learner": {"learning_rate": 5e-5}, "refer": {"beta_step_size": 5e-5}},  # eta
        "vracer_twice_eta": {"learner": {"learning_rate": 2e-4}, "refer": {"beta_step_size": 2e-4}},
    }
    config.agent = "vracer_half_c"  # one of `variants`; its name in records
    config.variants = ml_collections.ConfigDict(variants)
    return config
