"""The runs of the results campaign: `python -m repro.campaign`, or `make campaign`.

Stages are worked through in this order. Within a stage the blocks are sorted by what they answer of the published
numbers per core-hour (`repro/launch/plan.py`); `python -m repro.campaign --dry_run` prints the order. Runs that have a
valid record are done, and those whose records became stale are made again.

Core-hours are those of one run, on one core of an AMD EPYC with nothing beside it unless a comment says otherwise; the
campaign replaces them by what it measures.
"""

from paper_configs.impala.atari_57 import GAMES_10
from paper_configs.impala.dmlab_30 import LEVELS_8
from repro.environments.games import all_games
from repro.evidence import published
from repro.launch.plan import Block

FOUR = ("HalfCheetah", "Walker2d", "Hopper", "Swimmer")
"""Tasks of MuJoCo with small observations."""
SIX = ("Ant", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum", "InvertedPendulum", "Reacher")
"""The other tasks of ReF-ER's Figures 1 to 5."""
TWO = ("HalfCheetah", "Humanoid")
"""Tasks of the sentences about ReF-ER's Figure 7."""
GAMES_57 = tuple(game for game in all_games() if game in published.normaliser("atari57"))
"""In alphabetical order."""
GAMES_5 = ("breakout", "pong", "qbert", "seaquest", "space_invaders")
GAMES_3 = GAMES_5[:3]
SWEEP_4 = ("alien", "amidar", "assault", "asterix")
"""Games of C-trace's sweep."""
CORRECTIONS = ("vtrace", "one_step", "epsilon", "no_correction")
LEVELS_5 = (
    "rooms_watermaze",
    "rooms_keys_doors_puzzle",
    "lasertag_three_opponents_small",
    "explore_goal_locations_small",
    "seekavoid_arena_01",
)
"""Levels of DeepMind Lab: those of IMPALA's Table 2."""
STAC_GAMES = ("breakout", "road_runner", "space_invaders")
"""Assumed to be learned early; three games say little of a median over 57."""
STAC_AGENTS = ("impala", "impala_aux", "stac", "stacx")
"""Agents of Figures 2 (a) and 3."""
CHANGED = ("gamma_990", "gamma_995", "g_v_15", "g_v_25")
"""Values of STAC's Figure 4: a lower one, and the published one."""
CONTROL_10 = (
    "cartpole_swingup",
    "walker_walk",
    "ball_in_cup_catch",
    "cartpole_balance",
    "cheetah_run",
    "finger_spin",
    "pendulum_swingup",
    "reacher_easy",
    "walker_run",
    "walker_stand",
)
"""Tasks of DM Control, assumed to be learned within a tenth of the paper's budget."""
CHALLENGES = ("cartpole_easy", "walker_easy")
CONTROL_6 = ("cartpole", "reacher3", "cheetah", "fish", "walker", "humanoid")
"""ACER's tasks."""
ACER_AGENTS = ("acer", "a3c", "tis", "trust_a3c", "trust_tis")
ACER_PARTS = ("acer_plain_traces", "acer_q_ret", "acer_on_policy")


def replays(method: str, *rules: str) -> tuple[str, ...]:
    """Names of ReF-ER's agents: `vracer_refer` and so on."""
    return tuple(f"{method}_{rule}" for rule in rules)


STAGES = {
    "Random players": (
        Block("level of every score", "impala", "atari_shallow", ("random",), GAMES_57, "paper", 1, 0.03),
    ),
    "Main claims": (  # the fewest runs that decide one
        Block(
            "DDPG with ReF-ER and without",
            "refer",
            "figure_1_ddpg",
            replays("ddpg", "refer", "er"),
            ("HalfCheetah", "Hopper"),
            "desk",
            5,
            0.35,
        ),
        Block(
            "NAF with ReF-ER and without",
            "refer",
            "figure_3_naf",
            replays("naf", "refer", "er"),
            ("HalfCheetah", "Hopper"),
            "desk",
            5,
            0.35,
        ),
        Block(
            "speed of C-trace and Retrace in DQN",
            "ctrace",
            "dqn",
            ("retrace", "ctrace_gamma10"),
            GAMES_3,
            "desk",
            4,
            0.25,
        ),
        Block(
            "C-trace beside n-step returns in R2D2", "ctrace", "r2d2", ("n_step_5", "ctrace"), GAMES_3, "desk", 4, 0.6
        ),
        Block(
            "self-tuning in control", "stac", "dm_control_features", ("impala", "stac"), CONTROL_10[:3], "desk", 4, 0.25
        ),
        Block(
            "ACER's replay beside on-policy learning",
            "acer",
            "atari",
            ("acer_ratio_4", "acer_ratio_0", "acer_ratio_0_no_trust_region"),
            ("pong", "breakout"),
            "desk",
            5,
            0.7,
        ),
    ),
    "ReF-ER": (
        Block(
            "Figure 4 at the paper's budget",
            "refer",
            "figure_4_vracer",
            replays("vracer", "refer", "er"),
            FOUR,
            "paper",
            5,
            2.5,
        ),
        Block(
            "Figure 4 at the paper's budget, many joints",
            "refer",
            "figure_4_vracer",
            ("vracer_refer",),
            ("Humanoid", "Ant"),
            "paper",
            1,
            4.5,
        ),
        Block(
            "Figure 4 at a tenth, the other six tasks",
            "refer",
            "figure_4_vracer",
            replays("vracer", "refer", "er"),
            SIX,
            "desk",
            5,
            0.3,
        ),
        Block(
            "Figure 4 at a tenth: what other agents are compared with",
            "refer",
            "figure_4_vracer",
            replays("vracer", "refer", "er"),
            FOUR,
            "desk",
            5,
            0.25,
        ),
        Block(
            "prioritised replay",
            "refer",
            "figure_4_vracer",
            replays("vracer", "refer1", "per"),
            FOUR,
            "desk",
            5,
            0.35,
        ),
        Block(
            "each rule alone", "refer", "figure_4_vracer", replays("vracer", "refer1", "refer2"), FOUR, "desk", 5, 0.3
        ),
        Block("baseline PPO", "refer", "figure_4_vracer", ("ppo",), (*FOUR, *SIX), "desk", 5, 0.05),
        Block("baseline ACER", "refer", "figure_4_vracer", ("acer", "acer_fast"), TWO[:1], "desk", 5, 0.7),
        Block(
            "Figures 1 and 2, DDPG",
            "refer",
            "figure_1_ddpg",
            replays("ddpg", "refer", "er", "refer1", "refer2", "per"),
            FOUR,
            "desk",
            5,
            0.35,
        ),
        Block(
            "Figures 1 and 2, DDPG, many joints",
            "refer",
            "figure_1_ddpg",
            replays("ddpg", "refer", "er", "refer2"),
            ("Ant", "Humanoid", "HumanoidStandup"),
            "desk",
            5,
            0.6,
        ),
        Block(
            "Figure 1, DDPG annealed",
            "refer",
            "figure_1_ddpg",
            ("ddpg_er_annealed", "ddpg_per_annealed"),
            FOUR,
            "desk",
            5,
            0.35,
        ),
        Block("Figure 1, DDPG untuned", "refer", "figure_1_ddpg", ("ddpg_er_untuned",), ("Ant",), "desk", 5, 0.5),
        Block(
            "Figure 3, NAF",
            "refer",
            "figure_3_naf",
            replays("naf", "refer", "er", "refer2", "per"),
            FOUR,
            "desk",
            5,
            0.35,
        ),
        Block(
            "Figure 7, the factors that the text speaks of",
            "refer",
            "figure_7_sensitivity",
            tuple(f"vracer_{change}_{of}" for of in ("c", "d", "n", "f", "eta") for change in ("half", "twice"))
            + ("vracer_twice_b",),
            TWO,
            "desk",
            5,
            0.4,
        ),
        Block(
            "Figure 7, the other factor",
            "refer",
            "figure_7_sensitivity",
            ("vracer_half_b",),
            TWO,
            "desk",
            2,
            0.4,
        ),
        Block(
            "Figure 8, larger A and S",
            "refer",
            "figure_8_sensitivity",
            ("vracer_twice_a", "vracer_twice_s"),
            TWO,
            "desk",
            5,
            0.4,
        ),
        Block(
            "Figure 8, smaller A and S",
            "refer",
            "figure_8_sensitivity",
            ("vracer_half_a", "vracer_half_s"),
            TWO,
            "desk",
            2,
            0.4,
        ),
        Block(
            "Figure 8, closed-form advantages",
            "refer",
            "figure_8_sensitivity",
            ("vracer_quadratic", "vracer_gaussian"),
            TWO,
            "desk",
            5,
            0.5,
        ),
    ),
    "IMPALA": (
        Block(
            "Table C.1 at the paper's budget, one game",
            "impala",
            "atari_shallow",
            ("impala_shallow",),
            ("pong",),
            "paper",
            5,  # of fewer the row says undecided, and shows them in place of those of a smaller budget
            14.0,  # some 8000 frames a second on each of two cores
            cores=2,
        ),
        Block(  # values beside the printed ones, but no verdicts, which take five seeds
            "Table C.1 and the medians, one seed",
            "impala",
            "atari_shallow",
            ("impala_shallow",),
            GAMES_57,
            "desk",
            1,
            0.5,
        ),
        Block("Table C.1, five seeds", "impala", "atari_shallow", ("impala_shallow",), GAMES_10, "desk", 5, 0.5),
    ),
    "C-trace": (
        Block(
            "Figure 4, four targets of DQN",
            "ctrace",
            "dqn",
            ("double_dqn", "n_step_5", "retrace", "ctrace_gamma10"),
            GAMES_5,
            "desk",
            5,
            0.25,
        ),
        Block(
            "Figure 10, lower targets",
            "ctrace",
            "dqn",
            ("ctrace_gamma5", "ctrace_gamma7"),
            GAMES_5,
            "desk",
            5,
            0.25,
        ),
        Block(
            "Appendix E, n of n-step returns",
            "ctrace",
            "dqn",
            ("n_step_3", "n_step_5"),
            SWEEP_4,
            "desk",
            5,
            0.25,
        ),
        Block(
            "Figures 4 and 12, three targets of R2D2",
            "ctrace",
            "r2d2",
            ("n_step_5", "retrace", "ctrace"),
            GAMES_3,
            "desk",
            4,  # two more than the paper's, fewer have no interval
            0.6,
        ),
    ),
    "ACER": (
        Block(
            "Figure 1, replay ratios",
            "acer",
            "atari",
            # A3C with and without trust region; of the other ratios without it the text says nothing
            (*(f"acer_ratio_{ratio}" for ratio in (0, 1, 4, 8)), "acer_ratio_0_no_trust_region"),
            ("pong", "breakout"),
            "desk",
            5,
            0.7,
        ),
        *(
            Block(f"Figure 2, thirty settings on {task}", "acer", "continuous", ACER_AGENTS, (task,), "desk", 30, hours)
            for task, hours in zip(CONTROL_6, (0.3, 0.3, 0.4, 0.4, 0.4, 0.6))
        ),
        Block(
            "Sections 5.1 and 6, parts of ACER on one task",
            "acer",
            "continuous",
            ACER_PARTS,
            ("cheetah",),
            "desk",
            30,
            0.4,
        ),
    ),
    "STAC": (
        Block(
            "Figure 2 (a) on three games",
            "stac",
            "atari",
            STAC_AGENTS,
            STAC_GAMES,
            "desk",
            4,  # one more than the paper's, fewer have no interval
            0.9,
        ),
        Block(
            "controls: metaparameters at their start",
            "stac",
            "atari",
            ("stac_untuned", "stacx_untuned", "impala_gamma_99"),
            STAC_GAMES[:1],
            "desk",
            4,
            0.9,
        ),
        Block(
            "Section 4.3, two alphas and a truncation level",
            "stac",
            "atari",
            ("stacx_two_alphas", "stacx_truncation"),
            STAC_GAMES,
            "desk",
            4,
            0.9,
        ),
        Block("level of scores in control", "stac", "dm_control_features", ("random",), CONTROL_10, "desk", 1, 0.01),
        Block("level of scores of the challenge", "stac", "rwrl", ("random",), CHALLENGES, "desk", 1, 0.01),
        Block("Figure 3 (a), ten tasks", "stac", "dm_control_features", STAC_AGENTS, CONTROL_10, "desk", 4, 0.25),
        Block(
            "Figure 3 (a), in how many of the ten tasks",
            "stac",
            "dm_control_features",
            STAC_AGENTS,
            CONTROL_10,
            "desk",
            6,  # two more than above: with fewer none of ten tasks can be decided
            0.25,
        ),
        Block("Figure 3 (c), two tasks", "stac", "rwrl", STAC_AGENTS, CHALLENGES, "desk", 4, 0.25),
        Block(
            "Figure 4, what a lower gamma or g_v costs",
            "stac",
            "figure_4_robustness",
            tuple(f"{agent}_{value}" for agent in ("impala", "stacx") for value in CHANGED),
            ("jamesbond", "chopper_command"),
            "desk",
            4,
            0.9,
        ),
        Block(
            "Figure 4 (c), starting values",
            "stac",
            "figure_4_robustness",
            tuple(f"stacx_start_{of}{start}" for of in ("", "gamma_") for start in (990, 992, 995, 997, 999)),
            ("jamesbond", "chopper_command"),
            "desk",
            4,
            0.9,
        ),
        Block(
            "controls in control: metaparameters at their start",
            "stac",
            "dm_control_features",
            ("stac_untuned", "stacx_untuned"),
            CONTROL_10[:1],
            "desk",
            4,
            0.3,
        ),
        Block(
            "Figure 3 (a) at the paper's budget",
            "stac",
            "dm_control_features",
            ("impala", "stacx"),
            CONTROL_10[:2],
            "paper",
            2,
            2.5,
        ),
    ),
    "IMPALA in 3D": (  # left out where DeepMind Lab is not built
        Block("level of scores in 3D", "impala", "dmlab_table2", ("random",), LEVELS_5, "paper", 1, 0.05),
        Block("level of scores on eight levels", "impala", "dmlab_30_experts", ("random",), LEVELS_8, "desk", 1, 0.05),
        Block("Table 2, four corrections", "impala", "dmlab_table2", CORRECTIONS, LEVELS_5, "desk", 6, 1.5),
        Block(
            "Table 2, with replay",
            "impala",
            "dmlab_table2",
            (*CORRECTIONS, *(f"{name}_replay" for name in CORRECTIONS)),
            LEVELS_5,
            "desk",
            5,
            1.5,
        ),
        Block(
            "Figure D.1, policy lag",
            "impala",
            "dmlab_figure_d1",
            tuple(f"{name}_lag_{lag}" for name in ("vtrace", "epsilon", "no_correction") for lag in (1, 10, 100)),
            LEVELS_5,
            "desk",
            5,
            1.5,
        ),
        Block(
            "Figure 5, beside A2C and A3C",
            "impala",
            "dmlab_figure5",
            ("impala", "a2c", "a3c"),
            LEVELS_5,
            "desk",
            6,
            1.5,
        ),
        Block(
            "Table 3, one agent for eight levels",
            "impala",
            "dmlab_30",
            ("impala_shallow", "impala_deep"),
            ("dmlab_30",),
            "desk",
            2,
            4.0,
        ),
        Block("Tables 3 and B.1, experts", "impala", "dmlab_30_experts", ("impala_deep",), LEVELS_8, "desk", 2, 0.5),
    ),
}
"""Title of each stage to its blocks."""
