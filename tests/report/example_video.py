"""A video for tests, stored beside an agent's records."""

import json
import pathlib

import numpy as np

from repro.acting.video_file import write_video

FACTS = {
    "seed": 2,
    "scale": "desk",
    "changes": {},
    "num_env_frames": 8_000_000,
    "unit": "game score",
    "score": 21.0,
    "seconds": 67.0,
    "shown_seconds": 30.0,
    "git_commit": "0123456789abcdef0123456789abcdef01234567",
}


def write_example(agent_dir: pathlib.Path, **changes) -> None:
    """Writes ten pictures that become brighter, of a second together, and what is to be said about them."""
    agent_dir.mkdir(parents=True, exist_ok=True)
    pictures = [np.full((240, 320, 3), 20 * i, np.uint8) for i in range(10)]
    write_video(agent_dir / "video.webm", pictures, 10)
    (agent_dir / "video.json").write_text(json.dumps(FACTS | changes))
