"""The record of a complete run."""

import json

import numpy as np
import pytest

from paper_configs.impala import atari_57, atari_shallow
from paper_configs.refer import figure_4_vracer
from repro.evidence import records
from repro.evidence.commands import Run
from repro.evidence.statistics import summarize_returns
from repro.launch.jobs import make_job
from repro.launch.random_job import RandomJob
from repro.launch.recorded_job import InUseError, JobError, Stopped
from repro.launch.training_job import TrainingJob
from repro.training import run_directory
from repro.training.run_directory import RunDirectory, checkpoint_name


@pytest.mark.parametrize("restarts", [0, 2])
def test_a_record_names_restarted_actors_where_there_are_some(tmp_path, restarts):
    job = TrainingJob(figure_4_vracer.get_config("smoke"), "Hopper", 1, tmp_path / "results", tmp_path / "runs")
    RunDirectory(job.run_dir, job.config.to_dict(), seed=1)
    complete = {"num_env_steps": 20_000, "seconds": 1.0, "gradient_steps": 5, "policy_lag": {"mean": 0.0, "max": 0.0}}
    complete |= {"evaluation": {"episodes": 1}} | ({"actor_restarts": restarts} if restarts else {})
    (job.run_dir / "complete.json").write_text(json.dumps(complete))
    (job.run_dir / "origin.json").write_text(json.dumps({"git_commit": "0" * 40}))
    (job.run_dir / "progress.csv").write_text("updates,num_env_steps,mean_return\n1,20000,5.0\n")
    record = job._make_record(complete, "Hopper", complete["evaluation"], cores=1)
    assert record.get("actor_restarts", 0) == restarts


def test_a_job_on_a_cluster_trains_there_and_its_record_names_machines_and_losses(tmp_path, monkeypatch):
    job = make_job(
        Run("impala", "atari_shallow", "impala_shallow", "pong", "smoke", 1), tmp_path, tmp_path / "runs", "auto"
    )
    assert job._training(2) == ("repro.train", "--cluster=auto")
    assert job.config.runtime.schedule == "processes"
    RunDirectory(job.run_dir, job.config.to_dict(), seed=1)
    on_cluster = {"machines": 3, "learners": 2, "lost": {"games": 32, "unrolls": 40}}
    complete = {"num_env_frames": 200_000, "seconds": 1.0, "gradient_steps": 5, "policy_lag": {"mean": 0.0, "max": 0.0}}
    (job.run_dir / "complete.json").write_text(json.dumps(complete | on_cluster))
    (job.run_dir / "origin.json").write_text(
        json.dumps({"git_commit": "0" * 40, "behaviour": job._behaviour_version()})
    )
    (job.run_dir / "progress.csv").write_text("updates,num_env_frames,mean_return\n1,200000,5.0\n")
    evaluation = summarize_returns("points", "eight games", np.arange(8.0))
    assert evaluation["std"] == pytest.approx(6**0.5)  # the sum of squares is 42, over N - 1
    record = job._make_record(job._read_complete(), "ALE/Pong-v5", evaluation, cores=1)
    assert {name: record[name] for name in on_cluster} == on_cluster
    records.write_record(tmp_path / "record.json", record)
    assert records.read_record(tmp_path / "record.json") == record


def test_a_record_is_the_same_where_an_evaluator_played_beside_training(tmp_path):
    made = []
    for episodes in (0, 20):
        folder = tmp_path / str(episodes)
        config = atari_shallow.get_config("smoke")
        job = TrainingJob(config, "pong", 1, folder / "results", folder / "runs")
        trained = config.to_dict() | {"runtime": config.runtime.to_dict() | {"evaluator_episodes": episodes}}
        run = RunDirectory(job.run_dir, trained, seed=1)
        complete = {"num_env_frames": 200_000, "seconds": 1.0, "gradient_steps": 5, "policy_lag": {}}
        if episodes:
            complete["evaluator_restarts"] = 3
            run.evaluations_csv.write_text("updates,num_env_frames,episodes,mean_return\n1,200000,20,9.0\n")
        run.complete_json.write_text(json.dumps(complete))
        origin = {"git_commit": "0" * 40, "behaviour": job._behaviour_version()}
        (job.run_dir / "origin.json").write_text(json.dumps(origin))
        run.progress_csv.write_text("updates,num_env_frames,mean_return\n1,200000,5.0\n")
        assert job.refusal() is None
        evaluation = summarize_returns("points", "eight games", np.arange(8.0))
        record = job._make_record(job._read_complete(), "ALE/Pong-v5", evaluation, cores=1)
        made.append({name: value for name, value in record.items() if name not in ("started", "finished")})
    assert made[0] == made[1]


