"""Claims about curves, logs and places: which rows are answered, from which records, with what interval and verdict."""

import itertools
import json

import numpy as np
import pytest

from repro.evidence import claims, intervals, published, random_player, records, rows, statistics
from repro.evidence.groups import group_records
from repro.evidence.references import References
from tests.evidence.synthetic_records import make_record, random_records

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
TIME = {"claim": "seconds_ratio", "unit": "ratio of wall-clock time", "value": 1, "better": "equal"}
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


def _table(tmp_path, made, *changed, random=RANDOM, settings=(), **changes):
    """The rows that these records give."""
    table = {"title": "t", "source": "s", "confidence": "printed in text", "unit": "u", "protocol": {}}
    made_rows = [ROW | changes | change for change in changed or ({},)]
    data = {"paper": "impala", "title": "T", "citation": "C", "tables": {"Figure 1": table}, "rows": made_rows}
    data["setting_tables"] = {"S": {"title": "t", "source": "s", "confidence": "printed in text"}}
    data["settings"] = [{"table": "S", "experiments": ["atari_shallow"]} | setting for setting in settings]
    (tmp_path / "impala.json").write_text(json.dumps(data))
    published.load.cache_clear()
    path = records.record_path("r", "p", "e", "t", "a", 0)
    groups = group_records([records.StoredRecord(path, record) for record in [*made, *random]])
    return rows.make_rows(groups, published_dir=tmp_path)


def _row(tmp_path, made, **changes):
    return _table(tmp_path, made, **changes)[0]


def _runs(agent, *runs, games=("pong",), scale="paper", experiment="atari_shallow"):
    """Records; each of `runs` changes one: `to` its curve's end, reached evenly at `by`; kl, pace, final."""
    made = []
    for game, (seed, run) in itertools.product(games, enumerate(runs, start=1)):
        record = make_record(seed, game, experiment, agent, final=run.get("final", 15.0), scale=scale, episodes=5)
        frames = np.linspace(0, record["num_env_frames"], 101)[1:]
        record["sampled_hparams"] = {"delta": run.get("delta", 1.0)}
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


def _pairs(count, **run):
    """As many runs as `count` that do nearly the same."""
    return [run | {"by": run["by"] + i} if "by" in run else run for i in range(count)]


def test_speed_compares_frames_not_final_returns(tmp_path):
    made = _runs("impala_shallow", *_pairs(5, by=20, final=1.0)) + _runs("other", *_pairs(5, by=80, final=18.0))
    row = _row(tmp_path, made, protocol=TO_OTHER, **SPEED)
    assert (row.value, row.interval) == (1.0, pytest.approx(intervals.improvement_interval(1.0, 5, 5)))
    assert (row.interval_over, row.verdict, row.shortfalls) == ("seeds", "reproduced", ())
    assert (row.seeds, row.scale, row.episodes, row.budget) == ((1, 2, 3, 4, 5), "paper", 5, made[0]["num_env_frames"])
    ends_higher = SPEED | {"claim": "improvement"}
    assert _row(tmp_path, made, protocol=TO_OTHER, **ends_higher).value == 0.0  # a claim about final evaluations


def test_no_finding_below_five_runs_of_each_agent(tmp_path):
    for ours, theirs in ((4, 4), (4, 5), (5, 4)):
        made = _runs("impala_shallow", *_pairs(ours, by=20)) + _runs("other", *_pairs(theirs, by=80))
        row = _row(tmp_path, made, protocol=TO_OTHER, **SPEED)
        assert row.interval[0] > 0.5
        assert (row.finding, row.shortfalls) == ("undecided", ("4 of 5 runs",))
        assert _row(tmp_path, made, protocol=TO_OTHER, **SPEED, n_seeds=4).finding == "agrees"  # as many as the paper
        few = _row(tmp_path, made, protocol=TO_OTHER, **SPEED, n_seeds=30)
        assert (few.finding, few.shortfalls) == ("undecided", ("4 of 30 runs",))
    made = _runs("impala_shallow", *_pairs(5, by=20)) + _runs("other", *_pairs(5, by=80))
    few = _row(tmp_path, made, protocol=TO_OTHER, **SPEED, n_seeds=30)
    assert (few.finding, few.verdict, few.shortfalls) == ("agrees", "agrees", ("5 of 30 runs",))


