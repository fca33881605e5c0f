"""IMPALA with population-based training on one Atari game: Appendix E, and Table F.1 of the multi-task agent.

The paper evolves agents of all 57 games at once; here each member plays one game, with the shallow network. Fields
that are not named here are those of `atari_shallow.py`, sources included. Budgets are in environment frames of each
member.
"""

import ml_collections

from paper_configs.impala import atari_shallow


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """The published settings; `smoke` and `desk` change what `atari_shallow.apply_scale` and `apply_scale` name."""
    config = atari_shallow.get_config(scale)
    config.experiment = "atari_population"
    config.variants = variants()
    config.agent = "pbt"  # one of them, and the name in records
    config.runtime.schedule = "lockstep"  # assumed: a member goes on with its games after a comparison
    config.population = population("atari57")
    config.population.clip_global_norm = (40.0,)  # adapted too, by Table F.1; assumed: from its fixed value
    return apply_scale(config, config.num_env_frames)


def variants() -> ml_collections.ConfigDict:
    """Evolution, and a random search with as many members and frames."""
    return ml_collections.ConfigDict({"pbt": {}, "random_search": {"population": {"evolves": False}}})


def population(normaliser: str) -> ml_collections.ConfigDict:
    """The section `population` as published."""
    section = ml_collections.ConfigDict()
    section.size = 24  # members; Table C.1, Table F.1
    section.evolves = True  # False: a random search of the same cost
    section.burn_in = 20_000_000  # frames of each member without evolution; Appendix E
    section.interval = 1_000_000  # frames between moments at which members may be compared; assumed: none is printed
    section.episodes = 5_000  # returns that a member collects before it is compared; Appendix E
    section.normaliser = normaliser  # human and random scores; mean capped human-normalised score, Appendix E
    section.threshold = 0.05  # of the score, absolute: another member's weights are adopted above it; Appendix E
    section.probability = 0.33  # of changing each hyper-parameter; Appendix E
    section.factor = 1.2  # or 1/1.2, by which it changes; Appendix E
    section.entropy_cost = (5e-5, 1e-2)  # first values, log-uniform; Table C.1
    section.learning_rate = (
        5e-6,
        5e-3,
    )  # first values, log-uniform, annealed without evolution alone; Table C.1, Figure E.1
    section.rmsprop_epsilon = (1e-1, 1e-3, 1e-5, 1e-7)  # first values, one of them; Table C.1
    section.clip_global_norm = ()  # none: not adapted; Appendix E
    return section


def apply_scale(config: ml_collections.ConfigDict, budget: int) -> ml_collections.ConfigDict:
    """Changes the section `population` of the published settings to a scale, where each member has a budget."""
    section = config.population
    if config.scale == "smoke":  # proves the path
        section.size = 2
        section.burn_in = budget // 4
        section.interval = budget // 4
        section.episodes = 1
    elif config.scale == "desk":
        section.size = 8
        section.burn_in = budget // 10  # a share of the budget, since the paper's is above all of it
        section.interval = budget // 40
        section.episodes = 100  # some 40 comparisons would be none with 5000
    return config
