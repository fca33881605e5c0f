"""ACER on Atari, with replay ratios 0 to 8 and with and without trust region, and A3C (arXiv 1611.01224, Figure 1).

Every field names its source: a section or algorithm of the paper, or `assumed:` with the reason.
Budgets are in environment frames (emulator frames; one agent step is `env.frame_skip` of them).
"""

from typing import Any

import ml_collections

from repro.config import unknown_scale

RATIOS = (0, 1, 4, 8)  # Section 4


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` change only what `apply_scale` sets."""
    config = ml_collections.ConfigDict()
    config.paper = "acer"
    config.experiment = "atari"
    config.algorithm = "acer.discrete"  # built by repro/papers/acer/experiments/discrete.py
    config.variants = ml_collections.ConfigDict(variants())  # agents, each with the fields that it changes; Section 4
    config.agent = "acer_ratio_4"  # one of `variants`; its name in records
    config.scale = scale
    config.num_env_frames = 200_000_000  # frames per game; assumed: the field's usual budget, as the paper prints none
    config.window_frames = 1_000_000  # last frames; the result is the mean score of games that end in them; Section 4
    config.recorded = ("seconds", "kl", "entropy")  # log columns that a record keeps

    config.env = ml_collections.ConfigDict()
    config.env.name = "atari"  # environment suite
    config.env.task = "pong"  # game, spelled `pong` or `ALE/Pong-v5`
    config.env.frame_skip = 4  # frames for which an action is repeated; Section 4, as Mnih et al. (2015)
    config.env.max_pool = 2  # last frames of a step whose pixel-wise maximum is taken; as Mnih et al. (2015)
    config.env.grey = True  # luminance in place of RGB; as Mnih et al. (2015)
    config.env.height = 84  # pixels; as Mnih et al. (2015)
    config.env.width = 84  # pixels; as Mnih et al. (2015)
    config.env.stack = 4  # last frames in an observation; as Mnih et al. (2015)
    config.env.noop_max = 30  # no-ops at game start, 1 to this many; Mnih et al. (2015) (assumed: in training too)
    config.env.life_loss_ends = True  # a lost life ends the episode for learning, the game goes on; Mnih et al. (2015)
    config.env.reward_clip = 1.0  # rewards are clipped to [-1, 1] for learning, 0 = no clip; as Mnih et al. (2015)
    config.env.fire_on_reset = False  # whether FIRE is pressed at a game's start; assumed: not mentioned in the paper
    config.env.sticky_probability = 0.0  # probability of repeating the last action; assumed: the paper mentions none
    config.env.full_action_set = False  # False = the game's minimal set; assumed: as Mnih et al. (2015)
    config.env.max_frames = 108_000  # frames of a game, 30 minutes; assumed: the field's standard protocol
    config.env.time_limit_is_terminal = False  # False = truncated; assumed: a time limit does not make the value zero
    config.env.last_action_and_reward = False  # False = not inputs of the network; Section 4

    config.network = ml_collections.ConfigDict()
    config.network.torso = "nature"  # nature or shallow; Section 4
    config.network.compute_dtype = "float32"  # dtype of image torsos, float32 or bfloat16; assumed: no type is printed

    config.loss = ml_collections.ConfigDict()
    config.loss.discount = 0.99  # gamma per agent step; Section 4
    config.loss.truncation = 10.0  # c, truncation of importance weights; Section 4
    config.loss.trust_region = True  # around the average policy; False = the same without it; Figure 1
    config.loss.delta = 1.0  # trust-region bound, in nats; Section 4
    config.loss.entropy_cost = 0.001  # weight of the entropy bonus; Section 4
    config.loss.average_decay = 0.99  # alpha, decay of the average policy; Section 4

    config.replay = ml_collections.ConfigDict()
    config.replay.ratio = 4.0  # unrolls replayed for each new one, on average; set by each variant
    config.replay.frames = 3_200_000  # capacity: 50 000 steps of 4 frames for each of 16 threads; Section 4

    config.learner = ml_collections.ConfigDict()
    config.learner.unroll_length = 20  # k, agent steps; Section 4
    config.learner.on_policy = True  # each new unroll is learned from before it is replayed; Algorithm 1
    config.learner.batch_size = 1  # unrolls per update; each thread of the paper updates with its own, Algorithm 1
    config.learner.learning_rate = 7e-4  # constant, Section 4; assumed: the value of re-implementations of A3C
    config.learner.rmsprop_decay = 0.99  # as Mnih et al. (2016); Section 4
    config.learner.rmsprop_epsilon = 0.1  # inside the square root; assumed: as re-implementations of A3C
    config.learner.clip_global_norm = 40.0  # 0 = no clip; assumed: as re-implementations of A3C

    config.runtime = ml_collections.ConfigDict()
    config.runtime.num_actors = 1  # actor threads
    config.runtime.envs_per_actor = 16  # games, one per thread of the paper; Section 4
    config.runtime.env_threads = 0  # emulator threads per actor, 0 = chosen by the number of cores
    config.runtime.schedule = "lockstep"  # lockstep (bit-identical, new unrolls nearly on-policy), async or processes
    config.runtime.lockstep_lag = 0  # rounds between acting and learning, with schedule lockstep
    config.runtime.queue_capacity = 1  # most batches in the queue, with schedule async
    config.runtime.compile = "auto"  # auto, xla or graph
    config.runtime.checkpoint_seconds = 300.0  # time between two checkpoints, which hold the replay
    config.runtime.silent_seconds = 1800.0  # time without an unroll until an actor is replaced; assumed: it hangs then
    config.runtime.evaluator_episodes = 0  # evaluator's episodes, 0 = none, with schedule processes; docs/cluster.md

    return apply_scale(config)


def variants() -> dict[str, dict[str, Any]]:
    """Returns each replay ratio with and without the trust region, and A3C, which Section 4 equates with ratio 0."""
    agents: dict[str, dict[str, Any]] = {}
    for ratio in RATIOS:
        for suffix, trust_region in (("", True), ("_no_trust_region", False)):
            fields = {"replay": {"ratio": float(ratio)}, "loss": {"trust_region": trust_region}}
            agents[f"acer_ratio_{ratio}{suffix}"] = fields
    a3c = {"algorithm": "acer.discrete_a3c", "replay": {"ratio": 0.0}, "loss": {"trust_region": False}}
    return agents | {"a3c": a3c}


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes the published settings to those of the configuration's scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # half a minute, only to check that it runs
        config.num_env_frames = 9_000  # the first games end
        config.network.torso = "shallow"
        config.replay.frames = 10_000
        config.env.max_frames = 2_000
        config.runtime.envs_per_actor = 4
        config.runtime.checkpoint_seconds = 5.0
    elif config.scale == "desk":  # reasons in repro/papers/acer/README.md
        config.num_env_frames = 4_000_000
        config.network.torso = "shallow"  # a quarter of the arithmetic
        config.replay.frames = 200_000  # 5 % of the budget, where the paper's is 1.6 %
        config.learner.rmsprop_epsilon = 1e-5
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    return config
