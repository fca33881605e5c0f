"""Video files that browsers play, below a megabyte: VP8 in a .webm file, or VP9 in an .mp4 file.

Nothing here imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from repro.quiet import suppress_stderr

CODECS = {".webm": "VP80", ".mp4": "vp09"}
"""Codec by file name extension; browsers play them and OpenCV writes them."""

MAX_BYTES = 1_000_000

LIMITS = ((320, 30), (240, 30), (240, 15), (180, 15), (120, 15), (120, 8))
"""Pixels of the longer side, and seconds that are kept; the first pair that makes the file small enough is used."""


def write_video(path: Path, pictures: Sequence[np.ndarray], fps: float) -> int:
    """Writes pictures as a video, with the first of `LIMITS` that leaves it below `MAX_BYTES`.

    OpenCV offers no choice of bit rate, so that only the size and the number of pictures can be chosen.

    Args:
        path: ends in one of `CODECS`; overwritten.
        pictures: uint8 [H, W, 3] each, red first, all of one shape.
        fps: pictures a second.

    Returns:
        Number of pictures that were written, from the first on.

    Raises:
        ValueError: the file cannot be written, or is too large even with the last of `LIMITS`.
    """
    codec = cv2.VideoWriter.fourcc(*CODECS[path.suffix])
    for size, seconds in LIMITS:
        shown = pictures[: max(1, round(seconds * fps))]
        height, width = (2 * (side // 2) for side in resize(pictures[0], size).shape[:2])  # even, for the colours
        with suppress_stderr():  # OpenCV complains of VP8's code in a .webm file, whatever the code
            writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, codec, fps, (width, height))
        if not writer.isOpened():
            raise ValueError(f"the video {path} cannot be written.")
        for picture in shown:
            writer.write(cv2.cvtColor(resize(picture, size)[:height, :width], cv2.COLOR_RGB2BGR))
        writer.release()
        if path.stat().st_size < MAX_BYTES:
            return len(shown)
    path.unlink()
    raise ValueError(
        f"a video of these {len(pictures)} pictures takes more than {MAX_BYTES:,} bytes, even at its smallest size."
    )


def resize(picture: np.ndarray, size: int) -> np.ndarray:
    """Returns a picture whose longer side is at most `size`: smaller by averaging, larger by whole numbers of pixels.

    Args:
        picture: uint8 [H, W, 3].
        size: pixels.
    """
    height, width = picture.shape[:2]
    scale: float = size / max(height, width)
    if scale >= 1:
        scale = int(scale)
    interpolation = cv2.INTER_NEAREST if scale >= 1 else cv2.INTER_AREA
    return cv2.resize(picture, (round(scale * width), round(scale * height)), interpolation=interpolation)
