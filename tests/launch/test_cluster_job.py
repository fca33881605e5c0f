"""Whole runs on a cluster without Ray: their results, and what continues elsewhere after a loss, a stop or a kill."""

from __future__ import annotations

import io
import json
import os
import tempfile
import threading
import time

import matplotlib.pyplot as plt
import numpy as np
import psutil
import pytest
from rich.console import Console

from repro import papers
from repro.evidence import records
from repro.evidence.commands import Run
from repro.files import try_lock
from repro.launch import cluster_job, gate, machine_run, run_files, scheduler
from repro.launch.cluster_job import ClusterJob
from repro.launch.jobs import make_job
from repro.launch.machine_run import MachineRun
from repro.launch.recorded_job import InUseError, JobError, Stopped
from repro.launch.run_files import Inbox, list_saved, pin_checkpoint
from repro.launch.scheduler import run_on_cluster
from repro.training import run_directory
from repro.training.manifest import find_damage, write_manifest
from repro.training.study import Study, StudyResult
from tests.evidence.synthetic_records import make_record
from tests.launch.fake_cluster import RUN, FakeCluster, ProcessCluster, has_ended, script_machines
from tests.support.waiting import wait

RECORD = make_record(scale="smoke")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_job, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(gate, "fingerprint", lambda: "code")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


class Head:
    """A job of the head and what it says.

    Attributes:
        job: it.
        said: lines.
        ended: how it ended: the exception, or None.
    """

    def __init__(self, tmp_path, cluster, run=RUN):
        self.said, self.ended = [], "not yet"
        inner = make_job(run, tmp_path / "results", tmp_path / "runs")
        self.job = ClusterJob(inner, run, cluster, self.said.append)
        self.folder = getattr(inner, "run_dir", None)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()
        return self

    def join(self):
        self._thread.join(60)
        assert not self._thread.is_alive(), "it does not end"
        return self.ended

    def saved(self):
        """Updates of the checkpoints that are here, of which the newest is whole."""
        found = sorted((self.folder / "checkpoints").glob("*"))
        assert not [path for path in found[-1:] if find_damage(path)]
        return [int(path.name.removeprefix("checkpoint_")) for path in found]

    def progress(self):
        path = self.folder / "progress.csv"
        return path.read_text().split()[1:] if path.exists() else []

    def _run(self):
        try:
            self.job.run([0], quiet=True)
            self.ended = None
        except Exception as error:
            self.ended = error


def finish(script):
    (script.run_dir / "complete.json").write_text("{}")
    records.write_record(script.record_paths[0], RECORD)


def lose_after_checkpoint(head):
    """An act that saves and is lost once that has come back."""

    def act(script):
        script.save(max(script.saved(), default=0) + 10)
        wait(lambda: script.saved()[-1] in head().saved())
        cluster = head().job._cluster
        cluster.runs[-1].is_lost = True
        script.end_when_asked()

    return act


def test_the_progress_comes_back_alone_and_everything_with_a_checkpoint_and_at_the_end(tmp_path, monkeypatch):
    steps = threading.Semaphore(0)

    def act(script):
        script.log(30)
        (script.run_dir / "tensorboard").mkdir()
        (script.run_dir / "tensorboard/events").write_text("x")
        steps.acquire()
        script.save(40)
        steps.acquire()
        script.log(50)
        finish(script)

    (script,) = [script_machines(monkeypatch, act)]
    cluster = FakeCluster()
    head = Head(tmp_path, cluster).start()
    wait(lambda: head.progress() == ["30"])
    wait(lambda: head.job.share_done() == 0.3)
    assert head.job.where() == ", on m0"
    assert not (head.folder / "tensorboard").exists()
    assert not head.folder.joinpath("complete.json").exists()
    steps.release()
    wait(lambda: head.saved() == [40])
    assert (head.folder / "tensorboard/events").read_text() == "x"
    steps.release()
    assert head.join() is None
    assert head.progress() == ["30", "50"]
    assert records.read_record(head.job.record_paths[0]) == RECORD
    assert not (head.folder / run_files.INCOMING).exists()
    assert (script[0].cores, cluster.runs[0].is_ended) == ([script[0].cores[0]], True)
    assert not [path for path in (tmp_path / f"repro-runs-{os.geteuid()}").iterdir() if path.is_dir()]


