"""The record of a run that is complete."""

import json

import pytest

from paper_configs.refer import figure_4_vracer
from repro.launch import training_job
from repro.launch.recorded_job import InUseError, JobError, Stopped
from repro.launch.training_job import TrainingJob
from repro.training.run_directory import RunDirectory


def test_a_run_of_an_older_version_is_refused(tmp_path):
    """It is complete and evaluated, so that only its record is missing, and its budget has another name."""
    job = TrainingJob(figure_4_vracer.get_config("smoke"), "Hopper", 1, tmp_path / "results", tmp_path / "runs")
    job.run_dir.mkdir(parents=True)
    complete = {"frames": 20_000, "seconds": 1.0, "evaluation": {"episodes": 1}}
    (job.run_dir / "complete.json").write_text(json.dumps(complete))
    (job.run_dir / "progress.csv").write_text("updates,frames\n1,20000\n")
    with pytest.raises(JobError, match=r"holds a run of an older version; remove it, or give another --runs_dir\.$"):
        job.run([0], quiet=True)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("restarts", [0, 2])
def test_a_record_names_restarted_actors_where_there_are_some(tmp_path, restarts):
    job = TrainingJob(figure_4_vracer.get_config("smoke"), "Hopper", 1, tmp_path / "results", tmp_path / "runs")
    RunDirectory(job.run_dir, job.config.to_dict(), seed=1)
    complete = {"num_env_steps": 20_000, "seconds": 1.0, "gradient_steps": 5, "policy_lag": {"mean": 0.0, "max": 0.0}}
    complete |= {"evaluation": {"episodes": 1}} | ({"actor_restarts": restarts} if restarts else {})
    (job.run_dir / "complete.json").write_text(json.dumps(complete))
    (job.run_dir / "origin.json").write_text(json.dumps({"git_commit": "0" * 40}))
    (job.run_dir / "progress.csv").write_text("updates,num_env_steps,mean_return\n1,20000,5.0\n")
    assert job._make_record(cores=1).get("actor_restarts", 0) == restarts


def test_a_complete_run_with_other_settings_is_not_recorded(tmp_path):
    job = TrainingJob(figure_4_vracer.get_config("smoke"), "Hopper", 1, tmp_path / "results", tmp_path / "runs")
    config = job.config.to_dict()
    config["learner"]["batch_size"] += 1
    RunDirectory(job.run_dir, config, seed=1)
    (job.run_dir / "origin.json").write_text(json.dumps({"behaviour": job._behaviour_version()}))
    (job.run_dir / "complete.json").write_text(json.dumps({"evaluation": {"episodes": 1}}))
    with pytest.raises(JobError, match=r"has other settings \(config\.learner\.batch_size\): move the folder away\.$"):
        job.run([0], quiet=True)
    assert not (tmp_path / "results").exists()


def test_a_run_that_another_process_works_on_is_waited_for_and_then_left(tmp_path, monkeypatch):
    monkeypatch.setattr(training_job, "LEAVE_SECONDS", 0.3)
    job = TrainingJob(figure_4_vracer.get_config("smoke"), "Hopper", 1, tmp_path / "results", tmp_path / "runs")
    other = RunDirectory(job.run_dir, {}, 1)
    with pytest.raises(InUseError, match="another process is running in"):
        job.run([0], quiet=True)
    job.stop()
    with pytest.raises(Stopped):
        job.run([0], quiet=True)
    del other


def test_a_job_that_was_asked_to_stop_begins_no_process(tmp_path):
    job = TrainingJob(figure_4_vracer.get_config("smoke"), "Hopper", 1, tmp_path / "results", tmp_path / "runs")
    job.stop()
    with pytest.raises(Stopped):
        job.run([0], quiet=True)
    assert not (job.run_dir / "log.txt").exists()
