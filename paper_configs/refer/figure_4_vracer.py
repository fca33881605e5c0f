"""V-RACER with ReF-ER on Gym's MuJoCo tasks: Figures 4 and 5 of arXiv 1807.05827.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason. Budgets are in
environment steps.
"""

import ml_collections

SCALES = ("smoke", "desk", "paper")


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """The published settings; `smoke` and `desk` change what the end of this function names, and nothing else."""
    config = ml_collections.ConfigDict()
    config.paper = "refer"
    config.experiment = "figure_4_vracer"
    config.agents = ("vracer_refer", "vracer_er", "vracer_refer1", "vracer_refer2", "vracer_per", "ppo")  # Section 5.3
    config.agent = "vracer_refer"  # one of them, and the name in records
    config.scale = scale
    config.frames = 10_000_000  # environment steps after the memory was prepared; Figure 4's axis
    config.window_steps = 200_000  # the result is the mean return of episodes that end in so many last steps; Figure 4
    config.recorded = ("kl", "far", "beta", "c_max", "deviation")  # columns of the log that a record keeps

    config.env = ml_collections.ConfigDict()
    config.env.name = "mujoco"  # the package of environments
    config.env.task = "HalfCheetah"  # in gymnasium's spelling, without version
    config.env.version = "v5"  # assumed: the paper's v1 and v2 no longer run
    config.env.max_steps = 0  # steps of an episode, 0 = the task's own limit
    config.env.observed = "all"  # all, or positions: velocities are hidden

    config.network = ml_collections.ConfigDict()
    config.network.units = (128, 128)  # Appendix A
    config.network.hidden_scale = 6**0.5  # assumed: Glorot's, where Appendix A prints 6
    config.network.output_scale = 0.1  # Appendix A
    config.network.initial_variance = 0.2  # Sigma = 0.2 I; Appendix A
    config.network.advantage = "none"  # none, quadratic or gaussian; Appendix E

    config.learner = ml_collections.ConfigDict()
    config.learner.batch_size = 256  # B; Appendix A
    config.learner.learning_rate = 1e-4  # eta; Appendix A
    config.learner.discount = 0.995  # gamma; Appendix A
    config.learner.time_steps_per_gradient = 1.0  # F; Appendix A
    config.learner.steps_per_call = 32  # K, gradient steps fused in one call; 1 is the serial algorithm

    config.refer = ml_collections.ConfigDict()
    config.refer.c = 4.0  # C; Appendix A
    config.refer.annealing = 5e-7  # A, a step; Appendix A
    config.refer.max_far_share = 0.1  # D; Appendix A
    config.refer.beta_step_size = 1e-4  # eta of Eq. 12: the learning rate; Section 3
    config.refer.initial_beta = 1.0  # assumed: the paper does not say

    config.prioritised = ml_collections.ConfigDict()  # of vracer_per; Section 5 says rank-based, and no more
    config.prioritised.alpha = 0.5  # assumed: 1 / sqrt(rank) in the authors' released code; Schaul et al. have 0.7
    config.prioritised.initial_beta = 0.5  # assumed: that code, and Schaul et al.
    config.prioritised.annealing = 5e-7  # of beta towards 1, a gradient step; assumed: A, as in that code

    config.memory = ml_collections.ConfigDict()
    config.memory.capacity = 2**18  # N, steps; Appendix A
    config.memory.start_steps = 2**14  # N_start; assumed: not printed, a sixteenth of the memory

    config.ppo = ml_collections.ConfigDict()  # read by agent ppo, with env, memory.start_steps, refer.annealing,
    # learner.discount, and network but for units and advantage
    config.ppo.steps = 2048  # environment steps between two updates; Appendix A
    config.ppo.epochs = 10  # passes over them; Appendix A
    config.ppo.batch_size = 64  # Appendix A
    config.ppo.clip = 0.2  # Delta rho; Appendix A
    config.ppo.gae_lambda = 0.97  # lambda; Appendix A
    config.ppo.units = (64, 64)  # of the policy's and of the value's network; Appendix A
    config.ppo.policy_learning_rate = 1e-4  # Appendix A
    config.ppo.value_learning_rate = 3e-4  # Appendix A

    config.runtime = ml_collections.ConfigDict()
    config.runtime.schedule = "serial"  # the same bits each time
    config.runtime.compile = "xla"  # xla or graph
    config.runtime.threads = 1  # of TensorFlow, 0 = one a core; assumed: matrices this small gain nothing from more
    config.runtime.checkpoint_seconds = 120.0  # between two checkpoints

    if scale == "smoke":
        config.frames = 20_000
        config.memory.start_steps = 2_000
        config.env.task = "InvertedPendulum"
        config.runtime.checkpoint_seconds = 5.0
    elif scale == "desk":
        config.frames = 1_000_000  # a tenth of the paper's
    elif scale != "paper":
        raise ValueError(f"Unknown scale {scale!r}: choose one of {', '.join(SCALES)}.")
    return config
