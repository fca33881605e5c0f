"""Claims about curves, logs and places: which rows are answered, from which records, with what interval and verdict."""

import itertools
import json

import numpy as np
import pytest

from repro.evidence import claims, published, records, rows, statistics
from tests.evidence.synthetic_records import make_record

ROW = {
    "table": "Figure 1",
    "task": "pong",
    "column": "c",
    "n_seeds": None,
    "experiment": "atari_shallow",
    "agent": "impala_shallow",
    "statement": "S.",
}
SPEED = {"unit": "probability of improvement", "value": 0.5, "better": "above"}
SPEED_OF = {"against": ["other"], "compared_by": "frames to the same score"}
FRAMES = {"unit": "ratio of frames to the same median", "value": 1, "better": "less"}
TIME = {"unit": "ratio of wall-clock time to the same median", "value": 1, "better": "equal"}
NATS = {"unit": "nats", "value": 100}
GROWTH = {"unit": "ratio of divergences", "value": 1, "better": "less"}
ORDERS = {"unit": "orders of magnitude", "value": 2}
WON = {"unit": "tasks won of 6", "value": 6}
SHARE = {"unit": "share of the tasks", "value": 0.5}
PLACE = {"unit": "place among 4 agents", "value": 4, "better": "equal"}
TO_OTHER = {"against": ["other"]}
GAMES = ("pong", "alien", "amidar", "assault", "asterix")


def _table(tmp_path, made, *changed, **changes):
    """The rows that these records give."""
    table = {"title": "t", "source": "s", "confidence": "printed in text", "unit": "u", "protocol": {}}
    made_rows = [ROW | changes | change for change in changed or ({},)]
    data = {"paper": "impala", "title": "T", "citation": "C", "tables": {"Figure 1": table}, "rows": made_rows}
    (tmp_path / "impala.json").write_text(json.dumps(data))
    published.load.cache_clear()
    path = records.record_path("r", "p", "e", "t", "a", 0)
    groups = rows.group_records([records.StoredRecord(path, record) for record in made])
    return rows.make_rows(groups, published_dir=tmp_path)


def _row(tmp_path, made, **changes):
    return _table(tmp_path, made, **changes)[0]


def _runs(agent, *runs, games=("pong",), scale="paper", experiment="atari_shallow"):
    """Records; each of `runs` changes one: `to` its curve's end, reached evenly at `by`; kl, pace, final."""
    made = []
    for game, (seed, run) in itertools.product(games, enumerate(runs, start=1)):
        record = make_record(seed, game, experiment, agent, final=run.get("final", 15.0), scale=scale, episodes=5)
        frames = np.linspace(0, record["frames"], 101)[1:]
        record["curve"] = [[int(x), run.get("to", 10.0) * min(1.0, i / run.get("by", 100))]
                           for i, x in enumerate(frames, start=1)]  # fmt: skip
        start, end = run.get("kl", (1.0, 1.0))
        kl = [start] * 10 + [777.0] * 80 + [end] * 10
        record["series"] = {
            "columns": ["frames", "seconds", "kl"],
            "rows": [[x, run.get("pace", 1.0) * x, y] for x, y in zip(frames.tolist(), kl)],
        }
        made.append(record)
    return made


def test_speed_compares_frames_not_final_returns(tmp_path):
    made = _runs("impala_shallow", {"by": 20, "final": 1.0}, {"by": 30, "final": 2.0})
    made += _runs("other", {"by": 80, "final": 18.0}, {"by": 90, "final": 19.0})
    row = _row(tmp_path, made, protocol=SPEED_OF, **SPEED)
    assert (row.value, row.interval, row.interval_over, row.verdict) == (1.0, (1.0, 1.0), "seeds", "reproduced")
    assert (row.seeds, row.scale, row.episodes, row.budget) == ((1, 2), "paper", 5, made[0]["frames"])
    same = SPEED_OF | {"compared_by": "frames to the same return"}
    assert _row(tmp_path, made, protocol=same, **SPEED).value == 1.0
    assert _row(tmp_path, made, protocol=TO_OTHER, **SPEED).value == 0.0  # a claim about final evaluations


