"""Behaviour versions: which agents they belong to, and which records and rows they make stale."""

import functools
import json
import shutil
import subprocess

import pytest

from paper_configs.impala import atari_shallow
from repro import check
from repro.evidence import behaviour, records, staleness
from repro.evidence.groups import group_records
from repro.launch.recorded_job import JobError
from repro.launch.training_job import TrainingJob
from repro.training.run_directory import CHECKPOINT_PREFIX
from tests import golden
from tests.evidence.synthetic_records import make_record, random_records

PAGES = (records.ROOT / "docs" / "results.md",)


def _raise_version(configs_dir, paper, *names):
    path = behaviour.behaviour_path(configs_dir, paper)
    known = json.loads(path.read_text())
    for name in names:
        known[name]["version"] += 1
    path.write_text(json.dumps(known))


@pytest.fixture
def configs(tmp_path):
    shutil.copytree(staleness.CONFIGS_DIR, tmp_path / "paper_configs")
    return tmp_path / "paper_configs"


def test_records_without_a_version_are_of_the_first(configs):
    record = make_record()
    assert staleness.stale_reason(record, configs) is None
    assert staleness.stale_reason(record | {"behaviour": 1}, configs) is None


def test_a_raised_version_makes_older_records_of_these_agents_stale(configs):
    _raise_version(configs, "impala", "shallow")
    record = make_record()
    assert staleness.stale_reason(record, configs) == "its agent's behaviour version was 1 and is 2"
    assert staleness.stale_reason(record | {"behaviour": 2}, configs) is None
    assert staleness.stale_reason(make_record(experiment="atari_deep", agent="impala_deep"), configs) is None
    assert staleness.stale_reason(random_records()[0], configs) is None


def test_a_raised_version_makes_records_of_files_elsewhere_stale(configs):
    of_now = max(found.version for found in behaviour.load("impala", staleness.CONFIGS_DIR).values())
    for _ in range(of_now):
        _raise_version(configs, "impala", "shallow")
    assert behaviour.version_of("impala", "my/lander.py", "impala", configs) == of_now + 1
    assert behaviour.version_of("impala", "my/lander.py", "random", configs) == behaviour.FIRST
    assert behaviour.version_of("acer", "my/lander.py", "acer", configs) == behaviour.FIRST


def test_a_version_of_a_record_is_a_whole_number_from_1(tmp_path):
    records.write_record(tmp_path / "record.json", make_record() | {"behaviour": 2})
    assert behaviour.of_record(records.read_record(tmp_path / "record.json")) == 2
    with pytest.raises(records.RecordError, match="behaviour"):
        records.write_record(tmp_path / "record.json", make_record() | {"behaviour": 0})


@pytest.mark.slow
def test_rows_that_rest_on_stale_records_fail_the_check(configs, tmp_path):
    """The committed records and pages, with IMPALA's version raised in a copy of the configs."""
    results = records.ROOT / "results"
    assert check.check(results, "impala", configs_dir=configs, pages=PAGES).passed
    _raise_version(configs, "impala", "shallow")
    behaviour.load.cache_clear()
    found = check.check(results, "impala", configs_dir=configs, pages=PAGES)
    stale = {path.parent.relative_to(results / "impala").as_posix() for path in found.stale}
    assert stale == {"atari_shallow/breakout/impala_shallow"}
    assert len(found.stale) == 5
    assert not found.passed
    (row, *_) = [error.message for error in found.errors if "| breakout |" in error.message]
    assert "docs/results.md is made from stale records; rewrite it with make report" in row
    assert not [row for row in found.rows if row.agent == "impala_shallow" and row.task == "breakout" and row.seeds]
    written = tmp_path / "results.md"
    written.write_text("| another page |\n")
    assert check.check(results, "impala", configs_dir=configs, pages=[written]).passed


