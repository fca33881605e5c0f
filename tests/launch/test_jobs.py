"""Configurations of experiments, found by the places of their files."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from paper_configs.impala import gymnasium
from repro.launch import jobs


def test_a_configuration_with_the_name_of_another_is_refused(monkeypatch):
    """A copy whose name is left as it was would train the one that it was copied from."""
    copied = gymnasium.get_config("smoke")
    monkeypatch.setattr(jobs, "experiments", lambda paper: ["gymnasium", "mine"])
    monkeypatch.setitem(sys.modules, "paper_configs.impala.mine", SimpleNamespace(get_config=lambda scale: copied))
    with pytest.raises(ValueError, match=r"impala/mine\.py: config\.experiment is 'gymnasium' and must be 'mine'"):
        jobs.load_config("impala", "mine", "smoke")
    renamed = copied.copy_and_resolve_references()
    renamed.experiment = "mine"
    monkeypatch.setitem(sys.modules, "paper_configs.impala.mine", SimpleNamespace(get_config=lambda scale: renamed))
    assert jobs.load_config("impala", "mine", "smoke").experiment == "mine"


@pytest.mark.parametrize("paper", ["acer", "ctrace", "impala", "refer", "stac"])
def test_every_experiment_has_the_name_of_its_file(paper):
    for experiment in jobs.experiments(paper):
        assert jobs.load_config(paper, experiment, "smoke").experiment == experiment
