"""Videos on the page: beside the runs of their agent, with a description."""

import re

import cv2
import pytest

from repro.acting import video_file
from repro.evidence import records
from repro.report import page, videos
from tests.evidence.synthetic_records import make_record, write
from tests.report.example_video import write_example

RESULTS = records.ROOT / "results"


def test_the_name_is_that_which_is_written():
    assert videos.NAME.endswith(tuple(video_file.CODECS))


def test_a_video_stands_in_the_runs_of_its_agent(tmp_path):
    folder = write(tmp_path / "results", make_record(1)).parent
    write_example(folder)
    html = page.write_report(tmp_path / "report", tmp_path / "results").read_text()
    (runs,) = re.findall(r'<section class="runs".*?</section>', html, re.S)
    place = "videos/impala/atari_shallow/pong/impala_shallow/video"
    assert f'src="{place}.webm" poster="{place}.jpg"' in runs
    assert 'preload="none"' in runs
    assert (
        "One episode of seed 2, desk scale, trained for 8M frames: game score 21.00, its first 30 of 67 s, "
        "played with commit 0123456789."
    ) in runs
    copy = tmp_path / "report" / f"{place}.webm"
    assert copy.read_bytes() == (folder / "video.webm").read_bytes()
    assert cv2.imread(str(copy.with_suffix(".jpg"))).shape == (240, 320, 3)


def test_what_a_run_changed_is_said_and_a_video_without_a_record_is_not_shown(tmp_path):
    folder = write(tmp_path / "results", make_record(1)).parent
    write_example(folder, changes={"learner.learning_rate": 0.001}, shown_seconds=67.0, git_commit=None)
    write_example(folder.parent / "other")
    html = page.write_report(tmp_path / "report", tmp_path / "results").read_text()
    (runs,) = re.findall(r'<section class="runs".*?</section>', html, re.S)
    assert "desk scale, learner.learning_rate 0.001, trained for 8M frames: game score 21.00." in runs
    assert html.count("<video") == 1
    assert not (tmp_path / "report/videos/impala/atari_shallow/pong/other").exists()


def test_without_the_file_that_says_what_it_shows_there_is_no_video(tmp_path):
    folder = write(tmp_path / "results", make_record(1)).parent
    write_example(folder)
    (folder / "video.json").unlink()
    page_html = page.write_report(tmp_path / "report", tmp_path / "results")
    assert "<video" not in page_html.read_text()
    assert not (tmp_path / "report" / "videos").exists()


def test_what_is_no_video_is_named(tmp_path):
    folder = write(tmp_path / "results", make_record(1)).parent
    write_example(folder)
    (folder / "video.webm").write_bytes(b"no video")
    with pytest.raises(OSError, match=r"video\.webm cannot be read"):
        page.write_report(tmp_path / "report", tmp_path / "results")


def test_the_videos_of_this_repository_are_small_and_readable(tmp_path):
    paths = sorted(RESULTS.glob("*/*/*/*/*.webm"))
    found = [item for task in RESULTS.glob("*/*/*") for item in videos.find_videos(task).values()]
    assert sorted(item.path for item in found) == paths
    assert [path for path in paths if not any(path.parent.glob("seed_*.json"))] == []
    videos.copy_videos(tmp_path, found)  # reads a picture of each
    assert all(path.stat().st_size < video_file.MAX_BYTES for path in paths)
    assert len(list(tmp_path.rglob("*.jpg"))) == len(paths)
