"""C-trace's printed statements about contraction rates, answered by synthetic records of some or all games."""

import json

import numpy as np
import pytest
import scipy.stats

from repro.evidence import claim_kinds, published, random_player, staleness, statistics, verdicts
from tests.evidence.claim_rows import answered_rows
from tests.evidence.synthetic_records import make_record

GAMES = list(published.normaliser("atari57"))
TARGET = np.mean(np.maximum(0.997**10, 0.997 ** np.arange(80, 0, -1.0)))  # of a sequence's 80 rows, 0.9721
PRINTED = 0.997**10
ABOVE = ("Figure 12", "games_retrace_above")
OF_CTRACE = "C-trace-R2D2, rate minus target"
BELOW = ("Figure 12", "games_retrace_below", "C-trace-R2D2 against Retrace-R2D2")
THROUGHOUT = ("Figure 13", "atari57", "C-trace-R2D2, rate minus target, throughout training")
NOT_BELOW = ("Figure 13", "games_retrace_above", "C-trace-R2D2, target minus rate, throughout training")


def _run(agent, game, seed, end, start=0.9, scale="desk"):
    """A record whose log is ten rows, nine of `start` and one of `end`, with the target of whole sequences."""
    config = staleness.current_config("ctrace", "r2d2", scale)
    rates = [start] * 9 + [end]
    columns = ["num_env_frames", "contraction", "contraction_target"]
    series = {"columns": columns, "rows": [[i, rate, TARGET] for i, rate in enumerate(rates)]}
    made = make_record(seed, game, "r2d2", agent, config=config, scale=scale, episodes=30, series=series)
    return made | {"paper": "ctrace"}


def _runs(ends, scale="desk"):
    """Records of both agents: game to the ends of C-trace's runs and of Retrace's."""
    return [
        _run(agent, game, seed, end, scale=scale)
        for game, of_agents in ends.items()
        for agent, of_agent in zip(("ctrace", "retrace"), of_agents)
        for seed, end in enumerate(of_agent, start=1)
    ]


def _rows(made, directory=published.PUBLISHED_DIR):
    return answered_rows("ctrace", made, directory)


THREE = {
    "pong": ((0.97, 0.98), (0.990, 0.992)),  # Retrace above the target
    "breakout": ((0.97, 0.97), (0.960, 0.990)),  # above on average
    "alien": ((0.95, 0.96), (0.960, 0.964)),  # below
}


def test_games_are_chosen_by_the_rate_of_retrace():
    found = _rows(_runs(THREE))
    of_ctrace = found[(*ABOVE, OF_CTRACE)]
    assert of_ctrace.value == pytest.approx((0.975 + 0.97) / 2 - TARGET)
    assert found[BELOW].value == pytest.approx(0.955 - 0.962)
    assert found[THROUGHOUT].value == pytest.approx(0.9 * 0.9 + 0.1 * 0.975 - TARGET)  # of the game with the most
    for row, counted in ((of_ctrace, 2), (found[BELOW], 1)):
        assert (row.verdict, row.seeds, row.interval) == ("undecided", (1, 2), None)  # no bootstrap of two runs
        assert "3 of 57 tasks" in row.shortfalls
        assert row.note.startswith(f"{counted} of the 3 tasks belong to this row")
    assert of_ctrace.command == (
        "make reproduce-ctrace EXPERIMENT=r2d2 AGENT=ctrace,retrace TASK=breakout,pong SCALE=desk SEEDS=2"
    )
    assert "3 of 57 tasks" in found[THROUGHOUT].shortfalls


def test_games_without_both_agents_do_not_count():
    lone = [_run("ctrace", "asterix", seed, 0.5) for seed in (1, 2)]
    found = _rows(_runs(THREE) + lone)
    assert found[(*ABOVE, OF_CTRACE)].value == pytest.approx((0.975 + 0.97) / 2 - TARGET)
    assert found[BELOW].value == pytest.approx(0.955 - 0.962)
    assert "4 of 57 tasks" in found[THROUGHOUT].shortfalls  # about C-trace alone
    row = _rows(lone)[BELOW]
    assert row.verdict == "not run"
    assert row.note.startswith("needs 2 runs of retrace on one task, with contraction")


def test_a_row_to_which_no_game_belongs_is_not_run():
    found = _rows(_runs({"alien": THREE["alien"]}))
    row = found[(*ABOVE, OF_CTRACE)]
    assert (row.value, row.verdict) == (None, "not run")
    assert row.note.startswith("none of the tasks with records of all agents compared belongs to this row")
    assert found[BELOW].value == pytest.approx(0.955 - 0.962)


