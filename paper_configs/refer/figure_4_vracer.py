"""V-RACER with ReF-ER on Gym's MuJoCo tasks: Figures 4 and 5 of arXiv 1807.05827.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason. Budgets are in
environment steps.
"""

from typing import Any

import ml_collections

from repro.config import unknown_scale


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """The published settings; `smoke` and `desk` change what the end of this function names, and nothing else."""
    config = ml_collections.ConfigDict()
    config.paper = "refer"
    config.experiment = "figure_4_vracer"
    config.algorithm = "refer.replay"  # builds it: repro/papers/refer/experiments/replay.py
    config.agent = "vracer_refer"  # one of them, and the name in records
    config.scale = scale
    config.num_env_steps = 10_000_000  # steps after the memory was prepared; read off Figure 4's axis, not in the text
    config.window_steps = 200_000  # the result is the mean return of episodes that end in so many last steps; Section 5
    config.recorded = ("kl", "far_policy_fraction", "beta", "c_max", "std")  # columns of the log that a record keeps

    config.env = ml_collections.ConfigDict()
    config.env.name = "mujoco"  # the package of environments
    config.env.task = "HalfCheetah"  # in gymnasium's spelling, without version
    config.env.version = "v5"  # assumed: not printed; the authors' launch scripts have v2, which no longer runs
    config.env.max_steps = 0  # steps of an episode, 0 = the task's own limit
    config.env.observed = "all"  # all, or positions: velocities are hidden

    config.network = ml_collections.ConfigDict()
    config.network.units = (128, 128)  # Appendix A
    config.network.hidden_scale = 6**0.5  # assumed: Glorot's, where Appendix A prints 6
    config.network.output_scale = 0.1  # Appendix A
    config.network.initial_variance = 0.2  # Sigma = 0.2 I; Appendix A
    config.network.advantage = "none"  # none, quadratic or gaussian; Appendix E

    config.learner = ml_collections.ConfigDict()
    config.learner.method = "vracer"  # vracer, recurrent_vracer, ddpg or naf
    config.learner.batch_size = 256  # B; Appendix A
    config.learner.learning_rate = 1e-4  # eta; Appendix A
    config.learner.annealing = 5e-7  # A of the learning rate, a step; Appendix A
    config.learner.discount = 0.995  # gamma; Appendix A
    config.learner.time_steps_per_gradient = 1.0  # F; Appendix A
    config.learner.steps_per_call = 32  # K, gradient steps fused in one call; assumed: for speed, 1 is serial

    config.refer = ml_collections.ConfigDict()
    config.refer.rule = "refer"  # refer, refer_1 (Rule 1 alone), refer_2 (Rule 2 alone) or none (plain replay)
    config.refer.c = 4.0  # C; Appendix A
    config.refer.annealing = 5e-7  # A of c_max and (assumed) of beta's step size, a step; Appendix A
    config.refer.max_far_policy_fraction = 0.1  # D; Appendix A
    config.refer.beta_step_size = 1e-4  # eta of Eq. 12: the learning rate; Section 3
    config.refer.initial_beta = 1.0  # assumed: the paper does not say
    # log rho is cut to +-27, that float32 holds the square of rho. Section 5.3: "unbounded importance weights", but for
    # ReF-ER-2's; the authors' code cuts at 7 since 2019, not in its first release
    config.refer.max_log_ratio = 27.0
    # Target of Eq. 9: V_tbc as the memory held it (stored; Section 2, Algorithm 3), or of V and rho as they are now
    # (current; the authors' code)
    config.refer.value_target = "stored"

    config.prioritised = ml_collections.ConfigDict()  # of prioritised replay; Section 5 says rank-based, and no more
    config.prioritised.alpha = 0.5  # assumed: 1 / sqrt(rank) in the authors' released code; Schaul et al. have 0.7
    config.prioritised.initial_beta = 0.5  # assumed: that code, and Schaul et al.
    config.prioritised.annealing = 5e-7  # of beta towards 1, a gradient step; assumed: A, as in that code

    config.memory = ml_collections.ConfigDict()
    config.memory.capacity = 2**18  # N, steps; Appendix A
    config.memory.prioritised = False  # whether steps are sampled by rank of their error
    # N_start, on top of the budget; assumed: not printed; N, as in the authors' launch scripts of the Gym tasks and as
    # Algorithm 1 keeps N_start steps; their settings/default.json has 2^17 since August 2019
    config.memory.start_steps = 2**18
    # V(s_T) of an episode that was cut is computed again when its last step is sampled, as in the authors' code;
    # assumed: the printed algorithms compute it once, when the episode ends
    config.memory.refresh_last_value = True

    config.ppo = ppo()
    acer = acer_baseline(config.window_steps)

    config.runtime = ml_collections.ConfigDict()
    # serial: the environment is stepped, then gradient steps are made; overlap: both at the same time, on two cores
    config.runtime.schedule = "serial"
    config.runtime.compile = "xla"  # xla or graph
    config.runtime.threads = 1  # of TensorFlow, 0 = one a core; assumed: matrices this small gain nothing from more
    config.runtime.checkpoint_seconds = 120.0  # between two checkpoints
    config.runtime.silent_seconds = 1800.0  # of a step until its environment is replaced; assumed: it hangs then

    if scale == "smoke":
        config.num_env_steps = 10_000
        config.memory.start_steps = 2_000
        config.env.task = "InvertedPendulum"
        acer.learner.unroll_length = 50
        acer.replay.batch_size = 4
        acer.replay.gradients_per_step = 0.02
        acer.runtime.checkpoint_seconds = 5.0
        config.runtime.checkpoint_seconds = 5.0
    elif scale == "desk":
        config.num_env_steps = 1_000_000  # a tenth of the paper's
        config.memory.start_steps = 2**14  # a sixteenth, so that it stays some hundredth of the budget
        # A gradient from 24 whole episodes takes a core as long as V-RACER's takes for hundreds of steps.
        acer.learner.unroll_length = 50
        acer.replay.gradients_per_step = 0.125
    elif scale != "paper":
        raise unknown_scale(scale)
    acer_fast = acer.copy_and_resolve_references()
    acer_fast.learner.policy_learning_rate = 1e-4  # Section 5.3
    config.variants = ml_collections.ConfigDict(  # agents, with the fields that are their own; Section 5.3
        {
            **replay_variants("vracer"),
            "ppo": {"algorithm": "refer.ppo"},
            "acer": acer,
            "acer_fast": acer_fast,
        }
    )
    return config


