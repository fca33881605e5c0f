"""Published numbers that change, disappear or are added are noticed."""

import concurrent.futures
import json
import subprocess

import pytest

from repro import check
from repro.evidence import checksums, published, records
from tests.evidence.synthetic_records import make_record, write


@pytest.fixture
def numbers(tmp_path):
    (tmp_path / "normalisers").mkdir()
    (tmp_path / "impala.json").write_text('{"value": 640.43}')
    (tmp_path / "normalisers" / "atari57.json").write_text("{}")
    (tmp_path / "normalisers" / "dmlab30.json").write_text("{}")
    subprocess.run("sha256sum *.json */*.json > SHA256SUMS", shell=True, cwd=tmp_path, check=True)
    return tmp_path


def test_untouched_numbers_pass(numbers):
    assert checksums.changes(numbers, checksums.PUBLISHED) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: (d / "impala.json").write_text('{"value": 64.043}'), "impala.json have changed"),
        (lambda d: (d / "normalisers" / "atari57.json").unlink(), "atari57.json are missing"),
        (lambda d: (d / "acer.json").write_text("{}"), "acer.json have no checksum"),
        (lambda d: (d / "SHA256SUMS").unlink(), "SHA256SUMS could not be read"),
    ],
)
def test_each_change_is_one_sentence_with_the_remedy(numbers, change, words):
    change(numbers)
    (sentence,) = checksums.changes(numbers, checksums.PUBLISHED)
    assert words in sentence
    remedy = sentence.split("if this is intended, run: ")[1]
    subprocess.run(remedy, shell=True, check=True)
    assert checksums.changes(numbers, checksums.PUBLISHED) == []


def test_committed_numbers_are_those_of_their_checksums():
    assert checksums.changes(published.PUBLISHED_DIR, checksums.PUBLISHED) == []


def test_committed_records_are_those_of_their_checksums():
    assert checksums.changes(records.ROOT / "results", checksums.RECORDS) == []


@pytest.mark.parametrize("lowered", ["evaluation", "curve"])
def test_a_record_that_is_lowered_is_noticed(tmp_path, lowered):
    path = write(tmp_path, make_record(1))
    write(tmp_path, make_record(2))
    assert checksums.changes(tmp_path, checksums.RECORDS) == []
    record = records.read_record(path)
    if lowered == "evaluation":
        record["evaluation"] |= {"mean": -1000.0, "returns": [-1000.0] * 200}
    else:
        record["curve"][-1][1] += 1.0
    path.write_text(json.dumps(record))
    (sentence,) = checksums.changes(tmp_path, checksums.RECORDS)
    assert "seed_1.json have changed" in sentence


@pytest.mark.parametrize("changed", [{"seed": 2}, {"agent": "other"}, {"task": "qbert"}])
def test_two_records_that_are_swapped_are_noticed(tmp_path, changed):
    """Between seeds, agents or games, each with the other's names in its fields."""
    (field, other), record = *changed.items(), make_record(1)
    paths = [write(tmp_path, record), write(tmp_path, make_record(**{"final": 10.0, "seed": 1} | changed))]
    texts = [json.loads(path.read_text()) for path in paths]
    paths[0].write_text(json.dumps(texts[1] | {field: record[field]}))
    paths[1].write_text(json.dumps(texts[0] | {field: other}))
    assert [item.path for item in records.read_all(tmp_path)[0]] == sorted(paths)
    assert len(checksums.changes(tmp_path, checksums.RECORDS)) == 2
    assert not check.check(tmp_path).passed


def test_a_replaced_record_gets_its_new_checksum(tmp_path):
    write(tmp_path, make_record(1, final=10.0))
    write(tmp_path, make_record(1, final=15.0))
    assert checksums.changes(tmp_path, checksums.RECORDS) == []
    assert len((tmp_path / "SHA256SUMS").read_text().splitlines()) == 1


def test_records_written_at_the_same_time_all_have_one(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: write(tmp_path, make_record(seed)), range(1, 13)))
    assert checksums.changes(tmp_path, checksums.RECORDS) == []


def test_no_records_need_no_checksums(tmp_path):
    assert checksums.changes(tmp_path, checksums.RECORDS) == []


@pytest.mark.parametrize("line", ["=======", "0123 impala/x.json", "<<<<<<< HEAD"])
def test_a_list_with_a_line_that_is_none_of_it_is_named_and_kept(tmp_path, line):
    """As a conflict of two versions leaves it."""
    path = write(tmp_path, make_record(1))
    listed = tmp_path / "SHA256SUMS"
    listed.write_text(text := f"{listed.read_text()}{line}\n")
    (sentence,) = checksums.changes(tmp_path, checksums.RECORDS)
    assert f"(line 2 is not a checksum with a name: {line!r}); if this is intended" in sentence
    with pytest.raises(records.RecordError, match=r"seed_2.json was not written: .* no checksum \(line 2 is no"):
        write(tmp_path, make_record(2))
    assert not path.with_name("seed_2.json").exists()
    assert listed.read_text() == text
