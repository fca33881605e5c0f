"""A set of tasks by name: its members are those of the row, and reproduce makes all of their runs."""

import collections

import pytest
from absl import flags
from absl.testing import flagsaver

from repro import reproduce
from repro.environments.dm_control_task import import_suite
from repro.evidence import comparisons, published
from repro.launch import task_sets

CHOSEN_BY_RESULTS = {"games_retrace_above", "games_retrace_below", "atari5"}
"""Sets without a fixed list."""


@pytest.mark.parametrize("name", sorted(comparisons.TASK_SETS.keys() - CHOSEN_BY_RESULTS))
def test_a_set_has_as_many_members_as_its_rows_say(name):
    members = task_sets.members(name)
    assert len(members) == len(set(members)) == comparisons.TASK_SETS[name]
    assert members == sorted(members)


def test_a_single_task_stands_for_itself_and_none_comes_twice():
    assert task_sets.members("pong") == []
    assert task_sets.expand(["amidar", "pong", "sweep4"]) == ["amidar", "pong", "alien", "assault", "asterix"]


def test_the_control_suite_s_benchmark_is_that_of_the_package():
    assert task_sets.members("dm_control_pixels") == sorted("_".join(pair) for pair in import_suite().BENCHMARKING)


@pytest.mark.parametrize(
    ("paper", "experiment", "name"),
    [("impala", "atari_deep", "atari57"), ("impala", "dmlab_30_experts", "dmlab30"), ("stac", "rwrl", "rwrl")],
)
def test_reproduce_makes_the_runs_of_every_member(paper, experiment, name):
    with flagsaver.flagsaver():
        flags.FLAGS(["reproduce", f"--paper={paper}", f"--experiment={experiment}", f"--task={name}", "--seeds=2"])
        made = collections.Counter(job.config.env.task for job in reproduce.find_jobs())
    assert made == dict.fromkeys(task_sets.members(name), 2)
    if name in ("atari57", "dmlab30"):
        assert set(made) == set(published.normaliser(name))


@pytest.mark.parametrize(
    ("asked", "runs"),
    [
        (["--seed=1,01,1"], 1),
        (["--agent=acer_ratio_4,acer_ratio_4"], 1),
        (["--experiment=atari,all"], 6),
        (["--task=space_invaders,SpaceInvaders", "--seeds=2"], 2),
    ],
)
def test_reproduce_makes_a_run_once_however_often_it_is_asked_for(asked, runs):
    with flagsaver.flagsaver():
        flags.FLAGS(["reproduce", "--paper=acer", *asked])
        made = [tuple(job.paths) for job in reproduce.find_jobs()]
    assert len(made) == len(set(made)) == runs
