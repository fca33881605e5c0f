"""The command beside a row makes exactly the runs behind it."""

import pytest

from repro.evaluation import commands, published
from repro.evaluation.commands import Run

VRACER = Run("refer", "figure_4_vracer", "vracer_refer", "Hopper", "desk", 2)
HALF = "make reproduce-refer EXPERIMENT=figure_4_vracer AGENT="


def test_agents_with_the_same_tasks_and_seeds_share_a_command():
    runs = [
        VRACER._replace(agent=agent, task=task, seed=seed)
        for task in ("HalfCheetah", "Hopper")
        for agent in ("vracer_refer", "ppo")
        for seed in (1, 2, 3)
    ]
    assert commands.command(runs) == HALF + "vracer_refer,ppo TASK=HalfCheetah,Hopper SCALE=desk SEEDS=3"


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (VRACER._replace(agent="ppo", seed=3), "AGENT=ppo TASK=Hopper SCALE=desk SEEDS=3"),
        (VRACER._replace(agent="ppo", task="Ant"), "AGENT=ppo TASK=Ant SCALE=desk SEEDS=2"),
        (VRACER._replace(task="Ant", scale="paper"), "AGENT=vracer_refer TASK=Ant SCALE=paper SEEDS=2"),
    ],
)
def test_others_have_one_of_their_own(other, text):
    first = HALF + "vracer_refer TASK=Hopper SCALE=desk SEEDS=2"
    assert commands.command([VRACER, other]) == f"{first} && make reproduce-refer EXPERIMENT=figure_4_vracer {text}"


def test_another_experiment_has_its_own():
    naf = VRACER._replace(experiment="figure_3_naf", agent="naf_er")
    second = "make reproduce-refer EXPERIMENT=figure_3_naf AGENT=naf_er TASK=Hopper SCALE=desk SEEDS=2"
    assert commands.command([VRACER, naf]).endswith(f" && {second}")


def test_agents_are_named_where_there_are_several():
    run = Run("impala", "atari_shallow", "impala_shallow", "pong", "desk", 5)
    assert commands.command([run]) == "make reproduce-impala EXPERIMENT=atari_shallow TASK=pong SCALE=desk SEEDS=5"


@pytest.mark.parametrize("gone", [{"experiment": "figure_0"}, {"agent": "vracer_rainbow"}])
def test_what_is_not_there_has_no_command(gone):
    assert commands.command([VRACER, VRACER._replace(**gone)]) is None


def test_a_claim_without_runs_begins_with_one_task_and_all_its_agents():
    rows = {row.column: row for row in published.load("refer").rows}
    improved, larger_f = rows["DDPG, PER over ER"], rows["V-RACER, larger F"]
    assert commands.command(commands.first_runs(improved)) == (
        "make reproduce-refer EXPERIMENT=figure_1_ddpg AGENT=ddpg_per,ddpg_er SCALE=desk SEEDS=3"
    )
    assert commands.command(commands.first_runs(larger_f)) == (
        "make reproduce-refer EXPERIMENT=figure_7_sensitivity AGENT=vracer_twice_f TASK=Humanoid SCALE=desk SEEDS=3"
        " && make reproduce-refer EXPERIMENT=figure_4_vracer AGENT=vracer_refer TASK=Humanoid SCALE=desk SEEDS=3"
    )
