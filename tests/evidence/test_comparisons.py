"""Claims of improvement: which runs answer them, what decides them, and that every claim's tasks are known."""

import pytest

from repro.evidence import comparisons, intervals, published
from tests.evidence.claim_rows import GAMES, RANDOM, make_table, printed_claim
from tests.evidence.synthetic_records import make_groups, make_record, random_records

CLAIM = {
    "task": "atari5",
    "value": 0.5,
    "better": "above",
    "n_seeds": 2,
    "unit": "probability of improvement",
    "claim": "improvement",
    "protocol": {"against": ["other"], "budget": 8_000_000},
}


SEARCH = {"sampled_hparams": {"x": 1.0}}


def _rows(tmp_path, made, random=RANDOM, **changes):
    return make_table(tmp_path, made, CLAIM | changes, random=random)


def _row(tmp_path, made, **changes):
    return _rows(tmp_path, made, **changes)[0]


def _averaged(*tasks):
    """The interval of a mean over tasks of probabilities: (value, runs of ours, runs of theirs)."""
    ends = [intervals.improvement_interval(*task) for task in tasks]
    if len(tasks) == 1:
        return pytest.approx(ends[0])
    reaches = [intervals.reach_at_even_odds(*task[1:]) for task in tasks]
    return pytest.approx(intervals.average_probabilities([task[0] for task in tasks], ends, reaches))


def _runs(agent, finals, games=GAMES, experiment="atari_shallow", **changes):
    """Runs whose curves begin too late to tell of untrained policies."""
    made = [
        make_record(seed, game, experiment, agent, final=final, **changes)
        for game in games
        for seed, final in enumerate(finals, start=1)
    ]
    return [record | {"curve": record["curve"][40:]} for record in made]


def test_every_run_better_is_a_probability_of_one(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0), scale="paper") + _runs("other", (1.0, 2.0, 3.0), scale="paper")
    row = _row(tmp_path, made)
    assert (row.value, row.interval) == (1.0, _averaged(*[(1.0, 2, 3)] * 5))
    assert (row.finding, row.verdict, row.shortfalls) == ("agrees", "reproduced", ())
    assert (row.seeds, row.share, row.note) == ((1, 2), 25.0, "")


def test_claims_whose_interval_holds_one_half_are_undecided_and_lost_ones_contradict(tmp_path):
    mixed = _runs("impala_shallow", (1.0, 500.0)) + _runs("other", (100.0, 200.0))
    assert _row(tmp_path, mixed).verdict == "undecided"
    lost = _runs("impala_shallow", (1.0, 2.0)) + _runs("other", (100.0, 200.0))
    assert _row(tmp_path, lost).finding == "contradicts"
    assert _row(tmp_path, lost, better="under").finding == "agrees"


def test_a_comparison_the_wrong_way_round_disagrees_with_little_training_too(tmp_path):
    lost = _runs("impala_shallow", (1.0, 2.0)) + _runs("other", (100.0, 200.0))
    row = _row(tmp_path, lost, protocol={"against": ["other"], "budget": 200_000_000})
    assert (row.verdict, row.share) == ("disagrees", 0.04)
    assert row.shortfalls == ("4 % of the budget", "3 settings differ")


def test_fewer_tasks_of_the_set_are_counted_and_not_reproduced(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0), GAMES[:4], scale="paper")
    made += _runs("other", (1.0, 2.0), GAMES[1:], scale="paper")
    row = _row(tmp_path, made)
    assert (row.value, row.interval) == (1.0, _averaged(*[(1.0, 2, 2)] * 3))
    assert (row.verdict, row.shortfalls, row.note) == ("agrees", ("3 of 5 tasks",), "")


def test_one_task_of_two_runs_says_nothing(tmp_path):
    """Newcombe's interval of 1 holds 0.5 there; that of a bootstrap would have no width."""
    row = _row(tmp_path, _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 2.0)), task="pong")
    assert (row.value, row.interval, row.verdict) == (1.0, _averaged((1.0, 2, 2)), "undecided")


