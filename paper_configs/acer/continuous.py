"""ACER and its baselines on six control tasks: Section 6, Figures 2 to 4 of arXiv 1611.01224.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason. Budgets are in
environment steps. Each seed samples one hyper-parameter setting; this repository has those of seeds 1 to 30.
"""

import ml_collections

from repro.config import unknown_scale

# learns only from new unrolls; other agents learn from the replay
ON_POLICY = {"learner": {"on_policy": True}, "replay": {"ratio": 0.0}}


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` change only what the end of this function sets."""
    config = ml_collections.ConfigDict()
    config.paper = "acer"
    config.experiment = "continuous"
    config.algorithm = "acer.continuous"  # built by repro/papers/acer/experiments/continuous.py
    config.variants = ml_collections.ConfigDict(  # agents, each with the fields that it changes; Section 6
        {
            "acer": {},
            "a3c": {"loss": {"method": "a3c", "trust_region": False}, **ON_POLICY},
            "trust_a3c": {"loss": {"method": "a3c"}, **ON_POLICY},
            "tis": {"loss": {"method": "tis", "trust_region": False}},
            "trust_tis": {"loss": {"method": "tis"}},
            # ACER with one part changed: Sections 5.1 and 6 and Appendix B describe its effect without a curve
            "acer_plain_traces": {"loss": {"traces": "plain"}},
            "acer_q_ret": {"loss": {"policy_target": "q_ret"}},
            "acer_on_policy": ON_POLICY,
        }
    )
    config.agent = "acer"  # one of `variants`; its name in records
    config.scale = scale
    config.num_env_steps = 20_000_000  # environment steps; assumed: no budget is printed beside Figure 2
    config.window_frames = 100_000  # last steps; the result is the mean return of episodes that end in them; assumed
    config.recorded = ("seconds", "kl")  # log columns that a record keeps

    config.env = ml_collections.ConfigDict()
    config.env.name = "acer_tasks"  # environment suite; docs/acer_tasks.md
    config.env.task = "cartpole"  # cartpole, reacher3, cheetah, fish, walker or humanoid
    config.env.max_steps = 500  # longest episode in steps; Appendix E.1
    # action whose control cost is charged: executed, or chosen (before the clip to the actuators' range); assumed: a
    # policy whose mean is 28 would otherwise pay 235 000 an episode for a movement that never happens
    config.env.control_cost_of = "executed"

    config.network = ml_collections.ConfigDict()
    config.network.units = (64, 64)  # widths for mean and value; assumed: none is printed; these learn the cart-pole
    config.network.advantage_units = (64,)  # widths of the "additional small network"; Section 6, size assumed
    # bound on each component of the mean, by a tanh, 0 = none; assumed: actions beyond 1 act like 1, so that an
    # unbounded mean may drift (to 20 on the cart-pole) to where the noise no longer explores
    config.network.mean_bound = 1.0
    config.network.std = 0.3  # fixed std of the policy; Section 6
    config.network.dueling_samples = 5  # n of Eq. 13, actions sampled for each state; Section 6

    config.sweep = ml_collections.ConfigDict()  # hyper-parameters that the seed samples, besides seeding the run
    config.sweep.learning_rate = (1e-4, 10**-3.3)  # range, sampled log-uniformly; Section 6
    config.sweep.delta = (0.1, 2.0)  # trust-region bound, sampled uniformly; Section 6

    config.loss = ml_collections.ConfigDict()
    config.loss.method = "acer"  # acer, a3c or tis; Section 6
    config.loss.trust_region = True  # around the average policy; Section 6
    config.loss.discount = 0.99  # gamma; Appendix E.1
    config.loss.truncation = 5.0  # c, truncation of ACER's weights and TIS's product; Section 6, Appendix E.2
    config.loss.traces = "root"  # weights of Q_ret: root for min(1, rho^(1/d)), plain for min(1, rho); Section 5.1
    config.loss.policy_target = "q_opc"  # Q of the gradient's first term: q_opc or q_ret; Eq. 16 and Appendix B
    config.loss.average_decay = 0.995  # alpha, decay of the average policy; Section 6

    config.replay = ml_collections.ConfigDict()
    config.replay.ratio = 4.0  # unrolls replayed for each new one, on average, without on-policy updates; Section 6
    config.replay.frames = 80_000  # capacity in steps, 5 000 per thread; Section 6; assumed: 16 threads as in Section 4

    config.learner = ml_collections.ConfigDict()
    config.learner.unroll_length = 50  # k, steps; Section 6
    config.learner.on_policy = False  # whether each new unroll is learned from before it is replayed; Section 6
    config.learner.batch_size = 1  # unrolls per update; each thread of the paper updates with its own
    config.learner.rmsprop_decay = 0.99  # assumed: as A3C, Mnih et al. (2016)
    # inside the square root; assumed: as re-implementations of A3C; a smaller one takes full steps along the noise of
    # gradients without any reward
    config.learner.rmsprop_epsilon = 0.1
    config.learner.clip_global_norm = 0.0  # 0 = no clip; assumed: one of 40 stopped ACER on the cheetah

    config.runtime = ml_collections.ConfigDict()
    config.runtime.num_actors = 1  # actor threads
    config.runtime.envs_per_actor = 16  # simulations, one per thread of the paper; assumed: as many as in Section 4
    # lockstep (bit-identical, and as fast: small networks leave nothing to overlap), async or processes
    config.runtime.schedule = "lockstep"
    config.runtime.lockstep_lag = 0  # rounds between acting and learning, with schedule lockstep
    config.runtime.queue_capacity = 1  # most batches in the queue, with schedule async
    config.runtime.compile = "xla"  # xla or graph; faster for small networks, on a CPU too
    config.runtime.steps_per_call = 8  # most replayed batches in one compiled call; the updates are the same
    config.runtime.threads = 1  # TensorFlow's, 0 = one per core; assumed: matrices this small gain nothing from more
    config.runtime.checkpoint_seconds = 120.0  # time between two checkpoints, which hold the replay
    config.runtime.silent_seconds = 1800.0  # time without an unroll until an actor is replaced; assumed: it hangs then
    config.runtime.evaluator_episodes = 0  # evaluator's episodes, 0 = none, with schedule processes; docs/cluster.md

    if scale == "smoke":
        config.num_env_steps = 8_000
        config.env.max_steps = 100
        config.runtime.checkpoint_seconds = 5.0
    elif scale == "desk":
        config.num_env_steps = 5_000_000  # the cart-pole takes 4M steps; repro/papers/acer/README.md
    elif scale != "paper":
        raise unknown_scale(scale)
    return config
