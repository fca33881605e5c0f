"""A further paper needs a package, configs and published numbers; no other file changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOY = Path(__file__).with_name("toy_paper")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the suite with the toy's files among the others."""
    folder = tmp_path_factory.mktemp("suite")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("repro", "paper_configs"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        shutil.copytree(TOY / name, folder / name, ignore=ignored, dirs_exist_ok=True)
    for name in ("Makefile", "requirements.lock", "setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    published = folder / "paper_configs/published"
    sums = subprocess.run("sha256sum *.json */*.json", shell=True, cwd=published, capture_output=True, check=True)
    (published / "SHA256SUMS").write_bytes(sums.stdout)
    return folder


def run(tree, *command):
    environment = os.environ | {"PYTHONPATH": str(tree)}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
def test_a_toy_paper_runs_from_training_to_the_page(tree):
    flags = ("--paper=toy", "--agent=slow,fast", "--results_dir=results")
    done = run(tree, sys.executable, "-m", "repro.reproduce", *flags)
    assert done.returncode == 0, done.stderr
    assert "500" in done.stdout
    assert done.stderr.count(" is complete after 6,400 steps") == 2
    assert "Evaluate it with" not in done.stderr  # it is evaluated at once
    record = json.loads((tree / "results/toy/cartpole/CartPole-v1/fast/seed_1.json").read_text())
    assert record["config"]["learner"]["learning_rate"] == 1e-2
    assert record["evaluation"]["episodes"] == 10
    assert record["num_env_steps"] == 6_400
    checked = run(tree, sys.executable, "-m", "repro.check")
    assert checked.returncode == 0, checked.stderr
    assert "toy: 1 printed numbers and sentences" in checked.stdout
    assert "There is no paper." in (tree / "report/index.html").read_text()


def test_the_commands_know_it(tree):
    assert "--paper=toy" in run(tree, "make", "--dry-run", "reproduce-toy").stdout
    assert "--paper=toy --scale=smoke" in run(tree, "make", "--dry-run", "smoke").stdout
    unknown = run(tree, sys.executable, "-m", "repro.reproduce", "--paper=tyo")
    assert "toy" in unknown.stderr
