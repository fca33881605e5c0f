"""ACER and its baselines on six control tasks: Section 6, Figures 2 to 4 of arXiv 1611.01224.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason. Budgets are in
environment steps. A seed is one of the sampled hyper-parameter settings: seeds 1 to 30 are those of this repository.
"""

import ml_collections

from repro.config import unknown_scale

# learns from what is new alone, the others from the replay
ON_POLICY = {"learner": {"on_policy": True}, "replay": {"ratio": 0.0}}


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """The published settings; `smoke` and `desk` change what the end of this function names, and nothing else."""
    config = ml_collections.ConfigDict()
    config.paper = "acer"
    config.experiment = "continuous"
    config.algorithm = "acer.continuous"  # builds it: repro/papers/acer/experiments/continuous.py
    config.variants = ml_collections.ConfigDict(  # agents, with the fields that are their own; Section 6
        {
            "acer": {},
            "a3c": {"loss": {"method": "a3c", "trust_region": False}, **ON_POLICY},
            "trust_a3c": {"loss": {"method": "a3c"}, **ON_POLICY},
            "tis": {"loss": {"method": "tis", "trust_region": False}},
            "trust_tis": {"loss": {"method": "tis"}},
            # ACER with one part otherwise, for what Sections 5.1 and 6 and Appendix B say of parts without a curve
            "acer_plain_traces": {"loss": {"traces": "plain"}},
            "acer_q_ret": {"loss": {"policy_target": "q_ret"}},
            "acer_on_policy": ON_POLICY,
        }
    )
    config.agent = "acer"  # one of them, and the name in records
    config.scale = scale
    config.num_env_steps = 20_000_000  # environment steps; assumed: Figure 2 prints no budget in words
    config.window_frames = 100_000  # the result is the mean return of episodes that end in so many last steps; assumed
    config.recorded = ("seconds", "kl")  # columns of the log that a record keeps

    config.env = ml_collections.ConfigDict()
    config.env.name = "acer_tasks"  # the package of environments; docs/acer_tasks.md
    config.env.task = "cartpole"  # cartpole, reacher3, cheetah, fish, walker or humanoid
    config.env.max_steps = 500  # steps of an episode; Appendix E.1
    config.env.control_cost_of = "executed"  # or "chosen": before the clip to the actuators' range; assumed: a policy
    # whose mean is 28 would otherwise pay 235 000 an episode for a movement that never happens

    config.network = ml_collections.ConfigDict()
    config.network.units = (64, 64)  # of mean and value; assumed: the paper prints no layers; they learn the cart-pole
    config.network.advantage_units = (64,)  # the "additional small network"; Section 6, its size is assumed
    config.network.mean_bound = 1.0  # of the mean's components, by a tanh, 0 for none; assumed: actions beyond 1 act
    # like 1, so that an unbounded mean may drift (to 20 on the cart-pole) to where the noise no longer explores
    config.network.std = 0.3  # of the policy, fixed; Section 6
    config.network.dueling_samples = 5  # n of Eq. 13; Section 6

    config.sweep = ml_collections.ConfigDict()  # what the seed decides besides the run's random numbers
    config.sweep.learning_rate = (1e-4, 10**-3.3)  # log-uniform; Section 6
    config.sweep.delta = (0.1, 2.0)  # of the trust region, uniform; Section 6

    config.loss = ml_collections.ConfigDict()
    config.loss.method = "acer"  # acer, a3c or tis; Section 6
    config.loss.trust_region = True  # around the average policy; Section 6
    config.loss.discount = 0.99  # gamma; Appendix E.1
    config.loss.truncation = 5.0  # c of ACER, and of TIS's product; Section 6 and Appendix E.2
    config.loss.traces = "root"  # weights of Q_ret: root for min(1, rho^(1/d)), plain for min(1, rho); Section 5.1
    config.loss.policy_target = "q_opc"  # of the gradient's first term: q_opc or q_ret; Eq. 16 and Appendix B
    config.loss.average_decay = 0.995  # alpha of the average policy; Section 6

    config.replay = ml_collections.ConfigDict()
    config.replay.ratio = 4.0  # updates on stored trajectories for each new one, none on new ones; Section 6
    config.replay.frames = 80_000  # steps, 5 000 of each of 16 threads; Section 6, 16 assumed: as in Section 4

    config.learner = ml_collections.ConfigDict()
    config.learner.unroll_length = 50  # k; Section 6
    config.learner.on_policy = False  # whether a new unroll is learned from when it comes; Section 6
    config.learner.batch_size = 1  # unrolls per update; a thread of the paper updates with its own
    config.learner.rmsprop_decay = 0.99  # assumed: that of A3C, Mnih et al. (2016)
    config.learner.rmsprop_epsilon = 0.1  # inside the square root; assumed: that of re-implementations of A3C; a
    # smaller one takes full steps along the noise of gradients that hold no reward
    config.learner.clip_global_norm = 0.0  # 0 = none; assumed: the paper mentions none

    config.runtime = ml_collections.ConfigDict()
    config.runtime.num_actors = 1  # threads
    config.runtime.envs_per_actor = 16  # simulations, one for each thread; assumed: as many as in Section 4
    config.runtime.schedule = (
        "lockstep"  # the same bits each time, and as fast: small networks leave nothing to overlap
    )
    config.runtime.lockstep_lag = 0  # rounds between acting and learning in lockstep
    config.runtime.queue_capacity = 1  # batches that may wait for the learner, with schedule async
    config.runtime.compile = "xla"  # xla or graph; faster for small networks, on a CPU too
    config.runtime.steps_per_call = 8  # replayed batches that a compiled call learns from, at most; the same updates
    config.runtime.threads = 1  # of TensorFlow, 0 = one a core; assumed: matrices this small gain nothing from more
    config.runtime.checkpoint_seconds = 120.0  # between two checkpoints, which hold the replay
    config.runtime.silent_seconds = 1800.0  # without an unroll until an actor is replaced; assumed: it hangs then
    config.runtime.evaluator_episodes = 0  # of an evaluator beside training, with schedule processes; docs/cluster.md

    if scale == "smoke":
        config.num_env_steps = 8_000
        config.env.max_steps = 100
        config.runtime.checkpoint_seconds = 5.0
    elif scale == "desk":
        config.num_env_steps = 5_000_000  # the cart-pole takes 4M steps; repro/papers/acer/README.md
    elif scale != "paper":
        raise unknown_scale(scale)
    return config
