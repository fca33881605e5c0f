"""The command beside a row makes exactly the runs behind it."""

import pytest

from repro.config import agents
from repro.environments.names import task_name
from repro.evidence import claim_kinds, commands, published, random_player, records, rows, staleness
from repro.evidence.commands import Run, with_seeds
from repro.evidence.groups import group_records
from repro.launch import task_sets

VRACER = Run("refer", "figure_4_vracer", "vracer_refer", "Hopper", "desk")
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
        (with_seeds([VRACER._replace(agent="ppo")], 3), "AGENT=ppo TASK=Hopper SCALE=desk SEEDS=3"),
        (with_seeds([VRACER._replace(agent="ppo", task="Ant")], 2), "AGENT=ppo TASK=Ant SCALE=desk SEEDS=2"),
        (
            with_seeds([VRACER._replace(task="Ant", scale="paper")], 2),
            "AGENT=vracer_refer TASK=Ant SCALE=paper SEEDS=2",
        ),
    ],
)
def test_others_have_one_of_their_own(other, text):
    first = HALF + "vracer_refer TASK=Hopper SCALE=desk SEEDS=2"
    assert (
        commands.command([*with_seeds([VRACER], 2), *other])
        == f"{first} && make reproduce-refer EXPERIMENT=figure_4_vracer {text}"
    )


def test_another_experiment_has_its_own():
    naf = VRACER._replace(experiment="figure_3_naf", agent="naf_er")
    second = "make reproduce-refer EXPERIMENT=figure_3_naf AGENT=naf_er TASK=Hopper SCALE=desk SEEDS=2"
    assert commands.command(with_seeds([VRACER, naf], 2)).endswith(f" && {second}")


def test_agents_are_named_where_there_are_several():
    run = Run("impala", "atari_shallow", "impala_shallow", "pong", "desk")
    assert (
        commands.command(with_seeds([run], 5))
        == "make reproduce-impala EXPERIMENT=atari_shallow TASK=pong SCALE=desk SEEDS=5"
    )


def test_seeds_that_are_not_the_first_ones_are_named():
    runs = [VRACER._replace(seed=seed) for seed in (4, 2)]
    assert commands.command(runs) == HALF + "vracer_refer TASK=Hopper SCALE=desk SEED=2,4"


@pytest.mark.parametrize("gone", [{"experiment": "figure_0"}, {"agent": "vracer_rainbow"}])
def test_what_is_not_there_has_no_command(gone):
    assert commands.command([VRACER, VRACER._replace(**gone)]) is None


def test_a_claim_without_runs_begins_with_one_task_and_all_its_agents():
    rows = {row.column: row for row in published.load("refer").rows}
    improved, larger_f = rows["DDPG, PER over ER"], rows["V-RACER, larger F"]
    assert commands.command(commands.first_runs(improved)) == (
        "make reproduce-refer EXPERIMENT=figure_1_ddpg AGENT=ddpg_per,ddpg_er SCALE=desk SEEDS=5"
    )
    assert commands.command(commands.first_runs(larger_f)) == (
        "make reproduce-refer EXPERIMENT=figure_7_sensitivity AGENT=vracer_twice_f TASK=Humanoid SCALE=desk SEEDS=5"
        " && make reproduce-refer EXPERIMENT=figure_4_vracer AGENT=vracer_refer TASK=Humanoid SCALE=desk SEEDS=5"
    )


def test_a_claim_that_one_scale_answers_begins_with_runs_of_it():
    (improved,) = (row for row in published.load("impala").rows if row.column == "IMPALA over A3C, final return")
    assert commands.command(commands.first_runs(improved)) == (
        "make reproduce-impala EXPERIMENT=dmlab_figure5 AGENT=impala,a3c SCALE=paper SEEDS=5"
    )


def test_runs_that_begin_a_row_are_as_many_as_decide_it():
    of_three_seeds = next(row for row in published.load("stac").rows if row.column == "STAC over IMPALA")
    assert of_three_seeds.n_seeds == 3  # which have no interval
    assert _seeds(_fields(commands.command(commands.first_runs(of_three_seeds)))[1]) == set(range(1, 5))
    for paper in ("impala", "acer", "refer", "ctrace", "stac"):
        for row in published.load(paper).rows:
            if row.experiment is not None and row.claim is not None:
                seeds = {run.seed for run in commands.first_runs(row)}
                assert len(seeds) >= claim_kinds.find_claim(row).interval_runs, row