def test_less_than_the_paper_s_scale_is_partial(tmp_path):
    made = _runs("impala_shallow", {"by": 20}, {"by": 30}, scale="desk") + _runs("other", {}, {}, scale="desk")
    row = _row(tmp_path, made, protocol=SPEED_OF, **SPEED)
    assert (row.value, row.interval, row.verdict) == (1.0, (1.0, 1.0), "partial")


def test_speed_over_several_tasks_is_their_mean(tmp_path):
    made = _runs("impala_shallow", {"by": 20}, {"by": 30}, games=GAMES) + _runs("other", {"by": 80}, {"by": 90})
    made += _runs("other", {"by": 5}, {"by": 6}, games=GAMES[1:])
    row = _row(tmp_path, made, task="atari5", protocol=SPEED_OF, **SPEED)
    assert (row.value, row.interval, row.note, row.verdict) == (0.2, (0.2, 0.2), "", "below")
    assert row.command == (
        f"make reproduce-impala EXPERIMENT=atari_shallow TASK={','.join(sorted(GAMES))} SCALE=paper SEEDS=2"
    )


def test_fewer_tasks_of_the_set_are_partial_and_counted(tmp_path):
    made = _runs("impala_shallow", {"by": 20}, {"by": 30}, games=GAMES) + _runs("other", {}, {}, games=GAMES[:2])
    row = _row(tmp_path, made, task="atari5", protocol=SPEED_OF, **SPEED)
    assert (row.value, row.interval, row.verdict) == (1.0, (1.0, 1.0), "partial")
    assert row.note == "over the 2 of 5 tasks with records of all agents compared"


def test_frames_and_seconds_to_the_same_level(tmp_path):
    made = _runs("impala_shallow", {"by": 40, "pace": 2.0}, {"by": 40, "pace": 2.0})
    made += _runs("other", {"by": 80}, {"by": 80})
    row = _row(tmp_path, made, protocol=TO_OTHER, **FRAMES)
    assert (row.value, row.interval, row.verdict) == (0.5, (0.5, 0.5), "reproduced")
    row = _row(tmp_path, made, protocol=TO_OTHER, **TIME)
    assert row.value == pytest.approx(1.0)
    assert row.verdict == "reproduced"
    for record in made:
        record["series"] = {"columns": ["frames", "kl"], "rows": [[1, 1.0]]}
    assert _row(tmp_path, made, protocol=TO_OTHER, **TIME).verdict == "not run"
    assert _row(tmp_path, made, protocol=TO_OTHER, **FRAMES).value == 0.5


def test_the_median_over_tasks_is_of_ratios(tmp_path):
    made = _runs("other", {"by": 100}, {"by": 100}, games=GAMES)
    for game, by in zip(GAMES, (10, 20, 30, 40, 90)):
        made += _runs("impala_shallow", {"by": by}, {"by": by}, games=(game,))
    assert _row(tmp_path, made, task="atari5", protocol=TO_OTHER, **FRAMES).value == 0.3


def test_a_level_that_is_never_reached_fails_the_claim(tmp_path):
    made = _runs("impala_shallow", {"to": 5.0}, {"to": 6.0}) + _runs("other", {"to": 10.0}, {"to": 10.0})
    row = _row(tmp_path, made, protocol=TO_OTHER, **FRAMES)
    assert (row.value, row.interval, row.verdict) == (1000.0, (1000.0, 1000.0), "below")
    assert row.note == "1000 stands for a level that is not reached"
    row = _row(tmp_path, made, task="atari5", protocol=TO_OTHER, **FRAMES)
    few = "over the 1 of 5 tasks with records of all agents compared"
    assert (row.value, row.interval, row.verdict) == (1000.0, (1000.0, 1000.0), "partial")
    assert row.note == f"{few}; 1000 stands for a level that is not reached"


