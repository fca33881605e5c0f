"""ACER's printed statements, answered by synthetic records of some of its agents and tasks."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from repro.evidence import claim_kinds, intervals, published, random_player, staleness, statistics
from repro.evidence.records import budget_field
from tests.evidence.claim_rows import answered_rows
from tests.evidence.synthetic_records import make_record

GAMES = ("pong", "breakout")
TASKS = ("cartpole", "reacher3", "cheetah")
CONTROL = (*TASKS, "fish", "walker", "humanoid")
BY = {"a3c": 80, "acer_ratio_0": 80, "acer_ratio_1": 40, "acer_ratio_4": 20, "acer_ratio_0_no_trust_region": 80}
"""Agent to the share of training, in percent, after which its curve stands at its end."""
PACE = {"acer_ratio_1": 2e-3, "acer_ratio_4": 5e-3} | dict.fromkeys(
    ("a3c", "acer_ratio_0", "acer_ratio_0_no_trust_region"), 1e-3
)
"""Agent to the seconds a frame takes."""
FINAL = {"acer_ratio_1": 30.0, "acer_ratio_4": 40.0} | dict.fromkeys(
    ("a3c", "acer_ratio_0", "acer_ratio_0_no_trust_region"), 10.0
)
RETURNS = {"acer": 50.0, "a3c": 10.0, "tis": 20.0}
ALL_OTHERS = ("a3c", "trust_a3c", "tis", "trust_tis")
NO_TRUST = "without trust_a3c, trust_tis"
AS_A3C = (
    "which agent is A3C (A3C itself, or on-policy ACER with or without trust region: the weakest comparison counts)"
)
LEVELS = "levels of single games in place of those of a median over games"
READING = (
    "The text says domains of higher action dimension and does not name them. Which they are is our reading of "
    "Figure 2's caption."
)


def _record(experiment, task, agent, seed, final, by=100, pace=1e-3, **changes):
    config = staleness.current_config("acer", experiment, changes.get("scale", "desk"))
    record = make_record(seed, "pong", experiment, agent, final, config=config, episodes=5, **changes)
    unit = budget_field(record)
    frames = np.linspace(0, record[unit], 101)[1:]
    curve = [[int(x), final - abs(final) * max(0.0, 1.0 - i / by)] for i, x in enumerate(frames, start=1)]
    logged = [[float(x), float(pace * x), 0.1] for x in frames]
    series = {"columns": [unit, "seconds", "kl"], "rows": logged}
    sampled = {"sampled_hparams": {"learning_rate": 1e-4 * seed}} if experiment == "continuous" else {}
    return record | {"paper": "acer", "task": task, "curve": curve, "series": series} | sampled


def _random(experiment, agent, tasks, scale="desk"):
    """A random player's record on each task, with a score below all others; an agent's for the rest."""
    config = staleness.agent_config("acer", experiment, scale, random_player.AGENT)
    return [
        _record(experiment, task, agent, 1, -1000.0, scale=scale) | {"agent": random_player.AGENT, "config": config}
        for task in tasks
    ]


RANDOM = (*_random("atari", "acer_ratio_0", GAMES), *_random("continuous", "acer", CONTROL))


def _games(*agents, seeds=(1, 2), games=GAMES):
    return [
        _record("atari", game, agent, seed, FINAL[agent], BY[agent], PACE[agent])
        for game in games
        for agent in agents
        for seed in seeds
    ]


def _control(*agents, seeds=(1, 2), tasks=TASKS, **changes):
    return [
        _record("continuous", task, agent, seed, RETURNS[agent] + seed, **changes)
        | {"sampled_hparams": {"learning_rate": 1e-4 * seed, "delta": 0.5 * (seed % 3)}}
        for task in tasks
        for agent in agents
        for seed in seeds
    ]


def _rows(made, random=RANDOM):
    return answered_rows("acer", [*made, *random])


def _less(row):
    """What is less than the paper's protocol, but for readings."""
    return tuple(part for part in row.shortfalls if not part.startswith("assumed: "))


