"""Older records in the present layout, by hand."""

from repro.evidence import migrations

ACER = {
    "experiment": "gym",
    "learner": {"policy_learning_rates": {"acer": 1e-5, "acer_fast": 1e-4}, "batch_size": 1},
    "replay": {"frames": 100_000},
}


def version_1(agent, **fields):
    config = {
        "agent": agent,
        "agents": ["vracer_refer", "ppo", "acer", "acer_fast"],
        "experiment": "figure_4_vracer",
        "learner": {"batch_size": 256, "discount": 0.995},
        **fields,
    }
    return {"paper": "refer", "agent": agent, "config": config}


def test_a_baseline_of_another_paper_has_its_own_fields_in_place():
    record = version_1("acer_fast", baselines={"acer": "acer", "acer_fast": "acer"}, acer=ACER)
    assert migrations.migrate(record) == {
        "schema_version": 2,
        "paper": "refer",
        "agent": "acer_fast",
        "config": {
            "agent": "acer_fast",
            "experiment": "figure_4_vracer",
            "learner": {"batch_size": 1, "discount": 0.995, "policy_learning_rate": 1e-4},
            "replay": {"frames": 100_000},
        },
    }


def test_an_agent_of_the_paper_reads_no_baseline():
    record = version_1("ppo", baselines={"acer": "acer", "acer_fast": "acer"}, acer=ACER)
    assert set(migrations.migrate(record)["config"]) == {"agent", "experiment", "learner"}


def test_a_variant_has_its_own_fields_in_place():
    record = version_1("vracer_half_b", variants={"vracer_half_b": {"learner": {"batch_size": 128}}, "other": {}})
    assert migrations.migrate(record)["config"]["learner"] == {"batch_size": 128, "discount": 0.995}


def test_a_record_of_the_present_version_stays_as_it_is():
    record = version_1("acer", variants={"acer": {"learner": {"batch_size": 128}}}) | {"schema_version": 2}
    assert migrations.migrate(record) == record