def replay_variants(method: str) -> dict[str, dict[str, Any]]:
    """ReF-ER, plain replay, each rule alone and prioritised replay, in the order of the figures' legends; Section 5."""
    return {
        f"{method}_refer": {},
        f"{method}_er": {"refer": {"rule": "none"}},
        f"{method}_refer1": {"refer": {"rule": "refer_1"}},
        f"{method}_refer2": {"refer": {"rule": "refer_2"}},
        f"{method}_per": {"refer": {"rule": "none"}, "memory": {"prioritised": True}},
    }


def ppo() -> ml_collections.ConfigDict:
    """Read by agent `ppo`, with env, memory.start_steps, refer.annealing, learner.discount, and network but for units
    and advantage."""
    config = ml_collections.ConfigDict()
    config.steps = 2048  # environment steps between two updates; Appendix A
    config.epochs = 10  # passes over them; Appendix A
    config.batch_size = 64  # Appendix A
    config.clip = 0.2  # Delta rho; Appendix A
    config.gae_lambda = 0.97  # lambda; Appendix A
    config.units = (64, 64)  # of the policy's and of the value's network; Appendix A
    config.policy_learning_rate = 1e-4  # Appendix A
    config.value_learning_rate = 3e-4  # Appendix A
    return config


def acer_baseline(window_steps: int) -> ml_collections.ConfigDict:
    """The baseline of Appendix A, in the sections of `paper_configs/acer`; `env` and the budget are the others'."""
    config = ml_collections.ConfigDict()
    config.algorithm = "acer.fixed_rate"  # builds it: repro/papers/acer/experiments/fixed_rate.py
    config.window_frames = window_steps

    config.network = ml_collections.ConfigDict()
    config.network.units = (128, 128)  # of mean and value; Appendix A
    config.network.advantage_units = (128, 128)  # Appendix A
    config.network.std = 0.2**0.5  # of the policy, fixed as ACER's; assumed: V-RACER's first one
    config.network.dueling_samples = 5  # Appendix A
    config.network.mean_bound = 0.0  # the mean is not bounded

    config.loss = ml_collections.ConfigDict()
    config.loss.method = "acer"
    config.loss.trust_region = True
    config.loss.discount = 0.995  # gamma; assumed: as for all others
    config.loss.truncation = 5.0  # c; Appendix A
    config.loss.traces = "root"  # min(1, rho^(1/d)); Section 4
    config.loss.policy_target = "q_opc"  # as ACER has it; assumed
    config.loss.delta = 1.0  # of the trust region; Appendix A
    config.loss.average_decay = 0.999  # 1 - alpha of the target network; Appendix A

    config.replay = ml_collections.ConfigDict()
    config.replay.frames = 100_000  # steps; Appendix A
    config.replay.batch_size = 24  # unrolls of a gradient; Appendix A, whose unrolls are episodes
    config.replay.gradients_per_step = 1.0  # of the environment; Appendix A

    config.learner = ml_collections.ConfigDict()
    config.learner.unroll_length = 1_001  # rows; assumed: the tasks' limit and the row between two episodes
    config.learner.batch_size = 1  # new unrolls between two looks at the weights; assumed
    config.learner.learning_rate = 1e-4  # of value and advantage, Adam; Appendix A
    config.learner.policy_learning_rate = 1e-5  # Section 5.3
    config.learner.clip_global_norm = 0.0  # 0 = none; assumed: Appendix A mentions none

    config.runtime = ml_collections.ConfigDict()
    config.runtime.num_actors = 1  # threads
    config.runtime.envs_per_actor = 1  # simulations, as the other agents have
    config.runtime.schedule = "lockstep"  # the same bits each time
    config.runtime.lockstep_lag = 0  # rounds between acting and learning
    config.runtime.queue_capacity = 1  # batches that may wait for the learner, with schedule async
    config.runtime.compile = "xla"  # xla or graph
    config.runtime.threads = 1  # of TensorFlow, 0 = one a core; assumed: matrices this small gain nothing from more
    config.runtime.checkpoint_seconds = 120.0  # between two checkpoints, which hold the replay
    return config