@pytest.fixture(scope="module")
def some():
    """The rows given by records of five agents on two games, and of three on three control tasks."""
    return _rows(_games(*FINAL) + _control(*RETURNS))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("ACER, replay ratio 1 over 0, by environment steps", 1.0),
        ("ACER, replay ratio 4 over 1, by environment steps", 1.0),
        # final level 10 after 80 % of training; 10 of 30 after a third of 40 %, 10 of 40 after a quarter of 20 %
        ("ACER, replay ratio 1, environment steps to a level of A3C", 14 / 80),
        ("ACER, replay ratio 4, environment steps to a level of A3C", 5 / 80),
        ("ACER, replay ratio 1 against A3C, by wall clock", 2 * 14 / 80),
        ("ACER, replay ratio 4 against A3C, by wall clock", 5 * 5 / 80),
    ],
)
def test_figure_1_is_answered_by_the_games_there_are(some, column, value):
    row = some["Figure 1", "atari57", column]
    assert row.value == pytest.approx(value)
    assert (row.finding, row.seeds, row.scale) == ("undecided", (1, 2), "desk")
    assert _less(row) == ("scale desk", "2 of 5 runs", "3 settings differ", "2 of 57 tasks")
    (reading,) = (shortfall for shortfall in row.shortfalls if shortfall.startswith("assumed: "))
    assert ("final evaluations in place of curves" in reading) == ("by environment steps" in column)
    if "by environment steps" not in column:
        assert row.interval is None  # no bootstrap of two runs


def test_sample_efficiency_is_answered_for_games_and_for_control(some):
    games = some["Section 1", "atari57", "ACER over A3C, sample efficiency on Atari"]
    assert (games.value, games.finding) == (1.0, "undecided")
    readings = f"that any gain counts as substantial; the replay ratio; {AS_A3C}; {LEVELS}"
    settings = "the learning rate, RMSProp's epsilon, the bound of the gradient (deviations 5, 14) and the budget"
    open_too = f"that ACER agents are those with the trust region; {settings}"
    assert games.shortfalls[-1] == f"assumed: {readings}; {open_too}"
    assert games.note == "The text names no replay ratio; 4 is our reading."
    control = some["Section 1", "acer_control", "ACER over A3C, sample efficiency in continuous control"]
    assert (control.value, control.finding) == (1.0, "undecided")
    assert (_less(control), control.note) == (("scale desk", "2 of 30 runs", "3 of 6 tasks"), "")


def test_figure_2_is_answered_by_the_agents_there_are(some):
    won = some["Figure 2", "acer_control", "ACER over all other methods"]
    assert (won.published, won.value, won.verdict) == (1, None, "not run")  # all agents are compared at once
    assert won.note.startswith("needs 2 runs of trust_a3c, trust_tis on one task. The caption says")
    cheetah = some["Figure 2", "cheetah", "ACER over all other methods"]
    assert (cheetah.value, cheetah.verdict) == (1.0, "undecided")
    assert cheetah.interval == pytest.approx(intervals.improvement_interval(1.0, 2, 2))
    assert (_less(cheetah), cheetah.note) == (("scale desk", "2 of 30 runs", NO_TRUST), "")
    assert cheetah.command == (
        "make reproduce-acer EXPERIMENT=continuous AGENT=acer,a3c,tis TASK=cheetah SCALE=desk SEEDS=2"
    )


def test_rows_without_an_answer_say_which_runs_they_wait_for(some):
    waiting = {
        "ACER, replay ratio 8 over 4, by environment steps": "acer_ratio_8",
        "ACER, diminishing returns of replay": "acer_ratio_8",
    }
    for column, agent in waiting.items():
        row = some["Figure 1", "atari57", column]
        assert (row.verdict, row.value) == ("not run", None)
        assert row.note == f"needs 2 runs of {agent} on one task"
    clock = some["Figure 1", "atari57", "ACER, replay ratio 8 against A3C, by wall clock"]
    assert clock.note == "needs 2 runs of acer_ratio_8 on one task, with curve and seconds"
    trust = some["Figure 2", "acer_control", "Trust region with A3C"]
    assert trust.note == "needs 2 runs of trust_a3c on one task"
    rate = some["Figure 3", "cheetah", "ACER, log learning rate"]
    assert (rate.verdict, rate.note) == ("not run", f"needs 3 runs of acer on cheetah, with learning_rate. {READING}")
    humanoid = some["Figure 2", "humanoid", "ACER over all other methods"]
    assert (humanoid.verdict, humanoid.note) == ("not run", "")  # nothing ran there


