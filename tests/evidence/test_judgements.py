"""Judgements: which band judges a record, what falls out, and the command that runs it again."""

import copy
import functools
import io
import pathlib

import pytest
import rich.console
from absl import flags
from absl.testing import flagsaver

from repro import reproduce
from repro.evidence import bands, judgements, outliers, random_player, records
from repro.launch.random_job import RandomJob
from tests.evidence.synthetic_records import make_record, random_records

FINALS = (10.0, 11.0, 12.0, 13.0, 14.0)


def _with_score(record, score):
    evaluation = record["evaluation"] | {"returns": [score, score], "episodes": 2, "mean": score, "std": 0.0}
    return record | {"evaluation": evaluation}


def _store(record):
    names = [record[key] for key in ("paper", "experiment", "task", "agent", "seed")]
    return records.StoredRecord(records.record_path("r", *names), record)


@pytest.fixture
def runs():
    return [_with_score(make_record(seed), final) for seed, final in enumerate(FINALS, start=1)]


@functools.cache
def committed():
    return tuple(records.read_all(records.ROOT / "results")[0])


def committed_here():
    """The same, by their paths from the root."""
    return [records.StoredRecord(item.path.relative_to(records.ROOT), item.record) for item in committed()]


def known_outliers():
    return outliers.explained(committed(), outliers.read(records.ROOT / "results"))


def _judge_rerun(record, runs):
    (found,) = judgements.judge([_store(record | {"seed": 9})], judgements.Reference(map(_store, runs)))
    return found


def test_only_the_worse_side_is_a_regression(runs):
    band = _judge_rerun(runs[0], runs).band
    assert not _judge_rerun(_with_score(runs[0], band.low), runs).fell_out
    assert not _judge_rerun(_with_score(runs[0], 1000.0), runs).fell_out
    found = _judge_rerun(_with_score(runs[0], band.low - 0.5), runs)
    assert found.fell_out
    assert "0.5 below the end" in found.message
    assert "mean 12 over 5 runs" in found.message
    assert found.message.endswith(found.command)


def test_each_run_is_judged_by_the_others(runs):
    found = judgements.judge([_store(run) for run in runs], judgements.Reference(map(_store, runs)))
    for i, item in enumerate(found):
        others = [run for run in runs if run is not runs[i]]
        assert item.band == bands.make_band(others, false_alarm_rate=bands.FALSE_ALARM_RATE / 5)
        assert (item.kind, item.fell_out) == (judgements.OWN, False)


def test_runs_from_before_a_field_and_after_it_judge_each_other(runs):
    for run in runs[3:]:
        run["config"] = copy.deepcopy(run["config"]) | {"later": {"field": 1}}
    found = judgements.judge([_store(run) for run in runs], judgements.Reference(map(_store, runs)))
    assert [item.kind for item in found] == [judgements.OWN] * 5
    runs[4]["config"]["later"]["field"] = 2  # of two that have it, they must agree
    found = judgements.judge([_store(run) for run in runs], judgements.Reference(map(_store, runs)))
    assert [len(item.band.values) for item in found] == [4, 4, 4, 3, 3]


def test_a_run_that_diverged_makes_no_band_and_is_a_regression_where_no_other_did(runs):
    """Its score, that of its last checkpoint, may well be in the band."""
    diverged = _with_score(runs[0], 13.0) | {"seed": 9, "diverged": "update 7 gave loss=nan"}
    found = _judge_rerun(diverged, runs)
    assert (found.fell_out, found.kind) == (True, judgements.OWN)
    assert "diverged (update 7 gave loss=nan), unlike the 5 others of its group" in found.message
    assert _judge_rerun(diverged, runs[:1]).fell_out  # too few for a band, and enough to say that it did not
    assert not _judge_rerun(diverged, []).fell_out
    assert not _judge_rerun(diverged | {"scale": "paper"}, runs).fell_out
    known = [*runs, diverged | {"seed": 8}]
    again = _judge_rerun(diverged, known)
    assert (again.fell_out, again.kind, again.reason) == (False, judgements.UNJUDGED, "It diverged.")
    assert _judge_rerun(runs[1], known).band == _judge_rerun(runs[1], runs).band


def test_a_committed_run_that_diverged_is_known_and_a_lone_new_one_is_not(runs):
    diverged = _with_score(runs[0], 13.0) | {"seed": 9, "diverged": "update 7 gave loss=nan"}
    committed = [_store(run) for run in (*runs, diverged)]
    known = {item.path for item in committed}
    assert [item.fell_out for item in judgements.judge_by((), committed, known=known)] == [False] * 6
    assert [item.fell_out for item in judgements.judge_by((), committed)] == [False] * 5 + [True]
    new = [records.StoredRecord(pathlib.Path("again") / item.path, item.record) for item in committed]
    assert [item.fell_out for item in judgements.judge_by(committed, new)] == [False] * 6
    elsewhere = [_store(make_record(seed, "alien")) for seed in (1, 2)]
    assert [item.fell_out for item in judgements.judge_by(elsewhere, new)] == [False] * 5 + [True]
    changed = copy.deepcopy(diverged["config"])
    changed["learner"]["learning_rate"] *= 2
    other = [*committed[:5], _store(diverged | {"config": changed})]
    assert [item.fell_out for item in judgements.judge_by(other, new)] == [False] * 5 + [True]  # of other settings


