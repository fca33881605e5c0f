"""Printed hyper-parameters beside those of the configs."""

import collections
import copy
import json

import pytest

from repro.config import resolve_plain
from repro.evidence import published, settings, staleness
from repro.evidence.settings import compare_settings
from tests.evidence.synthetic_records import make_record

# Printed entries of each table; a table whose columns are domains has one setting for each. Three ranges and the size
# in Table C.1 of IMPALA are those of sweeps and, once more, of populations.
COUNTS = {
    "impala": {"F.1": 22, "C.1": 5 + 3 + 4, "C.2": 9, "C.3": 12},
    "acer": {"Section 3.1": 1, "Section 4": 20, "Section 6": 14, "Appendix E": 9},
    "refer": {"Section 3": 9, "Algorithm 2": 1, "Appendix A": 51, "Section 5.4": 12, "smarties": 77},
    "ctrace": {"1": 14, "Appendix C": 16, "Appendix D.1": 9, "Figure 1": 2, "Figure 5": 4, "Section 2": 1},
    "stac": {"2": 11 * 3, "3": 3 + 7 * 2 + 12, "Real-World RL": 3},
}


@pytest.mark.parametrize("paper", COUNTS)
def test_printed_tables_of_settings_are_complete(paper):
    counts = collections.Counter(setting.table for setting in published.load(paper).settings)
    assert {table: counts[table] for table in COUNTS[paper]} == COUNTS[paper]


def test_settings_typed_by_hand():
    values = {
        (paper, s.table, s.name, s.experiments[0]): s.value
        for paper in COUNTS
        for s in published.load(paper).settings
        if s.experiments
    }
    assert values["impala", "F.1", "Learning rate", "atari_shallow"] == 0.0006
    assert values["impala", "C.3", "Unroll Length", "dmlab_table1_throughput"] == 100
    assert values["impala", "C.1", "RMSProp epsilon", "dmlab_table2"]["range"] == [1e-1, 1e-3, 1e-5, 1e-7]
    assert values["acer", "Section 4", "Importance weight truncation c", "atari"] == 10
    assert values["acer", "Section 6", "Importance weight truncation c", "continuous"] == 5
    assert values["refer", "Appendix A", "V-RACER, mini-batch B", "figure_4_vracer"] == 256
    assert values["refer", "Appendix A", "DDPG, learning rate of the policy", "figure_1_ddpg"] == 1e-5
    assert values["ctrace", "1", "Priority exponent", "r2d2"] == 0.9
    assert values["stac", "3", "eps", "atari"] == 0.1
    assert values["stac", "3", "Batch size (m)", "atari"] == 32
    assert values["stac", "3", "Batch size (m)", "dm_control_features"] == 24
    assert values["stac", "2", "Channels", "atari"] == [13, 32, 32]


def test_impala_is_as_printed():
    judged = compare_settings("impala")
    wrong = [(c.experiment, c.setting.name, c.setting.value, c.ours) for c in judged if c.status == "differs"]
    assert not wrong
    counts = collections.Counter((c.experiment, c.status) for c in judged)
    assert counts["atari_shallow", "as printed"] == counts["atari_deep", "as printed"] == 27
    assert counts["atari_table1_throughput", "as printed"] == 4
    assert counts["atari_population", "as printed"] == counts["dmlab_population", "as printed"] == 9
    assert counts["dmlab_30_population", "as printed"] == 9 + 2 + counts["dmlab_30_experts", "as printed"]
    for comparison in judged:
        exists = staleness.config_path("impala", comparison.experiment).is_file()
        assert (comparison.status == "no config yet") == (not exists)
        if comparison.setting.field is None and exists:
            assert comparison.status == "not a field"


def test_stac_is_as_printed():
    judged = compare_settings("stac")
    assert not [(c.experiment, c.setting.name, c.setting.value, c.ours) for c in judged if c.status == "differs"]
    counts = collections.Counter(c.experiment for c in judged if c.status == "as printed")
    assert counts == {"atari": 24, "dm_control_features": 24, "dm_control_pixels": 23, "rwrl": 24}


def differing(configs_dir):
    judged = compare_settings("impala", configs_dir)
    return [(c.setting.name, c.ours) for c in judged if c.status == "differs"]


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("learning_rate = 6e-4", "learning_rate = 5e-4", ("Learning rate", 5e-4)),
        ("env.grey = True", "env.grey = 1", ("Grayscaling", 1)),
        ("loss.discount", "loss.gamma", ("Discount (gamma)", "absent")),
        (
            "config.num_env_frames = 200_000_000",
            "config.num_env_frames = 100_000_000",
            ("Frames per game", 100_000_000),
        ),
    ],
)
def test_a_planted_change_is_reported(tmp_path, old, new, reported):
    text = staleness.config_path("impala", "atari_shallow").read_text()
    assert old in text
    for name, content, expected in (("before", text, []), ("after", text.replace(old, new, 1), [reported])):
        (tmp_path / name / "impala").mkdir(parents=True)
        (tmp_path / name / "impala" / "atari_shallow.py").write_text(content)
        assert differing(tmp_path / name) == expected


