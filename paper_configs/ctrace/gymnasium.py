"""DQN and R2D2 with C-trace on any Gymnasium environment with discrete actions; docs/custom_environment.md.

No paper prints these settings: they are those of `dqn.py` and `r2d2.py`, with their sources, except the fields below.
Budgets are in environment steps.
"""

import ml_collections

from paper_configs import custom
from paper_configs.ctrace import dqn, r2d2


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns settings that learn CartPole; `smoke` is shorter, `paper` the same as `desk`."""
    config = dqn.get_config(scale)
    config.experiment = "gymnasium"
    del config.num_env_frames
    config.num_env_steps = 10_000 if scale == "smoke" else 100_000  # environment steps

    config.env = custom.environment("CartPole-v1")

    config.network.torso = "dense"  # dense for vectors, nature or shallow for images
    config.network.units = (64, 64)  # widths of the dense layers

    config.exploration.last = 0.02
    config.exploration.frames = 20_000  # annealing time in steps

    config.replay.frames = 50_000  # capacity in steps
    config.replay.first_frames = 1_000  # steps before learning

    config.learner.batch_size = 8  # sequences per update
    config.learner.steps_per_update = 2  # steps of each environment between two gradient steps
    config.learner.learning_rate = 1e-3
    config.learner.target_period = 200

    config.evaluation.episodes = 100
    config.evaluation.num_envs = 10

    config.runtime.envs_per_actor = 8  # environments side by side
    config.runtime.compile = "xla"  # faster for small networks, on a CPU too
    config.runtime.threads = 1  # TensorFlow's, 0 = one per core; matrices this small gain nothing from more
    config.runtime.checkpoint_seconds = 60.0

    config.variants = ml_collections.ConfigDict(
        {**dqn.variants(config.learner.batch_size * config.replay.steps), **recurrent()}
    )
    return config


def recurrent() -> dict[str, ml_collections.ConfigDict]:
    """Returns the agents with memory and their own fields: those of `r2d2.py` at desk scale, except those set below.

    They are evaluated like all agents, with the epsilon of `dqn.py`, 0.05, where `r2d2.py` has 0.01.
    """
    config = r2d2.get_config("desk")
    config.network.torso = "dense"
    config.network.units = (64,)
    config.network.core_units = 64
    config.network.dueling_units = 64
    config.loss.discount = 0.99  # gamma; smaller, as episodes are shorter than Atari's
    config.exploration.spread = 4.0  # smaller: of few environments, fewer should explore hardly at all
    config.replay.steps = 10
    config.replay.burn_in = 5
    config.replay.period = 5
    config.replay.sequences = 5_000
    config.replay.first_frames = 2_000  # steps before learning
    config.learner.learning_rate = 1e-3
    config.learner.adam_epsilon = 1e-3  # that of scale `paper`
    config.learner.target_period = 100
    config.learner.publish_steps = 5
    config.runtime.envs_per_actor = 8
    config.runtime.threads = 1
    config.runtime.checkpoint_seconds = 60.0
    own = ml_collections.ConfigDict({"algorithm": config.algorithm, "env": {"last_action_and_reward": True}})
    for section in ("network", "exploration", "replay", "learner", "runtime"):
        own[section] = config[section]
    del own.runtime.schedule  # the same for all agents, as `--cluster` changes it
    agents = {}
    for name, fields in config.variants.items():
        agents[f"r2d2_{name}"] = own.copy_and_resolve_references()
        agents[f"r2d2_{name}"].loss = config.loss.copy_and_resolve_references()
        agents[f"r2d2_{name}"].loss.update(fields.loss)
    return agents
