"""Known outliers: the list explains its records and nothing else."""

from __future__ import annotations

import copy
import json

import pytest

from repro import check
from repro.evidence import judgements, outliers, records
from tests.evidence.synthetic_records import make_record

RESULTS = records.ROOT / "results"
PATH = "impala/atari_shallow/pong/impala_shallow/seed_9.json"


def stored(tmp_path, seed, score):
    record = copy.deepcopy(make_record(seed, "pong"))
    record["evaluation"]["mean"] = score
    names = [record[key] for key in ("paper", "experiment", "task", "agent", "seed")]
    return records.StoredRecord(records.record_path(tmp_path, *names), record)


@pytest.mark.parametrize("text", ["{", '["a"]', '{"a": 1.0}', '{"a": {"mean": 1.0}}', '{"a": {"reason": "b"}}'])
def test_a_broken_list_is_one_sentence(tmp_path, text):
    (tmp_path / outliers.NAME).write_text(text)
    with pytest.raises(records.RecordError, match=f"The list {tmp_path / outliers.NAME} could not be read") as caught:
        outliers.read(tmp_path)
    assert '"mean": ..., "reason"' in str(caught.value)


@pytest.fixture
def items(tmp_path):
    """Five runs that are alike, and one far below them."""
    alike = [stored(tmp_path, seed, 12.0 + 0.1 * seed) for seed in range(5)]
    return [*alike, stored(tmp_path, 9, -20.0)]


def write(tmp_path, mean, name=PATH):
    (tmp_path / outliers.NAME).write_text(json.dumps({name: {"mean": mean, "reason": "It forgot."}}))
    return outliers.read(tmp_path)


def test_a_folder_without_a_list_has_none(tmp_path, items):
    assert outliers.read(tmp_path) == {}
    found = judgements.judge_by((), items)
    assert [item.fell_out for item in found] == [False] * 5 + [True]


def test_a_known_outlier_is_no_regression_and_makes_no_band(tmp_path, items):
    listed = write(tmp_path, -20.0)
    explained = outliers.explained(items, listed)
    assert explained == {tmp_path / PATH}
    *others, known = judgements.judge_by((), items, outliers=explained)
    assert [item.band.values for item in others] == [item.band.values for item in judgements.judge_by((), items[:5])]
    assert (known.is_out, known.fell_out, known.kind) == (True, False, judgements.OWN)
    assert "out of its band as a known outlier" in known.message
    assert outliers.find_errors(listed, [*others, known]) == []


def test_a_record_that_changed_is_not_the_one_that_is_known(tmp_path, items):
    listed = write(tmp_path, -19.0)
    explained = outliers.explained(items, listed)
    assert explained == set()
    found = judgements.judge_by((), items, outliers=explained)
    assert found[-1].fell_out
    assert outliers.find_errors(listed, found) == [
        f"OUTLIERS.json has {tmp_path / PATH} with a mean of -19.0, but the record has -20.0"
    ]


def test_an_entry_that_explains_nothing_is_a_fault(tmp_path, items):
    name = PATH.replace("seed_9", "seed_3")
    listed = write(tmp_path, items[3].record["evaluation"]["mean"], name)
    found = judgements.judge_by((), items[:5], outliers=outliers.explained(items[:5], listed))
    (sentence,) = outliers.find_errors(listed, found)
    assert "seed_3.json, which is not out of its band" in sentence
    (sentence,) = outliers.find_errors(write(tmp_path, -20.0), found)
    assert "which has no current record" in sentence


def test_a_rerun_is_judged_without_the_outlier(tmp_path, items):
    explained = outliers.explained(items, write(tmp_path, -20.0))
    again = [stored(tmp_path / "again", seed, score) for seed, score in ((6, 12.3), (7, -20.0))]
    found = judgements.judge_by(items, again, outliers=explained)
    assert [item.fell_out for item in found] == [False, True]


def test_the_committed_list_is_needed():
    result = check.check(RESULTS)
    known = [item for item in result.judged if item.is_known]
    assert {item.path for item in known} == set(outliers.read(RESULTS))
    assert all(item.is_out for item in known)
    assert result.regressions == []