def test_less_than_the_paper_s_scale_is_said(tmp_path):
    made = _runs("impala_shallow", *_pairs(5, by=20), scale="desk") + _runs("other", *_pairs(5, by=80), scale="desk")
    row = _row(tmp_path, made, protocol=TO_OTHER, **SPEED)
    assert (row.value, row.verdict, row.shortfalls) == (1.0, "agrees", ("scale desk", "3 settings differ"))


def test_speed_over_several_tasks_is_their_mean(tmp_path):
    made = _runs("impala_shallow", *_pairs(5, by=20), games=GAMES) + _runs("other", *_pairs(5, by=80))
    made += _runs("other", *_pairs(5, by=5), games=GAMES[1:])
    row = _row(tmp_path, made, task="atari5", protocol=TO_OTHER, **SPEED)
    won, lost = intervals.improvement_interval(1.0, 5, 5), intervals.improvement_interval(0.0, 5, 5)
    assert row.interval == pytest.approx(intervals.average([1, 0, 0, 0, 0], [won, *[lost] * 4]))
    assert (row.value, row.note, row.verdict) == (0.2, "", "contradicts")
    assert row.command == (
        f"make reproduce-impala EXPERIMENT=atari_shallow TASK={','.join(sorted(GAMES))} SCALE=paper SEEDS=5"
    )


def test_fewer_tasks_of_the_set_are_counted(tmp_path):
    made = _runs("impala_shallow", *_pairs(5, by=20), games=GAMES) + _runs("other", *_pairs(5), games=GAMES[:2])
    row = _row(tmp_path, made, task="atari5", protocol=TO_OTHER, **SPEED)
    assert (row.value, row.verdict, row.shortfalls, row.note) == (1.0, "agrees", ("2 of 5 tasks",), "")


def test_frames_and_seconds_to_the_same_level(tmp_path):
    made = _runs("impala_shallow", *_pairs(5, by=40, pace=2.0)) + _runs("other", *_pairs(5, by=80))
    row = _row(tmp_path, made, protocol=TO_OTHER, **FRAMES)
    assert row.value == pytest.approx(0.5, abs=0.03)
    assert (row.interval[0] <= row.value <= row.interval[1], row.verdict) == (True, "reproduced")
    row = _row(tmp_path, made, protocol=TO_OTHER, **TIME)
    assert row.value == pytest.approx(1.0, abs=0.05)
    assert row.verdict == "reproduced"
    for record in made:
        record["series"] = {"columns": ["num_env_frames", "kl"], "rows": [[1, 1.0]]}
    assert _row(tmp_path, made, protocol=TO_OTHER, **TIME).verdict == "not run"
    assert _row(tmp_path, made, protocol=TO_OTHER, **FRAMES).value == pytest.approx(0.5, abs=0.03)


def test_a_ratio_whose_resamples_are_all_one_number_has_no_interval(tmp_path):
    """No spread among the runs is nothing to decide by."""
    made = _runs("impala_shallow", *[{"by": 40}] * 5) + _runs("other", *[{"by": 80}] * 5)
    row = _row(tmp_path, made, protocol=TO_OTHER, **FRAMES)
    assert (row.value, row.interval, row.verdict) == (0.5, None, "undecided")


@pytest.mark.parametrize("runs", [2, 3, 4])
def test_a_bootstrap_takes_four_runs_of_each_agent(tmp_path, runs):
    made = _runs("impala_shallow", *_pairs(5, by=40)) + _runs("other", *_pairs(runs, by=80))
    row = _row(tmp_path, made, n_seeds=2, protocol=TO_OTHER, **FRAMES)
    assert (row.interval is None, row.verdict) == (runs < 4, "undecided" if runs < 4 else "reproduced")


def test_the_median_over_tasks_is_of_ratios(tmp_path):
    made = _runs("other", {"by": 100}, {"by": 100}, games=GAMES)
    for game, by in zip(GAMES, (10, 20, 30, 40, 90)):
        made += _runs("impala_shallow", {"by": by}, {"by": by}, games=(game,))
    assert _row(tmp_path, made, task="atari5", protocol=TO_OTHER, **FRAMES).value == 0.3