def test_returns_that_diminish(tmp_path):
    made = []
    for agent, final in zip(("impala_shallow", "zero", "one", "four"), (9.0, 1.0, 5.0, 7.0)):
        made += _runs(agent, {"final": final}, {"final": final})
    gains = {"unit": "ratio of the gain from ratio 4 to 8 to the gain from 0 to 1", "value": 1, "better": "less"}
    row = _row(tmp_path, made, protocol={"against": ["zero", "one", "four"]}, **gains)
    assert row.value == pytest.approx(0.5, abs=0.2)  # the synthetic evaluations spread around their mean
    assert (row.verdict, row.note) == ("reproduced", "")
    row = _row(tmp_path, made, protocol={"against": ["one", "zero", "four"]}, **gains)
    assert (row.value, row.verdict, row.note) == (1000.0, "below", "1000 stands for a first gain that is none")


def test_divergence_at_the_end_is_a_mean_over_seeds(tmp_path):
    made = _runs("impala_shallow", {"kl": (1.0, 90.0)}, {"kl": (1.0, 110.0)}, {"kl": (1.0, 130.0)})
    measured = {"measured": "divergence at the end of training"}
    row = _row(tmp_path, made, protocol=measured, **NATS)
    assert row.value == pytest.approx(110.0)
    assert (row.interval, row.verdict) == ((90.0, 130.0), "reproduced")
    assert _row(tmp_path, made[:1], protocol=measured, **NATS).verdict == "partial"  # one seed: a value, no interval
    assert _row(tmp_path, made[:1], protocol=measured, **NATS).value == pytest.approx(90.0)
    assert _row(tmp_path, made, **NATS).verdict == "not run"  # a bound in nats, not measured


def test_divergence_that_falls(tmp_path):
    made = _runs("impala_shallow", {"kl": (4.0, 1.0)}, {"kl": (4.0, 1.0)}, games=GAMES[:2])
    made += _runs("impala_shallow", {"kl": (1.0, 1.0)}, {"kl": (1.0, 1.0)}, games=("asterix",))
    row = _row(tmp_path, made, task="atari5", **GROWTH)
    assert row.value == pytest.approx(0.25 ** (2 / 3))  # geometric mean over tasks
    assert row.note == "over the 3 of 5 tasks with records that answer it"
    assert _row(tmp_path, made, task="pong", **GROWTH).verdict == "reproduced"


def test_divergence_of_one_agent_over_that_of_others(tmp_path):
    made = _runs("impala_shallow", {"kl": (1.0, 400.0)}, {"kl": (1.0, 600.0)})
    made += _runs("other", {"kl": (1.0, 5.0)}, {"kl": (1.0, 5.0)}) + _runs(
        "third", {"kl": (9.0, 0.5)}, {"kl": (9.0, 0.5)}
    )
    assert _row(tmp_path, made, protocol=TO_OTHER, **GROWTH).value == pytest.approx(100.0)
    row = _row(tmp_path, made, protocol=TO_OTHER, **ORDERS)
    assert row.value == pytest.approx(2.0)
    assert row.interval == pytest.approx((np.log10(80), np.log10(120)))
    both = {"against": ["other", "third"]}  # 2 orders of magnitude to one, 3 to the other
    assert _row(tmp_path, made, protocol=both, **ORDERS).value == pytest.approx(2.0)
    assert _row(tmp_path, made, protocol=both, **ORDERS | {"better": "less"}).value == pytest.approx(3.0)
    row = _row(tmp_path, made, protocol={"against": ["other", "fourth"]}, **ORDERS)
    assert (row.value, row.verdict) == (pytest.approx(2.0), "partial")
    assert row.interval == pytest.approx((np.log10(80), np.log10(120)))
    assert row.note == "without fourth, which cannot be compared for lack of runs"
    assert _row(tmp_path, made, protocol={"against": ["fourth"]}, **ORDERS).verdict == "not run"


