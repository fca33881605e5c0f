"""IMPALA under a controlled policy lag, on the five levels of Table 2 (assumed): Appendix D.1, Figure D.1.

The lag is the number of updates by which the actors' policy is behind the learner's. In lockstep each round fills one
batch, while the learner learns from the previous one: a lag of 1. Larger lags delay the weights, so that old weights
are kept instead of old batches.
"""

import ml_collections

from paper_configs.impala import dmlab_table2

# Appendix D.1; no correction stands for on-policy learning, too
CORRECTIONS = {"vtrace": "vtrace", "epsilon": "epsilon", "no_correction": "none"}
LAGS = (1, 10, 100)  # updates; assumed: the text prints none


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns `dmlab_table2` in lockstep, with one agent for each correction and lag, and one setting for all."""
    config = dmlab_table2.get_config(scale)
    config.experiment = "dmlab_figure_d1"
    config.variants = ml_collections.ConfigDict(  # agents, each with the fields that it changes
        {
            f"{agent}_lag_{lag}": {"loss": {"correction": correction}, "runtime": {"weights_delay": lag - 1}}
            for agent, correction in CORRECTIONS.items()
            for lag in LAGS
        }
    )
    config.agent = "vtrace_lag_1"  # one of `variants`; its name in records
    config.sweep.sampled = False  # assumed: all agents have the setting of the authors' released code
    config.runtime.schedule = "lockstep"  # for a fixed lag
    config.runtime.lockstep_lag = 1  # rounds between acting and learning, to which `weights_delay` is added
    config.runtime.envs_per_actor = config.learner.batch_size // config.runtime.num_actors  # a round fills one batch
    return config