def test_every_row_that_these_agents_can_answer_is_answered(some):
    there = {*FINAL, *RETURNS}
    of_figures = [
        row for row in published.load("acer").rows if row.agent in there and row.claim and "against" in row.protocol
    ]
    silent = [
        row.column
        for row in of_figures
        if there.intersection(row.protocol["against"])
        and row.task in ("atari57", "acer_control", *TASKS)
        and not claim_kinds.find_claim(row).together
        and some[row.table, row.task, row.column].verdict != "undecided"
    ]
    assert silent == []
    together = [row.column for row in of_figures if row.claim is not None and claim_kinds.find_claim(row).together]
    assert together == ["ACER over all other methods"]


def test_runs_of_other_scales_or_of_one_seed_are_named():
    made = _games("acer_ratio_0") + _games("acer_ratio_1", seeds=(1,))
    row = _rows(made)["Figure 1", "atari57", "ACER, replay ratio 1 over 0, by environment steps"]
    assert row.note == "needs 2 runs of acer_ratio_1 on one task"
    made = _control("acer") + _control("a3c", scale="paper")
    row = _rows(made)["Section 1", "acer_control", "ACER over A3C, sample efficiency in continuous control"]
    assert row.note == "needs 2 runs of each agent, at one scale and with the same settings, on one task, with curve"


@pytest.mark.parametrize(
    ("by", "frames", "seconds"), [(80, 5 / 80, 5 * 3 / 80), (5, 3 / 5, 5 * 5 / 80), (4, 3 / 4, 5 * 3 / 4)]
)
def test_the_weaker_comparison_with_a3c_decides(by, frames, seconds):
    """Without trust region it ends at a level of 5; three times the seconds are nearer than a third of them is far."""
    made = _games("a3c", "acer_ratio_0", "acer_ratio_4") + [
        _record("atari", game, "acer_ratio_0_no_trust_region", seed, 5.0, by, PACE["acer_ratio_0"])
        for game in GAMES
        for seed in (1, 2)
    ]
    found = _rows(made)
    for column, value in (
        ("ACER, replay ratio 4, environment steps to a level of A3C", frames),
        ("ACER, replay ratio 4 against A3C, by wall clock", seconds),
    ):
        row = found["Figure 1", "atari57", column]
        assert row.value == pytest.approx(value), column
        assert f"assumed: {AS_A3C}" in "; ".join(row.shortfalls)
    one = _rows(_games("a3c", "acer_ratio_0", "acer_ratio_4"))
    assert _less(one["Figure 1", "atari57", column])[-1] == "without acer_ratio_0_no_trust_region"


def test_a3c_alone_may_be_what_acer_is_not_ahead_of():
    others = _games("acer_ratio_0", "acer_ratio_0_no_trust_region", "acer_ratio_4")
    fast = [_record("atari", game, "a3c", seed, 40.0, by=5) for game in GAMES for seed in (1, 2)]
    row = "Section 1", "atari57", "ACER over A3C, sample efficiency on Atari"
    assert [_rows(a3c + others)[row].value for a3c in (_games("a3c"), fast)] == [1.0, 0.0]


def test_diminishing_returns_with_all_four_ratios():
    last = [_record("atari", game, "acer_ratio_8", seed, 42.0) for game in GAMES for seed in (1, 2)]
    made = _games("acer_ratio_0", "acer_ratio_1", "acer_ratio_4") + last
    row = _rows(made)["Figure 1", "atari57", "ACER, diminishing returns of replay"]
    means = {r["agent"]: [] for r in made}
    for record in made:
        means[record["agent"]].append(record["evaluation"]["mean"])
    zero, one, four, eight = (np.mean(means[f"acer_ratio_{ratio}"]) for ratio in (0, 1, 4, 8))
    assert row.value == pytest.approx((eight - four) / (one - zero))
    assert (row.finding, row.note, row.interval) == ("undecided", "an interval needs 4 runs of each agent", None)
    assert row.shortfalls[-2] == "2 of 57 tasks"


