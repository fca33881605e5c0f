"""Memory that a process may still take, with folders in place of Linux's own."""

from types import SimpleNamespace

import psutil
import pytest

from repro import machine_memory
from repro.machine_memory import available_bytes, check_fits

MACHINE = 3_000_000
"""Bytes that the machine has left."""


@pytest.fixture
def available(tmp_path, monkeypatch):
    """Makes control groups of version 1 or 2, and returns what a process may take that is in some of them."""

    def make(version, group, limit, used, inactive):
        folder = tmp_path / "groups" / group
        folder.mkdir(parents=True, exist_ok=True)
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if version == 1 else ("memory.max", "memory.current")
        for name, value in zip(names, (limit, used), strict=True):
            (folder / name).write_text(f"{value}\n")
        total = "total_" if version == 1 else ""
        lines = [
            "anon 400000",
            f"{total}active_file {inactive // 4}",
            f"{total}inactive_file {inactive - inactive // 4}",
        ]
        if version == 1:  # without those of groups within it
            lines += ["active_file 1", "inactive_file 1"]
        (folder / "memory.stat").write_text("\n".join(lines))

    def ask(lines, *groups):
        for group in groups:
            make(*group)
        (tmp_path / "self").mkdir()
        (tmp_path / "self/cgroup").write_text(lines)
        return available_bytes(tmp_path / "self", tmp_path / "groups")

    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=MACHINE))
    return ask


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("max", MACHINE), (1_000_000, 600_000), (99_000_000, MACHINE), (300_000, 0)],
)
@pytest.mark.parametrize("place", ["", "slurm/job_7/step_0"])
def test_the_limit_of_the_process_s_own_group_counts(available, place, limit, expected):
    """It uses 600 000 bytes, of which 200 000 are files that need not stay in memory."""
    assert available(f"0::/{place}\n", (2, place, limit, 600_000, 200_000)) == expected


@pytest.mark.parametrize("tightest", ["", "user.slice", "user.slice/a.scope"])
def test_limits_of_groups_around_it_count(available, tightest):
    groups = [(2, place, "max" if place else 2_500_000, 0, 0) for place in ("", "user.slice", "user.slice/a.scope")]
    other = (2, "system.slice", 1000, 0, 0)
    assert available("0::/user.slice/a.scope\n", *groups, other, (2, tightest, 2_000_000, 500_000, 0)) == 1_500_000


@pytest.mark.parametrize("place", ["slurm/uid_1/job_7", "slurm", ""])
def test_groups_of_version_1_have_a_folder_for_memory(available, place):
    lines = "5:devices:/other\n4:cpu,memory:/slurm/uid_1/job_7\n1:name=systemd:/other\n0::/\n"
    unlimited = (1, "memory", 2**63 - 4096, 900_000, 0)
    other = (1, "memory/other", 1000, 0, 0)
    assert available(lines, unlimited, other, (1, f"memory/{place}", 1_000_000, 600_000, 200_000)) == 600_000


def test_a_container_may_see_its_group_as_the_root_under_the_name_that_its_machine_has_for_it(available):
    assert available("4:memory:/kubepods/pod_1/a\n", (1, "memory", 1_000_000, 600_000, 200_000)) == 600_000


def test_a_group_that_cannot_be_read_has_no_limit(available, tmp_path):
    (tmp_path / "groups/a/b").mkdir(parents=True)
    (tmp_path / "groups/a/b/memory.max").write_text("1000\n")  # and no word of what it uses
    assert available("0::/a/b\n", (2, "a", 1_000_000, 600_000, 200_000)) == 600_000


@pytest.mark.parametrize(
    ("min_size", "advice"), [(1, "choose at most 2500"), (2501, "even the smallest, 2501, does not fit")]
)
def test_the_advice_is_a_size_of_use(available, monkeypatch, min_size, advice):
    monkeypatch.setattr(machine_memory, "available_bytes", lambda: 5_000_000)
    check_fits("replay.frames", 2500, 5_000_000)
    with pytest.raises(ValueError, match=f"replay.frames=5000 takes 0.0 GB .* are available: {advice}"):
        check_fits("replay.frames", 5000, 10_000_000, step=10, min_size=min_size)


def test_without_control_groups_all_of_the_machine_counts(tmp_path, available):
    assert available("1:name=systemd:/\n0::/\n") == MACHINE
    assert available_bytes(tmp_path, tmp_path) == MACHINE


def test_this_process_may_take_some():
    assert 1e6 < available_bytes() <= psutil.virtual_memory().total
