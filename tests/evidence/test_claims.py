"""Claims about curves, logs and places: which rows are answered, by which records, with which interval and verdict."""

import dataclasses
import itertools
import shutil

import numpy as np
import pytest

from repro.evidence import claim_kinds, claims, comparisons, intervals, published, random_player, records
from repro.evidence.references import References
from tests.evidence.claim_rows import (
    CORRELATION,
    FRAMES,
    GAMES,
    GROWTH,
    NATS,
    ORDERS,
    RANDOM,
    SHARE,
    SPEED,
    TIME,
    TO_OTHER,
    WON,
    answered_rows,
    make_pairs,
    make_row,
    make_runs,
    make_table,
    printed_claim,
)
from tests.evidence.synthetic_records import make_record, random_records


def test_speed_compares_frames_not_final_returns(tmp_path):
    made = make_runs("impala_shallow", *make_pairs(5, by=20, final=1.0)) + make_runs(
        "other", *make_pairs(5, by=80, final=18.0)
    )
    row = make_row(tmp_path, made, protocol=TO_OTHER, **SPEED)
    assert (row.value, row.interval) == (1.0, pytest.approx(intervals.improvement_interval(1.0, 5, 5)))
    assert (row.interval_over, row.verdict, row.shortfalls) == ("seeds", "reproduced", ())
    assert (row.seeds, row.scale, row.episodes, row.budget) == ((1, 2, 3, 4, 5), "paper", 5, made[0]["num_env_frames"])
    ends_higher = SPEED | {"claim": "improvement"}
    assert make_row(tmp_path, made, protocol=TO_OTHER, **ends_higher).value == 0.0  # a claim about final evaluations


def test_no_finding_below_five_runs_of_each_agent(tmp_path):
    for ours, theirs in ((4, 4), (4, 5), (5, 4)):
        made = make_runs("impala_shallow", *make_pairs(ours, by=20)) + make_runs("other", *make_pairs(theirs, by=80))
        row = make_row(tmp_path, made, protocol=TO_OTHER, **SPEED)
        assert row.interval[0] > 0.5
        assert (row.finding, row.shortfalls) == ("undecided", ("4 of 5 runs",))
        assert (
            make_row(tmp_path, made, protocol=TO_OTHER, **SPEED, n_seeds=4).finding == "agrees"
        )  # as many as the paper
        few = make_row(tmp_path, made, protocol=TO_OTHER, **SPEED, n_seeds=30)
        assert (few.finding, few.shortfalls) == ("undecided", ("4 of 30 runs",))
    made = make_runs("impala_shallow", *make_pairs(5, by=20)) + make_runs("other", *make_pairs(5, by=80))
    few = make_row(tmp_path, made, protocol=TO_OTHER, **SPEED, n_seeds=30)
    assert (few.finding, few.verdict, few.shortfalls) == ("agrees", "agrees", ("5 of 30 runs",))


@pytest.mark.parametrize(
    ("scale", "protocol", "verdict"),
    [
        ("desk", {}, "disagrees"),
        ("desk", {"reached_by_training": True}, "undecided"),
        ("paper", {"reached_by_training": True}, "contradicts"),
    ],
)
def test_less_training_does_not_contradict_what_training_comes_to(tmp_path, scale, protocol, verdict):
    made = make_runs("impala_shallow", *[{"kl": (1.0, 100.0 + i)} for i in range(5)], scale=scale)
    made += make_runs("other", *[{"kl": (1.0, 1.0 + 0.1 * i)} for i in range(5)], scale=scale)
    similar = {"value": 0, "better": "equal", "margin": ["absolute", 0.5], "margin_note": "m"}
    row = make_row(tmp_path, made, protocol=TO_OTHER | protocol, **(ORDERS | similar))
    assert row.interval[0] > 0.5
    assert row.verdict == verdict


def test_less_than_the_paper_s_scale_is_said(tmp_path):
    made = make_runs("impala_shallow", *make_pairs(5, by=20), scale="desk") + make_runs(
        "other", *make_pairs(5, by=80), scale="desk"
    )
    row = make_row(tmp_path, made, protocol=TO_OTHER, **SPEED)
    assert (row.value, row.verdict, row.shortfalls) == (1.0, "agrees", ("scale desk", "3 settings differ"))


def test_speed_over_several_tasks_is_their_mean(tmp_path):
    made = make_runs("impala_shallow", *make_pairs(5, by=20), games=GAMES) + make_runs("other", *make_pairs(5, by=80))
    made += make_runs("other", *make_pairs(5, by=5), games=GAMES[1:])
    row = make_row(tmp_path, made, task="atari5", protocol=TO_OTHER, **SPEED)
    (low, _), (_, high) = intervals.improvement_interval(1.0, 5, 5), intervals.improvement_interval(0.0, 5, 5)
    reach = intervals.reach_at_even_odds(5, 5)  # where that is wider
    ends = [(min(low, 1 - reach), 1 + reach), *[(-reach, max(high, reach))] * 4]
    assert row.interval == pytest.approx(intervals.average([1, 0, 0, 0, 0], ends))
    assert (row.value, row.note, row.verdict) == (0.2, "", "contradicts")
    assert row.command == (
        f"make reproduce-impala EXPERIMENT=atari_shallow TASK={','.join(sorted(GAMES))} SCALE=paper SEEDS=5"
    )


