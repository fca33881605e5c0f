"""Starts a run's actors, and its learners except the chief, on the machines of a Ray cluster."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import ml_collections

from repro import cli
from repro.acting.machines import own_address
from repro.launch import ray_cluster

CORES = 1
"""Number of cores that the cluster reserves for an actor."""
LOOPBACK = "127."
"""Prefix of loopback addresses, such as that of a head or of a tunnel on this machine."""
TRUST = (
    "Reverb has no authentication: anyone who can reach the learner's port can read and change what is learned. "
    "Use a private network only."
)
TRUST_LEARNERS = (
    "Neither Reverb nor TensorFlow has authentication: anyone who can reach a learner's ports can change what is "
    "learned and run commands there. Use a private network only."
)


class Role:
    """A process of the cluster; one of these methods is called once."""

    def play(self, config: dict[str, Any], seed: int, actor: int, start: int, address: str) -> None:
        """Plays as one actor."""
        cli.quiet()
        from repro.papers import find_experiment  # only these processes load TensorFlow
        from repro.training import devices
        from repro.training.experiment import RemoteActing

        experiment = find_experiment(ml_collections.ConfigDict(config))
        assert isinstance(experiment, RemoteActing)
        devices.configure_actor()
        experiment.run_remote_actor(seed, actor, start, address)

    def evaluate(self, config: dict[str, Any], seed: int, address: str) -> None:
        """Evaluates the learner's weights during training."""
        cli.quiet()
        from repro.papers import find_experiment
        from repro.training import devices
        from repro.training.evaluator_setup import run_evaluator

        devices.configure_actor()
        run_evaluator(find_experiment, ml_collections.ConfigDict(config), seed, address)

    def store(self, config: dict[str, Any], seed: int, address: str, key: str) -> None:
        """Serves the replay."""
        del seed
        cli.quiet()
        from repro.acting.replay_process import make_temporary_folder
        from repro.papers import find_experiment
        from repro.training import devices
        from repro.training.experiment import RemoteStoring

        experiment = find_experiment(ml_collections.ConfigDict(config))
        assert isinstance(experiment, RemoteStoring)
        devices.configure_actor()
        experiment.run_remote_replay(make_temporary_folder(), address, key)

    def learn(self, config: dict[str, Any], seed: int, learner: int, address: str, key: str) -> None:
        """Learns with the chief, with actors on the cluster."""
        cli.quiet()
        from repro.papers import find_experiment
        from repro.training import devices
        from repro.training.experiment import SynchronousLearning
        from repro.training.learner_group import ChiefLink

        experiment = find_experiment(ml_collections.ConfigDict(config))
        assert isinstance(experiment, SynchronousLearning)
        devices.configure_threads(deterministic=False, threads=experiment.config.runtime.get("threads", 0))
        launcher = RayActors(ray_cluster.JOINED, config, seed)
        experiment.run_learner(seed, ChiefLink(address, key, learner), launcher, gpu=0)


class RayProcess:
    """A `Role` on the cluster.

    Args:
        ray: the module `ray`, connected to the cluster.
        role: Ray's handle of the `Role`.
        task: Ray's reference to the running method.
    """

    may_wait = True

    def __init__(self, ray: ModuleType, role: Any, task: Any) -> None:
        self._ray = ray
        self._role = role
        self._task = task

    def wait(self) -> str:
        try:
            self._ray.get(self._task)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            return ray_cluster.reason_of(error)
        finally:
            with contextlib.suppress(self._ray.exceptions.RayError, ConnectionError):  # the cluster may be gone
                self.kill()  # else it would keep its core
        return "it found no learner"

    def kill(self) -> None:
        self._ray.kill(self._role)

    terminate = kill


