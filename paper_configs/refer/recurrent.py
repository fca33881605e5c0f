"""V-RACER with an LSTM on tasks whose velocities are hidden: Section 5.4 of arXiv 1807.05827 on other tasks.

The paper's own task, the flow past a cylinder, needs a solver of the Navier-Stokes equations that is not part of this
suite. Fields shared with V-RACER without memory are those of `figure_4_vracer.py`, with their sources; Section 5.4
changes only the network. Every field set here names its source in the same way.
"""

import ml_collections

from paper_configs.refer import figure_4_vracer


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; the scale changes what `figure_4_vracer` and this function set for it."""
    config = figure_4_vracer.get_config(scale)
    config.experiment = "recurrent"
    plain_replay = {"refer": {"rule": "none"}}
    feed_forward = {"learner": {"method": "vracer"}}
    config.variants = ml_collections.ConfigDict(  # agents with memory and, for comparison, without
        {
            "lstm_refer": {},
            "lstm_er": plain_replay,
            "vracer_refer": feed_forward,
            "vracer_er": feed_forward | plain_replay,
        }
    )
    config.agent = "lstm_refer"  # one of `variants`; its name in records

    config.env.task = "InvertedPendulum"  # or another with observable positions; assumed: no task of the paper
    config.env.observed = "positions"  # velocities are hidden; assumed: makes a task of the paper partially observable

    config.learner.method = "recurrent_vracer"
    config.network.lstm_units = (32, 32)  # widths of the LSTM layers, for agents with memory; Section 5.4
    config.network.window = 16  # W, last steps that the LSTM reads; Section 5.4

    config.runtime.compile = "graph"  # assumed: XLA is slower for unrolled windows on a CPU

    if scale == "smoke":
        config.num_env_steps = 2_000
        config.memory.start_steps = 1_000
    elif scale == "desk":
        config.num_env_steps = 50_000
        config.window_steps = 10_000
        # with the published settings the LSTM learns nothing in so few steps
        config.learner.learning_rate = 1e-3
        config.learner.batch_size = 64
        config.refer.beta_step_size = 1e-3
        config.memory.capacity = 2**14
        config.memory.start_steps = 2**11
    return config
