"""Rows that planned runs can answer, and the fraction of the protocol that they cover."""

import pytest

from paper_configs import campaign
from repro.environments.dmlab_levels import DMLAB30
from repro.evidence import answerable, commands, comparisons, published
from repro.evidence.claim_kinds import find_claim
from repro.evidence.commands import Run

FIVE_LEVELS = (
    "explore_goal_locations_small",
    "lasertag_three_opponents_small",
    "rooms_keys_doors_puzzle",
    "rooms_watermaze",
    "seekavoid_arena_01",
)
"""Of IMPALA's Table 2."""


def impala(task, seeds=1, scale="paper", agent="impala_shallow"):
    return [Run("impala", "atari_shallow", agent, task, scale, seed) for seed in range(1, seeds + 1)]


def vracer(agent, task, seeds, scale="desk"):
    return [Run("refer", "figure_4_vracer", agent, task, scale, seed) for seed in range(1, seeds + 1)]


def rows_of(found):
    return {place: published.load(place[0]).rows[place[1]] for place in found}


def test_a_game_of_table_c1_needs_its_runs_and_the_paper_s_budget():
    (place,) = answerable.shares(impala("pong", seeds=5))
    row = published.load("impala").rows[place[1]]
    assert (row.table, row.task, row.agent) == ("C.1", "pong", "impala_shallow")
    assert answerable.shares(impala("pong", seeds=5)) == {place: 1.0}
    assert answerable.shares(impala("pong", seeds=4)) == {}  # undecided, as the paper does not say how many it has
    assert answerable.shares(impala("pong", seeds=5, scale="desk")) == {place: pytest.approx(0.04)}
    assert answerable.shares(impala("pong", seeds=9)) == {place: 1.0}


def test_the_largest_scale_counts_as_in_the_rows():
    desk = impala("pong", seeds=5, scale="desk")
    assert list(answerable.shares([*impala("pong", seeds=5), *desk]).values()) == [1.0]
    assert answerable.shares([*impala("pong", seeds=1), *desk]) == {}  # the row shows the single run


def test_a_claim_needs_two_runs_of_both_agents_on_two_tasks_at_one_scale():
    hopper = [*vracer("vracer_refer", "Hopper", 5), *vracer("vracer_er", "Hopper", 5)]
    both = [*hopper, *vracer("vracer_refer", "HalfCheetah", 5), *vracer("vracer_er", "HalfCheetah", 5)]
    (place,) = (place for place, row in rows_of(answerable.shares(both)).items() if row.claim == "improvement")
    assert answerable.shares(both)[place] == pytest.approx(0.1 * 0.2)  # a tenth of the budget, two of ten tasks
    assert place not in answerable.shares(hopper)  # a single one decides nothing
    alone = [*hopper, *vracer("vracer_refer", "HalfCheetah", 5), *vracer("vracer_er", "HalfCheetah", 1)]
    assert place not in answerable.shares(alone)
    apart = [*hopper, *vracer("vracer_refer", "HalfCheetah", 5), *vracer("vracer_er", "HalfCheetah", 5, "paper")]
    assert place not in answerable.shares(apart)
    elsewhere = [*hopper, *vracer("vracer_refer", "HalfCheetah", 5), *vracer("vracer_er", "Walker2d", 5)]
    assert place not in answerable.shares(elsewhere)


def test_a_claim_that_is_resampled_needs_as_many_runs_as_its_interval():
    """Three runs have a value, and no verdict; neither have two of a larger scale beside four of a smaller one."""

    def r2d2(seeds, scale="desk"):
        agents = ("n_step_5", "retrace", "ctrace")
        return [
            Run("ctrace", "r2d2", agent, game, scale, i)
            for agent in agents
            for game in ("pong", "breakout")
            for i in range(1, seeds + 1)
        ]

    def tables(runs):
        return {row.table for row in rows_of(answerable.shares(runs)).values() if row.claim != "improvement"}

    assert tables(r2d2(3)) == set()
    assert tables(r2d2(4)) == {"Figure 4", "Figure 12", "Figure 13"}
    four = answerable.shares(r2d2(4))
    both = answerable.shares([*r2d2(4), *r2d2(2, "paper")])
    figure_12 = [place for place, row in rows_of(four).items() if row.table == "Figure 12"]
    assert [both[place] for place in figure_12] == [four[place] for place in figure_12]


def test_a_count_needs_so_many_runs_that_each_task_can_be_decided():
    """Five runs of each agent decide five tasks, and six ten, at a level for all of them."""

    def tables(tasks, seeds):
        agents = ("naf_refer", "naf_refer2", "figure_1_ddpg/ddpg_refer", "figure_1_ddpg/ddpg_refer2")
        runs = []
        for name in agents:
            experiment, agent = name.split("/") if "/" in name else ("figure_3_naf", name)
            runs += [Run("refer", experiment, agent, task, "desk", i) for task in tasks for i in range(1, seeds + 1)]
        return {row.claim for row in rows_of(answerable.shares(runs)).values()}

    ten = (*campaign.FOUR, *campaign.SIX)
    assert "gaps_widened_share" not in tables(ten, 5)
    assert "gaps_widened_share" in tables(ten, 6)
    assert "gaps_widened_share" in tables(ten[:5], 5)


