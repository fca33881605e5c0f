"""The runs of the results campaign: `python -m repro.campaign`, or `make campaign`.

The campaign works through the stages in this order. Main claims come before the stages of the papers, so that each
paper has a first verdict early. IMPALA is the exception, since each of its main claims takes hundreds of core-hours:
A3C beside it at 200M frames, four corrections with replay on five levels, and one agent for DMLab-30 beside experts.
Within a stage, blocks are sorted by the number of published values that they answer per core-hour
(`repro/launch/plan.py`), not by their order here: V-RACER at the paper's budget, the first block of ReF-ER, comes after
cheaper ones. `python -m repro.campaign --dry_run` prints the order. Runs with a valid record are not repeated; those
with a stale record are.

Core-hours are those of one run, on one core of an AMD EPYC with no other load unless a comment says otherwise; the
campaign replaces them by its own measurements. Those marked as estimated come from runs of similar blocks. `LEFT_OUT`
has the rows that these runs do not answer.

No runs compare Double DQN with other publications: the tables in `published/context/` have its scores of single games
only after 200M frames, and for smaller budgets only a median over 57 games.
"""

from collections.abc import Callable, Mapping

from paper_configs.impala.atari_57 import GAMES_10
from paper_configs.impala.dmlab_30 import LEVELS_8
from repro.environments.dmlab_levels import DMLAB30
from repro.environments.games import all_games
from repro.evidence import published
from repro.evidence.comparisons import MEMBERS
from repro.evidence.published import PublishedRow
from repro.launch.plan import Block