def test_a_task_with_too_few_runs_is_left_out_where_another_has_enough(tmp_path):
    """Whatever they score: here they would lose."""
    made = make_runs("impala_shallow", *make_pairs(5, by=20), games=GAMES[:2])
    made += make_runs("other", *make_pairs(5, by=80), games=GAMES[:2])
    decided = make_row(tmp_path, made, task="atari5", protocol=TO_OTHER, **SPEED)
    further = make_runs("impala_shallow", *make_pairs(4, by=80), games=GAMES[2:3])
    further += make_runs("other", *make_pairs(5, by=20), games=GAMES[2:3])
    row = make_row(tmp_path, made + further, task="atari5", protocol=TO_OTHER, **SPEED)
    assert (row.value, row.interval, row.finding) == (decided.value, decided.interval, "agrees")
    assert (row.shortfalls, row.note) == (("2 of 5 tasks",), f"without {GAMES[2]}, which has 4 of 5 runs")
    of_four = make_row(tmp_path, made + further, task="atari5", protocol=TO_OTHER, **SPEED, n_seeds=4)
    assert (of_four.value, of_four.shortfalls, of_four.note) == (pytest.approx(2 / 3), ("3 of 5 tasks",), "")
    few = make_row(tmp_path, further, task="atari5", protocol=TO_OTHER, **SPEED)
    assert (few.value, few.finding, few.note) == (0.0, "undecided", "")
    single = make_runs("impala_shallow", *make_pairs(1, by=80), games=GAMES[3:4])
    single += make_runs("other", *make_pairs(5, by=20), games=GAMES[3:4])
    row = make_row(tmp_path, made + further + single, task="atari5", protocol=TO_OTHER, **SPEED)
    left_out = {f"without {GAMES[2]}, which has 4 of 5 runs", f"without {GAMES[3]}, which has 1 of 5 runs"}
    assert {*row.note.split("; ")} == left_out


def test_a_task_with_a_single_run_of_an_agent_is_left_out_and_named(tmp_path):
    made = make_runs("impala_shallow", *make_pairs(3, by=20), games=GAMES[:1])
    made += make_runs("other", *make_pairs(3, by=80), games=GAMES[:1])
    single = make_runs("impala_shallow", *make_pairs(3, by=80), games=GAMES[1:2])
    single += make_runs("other", *make_pairs(1, by=20), games=GAMES[1:2])
    row = make_row(tmp_path, made + single, task="atari5", protocol=TO_OTHER, **SPEED)
    assert (row.value, row.shortfalls[-1], row.note) == (
        1.0,
        "1 of 5 tasks",
        f"without {GAMES[1]}, which has 1 of 2 runs",
    )
    assert make_row(tmp_path, single, task="atari5", protocol=TO_OTHER, **SPEED).verdict == "not run"


def test_fewer_tasks_of_the_set_are_counted(tmp_path):
    made = make_runs("impala_shallow", *make_pairs(5, by=20), games=GAMES) + make_runs(
        "other", *make_pairs(5), games=GAMES[:2]
    )
    row = make_row(tmp_path, made, task="atari5", protocol=TO_OTHER, **SPEED)
    assert (row.value, row.verdict, row.shortfalls, row.note) == (1.0, "agrees", ("2 of 5 tasks",), "")


def test_frames_and_seconds_to_the_same_level(tmp_path):
    made = make_runs("impala_shallow", *make_pairs(5, by=40, pace=2.0)) + make_runs("other", *make_pairs(5, by=80))
    row = make_row(tmp_path, made, protocol=TO_OTHER, **FRAMES)
    assert row.value == pytest.approx(0.5, abs=0.03)
    assert (row.interval[0] <= row.value <= row.interval[1], row.verdict) == (True, "reproduced")
    row = make_row(tmp_path, made, protocol=TO_OTHER, **TIME)
    assert row.value == pytest.approx(1.0, abs=0.05)
    assert row.verdict == "reproduced"
    unlike = [*made[:-1], made[-1] | {"hardware": {"cpu": "Other CPU", "cores": 1, "gpu": None}}]
    row = make_row(tmp_path, unlike, protocol=TO_OTHER, **TIME)
    machines = "Example CPU with 2 cores, Other CPU with 1 core"
    assert (row.value, row.note) == (None, f"times are of different machines: {machines}")
    assert make_row(tmp_path, unlike, protocol=TO_OTHER, **FRAMES).verdict == "reproduced"
    for record in made:
        record["series"] = {"columns": ["num_env_frames", "kl"], "rows": [[1, 1.0]]}
    assert make_row(tmp_path, made, protocol=TO_OTHER, **TIME).verdict == "not run"
    assert make_row(tmp_path, made, protocol=TO_OTHER, **FRAMES).value == pytest.approx(0.5, abs=0.03)


def test_the_median_over_tasks_is_of_ratios(tmp_path):
    made = make_runs("other", {"by": 100}, {"by": 100}, games=GAMES)
    for game, by in zip(GAMES, (10, 20, 30, 40, 90)):
        made += make_runs("impala_shallow", {"by": by}, {"by": by}, games=(game,))
    assert make_row(tmp_path, made, task="atari5", protocol=TO_OTHER, **FRAMES).value == 0.3


