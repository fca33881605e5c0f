"""References of claims: random players, and settings that are not the paper's."""

import json

import numpy as np
import pytest

from repro.evidence import claims, published, random_player, records, run_measures
from repro.evidence.references import References
from tests.evidence.claim_rows import (
    CORRELATION,
    GAMES,
    GROWTH,
    NATS,
    SPEED,
    TO_OTHER,
    make_row,
    make_runs,
    printed_claim,
)
from tests.evidence.synthetic_records import make_groups, random_records

OF_SCORES = [
    ("improvement", {}),
    ("score_difference", {}),
    ("speed", {}),
    ("frames_ratio", {}),
    ("frames_ratio_to_common_level", {}),
    ("seconds_ratio_to_common_level", {}),
    ("tasks_won", {}),
    ("tasks_won_share", {}),
    ("place", {}),
    ("human_capped_mean_difference", {"normaliser": "atari57"}),
    ("human_capped_mean_ratio", {"normaliser": "atari57"}),
    ("human_normalised_mean_ratio", {"normaliser": "atari57"}),
    ("human_normalised_median_ratio", {"normaliser": "atari57"}),
    ("human_normalised_median_difference", {"normaliser": "atari57"}),
]


@pytest.mark.parametrize(("claim", "fields"), OF_SCORES)
def test_a_claim_about_scores_at_the_level_of_random_play_is_not_answered(tmp_path, claim, fields):
    """To be above it is to be above the interval of the random player's mean."""
    published.normaliser.cache_clear()
    (tmp_path / "normalisers").mkdir()
    (tmp_path / "normalisers" / "atari57.json").write_text(
        json.dumps({"tasks": {"pong": {"random": -20.0, "human": 14.0}}})
    )
    made = make_runs("impala_shallow", {}, {}) + make_runs("other", {}, {})
    claimed = {"claim": claim, "unit": "u", "value": 1} | fields

    def row(final):
        return make_row(tmp_path, made, random=random_records(final=final), protocol=TO_OTHER, **claimed)

    assert row(-1000.0).value is not None
    high = row(60.0)
    assert (high.value, high.seeds, high.verdict) == (None, (), "not run")
    assert high.note.startswith("1")
    assert " on pong is not above a random player's 6" in high.note
    none = make_row(tmp_path, made, random=(), protocol=TO_OTHER, **claimed)
    assert (none.value, none.verdict, none.note) == (None, "not run", "no record of a random player on pong")


UNTRAINED = [
    ("improvement", 10.0, 30.0, True),
    ("improvement", -80.0, -70.0, False),  # a best mean of final evaluations of -70, untrained policies' best -65
    ("improvement", -80.0, -60.0, True),  # one agent that learned is enough
    ("speed", 30.0, 10.0, True),
    ("speed", 30.0, -66.0, False),  # the lower of two levels
    ("frames_ratio", 30.0, -66.0, False),
    ("frames_ratio", -66.0, 30.0, True),  # ours never reaches theirs
    ("frames_ratio_to_common_level", -66.0, 30.0, False),
]


@pytest.mark.parametrize(("claim", "ours", "theirs", "answered"), UNTRAINED)
def test_scores_of_policies_that_never_learned_are_not_compared(tmp_path, claim, ours, theirs, answered):
    """An untrained policy at -70 to -65 here is far above the random player at -184, and so is one that stays there."""
    made = make_runs("impala_shallow", {"final": ours}, {"final": ours})
    made += make_runs("other", {"final": theirs}, {"final": theirs})
    for record, end in zip(made, (ours, ours, theirs, theirs)):
        start = -65.0 if record["seed"] == 1 else -70.0
        best = max(end, -66.0)
        record["curve"] = [[1000 * i, start + (best - start) * i / 100] for i in range(101)]
    fields = {"claim": claim, "unit": "u", "value": 1, "protocol": TO_OTHER}
    row = make_row(tmp_path, made, random=random_records(final=-184.0), **fields)
    assert (row.value is not None) == answered
    assert answered or "on pong is not above the -65 that an untrained policy may score" in row.note


def test_a_curve_that_begins_late_tells_nothing_of_untrained_policies():
    def at(*frames):
        return {"curve": [[count, 7.0 + count] for count in frames], "config": {"env": {}}}

    assert run_measures.untrained_score(at(0, 50)) == 7.0
    assert run_measures.untrained_score(at(5, 50)) == 12.0
    assert run_measures.untrained_score(at(6, 50)) is None
    assert run_measures.untrained_score(at(50)) is None
    assert run_measures.untrained_score({"curve": []}) is None


