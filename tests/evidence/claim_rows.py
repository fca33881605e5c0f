"""Rows of claims that are made for a test, and synthetic runs that answer them."""

import itertools
import json
from collections.abc import Mapping

import numpy as np

from repro.evidence import published, rows, staleness
from repro.evidence.references import find_references
from tests.evidence.synthetic_records import make_groups, make_record, random_records

ROW = {
    "table": "Figure 1",
    "task": "pong",
    "column": "c",
    "n_seeds": None,
    "experiment": "atari_shallow",
    "agent": "impala_shallow",
    "statement": "S.",
}
SPEED = {"claim": "speed", "unit": "probability of improvement", "value": 0.5, "better": "above"}
FRAMES = {"claim": "frames_ratio", "unit": "ratio of frames", "value": 1, "better": "less"}
TIME = {"claim": "seconds_ratio_to_common_level", "unit": "ratio of wall-clock time", "value": 1, "better": "equal"}
TIME |= {"margin": ["factor", 1.25], "margin_note": "m"}
NATS = {"claim": "divergence", "unit": "nats", "value": 100}
GROWTH = {"claim": "divergence_growth", "unit": "ratio of divergences", "value": 1, "better": "less"}
ORDERS = {"claim": "divergence_distance_orders", "unit": "orders of magnitude", "value": 2}
WON = {"claim": "tasks_won", "unit": "tasks won of 6", "value": 6}
SHARE = {"claim": "tasks_won_share", "unit": "share of the tasks", "value": 0.5}
PLACE = {"claim": "place", "unit": "place among 4 agents", "value": 4, "better": "equal"}
PLACE |= {"margin": ["absolute", 0], "margin_note": "m"}
CORRELATION = {"claim": "rank_correlation", "unit": "rank correlation", "value": 0, "better": "under"}
TO_OTHER = {"against": ["other"]}
GAMES = ("pong", "alien", "amidar", "assault", "asterix")
RANDOM = random_records(GAMES)


def make_table(tmp_path, made, *changed, random=RANDOM, settings=(), **changes):
    """The rows that these records give."""
    table = {"title": "t", "source": "s", "confidence": "printed in text", "unit": "u", "protocol": {}}
    made_rows = [ROW | changes | change for change in changed or ({},)]
    data = {"paper": "impala", "title": "T", "citation": "C", "tables": {"Figure 1": table}, "rows": made_rows}
    data["setting_tables"] = {"S": {"title": "t", "source": "s", "confidence": "printed in text"}}
    data["settings"] = [{"table": "S", "experiments": ["atari_shallow"]} | setting for setting in settings]
    (tmp_path / "impala.json").write_text(json.dumps(data))
    published.load.cache_clear()
    return rows.make_rows(make_groups([*made, *random]), published_dir=tmp_path)


class AnsweredRows(Mapping):
    """Table, task and column to the row that records give, as in `rows.make_rows`; made when it is first asked for.

    Args:
        printed: of a paper.
        made: the records.
        directory: of published numbers.
    """

    def __init__(self, printed, made, directory=published.PUBLISHED_DIR):
        self._printed = {(row.table, row.task, row.column): row for row in printed}
        groups = make_groups(made)
        references = find_references((record for group in groups.values() for record in group.every), directory)
        self._context = groups, references, directory, staleness.CONFIGS_DIR
        self._found = {}

    def __getitem__(self, place):
        if place not in self._found:
            self._found[place] = rows.printed_row(self._printed[place], *self._context)
        return self._found[place]

    def __iter__(self):
        return iter(self._printed)

    def __len__(self):
        return len(self._printed)


def answered_rows(paper, made, directory=published.PUBLISHED_DIR):
    """The rows of a paper's tables: table, task and column to the row that these records give."""
    return AnsweredRows(published.load(paper, directory).rows, made, directory)


def make_row(tmp_path, made, **changes):
    return make_table(tmp_path, made, **changes)[0]


def make_runs(agent, *runs, games=("pong",), scale="paper", experiment="atari_shallow"):
    """Records; each of `runs` changes one: `to` its curve's end, reached evenly at `by`; kl, pace, final, delta."""
    made = []
    for game, (seed, run) in itertools.product(games, enumerate(runs, start=1)):
        record = make_record(seed, game, experiment, agent, final=run.get("final", 15.0), scale=scale, episodes=5)
        frames = np.linspace(0, record["num_env_frames"], 101)[1:]
        record |= {"sampled_hparams": {"delta": run["delta"]}} if "delta" in run else {}
        record["curve"] = [[int(x), run.get("to", 10.0) * min(1.0, i / run.get("by", 100))]
                           for i, x in enumerate(frames, start=1)]  # fmt: skip
        start, end = run.get("kl", (1.0, 1.0))
        kl = [start] * 10 + [777.0] * 80 + [end] * 10
        record["series"] = {
            "columns": ["num_env_frames", "seconds", "kl"],
            "rows": [[x, run.get("pace", 1.0) * x, y] for x, y in zip(frames.tolist(), kl)],
        }
        made.append(record)
    return made


def make_pairs(count, **run):
    """As many runs as `count` that do nearly the same."""
    return [run | {"by": run["by"] + i} if "by" in run else run for i in range(count)]


def printed_claim(claim, **protocol):
    return published.PublishedRow(
        paper="impala", table="1", task="pong", column="c", value=0.5, unit="u", n_seeds=None, confidence="c",
        source="s", protocol=protocol, statistic=None, normaliser=None, experiment="atari_shallow",
        agent="impala_shallow", statement="S.", claim=claim,
    )  # fmt: skip