def test_a_level_that_is_never_reached_fails_the_claim(tmp_path):
    ours = [{"to": 5.0 + 0.1 * i} for i in range(4)] + [{"to": 50.0}]  # whose mean is 14
    made = make_runs("impala_shallow", *ours) + make_runs("other", *[{"to": 20.0}] * 5)
    row = make_row(tmp_path, made, protocol=TO_OTHER, **FRAMES)
    assert (row.value, row.interval[1], row.verdict) == (1000.0, 1000.0, "undecided")  # some resamples reach it
    assert row.note == "1000 stands for a level that is not reached"
    row = make_row(tmp_path, made, task="atari5", protocol=TO_OTHER, **FRAMES)
    assert (row.value, row.shortfalls) == (1000.0, ("1 of 5 tasks",))
    assert row.note == "1000 stands for a level that is not reached"


def test_returns_that_diminish(tmp_path):
    made = []
    for agent, final in zip(("impala_shallow", "zero", "one", "four"), (9.0, 1.0, 5.0, 7.0)):
        made += make_runs(agent, *[{"final": final}] * 5)
    gains = {"claim": "gains_ratio", "unit": "ratio of gains", "value": 1, "better": "less"}
    row = make_row(tmp_path, made, protocol={"against": ["zero", "one", "four"]}, **gains)
    assert row.value == pytest.approx(0.5, abs=0.2)  # the synthetic evaluations spread around their mean
    assert (row.verdict, row.note) == ("reproduced", "")
    row = make_row(tmp_path, made, protocol={"against": ["one", "zero", "four"]}, **gains)
    assert (row.value, row.note) == (
        1000.0,
        "no interval, since all runs give the same number; 1000 stands for a first gain of 0 or less",
    )
    assert row.verdict == "undecided"  # all resamples are that number


def test_divergence_at_the_end_is_a_mean_over_seeds(tmp_path):
    ends = (100.0, 105.0, 110.0, 115.0, 120.0)
    made = make_runs("impala_shallow", *[{"kl": (1.0, end)} for end in ends])
    row = make_row(tmp_path, made, **NATS)
    assert row.value == pytest.approx(110.0)
    assert (100.0 <= row.interval[0] < 110.0 < row.interval[1] <= 120.0, row.verdict) == (True, "reproduced")
    alone = make_row(tmp_path, made[:1], **NATS)  # one seed: a value, no interval
    assert (alone.value, alone.interval, alone.verdict) == (pytest.approx(100.0), None, "undecided")
    no_claim = {name: value for name, value in NATS.items() if name != "claim"}
    assert make_row(tmp_path, made, **no_claim).verdict == "not run"  # a bound in nats, not measured


def test_divergence_that_falls(tmp_path):
    falling = [{"kl": (4.0, 1.0 + 0.01 * i)} for i in range(-2, 3)]
    made = make_runs("impala_shallow", *falling, games=GAMES[:2])
    made += make_runs("impala_shallow", *[{"kl": (1.0, 1.0)}] * 5, games=("asterix",))
    row = make_row(tmp_path, made, task="atari5", **GROWTH)
    assert row.value == pytest.approx(0.25 ** (2 / 3))  # geometric mean over tasks
    assert row.shortfalls == ("3 of 5 tasks",)
    assert make_row(tmp_path, made, task="pong", **GROWTH).verdict == "reproduced"


def test_divergence_over_the_largest_of_each_task(tmp_path):
    """The median over tasks of 0.1, 0.2 and 0.6, of the last tenth of training."""
    share = GROWTH | {"claim": "divergence_share", "unit": "share of the largest divergence", "better": "above"}
    protocol = {"largest": [["pong", 100.0], ["breakout", 50.0], ["asterix", 20.0]]}
    made = []
    for end, game in ((10.0, "pong"), (10.0, "breakout"), (12.0, "asterix")):
        made += make_runs("impala_shallow", *[{"kl": (90.0, end + i / 100)} for i in range(-2, 3)], games=(game,))
    row = make_row(tmp_path, made, task="atari5", protocol=protocol, **share | {"value": 0.1})
    assert row.value == pytest.approx(0.2)
    assert row.shortfalls == ("3 of 5 tasks",)
    with pytest.raises(published.PublishedError, match="unknown claim, 'divergence_share'"):
        make_row(tmp_path, made, protocol={}, **share)


def test_divergence_of_one_agent_over_that_of_others(tmp_path):
    made = make_runs("impala_shallow", *[{"kl": (1.0, end)} for end in (400.0, 450.0, 500.0, 550.0, 600.0)])
    made += make_runs("other", *[{"kl": (1.0, 5.0)}] * 5) + make_runs("third", *[{"kl": (9.0, 0.5)}] * 5)
    ratio = GROWTH | {"claim": "divergence_distance_ratio"}
    assert make_row(tmp_path, made, protocol=TO_OTHER, **ratio).value == pytest.approx(100.0)
    row = make_row(tmp_path, made, protocol=TO_OTHER, **ORDERS)
    assert row.value == pytest.approx(2.0)
    assert np.log10(80) <= row.interval[0] < 2.0 < row.interval[1] <= np.log10(120)
    assert row.verdict == "undecided"
    both = {"against": ["other", "third"]}  # 2 orders of magnitude to one, 3 to the other
    assert make_row(tmp_path, made, protocol=both, **ORDERS).value == pytest.approx(2.0)
    assert make_row(tmp_path, made, protocol=both, **ORDERS | {"better": "less"}).value == pytest.approx(3.0)
    near = make_row(tmp_path, made, protocol=TO_OTHER, **ORDERS, margin=["absolute", 0.1], margin_note="m")
    assert near.verdict == "reproduced"
    row = make_row(tmp_path, made, protocol={"against": ["other", "fourth"]}, **ORDERS)
    assert (row.value, row.shortfalls) == (pytest.approx(2.0), ("without fourth",))
    assert make_row(tmp_path, made, protocol={"against": ["fourth"]}, **ORDERS).verdict == "not run"


