"""Videos of games: length, speed and size are limited, and their frames can be read back."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest

from repro.acting import video, video_file
from repro.acting.rollout import CompiledPolicy, Rollout
from tests.support.catch import Catch
from tests.support.training import make_policy


class ShownCatch(Catch):
    """Catch that can be shown: the ball's row as brightness."""

    def __init__(self, fps):
        super().__init__(1, seed=0)
        self.metadata = {"render_fps": fps}

    def render_first(self):
        return np.full((10, 5, 3), 20 * self._ball[0, 0], np.uint8)


def record(path, fps):
    environment = ShownCatch(fps)
    return video.record_game(make_policy(environment), environment, 1, path)


def read(path):
    reader, pictures = cv2.VideoCapture(str(path)), []
    while (answer := reader.read())[0]:
        pictures.append(answer[1])
    return pictures, reader.get(cv2.CAP_PROP_FPS)


@pytest.mark.parametrize("name", ["a.webm", "a.mp4"])
def test_every_step_is_shown_and_the_last_state_too(tmp_path, name):
    recording = record(tmp_path / "new" / name, fps=10)
    pictures, fps = read(tmp_path / "new" / name)
    steps = round(recording.seconds * 10)
    assert abs(recording.score) == 1
    assert (len(pictures), fps) == (steps + 1, 10)
    assert recording.shown_seconds == recording.seconds
    assert recording.extent == f"an episode of {recording.seconds:.2g} seconds"
    assert pictures[0].shape == (320, 160, 3)  # 32 pixels for each
    assert np.all(np.diff([picture.mean() for picture in pictures]) > 10)  # the ball falls


def test_a_video_shows_every_state_that_was_acted_on(tmp_path):
    recording = record(tmp_path / "game.webm", fps=15)
    shown, _ = read(tmp_path / "game.webm")
    again = ShownCatch(15)
    rollout = Rollout(again, CompiledPolicy(make_policy(again), 1, 1))
    rollout.reset()
    expected, episodes = [], []
    while not episodes:
        expected.append(again.render_first())
        episodes = rollout.step().episodes
    assert recording.score == episodes[0][1].score
    assert len(expected) == 5
    assert len(shown) == len(expected) + 1  # and the last
    for frame, pixels in zip(shown, expected):
        assert frame.shape[:2] == (32 * pixels.shape[0], 32 * pixels.shape[1])
        assert abs(frame.mean() - pixels.mean()) < 10


def test_a_fast_environment_skips_steps(tmp_path):
    recording = record(tmp_path / "a.webm", fps=90)
    pictures, fps = read(tmp_path / "a.webm")
    assert fps == pytest.approx(30, abs=0.1)
    assert len(pictures) == 1 + math.ceil(recording.seconds * fps)


def test_a_long_game_is_cut_and_played_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(video, "MAX_SECONDS", 1)
    recording = record(tmp_path / "a.webm", fps=2)
    pictures, _ = read(tmp_path / "a.webm")
    assert (len(pictures), recording.shown_seconds) == (2, 1.0)
    assert recording.seconds > 2
    assert abs(recording.score) == 1
    assert recording.extent == f"the first 1 of the {recording.seconds:.2g} seconds of an episode"


def test_a_short_game_is_not_called_one_of_no_seconds():
    assert video.Recording(17.0, 0.34, 0.34).extent == "an episode of 0.34 seconds"
    assert video.Recording(17.0, 61.27, 30.0).extent == "the first 30 of the 61 seconds of an episode"


def test_what_is_too_large_becomes_smaller(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (480, 481, 3), dtype=np.uint8) for _ in range(20)]
    assert video_file.write_video(tmp_path / "a.webm", noise, 1) == 20
    full = (tmp_path / "a.webm").stat().st_size
    assert read(tmp_path / "a.webm")[0][0].shape == (318, 320, 3)  # both even
    monkeypatch.setattr(video_file, "MAX_BYTES", full // 3)
    shown = video_file.write_video(tmp_path / "a.webm", noise, 1)
    pictures = read(tmp_path / "a.webm")[0]
    assert (tmp_path / "a.webm").stat().st_size < full // 3
    assert (len(pictures), shown) == (15, 15)
    assert max(pictures[0].shape) < 320
    monkeypatch.setattr(video_file, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="takes more than 1,000 bytes, even at its smallest size"):
        video_file.write_video(tmp_path / "a.webm", noise, 1)
    assert not (tmp_path / "a.webm").exists()


def test_a_file_that_cannot_be_written(tmp_path, capfd):
    (tmp_path / "a.webm").mkdir()
    with pytest.raises(ValueError, match="cannot be written"):
        video_file.write_video(tmp_path / "a.webm", [np.zeros((8, 8, 3), np.uint8)], 20)
    assert capfd.readouterr().err == ""
