"""IMPALA on scenarios of ViZDoom, 3D levels whose engine installs with pip; docs/vizdoom.md.

No experiment of the paper, and no paper prints these settings. They are those of `dmlab_table2.py`, sources included,
but for the fields below. Budgets are in environment frames (of the engine; one agent step is `env.frame_skip` of them).
"""

import ml_collections

from paper_configs.impala import dmlab_table2


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Settings for any scenario; `smoke` and `desk` also change what `dmlab_table2.apply_scale` names."""
    config = dmlab_table2.get_config(scale)
    config.experiment = "vizdoom"
    config.variants = ml_collections.ConfigDict(  # agents, with the fields that are their own
        {"vtrace": {}, "vtrace_deep": {"network": {"torso": "deep"}}}
    )
    del config.sweep  # one setting
    if scale == "paper":
        config.num_env_frames = 100_000_000  # frames per scenario

    config.loss.entropy_cost = 3e-3  # twelve times that of levels, whose episodes are longer
    config.learner.unroll_length = 20  # agent steps; more updates per frame

    config.env = ml_collections.ConfigDict()
    config.env.name = "vizdoom"  # the package of environments
    config.env.task = "defend_the_center"  # scenario
    config.env.frame_skip = 4  # frames an action is held for
    config.env.height = 72  # pixels, of the engine's 120
    config.env.width = 96  # pixels, of the engine's 160
    config.env.reward_clip = "unit"  # [-1, 1]
    config.env.last_action_and_reward = True  # inputs of the LSTM
    return config
