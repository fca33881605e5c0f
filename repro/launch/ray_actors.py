"""Starts a run's actors on the machines of a Ray cluster."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import ml_collections

from repro import cli
from repro.acting.remote_unrolls import own_address
from repro.launch import ray_cluster

CORES = 1
"""That the cluster sets aside for an actor."""
TRUST = (
    "Reverb has no authentication: whoever reaches the learner's port can read and change what is learned. "
    "Use a private network only."
)


class RayProcess:
    """A task of the cluster in which an actor plays.

    Args:
        ray: connected.
        task: that plays.
    """

    may_wait = True

    def __init__(self, ray: ModuleType, task: Any) -> None:
        self._ray = ray
        self._task = task

    def wait(self) -> str:
        try:
            self._ray.get(self._task)
        except self._ray.exceptions.RayTaskError as error:
            return str(error).strip().splitlines()[-1]  # of a traceback
        except self._ray.exceptions.RayError as error:
            first, *_ = [*str(error).strip().splitlines(), "without a reason"]
            return f"{type(error).__name__}: {first.rstrip('.')}"
        return "it found no learner"

    def kill(self) -> None:
        self._ray.cancel(self._task, force=True)

    terminate = kill


class RayActors:
    """Starts actors on a cluster, each where a core is free, on as many machines as there are; a `Launcher`.

    An actor for which no core is free waits for one. All machines have this suite installed, in the same version, and
    reach this one. The cluster is let go when the process ends.

    Args:
        address: of the cluster, see `ray_cluster.join`.
        config: of the run.
        seed: of the run.
        port: of the learner's server; 0: a free one.

    Attributes:
        home, port: see `Launcher`.

    Raises:
        ClusterError: there is no cluster, or the port is in use.
    """

    def __init__(self, address: str, config: Mapping[str, Any], seed: int, port: int = 0) -> None:
        _check_free(port)
        self._ray = ray_cluster.join(address)
        self._config = dict(config)
        self._seed = seed
        self._play = self._ray.remote(num_cpus=CORES, max_calls=1, max_retries=0, scheduling_strategy="SPREAD")(_play)
        server = address.removeprefix(ray_cluster.CLIENT)
        self.home: str | None
        self.home = own_address(server) if server != address else self._ray.util.get_node_ip_address()
        self.port = port or None

    def __call__(self, actor: int, start: int, address: str) -> RayProcess:
        reached = f"{self.home}:{address.rsplit(':', 1)[1]}"
        return RayProcess(self._ray, self._play.remote(self._config, self._seed, actor, start, reached))

    def describe(self, num_actors: int) -> str:
        """Returns what there is to play on, for so many actors, and who must be trusted."""
        machines = sum(node["Alive"] for node in self._ray.nodes())
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        short = num_actors - cores // CORES
        waiting = f" {short} of {num_actors} actors wait until there are more." if short > 0 else ""
        size = f"{machines} machine{'s' if machines > 1 else ''} and {cores} core{'s' if cores > 1 else ''}"
        return f"Actors play on a Ray cluster with {size} for them.{waiting} {TRUST}"


def _check_free(port: int) -> None:
    """Reverb would share a port with another learner, whose actors would then bring their unrolls to both."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as after a learner that has just ended
        try:
            probe.bind(("", port))
        except OSError as error:
            raise ray_cluster.ClusterError(f"--cluster_port={port} cannot be used ({error.strerror}).") from None


def _play(config: dict[str, Any], seed: int, actor: int, start: int, address: str) -> None:
    """Plays as one actor in a process of the cluster."""
    cli.quiet()
    from repro.papers import find_experiment  # TensorFlow is for these processes alone
    from repro.training import devices
    from repro.training.experiment import RemoteActing

    experiment = find_experiment(ml_collections.ConfigDict(config))
    assert isinstance(experiment, RemoteActing)
    devices.configure_actor()
    experiment.run_remote_actor(seed, actor, start, address)
