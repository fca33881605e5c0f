"""Campaigns: what they keep, refuse, estimate and print; as a command they are paused, killed and started again."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from repro.environments.dmlab_module import FOLDER_VARIABLE
from repro.evidence import records
from repro.evidence.commands import Run
from repro.launch import campaign, gate
from repro.launch.campaign import CampaignFolder, CampaignFollower, Estimates, Planned
from repro.launch.plan import Block
from repro.launch.scheduler import NoMoreError
from tests.launch.fake_jobs import FakeJob, wait_for

BLOCK = Block("x", "refer", "figure_4_vracer", ("vracer_refer",), ("Hopper",), "desk", 5, 2.0, cores=2)
NARROW_BLOCK = dataclasses.replace(BLOCK, cores=1)
SMOKE_PLAN = """
from repro.launch.plan import Block

STAGES = {
    "first": (
        Block("fails", "impala", "gymnasium", ("impala",), ("Pendulum-v1",), "smoke", 1, 0.01),
        Block("not here", "impala", "dmlab_table2", ("vtrace",), ("rooms_watermaze",), "smoke", 1, 0.01),
        Block("runs", "impala", "atari_shallow", ("impala_shallow",), ("pong",), "smoke", 1, 0.01),
    )
}
"""


def planned(seed=1, task="Hopper", agent="vracer_refer", block=BLOCK):
    return Planned(Run("refer", "figure_4_vracer", agent, task, "desk", seed), FakeJob(f"{agent} {task} {seed}"), block)


def follow(items, folder, refused=(), **changes):
    console = Console(record=True, width=200, file=io.StringIO())
    fields = {"refused": dict(refused), "console": console, "num_cores": 2, "done": 3} | changes
    return CampaignFollower(items, folder, Estimates(items), **fields), console


@pytest.fixture
def folder(tmp_path):
    return CampaignFolder(tmp_path / "campaign")


def test_one_campaign_at_a_time(folder, tmp_path):
    assert folder.lock()
    assert not CampaignFolder(tmp_path / "campaign").lock()
    folder._lock.close()  # as the end of its process does
    assert CampaignFolder(tmp_path / "campaign").lock()


def test_a_pause_outlives_the_process(folder, tmp_path):
    folder.pause()
    assert CampaignFolder(tmp_path / "campaign").is_paused
    folder.resume()
    folder.resume()
    assert not CampaignFolder(tmp_path / "campaign").is_paused


def test_failures_are_kept_until_they_are_cleared(folder, tmp_path):
    one, two = planned(1).run, planned(2).run
    folder.add_failure(one, "NaN")
    folder.add_failure(two, "no ROM")
    again = CampaignFolder(tmp_path / "campaign")
    assert {name: found["reason"] for name, found in again.failures().items()} == {
        "refer/figure_4_vracer/Hopper/vracer_refer/desk/seed_1": "NaN",
        "refer/figure_4_vracer/Hopper/vracer_refer/desk/seed_2": "no ROM",
    }
    again.clear_failures([one])
    assert list(folder.failures()) == [campaign.name_of(two)]


def test_a_run_whose_agent_learns_otherwise_than_its_golden_values_is_refused(folder):
    item = planned()
    follower, console = follow([item], folder, {"refer.vracer_refer": "it learns otherwise"})
    assert follower.refusal(item.job) == "it learns otherwise"
    assert "refused, it learns otherwise" in console.export_text()
    other = planned(agent="vracer_er")
    follower, _ = follow([other], folder, {"refer.vracer_refer": "it learns otherwise"})
    assert follower.refusal(other.job) is None
    other.job.refusal = lambda: "begun with version 1"
    assert follower.refusal(other.job) == "begun with version 1"


def test_nothing_begins_after_the_code_changed(folder, monkeypatch):
    item = planned()
    follower, _ = follow([item], folder)
    assert follower.refusal(item.job) is None
    monkeypatch.setattr(gate, "fingerprint", lambda: "other")
    with pytest.raises(NoMoreError, match="changed since the campaign began"):
        follower.refusal(item.job)
    assert "start it again" in follower.stop_reason


def test_failures_in_a_row_end_it_and_those_of_other_processes_are_not_kept(folder):
    items = [planned(seed) for seed in range(1, 8)]
    follower, _ = follow(items, folder)
    follower.ended(items[0].job, "in use", True)
    assert folder.failures() == {}
    for item in items[1 : campaign.FAILURES_IN_A_ROW]:
        assert follower.refusal(items[-1].job) is None
        follower.ended(item.job, "disk full", False)
    assert len(folder.failures()) == campaign.FAILURES_IN_A_ROW - 1
    with pytest.raises(NoMoreError, match="5 runs failed in a row, perhaps for the same reason"):
        follower.refusal(items[-1].job)


def test_estimates_take_what_was_measured():
    runs = ((1, "Hopper"), (2, "Hopper"), (1, "Ant"), (1, "Ant", "vracer_er"))
    items = [planned(*run, block=NARROW_BLOCK) for run in runs]
    estimates = Estimates(items)
    assert [estimates.core_hours(item.job) for item in items] == [2.0] * 4
    estimates.add_record(items[0].job, {"wall_seconds": 3.0 * 3600, "hardware": {"cores": 1}})
    assert estimates.core_hours(items[1].job) == pytest.approx(3.0)  # the same task
    assert estimates.core_hours(items[2].job) == pytest.approx(3.0)  # the same agent
    assert estimates.core_hours(items[3].job) == pytest.approx(2.0 * 3.0 / 2.0)  # as much longer as all others
    estimates.add_record(items[2].job, {"wall_seconds": 2.5 * 3600, "hardware": {"cores": 2}})
    assert estimates.core_hours(items[2].job) == pytest.approx(5.0)
    assert estimates.core_hours(items[1].job) == pytest.approx(3.0)
    assert estimates.core_hours(items[3].job) == pytest.approx(2.0 * 8.0 / 4.0)


def test_runs_on_a_machine_that_had_more_to_do_raise_no_estimate():
    items = [planned(seed, block=NARROW_BLOCK) for seed in range(1, 5)]
    items += [planned(1, "Ant", block=NARROW_BLOCK), planned(2, "Swimmer", block=NARROW_BLOCK)]
    other = planned(1, "Ant", "vracer_er", block=NARROW_BLOCK)
    games = planned(1, "Walker2d", "random", block=NARROW_BLOCK)
    estimates = Estimates([*items, other, games])
    for item, hours in zip(items, (2.1, 1.0, 4.0)):
        estimates.add_record(item.job, {"wall_seconds": hours * 3600, "hardware": {"cores": 1}})
    assert estimates.core_hours(items[3].job) == pytest.approx(1.0)
    estimates.add_record(items[4].job, {"wall_seconds": 3.0 * 3600, "hardware": {"cores": 1}})
    assert estimates.core_hours(items[5].job) == pytest.approx(2.0)  # the mean over tasks
    estimates.add_record(games.job, {"wall_seconds": 90.0 * 3600, "hardware": {"cores": 1}})
    assert estimates.core_hours(other.job) == pytest.approx(2.0 * (0.5 + 1.5) / 2)  # by the median of the ratios
    estimates.add_record(items[5].job, {"wall_seconds": 40.0 * 3600, "hardware": {"cores": 1}})
    assert estimates.core_hours(other.job) == pytest.approx(2.0 * 1.5)


def test_what_is_left_of_a_run_follows_its_own_speed():
    item = planned()
    estimates = Estimates([item])
    assert estimates.left(item.job) == pytest.approx(0.5 * 2.0)  # half done, by the plan
    item.job.seconds_done = lambda: 1800.0
    assert estimates.left(item.job) == pytest.approx(0.5 * 2)  # half an hour for a half, on two cores
    item.job.seconds_done = lambda: 900.0
    assert estimates.left(item.job) == pytest.approx(0.5)


def test_the_state_and_the_summary(folder):
    now = [0.0]
    items = [planned(1), planned(2)]
    follower, console = follow(items, folder, clock=lambda: now[0])
    jobs = [item.job for item in items]
    follower.tick(jobs[:1], jobs[1:])
    assert folder.read_state() == "running"
    folder.pause()
    follower.tick(jobs[:1], jobs[1:])
    assert folder.read_state() == "pausing"
    follower.tick([], jobs)
    assert folder.read_state() == "paused"
    assert console.export_text().count("Paused: all runs are saved") == 1
    now[0] = campaign.SUMMARY_SECONDS
    follower.tick([], jobs)
    assert "3 of 5 runs done; 2.0 core-hours left, about 1.0 hours on 2 cores" in console.export_text()


def test_runs_that_were_refused_are_counted(folder):
    items = [planned(seed) for seed in (1, 2, 3)]
    follower, _ = follow(items, folder)
    items[0].job.refusal = lambda: "begun with version 1"
    assert follower.refusal(items[0].job) == "begun with version 1"
    assert follower.refusal(items[1].job) is None
    follower.ended(items[1].job, "disk full", False)
    assert follower.summary([items[2].job]).startswith("3 of 6 runs done, 1 failed, 1 refused; ")


def test_what_golden_values_say_is_kept_while_the_code_stays_the_same(tmp_path, monkeypatch):
    calls = []

    def measure(command, **_):
        calls.append(command[-1])
        found = {name: "differs" if name.endswith("er") else None for name in command[-1].split("=")[1].split(",")}
        return subprocess.CompletedProcess(command, 0, f"something else\n{json.dumps(found)}\n", "")

    monkeypatch.setattr(gate.subprocess, "run", measure)
    monkeypatch.setattr(gate, "fingerprint", lambda: "code")
    kept = tmp_path / "golden.json"
    assert gate.find_other_behaviour(["refer.vracer_er", "refer.ppo"], kept) == {"refer.vracer_er": "differs"}
    assert gate.find_other_behaviour(["refer.ppo"], kept) == {}
    assert gate.find_other_behaviour(["refer.ppo", "refer.naf_er"], kept) == {"refer.naf_er": "differs"}
    assert calls == ["--check=refer.ppo,refer.vracer_er", "--check=refer.naf_er"]
    monkeypatch.setattr(gate, "fingerprint", lambda: "other code")
    gate.find_other_behaviour(["refer.ppo"], kept)
    assert calls[2:] == ["--check=refer.ppo"]
    monkeypatch.setattr(
        gate.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1, "", "no\n")
    )
    with pytest.raises(gate.GateError, match=r"could not be computed .no.\."):
        gate.find_other_behaviour(["refer.naf_er"], kept)


def test_the_fingerprint_is_of_code_and_configs_alone(tmp_path):
    for name in ("repro/a.py", "paper_configs/x/b.py", "paper_configs/published/x.json", "paper_configs/campaign.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    before = gate.fingerprint(tmp_path)
    for name, changes in (
        ("paper_configs/published/x.json", False),
        ("paper_configs/campaign.py", False),
        ("results/x.json", False),
        ("paper_configs/x/b.py", True),
        ("repro/a.py", True),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("2")
        after = gate.fingerprint(tmp_path)
        assert (after != before) == changes, name
        before = after


def command(tmp_path: Path, *flags: str) -> list[str]:
    folders = [f"--runs_dir={tmp_path / 'runs'}", f"--results_dir={tmp_path / 'records'}"]
    return [sys.executable, "-m", "repro.campaign", f"--plan={tmp_path / 'plan.py'}", *folders, *flags]


def call(tmp_path: Path, *flags: str) -> subprocess.CompletedProcess:
    return subprocess.run(command(tmp_path, *flags), capture_output=True, text=True, timeout=600, check=False)


def start(tmp_path: Path) -> subprocess.Popen:
    """A campaign on a machine without DeepMind Lab."""
    environment = os.environ | {FOLDER_VARIABLE: str(tmp_path / "nothing")}
    with (tmp_path / "log.txt").open("a") as log:
        return subprocess.Popen(command(tmp_path), stdout=log, stderr=log, env=environment, start_new_session=True)


def is_training(run_dir: Path) -> bool:
    found = subprocess.run(["pgrep", "-f", f"repro.train --run_dir={run_dir} "], capture_output=True, check=False)
    return found.returncode == 0


@pytest.mark.slow
def test_pause_kill_and_restart_lose_no_run_and_a_failed_one_is_set_aside(tmp_path):
    (tmp_path / "plan.py").write_text(SMOKE_PLAN)
    run_dir = tmp_path / "runs/impala/atari_shallow/pong/impala_shallow/smoke/seed_1"
    first = start(tmp_path)
    wait_for(lambda: (run_dir / "progress.csv").exists(), 300)
    assert is_training(run_dir)
    folder = CampaignFolder(tmp_path / "runs/campaign")
    folder.pause()  # before the run can end; what --pause does besides is to wait
    paused = call(tmp_path, "--pause")
    assert "all runs are saved and their cores are free" in paused.stdout
    assert not is_training(run_dir)
    checkpoints = sorted((run_dir / "checkpoints").glob("checkpoint_*"))
    assert checkpoints
    assert not (run_dir / "complete.json").exists()
    folder.resume()
    wait_for(lambda: is_training(run_dir), 300)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    wait_for(lambda: not is_training(run_dir), 300)  # the training does not outlive the campaign

    second = start(tmp_path)
    assert second.wait(timeout=600) == 1
    record = records.read_record(tmp_path / "records/impala/atari_shallow/pong/impala_shallow/seed_1.json")
    assert record["num_env_frames"] >= 60_000
    assert "Resuming" in (run_dir / "log.txt").read_text()
    failed = json.loads((tmp_path / "runs/campaign/failures.json").read_text())
    assert list(failed) == ["impala/gymnasium/Pendulum-v1/impala/smoke/seed_1"]
    assert "agent impala takes Discrete actions" in failed["impala/gymnasium/Pendulum-v1/impala/smoke/seed_1"]["reason"]
    text = (tmp_path / "log.txt").read_text()
    assert text.count("Pendulum-v1 seed 1: begins") == 1
    assert "1 run is left out: DeepMind Lab is not built here" in text
    assert "All other runs are done (failed or refused: 1, left out: 1)." in " ".join(text.split())
    assert "Pendulum-v1/impala/smoke/seed_1 is set aside" in text

    shown = call(tmp_path, "--dry_run")
    assert "1 of 3 runs are done" in shown.stdout
    assert "is not paused" in call(tmp_path, "--resume").stdout
    wrong = call(tmp_path, "--only=pongg")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "--only: no run of the plan has the word 'pongg'; did you mean 'pong'?" in wrong.stderr


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--only=pongg", "--only: no run of the plan has the word 'pongg'; did you mean 'pong'?\n"),
        ("--share=4/3", "--share='4/3': give k/n with k from 1 to n, such as 1/2.\n"),
    ],
)
def test_a_wrong_choice_is_said_before_the_plan_is_put_in_order(tmp_path, flag, sentence):
    (tmp_path / "plan.py").write_text(SMOKE_PLAN)
    code = (
        "import runpy\nfrom repro.launch import plan\n\n\ndef order(stages):\n    raise AssertionError\n\n\n"
        "plan.order = order\nrunpy.run_module('repro.campaign', run_name='__main__', alter_sys=True)\n"
    )
    flags = [*command(tmp_path)[3:], "--dry_run", flag]
    done = subprocess.run([sys.executable, "-c", code, *flags], capture_output=True, text=True)
    assert (done.returncode, done.stderr.partition(": ")[2]) == (2, sentence)


ON_A_CLUSTER = """
import sys
from absl import flags
from repro import campaign
from repro.launch import ray_runs