def test_tasks_won_and_their_share(tmp_path):
    made = make_runs("impala_shallow", {"final": 10.0}, {"final": 12.0}, games=GAMES)
    made += make_runs("other", {"final": 1.0}, {"final": 2.0}, games=GAMES)
    made += make_runs("third", {"final": 3.0}, {"final": 4.0}, games=GAMES[:3])
    made += make_runs("third", {"final": 500.0}, {"final": 501.0}, games=GAMES[3:])
    both = {"against": ["other", "third"]}
    row = make_row(tmp_path, made, task="atari5", protocol=both, **SHARE)
    assert (row.value, row.interval, row.verdict) == (0.6, None, "undecided")
    row = make_row(tmp_path, made, task="atari5", protocol=both, **WON)
    assert (row.value, row.shortfalls) == (3.0, ("2 of 5 runs",))
    row = make_row(tmp_path, made, task="atari5", protocol=both, n_seeds=2, **WON)
    assert (row.shortfalls, row.note) == ((), "an interval needs 4 runs of each agent")
    row = make_row(tmp_path, made[:-4], task="atari5", protocol=both, **WON)
    assert (row.value, row.verdict) == (None, "not run")  # three of three are not three of five
    assert row.note == "3 of 5 tasks can be compared, and their number needs all"
    row = make_row(tmp_path, made[:-4], task="atari5", protocol=both, **SHARE)
    assert (row.value, row.shortfalls) == (1.0, ("2 of 5 runs", "3 of 5 tasks"))


def test_a_task_on_which_all_score_the_same_is_neither_won_nor_lost(tmp_path):
    runs = [{"final": 21.0, "spread": 0.0}] * 5
    made = make_runs("impala_shallow", *runs, games=GAMES) + make_runs("other", *runs, games=GAMES)
    for value in (0, 5):
        row = make_row(tmp_path, made, task="atari5", protocol=TO_OTHER, **WON | {"value": value, "better": "equal"},
                       margin=["absolute", 0.5], margin_note="m")  # fmt: skip
        assert (row.value, row.interval, row.finding) == (2.5, (0.0, 5.0), "undecided")


def test_tasks_that_are_surely_won_count_in_full_beside_open_ones(tmp_path):
    made = make_runs("impala_shallow", *[{"final": 10.0 + i} for i in range(6)], games=GAMES[:4])
    made += make_runs("other", *[{"final": 4.0 + 0.1 * i} for i in range(6)], games=GAMES[:4])
    for value, finding in ((0.8, "agrees"), (0.81, "undecided")):
        wanted = SHARE | {"value": value, "better": "more"}
        assert make_row(tmp_path, made, task="atari5", protocol=TO_OTHER, **wanted).finding == finding


@pytest.mark.parametrize(("value", "better", "finding"), [(0.3, "more", "undecided"), (0.9, "more", "contradicts")])
def test_a_share_of_tasks_holds_whatever_happens_on_the_others(tmp_path, value, better, finding):
    """One of two is won: of five, one to four may be."""
    made = make_runs("impala_shallow", *[{"final": 10.0 + i} for i in range(5)], games=GAMES[:2])
    made += make_runs("other", *[{"final": 4.0 + 0.1 * i} for i in range(5)], games=GAMES[:1])
    made += make_runs("other", *[{"final": 90.0 + i} for i in range(5)], games=GAMES[1:2])
    row = make_row(tmp_path, made, task="atari5", protocol=TO_OTHER, **SHARE | {"value": value, "better": better})
    assert (row.value, row.finding) == (0.5, finding)


def test_tasks_won_of_all_agents_need_runs_of_all(tmp_path):
    made = make_runs("impala_shallow", {"final": 10.0}, {"final": 12.0}) + make_runs(
        "other", {"final": 1.0}, {"final": 2.0}
    )
    row = make_row(tmp_path, made, protocol={"against": ["other", "third"]}, **WON)
    assert (row.value, row.note) == (None, "needs 2 runs of third on pong")


@pytest.mark.parametrize("hparams", [{}, {"learner.learning_rate": 1e-3}])
def test_a_claim_about_a_sweep_takes_runs_with_settings_of_their_own(tmp_path, hparams):
    made = make_runs("impala_shallow", {}, {}) + make_runs("other", {}, {})
    for record in made:
        record["sampled_hparams"] = hparams
    improved = {"claim": "improvement", "unit": "u", "value": 0.5, "better": "above"}
    row = make_row(tmp_path, made, protocol=TO_OTHER | {"sampled": True}, **improved)
    assert (row.value is not None) == bool(hparams)
    assert hparams or row.note == "needs 2 runs of impala_shallow, other on pong, with sampled_hparams"
    assert make_row(tmp_path, made, protocol=TO_OTHER, **improved).value is not None


