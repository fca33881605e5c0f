"""The row that a learning curve is shown with."""

import dataclasses
import itertools
import json

import pytest

from repro.evidence import published, staleness
from repro.evidence.records import read_all
from repro.report import cards, contents, figures
from tests.evidence.synthetic_records import make_record, random_records, write
from tests.report.example_row import ROW as EXAMPLE

TABLE = {"title": "t", "source": "s", "confidence": "printed in text", "unit": "game score", "protocol": {}}
ROW = {
    "table": "Figure 1",
    "task": "pong",
    "column": "c",
    "value": 0.5,
    "n_seeds": None,
    "experiment": "atari_shallow",
    "agent": "impala_shallow",
}
CLAIM = ROW | {
    "unit": "probability of improvement",
    "protocol": {"against": ["other"]},
    "claim": "speed",
    "statement": "Ours is faster.",
}


@pytest.mark.parametrize("printed", [[CLAIM], [CLAIM, ROW]])
def test_a_curve_of_scores_is_shown_with_a_score_and_not_with_a_claim(tmp_path, printed):
    for agent in ("impala_shallow", "other"):
        for seed in (1, 2):
            write(tmp_path / "results", make_record(seed, agent=agent, final=5.0 * seed))
    write(tmp_path / "results", *random_records())
    data = {"paper": "impala", "title": "T", "citation": "C", "tables": {"Figure 1": TABLE}, "rows": printed}
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "impala.json").write_text(json.dumps(data))
    published.load.cache_clear()
    found = contents.collect(tmp_path / "results", tmp_path / "published")
    (section,) = contents.make_sections(found, tmp_path / "results", tmp_path / "published")
    assert found.rows[0].seeds == (1, 2)  # the claim is answered
    (card,) = section.cards
    assert [(runs.row.agent, runs.row.unit) for runs in card.runs] == [
        ("impala_shallow", "game score"),
        ("other", "game score"),
        ("random", "game score"),
    ]
    assert card.runs[0].row.published == (0.5 if ROW in printed else None)
    (image,) = card.images  # both agents in one figure
    assert "impala_shallow, 2 seeds" in image.svg
    assert "other, 2 seeds" in image.svg


def test_random_players_of_another_folder_judge_claims_and_have_no_rows(tmp_path):
    for agent, final in (("impala_shallow", 15.0), ("other", 5.0)):
        for seed in (1, 2):
            write(tmp_path / "again", make_record(seed, agent=agent, final=final + seed))
    for record in (*random_records(), make_record(1, "alien")):
        write(tmp_path / "results", record)
    data = {
        "paper": "impala",
        "title": "T",
        "citation": "C",
        "tables": {"Figure 1": TABLE},
        "rows": [CLAIM | {"claim": "improvement"}],
    }
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "impala.json").write_text(json.dumps(data))
    published.load.cache_clear()
    (claim, *_) = contents.collect(tmp_path / "again", tmp_path / "published").rows
    assert claim.value is None
    assert "no record of a random player on pong" in claim.note
    committed = read_all(tmp_path / "results")[0]
    found = contents.collect(tmp_path / "again", tmp_path / "published", committed=committed)
    (claim, *own) = found.rows
    assert claim.value == 1.0
    assert [(row.task, row.agent) for row in own] == [("pong", "impala_shallow"), ("pong", "other")]
    assert {row.random for row in own} == {random_records()[0]["evaluation"]["mean"]}
    (section,) = contents.make_sections(found, tmp_path / "again", tmp_path / "published")
    (card,) = section.cards
    assert [runs.row.agent for runs in card.runs] == ["impala_shallow", "other"]


def test_learning_curves_come_first(tmp_path):
    """In whatever order their tasks are printed."""
    write(tmp_path / "results", make_record(1, "alien", curve=[]))
    write(tmp_path / "results", make_record(1, "pong"))
    data = {
        "paper": "impala",
        "title": "T",
        "citation": "C",
        "tables": {"Figure 1": TABLE},
        "rows": [ROW | {"task": task} for task in ("alien", "pong")],
    }
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "impala.json").write_text(json.dumps(data))
    published.load.cache_clear()
    found = contents.collect(tmp_path / "results", tmp_path / "published")
    (section,) = contents.make_sections(found, tmp_path / "results", tmp_path / "published")
    assert [(card.task, len(card.images)) for card in section.cards] == [("pong", 1), ("alien", 0)]


def test_experiments_without_a_learning_curve_stand_under_records(tmp_path):
    write(tmp_path, make_record(1, "alien", curve=[]))
    write(tmp_path, make_record(1, "pong", "atari_deep", "impala_deep"))
    sections = contents.make_sections(contents.collect(tmp_path), tmp_path)
    (impala,) = (section for section in sections if section.name == "impala")
    assert impala.parts == {"Learning curves": ["atari_deep"], "Records": ["atari_shallow"]}