def test_a_record_has_the_sizes_that_its_run_has_chosen(tmp_path):
    config = atari_shallow.get_config("smoke")
    config.runtime.num_actors = 0
    job = TrainingJob(config, "pong", 1, tmp_path / "results", tmp_path / "runs")
    chosen = config.to_dict() | {"runtime": config.runtime.to_dict() | {"num_actors": 7}}
    RunDirectory(job.run_dir, chosen, seed=1)
    complete = {"num_env_frames": 200_000, "seconds": 1.0, "gradient_steps": 5, "policy_lag": {"mean": 0.0, "max": 0.0}}
    (job.run_dir / "complete.json").write_text(json.dumps(complete))
    (job.run_dir / "origin.json").write_text(
        json.dumps({"git_commit": "0" * 40, "behaviour": job._behaviour_version()})
    )
    (job.run_dir / "progress.csv").write_text("updates,num_env_frames,mean_return\n1,200000,5.0\n")
    assert job.refusal() is None
    evaluation = summarize_returns("points", "eight games", np.arange(8.0))
    record = job._make_record(complete, "ALE/Pong-v5", evaluation, cores=1)
    assert record["config"]["runtime"]["num_actors"] == 7


@pytest.mark.parametrize(
    ("experiment", "agent"), [("theorems", ""), ("gymnasium_population", "pbt"), ("gymnasium", "random")]
)
def test_a_job_without_actors_for_a_cluster_is_refused(tmp_path, experiment, agent):
    with pytest.raises(ValueError, match="has no actors that could run as separate processes"):
        make_job(Run("impala", experiment, agent, "CartPole-v1", "smoke", 1), tmp_path, tmp_path, "auto")


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


def test_a_run_of_a_configuration_that_was_edited_meanwhile_is_not_recorded(tmp_path, monkeypatch):
    """The command has read the file before, and the run reads it when it begins."""
    job = TrainingJob(figure_4_vracer.get_config("smoke"), "Hopper", 1, tmp_path / "results", tmp_path / "runs")

    def train(cores, log, *arguments):
        config = job.config.to_dict()
        config["learner"]["learning_rate"] *= 2
        RunDirectory(job.run_dir, config, seed=1)
        (job.run_dir / "complete.json").write_text("{}")

    monkeypatch.setattr(job, "_call", train)
    with pytest.raises(JobError, match=r"with other settings \(config\.learner\.learning_rate\): repeat the command"):
        job.run([0], quiet=True)
    assert not (tmp_path / "results").exists()


def test_a_damaged_note_of_how_a_run_began_refuses_that_run_alone(tmp_path):
    job = TrainingJob(figure_4_vracer.get_config("smoke"), "Hopper", 1, tmp_path / "results", tmp_path / "runs")
    RunDirectory(job.run_dir, job.config.to_dict(), seed=1)
    (job.run_dir / "complete.json").write_text("{}")
    (job.run_dir / "origin.json").write_text("{")
    assert job.refusal().startswith(f"{job.run_dir / 'origin.json'} could not be read (Expecting property name")
    with pytest.raises(JobError, match="move the folder away"):
        job.run([0], quiet=True)


def test_a_log_that_cannot_be_read_ends_its_run_alone(tmp_path):
    """And not the command that shows how far it and others are."""
    job = TrainingJob(figure_4_vracer.get_config("smoke"), "Hopper", 1, tmp_path / "results", tmp_path / "runs")
    job.run_dir.mkdir(parents=True)
    (job.run_dir / "progress.csv").write_text("updates,num_env_steps,seconds\n1,20,3.0\n")
    assert job.share_done() > 0.0
    assert job.seconds_done() == 3.0
    (job.run_dir / "progress.csv").write_text("updates,num_env_steps,seconds\n1,20,3.0,4.0\n")
    assert job.share_done() == job.seconds_done() == 0.0


