"""The plan: runs of a block, order of priority, share of a machine, and errors in a sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from paper_configs import campaign
from repro.evidence import answerable, behaviour, commands, published, random_player, records, staleness
from repro.evidence.commands import Run
from repro.launch import plan, selection
from repro.launch.plan import Block

PATH = Path("paper_configs/campaign.py")


def block(purpose, agents, tasks, seeds=2, hours=1.0, scale="desk", experiment="figure_4_vracer"):
    return Block(purpose, "refer", experiment, agents, tasks, scale, seeds, hours)


BOTH = ("vracer_refer", "vracer_er")


def test_a_block_has_every_agent_and_task_of_a_seed_before_the_next_seed():
    runs = block("x", BOTH, ("hopper", "Swimmer")).runs()
    assert runs[0] == Run("refer", "figure_4_vracer", "vracer_refer", "Hopper", "desk", 1)
    assert [(run.seed, run.task, run.agent) for run in runs[:5]] == [
        (1, "Hopper", "vracer_refer"),
        (1, "Hopper", "vracer_er"),
        (1, "Swimmer", "vracer_refer"),
        (1, "Swimmer", "vracer_er"),
        (2, "Hopper", "vracer_refer"),
    ]


def test_a_random_player_plays_each_of_the_tasks_that_others_learn_together():
    both = Block("x", "impala", "atari_57", ("random", "impala_multitask"), ("atari_57",), "smoke", 1, 1.0)
    assert [(run.agent, run.task) for run in both.runs()] == [
        ("random", "breakout"),
        ("random", "pong"),
        ("impala_multitask", "atari_57"),
    ]


def test_within_a_stage_the_block_that_answers_most_per_core_hour_comes_first():
    dear = block("dear", BOTH, ("Hopper", "Swimmer"), 5, hours=9.0)
    cheap = block("cheap", BOTH, ("Walker2d", "HalfCheetah"), 5, hours=1.0)
    alone = block("alone", ("vracer_per",), ("Walker2d",), 5, hours=0.01)
    later = block("later", BOTH, ("Ant",), 2, hours=0.1)
    steps = list(plan.order({"first": (dear, alone, cheap), "second": (later,)}))
    assert [step.block.purpose for step in steps] == ["cheap", "dear", "alone", "later"]
    assert [step.stage for step in steps] == ["first", "first", "first", "second"]
    # against plain replay twice, and once their spread; how the divergence grows; what is far-policy
    assert [step.rows for step in steps] == [5, 0, 0, 0]
    assert steps[0].full_rows == pytest.approx(steps[1].full_rows) == pytest.approx(5 * 0.1 * 0.2)
    assert steps[2].full_rows == steps[3].full_rows == 0  # without the others; too few for a verdict
    assert [step.core_hours for step in steps] == pytest.approx([20.0, 180.0, 0.05, 0.4])


def test_a_block_is_judged_by_what_the_ones_before_left_to_answer():
    refer = block("refer", ("vracer_refer",), ("Hopper", "Ant"), 5)
    er = block("er", ("vracer_er",), ("Hopper", "Ant"), 5)
    steps = list(plan.order({"first": (refer, er)}))
    # how its divergence grows and what is far-policy; the comparisons need both
    assert [step.rows for step in steps] == [2, 3]


def test_blocks_of_several_papers_answer_what_all_their_runs_do():
    pong = Block("pong", "impala", "atari_shallow", ("impala_shallow",), ("pong",), "desk", 5, 1.0)
    two = ("Hopper", "Ant")
    blocks = (block("a", ("vracer_refer",), two, 5), pong, block("b", ("vracer_er",), two, 5))
    steps = list(plan.order({"first": blocks[:2], "second": blocks[2:]}))
    answered = answerable.shares([run for item in blocks for run in item.runs()])
    assert {paper for paper, _ in answered} == {"impala", "refer"}
    assert sum(step.rows for step in steps) == len(answered)
    assert sum(step.full_rows for step in steps) == pytest.approx(sum(answered.values()))


def test_a_plan_is_made_without_tensorflow():
    code = """
