"""C-trace-DQN and its baselines on Atari: Section 4.2, Figures 4, 10 and 11 of arXiv 1910.07478.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason. Where Appendix E refers
to "the baseline agent paper", the source is Mnih et al. (2015). Budgets are in environment frames (emulator frames; one
agent step is `env.frame_skip` of them).
"""

from typing import Any

import ml_collections

from repro.config import unknown_scale


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` change only what `apply_scale` sets."""
    config = ml_collections.ConfigDict()
    config.paper = "ctrace"
    config.experiment = "dqn"
    config.algorithm = "ctrace.dqn"  # built by repro/papers/ctrace/experiments/dqn.py
    config.agent = "ctrace_gamma10"  # one of `variants`; its name in records
    config.scale = scale
    # frames per game; assumed: the field's usual budget, as the paper prints none. Mnih et al. (2015) print 50 million
    # frames, around 38 days of game experience: read as agent steps, since 38 days at 60 Hz are 200M emulator frames
    config.num_env_frames = 200_000_000
    config.recorded = ("seconds", "contraction", "contraction_target", "alpha")  # log columns that a record keeps

    config.env = ml_collections.ConfigDict()
    config.env.name = "atari"  # environment suite
    config.env.task = "pong"  # game, spelled `pong` or `ALE/Pong-v5`
    config.env.frame_skip = 4  # frames for which an action is repeated; Mnih et al. (2015)
    config.env.max_pool = 2  # last frames of a step whose pixel-wise maximum is taken; Mnih et al. (2015)
    config.env.grey = True  # luminance in place of RGB; Mnih et al. (2015)
    config.env.height = 84  # pixels; Mnih et al. (2015)
    config.env.width = 84  # pixels; Mnih et al. (2015)
    config.env.stack = 4  # last frames in an observation; Mnih et al. (2015)
    config.env.noop_max = 30  # no-ops at game start; Mnih et al. (2015); assumed: 1 to this many, one frame each
    config.env.life_loss_ends = True  # a lost life ends the episode for learning, the game goes on; Mnih et al. (2015)
    config.env.reward_clip = 1.0  # rewards are clipped to [-1, 1] for learning, 0 = no clip; Mnih et al. (2015)
    config.env.fire_on_reset = False  # whether FIRE is pressed at a game's start; assumed: neither paper mentions it
    config.env.sticky_probability = 0.0  # probability of repeating the last action; assumed: neither paper mentions it
    config.env.full_action_set = False  # False = the game's minimal set; Mnih et al. (2015)
    config.env.max_frames = 108_000  # frames of a game, 30 minutes; Appendix E
    config.env.time_limit_is_terminal = False  # False = truncated; assumed: a time limit does not make the value zero
    config.env.last_action_and_reward = False  # False = not inputs of the network; Appendix E.2

    config.network = ml_collections.ConfigDict()
    config.network.torso = "nature"  # nature or shallow; Appendix E.2
    config.network.compute_dtype = "float32"  # dtype of image torsos, float32 or bfloat16; assumed: no type is printed

    config.loss = ml_collections.ConfigDict()
    config.loss.target = "c_trace"  # double_dqn, n_step, retrace or c_trace; set by each variant
    config.loss.n = 1  # steps of the returns of n_step; not read by other targets
    # k of the contraction rate Gamma = gamma^k that C-trace aims for; other targets log their distance from it;
    # Section 4.2
    config.loss.rate_steps = 10
    config.loss.discount = 0.99  # gamma per agent step; Mnih et al. (2015)
    config.loss.clip_error = 1.0  # bound on the gradient of a TD error; Mnih et al. (2015)
    config.loss.trace_lambda = 1.0  # lambda of Retrace and C-trace; Appendix E
    # reduction over a sequence's steps, mean or sum; assumed: so that a transition has the weight that it has in
    # Double DQN's batch. Beside Adam's epsilon of 1e-8 a factor of 16 in the gradient hardly matters
    config.loss.time_reduction = "mean"

    config.exploration = ml_collections.ConfigDict()  # epsilon is annealed from replay.first_frames on (assumed)
    config.exploration.first = 1.0  # epsilon up to there; Mnih et al. (2015)
    config.exploration.last = 0.1  # epsilon after the annealing; Mnih et al. (2015)
    config.exploration.frames = 4_000_000  # annealing time; Mnih et al. (2015): a million frames, read as agent steps

    config.replay = ml_collections.ConfigDict()
    config.replay.steps = 16  # transitions of a sequence, for multi-step targets; Appendix E.2
    config.replay.period = 4  # steps between the starts of two sequences; assumed: as between two gradient steps
    config.replay.frames = 4_000_000  # capacity, a million agent steps; Mnih et al. (2015)
    config.replay.first_frames = 200_000  # frames before learning, 50 000 random agent steps; Mnih et al. (2015)

    config.learner = ml_collections.ConfigDict()
    config.learner.batch_size = 32  # sequences per update (assumed: may be transitions); Mnih et al. (2015)
    config.learner.steps_per_update = 4  # agent steps of each game between two gradient steps; Mnih et al. (2015)
    config.learner.learning_rate = 1e-5  # constant; Appendix E.2 for n-step and Retrace, assumed for others
    config.learner.adam_epsilon = 1e-8  # assumed: Appendix E names Adam, but not its settings
    # gradient steps between two copies to the target network; Mnih et al. (2015) print "parameter updates"; assumed:
    # code that follows them counts 10 000 agent steps, which are 2 500 updates
    config.learner.target_period = 10_000
    config.learner.clip_global_norm = 0.0  # 0 = no clip; Mnih et al. (2015)

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = 30  # games; Mnih et al. (2015)
    config.evaluation.num_envs = 10  # games played side by side; divides `episodes`
    config.evaluation.epsilon = 0.05  # probability of a random action; Mnih et al. (2015)

    config.runtime = ml_collections.ConfigDict()
    config.runtime.envs_per_actor = 1  # games side by side; Mnih et al. (2015)
    config.runtime.env_threads = 0  # emulator threads per actor, 0 = chosen by the number of cores
    config.runtime.schedule = "lockstep"  # the actor plays the next steps while the learner learns; the only schedule
    config.runtime.lockstep_lag = 1  # rounds between acting and learning, with schedule lockstep
    config.runtime.compile = "auto"  # auto, xla or graph
    config.runtime.checkpoint_seconds = 600.0  # time between two checkpoints, which hold the replay
    config.runtime.silent_seconds = 1800.0  # time without an unroll until an actor is replaced; assumed: it hangs then

    return apply_scale(config)


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes the published settings to those of the configuration's scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # half a minute, only to check that it runs
        config.num_env_frames = 6_400
        config.network.torso = "shallow"
        config.replay.frames = 16_000
        config.replay.first_frames = 3_200
        config.learner.batch_size = 8
        config.learner.target_period = 100
        config.exploration.frames = 10_000
        config.env.max_frames = 2_000
        config.evaluation.episodes = 2
        config.evaluation.num_envs = 2
        config.runtime.checkpoint_seconds = 10.0
    elif config.scale == "desk":  # reasons in repro/papers/ctrace/README.md
        config.num_env_frames = 600_000
        config.network.torso = "shallow"
        config.replay.frames = 400_000
        config.replay.first_frames = 40_000
        config.learner.batch_size = 8
        config.learner.steps_per_update = 8
        config.learner.learning_rate = 5e-4
        config.learner.target_period = 500
        config.exploration.last = 0.02
        config.exploration.frames = 100_000
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    config.variants = ml_collections.ConfigDict(
        add_swept_rates(variants(config.learner.batch_size * config.replay.steps))
    )
    return config


def variants(transitions: int) -> dict[str, dict[str, Any]]:
    """Returns the agents, each with the fields that it changes; Section 4.2, Appendix E.2, Figure 10.

    Args:
        transitions: transitions in a batch of Double DQN, whose sequences are single transitions that begin at every
            step; assumed: as many as the other agents learn from, so that agents differ only in their targets; Mnih et
            al. (2015) have 32, and the paper does not specify it.
    """
    return {
        "double_dqn": {
            "loss": {"target": "double_dqn"},
            "replay": {"steps": 1, "period": 1},
            "learner": {"batch_size": transitions},
        },
        "n_step_5": {"loss": {"target": "n_step", "n": 5, "rate_steps": 5}},
        "n_step_3": {"loss": {"target": "n_step", "n": 3, "rate_steps": 3}},
        "retrace": {"loss": {"target": "retrace"}},
        "ctrace_gamma10": {"loss": {"target": "c_trace"}},
        "ctrace_gamma7": {"loss": {"target": "c_trace", "rate_steps": 7}},
        "ctrace_gamma5": {"loss": {"target": "c_trace", "rate_steps": 5}},
        "retrace_lambda97": {"loss": {"target": "retrace", "trace_lambda": 0.97}},  # Appendix E, as for the next agent
        "ctrace_gamma10_lambda97": {"loss": {"target": "c_trace", "trace_lambda": 0.97}},
    }


def add_swept_rates(agents: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Adds n-step returns and Retrace with the learning rates of Appendix E.2's sweep that were not chosen.

    Rates in names are millionths. These agents are of use only at scale `paper`, as others have another learning rate.
    """
    return agents | {
        f"{agent}_rate_{rate}": agents[agent] | {"learner": {"learning_rate": rate / 1e6}}
        for agent in ("n_step_5", "retrace")
        for rate in (250, 100, 50)
    }
