"""Whole runs on a Ray cluster, with a stand-in for Ray; `tests/ray_machines.py` uses Ray itself."""

from __future__ import annotations

import re
import sys
import types

import pytest

from repro.launch import gate, jobs
from repro.launch.cluster_job import LostError
from repro.launch.ray_cluster import ClusterError
from repro.launch.ray_runs import RayRuns
from tests.support.forked_train import run_command

LONGEST_SECONDS = 300.0


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class FakeRay(types.ModuleType):
    """What is used of Ray: each call of an actor is made when its result is asked for.

    Attributes:
        sizes: cores of the machines.
        versions: of their code.
        is_free: whether there are cores.
        options: of what was begun last.
        killed: actors.
        error: of whatever is asked for next.
    """

    def __init__(self) -> None:
        super().__init__("ray")
        self.exceptions = types.SimpleNamespace(RayError=RayError)
        self.sizes, self.versions, self.is_free = [5, 7, 0], ["code", "code", ""], True
        self.options, self.killed, self.error = {}, [], None

    def init(self, **_):
        pass

    def nodes(self):
        found = [{"Alive": True, "Resources": {"CPU": float(size)}} for size in self.sizes]
        for number, node in enumerate(found):
            node["NodeManagerAddress"] = str(number)
        return [*found, {"Alive": False, "Resources": {"CPU": 99.0}}]

    def remote(self, **options):
        self.options = options
        return lambda what: _Actors(what) if isinstance(what, type) else _Describe(self)

    def wait(self, tasks, timeout, num_returns=1):
        assert timeout > 0
        return (tasks, []) if self.is_free else ([], tasks)

    def get(self, task):
        if self.error is not None:
            raise self.error
        return task()

    def kill(self, actor):
        self.killed.append(actor)


class _Describe:
    def __init__(self, ray, number=0):
        self._ray, self._number = ray, number

    def options(self, resources):
        ((name, amount),) = resources.items()
        assert amount < 0.1
        return _Describe(self._ray, int(name.removeprefix("node:")))

    def remote(self):
        return lambda: (f"machine {self._number}", self._ray.versions[self._number])


class _Actors:
    def __init__(self, what):
        self._what = what

    def remote(self, *arguments):
        return _Actor(self._what(*arguments))


class _Actor:
    def __init__(self, machine):
        self.machine = machine

    def __getattr__(self, name):
        method = getattr(self.machine, name)
        return types.SimpleNamespace(remote=lambda *arguments: lambda: method(*arguments))


@pytest.fixture
def ray(monkeypatch):
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(gate, "fingerprint", lambda: "code")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return fake


def test_a_cluster_has_room_for_what_fits_on_its_machines(ray):
    cluster = RayRuns("auto")
    assert [cluster.connect(cores) for cores in (1, 2, 3, 7)] == [12, 5, 3, 1]
    with pytest.raises(ClusterError, match=r"needs 8 cores, but no machine .* at auto has more than 7: lower --cores"):
        cluster.connect(8)
    assert "At most 5 runs at once on a Ray cluster with 3 machines and 12 cores." in cluster.describe(5)


def test_machines_with_another_version_or_without_this_suite_are_named(ray):
    ray.versions[2] = "other"  # has no cores
    RayRuns("auto").connect(1)
    ray.versions[1] = "other"
    with pytest.raises(ClusterError, match="^machine 1 has another version of this suite than the head"):
        RayRuns("auto").connect(1)
    ray.error = RayTaskError("Traceback\nModuleNotFoundError: No module named 'repro'")
    with pytest.raises(ClusterError, match=r"cannot run this suite \(ModuleNotFoundError: No module named 'repro'\)"):
        RayRuns("auto").connect(1)


def test_a_run_is_an_actor_with_its_cores_that_is_never_started_again(ray):
    cluster = RayRuns("auto")
    cluster.connect(1)
    run = cluster.start(3)
    assert ray.options == {
        "num_cpus": 3,
        "max_restarts": 0,
        "max_task_retries": 0,
        "scheduling_strategy": "SPREAD",
    }
    assert run.is_placed()
    assert run.call("describe") == run._actor.machine.describe()
    ray.error = RayTaskError("Traceback\nOSError: the disk is full")
    with pytest.raises(LostError, match="^OSError: the disk is full$"):
        run.call("describe")
    ray.error = ConnectionError("the cluster is gone.")
    with pytest.raises(LostError, match="^ConnectionError: the cluster is gone$"):
        run.call("describe")
    run.end()
    run.end()
    assert len(ray.killed) == 1
    with pytest.raises(LostError, match="it was ended"):
        run.call("describe")
    cluster.start(9)
    assert ray.options["num_cpus"] == 7  # no machine has more


def test_what_waits_for_cores_is_not_placed(ray):
    ray.is_free = False
    cluster = RayRuns("auto")
    cluster._check_versions = lambda: None
    cluster.connect(1)
    assert not cluster.start(1).is_placed()


@pytest.mark.parametrize(
    ("paper", "experiment", "agent", "has"),
    [
        ("impala", "atari_shallow", "impala_shallow", True),
        ("acer", "continuous", "acer", True),
        ("ctrace", "r2d2", "ctrace", True),
        ("ctrace", "gymnasium", "r2d2_ctrace", True),
        ("ctrace", "gymnasium", "ctrace_gamma10", False),
        ("ctrace", "dqn", "ctrace_gamma10", False),
        ("refer", "figure_4_vracer", "vracer_refer", False),
        ("refer", "figure_4_vracer", "ppo", False),
        ("impala", "atari_shallow", "random", False),
        ("impala", "gymnasium_population", "pbt", False),
        ("stac", "theorems", "", False),
    ],
)
def test_actors_are_spread_where_there_are_some_and_else_whole_runs(paper, experiment, agent, has):
    assert jobs.has_remote_actors(jobs.load_config(paper, experiment, "smoke"), agent) == has


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--spread=runs"], "--spread and --jobs=0 are only allowed with --cluster."),
        (["--jobs=0"], "--spread and --jobs=0 are only allowed with --cluster."),
        (["--spread=actors", "--cluster=ray://h:1", "--agent=random"], "random in .* has no actors that could run"),
    ],
)
def test_flags_that_do_not_fit_are_one_sentence(tmp_path, flags, sentence):
    done = run_command(tmp_path, "repro.reproduce", "--paper=refer", "--scale=smoke", *flags)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert re.search(sentence, line), line