def test_a_complete_run_of_an_older_version_without_what_a_record_needs_is_one_sentence(tmp_path):
    job = TrainingJob(figure_4_vracer.get_config("smoke"), "Hopper", 1, tmp_path / "results", tmp_path / "runs")
    RunDirectory(job.run_dir, job.config.to_dict(), seed=1)
    (job.run_dir / "origin.json").write_text(json.dumps({"behaviour": job._behaviour_version()}))
    complete = {"evaluation": {"episodes": 1}, "num_env_steps": 20_000, "seconds": 1.0}
    (job.run_dir / "complete.json").write_text(json.dumps(complete))
    with pytest.raises(
        JobError, match=r"complete\.json has no gradient_steps, policy_lag; it may be .*: move the folder away\.$"
    ):
        job.run([0], quiet=True)
    assert not (tmp_path / "results").exists()


def test_a_run_that_another_process_works_on_is_waited_for_and_then_left(tmp_path, monkeypatch):
    monkeypatch.setattr(run_directory, "LEAVE_SECONDS", 0.3)
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


def complete_run(job, evaluations, updates=2, **more):
    """A run folder as training leaves it, evaluated after so many updates of 2: 1000 frames, a log of two rows."""
    RunDirectory(job.run_dir, job.config.to_dict(), seed=1)
    (job.run_dir / "origin.json").write_text(json.dumps({"behaviour": job._behaviour_version(), "git_commit": None}))
    complete = {"num_env_frames": 1000, "seconds": 10.0, "gradient_steps": 5, "policy_lag": {"mean": 1.0, "max": 2.0}}
    (job.run_dir / "complete.json").write_text(json.dumps(complete))
    log = "updates,num_env_frames,seconds,mean_return,return/breakout,return/pong\n"
    (job.run_dir / "progress.csv").write_text(f"{log}1,500,5.0,1.5,nan,-21.0\n2,1000,10.0,2.5,3.0,-20.0\n")
    (job.run_dir / "checkpoints" / checkpoint_name(2)).mkdir(parents=True)
    (job.run_dir / "evaluation.json").write_text(json.dumps({"updates": updates, "tasks": evaluations} | more))


def an_evaluation(*returns):
    mean = sum(returns) / len(returns)
    return {
        "protocol": "p",
        "episodes": len(returns),
        "unit": "game score",
        "mean": mean,
        "std": 0.0,
        "returns": [*returns],
    }


def test_tasks_learned_together_have_a_record_each_with_their_own_returns_and_frames(tmp_path):
    job = TrainingJob(atari_57.get_config("smoke"), "atari_57", 1, tmp_path / "results", tmp_path / "runs")
    assert job.run_dir == tmp_path / "runs/impala/atari_57/atari_57/impala_multitask/smoke/seed_1"
    complete_run(job, {"breakout": an_evaluation(1, 2, 3, 4), "pong": an_evaluation(-21, -20, -19, -20)})
    assert not job.recorded()
    job.run([0], quiet=True)
    assert job.recorded()
    places = [path.relative_to(tmp_path / "results/impala/atari_57") for path in job.record_paths]
    assert [str(path) for path in places] == [f"{game}/impala_multitask/seed_1.json" for game in ("breakout", "pong")]
    breakout, pong = (records.read_record(path) for path in job.record_paths)
    assert (breakout["task"], breakout["evaluation"]["mean"], breakout["curve"]) == ("breakout", 2.5, [[500, 3.0]])
    assert (pong["task"], pong["evaluation"]["mean"]) == ("pong", -20.0)
    assert pong["curve"] == [[250, -21.0], [500, -20.0]]
    for record in (breakout, pong):
        assert (record["num_env_frames"], record["agent_steps"], record["frames_per_second"]) == (500, 125, 50.0)
        assert record["config"]["env"]["tasks"] == ["breakout", "pong"]


def test_series_of_tasks_learned_together_count_the_frames_of_one(tmp_path):
    config = atari_57.get_config("smoke")
    config.recorded = ("seconds",)
    job = TrainingJob(config, "atari_57", 1, tmp_path / "results", tmp_path / "runs")
    complete_run(job, {"breakout": an_evaluation(1, 2, 3, 4), "pong": an_evaluation(-21, -20, -19, -20)})
    job.run([0], quiet=True)
    for path in job.record_paths:
        series = records.read_record(path)["series"]
        assert series == {"columns": ["num_env_frames", "seconds"], "rows": [[250, 5.0], [500, 10.0]]}


