"""Rows of synthetic records, and rows of printed numbers that are made for a test."""

import copy
import json

from repro.evidence import published, records, rows
from tests.evidence.synthetic_records import make_groups, make_record, random_records, store


def make_row(*made, task="pong"):
    (row,) = (row for row in rows.rows_for(store(made)) if row.task == task)
    return row


def with_config(record, **learner):
    config = copy.deepcopy(record["config"])
    config["learner"] |= learner
    return record | {"config": config, "config_sha256": records.config_sha256(config)}


PRINTED = {
    "table": "1",
    "task": "pong",
    "column": "c",
    "value": 15.0,
    "n_seeds": None,
    "experiment": "atari_shallow",
    "agent": "impala_shallow",
}


RANDOM = -20.7
"""What the random player scores in its record on Pong."""


def make_table(tmp_path, made, *changed, settings=(), references=None, random=True):
    """The rows of printed numbers, each with some fields changed, that these records and a random player's give."""
    table = {"title": "t", "source": "s", "confidence": "c", "unit": "game score", "protocol": {}}
    data = {"paper": "impala", "title": "T", "citation": "C", "tables": {"1": table}}
    data["rows"] = [PRINTED | {"column": f"c{i}"} | change for i, change in enumerate(changed)]
    data["setting_tables"] = {"S": {"title": "t", "source": "s", "confidence": "c"}}
    data["settings"] = [{"table": "S", "experiments": ["atari_shallow"]} | setting for setting in settings]
    if references is not None:
        (tmp_path / "normalisers").mkdir(exist_ok=True)
        (tmp_path / "normalisers" / "n.json").write_text(json.dumps({"tasks": references}))
        published.normaliser.cache_clear()
    (tmp_path / "impala.json").write_text(json.dumps(data))
    published.load.cache_clear()
    player = random_records(final=RANDOM) if random else []
    return rows.make_rows(make_groups([*made, *player]), published_dir=tmp_path)[: len(changed)]


def make_one(tmp_path, made, settings=(), references=None, random=True, **change):
    return make_table(tmp_path, made, change, settings=settings, references=references, random=random)[0]


def full_runs(count, final=15.0, **changes):
    return [make_record(seed, final=final + 0.1 * seed, scale="paper", **changes) for seed in range(1, count + 1)]