def test_what_is_lost_goes_on_elsewhere_from_the_last_checkpoint_that_came_back(tmp_path, monkeypatch):
    found = {}

    def go_on(script):
        found["saved"], found["rows"] = script.saved(), (script.run_dir / "progress.csv").read_text()
        found["machines"] = run_files.read_machines(script.run_dir)
        found["output"] = (script.run_dir / "tensorboard").exists()
        finish(script)

    def begin(script):
        script.log(7)
        (script.run_dir / "tensorboard").mkdir()
        lose_after_checkpoint(lambda: head)(script)

    script_machines(monkeypatch, begin, go_on)
    head = Head(tmp_path, FakeCluster())
    assert head.start().join() is None
    assert found == {"saved": [10], "rows": "updates\n7\n", "machines": ["m0", "m1"], "output": False}
    (line,) = head.said
    assert line.endswith("seed 1 was lost on m0 (it died); it continues elsewhere from the files received so far.")
    assert records.read_record(head.job.record_paths[0]) == RECORD


@pytest.mark.parametrize("fails", [False, True])
def test_how_a_run_ended_counts_where_its_machine_is_lost_afterwards(tmp_path, monkeypatch, fails):
    def act(script):
        if fails:
            raise JobError("NaN")
        finish(script)

    def lose_at_the_end(run, method, *arguments):
        run.is_lost |= method == "close"

    script_machines(monkeypatch, act)
    cluster = FakeCluster(before=lose_at_the_end)
    head = Head(tmp_path, cluster)
    error = head.start().join()
    assert str(error) == ("NaN" if fails else "None")
    assert head.job.record_paths[0].exists() == (not fails)
    assert (len(cluster.runs), head.said) == (1, [])


def test_a_checkpoint_that_is_lost_on_its_way_is_not_there_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_job, "CHUNK_BYTES", 4)
    monkeypatch.setattr(machine_run, "CHUNK_BYTES", 4)
    seen = []

    def lose_in_the_midst(run, method, *arguments):
        if method == "get" and arguments[0].startswith("checkpoints/checkpoint_000000020") and arguments[1] > 4:
            run.is_lost = True

    def begin(script):
        script.save(10, b"a longer one")
        wait(lambda: head.saved() == [10])
        script.save(20, b"a longer one")
        script.end_when_asked()

    def go_on(script):
        seen.append((script.saved(), head.saved(), sorted(path.name for path in head.folder.iterdir())))
        assert (script.run_dir / "checkpoints/checkpoint_000000010/state.npz").read_bytes() == b"a longer one"
        finish(script)

    script_machines(monkeypatch, begin, go_on)
    cluster = FakeCluster(before=lose_in_the_midst)
    head = Head(tmp_path, cluster)
    assert head.start().join() is None
    assert [found[:2] for found in seen] == [([10], [10])]
    messages = [arguments[2] for method, arguments in cluster.runs[1].calls if method == "put"]
    assert max(map(len, messages)) == 4
    assert head.saved() == [10]


def test_three_losses_in_a_row_are_a_failure(tmp_path, monkeypatch):
    def act(script):
        wait(lambda: any(method == "begin" for method, _ in cluster.runs[-1].calls))
        cluster.runs[-1].is_lost = True

    script_machines(monkeypatch, act)
    cluster = FakeCluster()
    head = Head(tmp_path, cluster)
    error = head.start().join()
    assert isinstance(error, JobError)
    assert str(error) == "it was lost 3 times in a row, the last time on m2 (it died)."
    assert len(cluster.runs) == 3
    assert len(head.said) == 2


def test_losses_with_a_checkpoint_in_between_are_not_in_a_row(tmp_path, monkeypatch):
    lose = lose_after_checkpoint(lambda: head)
    script_machines(monkeypatch, lose, lose, lose, lose, finish)
    head = Head(tmp_path, FakeCluster())
    assert head.start().join() is None
    assert head.saved() == [20, 30, 40]
    assert len(head.said) == 4


def test_a_stop_saves_there_and_brings_it_back(tmp_path, monkeypatch):
    def act(script):
        script.save(10)
        script.wait_for_stop()
        script.save(20)
        raise Stopped

    script_machines(monkeypatch, act)
    cluster = FakeCluster()
    head = Head(tmp_path, cluster).start()
    wait(lambda: head.saved() == [10])
    head.job.stop()
    assert isinstance(head.join(), Stopped)
    assert head.saved() == [10, 20]
    assert cluster.runs[0].is_ended
    assert not head.job.record_paths[0].exists()


