"""IMPALA with population-based training on one level of DeepMind Lab: Appendix E.

The paper evolves agents of all 30 levels of DMLab-30 at once; here each member plays one of them. Fields that are not
set here are those of `dmlab_table2.py`, with their sources. Budgets are in environment frames of each member.
"""

import ml_collections

from paper_configs.impala import atari_population, dmlab_table2


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` change only what both modules' `apply_scale` set."""
    config = dmlab_table2.get_config(scale)
    config.experiment = "dmlab_population"
    config.variants = atari_population.variants()
    config.agent = "pbt"  # one of `variants`; its name in records
    config.sweep.sampled = False  # the population samples its own
    config.env.stagger_steps = 0  # no cuts: each interval starts new episodes, and cut ones would count as returns
    config.env.task = "explore_goal_locations_small"  # level of DMLab-30 that is in Table 2 as well
    if scale == "smoke":
        config.env.task = "rooms_select_nonmatching_object"  # level with short episodes, which end within an interval
    config.population = atari_population.population("dmlab30")
    return atari_population.apply_scale(config, config.num_env_frames)