def _thirty(ours, theirs, count=30):
    """The row on humanoid given by `count` settings of each agent that end around these returns."""
    made = []
    for agent in ("acer", *ALL_OTHERS):
        mean = ours if agent == "acer" else theirs
        made += [
            _record("continuous", "humanoid", agent, seed, mean + seed, scale="paper") for seed in range(1, count + 1)
        ]
    return _rows(made, _random("continuous", "acer", ("humanoid",), "paper"))[
        "Figure 2", "humanoid", "ACER over all other methods"
    ]


def test_the_best_five_of_thirty_settings_decide_figure_2():
    for ours, theirs, value, finding in ((200.0, 10.0, 1.0, "agrees"), (10.0, 200.0, 0.0, "contradicts")):
        row = _thirty(ours, theirs)
        assert (row.value, row.finding, _less(row)) == (value, finding, ())
        assert row.interval == pytest.approx(intervals.improvement_interval(value, 5, 5))
        assert (row.seeds, row.published_seeds) == (tuple(range(1, 31)), 30)
        assert row.note == "the best 5 of 30 runs of each agent count"


def _every_task(lost=(), tasks=CONTROL):
    """The row on all tasks given by seven runs of each agent, of which ACER is behind on the tasks `lost`."""
    made = [
        _record("continuous", task, agent, seed, (50.0 if (agent == "acer") != (task in lost) else 10.0) + seed)
        for task in tasks
        for agent in ("acer", *ALL_OTHERS)
        for seed in range(1, 8)
    ]
    return _rows(made)["Figure 2", "acer_control", "ACER over all other methods"]


def test_one_task_lost_contradicts_figure_2_and_only_all_six_agree():
    won = _every_task()
    assert (won.value, won.verdict, _less(won)) == (1.0, "agrees", ("scale desk", "7 of 30 runs"))
    five = _every_task(tasks=CONTROL[:5])
    assert (five.value, five.verdict, _less(five)[-1]) == (1.0, "undecided", "5 of 6 tasks")
    lost = _every_task(lost=("fish",), tasks=CONTROL[:5])
    assert (lost.value, lost.verdict) == (0.8, "disagrees")
    assert _every_task(lost=("fish",)).verdict == "disagrees"


@pytest.mark.parametrize("count", [5, 29])
def test_fewer_settings_than_the_paper_s_do_not_reproduce_figure_2(count):
    """They have the same finding, with what is missing beside it and the weaker word for both."""
    for ours, theirs, verdict in ((200.0, 10.0, "agrees"), (10.0, 200.0, "disagrees")):
        row = _thirty(ours, theirs, count)
        assert (len(row.seeds), row.verdict) == (count, verdict)
        assert _less(row) == (f"{count} of 30 runs",)


def test_speed_is_compared_by_the_settings_that_all_agents_have(monkeypatch):
    monkeypatch.setattr(statistics, "CURVE_RESAMPLES", 99)
    place = "Section 1", "acer_control", "ACER over A3C, sample efficiency in continuous control"
    tasks = ("cartpole", "reacher3", "cheetah", "fish", "walker", "humanoid")
    made = [
        _record("continuous", task, agent, seed, RETURNS[agent], by=20 if agent == "acer" else 80, scale="paper")
        for task in tasks
        for agent in ("acer", "a3c")
        for seed in range(1, 31)
    ]
    random = _random("continuous", "acer", tasks, "paper")
    row = _rows(made, random)[place]
    assert (row.value, row.finding, row.note) == (1.0, "agrees", "the best 5 of 30 runs of each agent count")
    assert _less(row) == ()
    made += [_record("continuous", "fish", "acer", 31, RETURNS["acer"], by=20, scale="paper")]
    row = _rows(made, random)[place]
    assert (row.value, len(row.seeds), row.verdict) == (1.0, 30, "agrees")
    assert row.note == "the best 5 of 30 runs of each agent count"  # a3c lacks the setting of seed 31
    assert _less(row) == ()
    made = made[:-1]
    made[-1]["curve"] = []  # of a3c on humanoid
    row = _rows(made, random)[place]
    assert (len(row.seeds), row.verdict) == (29, "agrees")
    assert _less(row) == ("29 of 30 runs",)


