"""V-RACER and DDPG with ReF-ER on any Gymnasium environment with continuous actions; docs/custom_environment.md.

No paper prints these settings: they are those of `figure_4_vracer.py` and `figure_1_ddpg.py`, with their sources,
except the fields below. Budgets are in environment steps.
"""

import ml_collections

from paper_configs import custom
from paper_configs.refer import figure_1_ddpg, figure_4_vracer

V_RACER_ALONE = {"network": ("initial_variance", "advantage"), "refer": ("max_log_ratio", "value_target")}
"""Fields of `figure_4_vracer.py` that DDPG does not read."""


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns settings that learn Pendulum; `smoke` is shorter, `paper` the same as `desk`."""
    config = figure_4_vracer.get_config(scale)
    config.experiment = "gymnasium"
    config.num_env_steps = 10_000 if scale == "smoke" else 100_000  # environment steps on top of memory.start_steps
    config.window_steps = 10_000  # last steps; the result is the mean return of episodes that end in them

    config.env = custom.environment("Pendulum-v1")

    config.learner.learning_rate = 1e-3
    config.refer.beta_step_size = 1e-3
    config.memory.capacity = 2**16
    config.memory.start_steps = 2_000

    del config.ppo  # no agent here is PPO
    vracer = {section: {name: config[section][name] for name in names} for section, names in V_RACER_ALONE.items()}
    for section, names in V_RACER_ALONE.items():
        for name in names:
            del config[section][name]
    ddpg = figure_1_ddpg.get_config(scale)
    fields = {"method", "batch_size", "weight_decay", "target_update"}
    learner = {name: ddpg.learner[name] for name in sorted(fields)} | {"policy_learning_rate": 1e-3}
    config.variants = ml_collections.ConfigDict(  # agents, each with the fields that it changes
        {
            "vracer_refer": vracer,
            "ddpg_refer": {
                "learner": learner,
                "exploration": ddpg.exploration,
                "prioritised": {"annealing": ddpg.prioritised.annealing},
                "recorded": ddpg.recorded,
            },
        }
    )
    return config