def test_a_level_that_is_never_reached_fails_the_claim(tmp_path):
    ours = [{"to": 5.0 + 0.1 * i} for i in range(4)] + [{"to": 50.0}]  # whose mean is 14
    made = _runs("impala_shallow", *ours) + _runs("other", *[{"to": 20.0}] * 5)
    row = _row(tmp_path, made, protocol=TO_OTHER, **FRAMES)
    assert (row.value, row.interval[1], row.verdict) == (1000.0, 1000.0, "undecided")  # some resamples reach it
    assert row.note == "1000 stands for a level that is not reached"
    row = _row(tmp_path, made, task="atari5", protocol=TO_OTHER, **FRAMES)
    assert (row.value, row.shortfalls) == (1000.0, ("1 of 5 tasks",))
    assert row.note == "1000 stands for a level that is not reached"


def test_returns_that_diminish(tmp_path):
    made = []
    for agent, final in zip(("impala_shallow", "zero", "one", "four"), (9.0, 1.0, 5.0, 7.0)):
        made += _runs(agent, *[{"final": final}] * 5)
    gains = {"claim": "gains_ratio", "unit": "ratio of gains", "value": 1, "better": "less"}
    row = _row(tmp_path, made, protocol={"against": ["zero", "one", "four"]}, **gains)
    assert row.value == pytest.approx(0.5, abs=0.2)  # the synthetic evaluations spread around their mean
    assert (row.verdict, row.note) == ("reproduced", "")
    row = _row(tmp_path, made, protocol={"against": ["one", "zero", "four"]}, **gains)
    assert (row.value, row.note) == (1000.0, "1000 stands for a first gain that is none")
    assert row.verdict == "undecided"  # all resamples are that number


def test_divergence_at_the_end_is_a_mean_over_seeds(tmp_path):
    ends = (100.0, 105.0, 110.0, 115.0, 120.0)
    made = _runs("impala_shallow", *[{"kl": (1.0, end)} for end in ends])
    row = _row(tmp_path, made, **NATS)
    assert row.value == pytest.approx(110.0)
    assert (100.0 <= row.interval[0] < 110.0 < row.interval[1] <= 120.0, row.verdict) == (True, "reproduced")
    alone = _row(tmp_path, made[:1], **NATS)  # one seed: a value, no interval
    assert (alone.value, alone.interval, alone.verdict) == (pytest.approx(100.0), None, "undecided")
    no_claim = {name: value for name, value in NATS.items() if name != "claim"}
    assert _row(tmp_path, made, **no_claim).verdict == "not run"  # a bound in nats, not measured


def test_divergence_that_falls(tmp_path):
    falling = [{"kl": (4.0, 1.0 + 0.01 * i)} for i in range(-2, 3)]
    made = _runs("impala_shallow", *falling, games=GAMES[:2])
    made += _runs("impala_shallow", {"kl": (1.0, 1.0)}, {"kl": (1.0, 1.0)}, games=("asterix",))
    row = _row(tmp_path, made, task="atari5", **GROWTH)
    assert row.value == pytest.approx(0.25 ** (2 / 3))  # geometric mean over tasks
    assert row.shortfalls == ("2 of 5 runs", "3 of 5 tasks")
    assert _row(tmp_path, made, task="pong", **GROWTH).verdict == "reproduced"


def test_divergence_of_one_agent_over_that_of_others(tmp_path):
    made = _runs("impala_shallow", *[{"kl": (1.0, end)} for end in (400.0, 450.0, 500.0, 550.0, 600.0)])
    made += _runs("other", *[{"kl": (1.0, 5.0)}] * 5) + _runs("third", *[{"kl": (9.0, 0.5)}] * 5)
    ratio = GROWTH | {"claim": "divergence_distance_ratio"}
    assert _row(tmp_path, made, protocol=TO_OTHER, **ratio).value == pytest.approx(100.0)
    row = _row(tmp_path, made, protocol=TO_OTHER, **ORDERS)
    assert row.value == pytest.approx(2.0)
    assert np.log10(80) <= row.interval[0] < 2.0 < row.interval[1] <= np.log10(120)
    assert row.verdict == "undecided"
    both = {"against": ["other", "third"]}  # 2 orders of magnitude to one, 3 to the other
    assert _row(tmp_path, made, protocol=both, **ORDERS).value == pytest.approx(2.0)
    assert _row(tmp_path, made, protocol=both, **ORDERS | {"better": "less"}).value == pytest.approx(3.0)
    near = _row(tmp_path, made, protocol=TO_OTHER, **ORDERS, margin=["absolute", 0.1], margin_note="m")
    assert near.verdict == "reproduced"
    row = _row(tmp_path, made, protocol={"against": ["other", "fourth"]}, **ORDERS)
    assert (row.value, row.shortfalls) == (pytest.approx(2.0), ("without fourth",))
    assert _row(tmp_path, made, protocol={"against": ["fourth"]}, **ORDERS).verdict == "not run"


