"""`python -m repro.experiments` lists every experiment as it is run by default."""

from __future__ import annotations

import os
import subprocess
import sys

from repro.launch import jobs
from tests.support.forked_train import run_command


def test_every_experiment_is_listed_below_its_paper(tmp_path):
    listed = run_command(tmp_path, "repro.experiments")
    assert listed.returncode == 0, listed.stderr
    papers = listed.stdout.strip().split("\n\n")
    assert [text.partition("\n")[0] for text in papers] == [
        f"make reproduce-{paper} EXPERIMENT=<name>" for paper in jobs.papers()
    ]
    for paper, text in zip(jobs.papers(), papers):
        names = [line.strip() for line in text.splitlines() if line.startswith("  ") and not line.startswith("    ")]
        assert names == jobs.experiments(paper)


def test_agents_and_the_default_task_are_those_of_the_configuration(tmp_path):
    listed = run_command(tmp_path, "repro.experiments", "--paper=impala,refer").stdout
    assert "make reproduce-acer" not in listed
    expected = """
  dmlab_30
    IMPALA on DMLab-30, one agent for all levels: Section 5.3.1, Table 3, and Table B.1, whose agent also has PBT.
    agents: a3c_deep, impala_deep, impala_shallow; task: dmlab_30, 8 tasks together
  dmlab_30_experts
"""
    assert expected in listed
    assert "\n    a study, which trains nothing; task: gym\n" in listed


def test_lines_fit_into_the_terminal():
    command = [sys.executable, "-m", "repro.experiments", "--paper=stac"]
    listed = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "50"}, check=True)
    assert 40 < max(len(line) for line in listed.stdout.splitlines()) <= 50


def test_an_unknown_paper_is_one_sentence(tmp_path):
    refused = run_command(tmp_path, "repro.experiments", "--paper=impla")
    assert refused.returncode == 2
    assert "no experiments for paper 'impla'; did you mean 'impala'? (there are some for acer, " in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
