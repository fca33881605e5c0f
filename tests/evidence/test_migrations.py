"""Older records in the present layout, worked out by hand."""

import pytest

from repro.evidence import migrations

ACER = {
    "experiment": "gym",
    "learner": {"policy_learning_rates": {"acer": 1e-5, "acer_fast": 1e-4}, "batch_size": 1},
    "replay": {"frames": 100_000},
}
EVALUATION = {"returns": [1.0, 3.0], "std": 1.0}
MIGRATED = {"returns": [1.0, 3.0], "std": pytest.approx(2**0.5)}


def version_1(agent, **fields):
    config = {
        "agent": agent,
        "agents": ["vracer_refer", "ppo", "acer", "acer_fast"],
        "experiment": "figure_4_vracer",
        "learner": {"batch_size": 256, "discount": 0.995},
        **fields,
    }
    return {"paper": "refer", "agent": agent, "config": config, "evaluation": EVALUATION}


def test_a_baseline_of_another_paper_has_its_own_fields_in_place():
    record = version_1("acer_fast", baselines={"acer": "acer", "acer_fast": "acer"}, acer=ACER)
    assert migrations.migrate(record) == {
        "schema_version": 4,
        "evaluation": MIGRATED,
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


def test_version_3_has_other_names_of_fields_and_columns():
    """The configuration of another experiment, in a section, has them too; columns are those of a log alone."""
    config = {
        "agent": "acer",
        "deviation": 0.2,
        "network": {"deviation": 0.3, "units": [8]},
        "refer": {"max_far_share": 0.1},
        "recorded": ["kl", "far", "deviation"],
        "vracer": {"exploration": {"deviation": 0.2, "far": 1}},
    }
    series = {"columns": ["kl", "far", "deviation"], "rows": [[0.1, 0.2, 0.3]]}
    record = {
        "schema_version": 2,
        "drawn": {"delta": 1.0},
        "series": series,
        "config": config,
        "evaluation": EVALUATION,
    }
    assert migrations.migrate(migrations.rename_fields(record)) == {
        "schema_version": 4,
        "evaluation": MIGRATED,
        "sampled_hparams": {"delta": 1.0},
        "series": {"columns": ["kl", "far_policy_fraction", "std"], "rows": [[0.1, 0.2, 0.3]]},
        "config": {
            "agent": "acer",
            "std": 0.2,
            "network": {"std": 0.3, "units": [8]},
            "refer": {"max_far_policy_fraction": 0.1},
            "recorded": ["kl", "far_policy_fraction", "std"],
            "vracer": {"exploration": {"std": 0.2, "far": 1}},
        },
    }
    assert series["columns"][1] == "far"  # what was read is left as it was


@pytest.mark.parametrize(
    ("env", "field", "rate"),
    [
        ({"name": "atari", "frame_skip": 4}, "num_env_frames", "frames_per_second"),
        ({"name": "mujoco"}, "num_env_steps", "steps_per_second"),
    ],
)
def test_version_3_says_what_a_budget_counts(env, field, rate):
    """Only a configuration has a budget, also in a section of another: a replay has frames whatever they are."""
    config = {"env": env, "frames": 100, "replay": {"frames": 10}, "other": {"env": {}, "frames": 7}}
    series = {"columns": ["frames", "kl"], "rows": [[1, 0.1]]}
    record = {
        "schema_version": 2,
        "frames": 90,
        "frames_per_second": 3.0,
        "series": series,
        "config": config,
        "evaluation": EVALUATION,
    }
    assert migrations.migrate(migrations.rename_fields(record)) == {
        "schema_version": 4,
        "evaluation": MIGRATED,
        field: 90,
        rate: 3.0,
        "series": {"columns": [field, "kl"], "rows": [[1, 0.1]]},
        "config": {"env": env, field: 100, "replay": {"frames": 10}, "other": {"env": {}, "num_env_steps": 7}},
    }


@pytest.mark.parametrize(("version", "std"), [(3, pytest.approx(2**0.5)), (4, 1.0)])
def test_version_4_has_the_standard_deviation_over_n_minus_1(version, std):
    record = {"schema_version": version, "config": {}, "evaluation": EVALUATION}
    assert migrations.migrate(migrations.rename_fields(record))["evaluation"]["std"] == std
    assert EVALUATION["std"] == 1.0  # what was read is left as it was


@pytest.mark.parametrize("record", [None, [], "drawn", {"series": 1}, {"series": {"columns": 1}}, {"drawn": None}])
def test_what_is_no_record_has_no_names(record):
    renamed = migrations.rename_fields(record)
    assert renamed == ({"sampled_hparams": None} if record == {"drawn": None} else record)


def test_a_record_of_the_present_version_stays_as_it_is():
    record = version_1("acer", network={"deviation": 1}) | {"schema_version": 4, "drawn": {}}
    assert migrations.migrate(migrations.rename_fields(record)) == record