def test_tasks_won_and_their_share(tmp_path):
    made = _runs("impala_shallow", {"final": 10.0}, {"final": 12.0}, games=GAMES)
    made += _runs("other", {"final": 1.0}, {"final": 2.0}, games=GAMES)
    made += _runs("third", {"final": 3.0}, {"final": 4.0}, games=GAMES[:3])
    made += _runs("third", {"final": 500.0}, {"final": 501.0}, games=GAMES[3:])
    both = {"against": ["other", "third"]}
    row = _row(tmp_path, made, task="atari5", protocol=both, **SHARE)
    assert (row.value, row.interval, row.verdict) == (0.6, None, "undecided")
    row = _row(tmp_path, made, task="atari5", protocol=both, **WON)
    assert (row.value, row.shortfalls) == (3.0, ("2 of 5 runs",))
    row = _row(tmp_path, made[:-4], task="atari5", protocol=both, **WON)
    assert (row.value, row.shortfalls) == (3.0, ("2 of 5 runs", "3 of 5 tasks"))


def test_tasks_won_of_all_agents_need_runs_of_all(tmp_path):
    made = _runs("impala_shallow", {"final": 10.0}, {"final": 12.0}) + _runs("other", {"final": 1.0}, {"final": 2.0})
    row = _row(tmp_path, made, protocol={"against": ["other", "third"]}, **WON)
    assert (row.value, row.note) == (None, "needs 2 runs of third on pong")


def test_places_may_be_shared_between_resamples(tmp_path):
    made = _runs("impala_shallow", *[{"final": 5.0 + i} for i in range(5)])
    made += _runs("other", *[{"final": 80.0 + i} for i in range(5)])
    made += _runs("third", *[{"final": 70.0 + i} for i in range(5)])
    made += _runs("fourth", *[{"final": final} for final in (-500.0, -400.0, 50.0, 500.0, 600.0)])
    others = {"against": ["other", "third", "fourth"]}
    row = _row(tmp_path, made, protocol=others, **PLACE)
    assert (row.value, row.interval, row.verdict) == (4.0, (3.0, 4.0), "undecided")
    near = PLACE | {"margin": ["absolute", 1]}
    assert _row(tmp_path, made, protocol=others, **near).verdict == "reproduced"
    row = _row(tmp_path, made, protocol={"against": ["other", "fourth"]}, **PLACE)
    assert (row.value, row.interval) == (3.0, (2.0, 3.0))
    assert row.verdict == "contradicts"
    row = _row(tmp_path, made, protocol=others | {"against": [*others["against"], "fifth"]}, **PLACE)
    assert (row.value, row.note) == (None, "needs 2 runs of fifth on pong")  # no place among fewer


def test_the_interval_of_a_rank_correlation_is_in_closed_form(tmp_path):
    falling = [{"delta": 0.1 * i, "final": 20.0 - 3.0 * i} for i in range(8)]
    row = _row(tmp_path, _runs("impala_shallow", *falling), protocol={"correlated_with": "delta"}, **CORRELATION)
    assert (row.value, row.verdict) == (-1.0, "reproduced")
    assert row.interval == pytest.approx(intervals.rank_correlation_interval(-1.0, 8))
    assert row.interval[0] == -1.0
    few = _row(tmp_path, _runs("impala_shallow", *falling[:3]), protocol={"correlated_with": "delta"}, **CORRELATION)
    assert (few.value, few.interval, few.verdict) == (-1.0, None, "undecided")
    assert _row(tmp_path, _runs("impala_shallow", *falling[:2]), protocol={"correlated_with": "delta"},
                **CORRELATION).verdict == "not run"  # fmt: skip


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
    made = _runs("impala_shallow", *_pairs(5, by=40)) + _runs("other", {})
    assert _row(tmp_path, made, protocol=TO_OTHER, **FRAMES).verdict == "not run"
    made = _runs("impala_shallow", *_pairs(5, by=40)) + _runs("other", *_pairs(5))
    assert _row(tmp_path, made, protocol=TO_OTHER, **FRAMES).verdict == "reproduced"
    for record in made[-4:]:
        record["curve"] = []
    assert _row(tmp_path, made, protocol=TO_OTHER, **FRAMES).verdict == "not run"