def test_a_claim_on_one_task_reads_that_task_only(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 2.0), ("pong",))
    made += _runs("other", (900.0, 901.0), ("alien",))
    assert _row(tmp_path, made, task="pong").value == 1.0
    assert _row(tmp_path, made, task="alien").value == 0.0


def test_the_weakest_of_several_comparisons_counts(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 2.0)) + _runs("third", (900.0, 901.0))
    protocol = CLAIM["protocol"] | {"against": ["other", "third"]}
    assert _row(tmp_path, made, protocol=protocol).value == 0.0
    assert _row(tmp_path, made, protocol=protocol, better="under").value == 1.0
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 505.0)) + _runs("third", (600.0, 505.0))
    for better, value in (("above", 0.25), ("under", 0.75)):  # both are undecided
        row = _row(tmp_path, made, task=GAMES[0], protocol=protocol, better=better)
        assert (row.value, row.finding) == (value, "undecided")


def test_a_comparison_that_is_open_counts_before_one_that_agrees_with_a_lower_number(tmp_path):
    """0.8 of ten runs each is surely above one half, 0.95 beside two runs is not."""
    made = _runs("impala_shallow", range(310, 410, 10), ("pong",)) + _runs("third", (300.0, 315.0), ("pong",))
    made += _runs("other", (300.0,) * 8 + (500.0,) * 2, ("pong",))
    protocol = CLAIM["protocol"] | {"against": ["other", "third"]}
    row = _row(tmp_path, made, task="pong", protocol=CLAIM["protocol"])
    assert (row.value, row.finding) == (0.8, "agrees")
    row = _row(tmp_path, made, task="pong", protocol=protocol)
    assert (row.value, row.finding, len(row.seeds)) == (0.95, "undecided", 2)
    row = _row(tmp_path, made, task="pong", protocol=protocol, n_seeds=5)
    assert (row.value, row.finding) == (0.95, "undecided")


def test_one_of_several_comparisons_contradicts_at_a_level_for_all_of_them(tmp_path):
    """0.22 of ten runs each is below one half at 95 %, and not at 97.5 %."""
    made = _runs("impala_shallow", range(310, 410, 10), ("pong",)) + _runs("third", (300.0,) * 10, ("pong",))
    made += _runs("other", (300.0,) * 2 + (385.0,) + (500.0,) * 7, ("pong",))
    row = _row(tmp_path, made, task="pong", protocol=CLAIM["protocol"])
    assert (row.value, row.finding) == (0.22, "contradicts")
    row = _row(tmp_path, made, task="pong", protocol=CLAIM["protocol"] | {"against": ["other", "third"]})
    assert (row.value, row.finding) == (0.22, "undecided")
    assert row.interval == pytest.approx(intervals.improvement_interval(0.22, 10, 10))
    assert row.note == "the answer differs at a level for all 2 comparisons"
    made += _runs("fourth", (500.0,) * 10, ("pong",))
    row = _row(tmp_path, made, task="pong", protocol=CLAIM["protocol"] | {"against": ["other", "third", "fourth"]})
    assert (row.value, row.finding, row.note) == (0.0, "contradicts", "")


def test_budget_and_scale_are_the_least_of_all_comparisons(tmp_path):
    """The comparison with the lowest number is of runs at the paper's scale, the others are not."""
    made = _runs("impala_shallow", range(310, 410, 10), ("pong",), scale="paper", num_env_frames=200_000_000)
    made += _runs("impala_shallow", range(310, 410, 10), ("pong",))
    made += _runs("other", (300.0,) * 8 + (500.0,) * 2, ("pong",), scale="paper", num_env_frames=200_000_000)
    made += _runs("third", (300.0,) * 10, ("pong",))
    protocol = {"against": ["other", "third"], "budget": 200_000_000}
    row = _row(tmp_path, made, task="pong", protocol=protocol)
    assert (row.value, row.scale, row.share, row.verdict) == (0.8, "desk", 0.04, "agrees")
    row = _row(tmp_path, made, task="pong", protocol=protocol | {"against": ["other"]})
    assert (row.value, row.scale, row.share, row.verdict) == (0.8, "paper", 1.0, "reproduced")