FOUR = ("HalfCheetah", "Walker2d", "Hopper", "Swimmer")
"""Tasks of MuJoCo with small observations."""
SIX = ("Ant", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum", "InvertedPendulum", "Reacher")
"""The other tasks of ReF-ER's Figures 1 to 5."""
TWO = ("HalfCheetah", "Humanoid")
"""Tasks in the statements about ReF-ER's Figure 7."""
GAMES_57 = tuple(game for game in all_games() if game in published.normaliser("atari57"))
"""All 57 Atari games, in alphabetical order."""
GAMES_5 = ("breakout", "pong", "qbert", "seaquest", "space_invaders")
GAMES_3 = GAMES_5[:3]
DQN_GAMES_3 = ("breakout", "qbert", "road_runner")
"""Without Pong, which DQN plays as at random after desk scale's 600,000 frames: no row counts what has not learned."""
SWEEP_4 = MEMBERS["sweep4"]
"""Games of C-trace's sweep."""
CORRECTIONS = ("vtrace", "one_step", "epsilon", "no_correction")
LEVELS_5 = MEMBERS["dmlab5"]
"""Levels of DeepMind Lab in IMPALA's Table 2."""
LEVELS_22 = tuple(level for level in DMLAB30 if level not in LEVELS_8)
STAC_GAMES = ("breakout", "road_runner", "space_invaders")
"""Games that are assumed to be learned early; three of them say little about a median over 57."""
STAC_AGENTS = ("impala", "impala_aux", "stac", "stacx")
"""Agents of Figures 2 (a) and 3."""
STAC_SUBSETS = (
    *STAC_AGENTS,
    *(f"{agent}_{tuned}" for agent in ("stac", "stacx") for tuned in ("gamma", "gamma_lambda", "no_alpha")),
)
"""Sets of tuned metaparameters, from none to all: STAC's Figure 2 (b)."""
CHANGED = ("gamma_990", "gamma_995", "g_v_15", "g_v_25")
"""Values in STAC's Figure 4: for gamma and for g_v a lower one and the published one."""
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
HUMANOID = MEMBERS["dm_control_humanoid"]
CHALLENGES = ("cartpole_easy", "walker_easy")
QUADRUPED = "quadruped_easy"
CONTROL_6 = MEMBERS["acer_control"]
"""ACER's tasks."""
ACER_AGENTS = ("acer", "a3c", "tis", "trust_a3c", "trust_tis")
ACER_PARTS = ("acer_plain_traces", "acer_q_ret", "acer_on_policy")


def replays(method: str, *rules: str) -> tuple[str, ...]:
    """Names of ReF-ER's agents: `vracer_refer` and so on."""
    return tuple(f"{method}_{rule}" for rule in rules)


STAGES = {
    "Random players": (  # the baseline of all scores
        Block("57 games", "impala", "atari_shallow", ("random",), GAMES_57, "paper", 1, 0.03),
        Block("ten games with all actions", "impala", "atari_57", ("random",), ("atari_57",), "desk", 1, 0.03),
        Block("DM Control", "stac", "dm_control_features", ("random",), CONTROL_10, "desk", 1, 0.01),
        Block("DM Control, the humanoid", "stac", "dm_control_features", ("random",), HUMANOID, "paper", 1, 0.05),
        Block("the Real-World RL challenge", "stac", "rwrl", ("random",), (*CHALLENGES, QUADRUPED), "desk", 1, 0.01),
        Block("levels of Table 2", "impala", "dmlab_table2", ("random",), LEVELS_5, "paper", 1, 0.05),
        Block("DMLab-30", "impala", "dmlab_30_experts", ("random",), tuple(DMLAB30), "desk", 1, 0.05),
    ),
    "Main claims": (  # the fewest runs that can decide each
        Block(
            "DDPG with ReF-ER and without",
            "refer",
            "figure_1_ddpg",
            replays("ddpg", "refer", "er"),
            ("HalfCheetah", "Hopper", "Walker2d"),  # the first two answer differently
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
            DQN_GAMES_3,
            "desk",
            4,
            0.25,
        ),
        Block(
            "C-trace beside n-step returns in R2D2", "ctrace", "r2d2", ("n_step_5", "ctrace"), GAMES_3, "desk", 4, 0.6
        ),
        Block(
            "self-tuning in DM Control",
            "stac",
            "dm_control_features",
            ("impala", "stac"),
            CONTROL_10[:3],
            "desk",
            4,
            0.25,
        ),
        Block(
            "ACER's replay beside on-policy learning",
            "acer",
            "atari",
            ("acer_ratio_4", "a3c", "acer_ratio_0", "acer_ratio_0_no_trust_region"),
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
            6,  # one more than the paper's: with fewer, none of ten tasks can be decided
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
            "Figure 4 at a tenth of the budget, the other six tasks",
            "refer",
            "figure_4_vracer",
            replays("vracer", "refer", "er"),
            SIX,
            "desk",
            6,  # one more than the paper's: with fewer, none of ten tasks can be decided
            0.3,
        ),
        Block(
            "Figure 4 at a tenth of the budget, the baseline of other agents",
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
        Block(
            "PER by rank and by error, DDPG",
            "refer",
            "figure_1_ddpg",
            ("ddpg_per", "ddpg_per_proportional"),
            FOUR,
            "desk",
            5,
            0.35,
        ),
        Block(
            "PER by rank and by error, NAF",
            "refer",
            "figure_3_naf",
            ("naf_per", "naf_per_proportional"),
            FOUR,
            "desk",
            5,
            0.5,
        ),
        Block(
            "Figure 1, DDPG untuned", "refer", "figure_1_ddpg", ("ddpg_er_untuned",), ("Ant", "Hopper"), "desk", 5, 0.5
        ),
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
            "the abstract, DDPG on each of the ten tasks",
            "refer",
            "figure_1_ddpg",
            replays("ddpg", "refer", "er"),
            (*FOUR, *SIX),
            "desk",
            6,
            0.45,  # estimated: four of the tasks are larger
        ),
        Block(
            "the abstract, NAF on each of the ten tasks",
            "refer",
            "figure_3_naf",
            replays("naf", "refer", "er"),
            (*FOUR, *SIX),
            "desk",
            6,
            0.45,  # estimated: four of the tasks are larger
        ),
        Block(
            "Figure 7, the factors that the text mentions",
            "refer",
            "figure_7_sensitivity",
            tuple(f"vracer_{change}_{of}" for of in ("c", "d", "n", "f", "eta") for change in ("half", "twice"))
            + ("vracer_half_b", "vracer_twice_b"),
            TWO,
            "desk",
            5,
            0.4,
        ),
        Block(
            "Figure 7, half the memory",
            "refer",
            "figure_7_sensitivity",
            ("vracer_half_n",),
            FOUR[:2],
            "paper",  # at other scales both memories start with the same number of steps, unlike the paper's
            5,
            2.5,
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
            5,
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
            "Table C.1 at the paper's budget, two games",
            "impala",
            "atari_shallow",
            ("impala_shallow",),
            ("pong", "breakout"),
            "paper",
            5,  # with fewer, the row is undecided, and shows them in place of the runs of a smaller budget
            14.0,  # some 8000 frames a second on two cores
            cores=2,
        ),
        Block(  # gives values beside the printed ones, but no verdicts, which take five seeds
            "Table C.1, one seed",
            "impala",
            "atari_shallow",
            ("impala_shallow",),
            GAMES_57,
            "desk",
            1,
            0.5,
        ),
        Block("Table C.1, five seeds", "impala", "atari_shallow", ("impala_shallow",), GAMES_10, "desk", 5, 0.5),
        Block(
            "Table C.1, deep experts",
            "impala",
            "atari_deep",
            ("impala_deep",),
            GAMES_3,
            "desk",
            5,
            3.5,  # estimated: eight times the arithmetic of the shallow network
        ),
        Block(
            "Section 5.3.2, two networks of A3C",
            "impala",
            "atari_a3c",
            ("a3c_shallow", "a3c_deep"),
            GAMES_3[:2],
            "desk",
            5,
            3.0,  # estimated: an update for each unroll, and the deep network
        ),
        Block(
            "Section 5.3.2, A3C beside IMPALA at the paper's budget",
            "impala",
            "atari_a3c",
            ("a3c_shallow",),
            ("pong", "breakout"),
            "paper",
            5,
            35.0,  # estimated: an update for each unroll
            cores=2,
        ),
        Block(
            "Table C.1, one agent for ten games",
            "impala",
            "atari_57",
            ("impala_multitask",),
            ("atari_57",),
            "desk",
            5,
            6.0,  # estimated: ten games
        ),
        Block(
            "Appendix E on one game, answers no row",
            "impala",
            "atari_population",
            ("pbt", "random_search"),
            ("breakout",),
            "desk",
            4,
            4.0,  # estimated: eight members
        ),
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
            "n = 3 beside the other targets",
            "ctrace",
            "dqn",
            ("n_step_3", "n_step_5"),
            GAMES_5,
            "desk",
            5,
            0.25,
        ),
        Block(
            "Appendix E, lambda in DQN",
            "ctrace",
            "dqn",
            ("retrace", "retrace_lambda97", "ctrace_gamma10", "ctrace_gamma10_lambda97"),
            DQN_GAMES_3,
            "desk",
            5,
            0.25,
        ),
        Block(
            "Appendix E, lambda in R2D2",
            "ctrace",
            "r2d2",
            ("retrace", "retrace_lambda97", "ctrace", "ctrace_lambda97"),
            GAMES_3,
            "desk",
            5,
            0.6,
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
            4,  # two more than the paper's; fewer have no interval
            0.6,
        ),
    ),
    "ACER": (
        Block(
            "Figure 1, replay ratios",
            "acer",
            "atari",
            ("a3c", *(f"acer_ratio_{ratio}{rest}" for ratio in (0, 1, 4, 8) for rest in ("", "_no_trust_region"))),
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
            "Sections 5.1 and 6, parts of ACER on two tasks",
            "acer",
            "continuous",
            ACER_PARTS,
            ("cheetah", "walker"),
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
            4,  # one more than the paper's; fewer have no interval
            0.9,
        ),
        Block(
            "controls: metaparameters at their initial values",
            "stac",
            "atari",
            ("stac_untuned", "stacx_untuned", "impala_gamma_99"),
            STAC_GAMES[:2],
            "desk",
            4,
            0.9,
        ),
        Block(
            "Section 4.3, two alphas, and a tuned truncation level",
            "stac",
            "atari",
            ("stacx_two_alphas", "stacx_truncation"),
            STAC_GAMES,
            "desk",
            4,
            0.9,
        ),
        Block(
            "Figure 2 (b), subsets of metaparameters",
            "stac",
            "atari",
            STAC_SUBSETS,
            STAC_GAMES,
            "desk",
            4,
            0.9,
        ),
        Block(
            "Section 9.3, numbers of heads",
            "stac",
            "atari",
            ("stac", "stacx", *(f"stacx_heads_{heads}" for heads in (2, 5, 8))),
            STAC_GAMES,
            "desk",
            4,
            1.0,  # estimated: more heads
        ),
        Block(
            "Section 9.3, weights of the KL term",
            "stac",
            "atari",
            ("stacx", *(f"stacx_kl_{weight}" for weight in (0, 30, 200))),
            STAC_GAMES,
            "desk",
            5,
            0.9,
        ),
        Block(
            "Section 9.3, ensembles",
            "stac",
            "atari",
            ("stacx", "stacx_random_ensemble", "stacx_average_ensemble"),
            STAC_GAMES,
            "desk",
            4,
            0.9,
        ),
        Block(
            "Section 9.5, embeddings of gamma",
            "stac",
            "atari",
            ("stacx", "stac_gamma_lambda_embedding", "stacx_shared_embedding", "stacx_separate_embedding"),
            STAC_GAMES,
            "desk",
            4,
            0.9,
        ),
        Block("Figure 5, two alphas", "stac", "atari", ("stacx_two_alphas",), ("jamesbond",), "desk", 4, 0.9),
        Block("Figure 3 (a), ten tasks", "stac", "dm_control_features", STAC_AGENTS, CONTROL_10, "desk", 4, 0.25),
        Block(
            "Figure 3 (a), counts over the ten tasks",
            "stac",
            "dm_control_features",
            STAC_AGENTS,
            CONTROL_10,
            "desk",
            6,  # two more than above: with fewer, none of ten tasks can be decided
            0.25,
        ),
        Block(
            "Figure 3 (b), three tasks from pixels",
            "stac",
            "dm_control_pixels",
            STAC_AGENTS,
            CONTROL_10[:3],
            "desk",
            4,
            2.0,  # estimated: convolutions, and rendering
        ),
        Block("Figure 3 (c), two tasks", "stac", "rwrl", STAC_AGENTS, CHALLENGES, "desk", 4, 0.25),
        Block(
            "Figure 3 (c), a task that the paper calls solved",
            "stac",
            "rwrl",
            ("stac",),
            (QUADRUPED,),
            "desk",
            5,
            0.5,  # estimated: twelve joints
        ),
        Block(
            "Figure 4, the cost of a lower gamma or g_v",
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
            "controls in DM Control: metaparameters at their initial values",
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
        Block(
            "Figure 3 (a), whether the humanoid is solved",
            "stac",
            "dm_control_features",
            STAC_AGENTS,
            HUMANOID,
            "paper",
            4,
            6.0,  # estimated: 21 joints
        ),
    ),
    "IMPALA in 3D": (  # left out where DeepMind Lab is not built, like its random players
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
            "Table 3, one agent for eight levels",
            "impala",
            "dmlab_30",
            ("impala_shallow", "impala_deep"),
            ("dmlab_30",),
            "desk",
            5,
            4.0,
        ),
        Block(
            "Table B.1, a population on eight levels",
            "impala",
            "dmlab_30_population",
            ("pbt",),
            ("dmlab_30",),
            "desk",
            5,
            32.0,  # estimated: eight members
        ),
        Block("Tables 3 and B.1, experts", "impala", "dmlab_30_experts", ("impala_deep",), LEVELS_8, "desk", 5, 0.5),
        Block(
            "Table B.1, experts of the other levels",
            "impala",
            "dmlab_30_experts",
            ("impala_deep",),
            LEVELS_22,
            "desk",
            2,
            0.5,
        ),
        Block(  # its records are frames per second, on a machine of two cores without other load
            "Table 1, every schedule, answers no row",
            "impala",
            "dmlab_table1_throughput",
            ("a3c", "a2c_sync_step", "a2c_sync_trajectories", "a2c_dynamic_batching", "impala_async")
            + ("impala_dynamic_batching",),
            ("seekavoid_arena_01", "rooms_keys_doors_puzzle"),
            "desk",
            2,
            0.2,  # estimated: minutes on two cores
            cores=2,
        ),
        Block(
            "Figure 4 with the deep network, answers no row",
            "impala",
            "dmlab_table2",
            ("vtrace_deep",),
            ("seekavoid_arena_01",),
            "desk",
            2,
            6.0,  # estimated: four times the shallow network
        ),
        Block(
            "Appendix E on one level, answers no row",
            "impala",
            "dmlab_population",
            ("pbt", "random_search"),
            LEVELS_5[3:4],
            "desk",
            2,
            12.0,  # estimated: eight members
        ),
    ),
}
"""Blocks of each stage, by its title."""

