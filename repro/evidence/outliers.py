"""Known outliers: committed records that are out of their band although the code is sound, each with the reason.

`OUTLIERS.json` at the top of the folder of records maps the path of a record below the folder to its mean and the
reason why it is no regression. Such a run counts as a result like any other, but no band is made from it.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from repro.evidence.judgements import Judgement
from repro.evidence.records import RecordError, StoredRecord
from repro.files import reason

NAME = "OUTLIERS.json"


class Outlier(NamedTuple):
    """Entry of one record: its mean, and the reason why it is no regression."""

    mean: float
    reason: str


def read(results_dir: pathlib.Path) -> dict[pathlib.Path, Outlier]:
    """Returns the known outliers of a folder of records by the path of their file; none without a list.

    Raises:
        RecordError: the list cannot be read, or has an entry that does not have just a mean and a reason.
    """
    path = results_dir / NAME
    if not path.exists():
        return {}
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return {results_dir / name: Outlier(**entry) for name, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        remedy = 'it must hold {"<path of a record>": {"mean": ..., "reason": "..."}}'
        raise RecordError(f"The list {path} could not be read ({reason(error)}); {remedy}.") from error


def explained(items: Iterable[StoredRecord], known: Mapping[pathlib.Path, Outlier]) -> set[pathlib.Path]:
    """Returns the files of the records that are known outliers and still have the mean in the list."""
    return {
        item.path for item in items if item.path in known and known[item.path].mean == item.record["evaluation"]["mean"]
    }


def find_errors(known: Mapping[pathlib.Path, Outlier], judged: Collection[Judgement]) -> list[str]:
    """Returns a sentence for every entry of the list that explains no record.

    Args:
        known: outliers from `read`.
        judged: judgements of all records of the folder.
    """
    found = {item.path: item for item in judged}
    sentences = []
    for path, outlier in known.items():
        item = found.get(path)
        if item is None:
            sentences.append(f"{NAME} has {path}, which has no current record; remove it from the list")
        elif item.value != outlier.mean:
            sentences.append(f"{NAME} has {path} with a mean of {outlier.mean}, but the record has {item.value}")
        elif not item.is_out:
            sentences.append(f"{NAME} has {path}, which is not out of its band; remove it from the list")
    return sentences
