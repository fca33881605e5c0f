"""C-trace-R2D2 and its baselines on Atari: Section 4.1, Figures 4, 9, 12 and 13 of arXiv 1910.07478.

Every field names its source: a table, section or appendix of the paper, or `assumed:` with the reason. Where the paper
refers to "the baseline agent paper", the source is Kapturowski et al. (2019), R2D2. Budgets are in environment frames
(emulator frames; one agent step is `env.frame_skip` of them).
"""

import ml_collections

from repro.config import unknown_scale


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` change only what `apply_scale` sets."""
    config = ml_collections.ConfigDict()
    config.paper = "ctrace"
    config.experiment = "r2d2"
    config.algorithm = "ctrace.r2d2"  # built by repro/papers/ctrace/experiments/r2d2.py
    config.variants = ml_collections.ConfigDict(  # agents, each with the fields that it changes
        {
            # uncorrected returns of n = 5; R2D2, whose hyper-parameters these agents have (Appendix E.1)
            "n_step_5": {"loss": {"target": "n_step", "n": 5, "rate_steps": 5}},
            "retrace": {"loss": {"target": "retrace"}},  # Section 4.1
            "ctrace": {"loss": {"target": "c_trace"}},  # Section 4.1
            "retrace_lambda97": {"loss": {"target": "retrace", "trace_lambda": 0.97}},  # Appendix E
            "ctrace_lambda97": {"loss": {"target": "c_trace", "trace_lambda": 0.97}},  # Appendix E
        }
    )
    config.agent = "ctrace"  # one of `variants`; its name in records
    config.scale = scale
    config.num_env_frames = 10_000_000_000  # frames per game; assumed: R2D2's on DMLab, as neither paper prints one
    config.recorded = ("seconds", "contraction", "contraction_target", "alpha")  # log columns that a record keeps

    config.env = ml_collections.ConfigDict()
    config.env.name = "atari"  # environment suite
    config.env.task = "pong"  # game, spelled `pong` or `ALE/Pong-v5`
    config.env.frame_skip = 4  # frames for which an action is repeated; Mnih et al. (2015), by R2D2 and Ape-X
    config.env.max_pool = 2  # last frames of a step whose pixel-wise maximum is taken; Mnih et al. (2015)
    config.env.grey = True  # luminance in place of RGB; Mnih et al. (2015)
    config.env.height = 84  # pixels; Mnih et al. (2015)
    config.env.width = 84  # pixels; Mnih et al. (2015)
    config.env.stack = 4  # last frames in an observation; R2D2
    config.env.noop_max = 30  # no-ops at game start; R2D2, Table 4; assumed: 1 to this many, one frame each
    config.env.life_loss_ends = False  # False = an episode ends only with the game; R2D2
    config.env.reward_clip = 0.0  # 0 = rewards are not clipped; values are rescaled instead; R2D2
    config.env.fire_on_reset = False  # whether FIRE is pressed at a game's start; assumed: neither paper mentions it
    config.env.sticky_probability = 0.0  # probability of repeating the last action; assumed: neither paper mentions it
    config.env.full_action_set = True  # True = all 18 actions; R2D2, Section 2.3
    config.env.max_frames = 108_000  # frames of a game, 30 minutes; Appendix E
    config.env.time_limit_is_terminal = False  # False = truncated; assumed: a time limit does not make the value zero
    config.env.last_action_and_reward = True  # True = inputs of the LSTM; Appendix E.1

    config.network = ml_collections.ConfigDict()
    config.network.torso = "nature_convolutions"  # nature_convolutions or shallow; Appendix E.1
    config.network.compute_dtype = "float32"  # dtype of image torsos, float32 or bfloat16; assumed: no type is printed
    config.network.core_units = 512  # LSTM units; Appendix E.1
    config.network.dueling_units = 512  # width of both hidden layers of the dueling head; Appendix E.1

    config.loss = ml_collections.ConfigDict()
    config.loss.target = "c_trace"  # n_step, retrace or c_trace; set by each variant
    config.loss.n = 1  # steps of the returns of n_step; not read by other targets
    # k of the contraction rate Gamma = gamma^k that C-trace aims for; other targets log their distance from it;
    # Section 4.1
    config.loss.rate_steps = 10
    config.loss.discount = 0.997  # gamma per agent step; Table 1
    config.loss.rescaling = 1e-3  # epsilon of the value rescaling h; Table 1
    config.loss.trace_lambda = 1.0  # lambda of Retrace and C-trace; Appendix E
    # reduction over a sequence's steps, mean or sum; assumed: neither paper prints the loss, and R2D2 in Acme (JAX,
    # TF) and SEED RL sums; a mean would be a gradient 80 times smaller against Adam's epsilon of 1e-3
    config.loss.time_reduction = "sum"

    config.exploration = ml_collections.ConfigDict()  # environment i of N has epsilon base^(1 + spread i / (N - 1))
    config.exploration.base = 0.4  # Horgan et al. (2018), whom R2D2 follows
    config.exploration.spread = 7.0  # Horgan et al. (2018), whom R2D2 follows

    config.replay = ml_collections.ConfigDict()
    config.replay.steps = 80  # m, transitions of a sequence that are learned from; Table 1
    config.replay.burn_in = 40  # l, steps before them that only warm up the LSTM; Table 1
    config.replay.period = 40  # steps between the starts of two sequences; R2D2
    config.replay.sequences = 100_000  # capacity in sequences; Table 1
    # frames before learning, 50 000 transitions; Ape-X, to which R2D2's Table 2 refers for what it lacks; assumed: as
    # reimplementations of Ape-X have it
    config.replay.first_frames = 200_000
    config.replay.priority_exponent = 0.9  # exponent of priorities; Table 1
    config.replay.importance_exponent = 0.6  # exponent of importance weights; Table 1
    # eta, weight of the largest TD error in a priority; the mean has the rest; R2D2
    config.replay.priority_of_max = 0.9
    # n of the returns in a new sequence's priority, unless the agent has an n of its own; R2D2, Section 2.3
    config.replay.first_priority_n = 5

    config.learner = ml_collections.ConfigDict()
    config.learner.batch_size = 64  # sequences per update; Table 1
    # steps of each environment between two gradient steps: 256 environments make 6 400 new steps, and each update
    # learns from 5 120, so that a step is replayed 0.8 times; R2D2, appendix
    config.learner.steps_per_update = 25
    config.learner.learning_rate = 1e-4  # constant; Table 1
    config.learner.adam_epsilon = 1e-3  # Table 1
    config.learner.target_period = 2_500  # gradient steps between two copies to the target network; Table 1
    config.learner.clip_global_norm = 40.0  # clips the network's gradient, 0 = not; Ape-X, as for replay.first_frames
    # steps of an actor between two copies of the weights; Table 1, whose environment steps are read as agent steps
    config.learner.publish_steps = 400

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = 30  # games; assumed: not specified in either paper
    config.evaluation.num_envs = 10  # games played side by side; divides `episodes`
    config.evaluation.epsilon = 0.01  # probability of a random action; assumed: not specified in either paper

    config.runtime = ml_collections.ConfigDict()
    config.runtime.num_actors = 16  # actor threads
    config.runtime.envs_per_actor = 16  # games; Table 1 has 256 actors with one game each
    config.runtime.env_threads = 0  # emulator threads per actor, 0 = chosen by the number of cores
    config.runtime.schedule = "lockstep"  # lockstep (actors play the next steps while the learner learns) or processes
    config.runtime.lockstep_lag = 1  # rounds between acting and learning, with schedule lockstep
    config.runtime.compile = "auto"  # auto, xla or graph
    config.runtime.checkpoint_seconds = 600.0  # time between two checkpoints, which hold the replay
    config.runtime.silent_seconds = 600.0  # time without an unroll until an actor is replaced; assumed: it hangs then
    config.runtime.evaluator_episodes = 0  # evaluator's episodes, 0 = none, with schedule processes; docs/cluster.md
    # GB for a replay in a process of its own, with schedule processes; 0 = in the learner's process; docs/cluster.md
    config.runtime.replay_gb = 0.0

    return apply_scale(config)


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes the published settings to those of the configuration's scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # about a minute, only to check that it runs
        config.num_env_frames = 24_000
        config.network.torso = "shallow"
        config.network.core_units = 32
        config.network.dueling_units = 32
        config.replay.steps = 10
        config.replay.burn_in = 5
        config.replay.period = 5
        config.replay.sequences = 1_000
        config.replay.first_frames = 8_000
        config.learner.batch_size = 8
        config.learner.target_period = 20
        config.learner.publish_steps = 40
        config.env.max_frames = 2_000
        config.evaluation.episodes = 2
        config.evaluation.num_envs = 2
        config.runtime.num_actors = 1
        config.runtime.envs_per_actor = 4
        config.runtime.checkpoint_seconds = 10.0
    elif config.scale == "desk":  # reasons in repro/papers/ctrace/README.md
        config.num_env_frames = 4_000_000
        config.network.torso = "shallow"
        config.network.core_units = 128
        config.network.dueling_units = 128
        config.replay.steps = 20
        config.replay.burn_in = 10
        config.replay.period = 10
        config.replay.sequences = 20_000
        config.replay.first_frames = 40_000
        config.learner.batch_size = 16
        config.learner.learning_rate = 3e-4
        config.learner.adam_epsilon = 1e-5
        config.learner.target_period = 500
        config.learner.publish_steps = 40
        config.learner.steps_per_update = 5
        config.runtime.num_actors = 1
        config.runtime.envs_per_actor = 16
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    return config
