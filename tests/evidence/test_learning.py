"""Learning: which agents count as having learned, and which agents of a comparison must have."""

import itertools

import numpy as np
import pytest

from repro.evidence import comparisons, learning, random_player
from repro.evidence.references import References
from tests.evidence.claim_rows import GAMES, TO_OTHER, make_row, make_runs


def player(upper):
    return References(lambda record: random_player.Level(0.0, upper), lambda record: {})


def played(returns, start=None):
    """A run that ends with these games, and begins its curve at `start`."""
    curve = [] if start is None else [[0, start], [100, np.mean(returns)]]
    evaluation = {"mean": float(np.mean(returns)), "returns": list(returns), "unit": "score"}
    return {"evaluation": evaluation, "curve": curve, "config": {"env": {}}}


def lack(*by_agent, enough=any, chosen_from=None, level=None, upper=0.2):
    return learning.find_lack(enough, "pong", by_agent, chosen_from or by_agent, player(upper), level)


def test_a_mean_is_surely_above_random_play_or_not():
    near, spread = [played([0.5, 0.6, 0.7] * 5)], [played([-9.4, 0.6, 10.6] * 5)]
    assert lack(near) == ""
    assert lack(spread).startswith("0.6 on pong, at least -4.08, is")
    assert lack(spread).endswith(" is not surely above a random player's 0.2")
    assert lack([played([0.1, 0.2] * 3)]) == "0.15 on pong is not above a random player's 0.2"
    assert lack(near, spread) == ""
    assert "0.6 on pong, at least -4" in lack(near, spread, enough=all)


def test_the_best_of_several_random_players_decides():
    """Agents may play in environments that differ, each with a random player of its own."""
    levels = References(lambda record: random_player.Level(0.0, record.get("upper", 0.2)), lambda record: {})
    games = [4.9, 5.0, 5.1] * 2
    by_agent = [[played(games)], [played(games) | {"upper": 6.0}]]
    found = learning.find_lack(any, "pong", by_agent, by_agent, levels)
    assert found == "5 on pong is not above a random player's 6"


@pytest.mark.parametrize(("agents", "runs", "best"), [(1, 5, 5), (3, 5, 5), (3, 5, 3), (2, 12, 3)])
def test_agents_that_play_at_random_seldom_count_as_learned(agents, runs, best):
    """Though the best of many agents and runs are above a random player's mean, known exactly here, as a rule."""
    rng, trials = np.random.default_rng(3), 400
    found = above = 0
    for _ in range(trials):
        every = [[played(rng.standard_normal(30)) for _ in range(runs)] for _ in range(agents)]
        chosen = [comparisons.best_of(group, best) for group in every] if best < runs else every
        found += lack(*chosen, chosen_from=every, upper=0.0) == ""
        above += max(np.mean([run["evaluation"]["mean"] for run in group]) for group in chosen) > 0
    assert found <= trials * learning.CHANCE + 3 * np.sqrt(trials * learning.CHANCE)
    assert above > 0.45 * trials


@pytest.mark.parametrize(("runs", "best"), [(5, 5), (30, 5), (24, 3)])
def test_the_best_of_policies_that_never_learned_seldom_count_as_learned(runs, best):
    """They score above random play from the start, and the best of many above the mean of all."""
    rng, trials, found = np.random.default_rng(4), 300, 0
    for _ in range(trials):
        ends, starts = rng.standard_normal((2, runs)) + 50
        every = [played([end - 0.1, end, end + 0.1] * 3, start) for end, start in zip(ends, starts)]
        chosen = comparisons.best_of(every, best) if best < runs else every
        found += lack(chosen, chosen_from=[every]) == ""
    assert found <= 0.08 * trials


def test_the_chance_is_that_of_all_tasks_and_few_games_tell_nothing():
    runs = [played([0.0, 0.2, 0.4, 0.6, 0.8])]
    assert lack(runs, upper=0.0) == ""
    told = learning.find_lack(any, "pong", [runs], [runs], player(0.0), tasks=57)
    assert "is not surely above a random player's 0" in told
    assert "3 on pong" in lack([played([3.0, 3.0, 3.0, 3.0])])
    assert lack([played([3.0] * 5)]) == ""


def test_scores_before_learning_are_the_highest_of_few_runs_and_an_interval_of_many():
    games = [5.0, 5.1, 4.9] * 2
    assert lack([played(games, start) for start in (4.0, 5.5)]).endswith(
        "not above the 5.5 that an untrained policy may score"
    )
    many = [played(games, start) for start in (4.0, 4.0, 4.1, 3.9, 4.0, 4.1, 3.9, 4.0, 4.0, 5.5)]
    assert lack(many) == ""
    assert (
        lack([played(games, 5.0) for _ in range(9)])
        == "5 on pong is not above the 5 that an untrained policy may score"
    )


def test_untrained_scores_are_limited_at_the_level_of_all_agents_and_tasks():
    games = [5.0, 5.01, 4.99] * 2
    runs = [played(games, start) for start in (4.0, 4.5, 4.3, 3.7, 4.0)]
    assert lack(runs) == ""
    assert "that an untrained policy may score" in learning.find_lack(
        any, "pong", [runs], [runs], player(0.2), tasks=57
    )


