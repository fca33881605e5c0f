"""Python examples of the documentation run and print what stands below them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forked_train import run_program

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/operators.md").read_text(), re.S)
QUIET = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}


@pytest.fixture
def run(tmp_path):
    def run(code: str) -> str:
        done = run_program(tmp_path, code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("code", EXAMPLES, ids=["vtrace", "retrace", "acer", "refer_memory"])
def test_an_example_of_the_operators_prints_what_it_says(run, code):
    (said,) = re.findall(r"^print\(.*\n# (.*)$", code, re.M)
    assert run(code) == f"{said}\n"


def test_the_example_that_reads_records_has_the_scores_of_all_seeds(run):
    (code,) = re.findall(
        r"```python\n(from repro.evidence import records\n.*?)```", (ROOT / "docs/guide.md").read_text(), re.S
    )
    assert len(eval(run(code))) >= 5


def test_operators_need_tensorflow_alone():
    modules = "repro.ops.v_targets, repro.ops.q_targets, repro.papers.acer.loss, repro.replay.refer"
    heavy = "{'tf_agents', 'reverb', 'gymnasium', 'ale_py', 'mujoco'}"
    command = [sys.executable, "-c", f"import sys, {modules}\nprint({heavy} & set(sys.modules))"]
    done = subprocess.run(command, cwd=ROOT, env=QUIET, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr
