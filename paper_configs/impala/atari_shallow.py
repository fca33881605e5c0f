"""IMPALA, shallow network, one expert per game: Table 4 and Table C.1 of arXiv v3, column "IMPALA (shallow)".

Every field names its source: a table, figure or section of the paper, or `assumed:` with the reason.
Budgets are in environment frames (emulator frames; one agent step is `env.frame_skip` of them).
"""

import ml_collections

from repro.config import unknown_scale


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` change only what `apply_scale` sets."""
    config = ml_collections.ConfigDict()
    config.paper = "impala"
    config.experiment = "atari_shallow"
    config.algorithm = "impala.discrete"  # built by repro/papers/impala/experiments/discrete.py
    config.agent = "impala_shallow"  # name in records
    config.scale = scale
    config.num_env_frames = 200_000_000  # frames per game; Section 5.3.2

    config.env = ml_collections.ConfigDict()
    config.env.name = "atari"  # environment suite
    config.env.task = "pong"  # game, spelled `pong` or `ALE/Pong-v5`
    config.env.frame_skip = 4  # frames for which an action is repeated; Table F.1
    config.env.max_pool = 2  # last frames of a step whose pixel-wise maximum is taken; Table F.1
    config.env.grey = True  # luminance in place of RGB; Table F.1
    config.env.height = 84  # pixels; Table F.1
    config.env.width = 84  # pixels; Table F.1
    config.env.stack = 4  # last frames in an observation; Table F.1
    config.env.noop_max = 30  # no-ops at game start, 1 to this many; Section 5.3.2 (assumed: in training too)
    config.env.life_loss_ends = True  # a lost life ends the episode for learning, the game goes on; Table F.1
    config.env.reward_clip = 1.0  # rewards are clipped to [-1, 1] for learning, 0 = no clip; Table F.1
    config.env.fire_on_reset = False  # whether FIRE is pressed at a game's start; assumed: not mentioned in the paper
    config.env.sticky_probability = 0.0  # probability of repeating the last action; assumed: the paper mentions none
    config.env.full_action_set = False  # False = the game's minimal set, as experts have; Appendix F
    config.env.max_frames = 108_000  # frames of a game, 30 minutes; assumed: the field's standard protocol
    config.env.time_limit_is_terminal = True  # True = terminated; assumed: as levels end in the authors' released code
    config.env.last_action_and_reward = False  # False = not inputs, as there is no LSTM on Atari; Section 5.3.2

    config.network = ml_collections.ConfigDict()
    config.network.torso = "shallow"  # shallow or deep; Section 5.3.2, Figure 4
    config.network.compute_dtype = "float32"  # dtype of image torsos, float32 or bfloat16; assumed: no type is printed
    config.network.core_units = 0  # LSTM units, 0 = no LSTM; Section 5.3.2

    config.loss = ml_collections.ConfigDict()
    config.loss.discount = 0.99  # gamma per agent step; Table F.1
    config.loss.correction = "vtrace"  # vtrace, one_step, epsilon or none; Section 5.2.2
    config.loss.lambda_ = 1.0  # lambda of Remark 2; assumed: 1, as Equation 1 has no lambda
    config.loss.clip_rho = 1.0  # rho_bar; assumed: as on DeepMind Lab, Section 5.2.2
    config.loss.clip_c = 1.0  # c_bar; assumed: as on DeepMind Lab, Section 5.2.2
    config.loss.clip_pg_rho = 1.0  # bound on rho_s in the policy gradient; rho_bar in Section 4.2
    config.loss.alpha_rho = 1.0  # share of the clipped rho: 1 = V-trace, below 1 = leaky V-trace
    config.loss.alpha_c = 1.0  # share of the clipped c: 1 = V-trace, below 1 = leaky V-trace
    config.loss.entropy_cost = 0.01  # weight of the entropy bonus; Table F.1
    config.loss.baseline_cost = 0.5  # weight of the baseline loss; Table F.1
    config.loss.half_baseline = True  # factor 1/2 in the baseline loss, for the gradient of Section 4.2

    config.replay = ml_collections.ConfigDict()
    config.replay.fraction = 0.0  # replayed share of a batch, sampled uniformly, 0 = no replay; Table F.1 has none
    config.replay.capacity = 10_000  # unrolls, 1.7 GB; assumed: as on DeepMind Lab, Table C.3

    config.learner = ml_collections.ConfigDict()
    config.learner.unroll_length = 20  # agent steps; Table F.1
    config.learner.batch_size = 32  # unrolls per update; Table F.1
    config.learner.learning_rate = 6e-4  # at the first update; Table F.1
    config.learner.final_learning_rate = 0.0  # at the last frame, linear in between; Table F.1
    config.learner.rmsprop_decay = 0.99  # assumed: as in the authors' released code, the table has none
    config.learner.rmsprop_momentum = 0.0  # Table F.1
    config.learner.rmsprop_epsilon = 0.01  # Table F.1; inside the square root (assumed), as TensorFlow 1 has it
    config.learner.clip_global_norm = 40.0  # 0 = no clip; Table F.1

    config.runtime = ml_collections.ConfigDict()
    config.runtime.num_actors = 2  # actor threads; assumed: one per core of a two-core machine
    config.runtime.envs_per_actor = 32  # games; assumed: fastest on two cores
    config.runtime.num_learners = 1  # learner processes, each with its share of every batch; docs/cluster.md
    config.runtime.env_threads = 0  # emulator threads per actor, 0 = chosen by the number of cores
    config.runtime.schedule = "async"  # async, lockstep (bit-identical from run to run), processes or a3c
    config.runtime.lockstep_lag = 1  # rounds between acting and learning, with schedule lockstep
    config.runtime.weights_delay = 0  # publications by which actors' weights are late, 0 = none; Figure D.1
    config.runtime.queue_capacity = 1  # most batches in the queue, which bounds the lag; assumed: no size is printed
    config.runtime.compile = "auto"  # auto, xla or graph
    config.runtime.checkpoint_seconds = 60.0  # time between two checkpoints
    config.runtime.silent_seconds = 1800.0  # time without an unroll until an actor is replaced; assumed: it hangs then
    config.runtime.evaluator_episodes = 0  # evaluator's episodes, 0 = none, with schedule processes; docs/cluster.md

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = 200  # games; Section 5.3.2
    config.evaluation.num_envs = 50  # games played side by side; divides `episodes`
    config.evaluation.greedy = False  # False = actions are sampled from the policy; assumed: not specified in the paper

    return apply_scale(config)


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes the published settings to those of the configuration's scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # about a minute, only to check that it runs
        config.num_env_frames = 60_000  # the first games end
        config.evaluation.episodes = 8
        config.evaluation.num_envs = 8
        config.env.max_frames = 8_000
        config.runtime.envs_per_actor = 8  # each takes a tenth of a second to start
        config.runtime.checkpoint_seconds = 5.0
    elif config.scale == "desk":  # 25 to 60 minutes on one core; repro/papers/impala/README.md has the reasons
        config.num_env_frames = 8_000_000
        config.env.task = "breakout"  # assumed: its return rises within this budget
        config.learner.batch_size = 8  # four times the updates per frame
        config.learner.rmsprop_epsilon = 1e-5  # assumed: 0.01 would damp the small gradients of a small batch
        config.runtime.envs_per_actor = 16  # keeps the policy lag of small batches low
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    return config
