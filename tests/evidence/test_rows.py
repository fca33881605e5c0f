"""Rows: what is averaged, what the interval is over, what is left out, and the notes about it."""

import pytest

from repro.evidence import published, rows, staleness
from tests.evidence.printed_rows import make_row
from tests.evidence.synthetic_records import make_record, random_records, store


def test_every_published_number_has_a_row_without_any_record():
    made = rows.make_rows({})
    assert [row.paper for row in made] == [paper for paper in published.papers() for _ in published.load(paper).rows]
    # None: a cell printed as not available
    assert {row.verdict for row in made} - {"cannot run here"} == {"not run", None}
    assert {row.shortfalls for row in made} == {row.settings for row in made} == {()}
    pong = next(row for row in made if (row.task, row.agent) == ("pong", "impala_shallow"))
    assert (pong.published, pong.random, pong.human, pong.value, pong.seeds) == (20.4, -20.7, 14.6, None, ())
    assert pong.command == "make reproduce-impala EXPERIMENT=atari_shallow TASK=pong SCALE=desk SEEDS=5"


def test_experiment_without_a_config_has_no_command(tmp_path):
    made = rows.make_rows({}, configs_dir=tmp_path)
    assert {row.command for row in made} == {None}


def test_run_that_answers_no_number_has_a_row_without_verdict():
    row = make_row(make_record(1, agent="impala_leaky"))
    assert (row.published, row.verdict, row.agent) == (None, None, "impala_leaky")
    assert row.value == pytest.approx(15.0, abs=1)


def test_rows_for_gives_only_what_the_records_answer():
    made = rows.rows_for(store([make_record(1, "pong"), make_record(1, "breakout")]))
    assert [row.task for row in made] == ["breakout", "pong"]


def test_rows_for_gives_the_claims_that_the_records_decide():
    """As after `make reproduce-refer AGENT=vracer_refer,vracer_er SEEDS=2`."""
    config = staleness.current_config("refer", "figure_4_vracer", "desk")
    made = [
        make_record(seed, agent=agent, final=final + seed, config=config, experiment="figure_4_vracer")
        | {"paper": "refer", "task": "HalfCheetah"}
        for agent, final in (("vracer_refer", 15.0), ("vracer_er", 5.0))
        for seed in (1, 2)
    ]
    changed = {"config": config, "experiment": "figure_4_vracer"}
    (random,) = random_records(**changed)
    random |= {"paper": "refer", "task": "HalfCheetah"}
    found = {(row.task, row.column or row.agent): row.value for row in rows.rows_for(store([*made, random]))}
    assert found.pop(("mujoco_gym", "V-RACER, ReF-ER over ER")) == 1.0
    assert found.pop(("mujoco_gym", "V-RACER, ReF-ER over ER, all tasks")) == 1.0
    assert ("mujoco_gym", "V-RACER, spread with ReF-ER over that with ER") in found
    del found["mujoco_gym", "V-RACER, spread with ReF-ER over that with ER"]
    assert set(found) == {("HalfCheetah", "vracer_refer"), ("HalfCheetah", "vracer_er"), ("HalfCheetah", "random")}


def test_rows_for_reads_the_random_players_of_other_records_and_shows_only_its_own():
    config = staleness.current_config("refer", "figure_4_vracer", "desk")
    changed = {"config": config, "experiment": "figure_4_vracer"}
    own = [
        make_record(seed, agent=agent, final=final + seed, **changed) | {"paper": "refer", "task": "HalfCheetah"}
        for agent, final in (("vracer_refer", 15.0), ("vracer_er", 5.0))
        for seed in (1, 2)
    ]
    (random,) = random_records(**changed)
    random |= {"paper": "refer", "task": "HalfCheetah"}
    elsewhere = make_record(1, agent="ppo", **changed) | {"paper": "refer", "task": "Hopper"}
    others = store([random, *random_records(), elsewhere, *own])
    agents = [("HalfCheetah", "vracer_er"), ("HalfCheetah", "vracer_refer")]
    alone = rows.rows_for(store(own))
    assert sorted((row.task, str(row.agent)) for row in alone) == agents
    assert [row.random for row in alone] == [None, None]
    found = rows.rows_for(store(own), others=others)
    assert {row.random for row in found if row.claim is None} == {random["evaluation"]["mean"]}
    assert sorted((row.task, str(row.agent)) for row in found if row.claim is None) == agents
    assert [row.value for row in found if row.column == "V-RACER, ReF-ER over ER"] == [1.0]


def test_experiment_filter():
    made = rows.make_rows({}, experiment="atari_deep")
    assert {row.experiment for row in made} == {"atari_deep"}
    assert {row.table for row in made} >= {"C.1", "4"}
    assert len([row for row in made if row.table == "C.1"]) == 57
