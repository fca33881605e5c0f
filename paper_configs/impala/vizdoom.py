"""IMPALA on scenarios of ViZDoom, 3D levels whose engine installs with pip; docs/vizdoom.md.

This is no experiment of the paper, and no paper prints these settings: they are those of `dmlab_table2.py`, with their
sources, except the fields below. Budgets are in environment frames (of the engine; one agent step is `env.frame_skip`
of them).
"""

import ml_collections

from paper_configs.impala import dmlab_table2


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns settings for any scenario; `smoke` and `desk` also change what `dmlab_table2.apply_scale` sets."""
    config = dmlab_table2.get_config(scale)
    config.experiment = "vizdoom"
    config.variants = ml_collections.ConfigDict(  # agents, each with the fields that it changes
        {"vtrace": {}, "vtrace_deep": {"network": {"torso": "deep"}}}
    )
    del config.sweep  # one setting
    if scale == "paper":
        config.num_env_frames = 100_000_000  # frames per scenario

    config.loss.entropy_cost = 3e-3  # twelve times that of DeepMind Lab, whose episodes are longer
    config.learner.unroll_length = 20  # agent steps; more updates per frame

    config.env = ml_collections.ConfigDict()
    config.env.name = "vizdoom"  # environment suite
    config.env.task = "defend_the_center"  # scenario
    config.env.frame_skip = 4  # frames for which an action is repeated
    config.env.height = 72  # pixels, resized from the engine's 120
    config.env.width = 96  # pixels, resized from the engine's 160
    config.env.reward_clip = "unit"  # unit ([-1, 1]), optimistic, optimistic_released or none
    config.env.last_action_and_reward = True  # True = inputs of the LSTM
    return config