def test_a_number_of_ten_tasks_takes_a_sixth_run():
    rows = {row.column: row for row in published.load("refer").rows}
    of_ten, of_each = rows["NAF, ReF-ER over ER, all tasks"], rows["DDPG, PER over ER"]
    assert [len({run.seed for run in commands.first_runs(row)}) for row in (of_ten, of_each)] == [6, 5]


def test_one_repetition_of_a_study_begins_its_row():
    rows = [row for row in published.load("stac").rows if row.experiment == "theorems"]
    assert rows
    assert {run.seed for row in rows for run in commands.first_runs(row)} == {1}


def _fields(text):
    """The paper and the fields of one command."""
    program, target, *fields = text.split()
    assert program == "make"
    return target.removeprefix("reproduce-"), dict(field.split("=") for field in fields)


def _seeds(fields):
    """Seeds of the runs that a command with these fields makes."""
    named = fields.get("SEED")
    return set(map(int, named.split(","))) if named else set(range(1, int(fields["SEEDS"]) + 1))


@pytest.fixture(scope="module")
def committed_rows():
    return tuple(rows.make_rows(group_records(records.read_all(records.ROOT / "results")[0])))


def test_every_row_s_command_names_what_is_there(committed_rows):
    found = {text for row in committed_rows if row.command for text in row.command.split(" && ")}
    assert len(found) > 100
    for text in found:
        paper, fields = _fields(text)
        config = staleness.current_config(paper, fields["EXPERIMENT"], fields["SCALE"])
        assert set(fields.get("AGENT", config["agent"]).split(",")) <= {
            config["agent"],
            *agents(config),
            random_player.AGENT,
        }
        for task in task_sets.expand(filter(None, fields.get("TASK", "").split(","))):
            assert task == (config["env"]["task"] if "study" in config else task_name(config["env"]["name"], task)), (
                text
            )
        assert min(_seeds(fields)) > 0


def test_every_row_that_is_not_run_has_a_command(committed_rows):
    assert [row for row in committed_rows if row.finding == "not run" and row.command is None] == []


def test_every_answered_row_has_the_command_of_its_runs(committed_rows):
    for row in committed_rows:
        if row.seeds and row.statistic is None:
            seeds = [_seeds(_fields(text)[1]) for text in row.command.split(" && ")]
            assert min(map(len, seeds)) >= len(row.seeds), row
            assert set(row.seeds) <= set.union(*seeds), row


TOGETHER = "make reproduce-impala EXPERIMENT=atari_57 SCALE=desk SEEDS="


def test_tasks_learned_together_are_made_by_one_command_without_a_task():
    runs = [Run("impala", "atari_57", "impala_multitask", task, "desk") for task in ("pong", "breakout")]
    assert commands.command(with_seeds(runs, 2)) == f"{TOGETHER}2"
    alone = Run("impala", "atari_57", "random", "pong", "desk", 1)
    assert commands.command([alone]).endswith("EXPERIMENT=atari_57 AGENT=random TASK=pong SCALE=desk SEEDS=1")
    assert commands.learns_together(alone) == ()


def test_a_number_of_tasks_learned_together_has_a_command_of_a_scale_with_all_of_them():
    of_task = {
        row.task: row.command for row in rows.make_rows({}, papers=["impala"]) if row.agent == "impala_multitask"
    }
    assert of_task["pong"] == f"{TOGETHER}1"
    assert of_task["alien"] == TOGETHER.replace("desk", "paper") + "1"  # not among the ten games
    found = {(row.table, row.column, row.statistic): row.command for row in rows.make_rows({}, papers=["impala"])}
    assert found["4", "IMPALA, deep, multi-task", "median"] == (
        "make reproduce-impala EXPERIMENT=atari_57 SCALE=paper SEEDS=1"
    )
    assert found["4", "IMPALA, deep, experts", "median"] == (
        "make reproduce-impala EXPERIMENT=atari_deep TASK=atari57 SCALE=desk SEEDS=4"
    )
    assert found["3", "IMPALA-Experts, deep", "mean_capped"] == (
        "make reproduce-impala EXPERIMENT=dmlab_30_experts TASK=dmlab30 SCALE=desk SEEDS=1"
    )
    shallow = "make reproduce-impala EXPERIMENT=dmlab_30 AGENT=impala_shallow SCALE=paper SEEDS=1"
    assert found["3", "IMPALA, shallow", "mean_capped"] == shallow
