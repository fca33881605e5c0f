"""Parts of a Reverb replay's checkpoint besides its sequences: other tables, and totals of the run."""

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
    """Totals of a whole run for a replay in a process of its own.

    Attributes:
        lost: number of sequences that were lost when the replay's process ended.
        restarts: number of times that the replay's process was restarted.
    """

    lost: int = 0
    restarts: int = 0


def write_totals(saved: Path, totals: Totals) -> None:
    """Writes the current totals into the folder of a saved replay."""
    (saved / TOTALS).write_text(json.dumps(totals._asdict()))


def read_totals(saved: Path) -> Totals:
    """Returns the totals in the folder of a saved replay; all 0 where it has none."""
    path = saved / TOTALS
    return Totals(**json.loads(path.read_text())) if path.exists() else Totals()


def has_sequences(saved: Path) -> bool:
    """Returns whether a folder has saved sequences; a replay that ended before its first save leaves none."""
    return (saved / FILE).exists()


def find_names(saved: Path) -> set[str]:
    """Returns the names of a checkpoint's tables.

    Raises:
        tf.errors.OpError: the folder has no valid checkpoint.
    """
    records = tf.data.TFRecordDataset(str(saved / FILE), compression_type="ZLIB")
    return {str(checkpoint_pb2.PriorityTableCheckpoint.FromString(record.numpy()).table_name) for record in records}


def make_tables(names: Iterable[str]) -> list[reverb.Table]:
    """Returns placeholders for tables of a checkpoint that are not wanted: a server must have all that it restores."""
    return [
        reverb.Table(
            name,
            sampler=reverb.selectors.Fifo(),
            remover=reverb.selectors.Fifo(),
            max_size=1,  # replaced by the size in the checkpoint
            rate_limiter=reverb.rate_limiters.MinSize(1),
        )
        for name in names
    ]
