"""IMPALA with population-based training on DMLab-30: Appendix E, and the 49.4 of Table 3 and Table B.1.

Each member is the deep agent of `dmlab_30.py`, which learns all levels. Fields that are not set here are those of that
file, with their sources. Budgets are in environment frames of each level and member; in the section `population` they
are frames of a member on all levels together.
"""

import ml_collections

from paper_configs.impala import atari_population, dmlab_30
from repro.config import resolve, total_budget

LEVELS_2 = ("rooms_select_nonmatching_object", "rooms_collect_good_objects_test")
"""Levels at scale `smoke`: two with short episodes, since each interval starts new ones."""


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` change only what both modules' `apply_scale` set."""
    config = dmlab_30.get_config(scale)
    config.agent = "impala_deep"
    config = resolve(config)
    config.experiment = "dmlab_30_population"
    config.variants = atari_population.variants()
    config.agent = "pbt"  # one of `variants`; its name in records
    config.env.stagger_steps = 0  # no cuts: each interval starts new episodes, and cut ones would count as returns
    config.population = atari_population.population("dmlab30")
    config.population.interval = 20_000_000  # assumed: that of single tasks would end no episode of the longest levels
    return apply_scale(config)


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes the published settings to those of the configuration's scale."""
    if config.scale == "smoke":
        config.env.tasks = LEVELS_2
        config.num_env_frames = 40_000
    budget = total_budget(config)[1]
    atari_population.apply_scale(config, budget)
    if config.scale == "desk":
        config.population.interval = budget // 10  # seven minutes in each environment; the longest episode takes five
    return config
