"""Population-based training on any Gymnasium environment with discrete actions; docs/custom_environment.md.

No paper prints these settings: they are those of `gymnasium.py` and, in the section `population`, of
`atari_population.py`, with their sources, except the fields below. Budgets are in environment steps of each member.
"""

import ml_collections

from paper_configs.impala import atari_population, gymnasium


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns settings that learn CartPole; `smoke` is shorter, `paper` has a larger population."""
    config = gymnasium.get_config(scale)
    config.experiment = "gymnasium_population"
    config.variants = atari_population.variants()
    config.agent = "pbt"  # one of `variants`; its name in records
    config.runtime.schedule = "lockstep"  # assumed: so that a member continues its games after a comparison
    config.population = atari_population.population("")  # "": the fitness is the mean return
    config.population.size = {"smoke": 2, "desk": 8, "paper": 24}[scale]  # members
    config.population.burn_in = config.num_env_steps // 10  # environment steps
    config.population.interval = config.num_env_steps // (4 if scale == "smoke" else 40)  # environment steps
    config.population.episodes = 20
    config.population.threshold = 25.0  # lead in mean return, 5 % of CartPole's largest return
    return config
