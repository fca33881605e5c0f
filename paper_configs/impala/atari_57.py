"""IMPALA on 57 Atari games, one agent for all: Section 5.3.2, Table 4 and Table C.1 (version 3), column "multi-task".

Population-based training, by which the paper adapts four fields, is not part of it: they have the experts' values.
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
"""Games of the scale `desk`: those that public collections of trained agents have."""
GAMES_2 = ("breakout", "pong")
"""Games of the scale `smoke`."""


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """`atari_deep` with all games at once; the rest of what differs stands here."""
    config = atari_deep.get_config("paper")
    config.experiment = "atari_57"
    config.agent = "impala_multitask"
    config.scale = scale
    config.env.task = "atari_57"  # names the set of games
    config.env.tasks = tuple(sorted(published.normaliser("atari57")))  # learned together; Section 5.3.2
    config.env.full_action_set = True  # the same 18 actions in all games; Appendix F
    config.runtime.num_actors = 57  # assumed: a game each; the paper prints no number
    config.runtime.envs_per_actor = 1  # games; Section 5.3
    config.evaluation.normaliser = "atari57"  # scores of `capped_score` in logs; assumed: the paper prints none
    return apply_scale(config)


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes a configuration of the published settings to its scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # about a minute: proves the path
        config.env.tasks = GAMES_2
        config.num_env_frames = 20_000
        config.env.max_frames = 8_000
        config.runtime.num_actors = 2
        config.runtime.envs_per_actor = 16  # eight of each game
        config.runtime.checkpoint_seconds = 5.0
        config.evaluation.episodes = 4
        config.evaluation.num_envs = 4
    elif config.scale == "desk":  # about three hours of two cores
        config.env.tasks = GAMES_10
        config.num_env_frames = 1_000_000
        config.learner.batch_size = 10  # three times the updates per frame, and a game each
        config.learner.rmsprop_epsilon = 1e-5  # assumed: 0.01 would damp the small gradients of a small batch
        config.runtime.num_actors = 2
        config.runtime.envs_per_actor = 10  # a game each
        config.evaluation.episodes = 50
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    return config