def test_a_stop_is_heard_while_a_large_file_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_job, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(cluster_job, "CHUNK_BYTES", 4)
    monkeypatch.setattr(machine_run, "CHUNK_BYTES", 4)

    def act(script):
        script.save(10, b"a longer one")
        script.end_when_asked()

    def stop(run, method, *arguments):
        if method == "get" and arguments == ("checkpoints/checkpoint_000000010/large/replay.npy", 8):
            head.job.stop()

    script_machines(monkeypatch, act)
    cluster = FakeCluster(before=stop)
    head = Head(tmp_path, cluster)
    assert isinstance(head.start().join(), Stopped)
    calls = cluster.runs[0].calls
    assert calls.index(("stop", ())) < calls.index(("get", ("checkpoints/checkpoint_000000010/large/replay.npy", 16)))
    assert head.saved() == [10]


def test_what_waits_for_cores_ends_at_once_and_a_run_that_goes_on_afterwards_has_what_came_back(tmp_path, monkeypatch):
    script_machines(monkeypatch, finish)
    cluster = FakeCluster(is_placed=False)
    head = Head(tmp_path, cluster).start()
    wait(lambda: head.job.where() == ", waits for cores")
    head.job.stop()
    assert isinstance(head.join(), Stopped)
    assert (cluster.runs[0].calls, cluster.runs[0].is_ended) == ([], True)
    cluster._is_placed = True
    head.job.take_back_stop()
    head.job.run([0], quiet=True)
    assert head.job.record_paths[0].exists()


def test_a_kill_keeps_what_came_back(tmp_path, monkeypatch):
    def act(script):
        script.save(10)
        script.wait_for_stop()
        wait(lambda: cluster.runs[0].is_ended)  # deaf until it is killed
        script.save(20)

    script_machines(monkeypatch, act)
    cluster = FakeCluster()
    head = Head(tmp_path, cluster).start()
    wait(lambda: head.saved() == [10])
    head.job.stop()
    head.job.kill()
    assert isinstance(head.join(), Stopped)
    assert head.saved() == [10]


def test_what_was_ended_there_by_somebody_else_goes_on_elsewhere(tmp_path, monkeypatch):
    def end(script):
        raise Stopped

    script_machines(monkeypatch, end, finish)
    head = Head(tmp_path, FakeCluster())
    assert head.start().join() is None
    assert "lost on m0 (its processes were ended there)" in head.said[0]


def test_another_version_is_refused_before_anything_is_sent(tmp_path, monkeypatch):
    cluster = FakeCluster()
    cluster.version = "other"
    error = Head(tmp_path, cluster).start().join()
    assert (
        str(error) == "m0 has another version of this suite than the head: check out the same commit on all machines."
    )
    assert [method for method, _ in cluster.runs[0].calls] == ["describe"]


def test_a_failure_names_the_folder_of_the_head_and_leaves_the_log_there(tmp_path, monkeypatch):
    def act(script):
        (script.run_dir / "log.txt").write_text("NaN\n")
        raise JobError(f"repro.train ended with exit code 1; see {script.run_dir / 'log.txt'}: NaN")

    script_machines(monkeypatch, act)
    cluster = FakeCluster()
    head = Head(tmp_path, cluster)
    error = head.start().join()
    assert str(error) == f"repro.train ended with exit code 1; see {head.folder / 'log.txt'}: NaN"
    assert (head.folder / "log.txt").read_text() == "NaN\n"
    assert len(cluster.runs) == 1


def test_no_other_process_works_on_the_run_meanwhile(tmp_path, monkeypatch):
    script_machines(monkeypatch, lambda script: script.end_when_asked())
    cluster = FakeCluster()
    head = Head(tmp_path, cluster).start()
    wait(lambda: cluster.runs and cluster.runs[0].calls)
    assert try_lock(head.folder / ".lock") is None
    monkeypatch.setattr(run_directory, "LEAVE_SECONDS", 0.1)
    assert isinstance(Head(tmp_path, cluster).start().join(), InUseError)
    head.job.stop()
    head.join()
    assert try_lock(head.folder / ".lock") is not None