FOUR_EACH = {"breakout": an_evaluation(1, 2, 3, 4), "pong": an_evaluation(1, 2, 3, 4)}


@pytest.mark.parametrize(
    ("evaluations", "about"),
    [
        ({"breakout": an_evaluation(1, 2, 3, 4)}, {}),
        ({"breakout": an_evaluation(1, 2), "pong": an_evaluation(1, 2)}, {}),
        ({"pong": an_evaluation(1, 2, 3, 4), "breakout": an_evaluation(1, 2, 3, 4)}, {}),
        (FOUR_EACH, {"updates": 1}),  # begun before the run's end
        (FOUR_EACH, {"unfinished": True}),  # the run diverged after it
    ],
)
def test_an_evaluation_of_some_tasks_few_episodes_older_weights_or_an_unfinished_run_is_made_again(
    tmp_path, monkeypatch, evaluations, about
):
    job = TrainingJob(atari_57.get_config("smoke"), "atari_57", 1, tmp_path / "results", tmp_path / "runs")
    complete_run(job, evaluations, **about)
    called = []
    monkeypatch.setattr(job, "_call", lambda cores, log, module, *arguments: called.append((module, *arguments)))
    with pytest.raises(JobError, match="the last checkpoint in .* was not evaluated"):
        job.run([0], quiet=True)
    assert called == [("repro.evaluate", f"--run_dir={job.run_dir}", "--episodes=4")]
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("saved", [True, False])
def test_a_run_that_diverged_is_evaluated_and_recorded_unless_it_has_no_checkpoint(tmp_path, monkeypatch, saved):
    """Its process ends with code 1 like that of any fault, and leaves `complete.json` where something was saved."""
    job = TrainingJob(atari_57.get_config("smoke"), "atari_57", 1, tmp_path / "results", tmp_path / "runs")
    reason = "update 7 gave loss=nan"
    called = []

    def call(cores, log, module, *arguments):
        called.append(module)
        if module == "repro.train":
            if saved:
                complete_run(job, {"breakout": an_evaluation(1, 2, 3, 4), "pong": an_evaluation(4, 3, 2, 1)})
                complete = json.loads((job.run_dir / "complete.json").read_text())
                (job.run_dir / "complete.json").write_text(json.dumps(complete | {"diverged": reason}))
            raise JobError("repro.train ended with exit code 1.")

    monkeypatch.setattr(job, "_call", call)
    if not saved:
        with pytest.raises(JobError, match="exit code 1"):
            job.run([0], quiet=True)
        return
    job.run([0], quiet=True)
    assert called == ["repro.train"]
    assert [records.read_record(path)["diverged"] for path in job.record_paths] == [reason, reason]
    assert job.recorded()


@pytest.mark.parametrize("diverged", [True, False])
def test_a_run_that_diverged_before_its_log_has_its_evaluation_as_its_curve(tmp_path, monkeypatch, diverged):
    """So that it counts among the curves of its agent; no other fault of a run that is at its end is passed over."""
    job = TrainingJob(atari_57.get_config("smoke"), "atari_57", 1, tmp_path / "results", tmp_path / "runs")

    def call(cores, log, module, *arguments):
        complete_run(job, {"breakout": an_evaluation(1, 2, 3, 4), "pong": an_evaluation(4, 3, 2, 1)})
        (job.run_dir / "progress.csv").unlink()
        if diverged:
            complete = json.loads((job.run_dir / "complete.json").read_text())
            (job.run_dir / "complete.json").write_text(json.dumps(complete | {"diverged": "update 7 gave loss=nan"}))
        raise JobError("repro.train ended with exit code 1.")

    monkeypatch.setattr(job, "_call", call)
    if not diverged:
        with pytest.raises(JobError, match="exit code 1"):
            job.run([0], quiet=True)
        return
    job.run([0], quiet=True)
    assert [records.read_record(path)["curve"] for path in job.record_paths] == [[[500, 2.5]], [[500, 2.5]]]


def test_a_random_player_plays_each_task_alone(tmp_path):
    config = atari_57.get_config("smoke")
    job = RandomJob(config, "ALE/Pong-v5", 1, tmp_path)
    assert job.record_paths == [tmp_path / "impala/atari_57/pong/random/seed_1.json"]
    assert "tasks" not in job._played_config().env
    assert config.env.tasks == ("breakout", "pong")