def test_agents_that_learned_nothing_seldom_count_as_learned():
    """Four runs of each of two agents on five tasks, whose untrained policies are far above random play."""
    rng, found, trials = np.random.default_rng(3), 0, 200
    for _ in range(trials):
        lacks = []
        for _ in range(5):
            agents = [[played(list(rng.normal(score, 0.01, 6)), rng.normal(5.0)) for score in rng.normal(5.0, 1.0, 4)]
                      for _ in range(2)]  # fmt: skip
            lacks.append(learning.find_lack(any, "pong", agents, agents, player(0.0), tasks=5))
        found += not all(lacks)
    assert found <= 0.06 * trials


def test_curves_that_begin_with_cut_episodes_do_not_tell_what_is_scored_before_learning():
    """Cut episodes score less, or more where a whole one has mostly losses: random play alone is the limit."""
    games = [5.0, 5.1, 4.9] * 2
    cut = [played(games, start) | {"config": {"env": {"stagger_steps": 900}}} for start in (5.5, 1.0)]
    assert lack(cut) == ""
    assert lack([played(games, 5.5)]) != ""
    assert lack(cut, upper=5.5).endswith("is not above a random player's 5.5")
    whole = [played(games, 5.5) | {"config": {"env": {"stagger_steps": 0}}}]
    assert lack(whole) != ""


def test_the_level_of_a_curve_must_show_learning_as_well():
    runs = [played([5.0, 5.1, 4.9] * 2, start=1.0)]
    assert lack(runs, level=1.5) == ""
    assert lack(runs, level=1.0) == "1 on pong is not above the 1 that an untrained policy may score"
    assert lack([played([5.0, 5.1, 4.9] * 2)], level=0.1) == "0.1 on pong is not above a random player's 0.2"


@pytest.mark.parametrize(
    ("enough", "those"),
    [
        (learning.all_but_one, {"1111", "0111", "1011", "1101", "1110"}),
        (learning.leaders_or_last, {"1110", *("".join(bits) + "1" for bits in itertools.product("01", repeat=3))}),
        (learning.last, {"".join(bits) + "1" for bits in itertools.product("01", repeat=3)}),
        (learning.both_before, {"0101", "0111", "1101", "1111"}),
        (learning.each_lead, {"1010", "1001", "0110", "0101", "1110", "1101", "1011", "0111", "1111"}),
        (learning.each_gain, {"1100", "1010", "0101", "0011", "1110", "1101", "1011", "0111", "1111"}),
    ],
)
def test_those_that_must_have_learned(enough, those):
    found = {"".join(map(str, bits)) for bits in itertools.product((0, 1), repeat=4) if enough([b == 1 for b in bits])}
    assert found == those


CHANGE = {"unit": "u", "value": 0, "protocol": {"against": ["a", "b", "c"]}}


@pytest.mark.parametrize(
    ("claim", "finals", "answered"),
    [
        ("difference_of_losses", (-900, 50, -900, 50), True),
        ("difference_of_losses", (50, 50, 50, -1000), False),  # what never learned loses nothing
        ("gaps_widened", (50, -1000, 40, -1000), True),
        ("gaps_widened", (50, 40, -1000, -1000), False),  # no lead before the change
        ("gains_ratio", (50, -1000, 20, 30), True),
        ("gains_ratio", (50, -1000, -1000, 30), False),  # no first gain to compare with
        ("place", (50, 40, -1000, 30), True),
        ("place", (50, -1000, -1000, 30), False),  # two without an order
        ("tasks_won", (50, -1000, -1000, -1000), True),
        ("tasks_led", (50, 40, 30, -1000), True),
        ("tasks_led", (50, 40, -1000, -1000), False),  # one that has not learned leads by chance
        ("last_surpassed", (-1000, -1000, -1000, 50), True),
        ("last_surpassed", (-1000, -1000, -1000, -1000), False),
        ("trend", (50, 40, -1000, 30), True),
        ("trend", (50, -1000, -1000, 30), False),
    ],
)
def test_every_agent_that_a_claim_rests_on_must_have_learned(tmp_path, claim, finals, answered):
    made = []
    for agent, final in zip(("impala_shallow", "a", "b", "c"), finals):
        made += make_runs(agent, *[{"final": float(final)}] * 2, games=GAMES)
    row = make_row(tmp_path, made, task="atari5", claim=claim, **CHANGE)
    assert (row.value is not None) == answered
    assert answered or "is not" in row.note and "above a random player's" in row.note


def test_a_random_player_whose_games_cannot_be_told_from_ours_answers_nothing(tmp_path):
    made = make_runs("impala_shallow", {}, {}) + make_runs("other", {}, {})
    for record in made:
        games = [15.0 + x for x in (-2000.0, 2000.0, 0.0, 1.0, -1.0)]
        record["evaluation"] |= {"returns": games, "mean": 15.0}
    row = make_row(tmp_path, made, claim="improvement", unit="u", value=0.5, protocol=TO_OTHER)
    assert (row.value, row.verdict) == (None, "not run")
    assert "is not surely above a random player's" in row.note
