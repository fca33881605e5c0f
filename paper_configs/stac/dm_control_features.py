"""STAC and STACX on DM Control from features: Section 4.2, Figures 3 and 6, Tables 2 and 3 of arXiv 2002.12928.

Every field names its source: a table, figure or section of the paper, or `assumed:` with the reason.
Budgets are in environment steps. `dm_control_pixels.py` and `rwrl.py` are made from it.
"""

from typing import Any

import ml_collections
from ml_collections import config_dict

from paper_configs.stac import atari
from paper_configs.stac.atari import METAPARAMETERS, NUM_HEADS, recorded
from repro.config import unknown_scale

AGENTS = ("impala", "impala_aux", "stac", "stacx", "stac_untuned", "stacx_untuned")


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """The published settings; `smoke` and `desk` change what `apply_scale` names, and nothing else."""
    config = ml_collections.ConfigDict()
    config.paper = "stac"
    config.experiment = "dm_control_features"
    config.algorithm = "stac.continuous"  # builds it: repro/papers/stac/experiments/continuous.py
    config.variants = ml_collections.ConfigDict(variants())  # agents, with the fields that are their own
    config.agent = "stacx"  # one of them, and the name in records
    config.scale = scale
    config.num_env_steps = 30_000_000  # environment steps per task; Table 3
    config.recorded = (*recorded(NUM_HEADS), "prior_kl", "std")  # columns of the log that a record keeps; Section 4.2

    config.env = ml_collections.ConfigDict()
    config.env.name = "dm_control"  # the package of environments
    config.env.task = "cartpole_swingup"  # one of the suite; docs/control_tasks.md
    config.env.observed = "features"  # or pixels; Section 4.2
    config.env.max_steps = 0  # steps of an episode, 0 = the suite's 1000

    config.network = ml_collections.ConfigDict()
    config.network.torso = "dense"  # strided for pixels; Table 2
    config.network.compute_dtype = "float32"  # of a torso of images, or bfloat16; assumed: no type is printed
    config.network.units = (256, 256)  # of the dense layers; Table 2
    config.network.core_units = 256  # of the LSTM; Table 2
    config.network.num_heads = NUM_HEADS  # policies with a value each; set by each variant
    config.network.head_units = 256  # of the hidden layer of each policy and value; Table 2
    config.network.acting = "first"  # the head that acts: first, random or average; Section 3.2
    config.network.log_std_min = -4.0  # sigma_min; assumed: not printed in Section 9.3, default of the authors' RLax
    config.network.log_std_max = 0.0  # sigma_max; assumed, as sigma_min

    config.loss = ml_collections.ConfigDict()  # zeta, of the outer loss
    config.loss.discount = 0.99  # gamma per step; Table 3
    config.loss.lambda_ = 1.0  # Table 3
    config.loss.alpha = 1.0  # of both weights, 1 = V-trace; Table 3
    config.loss.truncation = 1.0  # rho_bar and c_bar; Algorithm 2
    config.loss.value_cost = 0.25  # g_v, of the squared error without 1/2; Table 3
    config.loss.policy_cost = 1.0  # g_p; Table 3
    config.loss.entropy_cost = 0.01  # g_e, of the KL to a standard Gaussian; Table 3, Section 4.2

    config.meta = ml_collections.ConfigDict()
    config.meta.tuned = METAPARAMETERS  # eta; set by each variant; Section 3.1
    config.meta.initial = 4.6  # eta at the start, before the sigmoid; Table 3
    config.meta.initial_gamma = config_dict.placeholder(float)  # gamma's own; None: `initial`, as Table 3 has it
    config.meta.kl_cost = 1.0  # g_kl; Table 3
    config.meta.learning_rate = 1e-3  # of Adam; Table 3
    config.meta.beta_1 = 0.9  # b1 of Adam; Table 3
    config.meta.beta_2 = 0.999  # b2 of Adam; Table 3
    config.meta.epsilon = 1e-4  # of Adam; Table 3

    config.learner = ml_collections.ConfigDict()
    config.learner.unroll_length = 40  # n, steps; Table 3
    config.learner.overlap = 30  # steps that an unroll shares with the one before it; Table 3
    config.learner.burn_in = 30  # steps at its beginning that only warm the LSTM; assumed: repro/papers/stac/README.md
    config.learner.batch_size = 24  # m, unrolls per update; Table 3
    config.learner.learning_rate = 1e-3  # at the first update; Table 3
    config.learner.final_learning_rate = 1e-4  # at the last step; Table 3 (assumed: linear in between, as IMPALA's)
    config.learner.rmsprop_decay = 0.99  # Table 3
    config.learner.rmsprop_momentum = 0.0  # IMPALA, Table F.1
    config.learner.rmsprop_epsilon = 0.1  # Table 3 (assumed: inside the square root, as TensorFlow 1 has it)
    config.learner.clip_global_norm = 40.0  # 0 = none; IMPALA, Table F.1; assumed: Table 3 has no clip

    config.runtime = ml_collections.ConfigDict()
    config.runtime.num_actors = 1  # threads; assumed: simulations are cheap beside the learner
    config.runtime.envs_per_actor = 24  # simulations; assumed: one for each unroll of a batch
    config.runtime.num_learners = 1  # processes that learn from a share of each batch; docs/cluster.md
    config.runtime.schedule = "async"  # async, or lockstep: the same bits each time
    config.runtime.lockstep_lag = 1  # rounds between acting and learning in lockstep
    config.runtime.queue_capacity = 1  # batches that wait for the learner, bounds the lag; assumed: no size is printed
    config.runtime.threads = 1  # of TensorFlow; matrices this small gain nothing from more
    config.runtime.compile = "auto"  # auto, xla or graph
    config.runtime.checkpoint_seconds = 60.0  # between two checkpoints
    config.runtime.silent_seconds = 1800.0  # without an unroll until an actor is replaced; assumed: it hangs then
    config.runtime.evaluator_episodes = 0  # of an evaluator beside training, with schedule processes; docs/cluster.md

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = 50  # assumed, as that an evaluation is meant, not the last episodes of training
    config.evaluation.num_envs = 10  # simulations side by side; divides `episodes`
    config.evaluation.greedy = False  # sample from the policy; assumed: the paper does not say

    return apply_scale(config)


def variants() -> dict[str, dict[str, Any]]:
    """The agents of Figure 3, and `_untuned` as in `atari.py`, with the fields that are their own."""
    of_atari = atari.variants()
    return {name: of_atari[name] for name in AGENTS}


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes a configuration of the published settings to its scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # about a minute: proves the path
        config.num_env_steps = 24_000
        config.network.units = (32,)
        config.network.core_units = 32
        config.network.head_units = 32
        config.evaluation.episodes = 10
        config.runtime.checkpoint_seconds = 5.0
    elif config.scale == "desk":
        config.num_env_steps = 3_000_000  # a tenth; assumed: below an hour of one core
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    return config
