"""Videos of agents, stored beside their records, for the page."""

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

import cv2

from repro.report import tables

NAME = "video.webm"
"""Name of a video in an agent's folder of results; `repro.evaluate` writes `video.json` beside it."""
VIDEOS = "videos"
"""Folder beside the page."""


@dataclasses.dataclass(frozen=True)
class Video:
    """Video of one episode of one policy.

    Attributes:
        path: file of the video.
        agent: agent that plays.
        caption: text with seed, budget, score and the part that is shown.
    """

    path: pathlib.Path
    agent: str
    caption: str

    @property
    def place(self) -> pathlib.PurePosixPath:
        """Path of its copy relative to the page, with the same folders as in the results."""
        return pathlib.PurePosixPath(VIDEOS, *self.path.parts[-5:])

    @property
    def poster(self) -> pathlib.PurePosixPath:
        """Path of a picture of it, relative to the page."""
        return self.place.with_suffix(".jpg")


def find_videos(task_dir: pathlib.Path) -> dict[str, Video]:
    """Returns the video of each agent that has one together with its JSON file.

    Args:
        task_dir: folder `<results>/<paper>/<experiment>/<task>`.
    """
    found = {}
    for path in sorted(task_dir.glob(f"*/{NAME}")):
        facts = path.with_suffix(".json")
        if facts.is_file():
            agent = path.parent.name
            found[agent] = Video(path, agent, _caption(json.loads(facts.read_text(encoding="utf-8"))))
    return found


def copy_videos(out_dir: pathlib.Path, videos: Iterable[Video]) -> None:
    """Copies videos below the folder of the page, each with a picture that is shown until it is played.

    Raises:
        OSError: a file cannot be read or written.
    """
    for video in videos:
        path = out_dir / video.place
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(video.path, path)
        reader = cv2.VideoCapture(str(path))
        reader.set(cv2.CAP_PROP_POS_FRAMES, reader.get(cv2.CAP_PROP_FRAME_COUNT) // 3)
        readable, picture = reader.read()
        reader.release()
        if not readable or not cv2.imwrite(str(out_dir / video.poster), picture):
            raise OSError(f"the video {video.path} cannot be read")


def _caption(facts: Mapping[str, Any]) -> str:
    unit = next((unit for unit in ("frames", "steps") if f"num_env_{unit}" in facts), None)
    trained = f"trained for {tables.amount(facts[f'num_env_{unit}'])} {unit}" if unit else "in training"
    changes = "".join(f", {name} {value}" for name, value in facts["changes"].items())
    cut = facts["shown_seconds"] < facts["seconds"]
    extent = f", its first {facts['shown_seconds']:.0f} of {facts['seconds']:.0f} s" if cut else ""
    sha, _, dirty = (facts["git_commit"] or "").partition("-")
    commit = f", played with commit {sha[:10]}{dirty and '-dirty'}" if sha else ""
    score = f"{facts['unit']} {tables.number(facts['score'])}"
    return f"One episode of seed {facts['seed']}, {facts['scale']} scale{changes}, {trained}: {score}{extent}{commit}."
