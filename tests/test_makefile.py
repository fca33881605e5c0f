"""The Makefile's list of targets, and its message about unknown ones."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def make(*words: str) -> subprocess.CompletedProcess:
    alone = {name: text for name, text in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", "--dry-run", *words]
    return subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False)


def test_help_has_the_target_that_reproduces_a_paper():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "reproduce-<paper>   train, evaluate, record, report; SCALE=smoke|desk|paper" in done.stdout
    assert "one of acer ctrace impala refer stac" in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["reproduce-impala", "TASKS=pong"], "there is no variable TASKS; choose one of "),
        (["reproduce-impala", "task=pong", "SCALE=smoke"], "there is no variable task; choose one of "),
    ],
)
def test_a_misspelled_variable_ends_the_command(words, sentence):
    done = make(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr


def test_a_paper_that_is_not_there_is_answered_with_those_that_are():
    for target in ("reproduce", "reproduce-impla"):
        done = subprocess.run(["make", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "choose reproduce-acer reproduce-ctrace reproduce-impala" in done.stderr


def test_variables_become_flags():
    done = make("reproduce-impala", "TASK=pong,breakout", "SEEDS=3", "JOBS=2")
    assert done.stdout.splitlines()[-1].endswith(
        "-m repro.reproduce --paper=impala --scale=desk --seeds=3 --jobs=2 --task=pong,breakout"
    )


def test_a_folder_that_the_environment_names_is_not_meant(monkeypatch):
    monkeypatch.setenv("OUT", "somewhere")
    assert make("reproduce-impala").stdout.splitlines()[-1].endswith("--scale=desk --seeds=1")


def test_runs_records_and_page_may_have_a_folder_of_their_own():
    done = make("reproduce-impala", "OUT=runs/again")
    assert done.stdout.splitlines()[-1].endswith("--seeds=1 '--runs_dir=runs/again' '--results_dir=runs/again/records'")


@pytest.mark.parametrize("words", [(), ("PEER=cleanrl",)])
def test_another_program_needs_its_name_and_its_source(words):
    lines = make("benchmark-peer", *words).stdout.splitlines()
    assert [line for line in lines if "is missing." in line and line.startswith("test -n")]


def test_another_program_has_pytorch_where_it_needs_it_and_flags():
    done = make("benchmark-peer", "PEER=cleanrl", "SOURCE=x")
    assert "--requirement requirements-peers.lock" in done.stdout
    assert "-m repro.benchmarks.peers --peer=cleanrl --source=x --json=" in done.stdout
    assert "requirements-peers.lock" not in make("benchmark-peer", "PEER=smarties", "SOURCE=x").stdout


def test_seconds_of_a_soak_are_a_number():
    done = subprocess.run(["make", "soak", "SECONDS=x"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "make soak: SECONDS=x is no number of seconds.")


def test_the_libraries_of_a_gpu_come_when_they_are_asked_for_and_after_all_else():
    own, cuda = "--no-deps --no-build-isolation --editable .\n", "--no-build-isolation --editable .[cuda]\n"
    done = make("--always-make", "setup", "CUDA=1")
    assert done.returncode == 0, done.stderr
    assert 0 < done.stdout.find(own) < done.stdout.find(cuda)
    assert done.stdout.endswith("touch .venv/cuda\n")
    without = make("--always-make", "setup").stdout
    assert own in without
    assert "cuda" not in without


def test_the_extra_of_a_gpu_is_the_tensorflow_that_is_locked():
    extras = (ROOT / "setup.cfg").read_text()
    version = re.search(r"^cuda =\n    tensorflow\[and-cuda\]==(\S+)$", extras, re.M)[1]
    assert f"\ntensorflow=={version}\n" in (ROOT / "requirements.lock").read_text()
