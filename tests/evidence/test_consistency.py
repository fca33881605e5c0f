"""Records that contradict themselves or are copies are faults, although each is valid and has its checksum."""

import numpy as np
import pytest

from repro import check
from repro.evidence import consistency, records
from tests.evidence.synthetic_records import make_record, random_records, write

FIGURE = {"columns": ["num_env_frames", "kl"], "rows": [[4_000_000.0, 0.1], [8_000_000.0, 0.2]]}


def messages(*made):
    stored = [records.StoredRecord(records.record_path("r", "p", "e", "t", "a", i), r) for i, r in enumerate(made)]
    return [error.message for error in consistency.find_errors(stored)]


def evaluated(record, **changes):
    return record | {"evaluation": record["evaluation"] | changes}


def test_runs_as_they_are_made_are_no_faults():
    diverged = make_record(3, diverged="loss of update 7", num_env_frames=16_000_000, frames_per_second=28_000.0)
    assert messages(make_record(1), make_record(2, series=FIGURE), diverged, *random_records()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"num_env_frames": 80_000_000},
            "14000.0 frames per second over 571.4285714285714 seconds are not 80000000 frames",
        ),
        (
            {"num_env_frames": 80_000_000, "frames_per_second": 140_000.0},
            "its curve and log end at 8000000 of 80000000 frames",
        ),
        (
            {"num_env_frames": 4_000_000, "wall_seconds": 4_000_000 / 14_000},
            "its curve or log reaches 8000000 frames, more than its budget of 4000000",
        ),
        (
            {"curve": [], "series": {**FIGURE, "rows": [[9_000_000.0, 0.1]]}},
            "its curve or log reaches 9000000 frames, more than its budget of 8000000",
        ),
    ],
)
def test_a_budget_that_the_run_did_not_use(changes, words):
    message, *_ = messages(make_record(1) | changes)
    assert message == f"The record r/p/e/t/a/seed_0.json contradicts itself: {words}."


@pytest.mark.parametrize("name", ["paper", "experiment", "task", "agent", "scale"])
def test_a_record_of_another_run_than_its_config(name):
    record = make_record(1)
    message, *_ = messages(record | {name: "other"})
    assert message.endswith(f"contradicts itself: its {name} is 'other', that of its config {record[name]!r}.")


def test_many_tasks_and_studies_make_records_with_other_names_than_their_config():
    record = make_record(1)
    together = record["config"] | {"env": record["config"]["env"] | {"tasks": ("pong", "breakout")}}
    assert messages(record | {"task": "breakout", "config": together}) == []
    study = record["config"] | {"study": "impala.theorems"}
    assert messages(record | {"task": "finite_mdp", "agent": "eta", "config": study}) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"std": 0.1}, "evaluation.std is 0.1 but the returns have std 1.61121098477"),
        ({"interval": [14.9, 15.1]}, "evaluation.interval is there, which only a study has"),
        ({"exact": True}, "evaluation.exact is there, which only a study has"),
    ],
)
def test_an_evaluation_surer_than_its_returns(changes, words):
    (message,) = messages(evaluated(make_record(1), **changes))
    assert words in message


def test_returns_that_are_rounded_to_float32_have_another_std():
    """Around 9000 they are 0.001 apart, as returns of the double pendulum are."""
    exact = 9357.0 + 0.01 * np.random.default_rng(0).standard_normal(5)
    rounded = exact.astype(np.float32).astype(float)
    assert abs(exact.std(ddof=1) / rounded.std(ddof=1) - 1) > 10 * consistency.ROUNDING
    changes = {"std": float(exact.std(ddof=1)), "returns": rounded.tolist(), "episodes": 5, "mean": float(exact.mean())}
    assert messages(evaluated(make_record(1), **changes)) == []


def test_one_run_under_another_seed_or_agent_is_a_copy():
    run = make_record(1)
    deep = run | {"agent": "impala_deep", "config": run["config"] | {"agent": "impala_deep"}}
    copied = "The record r/p/e/t/a/seed_1.json has the time and the returns of r/p/e/t/a/seed_0.json"
    for name in (run | {"seed": 6}, deep, run | {"curve": run["curve"][1:]}):
        (message,) = messages(run, name)
        assert copied in message
    together = run["config"] | {"env": run["config"]["env"] | {"tasks": ("pong", "breakout")}}
    several = [run | {"task": task, "config": together} for task in ("pong", "breakout")]
    assert messages(*several) == []  # tasks that are learned together share their time
    study = run | {"config": {"study": "x"}}
    assert messages(study, study | {"agent": "another_answer"}) == []


def test_runs_that_all_reach_the_highest_score_are_no_copies():
    same = [
        evaluated(make_record(seed), returns=[21.0] * 200, mean=21.0, std=0.0)
        | {"wall_seconds": 500 + 0.1 * seed, "frames_per_second": 8_000_000 / (500 + 0.1 * seed)}
        for seed in range(3)
    ]
    assert messages(*same) == []


def test_check_refuses_a_copy_and_an_altered_budget(tmp_path):
    write(tmp_path, make_record(1))
    write(tmp_path, make_record(1) | {"seed": 2})
    write(tmp_path, make_record(3) | {"num_env_frames": 200_000_000, "frames_per_second": 350_000.0})
    result = check.check(tmp_path)
    assert not result.passed
    assert [error.path.name for error in result.errors] == ["seed_3.json", "seed_2.json"]


def test_committed_records_are_consistent():
    stored, errors = records.read_all(records.ROOT / "results")
    assert not errors
    assert consistency.find_errors(stored) == []
    budgets = [item.record for item in stored if item.record["curve"]]
    assert len(budgets) > 100
    ends = [r["curve"][-1][0] / r[records.budget_field(r)] for r in budgets]
    assert np.ptp(ends) == 0  # so the limit of a twentieth is wide
