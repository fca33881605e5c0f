"""STAC and STACX on DM Control from pixels: Section 4.2, Figures 3 and 7, Tables 2 and 3 of arXiv 2002.12928.

The settings are those of `dm_control_features.py`, with their sources, except the fields below.
"""

import ml_collections

from paper_configs.stac import dm_control_features


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` are as for features, with fewer steps and small images."""
    config = dm_control_features.get_config(scale)
    config.experiment = "dm_control_pixels"
    config.env.observed = "pixels"  # Section 4.2
    config.env.image_size = 84  # pixels of a side; assumed: none is printed; users of the suite take this one
    config.env.shadow_size = 0  # side of the shadow map in pixels, 0 = the suite's 2048
    config.network.torso = "strided"  # three residual sections with strides; Table 2
    del config.network.units
    if scale == "smoke":
        config.num_env_steps = 4_800
        config.env.image_size = 24
        config.env.shadow_size = 64
        config.env.max_steps = 200
    elif scale == "desk":
        config.num_env_steps = 600_000  # a fiftieth of the paper's; assumed: two hours on one core
        config.env.image_size = 48  # a third of the arithmetic
        config.env.shadow_size = 256  # a third of the rendering time, for almost the same image; docs/control_tasks.md
    return config