import sys
from repro.environments.names import task_name
from repro.launch import campaign, jobs, plan
tasks = {"atari": "pong", "mujoco": "Ant", "acer_tasks": "fish", "dm_control": "walker_run", "rwrl": "walker_easy",
         "gymnasium": "CartPole-v1", "dmlab": "rooms_watermaze", "vizdoom": "basic"}
for package, task in tasks.items():
    task_name(package, task)
sys.exit("tensorflow" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_run_of_two_blocks_belongs_to_the_first():
    steps = list(plan.order({"s": (block("a", BOTH, ("Hopper",)), block("b", BOTH, ("Hopper", "Ant"), hours=2.0))}))
    assert [len(step.runs) for step in steps] == [4, 4]
    assert {run.task for run in steps[1].runs} == {"Ant"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"agents": ("vracer_refr",)}, "no agent 'vracer_refr' in figure_4_vracer; did you mean 'vracer_refer'?"),
        ({"experiment": "figure_4_vraser"}, "no experiment 'figure_4_vraser' .*did you mean 'figure_4_vracer'?"),
        ({"tasks": ("Hoper",)}, "Hopper"),
        ({"scale": "huge"}, "Unknown scale 'huge'"),
    ],
)
def test_a_wrong_name_in_the_plan_is_a_sentence(changes, sentence):
    fields = {"purpose": "x", "agents": BOTH, "tasks": ("Hopper",)} | changes
    with pytest.raises(ValueError, match=sentence):
        block(**fields).runs()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"hours": 0.0}, "core_hours=0.0, which must be above 0"),
        ({"seeds": 0}, "seeds=0, which must be above 0"),
        ({"tasks": ()}, "no tasks"),
        ({"agents": ()}, "no agents"),
    ],
)
def test_a_block_without_runs_or_time_is_a_sentence_of_its_plan(tmp_path, changes, sentence):
    fields = {"purpose": "mine", "agents": BOTH, "tasks": ("Hopper",)} | changes
    with pytest.raises(ValueError, match=f"^the block 'mine' has {sentence}$"):
        block(**fields)
    arguments = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    (tmp_path / "plan.py").write_text(
        f"from tests.launch.test_plan import block\n\nSTAGES = {{'s': (block({arguments}),)}}\n"
    )
    with pytest.raises(ValueError, match=r"plan\.py cannot be loaded .ValueError: the block 'mine' has .*\)\.$"):
        plan.load_stages(tmp_path / "plan.py")


def test_a_plan_that_cannot_be_read_is_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="there is no plan"):
        plan.load_stages(tmp_path / "absent.py")
    (tmp_path / "wrong.py").write_text("STAGE = 1")
    with pytest.raises(ValueError, match="cannot be loaded .AttributeError"):
        plan.load_stages(tmp_path / "wrong.py")


def test_machines_share_the_plan_without_a_run_twice_or_left_out():
    steps = list(plan.order({"s": (block("a", BOTH, ("Hopper", "Ant"), seeds=3),)}))
    whole = [run for run, _ in selection.choose(steps, [], "1/1")]
    parts = [[run for run, _ in selection.choose(steps, [], f"{k}/5")] for k in range(1, 6)]
    assert sorted(run for part in parts for run in part) == sorted(whole)
    assert all(part == [run for run in whole if run in part] for part in parts)
    hopper = [run for k in (1, 2) for run, _ in selection.choose(steps, ["Hopper"], f"{k}/2")]
    assert sorted(hopper) == sorted(run for run in whole if run.task == "Hopper")


def test_words_choose_runs_and_slashes_narrow_down():
    steps = list(plan.order({"s": (block("a", BOTH, ("Hopper", "Ant"), seeds=1),)}))

    def chosen(*only):
        return {(run.agent, run.task) for run, _ in selection.choose(steps, only, "1/1")}

    assert chosen("vracer_er") == {("vracer_er", "Hopper"), ("vracer_er", "Ant")}
    assert chosen("vracer_er/Ant") == {("vracer_er", "Ant")}
    assert chosen("vracer_er/Ant", "Hopper") == {
        ("vracer_er", "Ant"),
        ("vracer_er", "Hopper"),
        ("vracer_refer", "Hopper"),
    }