LEFT_OUT: Mapping[str, Callable[[PublishedRow], bool]] = {
    "a median or mean over a set, which takes several runs on each of its 12 to 57 tasks": lambda row: (
        row.statistic is not None and row.n_seeds != 1
    ),
    "a single run, which gives a value beside the printed one but no verdict": lambda row: (
        row.experiment == "atari_shallow" and row.claim is None
    ),
    "experts with the deep network on the other 54 games: some 900 core-hours": lambda row: (
        row.experiment == "atari_deep" and row.claim is None
    ),
    "200M frames with the deep network: some 90 core-hours per run": lambda row: (
        row.experiment == "atari_deep" and row.protocol.get("scale") == "paper"
    ),
    "one agent for all 57 games, 200M frames on each": lambda row: row.experiment == "atari_57" and row.claim is None,
    "one agent for all 30 levels, 1e10 frames": lambda row: (
        row.experiment in ("dmlab_30", "dmlab_30_population")
        and (row.claim is None or row.protocol.get("scale") == "paper")
    ),
    "experts beside an agent for all 30 levels, 1e10 frames": lambda row: (
        row.experiment == "dmlab_30_experts" and row.protocol.get("scale") == "paper"
    ),
    "24 sampled settings of each agent, which only the scale `paper` has, 1e9 frames with each": lambda row: (
        row.experiment in ("dmlab_table2", "dmlab_figure5")
        and (row.protocol.get("sampled", False) or row.protocol.get("scale") == "paper")
    ),
    "a sweep of learning rates at 200M frames on four games": lambda row: (
        row.experiment == "dqn" and row.protocol.get("scale") == "paper"
    ),
    "ACER on MuJoCo with the paper's settings, 800 core-hours per run": lambda row: (
        row.experiment == "figure_4_vracer"
        and not {"acer", "acer_fast"}.isdisjoint((row.agent, *row.protocol.get("against", ())))
    ),
    "200M frames with the deep network on 57 games": lambda row: (
        row.experiment == "atari" and row.paper == "stac" and row.protocol.get("scale") == "paper"
    ),
}
"""Reasons why the plan leaves rows that could be run here without a verdict, each with the rows to which it applies."""
