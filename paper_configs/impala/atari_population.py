"""IMPALA with population-based training on one Atari game: Appendix E, and Table F.1 of the multi-task agent.

The paper evolves agents of all 57 games at once; here each member plays one game, with the shallow network. Fields
that are not set here are those of `atari_shallow.py`, with their sources. Budgets are in environment frames of each
member.
"""

import ml_collections

from paper_configs.impala import atari_shallow


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` change only what both modules' `apply_scale` set."""
    config = atari_shallow.get_config(scale)
    config.experiment = "atari_population"
    config.variants = variants()
    config.agent = "pbt"  # one of `variants`; its name in records
    config.runtime.schedule = "lockstep"  # assumed: so that a member continues its games after a comparison
    config.population = population("atari57")
    config.population.clip_global_norm = (40.0,)  # adapted, too; Table F.1; assumed: starts from the fixed value
    return apply_scale(config, config.num_env_frames)


def variants() -> ml_collections.ConfigDict:
    """Returns the agents: population-based training, and a random search with as many members and frames."""
    return ml_collections.ConfigDict({"pbt": {}, "random_search": {"population": {"evolves": False}}})


def population(normaliser: str) -> ml_collections.ConfigDict:
    """Returns the section `population` as published."""
    section = ml_collections.ConfigDict()
    section.size = 24  # members; Table C.1, Table F.1
    section.evolves = True  # False = a random search at the same cost
    section.burn_in = 20_000_000  # frames of each member without evolution; Appendix E
    section.interval = 1_000_000  # frames between moments at which members may be compared; assumed: none is printed
    section.episodes = 5_000  # returns that a member collects before it is compared; Appendix E
    section.normaliser = normaliser  # scores for the fitness, the mean capped human-normalised score; Appendix E
    section.threshold = 0.05  # lead in score, absolute, above which a member's weights are adopted; Appendix E
    section.probability = 0.33  # probability that a hyper-parameter changes; Appendix E
    section.factor = 1.2  # factor of a change, up or down (1/1.2); Appendix E
    section.entropy_cost = (5e-5, 1e-2)  # range of initial values, sampled log-uniformly; Table C.1
    # range of initial values, sampled log-uniformly; annealed only without evolution; Table C.1, Figure E.1
    section.learning_rate = (5e-6, 5e-3)
    section.rmsprop_epsilon = (1e-1, 1e-3, 1e-5, 1e-7)  # initial values, one of them is sampled; Table C.1
    section.clip_global_norm = ()  # initial values, one of them is sampled; empty: not adapted; Appendix E
    return section


def apply_scale(config: ml_collections.ConfigDict, budget: int) -> ml_collections.ConfigDict:
    """Changes the published section `population` to that of the scale, given the budget of each member in frames."""
    section = config.population
    if config.scale == "smoke":  # only to check that it runs
        section.size = 2
        section.burn_in = budget // 4
        section.interval = budget // 4
        section.episodes = 1
    elif config.scale == "desk":
        section.size = 8
        section.burn_in = budget // 10  # a share of the budget, as the paper's burn-in is longer than the whole budget
        section.interval = budget // 40
        section.episodes = 100  # with 5000 there would be none of the 40 or so comparisons
    return config