@pytest.mark.parametrize(
    ("only", "share", "sentence"),
    [
        (["Hoper"], "1/1", "no run of the plan has the word 'Hoper'; did you mean 'Hopper'?"),
        ([], "3/2", "--share='3/2': give k/n with k from 1 to n"),
        ([], "0/2", "--share='0/2'"),
        ([], "half", "--share='half'"),
        (["Hopper/Ant"], "1/1", "leave no run of the plan"),
    ],
)
def test_a_wrong_choice_is_a_sentence(only, share, sentence):
    steps = list(plan.order({"s": (block("a", BOTH, ("Hopper", "Ant"), seeds=1),)}))
    with pytest.raises(ValueError, match=sentence):
        selection.choose(steps, only, share)


def test_cores():
    assert selection.parse_cores(None, [2, 0]) == [0, 2]
    assert selection.parse_cores("0,2-3", [0, 1, 2, 3]) == [0, 2, 3]
    for text, sentence in (
        ("2-", "give numbers"),
        ("two", "give numbers"),
        ("0,4", "may use 0, 1"),
        ("3-2", "may use"),
    ):
        with pytest.raises(ValueError, match=sentence):
            selection.parse_cores(text, [0, 1])


def test_the_committed_plan_names_what_there_is_and_every_agent_has_golden_values():
    stages = plan.load_stages(PATH)
    for blocks in stages.values():
        for item in blocks:
            assert item.core_hours > 0
            for run in item.runs():
                known = behaviour.names_of(run.paper, run.experiment, run.agent, staleness.CONFIGS_DIR)
                assert len(known) == (run.agent != "random"), run
    games = stages["IMPALA"][1].tasks
    assert len(games) == 57
    assert list(games) == sorted(games)


def test_every_game_of_the_plan_has_a_random_player():
    """Without one no claim about its scores is answered."""
    planned = [run for blocks in plan.load_stages(PATH).values() for item in blocks for run in item.runs()]
    stored, _ = records.read_all(records.ROOT / "results")
    games, levels = {}, random_player.levels(item.record for item in stored)
    for run in planned:
        config = staleness.agent_config(run.paper, run.experiment, run.scale, run.agent, staleness.CONFIGS_DIR)
        for task in commands.learns_together(run) or (run.task,):
            game = random_player.game_of({"config": config, "task": task})
            if run.agent == random_player.AGENT:
                levels[game] = None
            else:
                games[game] = (run.paper, run.experiment, task)
    assert sorted({games[game] for game in games.keys() - levels.keys()}) == []


def test_the_stage_of_main_claims_has_one_of_each_paper_but_impala():
    """As the plan and the guide say."""
    runs = {run for item in plan.load_stages(PATH)["Main claims"] for run in item.runs()}
    answered = answerable.shares(runs)
    main = {paper for paper, place in answered if published.load(paper).rows[place].main}
    assert main == {*published.papers()} - {"impala"}


def test_every_row_is_answered_by_the_committed_plan_or_left_out_for_a_reason():
    """But for rows that studies answer, whose records are there; each reason stands for some unanswered row."""
    answered = answerable.shares(
        {run for blocks in plan.load_stages(PATH).values() for item in blocks for run in item.runs()}
    )
    stored, _ = records.read_all(records.ROOT / "results")
    studies = {(item.record["paper"], item.record["agent"]) for item in stored if "study" in item.record["config"]}
    unanswered = [
        row
        for paper in published.papers()
        for place, row in enumerate(published.load(paper).rows)
        if row.value is not None
        and row.cannot_run is None
        and (paper, row.agent) not in studies
        and (paper, place) not in answered
    ]
    excused = {reason: [row for row in unanswered if applies(row)] for reason, applies in campaign.LEFT_OUT.items()}
    assert [row for row in unanswered if not any(row in rows for rows in excused.values())] == []
    assert [reason for reason, rows in excused.items() if not rows] == []
