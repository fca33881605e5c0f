"""TensorBoard's scalars, written without TensorFlow's default writer, which stays the default after an error."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.scalar.summary_v2 import scalar_pb


class ScalarsFile:
    """A file of TensorBoard events in a folder, which is created.

    All calls raise `OSError` or `tf.errors.OpError` where the disk is full or not writable.

    Args:
        folder: folder of one run for TensorBoard; it may have files of other processes.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a folder in the order of their names.
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex[:8]}"
        self._file = tf.io.TFRecordWriter(str(folder / name))
        self._write(Event(file_version="brain.Event:2"))

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Adds the scalars of a step; they are in the file when this returns."""
        event = Event(step=step)
        for name, value in scalars.items():
            event.summary.MergeFrom(scalar_pb(name, value))
        self._write(event)

    def close(self) -> None:
        """Closes the file; nothing waits to be written."""
        self._file.close()

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._file.write(event.SerializeToString())
        self._file.flush()
