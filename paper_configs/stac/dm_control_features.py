"""STAC and STACX on DM Control from features: Section 4.2, Figures 3 and 6, Tables 2 and 3 of arXiv 2002.12928.

Every field names its source: a table, figure or section of the paper, or `assumed:` with the reason.
Budgets are in environment steps. `dm_control_pixels.py` and `rwrl.py` start from it.
"""

from typing import Any

import ml_collections
from ml_collections import config_dict

from paper_configs.stac import atari
from paper_configs.stac.atari import METAPARAMETERS, NUM_HEADS, recorded
from repro.config import unknown_scale

AGENTS = ("impala", "impala_aux", "stac", "stacx", "stac_untuned", "stacx_untuned")


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` change only what `apply_scale` sets."""
    config = ml_collections.ConfigDict()
    config.paper = "stac"
    config.experiment = "dm_control_features"
    config.algorithm = "stac.continuous"  # built by repro/papers/stac/experiments/continuous.py
    config.variants = ml_collections.ConfigDict(variants())  # agents, each with the fields that it changes
    config.agent = "stacx"  # one of `variants`; its name in records
    config.scale = scale
    config.num_env_steps = 30_000_000  # environment steps per task; Table 3
    config.recorded = (*recorded(NUM_HEADS), "prior_kl", "std")  # log columns that a record keeps; Section 4.2

    config.env = ml_collections.ConfigDict()
    config.env.name = "dm_control"  # environment suite
    config.env.task = "cartpole_swingup"  # task of the suite; docs/control_tasks.md
    config.env.observed = "features"  # features or pixels; Section 4.2
    config.env.max_steps = 0  # longest episode in steps, 0 = the suite's 1000

    config.network = ml_collections.ConfigDict()
    config.network.torso = "dense"  # dense for features, strided for pixels; Table 2
    config.network.compute_dtype = "float32"  # dtype of image torsos, float32 or bfloat16; assumed: no type is printed
    config.network.units = (256, 256)  # widths of the dense layers; Table 2
    config.network.core_units = 256  # LSTM units; Table 2
    config.network.num_heads = NUM_HEADS  # heads, each a policy and a value; set by each variant
    config.network.head_units = 256  # width of the hidden layers of each head's policy and value; Table 2
    config.network.acting = "first"  # head that acts: first, random or average; Section 3.2
    config.network.gamma_embedding = "none"  # embedding of gamma: none, shared by heads or separate; Section 9.5
    config.network.gamma_embedding_units = 16  # width of the embedding of gamma; assumed: not printed in Section 9.5
    config.network.log_std_min = -4.0  # sigma_min; assumed: not printed in Section 9.3, default of the authors' RLax
    config.network.log_std_max = 0.0  # sigma_max, upper bound on log std; assumed: as sigma_min

    config.loss = ml_collections.ConfigDict()  # zeta, hyper-parameters of the outer loss
    config.loss.discount = 0.99  # gamma per step; Table 3
    config.loss.lambda_ = 1.0  # lambda of the traces; Table 3
    config.loss.alpha = 1.0  # alpha_rho and alpha_c of leaky V-trace, 1 = V-trace; Table 3
    config.loss.truncation = 1.0  # rho_bar and c_bar; Algorithm 2
    config.loss.value_cost = 0.25  # g_v, weight of the squared error without factor 1/2; Table 3
    config.loss.policy_cost = 1.0  # g_p, weight of the policy loss; Table 3
    config.loss.entropy_cost = 0.01  # g_e, weight of the KL to a standard Gaussian; Table 3, Section 4.2

    config.meta = ml_collections.ConfigDict()
    config.meta.tuned = METAPARAMETERS  # eta; set by each variant; Section 3.1
    config.meta.initial = 4.6  # initial eta, before the sigmoid; Table 3
    config.meta.initial_gamma = config_dict.placeholder(float)  # initial eta of gamma, None = `initial`, as in Table 3
    config.meta.kl_cost = 1.0  # g_kl, weight of the KL in the outer loss; Table 3
    config.meta.learning_rate = 1e-3  # Adam's learning rate; Table 3
    config.meta.beta_1 = 0.9  # Adam's b1; Table 3
    config.meta.beta_2 = 0.999  # Adam's b2; Table 3
    config.meta.epsilon = 1e-4  # Adam's epsilon; Table 3

    config.learner = ml_collections.ConfigDict()
    config.learner.unroll_length = 40  # n, steps; Table 3
    config.learner.overlap = 30  # steps that an unroll shares with the previous one; Table 3
    config.learner.burn_in = 30  # first steps, which only warm up the LSTM; assumed: repro/papers/stac/README.md
    config.learner.batch_size = 24  # m, unrolls per update; Table 3
    config.learner.learning_rate = 1e-3  # at the first update; Table 3
    config.learner.final_learning_rate = 1e-4  # at the last step; Table 3 (assumed: linear in between, as IMPALA's)
    config.learner.rmsprop_decay = 0.99  # Table 3
    config.learner.rmsprop_momentum = 0.0  # IMPALA, Table F.1
    config.learner.rmsprop_epsilon = 0.1  # Table 3 (assumed: inside the square root, as TensorFlow 1 has it)
    config.learner.clip_global_norm = 40.0  # 0 = no clip; IMPALA, Table F.1; assumed: Table 3 has no clip

    config.runtime = ml_collections.ConfigDict()
    config.runtime.num_actors = 1  # actor threads; assumed: simulations are cheap beside the learner
    config.runtime.envs_per_actor = 24  # simulations; assumed: one for each unroll of a batch
    config.runtime.num_learners = 1  # learner processes, each with its share of every batch; docs/cluster.md
    config.runtime.schedule = "async"  # async, lockstep (bit-identical from run to run) or processes
    config.runtime.lockstep_lag = 1  # rounds between acting and learning, with schedule lockstep
    config.runtime.queue_capacity = 1  # most batches in the queue, which bounds the lag; assumed: no size is printed
    config.runtime.threads = 1  # TensorFlow's, 0 = one per core; matrices this small gain nothing from more
    config.runtime.compile = "auto"  # auto, xla or graph
    config.runtime.checkpoint_seconds = 60.0  # time between two checkpoints
    config.runtime.silent_seconds = 1800.0  # time without an unroll until an actor is replaced; assumed: it hangs then
    config.runtime.evaluator_episodes = 0  # evaluator's episodes, 0 = none, with schedule processes; docs/cluster.md

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = 50  # assumed, and so is an evaluation instead of training's last episodes
    config.evaluation.num_envs = 10  # simulations side by side; divides `episodes`
    config.evaluation.greedy = False  # False = actions are sampled from the policy; assumed: not specified in the paper

    return apply_scale(config)


def variants() -> dict[str, dict[str, Any]]:
    """Returns the agents of Figure 3 and `_untuned` ones as in `atari.py`, each with the fields that it changes."""
    of_atari = atari.variants()
    return {name: of_atari[name] for name in AGENTS}


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes the published settings to those of the configuration's scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # about a minute, only to check that it runs
        config.num_env_steps = 24_000
        config.network.units = (32,)
        config.network.core_units = 32
        config.network.head_units = 32
        config.evaluation.episodes = 10
        config.runtime.checkpoint_seconds = 5.0
    elif config.scale == "desk":
        config.num_env_steps = 3_000_000  # a tenth of the paper's; assumed: less than an hour on one core
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    return config