OF_SCORES = [
    ("improvement", {}, "15"),
    ("speed", {}, "10"),
    ("frames_ratio", {}, "10"),
    ("seconds_ratio", {}, "10"),
    ("tasks_won", {}, "15"),
    ("tasks_won_share", {}, "15"),
    ("place", {}, "15"),
    ("human_gap_mean_difference", {"normaliser": "atari57"}, "15"),
    ("human_normalised_mean_difference", {"normaliser": "atari57"}, "15"),
    ("human_normalised_median_difference", {"normaliser": "atari57"}, "15"),
]


@pytest.mark.parametrize(("claim", "fields", "level"), OF_SCORES)
def test_a_claim_about_scores_at_the_level_of_random_play_is_not_answered(tmp_path, claim, fields, level):
    """To be above it is to be above the interval of the random player's mean."""
    published.normaliser.cache_clear()
    (tmp_path / "normalisers").mkdir()
    (tmp_path / "normalisers" / "atari57.json").write_text(
        json.dumps({"tasks": {"pong": {"random": -20.0, "human": 14.0}}})
    )
    made = _runs("impala_shallow", {}, {}) + _runs("other", {}, {})
    claimed = {"claim": claim, "unit": "u", "value": 1} | fields

    def row(final):
        return _row(tmp_path, made, random=random_records(final=final), protocol=TO_OTHER, **claimed)

    assert row(-1000.0).value is not None
    high = row(60.0)
    assert (high.value, high.seeds, high.verdict) == (None, (), "not run")
    assert high.note.startswith(f"{level}" if level == "10" else "1")
    assert " on pong is not above a random player's 6" in high.note
    none = _row(tmp_path, made, random=(), protocol=TO_OTHER, **claimed)
    assert (none.value, none.verdict, none.note) == (None, "not run", "no record of a random player on pong")


@pytest.mark.parametrize("claim", [NATS, GROWTH, {"claim": "contraction_at_the_end", "unit": "u", "value": 0}])
def test_a_claim_about_no_score_needs_no_random_player(tmp_path, claim):
    made = _runs("impala_shallow", {}, {})
    for record in made:
        record["series"] = {"columns": ["kl", "contraction", "contraction_target"], "rows": [[1.0, 0.9, 0.9]]}
    assert _row(tmp_path, made, random=(), **claim).value is not None


def test_a_rank_correlation_is_of_scores_above_random_play(tmp_path):
    made = _runs("impala_shallow", *[{"delta": 0.1 * i, "final": 20.0 - 3.0 * i} for i in range(5)])
    correlated = {"protocol": {"correlated_with": "delta"}} | CORRELATION
    assert _row(tmp_path, made, random=random_records(final=-1000.0), **correlated).value == -1.0
    assert _row(tmp_path, made, random=random_records(final=10.0), **correlated).value == -1.0  # the best is above it
    assert _row(tmp_path, made, random=random_records(final=60.0), **correlated).value is None


def test_tasks_at_the_level_of_random_play_are_left_out_and_named(tmp_path):
    made = _runs("impala_shallow", {}, {}, games=GAMES) + _runs("other", {}, {}, games=GAMES)
    improved = {"claim": "improvement", "unit": "u", "value": 0.5, "better": "above"}
    high = random_records(GAMES[:1], final=60.0) + random_records(GAMES[1:])
    row = _row(tmp_path, made, random=high, task="atari5", protocol=TO_OTHER, **improved)
    assert row.shortfalls == ("2 of 5 runs", "4 of 5 tasks")
    assert "on pong is not above a random player's" in row.note
    assert "alien" not in row.note


def test_a_random_player_of_another_game_is_none(tmp_path):
    """One with sticky actions, say, though the task has the same name."""
    (sticky,) = random_records()
    config = sticky["config"] | {"env": sticky["config"]["env"] | {"sticky_probability": 0.25}}
    sticky |= {"config": config, "config_sha256": records.config_sha256(config)}
    references = group_records([records.StoredRecord(records.record_path("r", "p", "e", "t", "a", 0), sticky)])
    assert [group.records for group in references.values()] == [()]  # stale, too
    levels = random_player.levels([sticky])
    made = _runs("impala_shallow", {}, {})
    assert [levels.get(random_player.game_of(record)) for record in made] == [None, None]


