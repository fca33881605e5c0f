"""IMPALA with population-based training on DMLab-30: Appendix E, and the 49.4 of Table 3 and Table B.1.

Each member is the deep agent of `dmlab_30.py`, which has all levels. Fields that are not named here are those of that
file, sources included. Budgets are in environment frames of each level and member; those of the section `population`
are of all levels of a member together.
"""

import ml_collections

from paper_configs.impala import atari_population, dmlab_30
from repro.config import resolve, total_budget

LEVELS_2 = ("rooms_select_nonmatching_object", "rooms_collect_good_objects_test")
"""Levels of the scale `smoke`: of those with short episodes, since a piece begins new ones."""


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """The published settings; `smoke` and `desk` change what `dmlab_30.apply_scale` and `apply_scale` name."""
    config = dmlab_30.get_config(scale)
    config.agent = "impala_deep"
    config = resolve(config)
    config.experiment = "dmlab_30_population"
    config.variants = atari_population.variants()
    config.agent = "pbt"  # one of them, and the name in records
    config.env.stagger_steps = 0  # a piece begins new episodes, and those that are cut would count as returns
    config.population = atari_population.population("dmlab30")
    config.population.interval = 20_000_000  # assumed: that of single tasks would end no episode of the longest levels
    return apply_scale(config)


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes a configuration of the published settings to its scale."""
    if config.scale == "smoke":
        config.env.tasks = LEVELS_2
        config.num_env_frames = 40_000
    budget = total_budget(config)[1]
    atari_population.apply_scale(config, budget)
    if config.scale == "desk":
        config.population.interval = budget // 10  # seven minutes of each environment; the longest episode has five
    return config