def test_what_is_assumed_keeps_a_row_from_being_reproduced(tmp_path):
    made = make_runs("impala_shallow", *make_pairs(5, by=20)) + make_runs("other", *make_pairs(5, by=80))
    assert make_row(tmp_path, made, protocol=TO_OTHER, **SPEED).verdict == "reproduced"
    row = make_row(tmp_path, made, protocol=TO_OTHER, assumed="what is fast", **SPEED)
    assert (row.finding, row.verdict, row.shortfalls) == ("agrees", "agrees", ("assumed: what is fast",))
    slow = SPEED | {"better": "under"}
    assert make_row(tmp_path, made, protocol=TO_OTHER, **slow).verdict == "contradicts"
    assert make_row(tmp_path, made, protocol=TO_OTHER, assumed="what is fast", **slow).verdict == "disagrees"


def test_open_settings_of_an_experiment_may_differ(tmp_path):
    changed = {"name": "batch", "value": 64, "field": "learner.batch_size", "experiments": ["atari_deep"]}
    made = make_runs("impala_shallow", {}, {}) + make_runs("impala_deep", {}, {}, experiment="atari_deep")
    against = {"against": ["atari_deep/impala_deep"]}
    improved = {"claim": "improvement", "unit": "u", "value": 0.5, "better": "above", "settings": [changed]}
    assert make_row(tmp_path, made, protocol=against, **improved).value is None
    assert make_row(tmp_path, made, protocol=against | {"open_settings": ["learner.batch_size"]}, **improved).value


@pytest.mark.parametrize("scale", ["desk", "paper"])
def test_runs_of_different_scale_are_not_compared(tmp_path, scale):
    made = make_runs("impala_shallow", {}, {}, scale="desk") + make_runs("other", {}, {}, scale=scale)
    assert (make_row(tmp_path, made, protocol=TO_OTHER, **ORDERS).value is None) == (scale == "paper")


def test_an_agent_of_another_experiment_is_named_with_it(tmp_path):
    made = make_runs("impala_shallow", {"kl": (1.0, 10.0)}, {"kl": (1.0, 10.0)})
    made += make_runs("impala_deep", {}, {}, experiment="atari_deep")
    row = make_row(tmp_path, made, protocol={"against": ["atari_deep/impala_deep"]}, **ORDERS)
    assert row.value == pytest.approx(1.0)


def test_one_run_is_not_compared_and_a_record_without_curve_neither(tmp_path):
    made = make_runs("impala_shallow", *make_pairs(5, by=40)) + make_runs("other", {})
    assert make_row(tmp_path, made, protocol=TO_OTHER, **FRAMES).verdict == "not run"
    made = make_runs("impala_shallow", *make_pairs(5, by=40)) + make_runs("other", *make_pairs(5))
    assert make_row(tmp_path, made, protocol=TO_OTHER, **FRAMES).verdict == "reproduced"
    for record in made[-4:]:
        record["curve"] = []
    assert make_row(tmp_path, made, protocol=TO_OTHER, **FRAMES).verdict == "not run"


def test_returns_keep_a_row_of_their_own_beside_the_claim(tmp_path):
    made = make_runs("impala_shallow", {}, {})
    found = make_table(tmp_path, made, random=(), **GROWTH)
    assert [(row.table, row.unit) for row in found] == [("Figure 1", "ratio of divergences"), (None, "game score")]


@pytest.mark.parametrize(("scale", "end", "finding"), [
    ("paper", 0.995, "agrees"), ("paper", 0.99, "contradicts"), ("desk", 0.995, "agrees"), ("desk", 0.99, "undecided"),
])  # fmt: skip
def test_what_training_comes_to_is_not_contradicted_by_less_of_it(tmp_path, scale, end, finding):
    runs = [{"kl": (0.9, end + 1e-5 * seed)} for seed in range(5)]
    claim = {"claim": "logged_at_the_end", "unit": "u", "value": 0.995, "better": "equal"}
    claim |= {"margin": ["absolute", 0.0025], "margin_note": "m", "protocol": {"columns": ["kl"]}}
    row = make_row(tmp_path, make_runs("impala_shallow", *runs, scale=scale), **claim)
    assert row.value == pytest.approx(end + 2e-5)
    assert row.finding == finding


def test_a_logged_column_is_that_of_the_agent_whatever_it_is_compared_with(tmp_path):
    """Others are named only where their runs select the games."""
    made = make_runs("impala_shallow", *[{"kl": (0.9, 0.5 + 0.1 * seed)} for seed in range(3)])
    made += make_runs("other", *[{"kl": (0.1, 0.1)} for _ in range(3)])
    claim = {"claim": "logged_at_the_end", "unit": "u", "value": 0.6, "better": "equal"}
    claim |= {"margin": ["absolute", 0.1], "margin_note": "m", "protocol": {"columns": ["kl"], "against": ["other"]}}
    assert make_row(tmp_path, made, **claim).value == pytest.approx(0.6)