def _printed(claim, **protocol):
    return published.PublishedRow(
        paper="impala", table="1", task="pong", column="c", value=0.5, unit="u", n_seeds=None, confidence="c",
        source="s", protocol=protocol, statistic=None, normaliser=None, experiment="atari_shallow",
        agent="impala_shallow", statement="S.", claim=claim,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("uppers", "reason"),
    [
        ((-990.0, -990.0), None),
        ((-990.0, None), "no record of a random player on pong"),
        ((-990.0, 60.0), "is not above a random player's 60"),
        ((60.0, -990.0), "is not above a random player's 60"),
    ],
)
def test_the_random_player_of_every_agent_s_game_counts(uppers, reason):
    of_agent = dict(zip(("impala_shallow", "other"), uppers))

    def random(record):
        upper = of_agent[record["agent"]]
        return None if upper is None else random_player.Level(-1000.0, upper)

    by_key = {("impala", "atari_shallow", "pong", name): _runs(name, {}, {}) for name in of_agent}
    references = References(random, lambda record: {})
    found = claims.answer(_printed("improvement", against=["other"]), by_key, np.random.default_rng(0), references)
    assert found.value is not None if reason is None else reason in found


@pytest.mark.parametrize(
    ("ours", "theirs", "reason"),
    [
        ({}, {}, None),
        ({"a": (1, 2)}, {}, None),  # ours may have settings of its own, which the row counts
        ({"a": (1, 2)}, {"a": (1, 2)}, None),  # both alike
        ({}, {"a": (1, 2)}, "a 1 for 2"),
        ({"a": (1, 2)}, {"a": (3, 2)}, "a 3 for 2"),
        ({"b": (1, 2)}, {"c": (5, 6), "b": (1, 2), "a": (3, 4)}, "a 3 for 4, c 5 for 6"),
    ],
)
def test_an_opponent_with_settings_neither_the_paper_s_nor_ours_answers_nothing(ours, theirs, reason):
    """It proves nothing by losing."""
    differences = {"impala_shallow": ours, "other": theirs}
    references = References(
        lambda record: random_player.Level(-1000.0, -990.0), lambda record: differences[record["agent"]]
    )
    by_key = {("impala", "atari_shallow", "pong", name): _runs(name, {}, {}) for name in differences}
    found = claims.answer(_printed("improvement", against=["other"]), by_key, np.random.default_rng(0), references)
    if reason is None:
        assert found.value is not None
    else:
        assert found == f"other at scale paper is not the paper's: {reason}"


def test_settings_that_both_agents_change_alike_are_counted(tmp_path):
    changed = {"name": "batch", "value": 64, "field": "learner.batch_size"}
    made = _runs("impala_shallow", *[{"by": 20}] * 5) + _runs("other", *[{"by": 80}] * 5)
    made += _runs("impala_deep", *[{"by": 80}] * 5, experiment="atari_deep")
    row = _row(tmp_path, made, settings=[changed], protocol=TO_OTHER, **SPEED)
    assert (row.verdict, row.shortfalls) == ("agrees", ("1 setting differs",))
    assert row.settings == ("learner.batch_size 32 for 64",)
    deep = changed | {"experiments": ["atari_deep"]}
    row = _row(tmp_path, made, settings=[deep], protocol={"against": ["atari_deep/impala_deep"]}, **SPEED)
    assert (row.verdict, row.seeds, row.shortfalls) == ("not run", (), ())
    assert row.note == "impala_deep at scale paper is not the paper's: learner.batch_size 32 for 64"
    both = row.note, {"against": ["other", "atari_deep/impala_deep"]}
    row = _row(tmp_path, made, settings=[deep], protocol=both[1], **SPEED)
    assert (row.verdict, row.shortfalls, row.note) == ("agrees", ("without atari_deep/impala_deep",), both[0])


def test_returns_keep_a_row_of_their_own_beside_the_claim(tmp_path):
    made = _runs("impala_shallow", {}, {})
    found = _table(tmp_path, made, random=(), **GROWTH)
    assert [(row.table, row.unit) for row in found] == [("Figure 1", "ratio of divergences"), (None, "game score")]


