"""STAC and STACX on Atari, their baselines and ablations: Figures 2 and 5, Sections 4.3, 9.3 and 9.5, arXiv 2002.12928.

Every field names its source: a table, figure or section of the paper, or `assumed:` with the reason. Fields that the
paper leaves to earlier work ("the same ALE setup that was used in Espeholt et al., 2018", Section 4.1) name IMPALA and
its table.
Budgets are in environment frames (emulator frames; one agent step is `env.frame_skip` of them).
"""

from typing import Any

import ml_collections
from ml_collections import config_dict

from repro.config import unknown_scale

NUM_HEADS = 3  # heads of STACX; Section 3.2
METAPARAMETERS = ("gamma", "lambda", "alpha", "g_v", "g_p", "g_e")  # Section 3.1
TWO_ALPHAS = ("gamma", "lambda", "alpha_rho", "alpha_c", "g_v", "g_p", "g_e")  # Section 4.3


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` change only what `apply_scale` sets."""
    config = ml_collections.ConfigDict()
    config.paper = "stac"
    config.experiment = "atari"
    config.algorithm = "stac.discrete"  # built by repro/papers/stac/experiments/discrete.py
    config.variants = ml_collections.ConfigDict(variants())  # agents, each with the fields that it changes
    config.agent = "stacx"  # one of `variants`; its name in records
    config.scale = scale
    config.num_env_frames = 200_000_000  # frames per game; Section 4.1, which Table 3 calls steps
    config.recorded = recorded(NUM_HEADS)  # log columns that a record keeps; Figure 5

    config.env = ml_collections.ConfigDict()
    config.env.name = "atari"  # environment suite
    config.env.task = "pong"  # game, spelled `pong` or `ALE/Pong-v5`
    config.env.frame_skip = 4  # frames for which an action is repeated; IMPALA, Table F.1
    config.env.max_pool = 2  # last frames of a step whose pixel-wise maximum is taken; IMPALA, Table F.1
    config.env.grey = True  # luminance in place of RGB; Section 4.1
    config.env.height = 84  # pixels; IMPALA, Table F.1
    config.env.width = 84  # pixels; IMPALA, Table F.1
    config.env.stack = 4  # last frames in an observation; Table 2
    config.env.noop_max = 30  # no-ops at game start, 1 to this many; IMPALA, Section 5.3.2 (assumed: in training too)
    config.env.life_loss_ends = True  # a lost life ends the episode for learning, the game goes on; IMPALA, Table F.1
    config.env.reward_clip = 1.0  # rewards are clipped to [-1, 1] for learning, 0 = no clip; IMPALA, Table F.1
    config.env.fire_on_reset = False  # whether FIRE is pressed at a game's start; assumed: neither paper mentions it
    config.env.sticky_probability = 0.0  # probability of repeating the last action; assumed: neither paper mentions it
    config.env.full_action_set = False  # False = the game's minimal set; IMPALA, Appendix F
    config.env.max_frames = 108_000  # frames of a game, 30 minutes; assumed: the field's standard protocol
    config.env.time_limit_is_terminal = True  # True = terminated; assumed: as in IMPALA's released code
    config.env.last_action_and_reward = False  # False = not inputs of the network; assumed: Table 2 names no such input

    config.network = ml_collections.ConfigDict()
    config.network.torso = "deep"  # deep (IMPALA's) or shallow; Section 3.2 (Table 2 prints 13 channels for its 16)
    config.network.compute_dtype = "float32"  # dtype of image torsos, float32 or bfloat16; assumed: no type is printed
    config.network.num_heads = 1  # heads, each a policy and a value; set by each variant
    config.network.head_units = 256  # width of the hidden layers of each head's policy and value; Table 2
    config.network.acting = "first"  # head that acts: first, random or average; Sections 3.2 and 9.3
    config.network.gamma_embedding = "none"  # embedding of gamma: none, shared by heads or separate; Section 9.5
    config.network.gamma_embedding_units = 16  # width of the embedding of gamma; assumed: not printed in Section 9.5

    config.loss = ml_collections.ConfigDict()  # zeta, hyper-parameters of the outer loss
    config.loss.discount = 0.995  # gamma per agent step; Table 3
    config.loss.lambda_ = 1.0  # lambda of the traces; Table 3
    config.loss.alpha = 1.0  # alpha_rho and alpha_c of leaky V-trace, 1 = V-trace; Table 3
    config.loss.truncation = 1.0  # rho_bar and c_bar; Algorithm 2
    config.loss.value_cost = 0.25  # g_v, weight of the squared error without factor 1/2; Table 3
    config.loss.policy_cost = 1.0  # g_p, weight of the policy loss; Table 3
    config.loss.entropy_cost = 0.01  # g_e, weight of the entropy bonus; Table 3

    config.meta = ml_collections.ConfigDict()
    config.meta.tuned = METAPARAMETERS  # metaparameters eta that are tuned; set by each variant
    config.meta.initial = 4.6  # initial eta, before the sigmoid; Table 3
    config.meta.initial_gamma = config_dict.placeholder(float)  # initial eta of gamma, None = `initial`; Figure 4(c)
    config.meta.kl_cost = 1.0  # g_kl, weight of the KL in the outer loss; Table 3
    config.meta.learning_rate = 1e-3  # Adam's learning rate; Table 3
    config.meta.beta_1 = 0.9  # Adam's b1; Table 3
    config.meta.beta_2 = 0.999  # Adam's b2; Table 3
    config.meta.epsilon = 1e-4  # Adam's epsilon; Table 3

    config.learner = ml_collections.ConfigDict()
    config.learner.unroll_length = 20  # n, agent steps; Table 3
    config.learner.batch_size = 32  # m, unrolls per update; Table 3
    config.learner.learning_rate = 6e-4  # at the first update; Table 3
    config.learner.final_learning_rate = 0.0  # at the last frame; Table 3 (assumed: linear in between, as IMPALA's)
    config.learner.rmsprop_decay = 0.99  # Table 3
    config.learner.rmsprop_momentum = 0.0  # IMPALA, Table F.1
    config.learner.rmsprop_epsilon = 0.1  # Table 3 (assumed: inside the square root, as TensorFlow 1 has it)
    config.learner.clip_global_norm = 40.0  # 0 = no clip; IMPALA, Table F.1; assumed: Table 3 has no clip

    config.runtime = ml_collections.ConfigDict()
    config.runtime.num_actors = 2  # actor threads; assumed: one per core of a two-core machine
    config.runtime.envs_per_actor = 32  # games; assumed: fastest on two cores
    config.runtime.num_learners = 1  # learner processes, each with its share of every batch; docs/cluster.md
    config.runtime.env_threads = 0  # emulator threads per actor, 0 = chosen by the number of cores
    config.runtime.schedule = "async"  # async, lockstep (bit-identical from run to run) or processes
    config.runtime.lockstep_lag = 1  # rounds between acting and learning, with schedule lockstep
    config.runtime.queue_capacity = 1  # most batches in the queue, which bounds the lag; assumed: no size is printed
    config.runtime.compile = "auto"  # auto, xla or graph
    config.runtime.checkpoint_seconds = 60.0  # time between two checkpoints
    config.runtime.silent_seconds = 1800.0  # time without an unroll until an actor is replaced; assumed: it hangs then
    config.runtime.evaluator_episodes = 0  # evaluator's episodes, 0 = none, with schedule processes; docs/cluster.md

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = 200  # games; IMPALA, Section 5.3.2
    config.evaluation.num_envs = 50  # games played side by side; divides `episodes`
    config.evaluation.greedy = False  # False = actions are sampled from the policy; assumed: not specified in the paper

    return apply_scale(config)


def recorded(num_heads: int, metaparameters: tuple[str, ...] = METAPARAMETERS) -> tuple[str, ...]:
    """Returns log columns: every metaparameter of every head, as in Figure 5, and what explains them."""
    return tuple(f"{name}_{head}" for name in metaparameters for head in range(1, num_heads + 1)) + ("entropy", "kl")


def variants() -> dict[str, dict[str, Any]]:
    """Returns the agents of Figure 2(a), sets and red IMPALA of Figure 2(b), and those of Sections 4.3, 9.3, 9.5.

    `_untuned` agents keep the metaparameters at their initial values, which are not IMPALA's: tuning makes the
    difference to them.
    """
    subsets = {
        "_gamma": ("gamma",),
        "_gamma_lambda": ("gamma", "lambda"),
        "_no_alpha": ("gamma", "lambda", "g_v", "g_p", "g_e"),
        "": METAPARAMETERS,
    }
    one, three = {"num_heads": 1}, {"num_heads": NUM_HEADS}
    agents: dict[str, dict[str, Any]] = {
        "impala": {"network": one, "meta": {"tuned": ()}},
        "impala_aux": {"network": three, "meta": {"tuned": ()}},
        "impala_gamma_99": {"network": one, "meta": {"tuned": ()}, "loss": {"discount": 0.99}},
        "stac_untuned": {"network": one, "meta": {"learning_rate": 0.0}},
        "stacx_untuned": {"network": three, "meta": {"learning_rate": 0.0}},
    }
    for name, network in (("stac", one), ("stacx", three)):
        agents |= {name + suffix: {"network": network, "meta": {"tuned": tuned}} for suffix, tuned in subsets.items()}
    agents["stacx_two_alphas"] = {
        "network": three,
        "meta": {"tuned": TWO_ALPHAS},
        "recorded": recorded(NUM_HEADS, TWO_ALPHAS),
    }
    truncation = (*METAPARAMETERS, "truncation")
    agents["stacx_truncation"] = {
        "network": three,
        "meta": {"tuned": truncation},
        "recorded": recorded(NUM_HEADS, truncation),
    }
    for heads in (2, 5, 8):
        agents[f"stacx_heads_{heads}"] = {"network": {"num_heads": heads}, "recorded": recorded(heads)}
    for weight in (0.0, 0.3, 2.0):  # besides 1; Section 9.3; numbers in names are hundredths
        agents[f"stacx_kl_{100 * weight:.0f}"] = {"network": three, "meta": {"kl_cost": weight}}
    for acting in ("random", "average"):
        agents[f"stacx_{acting}_ensemble"] = {"network": {**three, "acting": acting}}
    tuned = subsets["_gamma_lambda"]
    agents["stac_gamma_lambda_embedding"] = {
        "network": {**one, "gamma_embedding": "shared"},  # by the only head
        "meta": {"tuned": tuned},
    }
    for embedding in ("shared", "separate"):
        agents[f"stacx_{embedding}_embedding"] = {"network": {**three, "gamma_embedding": embedding}}
    return agents


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes the published settings to those of the configuration's scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # half a minute, only to check that it runs
        config.num_env_frames = 20_000  # the first games end
        config.network.torso = "shallow"
        config.evaluation.episodes = 8
        config.evaluation.num_envs = 8
        config.env.max_frames = 2_000
        config.runtime.envs_per_actor = 8  # each takes a tenth of a second to start
        config.runtime.checkpoint_seconds = 5.0
    elif config.scale == "desk":  # reasons, the same as IMPALA's, in repro/papers/stac/README.md
        config.num_env_frames = 8_000_000
        config.network.torso = "shallow"  # an eighth of the arithmetic
        config.env.task = "breakout"  # assumed: its return rises within this budget
        config.learner.batch_size = 8  # four times the updates per frame
        config.learner.rmsprop_epsilon = 1e-5  # assumed: 0.1 would damp the small gradients of a small batch
        config.runtime.envs_per_actor = 16  # keeps the policy lag of small batches low
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    return config