def test_agents_without_runs_are_left_out_and_named(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 2.0))
    row = _row(tmp_path, made, protocol=CLAIM["protocol"] | {"against": ["other", "fourth"]})
    assert (row.value, row.interval, row.verdict) == (1.0, _averaged(*[(1.0, 2, 2)] * 5), "agrees")
    assert row.shortfalls == ("3 settings differ", "without fourth")
    row = _row(tmp_path, made, protocol=CLAIM["protocol"] | {"against": ["third", "fourth"]})
    assert (row.value, row.verdict) == (None, "not run")
    assert row.note == "needs 2 runs of third, fourth on one task"
    assert _row(tmp_path, []).note == ""


def test_an_agent_of_another_experiment_is_named_with_it(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("impala_deep", (1.0, 2.0), experiment="atari_deep")
    protocol = CLAIM["protocol"] | {"against": ["atari_deep/impala_deep"]}
    assert _row(tmp_path, made, protocol=protocol).value == 1.0


@pytest.mark.parametrize("scale", ["desk", "paper"])
def test_runs_of_different_scale_are_not_compared(tmp_path, scale):
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 2.0), scale=scale)
    assert (_row(tmp_path, made).value is None) == (scale == "paper")


def test_a_statement_without_a_claim_is_not_answered_by_final_returns(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 2.0))
    assert _row(tmp_path, made).verdict == "agrees"
    statement = {name: value for name, value in CLAIM.items() if name != "claim"}
    assert make_table(tmp_path, made, statement)[0].verdict == "not run"


def test_tasks_depend_on_each_other_where_sampled_settings_are_the_same_on_all():
    swept, fixed = _runs("impala_shallow", (1.0, 2.0), **SEARCH), _runs("impala_shallow", (1.0, 2.0))
    assert comparisons.are_dependent([swept[:2], swept[2:4]])
    assert not comparisons.are_dependent([fixed[:2], fixed[2:4]])
    assert not comparisons.are_dependent([swept[:2]])


def test_an_aggregate_of_plain_scores_is_over_a_whole_set_of_the_agent_s_own_runs():
    """Twelve tasks of `rwrl`; runs of another agent, and a task without any run, do not make up for one."""
    printed = next(
        row for row in published.load("stac").rows if (row.table, row.task, row.agent) == ("Abstract", "rwrl", "stac")
    )
    tasks = [f"task_{i:02}" for i in range(12)]
    ours = {("stac", "rwrl", task, "stac"): [{"seed": 1}] for task in tasks}
    theirs = {("stac", "rwrl", task, "impala"): [{"seed": 1}] for task in tasks}
    assert comparisons.tasks_of_aggregate(printed, theirs | ours) == tuple(tasks)
    ours["stac", "rwrl", "task_07", "stac"] = []
    assert comparisons.tasks_of_aggregate(printed, theirs | ours) == ()
    assert comparisons.tasks_of_aggregate(printed, theirs) == ()


def test_only_the_best_runs_count_where_the_paper_searched(tmp_path):
    """Three settings on five tasks tell no more than on one, and so decide nothing."""
    made = _runs("impala_shallow", (500.0, 1.0, 510.0), **SEARCH) + _runs("other", (2.0, 400.0, 410.0), **SEARCH)
    whole = _row(tmp_path, made)
    best = _row(tmp_path, made, protocol=CLAIM["protocol"] | {"best": 2})
    assert 0.5 < whole.value < 1.0
    assert (best.value, best.seeds) == (1.0, (1, 2, 3))
    assert (best.finding, best.note) == ("undecided", "the best 2 of 3 runs of each agent count")
    assert best.shortfalls == ("3 settings differ",)
    five = _row(tmp_path, made, protocol=CLAIM["protocol"] | {"best": 5})
    assert (five.value, five.note) == (whole.value, "")