def _sensitivity(settings, scale="paper"):
    """Rows given by runs of (learning rate, delta, return) on cheetah."""
    made = _control("acer", seeds=range(1, len(settings) + 1), tasks=("cheetah",), scale=scale)
    for record, (rate, delta, mean) in zip(made, settings):
        record["sampled_hparams"] = {"learning_rate": rate, "delta": delta}
        record["evaluation"] |= {"mean": 100.0 + mean}
    found = _rows(made, _random("continuous", "acer", ("cheetah",), scale))
    return found["Figure 3", "cheetah", "ACER, log learning rate"], found["Figure 4", "cheetah", "ACER, delta"]


def test_sensitivity_is_spearman_s_correlation():
    rng = np.random.default_rng(4)
    settings = np.c_[np.exp(rng.uniform(-9, -7, 30)), rng.uniform(0.1, 2, 30), rng.normal(size=30)]
    settings[:, 2] -= 1.5 * settings[:, 1]
    rate, delta = _sensitivity(settings)
    for row, sampled in ((rate, np.log(settings[:, 0])), (delta, settings[:, 1])):
        assert row.value == pytest.approx(scipy.stats.spearmanr(sampled, settings[:, 2]).statistic)
        assert (len(row.seeds), row.interval_over, row.published, row.note) == (30, "seeds", 0, READING)
    assert (rate.verdict, delta.verdict) == ("undecided", "agrees")  # zero lies in the first interval
    assert rate.interval[0] < 0 < rate.interval[1]
    assert delta.interval[1] < 0
    rises = settings * (1, -1, 1)
    assert _sensitivity(rises)[1].verdict == "disagrees"


def test_fewer_settings_or_less_budget_do_not_reproduce():
    falls = [(1e-4 * i, 0.06 * i, 31.0 - i) for i in range(1, 31)]
    settings = "optimiser, network and models, chosen by runs of ACER; the budget"
    assumed = (f"assumed: which domains are of higher dimension; {settings}",)
    assert [(row.finding, row.shortfalls) for row in _sensitivity(falls)] == [("agrees", assumed)] * 2
    for rows_of, finding in (
        (_sensitivity(falls[:29]), "agrees"),
        (_sensitivity(falls, "desk"), "agrees"),
        (_sensitivity(falls[:3]), "undecided"),
    ):
        assert [(row.value, row.verdict) for row in rows_of] == [(-1.0, finding)] * 2
        assert all(len(row.shortfalls) > 1 for row in rows_of)
    assert [row.value for row in _sensitivity(falls[:2])] == [None, None]


def test_equal_returns_are_no_sensitivity():
    same = [(1e-4 * i, 0.06 * i, 7.0) for i in range(1, 31)]
    assert [(row.value, row.verdict) for row in _sensitivity(same)] == [(0.0, "undecided")] * 2


TWO = ("cheetah", "walker")
"""A single task of the six decides nothing."""


def _near_best(finals, scale="paper", start=0.0, random=None):
    """The row about all settings given by runs on two tasks with these returns, which begin at `start`."""
    made = _control("acer", seeds=range(1, len(finals) + 1), tasks=TWO, scale=scale)
    for record in made:
        final = finals[record["seed"] - 1]
        record["curve"][0][1] = start
        record["evaluation"] |= {"mean": float(final), "returns": [final + 0.1 * i for i in range(-2, 3)]}
    player = _random("continuous", "acer", TWO, scale) if random is None else random
    return _rows(made, player)["Appendix E.3", "acer_control", "ACER, settings near the best, all tasks"]


def test_sensitivity_overall_is_the_share_of_settings_near_the_best():
    some_fail = _near_best([100.0] * 27 + [10.0] * 3)
    assert (some_fail.value, some_fail.published, some_fail.verdict) == (0.9, 0.5, "agrees")
    assert some_fail.interval == pytest.approx(intervals.share_interval(27, 30))
    assert _less(some_fail) == ("2 of 6 tasks",)
    assert some_fail.shortfalls[-1].startswith("assumed: that not very sensitive means that most settings")
    assert _near_best([100.0] * 15 + [10.0] * 15).verdict == "undecided"
    most_fail = _near_best([100.0] * 5 + [10.0] * 25)
    assert (most_fail.value, most_fail.verdict) == (pytest.approx(1 / 6), "disagrees")
    assert _near_best([100.0] * 5 + [10.0] * 25, "desk").verdict == "undecided"  # others may come to it
    assert _near_best([100.0] * 5 + [60.0] * 25, start=50.0).value == pytest.approx(1 / 6)  # gains of 50 and 10
    assert _near_best([100.0] * 29).value is None  # of fewer settings more are near the best five