def test_tasks_won_and_their_share(tmp_path):
    made = _runs("impala_shallow", {"final": 10.0}, {"final": 12.0}, games=GAMES)
    made += _runs("other", {"final": 1.0}, {"final": 2.0}, games=GAMES)
    made += _runs("third", {"final": 3.0}, {"final": 4.0}, games=GAMES[:3])
    made += _runs("third", {"final": 500.0}, {"final": 501.0}, games=GAMES[3:])
    both = {"against": ["other", "third"]}
    row = _row(tmp_path, made, task="atari5", protocol=both, **SHARE)
    assert (row.value, row.interval, row.verdict) == (0.6, (0.6, 0.6), "reproduced")
    row = _row(tmp_path, made, task="atari5", protocol=both, **WON)
    assert (row.value, row.verdict) == (3.0, "below")
    row = _row(tmp_path, made[:-4], task="atari5", protocol=both, **WON)
    assert (row.value, row.verdict) == (3.0, "partial")
    assert row.note == "over the 3 of 5 tasks with records of all agents compared"


def test_places_may_be_shared_between_resamples(tmp_path):
    made = _runs("impala_shallow", {"final": 5.0}, {"final": 6.0}) + _runs("other", {"final": 80.0}, {"final": 90.0})
    made += _runs("third", {"final": 70.0}, {"final": 75.0}) + _runs("fourth", {"final": 2.0}, {"final": 200.0})
    others = {"against": ["other", "third", "fourth"]}
    row = _row(tmp_path, made, protocol=others, **PLACE)
    assert (row.value, row.interval, row.verdict) == (4.0, (3.0, 4.0), "reproduced")
    row = _row(tmp_path, made, protocol={"against": ["other", "fourth"]}, **PLACE)
    assert (row.value, row.verdict) == (3.0, "below")
    row = _row(tmp_path, made, protocol=others | {"against": [*others["against"], "fifth"]}, **PLACE)
    assert (row.value, row.note) == (None, "needs 2 runs of fifth on pong")  # no place among fewer
    stays = others | {"compared_by": "steps to stay within the limits"}
    assert _row(tmp_path, made, protocol=stays, **PLACE).verdict == "not run"


@pytest.mark.parametrize("scale", ["desk", "paper"])
def test_runs_of_different_scale_are_not_compared(tmp_path, scale):
    made = _runs("impala_shallow", {}, {}, scale="desk") + _runs("other", {}, {}, scale=scale)
    assert (_row(tmp_path, made, protocol=TO_OTHER, **ORDERS).value is None) == (scale == "paper")


def test_an_agent_of_another_experiment_is_named_with_it(tmp_path):
    made = _runs("impala_shallow", {"kl": (1.0, 10.0)}, {"kl": (1.0, 10.0)})
    made += _runs("impala_deep", {}, {}, experiment="atari_deep")
    row = _row(tmp_path, made, protocol={"against": ["atari_deep/impala_deep"]}, **ORDERS)
    assert row.value == pytest.approx(1.0)


def test_one_run_is_not_compared_and_a_record_without_curve_neither(tmp_path):
    made = _runs("impala_shallow", {}, {}) + _runs("other", {})
    assert _row(tmp_path, made, protocol=TO_OTHER, **FRAMES).verdict == "not run"
    made = _runs("impala_shallow", {}, {}) + _runs("other", {}, {})
    assert _row(tmp_path, made, protocol=TO_OTHER, **FRAMES).verdict == "reproduced"
    made[-1]["curve"] = []
    assert _row(tmp_path, made, protocol=TO_OTHER, **FRAMES).verdict == "not run"