def test_the_comparison_furthest_from_a_tie_decides_where_two_should_be_equal(tmp_path):
    made = make_runs("impala_shallow", *[{"final": 10.0 * i} for i in range(5)])
    for name, shift in (("same", 5.0), ("better", 15.0), ("worse", -35.0)):
        made += make_runs(name, *[{"final": 10.0 * i + shift} for i in range(5)])
    equal = {"claim": "improvement", "unit": "u", "value": 0.5, "better": "equal", "margin": ["absolute", 0.25]}
    equal |= {"margin_note": "m"}
    against = {"against": ["same", "better", "worse"]}
    assert make_row(tmp_path, made, protocol=against, **equal).value == 24 / 25
    assert make_row(tmp_path, made, protocol={"against": ["same", "better"]}, **equal).value == 6 / 25


def test_losses_of_a_change_are_compared_between_agents(tmp_path):
    """10 % against half, of what is above random play."""
    made = []
    for name, final in (("impala_shallow", 190.0), ("ours", 200.0), ("other_low", 130.0), ("other", 160.0)):
        made += make_runs(name, *[{"final": final + 0.01 * i} for i in range(5)])
    claim = {"claim": "difference_of_losses", "unit": "percent", "value": 0, "better": "under"}
    claim |= {"protocol": {"against": ["ours", "other_low", "other"]}}
    row = make_row(tmp_path, made, random=random_records(final=100.0), **claim)
    assert row.value == pytest.approx(-40, abs=2)
    assert row.finding == "agrees"
    row = make_row(tmp_path, made, random=random_records(final=0.0), **claim)
    assert row.value == pytest.approx(5 - 100 * 30 / 160, abs=1)
    assert make_row(tmp_path, made[:-5], random=random_records(final=0.0), **claim).value is None


def test_a_trend_is_of_agents_that_have_learned_but_for_one(tmp_path):
    claim = {"claim": "trend", "unit": "u", "value": 0.5, "better": "equal", "margin": ["absolute", 0.25]}
    claim |= {"margin_note": "m", "protocol": {"against": ["b", "c"]}}
    made = make_runs("impala_shallow", *[{"final": 10.0 * i} for i in range(5)])
    made += make_runs("b", *[{"final": 10.0 * i + 5.0} for i in range(5)])
    rising = make_runs("c", *[{"final": 100.0 + i} for i in range(5)])
    row = make_row(tmp_path, [*made, *rising], **claim)
    assert row.value == pytest.approx((15 / 25 + 1 + 1) / 3)
    assert row.interval == pytest.approx(intervals.trend_interval(row.value, 5, 5, 5))
    at_random = make_runs("c", *[{"final": -1000.0}] * 5)
    assert make_row(tmp_path, [*made, *at_random], **claim).value == pytest.approx((15 / 25 + 0 + 0) / 3)
    at_random += make_runs("b", *[{"final": -1000.0}] * 5)
    assert make_row(tmp_path, [*made[:5], *at_random], **claim).value is None
    assert make_row(tmp_path, made, **claim).value is None  # all agents or none


def test_a_larger_spread_is_one_of_runs_that_differ_and_have_learned(tmp_path):
    claim = {"claim": "spread", "unit": "u", "value": 0, "better": "above", "protocol": {"against": ["b"]}}
    ours = make_runs("impala_shallow", *[{"final": 1e5 + 1e4 * i} for i in range(5)])
    theirs = make_runs("b", *[{"final": 1e5 + 1e2 * i} for i in range(5)])
    row = make_row(tmp_path, [*ours, *theirs], **claim)
    ends = [np.std([record["evaluation"]["mean"] for record in runs], ddof=1) for runs in (ours, theirs)]
    assert (row.value, row.finding) == (pytest.approx(np.log10(ends[0] / ends[1])), "agrees")
    assert row.interval == pytest.approx(intervals.spread_interval(row.value, 5, 5))
    alike = make_runs("b", *[{"final": 1e5 + 5e3 * i} for i in range(5)])
    assert make_row(tmp_path, [*ours, *alike], **claim).finding == "undecided"
    at_random = make_runs("b", *[{"final": -1000.0 + i} for i in range(5)])
    assert make_row(tmp_path, [*ours, *at_random], **claim).value is None
    for record in theirs:
        record["evaluation"] = theirs[0]["evaluation"]
    assert make_row(tmp_path, [*ours, *theirs], **claim).value is None


def test_a_trend_of_agents_whose_runs_lie_apart_contradicts_that_there_is_none(tmp_path):
    """Where all resamples are one number."""
    claim = {"claim": "trend", "unit": "u", "value": 0.5, "better": "equal", "margin": ["absolute", 0.25]}
    claim |= {"margin_note": "m", "n_seeds": 4, "protocol": {"against": ["b", "c"]}}
    made = [
        run
        for place, agent in enumerate(("impala_shallow", "b", "c"))
        for run in make_runs(agent, *[{"final": 50.0 * place + i} for i in range(4)])
    ]
    row = make_row(tmp_path, made, **claim)
    assert (row.value, row.verdict) == (1.0, "contradicts")
    assert 0.75 < row.interval[0] < row.interval[1] == 1.0


