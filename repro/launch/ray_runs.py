"""Whole runs as processes of a Ray cluster; requires the extra `[cluster]`."""

from __future__ import annotations

import contextlib
from types import ModuleType
from typing import Any

from repro.launch import gate, ray_cluster
from repro.launch.cluster_job import LostError, RemoteRun
from repro.launch.machine_run import OTHER_VERSION, MachineRun

WAIT_SECONDS = 0.5
"""Seconds of a single wait for a call."""
VERSION_SECONDS = 60.0
"""Longest wait in seconds for the machines to report their versions."""
TRUST = "Anyone who can reach Ray's ports can run commands there: use a private network only."


class RayRun:
    """A `RemoteRun` in one of Ray's actors, which ends with this process.

    Args:
        ray: the module `ray`, connected to the cluster.
        actor: Ray's handle of the `MachineRun`.
    """

    def __init__(self, ray: ModuleType, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        self._first = actor.describe.remote()
        self._ended = False

    def is_placed(self) -> bool:
        return self._is_ready(self._first)

    def call(self, method: str, *arguments: Any) -> Any:
        try:
            task = getattr(self._actor, method).remote(*arguments)
            while not self._is_ready(task):
                pass
            return self._ray.get(task)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise LostError(ray_cluster.reason_of(error)) from None

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            with contextlib.suppress(self._ray.exceptions.RayError, ConnectionError):  # the cluster may be gone
                self._ray.kill(self._actor)

    def _is_ready(self, task: Any) -> bool:
        """Returns whether a call has ended, after a short wait; raises LostError if `end` was called."""
        if self._ended:
            raise LostError("it was ended")
        return bool(self._ray.wait([task], timeout=WAIT_SECONDS)[0])


class RayRuns:
    """A `Cluster` that makes whole runs on the machines of a Ray cluster; call `connect` first.

    Args:
        address: address of the cluster, see `ray_cluster.join`.

    Attributes:
        version: fingerprint of the code that the machines must have.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self.version = gate.fingerprint()
        self._ray: ModuleType
        self._most = 0

    def connect(self, cores: int) -> int:
        """Connects to the cluster; returns how many runs with `cores` cores each fit on it when it is idle.

        Raises:
            ClusterError: there is no cluster, no machine has enough cores, or a machine has another version of this
                suite or cannot run it.
        """
        self._ray = ray_cluster.join(self._address)
        sizes = [int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]]
        self._most = max(sizes, default=0)
        if self._most < cores:
            raise ray_cluster.ClusterError(
                f"a run needs {cores} cores, but no machine of the Ray cluster at {self._address} has more than "
                f"{self._most}: lower --cores_per_run."
            )
        self._check_versions()
        self._size = f"{len(sizes)} machine{'s' if len(sizes) > 1 else ''} and {sum(sizes)} cores"
        return sum(size // cores for size in sizes)

    def describe(self, at_once: int) -> str:
        """Returns sentences about the size of the cluster for some parallel runs, and whom its ports trust."""
        return f"At most {at_once} runs at once on a Ray cluster with {self._size}. {TRUST}"

    def start(self, cores: int) -> RemoteRun:
        cores = min(cores, self._most)  # a campaign's block may ask for more
        return RayRun(self._ray, self._ray.remote(num_cpus=cores, **ray_cluster.OWN_PROCESS)(MachineRun).remote(cores))

    def _check_versions(self) -> None:
        """Checks the versions of all machines with cores; machines that join later are checked when a run begins there.

        Raises:
            ClusterError: a machine has another version of this suite or cannot run it.
        """
        describe = self._ray.remote(num_cpus=0, max_retries=0)(_describe)
        asked = [
            describe.options(resources={f"node:{node['NodeManagerAddress']}": 0.001}).remote()
            for node in self._ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU", 0)
        ]
        for task in self._ray.wait(asked, num_returns=len(asked), timeout=VERSION_SECONDS)[0]:
            try:
                machine, version = self._ray.get(task)
            except self._ray.exceptions.RayError as error:
                raise ray_cluster.ClusterError(
                    f"a machine of the Ray cluster cannot run this suite ({ray_cluster.reason_of(error)})."
                ) from None
            if version != self.version:
                raise ray_cluster.ClusterError(OTHER_VERSION.format(machine))


def _describe() -> tuple[str, str]:
    return MachineRun(0).describe()