def test_records_without_rates_answer_nothing():
    made = [
        record | {"series": {"columns": ["num_env_frames", "seconds"], "rows": [[1, 1.0]]}} for record in _runs(THREE)
    ]
    found = _rows(made)
    assert {found[key].verdict for key in (BELOW, THROUGHOUT, (*ABOVE, OF_CTRACE))} == {"not run"}


@pytest.fixture(scope="module")
def whole():
    """Every game at paper scale, four runs: on the first 40 Retrace lies above the target, on the others below."""
    rng = np.random.default_rng(1)
    return {
        game: tuple(
            tuple(end + 0.003 * rng.standard_normal(4))
            for end in ((TARGET, 0.99) if i < 40 else (0.95, 0.95))
        )
        for i, game in enumerate(GAMES)
    }  # fmt: skip


def test_with_all_games_there_are_intervals_and_verdicts(whole):
    found = _rows(_runs(whole, scale="paper"))
    for row, word in (
        (found[(*ABOVE, OF_CTRACE)], "precisely"),
        (found[BELOW], "closely"),
        (found[THROUGHOUT], "attained"),
    ):
        assert (row.finding, row.shortfalls) == (
            "agrees",
            (f"assumed: what is {word}; the budget; the actors' epsilons; alpha's first value (deviation 15)",),
        )
        assert row.interval[0] <= row.value <= row.interval[1]
        assert (row.interval_over, row.seeds) == ("seeds", (1, 2, 3, 4))
    assert "40 of the 57 tasks belong to this row" in found[(*ABOVE, OF_CTRACE)].note
    missed = {game: ((0.98, 0.981, 0.98, 0.981), theirs) for game, (_, theirs) in whole.items()}
    assert _rows(_runs(missed, scale="paper"))[(*ABOVE, OF_CTRACE)].finding == "contradicts"
    faster = {game: ((0.96, 0.961, 0.96, 0.961), theirs) for game, (_, theirs) in whole.items()}
    found = _rows(_runs(faster, scale="paper"))  # the target is to be met, and not to be undercut
    assert (found[(*ABOVE, OF_CTRACE)].finding, found[THROUGHOUT].finding) == ("contradicts", "agrees")


def test_a_rate_far_below_its_target_does_not_attain_it(whole):
    """It begins at 0.9: one row of Figure 13 agrees with that, the other one does not."""
    found = _rows(_runs(whole, scale="paper"))
    assert (found[THROUGHOUT].finding, found[NOT_BELOW].finding) == ("agrees", "contradicts")
    assert "40 of the 57 tasks belong to this row" in found[NOT_BELOW].note
    made = [
        _run(agent, game, seed, TARGET + (end - TARGET) / 10, start=TARGET, scale="paper")
        for game, of_agents in whole.items()
        for agent, of_agent in zip(("ctrace", "retrace"), of_agents)
        for seed, end in enumerate(of_agent, start=1)
    ]
    found = _rows(made)
    assert (found[THROUGHOUT].finding, found[NOT_BELOW].finding) == ("agrees", "agrees")


def test_two_runs_as_in_the_paper_have_no_bootstrap_interval(whole):
    two = {game: tuple(ends[:2] for ends in of_agents) for game, of_agents in whole.items()}
    row = _rows(_runs(two, scale="paper"))[(*ABOVE, OF_CTRACE)]
    assert (row.verdict, row.interval, row.shortfalls) == (
        "undecided",
        None,
        ("assumed: what is precisely; the budget; the actors' epsilons; alpha's first value (deviation 15)",),
    )


def test_a_perfect_agent_reproduces_the_rate_and_one_at_the_printed_number_does_not(whole):
    """A C-trace on its own target, without noise; its mean rate over all rows is not gamma^10."""
    tiny = 1e-6 * np.array([-1, -1, 1, 1])  # equal runs would have no interval
    perfect = {game: (tuple(TARGET + tiny), theirs) for game, (_, theirs) in whole.items()}
    row = _rows(_runs(perfect, scale="paper"))[(*ABOVE, OF_CTRACE)]
    assert row.value == pytest.approx(0, abs=1e-9)
    assert row.finding == "agrees"
    printed = {game: (tuple(PRINTED + tiny), theirs) for game, (_, theirs) in whole.items()}
    assert _rows(_runs(printed, scale="paper"))[(*ABOVE, OF_CTRACE)].finding == "contradicts"


