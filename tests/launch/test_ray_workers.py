"""Pieces on a Ray cluster, with a stand-in for Ray that runs each task when asked, and once with Ray itself."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import types

import pytest

from repro.launch import member
from repro.launch.lineage import PopulationError
from repro.launch.pieces import Piece, PieceResult
from repro.launch.ray_workers import BEGUN, STOP, RayPool
from repro.launch.recorded_job import Stopped
from repro.training.run_directory import CHECKPOINTS, newest_checkpoint
from tests.launch.test_member import make_piece
from tests.support.ray_cluster import AS_OTHERS


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class FakeRay(types.ModuleType):
    """What is used of Ray; tasks end in the opposite order of their beginning.

    Attributes:
        options: of the tasks.
        is_up: whether the cluster is there.
        killed: number of workers.
    """

    def __init__(self) -> None:
        super().__init__("ray")
        self.exceptions = types.SimpleNamespace(RayError=RayError)
        self.options, self.is_up, self.killed = {}, False, 0

    def init(self, address, **_):
        if address == "nowhere":
            raise ConnectionError("could not connect\nat all")
        self.is_up = True

    def shutdown(self):
        self.is_up = False

    def remote(self, **options):
        self.options = options

        def worker(role):
            train = types.SimpleNamespace(remote=lambda *arguments: lambda: role().train(*arguments))
            return types.SimpleNamespace(train=train)

        return lambda role: types.SimpleNamespace(remote=lambda: worker(role))

    def wait(self, tasks, timeout):
        assert timeout > 0
        return tasks[-1:], tasks[:-1]

    def kill(self, worker):
        self.killed += 1

    def nodes(self):
        return [{"Alive": True, "Resources": resources} for resources in ({}, {"CPU": 4.0})] + [
            {"Alive": False, "Resources": {"CPU": 64.0}}
        ]

    def get(self, task):
        try:
            return task()
        except RuntimeError as error:
            raise RayTaskError(f"task failed\n{error}") from error


@pytest.fixture
def ray(monkeypatch):
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    return fake


def pieces(path):
    return [Piece(i, 0, path / f"member_{i}", {}, i, 0, 1, None, False) for i in range(3)]


def result(number):
    return PieceResult(number, 1, [0.5], False)


def test_each_piece_is_a_task_and_each_result_its_member_s(ray, tmp_path, monkeypatch):
    monkeypatch.setattr(member, "train_piece", lambda piece, stop, warn: result(piece.member + 10))
    with RayPool("local", tmp_path, 2) as pool:
        assert ray.is_up
        assert ray.options["num_cpus"] == 2
        assert list(pool(pieces(tmp_path))) == [(i, result(i + 10)) for i in (2, 1, 0)]
    assert not ray.is_up


def test_what_is_asked_to_stop_saves_begins_no_piece_and_leaves_nothing_behind(ray, tmp_path, monkeypatch):
    trained = []

    def train_piece(piece, stop, warn):
        trained.append(piece.member)
        pool.stop()
        return None if stop() else result(0)

    monkeypatch.setattr(member, "train_piece", train_piece)
    (tmp_path / STOP).touch()  # of a command that was killed
    with RayPool("local", tmp_path, 1) as pool, pytest.raises(Stopped):
        list(pool(pieces(tmp_path)))
    assert trained == [2]
    assert ray.killed == 3
    assert not list(tmp_path.iterdir())


def test_tasks_that_wait_for_cores_do_not_hold_up_a_stop_and_those_that_have_begun_save(ray, tmp_path, monkeypatch):
    monkeypatch.setattr(member, "train_piece", lambda piece, stop, warn: None)
    with RayPool("local", tmp_path, 1) as pool:
        wait = ray.wait

        def begin_one_and_stop(tasks, timeout):
            (tmp_path / BEGUN / "1").touch()
            pool.stop()
            monkeypatch.setattr(ray, "wait", wait)
            return [], tasks

        monkeypatch.setattr(ray, "wait", begin_one_and_stop)
        with pytest.raises(Stopped):
            list(pool(pieces(tmp_path)))
        assert ray.killed == 3


def test_a_task_that_fits_on_no_machine_is_an_error_at_once(ray, tmp_path):
    with pytest.raises(PopulationError, match=r"needs 5 cores, but no machine .* at local has more than 4: raise"):
        RayPool("local", tmp_path, 5)
    assert not ray.is_up
    RayPool("local", tmp_path, 4)


def test_a_task_that_fails_is_named(ray, tmp_path, monkeypatch):
    def train_piece(piece, stop, warn):
        raise RuntimeError("the disk is full.")

    monkeypatch.setattr(member, "train_piece", train_piece)
    with (
        RayPool("local", tmp_path, 1) as pool,
        pytest.raises(PopulationError, match="member 2 failed: the disk is full."),
    ):
        list(pool(pieces(tmp_path)))


def test_without_ray_or_a_cluster_there_is_a_sentence(ray, tmp_path, monkeypatch):
    with pytest.raises(PopulationError, match=r"no Ray cluster at nowhere \(could not connect\)\."):
        RayPool("nowhere", tmp_path, 1)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        PopulationError, match=r"Ray is not installed; install it with: .venv/bin/pip install -e .\[cluster\]"
    ):
        RayPool("local", tmp_path, 1)


@pytest.fixture
def short_folder():
    """A folder for sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray, an optional extra, is not installed.")
def test_ray_itself_trains_a_piece_names_one_that_fails_and_stops(tmp_path, short_folder, monkeypatch):
    """Its processes train a real member; the folder of another is a file."""
    for name, value in {"RAY_TMPDIR": short_folder, **AS_OTHERS}.items():
        monkeypatch.setenv(name, value)
    piece = make_piece(tmp_path / "member_3")._replace(member=3)
    (tmp_path / "member_4").touch()
    with RayPool("local", tmp_path, 1) as pool:
        ((member, found),) = pool([piece])
        assert (member, found.updates, found.diverged) == (3, 1, False)
        assert newest_checkpoint(piece.folder / CHECKPOINTS) is not None
        failing = piece._replace(member=4, folder=tmp_path / "member_4/run")
        with pytest.raises(PopulationError, match=r"^member 4 failed: .*Cannot write to --run_dir=.*member_4/run"):
            list(pool([failing]))
        pool.stop()
        with pytest.raises(Stopped):
            list(pool([piece._replace(folder=tmp_path / "member_5")]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["member_3", "member_4"]
    assert not sys.modules["ray"].is_initialized()
