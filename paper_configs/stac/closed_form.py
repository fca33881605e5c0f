"""Statements of arXiv 2002.12928 that need no training: Sections 3, 3.1 and 9.3.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.stac import atari, dm_control_features
from paper_configs.studies import study_config
from repro.config import resolve

ANSWERS = (
    "jump_of_derivative",
    "kink_of_slope",
    "slope_above_level",
    "saturated_levels",
    "initial_gradient",
    "metaparameter_bounds",
    "density_integral",
    "largest_action",
)


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` only check fewer cases.

    Raises:
        ValueError: unknown scale.
    """
    config = study_config("stac", "closed_form", ANSWERS, scale, "atari", "any")  # nothing is played

    on_atari = atari.get_config("paper")
    on_atari.agent = "stac"
    config.atari = resolve(on_atari)  # metaparameters and outer loss of STAC, length of an unroll
    config.control = resolve(dm_control_features.get_config("paper"))  # bounds on std

    config.evaluation.episodes = {"smoke": 20, "desk": 100, "paper": 1000}[scale]  # cases on which an answer is checked
    config.evaluation.num_envs = 1  # all at once
    return config
