"""IMPALA on five levels of DeepMind Lab, one agent per level: Section 5.2, Table 2.

The levels are rooms_watermaze, rooms_keys_doors_puzzle, lasertag_three_opponents_small, explore_goal_locations_small
and seekavoid_arena_01; docs/dmlab.md says how to build DeepMind Lab. Every field names its source: a table, figure or
section of the paper, or `assumed:` with the reason. The paper sweeps three fields over 24 settings (Table C.1) and
prints no best one: at scale `paper` each seed samples its own, at other scales they have the values that the authors'
released code has for a single level.
Budgets are in environment frames (of the engine; one agent step is `env.frame_skip` of them).
"""

import ml_collections

from repro.config import unknown_scale

REPLAY = {
    "replay": {"fraction": 0.5},  # Section 5.2.2
    "runtime": {"checkpoint_seconds": 1800.0},  # a checkpoint holds the replay
}
"""Fields of the agents with a replay."""


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` change only what `apply_scale` sets."""
    config = ml_collections.ConfigDict()
    config.paper = "impala"
    config.experiment = "dmlab_table2"
    config.algorithm = "impala.discrete"  # built by repro/papers/impala/experiments/discrete.py
    config.variants = ml_collections.ConfigDict(  # agents, each with the fields that it changes
        {
            "vtrace": {},
            "one_step": {"loss": {"correction": "one_step"}},
            "epsilon": {"loss": {"correction": "epsilon"}},
            "no_correction": {"loss": {"correction": "none"}},
            "vtrace_replay": REPLAY,
            "one_step_replay": {"loss": {"correction": "one_step"}, **REPLAY},
            "epsilon_replay": {"loss": {"correction": "epsilon"}, **REPLAY},
            "no_correction_replay": {"loss": {"correction": "none"}, **REPLAY},
            "vtrace_rho_10": {"loss": {"clip_rho": 10.0, "clip_pg_rho": 10.0}},  # Section 5.2.2
            "vtrace_rho_100": {"loss": {"clip_rho": 100.0, "clip_pg_rho": 100.0}},
            "vtrace_deep": {"network": {"torso": "deep"}},  # no row of Table 2
        }
    )
    config.agent = "vtrace"  # one of `variants`; its name in records
    config.scale = scale
    config.num_env_frames = 1_000_000_000  # new frames per level; assumed: as in the authors' released code
    config.recorded = ("replay_lag",)  # log columns that a record keeps, for agents that have them

    config.env = ml_collections.ConfigDict()
    config.env.name = "dmlab"  # environment suite
    config.env.task = "seekavoid_arena_01"  # level
    config.env.frame_skip = 4  # frames for which an action is repeated; Table C.3
    config.env.height = 72  # pixels; Table C.3
    config.env.width = 96  # pixels; Table C.3
    config.env.reward_clip = "unit"  # unit ([-1, 1], single levels), optimistic, optimistic_released or none; Table C.3
    config.env.instruction_length = 0  # most words, 0 = no language channel; assumed: these levels give no instructions
    config.env.instruction_vocabulary = 1000  # hash values of words; assumed: as in the authors' released code
    config.env.last_action_and_reward = True  # True = inputs of the LSTM; Figure 4
    config.env.level_set = 1  # sequence of episodes that all runs share; assumed: so that each map is compiled once
    config.env.level_cache = "build/dmlab_levels"  # folder for compiled maps, shared by all runs
    config.env.stagger_steps = 900  # spread of the first episodes' cuts, 0 = none; assumed: the shortest level has 60 s

    config.network = ml_collections.ConfigDict()
    config.network.torso = "shallow"  # shallow, as for single levels, or deep; Figure 4
    config.network.compute_dtype = "float32"  # dtype of image torsos, float32 or bfloat16; assumed: no type is printed
    config.network.core_units = 256  # LSTM units; Figure 4
    config.network.embedding_units = 20  # size of a word's embedding, for levels with instructions; Figure 4
    config.network.language_units = 64  # units of the LSTM over words; Figure 4

    config.loss = ml_collections.ConfigDict()
    config.loss.discount = 0.99  # gamma per agent step; Table C.3
    config.loss.correction = "vtrace"  # vtrace, one_step, epsilon or none; set by each variant; Section 5.2.2
    config.loss.lambda_ = 1.0  # lambda of Remark 2; assumed: 1, as Equation 1 has no lambda
    config.loss.clip_rho = 1.0  # rho_bar; Section 5.2.2
    config.loss.clip_c = 1.0  # c_bar; Section 5.2.2
    config.loss.clip_pg_rho = 1.0  # bound on rho_s in the policy gradient; rho_bar in Section 4.2
    config.loss.alpha_rho = 1.0  # share of the clipped rho: 1 = V-trace, below 1 = leaky V-trace
    config.loss.alpha_c = 1.0  # share of the clipped c: 1 = V-trace, below 1 = leaky V-trace
    config.loss.entropy_cost = 2.5e-4  # entropy bonus, if not sampled; assumed: as in the authors' released code
    config.loss.baseline_cost = 0.5  # weight of the baseline loss; Table C.3
    config.loss.half_baseline = True  # factor 1/2 in the baseline loss, for the gradient of Section 4.2

    config.sweep = ml_collections.ConfigDict()  # hyper-parameters that the seed samples, besides seeding the run
    config.sweep.sampled = True  # True = sampled values replace the other fields with these names; Table C.1
    config.sweep.entropy_cost = (5e-5, 1e-2)  # range, sampled log-uniformly; Table C.1
    config.sweep.learning_rate = (5e-6, 5e-3)  # range, sampled log-uniformly; Table C.1
    config.sweep.rmsprop_epsilon = (1e-1, 1e-3, 1e-5, 1e-7)  # values, one of them is sampled; Table C.1

    config.replay = ml_collections.ConfigDict()
    config.replay.fraction = 0.0  # replayed share of a batch, sampled uniformly; set by replay agents; Section 5.2.2
    config.replay.capacity = 10_000  # unrolls, 21 GB, the oldest is replaced first; Table C.3

    config.learner = ml_collections.ConfigDict()
    config.learner.unroll_length = 100  # agent steps; Table C.3
    config.learner.batch_size = 32  # unrolls per update, with replayed ones; assumed: Table 1, authors' released code
    config.learner.learning_rate = 4.8e-4  # initial, if not sampled; assumed: as in the authors' released code
    config.learner.final_learning_rate = 0.0  # at the last frame, linear; assumed: as in the authors' released code
    config.learner.rmsprop_decay = 0.99  # assumed: as in the authors' released code, Table C.3 has none
    config.learner.rmsprop_momentum = 0.0  # Table C.3
    config.learner.rmsprop_epsilon = 0.1  # if not sampled; assumed: as in the authors' released code
    config.learner.clip_global_norm = 0.0  # 0 = no clip; assumed: none in Table C.3 or in the authors' released code

    config.runtime = ml_collections.ConfigDict()
    config.runtime.num_actors = 2  # actor threads; assumed: one per core of a two-core machine
    config.runtime.envs_per_actor = 16  # levels, each in its own process; assumed: two actors fill a batch
    config.runtime.num_learners = 1  # learner processes, each with its share of every batch; docs/cluster.md
    config.runtime.schedule = "async"  # async, lockstep (bit-identical from run to run), processes or a3c
    config.runtime.lockstep_lag = 1  # rounds between acting and learning, with schedule lockstep
    config.runtime.weights_delay = 0  # publications by which actors' weights are late, 0 = none; dmlab_figure_d1.py
    config.runtime.queue_capacity = 1  # most batches in the queue, which bounds the lag; assumed: no size is printed
    config.runtime.compile = "auto"  # auto, xla or graph
    config.runtime.checkpoint_seconds = 60.0  # time between two checkpoints
    config.runtime.silent_seconds = 1800.0  # time without an unroll until an actor is replaced; assumed: it hangs then
    config.runtime.evaluator_episodes = 0  # evaluator's episodes, 0 = none, with schedule processes; docs/cluster.md

    config.evaluation = ml_collections.ConfigDict()
    config.evaluation.episodes = 100  # assumed: not specified in the paper for single levels
    config.evaluation.num_envs = 10  # levels played side by side; divides `episodes`
    config.evaluation.greedy = False  # False = actions are sampled from the policy; assumed: not specified in the paper

    return apply_scale(config)


def apply_scale(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Changes the published settings to those of the configuration's scale.

    Raises:
        ValueError: unknown scale.
    """
    if config.scale == "smoke":  # a minute or two, only to check that it runs
        config.num_env_frames = 40_000
        config.sweep.sampled = False
        config.replay.capacity = 40
        config.learner.batch_size = 4
        config.runtime.envs_per_actor = 2
        config.runtime.checkpoint_seconds = 5.0
        config.evaluation.episodes = 2
        config.evaluation.num_envs = 2
    elif config.scale == "desk":  # half an hour to two and a half hours on two cores
        config.num_env_frames = 4_000_000
        config.sweep.sampled = False  # one setting for all seeds, as few runs say more about one than about a sweep
        config.replay.capacity = 1_000  # 2 GB, of the last 250 updates; 10 000 unrolls at `paper` are of the last 625
        config.learner.batch_size = 8  # four times the updates per frame
        config.runtime.envs_per_actor = 8  # keeps the policy lag of small batches low
        config.evaluation.episodes = 50
    elif config.scale != "paper":
        raise unknown_scale(config.scale)
    return config