class RayActors:
    """A `Launcher` that starts actors on a cluster, each on a free core, spread over all machines.

    An actor or an evaluator waits until a core is free. A learner waits for its cores, `runtime.threads` or 1, and for
    a GPU if this machine has one; a replay waits for its memory. All machines need the same version of this suite and
    must be able to reach this one. The process leaves the cluster when it ends.

    Args:
        address: address of the cluster, see `ray_cluster.join`.
        config: configuration of the run.
        seed: seed of the run.
        port: port of the learner's server; 0 for a free one.

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
        server = address.removeprefix(ray_cluster.CLIENT)
        own = own_address(server) if server != address else LOOPBACK
        self.home: str | None
        self.home = self._ray.util.get_node_ip_address() if own.startswith(LOOPBACK) else own
        self.port = port or None

    def __call__(self, actor: int, start: int, address: str) -> RayProcess:
        return self._begin("play", CORES, 0, actor, start, self._reached(address))

    def start_learner(self, learner: int, address: str, key: str) -> RayProcess:
        from repro.gpus import visible_gpus  # only learners load TensorFlow

        return self._begin("learn", self._learner_cores, int(bool(visible_gpus())), learner, address, key)

    def start_evaluator(self, address: str) -> RayProcess:
        return self._begin("evaluate", CORES, 0, self._reached(address))

    def start_replay(self, address: str, key: str) -> RayProcess:
        # A replay reserves no core, since actors need the cores and wait for the replay.
        return self._begin("store", 0, 0, self._reached(address), key, memory=self._replay_bytes)

    def describe(self, num_actors: int, num_learners: int = 1, evaluates: bool = False) -> str:
        """Returns sentences about the free resources, what has to wait for them, and whom the ports trust.

        Call this before anything of the run has been started.

        Args:
            num_actors: number of actors of the run.
            num_learners: number of learners of the run, including the chief, which is not on the cluster.
            evaluates: whether the run has an evaluator, which starts after the actors.
        """
        machines = sum(node["Alive"] for node in self._ray.nodes())
        cores = int(self._ray.available_resources().get("CPU", 0))
        size = f"{machines} machine{'s' if machines > 1 else ''} and {cores} free core{'s' if cores != 1 else ''}"
        others = num_learners - 1
        left = cores - others * self._learner_cores
        if left < 0:
            waiting = f" The run waits for cores: {self._learner_cores} for each of {others} learners on the cluster."
        elif (short := num_actors - left // CORES) > 0:
            waiting = f" {short} of {num_actors} actors{' and the evaluator' * evaluates} wait until there are more."
        elif evaluates and short == 0:
            waiting = " The evaluator waits until there is one more."
        else:
            waiting = ""
        who, trust = ("Actors and learners run", TRUST_LEARNERS) if others else ("Actors play", TRUST)
        return f"{who} on a Ray cluster with {size}.{waiting}{self._describe_memory()} {trust}"

    def _describe_memory(self) -> str:
        """Returns a sentence that the replay waits, if no machine has enough free memory; else nothing."""
        if not self._replay_bytes:
            return ""
        machines = (node["Resources"].get("memory", 0) for node in self._ray.nodes() if node["Alive"])
        free = min(max(machines, default=0), self._ray.available_resources().get("memory", 0))
        if free >= self._replay_bytes:
            return ""
        size = self._config["runtime"]["replay_gb"]
        return f" The run waits for a machine with {size:g} GB for the replay; at most {free / 1e9:.1f} GB are free."

    @property
    def _replay_bytes(self) -> int:
        """Memory in bytes that the cluster reserves for the replay; 0 if no replay has a process of its own."""
        return int(self._config["runtime"].get("replay_gb", 0.0) * 1e9)

    def _begin(self, does: str, cores: int, gpus: int, *arguments: Any, **resources: int) -> RayProcess:
        """Starts a `Role` on the cluster, and its method with the name `does`."""
        role = self._ray.remote(num_cpus=cores, num_gpus=gpus, **resources, **ray_cluster.OWN_PROCESS)(Role).remote()
        return RayProcess(self._ray, role, getattr(role, does).remote(self._config, self._seed, *arguments))

    def _reached(self, address: str) -> str:
        """Returns the address at which other machines reach a server of this machine."""
        return f"{self.home}:{address.rsplit(':', 1)[1]}"

    @property
    def _learner_cores(self) -> int:
        """Number of cores that the cluster reserves for a learner."""
        return self._config["runtime"].get("threads", 0) or CORES


def _check_free(port: int) -> None:
    """Checks that a port is free: Reverb would share it with another learner, and mix the unrolls of both runs.

    Raises:
        ClusterError: the port is in use.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # for a learner that has just ended
        try:
            probe.bind(("", port))
        except OSError as error:
            raise ray_cluster.ClusterError(f"--cluster_port={port} cannot be used ({error.strerror}).") from None