def test_a_retrace_between_the_printed_rate_and_the_target_is_below():
    """Its mean rate is above gamma^10 by the rows with few steps left alone: no alpha reaches the target."""
    between = (PRINTED + TARGET) / 2
    found = _rows(_runs({"pong": ((between, between), (between, between))}))
    assert found[BELOW].value == 0
    assert found[(*ABOVE, OF_CTRACE)].verdict == "not run"


def test_the_interval_is_that_of_scipy_s_bootstrap_within_games(whole):
    """Interval of the mean over the chosen games of means over four runs, each game sampled by itself."""
    row = _rows(_runs(whole, scale="paper"))[(*ABOVE, OF_CTRACE)]
    chosen = [np.array(whole[game][0]) for game in GAMES[:40]]
    expected = scipy.stats.bootstrap(
        chosen, lambda *of, axis: np.mean([game.mean(axis=axis) for game in of], axis=0), n_resamples=20_000,
        confidence_level=statistics.expanded_level(0.95, 4, 240), method="percentile", rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    assert row.value == pytest.approx(np.mean(chosen) - TARGET, abs=1e-9)
    assert row.interval == pytest.approx((expected.low - TARGET, expected.high - TARGET), abs=5e-5)


def test_the_games_are_split_at_the_target_of_retrace():
    split = [row for row in published.load("ctrace").rows if "split_by" in row.protocol]
    assert [row.protocol["split_side"] for row in split] == ["above", "below", "above", "below", "above"]
    for row in split:
        assert row.protocol["split_at"] == 0
        assert row.protocol["split_by"] == "retrace"
        assert row.protocol["split_by"] in (row.agent, *row.protocol["against"])


@pytest.mark.parametrize("missing", ["split_at", "split_side", "against"])
def test_a_split_that_is_not_said_in_full_is_refused(tmp_path, missing):
    data = json.loads((published.PUBLISHED_DIR / "ctrace.json").read_text())
    row = next(row for row in data["rows"] if row["table"] == "Figure 12")
    del row["protocol"][missing]
    (tmp_path / "ctrace.json").write_text(json.dumps(data))
    with pytest.raises(published.PublishedError, match=f"'{missing}' is a dependency of 'split_by'"):
        published.load("ctrace", tmp_path)


def test_the_printed_claims_that_are_answered():
    answered = [row for row in published.load("ctrace").rows if row.claim is not None]
    assert all(claim_kinds.find_claim(row) for row in answered)
    of = {table: sum(row.table == table for row in answered) for table in dict.fromkeys(r.table for r in answered)}
    assert of == {"Figure 4": 19, "Appendix E": 7, "Figure 10": 6, "Figure 12": 4, "Figure 13": 2}


@pytest.mark.parametrize(
    ("measured", "better", "finding", "of"),
    [
        ("mean human-normalised score", "more", "agrees", lambda scores: np.mean(scores)),
        ("median human-normalised score", "more", "contradicts", lambda scores: np.median(scores)),
        ("mean human gap closed", "more", "contradicts", lambda scores: np.mean([min(score, 1) for score in scores])),
    ],
)
def test_aggregates_of_human_normalised_scores_are_compared_by_their_ratio(measured, better, finding, of):
    finals = {"pong": (20.0, -10.0), "breakout": (10.0, 23.0), "boxing": (3.0, 9.0)}  # of C-trace and Retrace
    made = [
        _run(agent, game, seed, 0.97) | {"evaluation": _evaluation(game, agent, seed, final)}
        for game, pair in finals.items()
        for agent, final in zip(("ctrace", "retrace"), pair)
        for seed in (1, 2, 3, 4)
    ]
    row = _rows(made + _random(finals))["Figure 4", "atari57", f"C-trace-R2D2 over Retrace-R2D2, {measured}"]

    def aggregate(agent):
        scores = []
        for game in finals:
            reference = published.normaliser("atari57")[game]
            score = np.mean([r["evaluation"]["mean"] for r in made if (r["task"], r["agent"]) == (game, agent)])
            scores.append((score - reference["random"]) / (reference["human"] - reference["random"]))
        return of(scores)

    assert row.value == pytest.approx(aggregate("ctrace") / aggregate("retrace"))
    printed = next(r for r in published.load("ctrace").rows if r.column == row.column)
    assert row.better == better
    assert verdicts.find(1.0, better, row.interval, printed.tolerance(0.0)) == finding
    assert (row.finding, row.note.partition(";")[0][:27]) == (
        "undecided",
        "the answer differs without ",
    )  # of three games alone
    assert "3 of 57 tasks" in row.shortfalls
    assert row.interval[0] < row.value < row.interval[1]


def _random(games):
    """A random player's record on each game, with a score below all others."""
    made = [_run("retrace", game, 1, 0.97) for game in games]
    config = staleness.agent_config("ctrace", "r2d2", "desk", random_player.AGENT)
    changes = {"agent": random_player.AGENT, "config": config}
    return [r | changes | {"evaluation": _evaluation(r["task"], "retrace", 1, -1000.0)} for r in made]


def _evaluation(game, agent, seed, final):
    return make_record(seed, game, "r2d2", agent, final, config={"num_env_frames": 10}, episodes=30)["evaluation"]


def test_every_agent_of_a_row_can_be_run():
    for row in published.load("ctrace").rows:
        if row.experiment in ("dqn", "r2d2"):
            for other in (row.agent, *row.protocol.get("against", ())):
                experiment, agent = other.split("/") if "/" in other else (row.experiment, other)
                assert agent in staleness.current_config("ctrace", experiment, "paper")["variants"], row.column
    lambdas = [row for row in published.load("ctrace").rows if "lambda" in row.column and row.claim]
    assert len(lambdas) == 4
    for row in lambdas:
        (other,) = row.protocol["against"]
        assert other == f"{row.agent}_lambda97"


def test_n_of_r2d2_s_own_agent_is_not_given_as_printed():
    """Section 4.1 prints n = 10 for the rate that C-trace aims for, and no n of the n-step agent."""
    settings = [s for s in published.load("ctrace").settings if s.name.startswith("n of ")]
    assert [(s.name, s.value, set(s.experiments)) for s in settings] == [
        ("n of the update whose contraction rate is targeted", 10, {"r2d2", "dqn"})
    ]
    against = {other for row in published.load("ctrace").rows for other in row.protocol.get("against", ())}
    assert "n_step_5" in against
    assert not against & {"n_step", "r2d2/n_step"}


def _scored(experiment, agent, game, finals, scale="desk"):
    config = staleness.agent_config("ctrace", experiment, scale, agent)
    return [
        make_record(seed, game, experiment, agent, final, config=config, scale=scale, episodes=30) | {"paper": "ctrace"}
        for seed, final in enumerate(finals, start=1)
    ]


TWO_GAMES = ("pong", "breakout")


def test_the_gap_of_r2d2_is_over_that_of_dqn():
    """Of n-step returns over Retrace: 60 % here and 20 % there, of mean scores above random play, which all surpass."""

    def final(game, share):
        reference = published.normaliser("atari57")[game]
        return reference["random"] + share * (reference["human"] - reference["random"])

    noise = np.array([-0.001, 0.001, -0.002, 0.002])
    random = [record for game in TWO_GAMES for experiment in ("r2d2", "dqn")
              for record in _scored(experiment, random_player.AGENT, game, [-1000.0])]  # fmt: skip

    def row(*shares):
        agents = [("r2d2", "n_step_5"), ("r2d2", "retrace"), ("dqn", "n_step_5"), ("dqn", "retrace")]
        made = [record for game in TWO_GAMES for (experiment, agent), share in zip(agents, shares, strict=True)
                for record in _scored(experiment, agent, game, [final(game, share + x) for x in noise])]  # fmt: skip
        found = _rows([*made, *random])
        return found["Figure 4", "atari57", "n-step over Retrace, lead in R2D2 over lead in DQN"]

    decided, unlearned = row(0.8, 0.5, 0.6, 0.5), row(0.8, 0.5, 0.6, -300.0)
    assert decided.value == pytest.approx(1.6 / 1.2, rel=1e-4)
    assert decided.finding == "agrees"
    assert (unlearned.value, unlearned.finding) == (None, "not run")


def test_a_target_that_is_missed_on_one_game_is_not_made_up_for_by_the_others():
    """On average over the games the rate is below the target."""
    noise = 1e-5 * np.array([-1, 1, -2, 2])
    made = [
        _run("ctrace", game, seed, excess + TARGET + x, start=excess + TARGET + x, scale="paper")
        for game, excess in (("pong", 0.02), ("breakout", -0.03), ("alien", -0.03))
        for seed, x in enumerate(noise, start=1)
    ]
    row = _rows(made)[THROUGHOUT]
    assert row.value == pytest.approx(0.02)
    assert row.finding == "contradicts"
