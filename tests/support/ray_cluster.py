"""Ray cluster on the machines of `network.py`, each with its own temporary files and shared memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

from tests.support.commanded_run import wait
from tests.support.network import ADDRESSES, Machines

HEAD = 0
"""Index of the head's machine."""
PORT = 6379
CLIENT = f"ray://{ADDRESSES[HEAD]}:10001"
"""Address by which machines that are not part of the cluster use it."""
GIVEN_UP = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "5",
}
"""Ray's variables with which it gives up a machine after some 15 seconds without an answer, instead of a minute."""


AS_OTHERS = {"RAY_worker_niceness": "0"}
"""Ray's variable for usual priority; by default its processes would give way to all others, such as other tests."""


class RayCluster:
    """Nodes of Ray on machines.

    Args:
        made: machines.
        folder: folder for the files of each machine, with a short path, because it holds sockets.
        variables: additional environment variables of all processes on the machines.

    Attributes:
        made: machines.
        environment: environment variables of processes on the machines.
    """

    def __init__(self, made: Machines, folder: Path, variables: Mapping[str, str]) -> None:
        self.made = made
        self._folder = folder
        added = {"PYTHONPATH": str(Path.cwd()), "RAY_TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
        self.environment = os.environ | added | variables
        (folder / "ray").mkdir()
        for machine in range(len(made.names)):
            for name in ("ray", "shm"):
                (folder / f"machine_{machine}" / name).mkdir(parents=True)

    def command(self, machine: int) -> list[str]:
        """Returns the beginning of a command that runs on a machine."""
        mounts = f'mount --bind "$0/shm" /dev/shm && mount --bind "$0/ray" {self._folder}/ray && exec "$@"'
        return [
            "ip",
            "netns",
            "exec",
            self.made.names[machine],
            "sh",
            "-c",
            mounts,
            f"{self._folder}/machine_{machine}",
        ]

    def start(self, cores: Mapping[int, int]) -> None:
        """Starts nodes at the same time, and connects their cables; start the head before all others.

        Args:
            cores: machine to its number of cores for tasks.
        """
        starting = []
        for machine, count in cores.items():
            self.made.cables[machine].is_up = True
            place = [f"--address={ADDRESSES[HEAD]}:{PORT}"]
            if machine == HEAD:
                place = ["--head", f"--port={PORT}", "--include-dashboard=false"]
            size = [f"--num-cpus={count}", "--object-store-memory=80000000", f"--node-ip-address={ADDRESSES[machine]}"]
            ray = str(Path(sys.executable).with_name("ray"))
            command = [*self.command(machine), ray, "start", *place, *size]
            starting.append(subprocess.Popen(command, env=self.environment, stdout=PIPE, stderr=PIPE, text=True))
        for node in starting:
            _, stderr = node.communicate()
            assert node.returncode == 0, stderr[-3000:]

    def roles(self, does: str = "", machine: int | None = None) -> list[int]:
        """Returns the processes of a `Role`, on a machine or on all."""
        return [pid for pid in self.pids(machine) if _command(pid).startswith(f"ray::Role.{does}")]

    def role(self, does: str, machine: int | None = None) -> int:
        """Waits for a process of a `Role` and returns its id; its name shows the role only during a call."""
        return wait(lambda: self.roles(does, machine), f"nothing is there that would {does}")[0]

    def trainings(self, machine: int | None = None, seed: int | None = None) -> list[int]:
        """Returns the processes of whole runs, of one seed or of all."""
        named = re.compile(r"--run_dir=\S*/seed_" + ("" if seed is None else rf"{seed}\b"))
        return [pid for pid in self.pids(machine) if named.search(_command(pid))]

    def pids(self, machine: int | None = None) -> list[int]:
        """Returns the processes on a machine or on all."""
        places = range(len(self.made.names)) if machine is None else (machine,)
        return [pid for place in places for pid in self.made.pids(place)]


@contextmanager
def ray_cluster(made: Machines, cores: Sequence[int], variables: Mapping[str, str]) -> Iterator[RayCluster]:
    """Starts a cluster whose machine i has `cores[i]` cores for tasks; all processes on the machines end with it."""
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        cluster = RayCluster(made, Path(folder), GIVEN_UP | AS_OTHERS | variables)
        try:
            cluster.start({HEAD: cores[HEAD]})
            cluster.start({machine: count for machine, count in enumerate(cores) if machine != HEAD})
            yield cluster
        finally:
            for machine in range(len(made.names)):
                made.lose(machine)
            wait(lambda: not cluster.pids(), "processes are left, which would write into the folder")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # it has ended
        return ""