def test_settings_of_a_baseline_differ_on_its_own_card_only(tmp_path):
    config = staleness.current_config("refer", "figure_4_vracer", "desk")
    for agent in ("vracer_refer", "acer"):
        record = make_record(1, agent=agent, config=config)
        write(tmp_path, record | {"paper": "refer", "experiment": "figure_4_vracer", "task": "HalfCheetah"})
    sections = contents.make_sections(contents.collect(tmp_path), tmp_path)
    (refer,) = (section for section in sections if section.name == "refer")
    (card,) = refer.cards
    fields = {runs.row.agent: {field for field, _, _ in runs.differences} for runs in card.runs}
    assert fields["vracer_refer"] == {"num_env_steps", "memory.start_steps"}
    assert fields["acer"] == {"num_env_steps", "learner.unroll_length", "replay.gradients_per_step"}


def test_an_agent_keeps_its_colour_over_the_tasks_of_an_experiment(tmp_path):
    for task, agents in (("alien", ("first", "second")), ("pong", ("second",))):
        for agent in agents:
            write(tmp_path, make_record(1, task, agent=agent))
    sections = contents.make_sections(contents.collect(tmp_path), tmp_path)
    (impala,) = (section for section in sections if section.name == "impala")
    images = {card.task: card.images[0].svg for card in impala.cards}
    assert all(color in images["alien"] for color in figures.COLORS[:2])
    assert figures.COLORS[1] in images["pong"]
    assert figures.COLORS[0] not in images["pong"]


def _row(experiment, agent, **changes):
    return dataclasses.replace(EXAMPLE, experiment=experiment, agent=agent, seeds=(1,), trained=True, **changes)


def test_an_agent_and_a_variant_keep_their_colour_over_a_paper():
    names = [("one", "ddpg_er"), ("one", "ddpg_refer"), ("two", "ppo"), ("two", "naf_refer"), ("two", "naf_er")]
    study, player = _row("closed", "study", table="Section 1"), _row("two", "random", table=None)
    rows = [dataclasses.replace(study, trained=False), player, *(_row(*name) for name in names)]
    indices = cards.agent_indices(rows)
    assert [indices[name] for name in names] == [0, 1, 2, 1, 0]
    assert indices["two", "random"] > 2


def test_two_agents_of_a_variant_in_one_experiment_have_a_colour_each():
    names = [("one", "a3c_deep"), ("two", "impala_deep"), ("three", "a3c_deep"), ("three", "impala_deep")]
    indices = cards.agent_indices(_row(*name) for name in names)
    assert [indices[name] for name in names] == [0, 1, 0, 1]


def test_agents_beyond_the_colours_differ_within_their_experiment():
    more = len(figures.COLORS) + 2
    rows = [_row("one", f"a{i}") for i in range(more)] + [_row("two", f"a{i}") for i in range(more, 0, -1)]
    indices = cards.agent_indices(rows)
    for experiment in ("one", "two"):
        of_one = sorted(index for (name, _), index in indices.items() if name == experiment)
        assert of_one == list(range(more))
    assert indices["one", "a3"] == indices["two", "a3"] == 3


def test_agents_are_compared_with_the_experiments_own(tmp_path):
    config = staleness.current_config("refer", "figure_4_vracer", "desk")
    place = {"paper": "refer", "experiment": "figure_4_vracer", "task": "HalfCheetah"}
    for agent, scores in {"ppo": (1.0, 2.0), "vracer_refer": (3.0, 4.0)}.items():
        for seed, score in enumerate(scores, start=1):
            write(tmp_path, make_record(seed, agent=agent, config=config, final=score) | place)
    sections = contents.make_sections(contents.collect(tmp_path), tmp_path)
    (refer,) = (section for section in sections if section.name == "refer")
    (card,) = refer.cards
    own, other = card.compared
    assert (own.agent, own.improvement, own.runs) == ("vracer_refer", None, 2)
    assert (other.agent, other.improvement) == ("ppo", 0.0)
    assert refer.compared("figure_4_vracer") == []  # over a single task it would be the same once more


def test_agents_of_a_sweep_are_compared_over_tasks_that_depend_on_each_other(tmp_path):
    """A seed has the same settings on both tasks, which then tell no more than one."""
    config = staleness.current_config("refer", "figure_4_vracer", "desk")
    widths = []
    for folder, more in (("apart", {}), ("sweep", {"sampled_hparams": {"learner.learning_rate": 1e-4}})):
        for agent, task, seed in itertools.product(("ppo", "vracer_refer"), ("HalfCheetah", "Hopper"), (1, 2)):
            place = {"paper": "refer", "experiment": "figure_4_vracer", "task": task}
            write(tmp_path / folder, make_record(seed, agent=agent, config=config, final=float(seed), **more) | place)
        (refer,) = (
            section
            for section in contents.make_sections(contents.collect(tmp_path / folder), tmp_path / folder)
            if section.name == "refer"
        )
        low, high = refer.compared("figure_4_vracer")[1].improvement_interval
        widths.append(high - low)
    assert widths[1] > 1.2 * widths[0]