@pytest.mark.parametrize(
    "claim",
    [
        NATS,
        GROWTH,
        {"claim": "contraction_at_the_end", "unit": "u", "value": 0},
        {"claim": "logged_at_the_end", "unit": "u", "value": 0, "protocol": {"columns": ["kl", "contraction"]}},
    ],
)
def test_a_claim_about_no_score_needs_no_random_player(tmp_path, claim):
    made = make_runs("impala_shallow", {}, {})
    for record in made:
        record["series"] = {"columns": ["kl", "contraction", "contraction_target"], "rows": [[1.0, 0.9, 0.9]]}
    assert make_row(tmp_path, made, random=(), **claim).value is not None


def test_a_rank_correlation_is_of_scores_above_random_play(tmp_path):
    made = make_runs("impala_shallow", *[{"delta": 0.1 * i, "final": 20.0 - 3.0 * i} for i in range(5)])
    correlated = {"protocol": {"correlated_with": "delta"}} | CORRELATION
    assert make_row(tmp_path, made, random=random_records(final=-1000.0), **correlated).value == -1.0
    assert (
        make_row(tmp_path, made, random=random_records(final=10.0), **correlated).value == -1.0
    )  # the best is above it
    assert make_row(tmp_path, made, random=random_records(final=60.0), **correlated).value is None


def test_tasks_at_the_level_of_random_play_are_left_out_and_named(tmp_path):
    made = make_runs("impala_shallow", {}, {}, games=GAMES) + make_runs("other", {}, {}, games=GAMES)
    improved = {"claim": "improvement", "unit": "u", "value": 0.5, "better": "above"}
    high = random_records(GAMES[:1], final=60.0) + random_records(GAMES[1:])
    row = make_row(tmp_path, made, random=high, task="atari5", protocol=TO_OTHER, **improved)
    assert row.shortfalls == ("2 of 5 runs", "4 of 5 tasks")
    assert "on pong is not above a random player's" in row.note
    assert "alien" not in row.note


def test_a_random_player_of_another_game_is_none(tmp_path):
    """One with sticky actions, say, though the task has the same name."""
    (sticky,) = random_records()
    config = sticky["config"] | {"env": sticky["config"]["env"] | {"sticky_probability": 0.25}}
    sticky |= {"config": config, "config_sha256": records.config_sha256(config)}
    references = make_groups([sticky])
    assert [group.records for group in references.values()] == [()]  # stale, too
    levels = random_player.levels([sticky])
    made = make_runs("impala_shallow", {}, {})
    assert [levels.get(random_player.game_of(record)) for record in made] == [None, None]


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

    by_key = {("impala", "atari_shallow", "pong", name): make_runs(name, {}, {}) for name in of_agent}
    references = References(random, lambda record: {})
    found = claims.answer(printed_claim("improvement", against=["other"]), by_key, np.random.default_rng(0), references)
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
    by_key = {("impala", "atari_shallow", "pong", name): make_runs(name, {}, {}) for name in differences}
    found = claims.answer(printed_claim("improvement", against=["other"]), by_key, np.random.default_rng(0), references)
    if reason is None:
        assert found.value is not None
    else:
        assert found == f"the settings of other at scale paper are not the paper's: {reason}"


def test_settings_that_both_agents_change_alike_are_counted(tmp_path):
    changed = {"name": "batch", "value": 64, "field": "learner.batch_size"}
    made = make_runs("impala_shallow", *[{"by": 20}] * 5) + make_runs("other", *[{"by": 80}] * 5)
    made += make_runs("impala_deep", *[{"by": 80}] * 5, experiment="atari_deep")
    row = make_row(tmp_path, made, settings=[changed], protocol=TO_OTHER, **SPEED)
    assert (row.verdict, row.shortfalls) == ("agrees", ("1 setting differs",))
    assert row.settings == ("learner.batch_size 32 for 64",)
    deep = changed | {"experiments": ["atari_deep"]}
    row = make_row(tmp_path, made, settings=[deep], protocol={"against": ["atari_deep/impala_deep"]}, **SPEED)
    assert (row.verdict, row.seeds, row.shortfalls) == ("not run", (), ())
    assert row.note == "the settings of impala_deep at scale paper are not the paper's: learner.batch_size 32 for 64"
    both = row.note, {"against": ["other", "atari_deep/impala_deep"]}
    row = make_row(tmp_path, made, settings=[deep], protocol=both[1], **SPEED)
    assert (row.verdict, row.shortfalls, row.note) == ("agrees", ("without atari_deep/impala_deep",), both[0])