class Cluster:
    version = "any"

    def __init__(self, address):
        pass

    def connect(self, cores):
        return 7

    def describe(self, at_once):
        return f"At most {at_once} runs at once."

ray_runs.RayRuns = Cluster
flags.FLAGS(sys.argv)
campaign.main([])
"""


def test_a_dry_run_counts_the_cores_of_the_cluster_and_leaves_no_folder(tmp_path):
    (tmp_path / "plan.py").write_text(SMOKE_PLAN)
    flags = [*command(tmp_path)[3:], "--dry_run", "--cluster=auto"]
    said = subprocess.run([sys.executable, "-c", ON_A_CLUSTER, *flags], capture_output=True, text=True, check=True)
    assert "0 of 3 runs are done" in said.stdout
    assert "on 7 cores" in said.stdout
    assert not (tmp_path / "runs").exists()


SHOW_PLAN = """
import sys
from pathlib import Path
from rich.console import Console
from repro import campaign
from repro.launch.campaign import CampaignFolder
campaign._show_plan([], [], CampaignFolder(Path(sys.argv[2])), 2, Console(width=int(sys.argv[1])))
"""


@pytest.mark.parametrize(("width", "has_sums"), [(180, True), (80, False)])
def test_a_narrow_terminal_shows_the_plan_without_sums(tmp_path, width, has_sums):
    command = [sys.executable, "-c", SHOW_PLAN, str(width), str(tmp_path)]  # a process of its own for its flags
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Core-hours left" in said
    assert ("so far" in said, "Full rows" in said) == (has_sums, has_sums)