def test_a_band_of_all_runs_would_hold_any_of_them(runs):
    """One run of n lies at most (n - 1) / sqrt(n) standard deviations from their mean, so it cannot fall out of it."""
    runs = [_with_score(run, score) for run, score in zip(runs, (20.0, 20.1, 20.2, 20.3, -20.0))]
    assert bands.make_band(runs).holds(-20.0)
    found = judgements.judge([_store(run) for run in runs], judgements.Reference(map(_store, runs)))
    assert [item.fell_out for item in found] == [False] * 4 + [True]


def test_three_runs_have_the_spread_of_their_family(runs):
    others = [_with_score(make_record(seed, agent="other"), 50.0 + seed) for seed in (1, 2, 3, 4)]
    found = judgements.judge([_store(run) for run in runs[:3]], judgements.Reference(map(_store, [*runs[:3], *others])))
    assert [item.kind for item in found] == [judgements.POOLED] * 3
    elsewhere = [run | {"task": "alien"} for run in others]
    found = judgements.judge([_store(runs[0])], judgements.Reference(map(_store, [*runs[:3], *elsewhere])))
    assert (found[0].kind, "needs 4 runs" in found[0].reason) == (judgements.UNJUDGED, True)


def test_a_run_far_from_two_others_does_not_hide_in_the_spread_that_it_makes(runs):
    mine = [_with_score(run, score) for run, score in zip(runs, (20.0, 20.1, -20.0))]
    others = [_with_score(make_record(seed, agent="other"), 50.0 + 0.1 * seed) for seed in (1, 2, 3, 4)]
    found = judgements.judge([_store(run) for run in mine], judgements.Reference(map(_store, [*mine, *others])))
    assert [item.fell_out for item in found] == [False, False, True]


def test_above_random_play_other_tasks_are_of_the_family(runs):
    others = [_with_score(make_record(seed, "alien"), 5000.0 + 100 * seed) for seed in (1, 2, 3, 4)]
    random = random_records(("pong", "alien"), final=1.0)
    reference = judgements.Reference(map(_store, [*runs[:3], *others, *random]))
    (found,) = judgements.judge([_store(runs[0])], reference)
    assert found.kind == judgements.POOLED
    assert "pooled spread of 2 groups" in found.band.method
    low = found.band.low
    assert random[0]["evaluation"]["mean"] < low < 10.0


@pytest.mark.parametrize(("far", "above", "falls_out"), [(8.01, 0.0, True), (8.01, 1e-9, False), (7.99, 0.0, False)])
def test_a_score_at_random_level_falls_out_beside_runs_far_above_it(runs, far, above, falls_out):
    """With a chance of false alarms that makes the band itself far too wide to see it."""
    random = random_records(final=1.0)
    (level,) = random_player.levels(random).values()
    assert level.mean < level.upper
    scores = [level.upper + far + offset for offset in (-(1.5**0.5), 0, 0, 1.5**0.5)]  # their std is 1
    reference = judgements.Reference(map(_store, [*map(_with_score, runs, scores), *random]))
    rerun = _with_score(runs[0] | {"seed": 9}, level.upper + above)
    band = reference.band(rerun, false_alarm_rate=1e-9)
    found = judgements.Judgement(pathlib.Path("seed_9.json"), rerun, band)
    assert band.low < level.upper
    assert found.fell_out == falls_out
    assert (f"not above the {level.upper:.6g} that random play may reach" in found.message) == falls_out


def test_random_players_are_not_judged_by_random_play():
    made = [random_records(final=final)[0] | {"seed": seed} for seed, final in enumerate((1.0, 1.1, 5.0, 1.2, 1.3), 1)]
    found = judgements.judge(list(map(_store, made)), judgements.Reference(map(_store, made)))
    assert {item.band.floor for item in found} == {None}
    assert "log" not in found[0].message


def test_a_single_run_is_not_judged_and_says_so(runs):
    (found,) = judgements.judge([_store(runs[0])], judgements.Reference([_store(runs[0])]))
    assert (found.kind, found.fell_out) == (judgements.UNJUDGED, False)
    assert "no other run of it" in found.message


def test_band_of_another_scale_or_config_judges_nothing(runs):
    bad = _with_score(runs[0], -1000.0)
    assert _judge_rerun(bad, runs).fell_out
    assert not _judge_rerun(bad | {"scale": "paper"}, runs).fell_out
    changed = copy.deepcopy(bad)
    changed["config"]["learner"]["learning_rate"] *= 2
    assert not _judge_rerun(changed, runs).fell_out


def test_the_committed_runs_of_a_group_judge_before_those_of_the_folder(runs):
    again = [_store(_with_score(run, -50.0 - run["seed"])) for run in runs]
    assert not any(item.fell_out for item in judgements.judge_by([], again))
    elsewhere = [records.StoredRecord(pathlib.Path("committed") / item.path, item.record) for item in map(_store, runs)]
    assert all(item.fell_out for item in judgements.judge_by(elsewhere, again))


