"""A short training gives the same measures again, and how trainings are judged."""

import math
import signal
import subprocess
import sys

import pytest

from repro.regression import reference_values, trainings
from repro.regression.bands import TRIES, Band
from repro.regression.measuring import summarize
from repro.regression.reference_runs import RUNS
from repro.regression.trainings import Training, judge_run, judge_tries, train
from repro.training.trainer import Update
from tests.support.forked_train import run_program

RUN = next(run for run in RUNS if run.name == "impala_catch")
SHORT = RUN._replace(fields={**RUN.fields, "num_env_steps": 6_400}, episodes=10)


def updates(values):
    return [Update(i, i, 0.0, {"loss": value, "entropy": 2.0}, float(i), 10.0 * i, i) for i, value in enumerate(values)]


def test_measures_of_a_log_by_hand():
    values = summarize(updates([math.nan] * 10 + [5.0, 4.0, *range(16), 6.0, 8.0]))
    assert values["return, middle third"] == 145.0  # updates 10 to 19
    assert values["return, last third"] == 245.0  # 20 to 29
    assert values["episodes"] == 29.0
    assert values["policy lag"] == 14.5
    assert values["loss, first tenth"] == 4.5
    assert values["loss, last third"] == 12.5  # of 12, 13, 14, 15, 6, 8 and no others
    assert values["loss, spread"] == 4.75
    assert values["entropy, spread"] == 0.0


def test_a_run_that_never_learned_has_no_loss():
    assert math.isnan(summarize(updates([math.nan] * 12))["loss, last third"])


@pytest.mark.slow
def test_the_same_seed_gives_the_same_measures_and_another_does_not():
    first, again, other = (train(SHORT, seed) for seed in (1, 1, 2))
    assert not first.error
    # Episodes that end while the learner works are counted with this update or with the next.
    learned = {name for name in first.values if not name.startswith(("return", "episodes"))}
    assert len(learned) > 20
    for name in learned:
        assert first.values[name] == again.values[name], name
    assert any(first.values[name] != other.values[name] for name in learned)


def test_a_training_that_fails_is_a_regression_with_its_reason():
    broken = SHORT._replace(fields={**SHORT.fields, "learner": {**SHORT.fields["learner"], "learning_rate": 1e30}})
    training = train(broken, 1)
    assert training.diverged
    assert not judge_tries([training], {}).is_final  # another seed may not
    result = judge_tries([training] * TRIES, {})
    assert (result.is_final, result.passed, result.error) == (True, False, "")


def test_a_crash_gives_no_verdict_and_is_shown():
    training = train(SHORT._replace(config="impala.nothing"), 1)
    result = judge_tries([training], {})
    assert (result.is_final, result.passed) == (True, False)
    assert "ModuleNotFoundError" in result.error
    assert "Traceback" in result.error


@pytest.mark.parametrize("bands", [{}, {"a": Band(0.0, 1.0), "b": Band(0.0, 1.0)}])
def test_measures_without_a_band_and_bands_without_a_measure_give_no_verdict(bands):
    result = judge_tries([Training(RUN, 1, {"a": 0.5}, 1.0)], bands)
    assert not result.passed
    assert "--make_bands --again" in result.error


def test_seeds_are_trained_until_one_is_within_its_bands(monkeypatch):
    seen = []

    def fake(run, seed):
        seen.append(seed)
        return Training(run, seed, {"a": 0.5 if seed == 12 else 2.0}, 1.0)

    monkeypatch.setattr(trainings, "train", fake)
    bands = {"a": Band(0.0, 1.0)}
    assert judge_run(RUN, bands, 11).passed
    assert seen == [11, 12]
    seen.clear()
    result = judge_run(RUN, bands, 1)
    assert len(seen) == TRIES
    assert not result.passed
    assert [outlier.measure for outlier in result.confirmed] == ["a"]


def test_tries_follow_until_one_is_within_its_bands():
    bands, inside = {"a": Band(0.0, 1.0)}, Training(RUN, 12, {"a": 0.5}, 1.0)
    outside = [Training(RUN, seed, {"a": 2.0}, 1.0) for seed in range(TRIES)]
    assert not any(judge_tries(outside[:count], bands).is_final for count in range(1, TRIES))
    result = judge_tries([outside[0], inside], bands)
    assert (result.is_final, result.passed) == (True, True)
    result = judge_tries(outside, bands)
    assert (result.is_final, result.passed) == (True, False)
    assert [outlier.measure for outlier in result.confirmed] == ["a"]


@pytest.mark.parametrize("flag", ["--only=impala_cach", "--only=vracer,nothing_like_it", "--only=acer,"])
def test_an_unknown_run_is_refused(flag):
    done = subprocess.run(
        [sys.executable, "-m", "repro.regression", flag], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "there is no reference run" in done.stderr
    assert "Traceback" not in done.stderr


def test_fast_leaves_out_what_finds_nothing_that_others_do_not():
    command = [sys.executable, "-m", "repro.regression", "--fast", "--only=cartpole"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("--fast leaves out all of --only=cartpole.\n")


SHARES = """
import sys
from repro.regression import __main__ as command

def check(runs, bands, jobs):
    assert set(bands) == {run.name for run in runs}
    print("checked", *(run.name for run in runs))
    return {}

command.check = check
command.flags.FLAGS(["regression"])
for first in range(1, 4):
    assert command._check_all(command.RUNS, first, 3)
"""


def test_shares_are_all_runs_together_and_about_as_long(tmp_path):
    done = run_program(tmp_path, SHARES)
    assert done.returncode == 0, done.stderr
    shares = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("checked")]
    assert sorted(sum(shares, [])) == sorted(run.name for run in RUNS)
    references = reference_values.read()
    seconds = [sum(references[name].seconds for name in share) for share in shares]
    assert max(seconds) < 1.25 * min(seconds)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--share=3/2"], "--share='3/2': give k/n with k from 1 to n, such as 1/2."),
        (["--share=2/2", "--only=impala_catch"], "--share=2/2: this share has no reference run."),
        (["--share=1/2", "--make_bands"], "--share is not allowed with --make_bands."),
    ],
)
def test_a_share_that_cannot_be_is_refused(arguments, sentence):
    command = [sys.executable, "-m", "repro.regression", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"{sentence}\n")


def test_processes_end_with_the_one_that_began_them(tmp_path):
    """By the signal that the system has for it."""
    get_signal = 2  # prctl's PR_GET_PDEATHSIG
    program = f"""
import ctypes
from repro.regression import trainings
number = ctypes.c_int()
trainings._start_process()
ctypes.CDLL(None).prctl({get_signal}, ctypes.byref(number))
print(number.value)
"""
    done = run_program(tmp_path, program)
    assert (done.returncode, done.stdout) == (0, f"{signal.SIGTERM:d}\n"), done.stderr