def test_a_place_and_that_one_of_several_is_ahead_need_runs_for_every_comparison():
    """On five tasks 5 runs decide which agent wins one; against each of two or three others it takes 6."""

    def claims(experiment, agents, seeds, scale="desk"):
        runs = [
            Run("impala", experiment, agent, name, scale, i)
            for agent in agents
            for name in FIVE_LEVELS
            for i in range(1, seeds + 1)
        ]
        return {row.claim for row in rows_of(answerable.shares(runs)).values()}

    beside_a3c = ("impala", "a2c", "a3c")
    fewer, enough = (claims("dmlab_figure5", beside_a3c, seeds, "paper") for seeds in (5, 6))
    assert {"tasks_led", "tasks_won"} <= fewer
    assert enough == fewer | {"last_surpassed"} != fewer
    assert "place" not in claims("dmlab_table2", campaign.CORRECTIONS, 5)
    assert "place" in claims("dmlab_table2", campaign.CORRECTIONS, 6)


def test_an_aggregate_over_tasks_needs_as_many_runs_of_each_as_its_interval():
    """Those of the paper's three seeds too, of which none can be had."""

    def medians(seeds):
        games = published.normaliser("atari57")
        runs = [Run("stac", "atari", "stacx", game, "desk", i) for game in games for i in range(1, seeds + 1)]
        return [row.value for row in rows_of(answerable.shares(runs)).values() if row.statistic == "median"]

    assert medians(3) == []
    assert 364 in medians(4)


def test_the_campaign_s_runs_of_dqn_and_r2d2_answer_every_row_about_them_but_those_of_lambda_and_rates():
    runs = [run for block in campaign.STAGES["C-trace"] for run in block.runs()]
    found = rows_of(answerable.shares(runs)).values()
    rows = [row for row in published.load("ctrace").rows if row.experiment in ("dqn", "r2d2") and not row.cannot_run]
    left = [row.column for row in rows if row not in found]
    assert [column for column in left if "lambda" not in column and "learning rate" not in column] == []


def test_what_cannot_run_here_and_random_players_answer_nothing():
    games = list(published.normaliser("atari57"))
    runs = [run for game in games for run in impala(game, seeds=5)]
    found = rows_of(answerable.shares(runs))
    assert sum(row.task in games for row in found.values()) == 57
    assert sorted(row.statistic for row in found.values() if row.task == "atari57") == ["mean", "median"]
    assert all(row.cannot_run is None for row in found.values())
    assert answerable.shares(impala("pong", agent="random")) == {}


def test_the_best_five_of_thirty_settings_need_thirty():
    def acer(seeds):
        return [
            Run("acer", "continuous", agent, "cheetah", "paper", seed)
            for agent in ("acer", "a3c", "tis", "trust_a3c", "trust_tis")
            for seed in range(1, seeds + 1)
        ]

    thirty, five = answerable.shares(acer(30)), answerable.shares(acer(5))
    place = next(
        place for place, row in rows_of(thirty).items() if row.task == "cheetah" and row.claim == "improvement"
    )
    assert thirty[place] == 1.0
    assert five[place] == pytest.approx(5 / 30)


def test_table_2_is_answered_level_by_level_and_its_claims_by_all_agents_compared():
    def levels(agents, seeds, scale="paper", names=("rooms_watermaze",)):
        return [
            Run("impala", "dmlab_table2", agent, name, scale, seed)
            for agent in agents
            for name in names
            for seed in range(1, seeds + 1)
        ]

    (place,) = answerable.shares(levels(["vtrace_replay"], 24))
    row = published.load("impala").rows[place[1]]
    assert (row.table, row.task, row.value) == ("2", "rooms_watermaze", 47.1)
    assert answerable.shares(levels(["vtrace_replay"], 24)) == {place: 1.0}
    assert answerable.shares(levels(["vtrace_replay"], 6, "desk")) == {place: pytest.approx(0.004 * 6 / 24)}
    agents = ["vtrace_replay", "one_step_replay", "epsilon_replay", "no_correction_replay"]
    found = rows_of(answerable.shares(levels(agents, 24)))
    assert {row.claim for row in found.values()} == {None}  # one of five levels decides nothing about them
    found = rows_of(answerable.shares(levels(agents, 24, names=FIVE_LEVELS)))
    assert {row.claim for row in found.values()} == {None, "tasks_won", "improvement"}
    gaps = answerable.shares(levels([*agents, "vtrace", "one_step"], 24, names=FIVE_LEVELS))
    assert "gaps_widened" in {row.claim for row in rows_of(gaps).values()}
    lags = [
        Run("impala", "dmlab_figure_d1", f"{agent}_lag_{lag}", level, "paper", seed)
        for agent in ("vtrace", "epsilon")
        for level in FIVE_LEVELS[:2]
        for lag in (1, 100)
        for seed in range(1, 6)
    ]
    (row,) = rows_of(answerable.shares(lags)).values()
    assert (row.table, row.agent, row.protocol["against"][1]) == ("Figure D.1", "vtrace_lag_100", "epsilon_lag_100")