def test_the_best_are_chosen_from_the_settings_that_all_agents_have(tmp_path):
    """The best of three settings would be ahead of the best of two."""
    protocol = CLAIM["protocol"] | {"best": 2}
    search = SEARCH | {"scale": "paper"}
    made = _runs("impala_shallow", (500.0, 1.0, 510.0), **search) + _runs("other", (2.0, 400.0), **search)
    row = _row(tmp_path, made, protocol=protocol)
    assert (row.value, row.seeds, row.verdict, row.shortfalls, row.note) == (0.5, (1, 2), "undecided", (), "")
    made += _runs("other", (2.0, 400.0, 401.0), GAMES[:1], **search)[2:]
    row = _row(tmp_path, made, task=GAMES[0], protocol=protocol)
    assert (row.value, row.seeds, row.note) == (1.0, (1, 2, 3), "the best 2 of 3 runs of each agent count")
    made += _runs("third", (3.0, 4.0), GAMES[:1], **search)  # not the weakest, but one that the claim is about
    both = protocol | {"against": ["other", "third"]}
    row = _row(tmp_path, made, task=GAMES[0], protocol=both)
    assert (row.value, row.seeds, row.note) == (0.5, (1, 2), "the best 2 of 2 to 3 runs of each agent count")


def test_one_run_is_not_compared(tmp_path):
    made = _runs("impala_shallow", (500.0,)) + _runs("other", (1.0, 2.0))
    assert _row(tmp_path, made).verdict == "not run"


def test_returns_keep_a_row_of_their_own_beside_the_claim(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0), ("pong",)) + _runs("other", (1.0, 2.0), ("pong",))
    found = [(r.table, r.agent) for r in _rows(tmp_path, made, RANDOM[:1], task="pong")]
    assert found == [
        ("Figure 1", "impala_shallow"),
        (None, "impala_shallow"),
        (None, "other"),
        (None, "random"),
    ]


def test_the_tasks_of_every_printed_claim_are_known():
    single = {*published.normaliser("atari57"), *published.normaliser("dmlab30")}
    single |= {"Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum", "Reacher"}
    single |= {"InvertedPendulum", "Swimmer", "Walker2d", "flow", "humanoid", "cheetah", "walker", "fish"}
    claims = [row for paper in published.papers() for row in published.load(paper).rows if row.claim == "improvement"]
    odd = {row.task for row in claims} - {*comparisons.TASK_SETS, *single}
    assert len(claims) > 40
    assert odd == set()


@pytest.mark.parametrize(
    ("task", "members", "foreign"),
    [("sweep4", ("alien", "amidar"), ("pong", "breakout")), ("atari57", ("pong", "alien"), ("air_raid",))],
)
def test_a_set_of_tasks_is_answered_by_its_members_alone(tmp_path, task, members, foreign):
    """`air_raid` is a game without printed scores of a random player and a human."""

    def row(games):
        made = []
        for agent, final in (("impala_shallow", 500.0), ("other", 5.0)):
            made += [
                record | {"task": game} for game in games for record in _runs(agent, (final, final + 1), ("pong",))
            ]
        random = [record | {"task": game} for game in games for record in random_records(("pong",))]
        return _row(tmp_path, made, random=random, task=task)

    assert row(members).value == 1.0
    assert row(foreign).value is None
    assert row((*members, *foreign)).seeds == row(members).seeds


def test_a_scale_with_too_few_runs_for_an_interval_gives_way_to_a_smaller_one_with_enough():
    def counted(smaller, larger, interval_runs):
        made = [make_record(seed, "pong", scale=scale) for scale, n in (("desk", smaller), ("paper", larger))
                for seed in range(1, n + 1)]  # fmt: skip
        runs = {key: group.every for key, group in make_groups(made).items()}
        found, _ = comparisons.runs_by_task(printed_claim("divergence"), runs, (), 1, interval_runs=interval_runs)
        return [(record["scale"]) for record in found["pong"][0]]

    assert counted(4, 2, 4) == ["desk"] * 4
    assert counted(4, 2, 1) == ["paper"] * 2
    assert counted(5, 4, 4) == ["paper"] * 4
    assert counted(2, 3, 4) == ["paper"] * 3  # neither has enough
