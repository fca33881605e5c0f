"""IMPALA under a controlled policy lag, on the five levels of Table 2 (assumed): Appendix D.1, Figure D.1.

The lag is the number of updates by which the actors' policy is behind the learner's. In lockstep a round fills one
batch, which is played while the learner learns from the one before: a lag of 1. Further updates of lag are a delay of
the weights, so that old weights are kept, and not old batches.
"""

import ml_collections

from paper_configs.impala import dmlab_table2

CORRECTIONS = {"vtrace": "vtrace", "epsilon": "epsilon", "no_correction": "none"}  # Appendix D.1; no correction stands
# for on-policy learning, too
LAGS = (1, 10, 100)  # updates; assumed: the text prints none


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """`dmlab_table2` in lockstep, with one agent for each correction and lag, and one setting for all of them."""
    config = dmlab_table2.get_config(scale)
    config.experiment = "dmlab_figure_d1"
    config.variants = ml_collections.ConfigDict(  # agents, with the fields that are their own
        {
            f"{agent}_lag_{lag}": {"loss": {"correction": correction}, "runtime": {"weights_delay": lag - 1}}
            for agent, correction in CORRECTIONS.items()
            for lag in LAGS
        }
    )
    config.agent = "vtrace_lag_1"  # one of them, and the name in records
    config.sweep.sampled = False  # assumed: that of the authors' released code is the setting of all agents
    config.runtime.schedule = "lockstep"  # a fixed lag
    config.runtime.lockstep_lag = 1  # rounds between acting and learning; `weights_delay` comes on top
    config.runtime.envs_per_actor = config.learner.batch_size // config.runtime.num_actors  # a round is one batch
    return config