def _beside_enough_others():
    """How many committed runs have so many others that are no outliers in their group that they make a band."""
    sound = [judgements.group_of(item.record) for item in committed() if item.path not in known_outliers()]
    outside = [judgements.group_of(item.record) for item in committed() if item.path in known_outliers()]
    return sum(sound.count(key) >= bands.MIN_RUNS for key in sound) + sum(
        sound.count(key) >= bands.MIN_RUNS - 1 for key in outside
    )


def test_committed_records_are_in_their_bands():
    found = judgements.judge_by((), committed(), outliers=known_outliers())
    assert [item.message for item in found if item.fell_out] == []
    kinds = [item.kind for item in found]
    assert kinds.count(judgements.OWN) == _beside_enough_others() >= 5
    assert kinds.count(judgements.POOLED) > 0


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_a_committed_record_lowered_to_random_play_falls_out(seed):
    """Whichever of the five runs of IMPALA on Breakout it is; nothing else falls out because of it."""
    levels = random_player.levels(item.record for item in committed())
    (item,) = (item for item in committed() if item.record["agent"] == "impala_shallow" and item.record["seed"] == seed)
    lowered = _with_score(item.record, levels[random_player.game_of(item.record)].upper)
    others = [other for other in committed() if other is not item]
    items = [*others, records.StoredRecord(item.path, lowered)]
    found = judgements.judge_by((), items, outliers=known_outliers())
    assert [judged.path for judged in found if judged.fell_out] == [item.path]


def test_the_command_of_tasks_learned_together_makes_them_all():
    record = make_record(2, "pong", experiment="atari_57", agent="impala_multitask")
    command = judgements.rerun_command(record).split()
    assert not any(flag.startswith("--task") for flag in command)
    with flagsaver.flagsaver():
        flags.FLAGS(command[2:])
        (job,) = reproduce.find_jobs()
    assert job.seed == 2
    assert len(job.record_paths) == 10
    assert pathlib.Path("runs/again/records/impala/atari_57/pong/impala_multitask/seed_2.json") in job.record_paths


def test_the_command_makes_exactly_that_record():
    """Of every committed record: one job, at its place below another folder."""
    assert len({item.record["agent"] for item in committed()}) > 20
    for item in committed():
        command = judgements.rerun_command(item.record).split()
        assert command[:3] == [".venv/bin/python", "-m", "repro.reproduce"]
        with flagsaver.flagsaver():
            flags.FLAGS(command[2:])
            (job,) = reproduce.find_jobs()
        assert (job.config.scale, job.seed) == (item.record["scale"], item.record["seed"])
        names = [item.record[key] for key in ("paper", "experiment", "task", "agent", "seed")]
        place = records.record_path("runs/again/records", *names)
        assert place in job.record_paths
        if item.record["agent"] == random_player.AGENT:
            assert isinstance(job, RandomJob)
        elif "study" not in item.record["config"]:
            assert (job.config.agent, job.record_paths) == (item.record["agent"], [place])


@pytest.mark.parametrize(
    ("score", "words"), [(20.0, "in its band from"), (2.0, "below the end"), (1.0, "that random play may reach")]
)
def test_reproduce_says_whether_a_rerun_is_in_the_committed_band(monkeypatch, score, words):
    monkeypatch.chdir(records.ROOT)
    (item,) = (item for item in committed() if item.record["agent"] == "impala_shallow" and item.record["seed"] == 3)
    other = next(item for item in committed() if item.record["schedule"] == "study")
    again = [
        records.StoredRecord(pathlib.Path("runs/again") / stored.path.name, record)
        for stored, record in ((item, _with_score(item.record, score)), (other, other.record | {"seed": 2}))
    ]
    console = rich.console.Console(file=io.StringIO(), width=80)
    with flagsaver.flagsaver():
        flags.FLAGS(judgements.rerun_command(item.record).split()[2:])
        reproduce._show_bands(again, committed_here(), console)
    said = console.file.getvalue()
    assert said.startswith(f"runs/again/seed_3.json holds {score:g} game score")
    assert words in said
    assert "mean 20.571 over 5 runs" in said
    assert said.endswith("1 of 2 records have no band: too few committed runs.\n")


def test_reproduce_says_of_a_rerun_that_diverged_that_no_other_did(monkeypatch):
    monkeypatch.chdir(records.ROOT)
    (item,) = (item for item in committed() if item.record["agent"] == "impala_shallow" and item.record["seed"] == 3)
    diverged = item.record | {"seed": 9, "diverged": "update 7 gave loss=nan"}
    console = rich.console.Console(file=io.StringIO(), width=80)
    with flagsaver.flagsaver():
        flags.FLAGS(judgements.rerun_command(item.record).split()[2:])
        stored = [records.StoredRecord(pathlib.Path("runs/again/seed_9.json"), diverged)]
        reproduce._show_bands(stored, committed_here(), console)
    said = console.file.getvalue()
    assert "seed_9.json is of a run that diverged (update 7 gave loss=nan), unlike the 5 others of its group" in said
    assert "have no band" not in said
