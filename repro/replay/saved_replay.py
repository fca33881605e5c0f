"""What a checkpoint of a replay on Reverb has besides sequences: other tables, and totals of the run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import reverb
import tensorflow as tf
from reverb.cc.checkpointing import checkpoint_pb2

FILE = "tables.tfrecord"
TOTALS = "totals.json"


class Totals(NamedTuple):
    """Sequences that a whole run lost with a replay's process, and times that one was started again."""

    lost: int = 0
    restarts: int = 0


def write_totals(saved: Path, totals: Totals) -> None:
    """Writes totals of this moment to what was saved."""
    (saved / TOTALS).write_text(json.dumps(totals._asdict()))


def read_totals(saved: Path) -> Totals:
    """Returns the totals of what was saved; none where nothing was written."""
    path = saved / TOTALS
    return Totals(**json.loads(path.read_text())) if path.exists() else Totals()


def has_sequences(saved: Path) -> bool:
    """Whether a replay was saved to a folder that had anything: one that ended before its first save had not."""
    return (saved / FILE).exists()


def find_names(saved: Path) -> set[str]:
    """Returns the names of a checkpoint's tables.

    Raises:
        tf.errors.OpError: it is none.
    """
    records = tf.data.TFRecordDataset(str(saved / FILE), compression_type="ZLIB")
    return {str(checkpoint_pb2.PriorityTableCheckpoint.FromString(record.numpy()).table_name) for record in records}


def make_tables(names: Iterable[str]) -> list[reverb.Table]:
    """Returns tables of these names, for what is not wanted of a checkpoint: a server with it must have all of its."""
    return [
        reverb.Table(
            name,
            sampler=reverb.selectors.Fifo(),
            remover=reverb.selectors.Fifo(),
            max_size=1,  # that of the checkpoint takes its place
            rate_limiter=reverb.rate_limiters.MinSize(1),
        )
        for name in names
    ]
