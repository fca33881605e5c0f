"""Actors on a Ray cluster, with a stand-in for Ray whose roles tests end; `tests/ray_machines.py` uses Ray itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import types

import ml_collections
import pytest
import tensorflow as tf

from repro import cli, gpus, papers
from repro.config import PROCESSES, use_processes
from repro.launch import ray_actors, ray_cluster
from repro.launch.ray_actors import RayActors
from repro.launch.ray_cluster import ClusterError
from repro.training import devices, evaluator_setup

LONGEST_SECONDS = 120.0
OPTIONS = {"num_cpus": 1, "num_gpus": 0, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
CONFIG = {"agent": "impala", "runtime": {"num_actors": 2}}


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class WorkerCrashedError(RayError):
    pass


class ActorDiedError(RayError):
    pass


class FakeRay(types.ModuleType):
    """What is used of Ray.

    Attributes:
        clusters: addresses at which there is one.
        joined: addresses that were tried.
        tasks: method and arguments of those that were begun.
        end: of a task, an error or None.
        killed: roles, by their number.
    """

    def __init__(self) -> None:
        super().__init__("ray")
        self.exceptions = types.SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
        self.util = types.SimpleNamespace(get_node_ip_address=lambda: "10.0.0.1")
        self.clusters, self.joined, self.tasks, self.killed = {"auto", "local"}, [], [], []
        self.options, self.end = {}, None

    def init(self, address, **_):
        self.joined.append(address)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as Ray, which puts handlers of its own there
        if address not in self.clusters:
            raise ConnectionError("nobody answers.\nat all")

    def remote(self, **options):
        self.options = options
        return lambda role: types.SimpleNamespace(remote=lambda: _Role(self, role))

    def get(self, task):
        if self.end:
            raise self.end

    def kill(self, role):
        self.killed.append(role.number)

    def nodes(self):
        sizes = {"memory": 2e9}, {"memory": 9e9}, {}
        return [{"Alive": i != 1, "Resources": size} for i, size in enumerate(sizes)]

    def available_resources(self):
        return {"CPU": 3.0, "memory": 2e9}


class _Role:
    def __init__(self, ray, role):
        self._ray, self._role, self.number = ray, role, len(ray.tasks) + 1

    def __getattr__(self, method):
        assert hasattr(self._role, method)
        return types.SimpleNamespace(remote=lambda *args: self._ray.tasks.append((method, *args)))


@pytest.fixture
def ray(monkeypatch):
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    return fake


def test_an_actor_is_a_task_that_reaches_the_learner_by_its_address(ray):
    launcher = RayActors("auto", CONFIG, 7, port=4321)
    assert (launcher.home, launcher.port) == ("10.0.0.1", 4321)
    process = launcher(1, 2, "localhost:1234")
    assert ray.tasks == [("play", CONFIG, 7, 1, 2, "10.0.0.1:1234")]
    assert ray.options == OPTIONS
    process.kill()
    assert ray.killed == [1]


def test_the_address_of_a_head_on_this_machine_is_not_that_by_which_others_reach_it(ray):
    ray.clusters |= {"ray://127.0.0.1:10001", "ray://127.0.0.2:10001"}
    for address in ray.clusters - {"local"}:
        assert RayActors(address, CONFIG, 7).home == "10.0.0.1"


def test_tensorflow_is_not_loaded_for_the_cluster_alone():
    code = "import sys, repro.launch.ray_actors; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_machine_that_commands_from_outside_is_reached_by_its_address_on_the_way_to_the_head(ray, monkeypatch):
    ray.clusters.add("ray://10.0.0.9:10001")
    monkeypatch.setattr(ray_actors, "own_address", {"10.0.0.9:10001": "10.0.0.5"}.get)
    assert RayActors("ray://10.0.0.9:10001", CONFIG, 7).home == "10.0.0.5"


@pytest.mark.parametrize(("threads", "cores", "visible"), [(0, 1, 0), (3, 3, 1)])
def test_a_learner_is_a_task_with_its_own_cores_and_a_gpu_where_the_chief_has_one(
    ray, monkeypatch, threads, cores, visible
):
    monkeypatch.setattr(gpus, "visible_gpus", lambda: ["GPU:0"] * visible)
    config = {"agent": "impala", "runtime": {"threads": threads}}
    process = RayActors("auto", config, 7).start_learner(1, "10.0.0.1:5", "key")
    assert ray.tasks == [("learn", config, 7, 1, "10.0.0.1:5", "key")]
    assert (ray.options["num_cpus"], ray.options["num_gpus"], ray.options["max_restarts"]) == (cores, visible, 0)
    process.terminate()
    assert ray.killed == [1]


def test_a_learner_starts_its_actors_on_the_cluster_that_it_is_a_task_of(ray):
    RayActors(ray_cluster.JOINED, CONFIG, 7)(1, 0, "localhost:1234")
    assert not ray.joined
    assert ray.tasks == [("play", CONFIG, 7, 1, 0, "10.0.0.1:1234")]


def test_an_evaluator_is_a_task_of_one_core_that_reaches_the_learner_by_its_address(ray):
    process = RayActors("auto", CONFIG, 7).start_evaluator("localhost:1234")
    assert ray.tasks == [("evaluate", CONFIG, 7, "10.0.0.1:1234")]
    assert ray.options == OPTIONS
    assert process.may_wait
    process.kill()
    assert ray.killed == [1]


def test_a_replay_is_a_task_for_which_memory_is_set_aside(ray):
    config = {"agent": "r2d2", "runtime": {"num_actors": 2, "replay_gb": 1.5}}
    process = RayActors("auto", config, 7).start_replay("localhost:1234", "key")
    assert ray.tasks == [("store", config, 7, "10.0.0.1:1234", "key")]
    assert ray.options == OPTIONS | {"num_cpus": 0, "memory": 1_500_000_000}  # actors, who wait for it, have all cores
    assert process.may_wait
    assert "wait" not in RayActors("auto", config, 7).describe(3)


def test_a_replay_is_said_to_wait_for_memory_that_no_machine_has(ray):
    config = {"agent": "r2d2", "runtime": {"num_actors": 2, "replay_gb": 2.5}}  # the one with 9 GB is gone
    waiting = " The run waits for a machine with 2.5 GB for the replay; at most 2.0 GB are free. "
    assert waiting in RayActors("auto", config, 7).describe(3)


def test_a_port_that_another_learner_has_is_refused(ray):
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as Reverb's server
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ClusterError, match=f"--cluster_port={port} cannot be used"):
            RayActors("auto", CONFIG, 7, port)
    assert RayActors("auto", CONFIG, 7, port).port == port


def test_an_actor_plays_where_no_gpu_is_visible(monkeypatch):
    called = []
    others = dict.fromkeys(("SCHEDULES", "config", "evaluation", "build_trainer", "make_evaluation_agent"), print)
    experiment = types.SimpleNamespace(**others, run_remote_actor=lambda *place: called.append(place))
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *visible: called.append(visible))
    monkeypatch.setattr(devices, "configure_threads", lambda **threads: called.append(threads))
    monkeypatch.setattr(cli, "quiet", lambda: None)
    monkeypatch.setattr(papers, "find_experiment", lambda config: experiment)
    ray_actors.Role().play(CONFIG, 7, 1, 2, "10.0.0.1:1234")
    assert called == [([], "GPU"), {"deterministic": False, "threads": 1}, (7, 1, 2, "10.0.0.1:1234")]


def test_an_evaluator_plays_where_no_gpu_is_visible(monkeypatch):
    called = []
    monkeypatch.setattr(devices, "configure_actor", lambda: called.append("no GPU"))
    monkeypatch.setattr(cli, "quiet", lambda: None)
    monkeypatch.setattr(
        evaluator_setup, "run_evaluator", lambda find, config, *run: called.append((config.agent, *run))
    )
    ray_actors.Role().evaluate(CONFIG, 7, "10.0.0.1:1234")
    assert called == ["no GPU", ("impala", 7, "10.0.0.1:1234")]


def test_a_replay_is_served_where_no_gpu_is_visible_from_a_folder_among_temporary_files(monkeypatch, tmp_path):
    called = []
    others = dict.fromkeys(("SCHEDULES", "config", "evaluation", "build_trainer", "make_evaluation_agent"), print)
    experiment = types.SimpleNamespace(**others, run_remote_replay=lambda *place: called.append(place))
    monkeypatch.setattr(devices, "configure_actor", lambda: called.append("no GPU"))
    monkeypatch.setattr(cli, "quiet", lambda: None)
    monkeypatch.setattr(papers, "find_experiment", lambda config: experiment)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ray_actors.Role().store(CONFIG, 7, "10.0.0.1:1234", "key")
    (folder,) = tmp_path.iterdir()
    assert called == ["no GPU", (folder, "10.0.0.1:1234", "key")]


def test_the_reason_why_a_task_ended_is_one_line(ray):
    process = RayActors("auto", CONFIG, 7)(0, 0, "localhost:1")
    ray.end = RayTaskError("Traceback of a task\n  File somewhere\nOSError: the simulator is gone\n")
    assert process.wait() == "OSError: the simulator is gone"
    lines = "The actor died before it finished.\n\tpid: 7\nThe actor died because its node has died. Node Id: 99\n"
    ray.end = ActorDiedError(lines)
    assert process.wait() == "ActorDiedError: The actor died because its node has died"
    ray.end = WorkerCrashedError("The worker died.\nLook into logs.")
    assert process.wait() == "WorkerCrashedError: The worker died"
    ray.end = WorkerCrashedError()
    assert process.wait() == "WorkerCrashedError: without a reason"


def test_a_role_leaves_its_core_however_it_ended_and_a_lost_cluster_is_a_reason(ray, monkeypatch):
    process = RayActors("auto", CONFIG, 7)(0, 0, "localhost:1")
    assert process.wait() == "it found no learner"
    ray.end = RayTaskError("Traceback\nOSError: the simulator is gone\n")
    process.wait()
    ray.end = KeyError("not of Ray")
    with pytest.raises(KeyError):
        process.wait()
    assert ray.killed == [1, 1, 1]

    def kill(role):
        raise ConnectionError("nobody answers")

    monkeypatch.setattr(ray, "kill", kill)
    ray.end = RayTaskError("Traceback\nOSError: the simulator is gone\n")
    assert process.wait() == "OSError: the simulator is gone"
    ray.end = ConnectionError("nobody answers")
    assert process.wait() == "ConnectionError: nobody answers"
    with pytest.raises(ConnectionError):
        process.kill()


@pytest.mark.parametrize(("before", "after"), [(None, "."), ("own", "own")])
def test_lines_of_ray_s_own_do_not_come_on_the_screen_unless_a_user_says_so(ray, monkeypatch, before, after):
    monkeypatch.setenv(ray_cluster.SKIPPED_LINES, str(before))
    if before is None:
        del os.environ[ray_cluster.SKIPPED_LINES]
    ray_cluster.join("auto")
    assert os.environ[ray_cluster.SKIPPED_LINES] == after


def test_what_is_said_names_machines_cores_and_whom_to_trust(ray):
    launcher = RayActors("auto", CONFIG, 7)
    said = launcher.describe(3)
    assert said.startswith("Actors play on a Ray cluster with 2 machines and 3 free cores. Reverb has no authenticat")
    assert said.endswith("Use a private network only.")
    assert " 2 of 5 actors wait until there are more. Reverb" in launcher.describe(5)


@pytest.mark.parametrize(
    ("num_actors", "waiting"),
    [
        (2, ""),
        (3, " The evaluator waits until there is one more."),
        (5, " 2 of 5 actors and the evaluator wait until there are more."),
    ],
)
def test_an_evaluator_is_said_to_wait_where_actors_have_all_cores(ray, num_actors, waiting):
    said = RayActors("auto", CONFIG, 7).describe(num_actors, evaluates=True)
    assert f"3 free cores.{waiting} Reverb has" in said


@pytest.mark.parametrize(
    ("threads", "num_learners", "waiting"),
    [
        (0, 2, " Neither Reverb nor TensorFlow"),
        (2, 2, " 1 of 2 actors wait until there are more. Neither"),
        (2, 3, " The run waits for cores: 2 for each of 2 learners on the cluster. Neither"),
    ],
)
def test_learners_are_said_to_take_cores_before_actors_do(ray, threads, num_learners, waiting):
    config = CONFIG | {"runtime": {"num_actors": 2, "threads": threads}}
    said = RayActors("auto", config, 7).describe(2, num_learners)
    assert said.startswith(f"Actors and learners run on a Ray cluster with 2 machines and 3 free cores.{waiting}")
    assert said.endswith("run commands there. Use a private network only.")


def test_without_a_cluster_one_begins_and_handlers_of_signals_stay(ray):
    before = signal.getsignal(signal.SIGTERM)
    ray.clusters = {"local"}
    assert ray_cluster.join("auto") is ray
    assert ray.joined == ["auto", "local"]
    assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(ClusterError, match=r"^no Ray cluster at ray://nowhere:1 \(nobody answers\)\.$"):
        ray_cluster.join("ray://nowhere:1")
    assert ray.joined == ["auto", "local", "ray://nowhere:1"]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("address", ["ray://head", "ray://head:", "ray://head:port"])
def test_an_address_without_a_port_is_an_error_before_it_is_tried(ray, address):
    with pytest.raises(
        ClusterError, match=rf"^{address} has no port; the default of Ray's client server is ray://<host>:10001\."
    ):
        RayActors(address, CONFIG, 7)
    assert not ray.joined


def test_a_configuration_gets_actors_in_processes_where_it_has_some():
    config = ml_collections.ConfigDict({"experiment": "e", "agent": "a", "runtime": {"schedule": "async"}})
    use_processes(config)
    assert config.runtime.schedule == PROCESSES
    own = ml_collections.ConfigDict(config.to_dict() | {"variants": {"a": {"runtime": {"schedule": "lockstep"}}}})
    with pytest.raises(ValueError, match=r"agent a has its own runtime\.schedule"):
        use_processes(own)
    with pytest.raises(ValueError, match="e has no actors"):
        use_processes(ml_collections.ConfigDict({"experiment": "e", "runtime": {"threads": 1}}))


def test_without_ray_the_command_says_how_to_install_it(tmp_path):
    without_ray = "import sys; sys.modules['ray'] = None; from repro import cli, train; cli.run(train.main)"
    settings = ["--config=paper_configs/impala/gymnasium.py:smoke", "--cluster=auto", f"--run_dir={tmp_path / 'run'}"]
    command = [sys.executable, "-c", without_ray, *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].endswith(
        "Ray is not installed; install it with: .venv/bin/pip install -e .[cluster]"
    )