CONTROL = {"pong": "walker_walk", "alien": "humanoid_run", "amidar": "cartpole_swingup"}
"""A3C has 311 on walker_walk, 558.4 on cartpole_swingup and nothing on humanoid_run."""
CONSISTENT = {"claim": "difference_from_publication", "unit": "u", "value": 0, "better": "equal", "n_seeds": 4}
CONSISTENT |= {"margin": ["absolute", 0.2], "margin_note": "m", "task": "dm_control_features"}
CONSISTENT |= {"protocol": {"publication": ["dm_control_a3c", "A3C, features, 1e8 steps"]}}


def on_control(made):
    return [record | {"task": CONTROL[record["task"]]} for record in made]


def control_runs(game, level):
    return on_control(make_runs("impala_shallow", *[{"final": level + i} for i in range(4)], games=(game,)))


def compare_with_a3c(tmp_path, *made):
    (tmp_path / "context").mkdir(exist_ok=True)
    shutil.copy(published.CONTEXT_DIR / "dm_control_a3c.json", tmp_path / "context")
    return make_row(tmp_path, sum(made, []), random=on_control(RANDOM[:3]), **CONSISTENT)


def test_scores_are_compared_with_a_publication_on_the_tasks_that_it_has(tmp_path):
    walker = control_runs("pong", 320.0)
    random = on_control(RANDOM[:1])[0]["evaluation"]["mean"]
    row = compare_with_a3c(tmp_path, walker, control_runs("alien", 340.0))
    apart = [record["evaluation"]["mean"] - 311 for record in walker]
    squared = np.mean([a * b for a, b in itertools.combinations(apart, 2)])
    assert row.value == pytest.approx(np.sqrt(squared) / (311 - random))
    assert row.interval[1] < 0.2
    assert (row.finding, row.shortfalls, row.note) == (
        "undecided",  # the other one says nothing alone
        ("2 of 28 tasks",),
        "the answer differs without walker_walk",
    )
    assert compare_with_a3c(tmp_path, control_runs("alien", 340.0)).verdict == "not run"


def test_scores_that_differ_from_a_publication_on_each_task_are_not_consistent_with_it_in_the_mean(tmp_path):
    """700 above it on one task and 700 below it on another."""
    row = compare_with_a3c(tmp_path, control_runs("pong", 1011.0), control_runs("amidar", -141.6))
    assert (row.finding, row.shortfalls) == ("contradicts", ("2 of 28 tasks",))
    assert row.value > 0.4


def test_a_task_that_was_not_learned_counts_beside_a_publication(tmp_path):
    """Random play is as far from it as random play, on any task."""
    failed = control_runs("amidar", RANDOM[2]["evaluation"]["mean"])
    one = compare_with_a3c(tmp_path, control_runs("pong", 320.0), failed)
    assert one.interval[0] > 0.2
    assert (one.finding, one.note) == ("undecided", "the answer differs without cartpole_swingup")
    both = compare_with_a3c(tmp_path, control_runs("pong", RANDOM[0]["evaluation"]["mean"]), failed)
    assert (both.finding, both.note) == ("contradicts", "")
    assert compare_with_a3c(tmp_path, failed).value == pytest.approx(1.0, abs=0.02)
    assert make_row(tmp_path, control_runs("amidar", 0.0), random=(), **CONSISTENT).value is None


def test_stale_records_answer_nothing_and_are_named(tmp_path):
    config = make_record()["config"] | {"num_env_frames": 12_000_000}
    made = [make_record(1, config=config, config_sha256=records.config_sha256(config))]
    claim, own = make_table(tmp_path, made, random=(), **GROWTH)
    assert (claim.verdict, claim.seeds) == ("not run", ())
    assert "seed 1 is stale" in own.note


def test_experts_of_impala_are_compared_with_those_of_a3c_by_medians_and_their_speed_game_by_game():
    made = make_runs("impala_shallow", *[{"to": 40, "by": 20, "final": 40 + i} for i in range(4)])
    made += make_runs("a3c_shallow", *[{"to": 30, "by": 80, "final": 30 + i} for i in range(4)], experiment="atari_a3c")
    found = answered_rows("impala", [*made, *RANDOM, *random_records(("pong",), experiment="atari_a3c")])
    ours, theirs = (np.mean([run["evaluation"]["mean"] for run in runs]) for runs in (made[:4], made[4:]))
    ahead = 100 * (ours - theirs) / (14.6 + 20.7)  # on Pong a human has 14.6, random play -20.7
    for what, value, assumed in (
        ("final score", ahead, ()),
        ("data", 1.0, ("assumed: that data efficiency is fewer frames to a score that both reach, game by game",)),
    ):
        row = found["Section 5.3.2", "atari57", f"IMPALA, shallow experts over A3C, {what}"]
        shortfalls = ("4 of 5 runs", "5 of 200 episodes", "1 of 57 tasks", *assumed)
        assert (row.value, row.shortfalls) == (pytest.approx(value), shortfalls)
        assert "AGENT=" in row.command
        deep = found["Section 5.3.2", "atari57", f"IMPALA, deep experts over A3C, {what}"]
        assert deep.verdict == "not run"
        assert "needs" not in deep.note