@pytest.mark.parametrize(
    ("scale", "of_five", "of_four"),
    [
        ("desk", [], []),
        (
            "paper",
            ["improvement", "improvement", "last_surpassed", "speed", "tasks_led", "tasks_won"],
            ["improvement", "improvement", "speed"],
        ),
    ],
)
def test_figure_5_compares_agents_whose_numbers_of_environments_are_not_printed(scale, of_five, of_four):
    """Not at desk: nothing is swept, and batches of IMPALA and A2C are smaller than the paper's, not those of A3C."""

    def answered(levels):
        agents = ("impala", "a2c", "a3c")
        runs = [
            Run("impala", "dmlab_figure5", agent, name, scale, i)
            for agent in agents
            for name in levels
            for i in range(1, 7)
        ]
        return sorted(row.claim for row in rows_of(answerable.shares(runs)).values())

    assert answered(FIVE_LEVELS) == of_five
    assert answered(FIVE_LEVELS[:4]) == of_four


def tasks_of(row):
    """Names of the tasks of a row; of a large set two, where a part of it will do."""
    sets = {
        "dmlab5": FIVE_LEVELS,
        "acer_control": campaign.CONTROL_6,
        "sweep4": ("pong", "breakout", "alien", "amidar"),
        "dmlab30": tuple(DMLAB30)[:2],
        "dm_control_humanoid": ("humanoid_stand", "humanoid_walk", "humanoid_run"),
    }
    control = ("cartpole_swingup", "walker_walk")
    sets |= dict.fromkeys(("dm_control_features", "dm_control_pixels"), control)
    sets |= {"mujoco_gym": (*campaign.FOUR, *campaign.SIX), "rwrl": campaign.CHALLENGES}
    if row.task in comparisons.TASK_SETS:
        return sets.get(row.task, ("pong", "breakout"))
    return (row.task,)


def test_every_claim_can_be_answered_by_runs_of_all_its_agents_at_the_paper_s_scale():
    """No setting of an opponent, nor a missing task, keeps it from it for good."""
    found = []
    for paper in published.papers():
        for place, row in enumerate(published.load(paper).rows):
            if row.claim is None or row.cannot_run is not None:
                continue
            agents = [
                comparisons.experiment_and_agent(row, name) for name in (row.agent, *row.protocol.get("against", ()))
            ]
            runs = [
                Run(paper, experiment, agent, task, "paper", seed)
                for experiment, agent in dict.fromkeys(agents)
                for task in tasks_of(row)
                for seed in range(1, max(row.n_seeds or 5, 6) + 1)  # six decide which of ten tasks are won
            ]
            if (paper, place) not in answerable.shares(runs):
                found.append((paper, row.table, row.column))
    assert found == []


def test_the_plan_has_the_runs_that_decide_the_counts_of_its_agents():
    """But for those of agents that are the paper's at its own scale alone, of which it has no runs there."""
    runs = dict.fromkeys(run for blocks in campaign.STAGES.values() for block in blocks for run in block.runs())
    planned = {(run.paper, run.experiment, run.agent) for run in runs}
    answered = answerable.shares(runs)
    left = [
        row.column
        for paper in published.papers()
        for place, row in enumerate(published.load(paper).rows)
        if row.claim is not None and row.cannot_run is None and find_claim(row).count is not None
        if (paper, row.experiment, row.agent) in planned and (paper, place) not in answered
    ]
    assert left == [
        "n-step-DQN, place of the learning rate 0.00001",
        "Retrace-DQN, place of the learning rate 0.00001",
        "PPO over ACER with learning rate 1e-4",
        "V-RACER, ReF-ER-2 over ACER",
        "V-RACER with ReF-ER over the best of DDPG, NAF, PPO and ACER",
    ]


def test_a_run_of_tasks_learned_together_answers_each_of_its_tasks():
    (games,) = {commands.learns_together(Run("impala", "atari_57", "impala_multitask", scale="desk"))}
    assert len(games) == 10
    desk = rows_of(answerable.shares([Run("impala", "atari_57", "impala_multitask", "atari_57", "desk", 1)]))
    assert {(row.table, row.task) for row in desk.values()} == {("C.1", game) for game in games}
    paper = answerable.shares([Run("impala", "atari_57", "impala_multitask", "atari_57", "paper", 1)])
    assert sum(row.task == "atari57" for row in rows_of(paper).values()) == 5
    assert sum(row.task != "atari57" for row in rows_of(paper).values()) == 57
    assert set(paper.values()) == {1.0}
