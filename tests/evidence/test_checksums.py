"""A published number that changes, goes or comes is noticed."""

import subprocess

import pytest

from repro.evidence import checksums, published


@pytest.fixture
def numbers(tmp_path):
    (tmp_path / "normalisers").mkdir()
    (tmp_path / "impala.json").write_text('{"value": 640.43}')
    (tmp_path / "normalisers" / "atari57.json").write_text("{}")
    (tmp_path / "normalisers" / "dmlab30.json").write_text("{}")
    subprocess.run("sha256sum *.json */*.json > SHA256SUMS", shell=True, cwd=tmp_path, check=True)
    return tmp_path


def test_untouched_numbers_pass(numbers):
    assert checksums.changes(numbers) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: (d / "impala.json").write_text('{"value": 64.043}'), "impala.json have changed"),
        (lambda d: (d / "normalisers" / "atari57.json").unlink(), "atari57.json are gone"),
        (lambda d: (d / "acer.json").write_text("{}"), "acer.json have no checksum"),
        (lambda d: (d / "SHA256SUMS").unlink(), "SHA256SUMS could not be read"),
    ],
)
def test_each_change_is_one_sentence_with_the_remedy(numbers, change, words):
    change(numbers)
    (sentence,) = checksums.changes(numbers)
    assert words in sentence
    remedy = sentence.split("if that is meant: ")[1]
    subprocess.run(remedy, shell=True, check=True)
    assert checksums.changes(numbers) == []


def test_committed_numbers_are_those_of_their_checksums():
    assert checksums.changes(published.PUBLISHED_DIR) == []