def test_judgements_of_a_paper_without_configs(tmp_path):
    table = {"title": "t", "source": "s", "confidence": "printed"}
    setting = {"table": "S", "name": "n", "value": 1, "experiments": ["e", "f"], "field": None}
    data = {"paper": "new", "title": "T", "citation": "C", "tables": {}, "rows": [], "setting_tables": {"S": table}}
    (tmp_path / "new.json").write_text(json.dumps(data | {"settings": [setting]}))
    judged = compare_settings("new", tmp_path / "configs", tmp_path)
    assert [(c.experiment, c.ours, c.status) for c in judged] == [
        ("e", None, "no config yet"),
        ("f", None, "no config yet"),
    ]


@pytest.mark.parametrize("paper", published.papers())
def test_every_field_that_holds_a_printed_setting_is_there(paper):
    assert [c.setting.field for c in compare_settings(paper) if c.ours == "absent"] == []


def test_a_setting_printed_for_one_agent_is_no_other_agent_s():
    """ReF-ER's experiment prints V-RACER's mini-batch and ACER's clip; each agent is held to its own."""
    for agent, value in (("vracer_refer", 512), ("acer", 7)):
        config = staleness.agent_config("refer", "figure_4_vracer", "paper", agent)
        record = {"paper": "refer", "experiment": "figure_4_vracer", "agent": agent, "config": config}
        listed = {"network.hidden_scale"}  # a deviation of all agents
        listed |= {"learner.steps_per_call"} if agent == "vracer_refer" else set()  # one of agents with a ReF-ER memory
        assert set(settings.differences(record)) == listed
        changed = copy.deepcopy(config)
        section, name = ("learner", "batch_size") if agent == "vracer_refer" else ("loss", "truncation")
        printed = changed[section][name]
        changed[section][name] = value
        found = settings.differences(record | {"config": changed})
        assert set(found) - listed == {f"{section}.{name}"}
        assert found[f"{section}.{name}"] == (value, printed)


def test_a_setting_may_not_apply_to_an_agent():
    for agent, steps, reads in (("vracer_refer", 32, True), ("vracer_per", 8, True), ("ppo", 32, False)):
        config = staleness.agent_config("refer", "figure_4_vracer", "paper", agent)
        record = {"paper": "refer", "experiment": "figure_4_vracer", "agent": agent, "config": config}
        assert config["learner"]["steps_per_call"] == steps
        listed = settings.differences(record).get("learner.steps_per_call")
        assert listed == ((steps, 1) if reads else None)


def test_a_field_that_came_later_has_the_value_of_then_in_older_records():
    config = resolve_plain(staleness.current_config("acer", "continuous", "paper"), "acer")
    record = make_record(config=config, scale="paper") | {"paper": "acer", "experiment": "continuous", "agent": "acer"}
    older = copy.deepcopy(record)
    del older["config"]["loss"]["traces"]
    assert settings.differences(older) == settings.differences(record) == {}
    older["config"]["loss"]["traces"] = "plain"
    assert settings.differences(older) == {"loss.traces": ("plain", "root")}


def test_sections_that_an_agent_of_another_algorithm_does_not_read_hold_no_settings_of_its_own(tmp_path):
    """ACER beside V-RACER reads `replay` and not `memory`, whichever of them is changed."""
    place = {"paper": "refer", "experiment": "figure_4_vracer"}
    table = {"title": "t", "source": "s", "confidence": "printed"}
    printed = {"table": "S", "name": "n", "value": 7, "experiments": ["figure_4_vracer"], "field": "memory.start_steps"}
    data = {"paper": "refer", "title": "T", "citation": "C", "tables": {}, "rows": [], "setting_tables": {"S": table}}
    (tmp_path / "refer.json").write_text(json.dumps(data | {"settings": [printed]}))
    for agent, section, name in (("vracer_refer", "memory", "start_steps"), ("acer", "replay", "gradients_per_step")):
        config = staleness.agent_config("refer", "figure_4_vracer", "desk", agent)
        record = place | {"agent": agent, "config": config}
        assert config["memory"]["start_steps"] != 7
        for found in (settings.config_differences(record), settings.differences(record)):
            assert {field for field in found if field.startswith(("memory.", "replay."))} == {f"{section}.{name}"}
        expected = {"vracer_refer": (config["memory"]["start_steps"], 7), "acer": None}
        assert settings.differences(record, published_dir=tmp_path).get("memory.start_steps") == expected[agent]
        assert "num_env_steps" in settings.config_differences(record)
