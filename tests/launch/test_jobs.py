"""Configs of experiments, found by the paths of their files."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import paper_configs.impala
from paper_configs.impala import gymnasium
from repro.evidence.commands import Run
from repro.evidence.records import COMMITTED
from repro.launch import jobs
from repro.launch.recorded_job import Stopped


def test_a_configuration_with_the_name_of_another_is_refused(monkeypatch):
    """A copy whose name is left as it was would train the one that it was copied from."""
    copied = gymnasium.get_config("smoke")
    monkeypatch.setattr(jobs, "experiments", lambda paper: ["gymnasium", "mine"])
    monkeypatch.setitem(sys.modules, "paper_configs.impala.mine", SimpleNamespace(get_config=lambda scale: copied))
    with pytest.raises(ValueError, match=r"impala/mine\.py: config\.experiment must be 'mine', got 'gymnasium'"):
        jobs.load_config("impala", "mine", "smoke")
    renamed = copied.copy_and_resolve_references()
    renamed.experiment = "mine"
    monkeypatch.setitem(sys.modules, "paper_configs.impala.mine", SimpleNamespace(get_config=lambda scale: renamed))
    assert jobs.load_config("impala", "mine", "smoke").experiment == "mine"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    return scal", r"broken\.py, line 2: NameError: name 'scal' is not defined$"),
        ("    return (", r"broken\.py, line 2: SyntaxError: '\(' was never closed$"),
        ("    raise ValueError('no such scale')", "^no such scale$"),
    ],
)
def test_an_edited_configuration_that_cannot_be_loaded_is_one_sentence(tmp_path, monkeypatch, body, message):
    (tmp_path / "broken.py").write_text(f"def get_config(scale):\n{body}\n")
    monkeypatch.setattr(jobs, "experiments", lambda paper: ["broken"])
    monkeypatch.setattr(paper_configs.impala, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "paper_configs.impala.broken", raising=False)
    with pytest.raises(ValueError, match=message):
        jobs.load_config("impala", "broken", "smoke")


OWN = """
from paper_configs.impala import gymnasium

def get_config(scale):
    config = gymnasium.get_config(scale)
    config.env.kwargs.stride = 0.2
    return config
"""


def test_a_file_elsewhere_is_an_experiment_by_its_path(tmp_path, monkeypatch):
    file = tmp_path / "lander.py"
    file.write_text(OWN)
    name = jobs.name_of_file("impala", str(file))
    job = jobs.make_job(Run("impala", name, "impala", "CartPole-v1", "smoke", 1), tmp_path, tmp_path / "runs")
    assert (job.config.experiment, job.config.env.kwargs.stride) == (str(file), 0.2)
    assert job.run_dir.relative_to(tmp_path / "runs/impala").parts[0] == str(file).replace("/", "+")
    called = []
    monkeypatch.setattr(job, "_call", lambda cores, log, *arguments: called.append(arguments))
    with pytest.raises(Stopped):
        job.run([0], quiet=True)
    assert {f"--config={file}:smoke", f"--config.experiment={file}"} < set(called[0])
    with pytest.raises(ValueError, match=r"lander\.py: config\.paper must be 'acer', got 'impala'"):
        jobs.load_config("acer", name, "smoke")
    other = tmp_path / "other.py"
    other.write_text(OWN.replace("get_config(scale)\n", "get_config('desk')\n"))
    with pytest.raises(ValueError, match=r"other\.py: config\.scale must be 'smoke', got 'desk'"):
        jobs.load_config("impala", str(other), "smoke")


def test_the_name_of_a_file_is_that_of_its_experiment_or_its_path():
    assert jobs.name_of_file("impala", "paper_configs/impala/atari_deep.py") == "atari_deep"
    assert jobs.name_of_file("impala", "./paper_configs/../mine/lander.py") == "mine/lander.py"
    assert jobs.name_of_file("impala", f"{Path.cwd()}/mine/lander.py") == "mine/lander.py"
    assert jobs.name_of_file("impala", "../lander.py") == str(Path.cwd().parent / "lander.py")
    with pytest.raises(ValueError, match="a path may only have the characters"):
        jobs.name_of_file("impala", "my configs/lander.py")


@pytest.mark.parametrize("paper", ["acer", "ctrace", "impala", "refer", "stac"])
def test_every_experiment_has_the_name_of_its_file(paper):
    for experiment in jobs.experiments(paper):
        assert jobs.load_config(paper, experiment, "smoke").experiment == experiment


def test_smoke_records_lie_beside_their_runs_and_others_in_the_committed_folder(tmp_path):
    assert jobs.default_results_dir("smoke", tmp_path) == tmp_path / "records"
    assert jobs.default_results_dir("desk", tmp_path) == COMMITTED