def test_at_most_so_many_are_at_work_and_the_bars_say_where(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "TICK_SECONDS", 0.01)
    at_work, most, both_shown = set(), [], threading.Event()

    def act(script):
        at_work.add(script)
        most.append(len(at_work))
        for _ in range(1000):  # until another job is at work, too
            if {", on m0", ", on m1"} <= {job.where() for job in jobs}:
                both_shown.set()
            if both_shown.is_set():
                break
            time.sleep(0.01)
        time.sleep(0.1)
        at_work.remove(script)
        finish(script)

    made = script_machines(monkeypatch, act)
    cluster = FakeCluster()
    jobs = [Head(tmp_path, cluster, RUN._replace(seed=seed)).job for seed in range(1, 6)]
    assert run_on_cluster(jobs, 2, 3, Console(file=io.StringIO())) == {}
    assert max(most) == 2
    assert len(made) == 5
    assert both_shown.is_set()
    assert all(run.machine._num_cores == 3 for run in cluster.runs)


def a_checkpoint(folder, content=b"x"):
    folder.mkdir(parents=True)
    (folder / "state.npz").write_bytes(content)
    write_manifest(folder)
    return folder


def test_an_inbox_refuses_a_checkpoint_that_is_not_whole_and_keeps_three(tmp_path):
    source = a_checkpoint(tmp_path / "source")
    for number in (1, 2, 3, 4, 5):
        inbox = Inbox(tmp_path / "run")
        for path in source.iterdir():
            if number != 4 or path.name == "manifest.json":
                inbox.add(f"checkpoints/checkpoint_00000000{number}/{path.name}", [path.read_bytes()])
        inbox.add("progress.csv", [b"rows ", b"%d" % number])
        assert len(inbox.publish()) == (1 if number == 4 else 3)
        assert (tmp_path / "run/progress.csv").read_text() == f"rows {number}"
    assert sorted(path.name[-1] for path in (tmp_path / "run/checkpoints").iterdir()) == ["2", "3", "5"]
    (tmp_path / "run" / run_files.INCOMING).mkdir()
    Inbox(tmp_path / "run")
    assert not (tmp_path / "run" / run_files.INCOMING).exists()


def test_an_inbox_keeps_no_broken_checkpoints_that_the_run_went_on_without(tmp_path):
    source = a_checkpoint(tmp_path / "source")
    for number in (70, 80, 90):
        a_checkpoint(tmp_path / f"run/checkpoints/checkpoint_{number:09d}")
    for number in (80, 90):
        (tmp_path / f"run/checkpoints/checkpoint_{number:09d}/state.npz").write_bytes(b"")
    inbox = Inbox(tmp_path / "run")
    for path in source.iterdir():
        inbox.add(f"checkpoints/checkpoint_000000075/{path.name}", [path.read_bytes()])
    inbox.publish()
    assert sorted(path.name[-2:] for path in (tmp_path / "run/checkpoints").iterdir()) == ["70", "75"]


def test_what_says_that_a_run_is_complete_comes_last(tmp_path, monkeypatch):
    """A head that is killed after any number of files has no complete run without its checkpoint."""
    source = a_checkpoint(tmp_path / "source")
    inbox = Inbox(tmp_path / "run")
    inbox.add("complete.json", [b"{}"])
    inbox.add("progress.csv", [b""])
    for path in source.iterdir():
        inbox.add(f"checkpoints/checkpoint_000000001/{path.name}", [path.read_bytes()])
    there = []
    monkeypatch.setattr(
        run_files, "flush", lambda path: there.append(sorted(p.name for p in (tmp_path / "run").iterdir())[1:])
    )
    inbox.publish()
    assert there == [
        ["progress.csv"],
        ["checkpoints", "progress.csv"],
        ["checkpoints", "complete.json", "progress.csv"],
    ]


def test_a_checkpoint_stays_while_it_is_read_and_makes_room_for_the_next(tmp_path):
    run, pins = tmp_path / "run", tmp_path / "pins"
    first = a_checkpoint(run / "checkpoints/checkpoint_000000001", b"first")
    files = pin_checkpoint(run, pins)
    assert set(files) == {f"checkpoints/{first.name}/{name}" for name in ("state.npz", "manifest.json")}
    for path in first.iterdir():
        path.unlink()
    first.rmdir()
    assert not find_damage(pins / "checkpoints" / first.name)
    a_checkpoint(run / "checkpoints/partial_checkpoint_000000003")
    second = a_checkpoint(run / "checkpoints/checkpoint_000000002", b"second")
    assert set(pin_checkpoint(run, pins)) == {f"checkpoints/{second.name}/{n}" for n in ("state.npz", "manifest.json")}