def test_stale_records_answer_nothing_and_are_named(tmp_path):
    config = make_record()["config"] | {"num_env_frames": 12_000_000}
    made = [make_record(1, config=config, config_sha256=records.config_sha256(config))]
    claim, own = _table(tmp_path, made, random=(), **GROWTH)
    assert (claim.verdict, claim.seeds) == ("not run", ())
    assert "seed 1 is stale" in own.note


def test_the_interval_is_that_of_a_mean_where_a_claim_is_one():
    """Interval of one agent's mean, against the interval of the statistics module, which samples otherwise."""
    scores = [3.0, 5.0, 4.0, 9.0, 1.0, 2.0]
    claim = claims.Claim(
        lambda by_agent: lambda weights: weights[0] @ np.array(by_agent[0]), lambda numbers: numbers.mean(axis=0)
    )
    found = claims.bootstrap_interval(claim, [[scores]], np.random.default_rng(1))
    alone = statistics.stratified_interval({"task": scores}, statistics.mean, np.random.default_rng(2))
    assert found == pytest.approx(alone, abs=0.15)
    two = claims.bootstrap_interval(claim, [[scores], [scores]], np.random.default_rng(1))
    assert two[1] - two[0] < 0.8 * (found[1] - found[0])  # a mean over two tasks varies less
    assert claims.bootstrap_interval(claim, [[scores], [scores[:3]]], np.random.default_rng(1)) is None
    assert claims.bootstrap_interval(claim, [[scores[:1] * 6]], np.random.default_rng(1)) is None


def test_even_odds_are_not_surpassed_by_rounding(tmp_path):
    same = [{"by": by} for by in (20, 40, 60)]
    made = [r for game in GAMES for name in ("impala_shallow", "other") for r in _runs(name, *same, games=(game,))]
    row = _row(tmp_path, made, task="atari5", protocol=TO_OTHER, **SPEED)
    assert row.value == 0.5
    won = _runs("impala_shallow", *[{"by": 20}] * 3, games=GAMES) + _runs("other", *[{}] * 3, games=GAMES)
    assert _row(tmp_path, won, task="atari5", protocol=TO_OTHER, **SPEED).interval[1] == 1.0


def test_answers_depend_on_the_generator_only():
    names = {"impala_shallow", "other"}
    runs = [{"by": 50}, {"by": 60}, {"by": 20}, {"by": 30}]
    made = {("impala", "atari_shallow", "pong", name): _runs(name, *runs) for name in names}
    row = _printed("frames_ratio", against=["other"])
    references = References(lambda record: random_player.Level(-1000.0, -990.0), lambda record: {})
    first, second, third = (claims.answer(row, made, np.random.default_rng(i), references) for i in (3, 3, 4))
    assert first == second
    assert first.interval is not None
    assert (third.value, third.runs) == (first.value, first.runs)


@pytest.mark.parametrize("claim", [None, "better", "rank_correlation", "human_gap_mean_difference"])
def test_a_claim_that_is_none_or_lacks_a_field_is_refused(claim):
    references = References(lambda record: random_player.Level(-1000.0, -990.0), lambda record: {})
    with pytest.raises(published.PublishedError, match=f"no such claim, '{claim}'"):
        claims.answer(_printed(claim), {}, np.random.default_rng(0), references)


def test_the_printed_claims_that_are_answered():
    """Each finds what it needs; how many there are in each table."""
    found = {paper: [row for row in published.load(paper).rows if row.claim] for paper in ("acer", "refer")}
    for paper in published.papers():
        for row in published.load(paper).rows:
            if row.claim:
                assert claims.find_claim(row)
    counts = {
        paper: {table: sum(row.table == table for row in of) for table in dict.fromkeys(row.table for row in of)}
        for paper, of in found.items()
    }
    assert counts == {
        "acer": {"Section 1": 2, "Figure 1": 10, "Figure 2": 7, "Appendix E.3": 2, "Figure 3": 4, "Figure 4": 4},
        "refer": {
            "Figure 1": 10,
            "Figure 2": 4,
            "Figure 3": 4,
            "Figure 4": 9,
            "Figure 5": 4,
            "Figure 6": 3,
            "Figure 7": 4,
            "Figure 8": 3,
        },
    }
