"""Section 3.3 of arXiv 1611.01224, without training: the trust region in closed form, and what it costs.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason.
"""

import ml_collections

from paper_configs.acer import atari
from paper_configs.studies import study_config
from repro.config import resolve


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` only check fewer cases.

    Raises:
        ValueError: unknown scale.
    """
    answers = ("solution", "unchanged", "orthogonal", "scaled_down", "added_operations")
    config = study_config("acer", "closed_form", answers, scale, "atari", "any")  # the games are those of `games`

    config.max_statistics = 18  # numbers in phi, sampled from 2 up to this; actions of an Atari game, Section 4
    config.max_delta = 2.0  # delta is sampled uniformly from 0 (assumed) up to this, in nats; Section 6 has 0.1 to 2
    config.games = ("breakout", "pong", "seaquest")  # with 4, 6 and 18 actions; assumed: any of Section 4's
    published = atari.get_config("paper")
    for name, agent in (("trust_region", "acer_ratio_4"), ("no_trust_region", "acer_ratio_4_no_trust_region")):
        published.agent = agent
        config[name] = resolve(published)  # network and unroll of ACER with and without trust region

    config.evaluation.episodes = {"smoke": 4, "desk": 100, "paper": 1000}[scale]  # cases of each answer; assumed
    config.evaluation.num_envs = config.evaluation.episodes  # all at once
    return config
