"""IMPALA on 57 Atari games, one agent for all: Section 5.3.2, Table 4 and Table C.1 (version 3), column "multi-task".

The paper adapts four fields by population-based training; here they keep the values of the experts.
Budgets are in emulator frames of each game, 200 million at scale `paper` (Section 5.3.2).
"""

import ml_collections

from paper_configs.impala import atari_deep
from repro.config import unknown_scale
from repro.evidence import published

GAMES_10 = (
    "asteroids",
    "beam_rider",
    "breakout",
    "enduro",
    "ms_pacman",
    "pong",
    "qbert",
    "road_runner",
    "seaquest",
    "space_invaders",
)
"""Games at scale `desk`: those that public collections of trained agents have."""
GAMES_2 = ("breakout", "pong")
"""Games at scale `smoke`."""


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns `atari_deep` on all games at once, with the fields that differ."""
    config = atari_deep.get_config("paper")
    config.experiment = "atari_57"
    config.agent = "impala_multitask"
    config.scale = scale
    config.env.task = "atari_57"  # names the set of games
    config.env.tasks = tuple(sorted(published.normaliser("atari57")))  # learned together; Section 5.3.2
    config.env.full_action_set = True  # True = the same 18 actions in all games; Appendix F
    config.runtime.num_actors = 57  # assumed: one per game; the paper prints no number
    config.runtime.envs_per_actor = 1  # games; Section 5.3
    config.evaluation.normaliser = "atari57"  # random and human scores for `capped_score`; assumed: none is printed
    return apply_scale(config)


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes the published settings to those of the configuration's scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # about a minute, only to check that it runs
        config.env.tasks = GAMES_2
        config.num_env_frames = 20_000
        config.env.max_frames = 8_000
        config.runtime.num_actors = 2
        config.runtime.envs_per_actor = 16  # eight of each game
        config.runtime.checkpoint_seconds = 5.0
        config.evaluation.episodes = 4
        config.evaluation.num_envs = 4
    elif config.scale == "desk":  # about three hours on two cores
        config.env.tasks = GAMES_10
        config.num_env_frames = 1_000_000
        config.learner.batch_size = 10  # three times the updates per frame; one unroll per game
        config.learner.rmsprop_epsilon = 1e-5  # assumed: 0.01 would damp the small gradients of a small batch
        config.runtime.num_actors = 2
        config.runtime.envs_per_actor = 10  # one of each game
        config.evaluation.episodes = 50
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    return config