def test_a_run_goes_on_from_its_newest_whole_checkpoint_and_so_do_members_of_a_population(tmp_path):
    for folder in (tmp_path, tmp_path / "member_00"):
        for number in (1, 2, 3):
            a_checkpoint(folder / f"checkpoints/checkpoint_00000000{number}")
        (folder / "checkpoints/checkpoint_000000003/state.npz").write_text("cut")
        (folder / "progress.csv").touch()
        (folder / ".lock").touch()
        (folder / "actors").mkdir()
        (folder / "actors/log.txt").touch()
    names = ["progress.csv", *(f"checkpoints/checkpoint_000000002/{name}" for name in ("state.npz", "manifest.json"))]
    assert set(list_saved(tmp_path, ["actors"])) == {*names, *(f"member_00/{name}" for name in names)}


def test_runs_of_a_machine_have_cores_of_their_own_and_clean_up_after_a_killed_one(tmp_path):
    cores = os.sched_getaffinity(0)
    alive, killed = MachineRun(1), MachineRun(1)
    for machine in (alive, killed):
        machine.prepare(RUN, None)
    assert alive._cores != killed._cores or len(cores) == 1
    for lock in killed._locks:
        lock.close()  # as the end of its process does
    (killed._folder / "large").write_text("x")
    third = MachineRun(len(cores) + 5)
    third.prepare(RUN, None)
    assert set(third._cores) == cores
    assert alive._folder.exists()
    assert not killed._folder.exists()


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701])
def test_a_run_is_refused_in_a_folder_of_others_or_to_which_they_have_access(mode, tmp_path, monkeypatch):
    MachineRun(1).prepare(RUN, None)
    (place,) = tmp_path.glob("repro-runs-*")
    assert place.stat().st_mode & 0o777 == 0o700
    place.chmod(mode)
    with pytest.raises(PermissionError, match="Other users have access to it; run chmod 700 on it"):
        MachineRun(1).prepare(RUN, None)
    place.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: int(place.name.rpartition("-")[2]) + 1)
    place.rename(tmp_path / f"repro-runs-{os.geteuid()}")  # made by somebody else
    with pytest.raises(PermissionError, match="Folder of another user"):
        MachineRun(1).prepare(RUN, None)


def test_a_study_is_done_there_and_its_records_and_figure_are_written_here(tmp_path, monkeypatch):
    figure = plt.figure()

    def study(config, seed, cores, advance, find_experiment):
        advance(1, 2)
        values = np.array([1.0, 2.0])
        return Study({name: StudyResult("x", values, "p") for name in config.answers}, steps=5, figure=figure)

    monkeypatch.setattr(papers, "find_study", lambda config: study)
    commits = iter(["a" * 40])
    monkeypatch.setattr(records, "git_commit", lambda: next(commits, None))  # the machine has no checkout
    head = Head(tmp_path, FakeCluster(), Run("stac", "theorems", "", "finite_mdp", "smoke", 1))
    head.start()
    assert head.join() is None
    assert head.job.recorded()
    found = [records.read_record(path) for path in head.job.record_paths]
    assert {record["git_commit"] for record in found} == {"a" * 40}
    assert {record["hardware"]["cores"] for record in found} == {1}
    assert (tmp_path / "results/stac/theorems/figure.svg").exists()
    assert not (tmp_path / "runs").exists()


def test_a_training_ends_with_its_machine_and_goes_on_elsewhere(tmp_path, monkeypatch):
    """A real one, in a process of which one is killed; the head stops it after it went on."""
    monkeypatch.undo()
    monkeypatch.setattr(cluster_job, "POLL_SECONDS", 0.2)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    cluster = ProcessCluster()
    head = Head(tmp_path, cluster, RUN._replace(task="InvertedPendulum")).start()
    wait(lambda: head.saved() or head.ended != "not yet", 300)
    (training,) = psutil.Process(cluster.runs[0].process.pid).children()
    assert f"--run_dir={tmp_path}" in " ".join(training.cmdline())
    cluster.runs[0].process.kill()
    wait(lambda: has_ended(training), 300)
    came = head.saved()
    wait(lambda: head.saved() > came or head.ended != "not yet", 300)
    head.job.stop()
    assert isinstance(head.join(), Stopped), head.ended
    assert "Resuming" in (head.folder / "log.txt").read_text()
    assert json.loads((head.folder / "machines.json").read_text()) == ["m0", "m1"]
    assert "was lost on m0" in head.said[0]