def test_returns_keep_a_row_of_their_own_beside_the_claim(tmp_path):
    made = _runs("impala_shallow", {}, {})
    found = _table(tmp_path, made, **GROWTH)
    assert [(row.table, row.unit) for row in found] == [("Figure 1", "ratio of divergences"), (None, "game score")]


def test_stale_records_answer_nothing_and_are_named(tmp_path):
    config = make_record()["config"] | {"frames": 12_000_000}
    made = [make_record(1, config=config, config_sha256=records.config_sha256(config))]
    claim, own = _table(tmp_path, made, **GROWTH)
    assert (claim.verdict, claim.seeds) == ("not run", ())
    assert "seed 1 is stale" in own.note


def test_the_interval_is_that_of_a_mean_where_a_claim_is_one():
    """Of one agent's mean, against the interval of the statistics module, which draws otherwise."""
    scores = [3.0, 5.0, 4.0, 9.0, 1.0, 2.0]
    kind = claims.Kind(
        lambda sides: lambda shares: shares[0] @ np.array(sides[0]), lambda numbers: numbers.mean(axis=0)
    )
    found = claims.interval(kind, [[scores]], np.random.default_rng(1))
    assert found == pytest.approx(statistics.bootstrap_interval(scores, np.random.default_rng(2)), abs=0.15)
    two = claims.interval(kind, [[scores], [scores]], np.random.default_rng(1))
    assert two[1] - two[0] < 0.8 * (found[1] - found[0])  # a mean over two tasks varies less


def test_even_odds_are_not_surpassed_by_rounding(tmp_path):
    same = [{"by": by} for by in (20, 40, 60)]
    made = [r for game in GAMES for name in ("impala_shallow", "other") for r in _runs(name, *same, games=(game,))]
    row = _row(tmp_path, made, task="atari5", protocol=SPEED_OF, **SPEED)
    assert row.value == 0.5
    won = _runs("impala_shallow", *[{"by": 20}] * 3, games=GAMES) + _runs("other", *[{}] * 3, games=GAMES)
    assert _row(tmp_path, won, task="atari5", protocol=SPEED_OF, **SPEED).interval == (1.0, 1.0)


def test_answers_depend_on_the_generator_only():
    made = {("p", "atari_shallow", "pong", name): _runs(name, {"by": 50}, {"by": 60}, {"by": 20}) for name in "ab"}
    protocol = {"against": ["b"], "compared_by": "frames to the same score"}
    row = published.PublishedRow(
        paper="p", table="1", task="pong", column="c", value=0.5, unit="probability of improvement", n_seeds=None,
        confidence="c", source="s", protocol=protocol, statistic=None, normaliser=None, experiment="atari_shallow",
        agent="a", statement="S.",
    )  # fmt: skip
    assert claims.answer(row, made, np.random.default_rng(3)) == claims.answer(row, made, np.random.default_rng(3))


def test_a_row_that_is_no_claim_is_refused():
    row = next(row for row in published.load("impala").rows if row.statement is None)
    assert not claims.is_claim(row)
    with pytest.raises(ValueError, match="is no claim"):
        claims.answer(row, {}, np.random.default_rng(0))


def test_the_printed_claims_that_are_answered():
    """By table; a claim is answered by this module or by that for comparisons, and never by both."""
    found = {paper: [row for row in published.load(paper).rows if claims.is_claim(row)] for paper in ("acer", "refer")}
    counts = {
        paper: {table: sum(row.table == table for row in of) for table in dict.fromkeys(row.table for row in of)}
        for paper, of in found.items()
    }
    assert counts == {
        "acer": {"Section 1": 2, "Figure 1": 7, "Figure 2": 1, "Figure 3": 4, "Figure 4": 4},
        "refer": {"Figure 1": 2, "Figure 2": 4, "Figure 4": 1, "Figure 5": 4, "Figure 6": 1},
    }
    every = [row for paper in published.papers() for row in published.load(paper).rows]
    assert not [row for row in every if claims.is_claim(row) and claims.comparisons.is_comparison(row)]
