"""Our learning curves beside other publications' numbers: at their budget, only of runs that reach it."""

import json
import re

import pytest

from repro.evidence import external, published
from repro.evidence.groups import Group
from tests.evidence.synthetic_records import make_record

TABLE = {
    "name": "example",
    "title": "Example",
    "source": "nowhere",
    "confidence": "public repository file",
    "protocol": {"environment": "Atari"},
    "unit": "game score",
    "papers": ["impala"],
    "environment": "atari",
    "columns": ["theirs, 4M frames", "other"],
    "rows": [["pong", 10.0, None], ["qbert", None, 3.0]],
    "spread": {"of": "std", "rows": [["pong", 2.5, None]]},
    "compared": [
        {
            "column": "theirs, 4M frames",
            "agent": "atari_shallow/impala_shallow",
            "at": 4_000_000,
            "budget_field": "num_env_frames",
            "same_agent": True,
        }
    ],
    "notes": "",
}


def records(*levels, scale="desk", **changes):
    """Runs with straight curves from 0 to twice their level at 8M frames: they pass it at 4M."""
    made = [make_record(seed, scale=scale, budget=8_000_000, **changes) for seed in range(1, len(levels) + 1)]
    curves = [[[0, 0.0], [2_000_000, level / 2], [8_000_000, 2 * level]] for level in levels]
    return tuple(record | {"curve": curve} for record, curve in zip(made, curves))


def rows(tmp_path, group, table=TABLE, task="pong"):
    (tmp_path / "example.json").write_text(json.dumps(table))
    published.context.cache_clear()
    return external.make_external_rows({("impala", "atari_shallow", task, "impala_shallow"): group}, tmp_path)


def test_the_curve_is_read_at_their_budget(tmp_path):
    (row,) = rows(tmp_path, Group(records(4.0, 5.0, 6.0)))
    assert row.value == pytest.approx(5.0)
    assert row.interval == pytest.approx((5 - 4.302653 / 3**0.5, 5 + 4.302653 / 3**0.5), rel=1e-5)
    assert (row.at, row.unit_of_budget, row.trained, row.seeds) == (4_000_000, "frames", 8_000_000, 3)
    assert (row.number, row.spread, row.spread_of) == (10.0, 2.5, "std")
    assert row.standing == "lower"


@pytest.mark.parametrize(
    ("levels", "standing"),
    [
        ((20.0, 21.0, 22.0), "higher"),
        ((9.0, 10.0, 11.5), "not told apart"),
        ((1.0,), "too few runs"),
        ((20.0, 20.0), "no spread"),
    ],
)
def test_how_ours_stands(tmp_path, levels, standing):
    (row,) = rows(tmp_path, Group(records(*levels)))
    assert row.standing == standing


def test_runs_that_do_not_get_as_far_have_no_row(tmp_path):
    short = [record | {"curve": record["curve"][:2]} for record in records(5.0)]
    assert rows(tmp_path, Group(tuple(short))) == []
    assert rows(tmp_path, Group((*records(5.0), *short))) == []


def test_steps_that_fill_the_replay_count(tmp_path):
    (plain,) = records(5.0)
    filled = plain | {"config": plain["config"] | {"memory": {"start_steps": 2_000_000}}}
    (row,) = rows(tmp_path, Group((filled,)))
    assert row.value == pytest.approx(2.5)


def test_the_smallest_scale_that_gets_as_far_counts(tmp_path):
    paper, desk = records(20.0, scale="paper"), records(5.0)
    (row,) = rows(tmp_path, Group(paper, smaller=desk))
    assert row.value == pytest.approx(5.0)
    short = tuple(record | {"curve": record["curve"][:2]} for record in desk)
    (row,) = rows(tmp_path, Group(paper, smaller=short))
    assert row.value == pytest.approx(20.0)


def test_a_task_without_a_number_an_other_unit_and_an_other_environment_have_no_row(tmp_path):
    group = Group(records(5.0))
    assert rows(tmp_path, group, task="qbert") == []
    assert rows(tmp_path, group, TABLE | {"unit": "percent"}) == []
    assert rows(tmp_path, group, TABLE | {"environment": "dmlab"}) == []
    assert rows(tmp_path, group, TABLE | {"papers": ["acer"]}) == []


def test_a_column_that_is_not_there_is_an_error(tmp_path):
    wrong = TABLE | {"compared": [TABLE["compared"][0] | {"column": "thiers"}]}
    with pytest.raises(published.PublishedError, match="compare with an unknown column, 'thiers'"):
        rows(tmp_path, Group(records(5.0)), wrong)


def test_every_table_is_compared_or_left_out_for_a_reason():
    published.context.cache_clear()
    compared = {table.name: bool(table.compared) for table in published.context()}
    page = (published.PUBLISHED_DIR / "README.md").read_text()
    listed = page.split("### Context that is not compared\n")[1].split("\n## ")[0]
    reasons = [line.split("|") for line in listed.splitlines() if line.startswith("| `")]
    left_out = [name for _, tables, reason, _ in reasons if reason.strip() for name in re.findall(r"`(\w+)`", tables)]
    assert sorted(left_out) == sorted(name for name, is_compared in compared.items() if not is_compared)
    assert sum(compared.values()) > 15


def test_compared_agents_are_agents_of_their_experiments():
    from repro.config import agents
    from repro.evidence.staleness import current_config

    published.context.cache_clear()
    compared = [(table, item) for table in published.context() for item in table.compared]
    assert len(compared) > 15
    for table, item in compared:
        experiment, _, agent = item.agent.partition("/")
        (paper,) = [
            name for name in table.papers if (published.PUBLISHED_DIR.parent / name / f"{experiment}.py").exists()
        ]
        assert agent in agents(current_config(paper, experiment, "desk"))