def test_a_best_score_is_of_the_best_task_and_of_agents_that_have_learned(tmp_path):
    claim = {"claim": "best_score", "unit": "game score", "value": 900, "better": "under", "task": "atari5"}
    made = []
    for game, score in zip(GAMES, (40.0, 60.0, 90.0, 30.0, 20.0)):
        finals = [{"final": score + i} for i in range(5)]
        made += make_runs("impala_shallow", *finals, games=(game,), scale="paper")
    row = make_row(tmp_path, made, **claim)
    assert (row.finding, row.value) == ("agrees", pytest.approx(92, abs=1))
    assert 89 < row.interval[0] < row.value < row.interval[1] < 96
    assert make_row(tmp_path, made, **claim | {"value": 50}).finding == "contradicts"
    little = claim | {"protocol": {"budget": 1_000_000_000}}
    assert make_row(tmp_path, made, **little).finding == "undecided"  # more training raises scores
    assert make_row(tmp_path, made, **little | {"value": 50}).finding == "contradicts"
    some = [record for record in made if record["task"] != GAMES[4]]  # whose score may be higher
    row = make_row(tmp_path, some, **claim)
    assert (row.finding, row.note) == ("undecided", "the answer differs with any result on the other tasks")
    assert make_row(tmp_path, some, **claim | {"value": 50}).finding == "contradicts"
    unlearned = make_row(tmp_path, made, random=random_records(GAMES, final=1000.0), **claim)
    assert (unlearned.finding, unlearned.value) == ("not run", None)


def test_the_median_run_of_a_rank_correlation_must_have_learned(tmp_path):
    """Even where the mean of all, and of the better half, is far above random play."""

    def row(*finals):
        made = make_runs("impala_shallow", *[{"delta": 0.1 * i, "final": final} for i, final in enumerate(finals)])
        return make_row(tmp_path, made, protocol={"correlated_with": "delta"}, **CORRELATION)

    assert row(9e3, 8e3, 7e3, -1010.0, -1020.0).value == -1.0
    unlearned = row(9e3, 8e3, -1005.0, -1010.0, -1020.0)
    assert (unlearned.finding, unlearned.value) == ("not run", None)
    assert "is not above a random player's" in unlearned.note


def test_metaparameters_turn_back_or_not(tmp_path):
    claim = {"claim": "turning_back", "unit": "u", "value": 0.1, "better": "above", "protocol": {"columns": ["kl"]}}
    made = make_runs("impala_shallow", *[{}] * 5)
    for i, record in enumerate(made):
        record["series"]["rows"] = [[10 * k, k, min(k, 100 - k) + 0.1 * i * k] for k in range(100)]
    row = make_row(tmp_path, made, **claim)
    assert (row.finding, row.value) == ("agrees", pytest.approx(0.67, abs=0.03))
    for i, record in enumerate(made):
        record["series"]["rows"] = [[10 * k, k, min(k, 80) - 0.02 * i * max(k - 80, 0)] for k in range(100)]
    row = make_row(tmp_path, made, **claim)
    assert (row.finding, 0.0 < row.value < 0.03) == ("contradicts", True)


def test_the_printed_claims_that_are_answered():
    """Each finds what it needs; how many there are in each table."""
    found = {paper: [row for row in published.load(paper).rows if row.claim] for paper in ("acer", "refer")}
    for paper in published.papers():
        for row in published.load(paper).rows:
            if row.claim:
                assert claim_kinds.find_claim(row)
    counts = {
        paper: {table: sum(row.table == table for row in of) for table in dict.fromkeys(row.table for row in of)}
        for paper, of in found.items()
    }
    assert counts == {
        "acer": {
            "Section 1": 3,
            "Figure 1": 10,
            "Section 5.1": 2,
            "Figure 2": 9,
            "Appendix E.3": 1,
            "Figure 3": 4 + 2,
            "Figure 4": 4 + 2,
        },
        "refer": {
            "Abstract": 4,
            "Section 3": 3,
            "Section 4": 3,
            "Figure 1": 17,
            "Figure 2": 6,
            "Figure 3": 9,
            "Figure 4": 12 + 1,
            "Figure 5": 5,
            "Figure 6": 3,
            "Figure 7": 14,
            "Figure 8": 7,
        },
    }


def test_answers_depend_on_the_generator_only():
    names = {"impala_shallow", "other"}
    runs = [{"by": 50}, {"by": 60}, {"by": 20}, {"by": 30}]
    made = {("impala", "atari_shallow", "pong", name): make_runs(name, *runs) for name in names}
    row = printed_claim("frames_ratio", against=["other"])
    references = References(lambda record: random_player.Level(-1000.0, -990.0), lambda record: {})
    first, second, third = (claims.answer(row, made, np.random.default_rng(i), references) for i in (3, 3, 4))
    assert first == second
    assert first.interval is not None
    assert (third.value, third.runs) == (first.value, first.runs)


def test_a_ratio_that_is_not_positive_is_farthest_from_any_factor():
    row = dataclasses.replace(printed_claim("improvement", against=["other"]), value=1.0, margin=("factor", 1.1))
    row = dataclasses.replace(row, better="equal")
    values = [0.9, 3.0, 0.25, 0.0]
    results = [comparisons.ClaimResult(value, None, [], [], (), "") for value in values]
    assert sorted(values, key=lambda value: claims._support(row, results[values.index(value)])) == values[::-1]
    assert claims._support(row, dataclasses.replace(results[0], value=-0.1)) == claims._support(row, results[-1])