def test_records_that_are_kept_though_stale_make_their_rows(configs):
    _raise_version(configs, "impala", "shallow")
    stored = [records.StoredRecord(records.ROOT / "x", make_record())]
    (group,) = group_records(stored, configs).values()
    (kept,) = group_records(stored, configs, keep_stale=True).values()
    assert (len(group.records), len(group.stale), len(kept.records), len(kept.stale)) == (0, 1, 1, 0)


@pytest.mark.parametrize("origin", [{"git_commit": None}, {"git_commit": None, "behaviour": 1}])
def test_a_run_that_began_with_another_version_is_not_continued(tmp_path, monkeypatch, origin):
    job = TrainingJob(atari_shallow.get_config("smoke"), "pong", 1, tmp_path / "records", tmp_path / "runs")
    (job.run_dir / "checkpoints" / f"{CHECKPOINT_PREFIX}1").mkdir(parents=True)  # it has saved
    (job.run_dir / "origin.json").write_text(json.dumps(origin))
    monkeypatch.setattr(behaviour, "version_of", lambda *_: 2)
    with pytest.raises(JobError, match="began with behaviour version 1 of its agent, whose version is now 2"):
        job.run([0], quiet=True)


LOGGED_OTHERWISE = {
    "stac.control_impala": {"std", "prior_kl", "rho", "value"},
    "stac.control_impala_aux": {"std", "prior_kl", "rho", "value"},
    "stac.control_stac": {"std", "prior_kl", "rho", "value", "kl"},
    "stac.control_stacx": {"std", "prior_kl", "rho", "value", "kl"},
}
"""Series of golden values that were made again under the same version, since what is logged changed and the updates did
not: since commit 45f48bce the means of STAC's log leave out rows between episodes."""


@functools.cache
def golden_values_at(commit, paper):
    """The golden values of a commit by the patterns of their agents; None before there were any."""
    path = behaviour.behaviour_path(staleness.CONFIGS_DIR, paper).relative_to(records.ROOT)
    try:
        text = records.run_git(records.ROOT, "show", f"{commit}:{path}")
    except subprocess.CalledProcessError:
        return None
    return {tuple(found["agents"]): found["values"] for found in json.loads(text).values()}


@pytest.fixture(scope="module")
def then_and_now():
    """Of each committed record of a trained agent: name, golden values at its commit or None, and those of today."""
    try:
        if records.run_git(records.ROOT, "rev-parse", "--is-shallow-repository") != "false":
            pytest.skip("the history is not available")
    except (OSError, subprocess.SubprocessError):
        pytest.skip("no git checkout")
    found = []
    for item in records.read_all(records.ROOT / "results")[0]:
        record = item.record
        paper, experiment, _, agent = record["paper"], record["experiment"], record["task"], record["agent"]
        names = behaviour.names_of(paper, experiment, agent, staleness.CONFIGS_DIR)
        if names and staleness.stale_reason(record) is None:
            earlier = golden_values_at(record["git_commit"], paper) or {}
            then = [values for agents, values in earlier.items() if behaviour.is_of(agents, experiment, agent)]
            now = behaviour.load(paper, staleness.CONFIGS_DIR)[names[0]].values
            found.append((f"{paper}.{names[0]}", then[0] if then else None, now))
    return found


def test_golden_values_under_one_version_are_those_of_the_code_that_made_the_records(then_and_now):
    """Otherwise they were made again without a new version, which leaves records of other code current."""
    changed = {}
    for name, then, now in then_and_now:
        if then is not None and (others := golden.differences(then, now, golden.FIRST_IS_ROUNDING.get(name, ()))):
            changed.setdefault(name, set()).update(others)
    assert changed == LOGGED_OTHERWISE
    assert not {"loss", "gradient_norm", "weights_moved"} & set().union(*changed.values())


def test_records_older_than_golden_values_are_counted_on_the_page(then_and_now):
    older = sum(then is None for _, then, _ in then_and_now)
    page = " ".join((records.ROOT / "docs/verdicts.md").read_text().split())
    assert f"{older} of the {len(then_and_now)} records of trained agents are older than the golden values" in page