def test_settings_near_a_best_that_has_not_learned_are_no_insensitivity():
    level = [record | {"evaluation": record["evaluation"] | {"returns": [150.0, 151.0], "mean": 150.5}}
             for record in _random("continuous", "acer", TWO, "paper")]  # fmt: skip
    assert _near_best([100.0] * 30, random=level).value is None
    assert _near_best([100.0] * 30, start=100.0).value is None
    few_learn = _near_best([200.0] * 5 + [100.0] * 25, start=100.0, random=level)
    assert (few_learn.value, few_learn.verdict) == (pytest.approx(1 / 6), "disagrees")


def test_a_record_without_the_hyper_parameter_does_not_count():
    made = _control("acer", seeds=(1, 2, 3), tasks=("cheetah",))
    for record in made:
        del record["sampled_hparams"]["delta"]
    found = _rows(made)
    assert found["Figure 3", "cheetah", "ACER, log learning rate"].value == 1.0
    delta = found["Figure 4", "cheetah", "ACER, delta"]
    assert (delta.value, delta.note) == (None, f"needs 3 runs of acer on cheetah, with delta. {READING}")


def test_the_gain_on_atari_against_that_in_control_says_why_it_is_not_answered(some):
    row = some["Figure 2", "acer_control", "Trust region, gain in continuous control against gain on Atari"]
    assert (row.verdict, row.value) == ("cannot run here", None)
    assert row.note.startswith("needs a measure of gain that control tasks and games have in common")


PARTS = {"acer_plain_traces": 0.0, "acer_q_ret": 20.0, "acer_on_policy": 30.0, "trust_tis": 40.0}
"""What their final return lacks to ACER's."""


def test_sentences_about_parts_of_acer_compare_it_with_agents_without_them():
    made = _control("acer", by=20) + [
        _record("continuous", task, agent, seed, RETURNS["acer"] - loss, by=80)
        for task in TASKS
        for agent, loss in PARTS.items()
        for seed in (1, 2)
    ]
    found = _rows(made)
    for place, reading in (
        (("Section 5.1", "acer_control", "Retrace weights with the power 1/d over plain ones"), "are the same"),
        (
            ("Section 5.1", "acer_control", "Q with off-policy corrections over Retrace in the policy gradient"),
            "our reading",
        ),
        (("Figure 2", "acer_control", "Replay with Retrace over none"), "on-policy ACER"),
    ):
        row = found[place]
        assert (row.value, row.verdict) == (1.0, "undecided"), place
        assert reading in row.note
        assert "settings differ" not in " ".join(row.shortfalls)


def test_rows_do_not_depend_on_the_order_of_records():
    made = _games(*FINAL) + _control(*RETURNS, seeds=(1, 2, 3))
    forward, backward = _rows(made), _rows(made[::-1])
    assert {key: dataclasses.asdict(row) for key, row in forward.items()} == {
        key: dataclasses.asdict(row) for key, row in backward.items()
    }


def test_agents_are_compared_at_the_largest_scale_that_all_of_them_have():
    place = "Section 1", "acer_control", "ACER over A3C, sample efficiency in continuous control"
    desk = _control("acer", "a3c")
    alone = _rows([*desk, *_control("acer", scale="paper")])[place]
    assert (alone.scale, alone.value) == ("desk", _rows(desk)[place].value)
    slower_at_paper_scale = [
        record | {"curve": [[frames, 0.1 * score] for frames, score in record["curve"]]}
        for record in _control("acer", scale="paper")
    ]
    both = _rows([*desk, *slower_at_paper_scale, *_control("a3c", scale="paper")])[place]
    assert both.scale == "paper"
    assert both.value != alone.value
