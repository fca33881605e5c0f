"""V-RACER with ReF-ER on Gym's MuJoCo tasks: Figures 4 and 5 of arXiv 1807.05827.

Every field names its source: a section or appendix of the paper, or `assumed:` with the reason. Budgets are in
environment steps.
"""

from typing import Any

import ml_collections

from repro.config import unknown_scale


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` change only what the end of this function sets."""
    config = ml_collections.ConfigDict()
    config.paper = "refer"
    config.experiment = "figure_4_vracer"
    config.algorithm = "refer.replay"  # built by repro/papers/refer/experiments/replay.py
    config.agent = "vracer_refer"  # one of `variants`; its name in records
    config.scale = scale
    config.num_env_steps = 10_000_000  # steps on top of memory.start_steps; read off Figure 4's axis, not in the text
    config.window_steps = 200_000  # last steps; the result is the mean return of episodes that end in them; Section 5
    config.recorded = ("kl", "far_policy_fraction", "beta", "c_max", "std")  # log columns that a record keeps

    config.env = ml_collections.ConfigDict()
    config.env.name = "mujoco"  # environment suite
    config.env.task = "HalfCheetah"  # gymnasium's name without the version
    config.env.version = "v5"  # assumed: not printed; the authors' launch scripts have v2, which no longer runs
    config.env.max_steps = 0  # longest episode in steps, 0 = the task's own limit
    config.env.observed = "all"  # all, or positions (velocities are hidden)

    config.network = ml_collections.ConfigDict()
    config.network.units = (128, 128)  # widths of the hidden layers; Appendix A
    config.network.hidden_scale = 6**0.5  # scale of initial weights; assumed: Glorot's, where Appendix A prints 6
    config.network.output_scale = 0.1  # scale of the output layer's initial weights; Appendix A
    config.network.initial_variance = 0.2  # initial variance of each action component, Sigma = 0.2 I; Appendix A
    config.network.advantage = "none"  # closed-form advantage: none, quadratic or gaussian; Appendix E

    config.learner = ml_collections.ConfigDict()
    config.learner.method = "vracer"  # vracer, recurrent_vracer, ddpg or naf
    config.learner.batch_size = 256  # B, steps per gradient step; Appendix A
    config.learner.learning_rate = 1e-4  # eta, at the first gradient step; Appendix A
    config.learner.annealing = 5e-7  # A of the learning rate, per environment step; Appendix A
    config.learner.discount = 0.995  # gamma; Appendix A
    config.learner.time_steps_per_gradient = 1.0  # F, environment steps per gradient step; Appendix A
    config.learner.steps_per_call = 32  # K, gradient steps in one compiled call; assumed: for speed, 1 = one by one

    config.refer = ml_collections.ConfigDict()
    config.refer.rule = "refer"  # refer, refer_1 (Rule 1 alone), refer_2 (Rule 2 alone) or none (plain replay)
    config.refer.c = 4.0  # C, with c_max = 1 + C at the start; Appendix A
    config.refer.annealing = 5e-7  # A of c_max and (assumed) of beta's step size, per environment step; Appendix A
    config.refer.max_far_policy_fraction = 0.1  # D, far-policy fraction that beta aims for; Appendix A
    config.refer.beta_step_size = 1e-4  # eta of Eq. 12, equal to the learning rate; Section 3
    config.refer.initial_beta = 1.0  # beta before the first update; assumed: not specified in the paper
    # bound on |log rho|, so that float32 holds the square of rho; Section 5.3 has "unbounded importance weights",
    # except ReF-ER-2's; the authors' code has cut at 7 since 2019, not in its first release
    config.refer.max_log_ratio = 27.0
    # target of Eq. 9: stored (V_tbc as the memory held it; Section 2, Algorithm 3), or current (V_tbc of V and rho as
    # they are now; the authors' code)
    config.refer.value_target = "stored"

    config.prioritised = ml_collections.ConfigDict()  # prioritised replay; Section 5 only says that it is rank-based
    config.prioritised.by = "rank"  # rank of a step's TD error, or error (proportional); Section 5.2
    # exponent of the ranks or errors; assumed: as in the authors' released code; Schaul et al. have 0.7 and 0.6
    config.prioritised.alpha = 0.5
    config.prioritised.initial_beta = 0.5  # importance exponent; assumed: as in that code and in Schaul et al.
    config.prioritised.annealing = 5e-7  # rate of beta towards 1, per gradient step; assumed: A, as in that code

    config.memory = ml_collections.ConfigDict()
    config.memory.capacity = 2**18  # N, in steps; Appendix A
    config.memory.prioritised = False  # whether steps are sampled as `prioritised` says
    # N_start, steps on top of the budget; assumed: not printed; N, as in the authors' launch scripts of the Gym tasks
    # and as Algorithm 1 keeps N_start steps; their settings/default.json has had 2^17 since August 2019
    config.memory.start_steps = 2**18
    # whether V(s_T) of a cut episode is computed again when its last step is sampled, as in the authors' code; assumed:
    # the printed algorithms compute it once, when the episode ends
    config.memory.refresh_last_value = True

    config.ppo = ppo()
    acer = acer_baseline(config.window_steps)

    config.runtime = ml_collections.ConfigDict()
    # serial: environment steps, then gradient steps; overlap: both at the same time, on two cores
    config.runtime.schedule = "serial"
    config.runtime.compile = "xla"  # xla or graph
    config.runtime.threads = 1  # TensorFlow's, 0 = one per core; assumed: matrices this small gain nothing from more
    config.runtime.checkpoint_seconds = 120.0  # time between two checkpoints
    config.runtime.silent_seconds = 1800.0  # time of a step until its environment is replaced; assumed: it hangs then

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
        config.memory.start_steps = 2**14  # a sixteenth, to stay near a hundredth of the budget
        # A gradient from 24 whole episodes takes a core as long as V-RACER takes for hundreds of steps.
        acer.learner.unroll_length = 50
        acer.replay.gradients_per_step = 0.125
    elif scale != "paper":
        raise unknown_scale(scale)
    acer_fast = acer.copy_and_resolve_references()
    acer_fast.learner.policy_learning_rate = 1e-4  # Section 5.3
    config.variants = ml_collections.ConfigDict(  # agents, each with the fields that it changes; Section 5.3
        {
            **replay_variants("vracer"),
            "ppo": {"algorithm": "refer.ppo"},
            "acer": acer,
            "acer_fast": acer_fast,
        }
    )
    return config


def replay_variants(method: str) -> dict[str, dict[str, Any]]:
    """Returns ReF-ER, plain replay, each rule alone and PER, in the order of the figures' legends; Section 5."""
    # PER has fewer gradient steps in a call, as priorities are written after it; assumed: about as often as the
    # authors' code computes its probabilities
    per = {"refer": {"rule": "none"}, "memory": {"prioritised": True}, "learner": {"steps_per_call": 8}}
    return {
        f"{method}_refer": {},
        f"{method}_er": {"refer": {"rule": "none"}},
        f"{method}_refer1": {"refer": {"rule": "refer_1"}},
        f"{method}_refer2": {"refer": {"rule": "refer_2"}},
        f"{method}_per": per,
    }


def proportional_variant(method: str) -> dict[str, dict[str, Any]]:
    """Returns PER in proportion to the TD error, than which rank-based PER performed better; Section 5.2."""
    variant = replay_variants(method)[f"{method}_per"] | {"prioritised": {"by": "error"}}
    return {f"{method}_per_proportional": variant}


def ppo() -> ml_collections.ConfigDict:
    """Returns the section that only agent `ppo` reads.

    It also reads env, memory.start_steps, refer.annealing, learner.discount, and network except units and advantage.
    """
    config = ml_collections.ConfigDict()
    config.steps = 2048  # environment steps between two updates; Appendix A
    config.epochs = 10  # passes over these steps; Appendix A
    config.batch_size = 64  # steps of a minibatch; Appendix A
    config.clip = 0.2  # Delta rho, bound on the ratio's distance from 1; Appendix A
    config.gae_lambda = 0.97  # lambda of the advantages; Appendix A
    config.units = (64, 64)  # widths of the hidden layers, in the policy's and the value's network; Appendix A
    config.policy_learning_rate = 1e-4  # policy's, at the first update; Appendix A
    config.value_learning_rate = 3e-4  # value's, at the first update; Appendix A
    return config


def acer_baseline(window_steps: int) -> ml_collections.ConfigDict:
    """Returns the baseline of Appendix A, in the sections of `paper_configs/acer`, without `env` and budget."""
    config = ml_collections.ConfigDict()
    config.algorithm = "acer.fixed_rate"  # built by repro/papers/acer/experiments/fixed_rate.py
    config.window_frames = window_steps

    config.network = ml_collections.ConfigDict()
    config.network.units = (128, 128)  # widths for mean and value; Appendix A
    config.network.advantage_units = (128, 128)  # widths of the advantage network; Appendix A
    config.network.std = 0.2**0.5  # fixed std of the policy, as ACER's; assumed: V-RACER's initial one
    config.network.dueling_samples = 5  # n, actions sampled for each state; Appendix A
    config.network.mean_bound = 0.0  # bound on the mean, 0 = none

    config.loss = ml_collections.ConfigDict()
    config.loss.method = "acer"
    config.loss.trust_region = True
    config.loss.discount = 0.995  # gamma; assumed: as for all other agents
    config.loss.truncation = 5.0  # c, truncation of importance weights; Appendix A
    config.loss.traces = "root"  # weights of Q_ret: min(1, rho^(1/d)); Section 4
    config.loss.policy_target = "q_opc"  # Q of the gradient's first term; assumed: as in ACER
    config.loss.delta = 1.0  # trust-region bound, in nats; Appendix A
    config.loss.average_decay = 0.999  # decay of the average policy, 1 - alpha of the target network; Appendix A

    config.replay = ml_collections.ConfigDict()
    config.replay.frames = 100_000  # capacity in steps; Appendix A
    config.replay.batch_size = 24  # unrolls per gradient step; Appendix A, whose unrolls are episodes
    config.replay.gradients_per_step = 1.0  # gradient steps per environment step; Appendix A

    config.learner = ml_collections.ConfigDict()
    config.learner.unroll_length = 1_001  # rows; assumed: the longest episode and the row between two episodes
    config.learner.batch_size = 1  # new unrolls after which the actor takes new weights; assumed
    config.learner.learning_rate = 1e-4  # Adam's, for value and advantage; Appendix A
    config.learner.policy_learning_rate = 1e-5  # Adam's, for the policy; Section 5.3
    config.learner.clip_global_norm = 0.0  # 0 = no clip; assumed: Appendix A mentions none

    config.runtime = ml_collections.ConfigDict()
    config.runtime.num_actors = 1  # actor threads
    config.runtime.envs_per_actor = 1  # simulations, as the other agents have
    config.runtime.schedule = "lockstep"  # lockstep (bit-identical from run to run), async or processes
    config.runtime.lockstep_lag = 0  # rounds between acting and learning, with schedule lockstep
    config.runtime.queue_capacity = 1  # most batches in the queue, with schedule async
    config.runtime.compile = "xla"  # xla or graph
    config.runtime.threads = 1  # TensorFlow's, 0 = one per core; assumed: matrices this small gain nothing from more
    config.runtime.checkpoint_seconds = 120.0  # time between two checkpoints, which hold the replay
    return config
