"""Processes in place of actors that send the same unrolls over and over and do not play.

They are forked from a process that has loaded TensorFlow, so that dozens of them fit into a machine's memory.
"""

from __future__ import annotations

import multiprocessing
from typing import NoReturn

import reverb

from repro.acting.actor_processes import ActorProcess
from repro.acting.machines import own_machine
from repro.acting.remote import PulledWeights
from repro.acting.remote_actor import end_with
from repro.acting.remote_unrolls import UnrollSender
from repro.acting.unrolls import UnrollGroup
from repro.training import devices

_forking = multiprocessing.get_context("forkserver")


class Sender:
    """Process that sends; an `ActorProcess`.

    Args:
        group, actor, start, address: as for `send`.
    """

    may_wait = False

    def __init__(self, group: UnrollGroup, actor: int, start: int, address: str) -> None:
        self._process = _forking.Process(target=send, args=(group, actor, start, address), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """Id of the process."""
        assert self._process.pid is not None, "it was started"
        return self._process.pid

    def wait(self) -> str:
        self._process.join()
        return f"it ended with code {self._process.exitcode}"

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()


class SenderLauncher:
    """Starts senders on this machine; a `Launcher`.

    Args:
        group: unrolls that they send.

    Attributes:
        home, port: as in `Launcher`.
        senders: all senders that were started.
        address: address of the learner's server; empty before the first sender.
    """

    home: str | None = None
    port: int | None = None

    def __init__(self, group: UnrollGroup) -> None:
        _forking.set_forkserver_preload([__name__])
        self.senders: list[Sender] = []
        self.address = ""
        self._group = group

    def __call__(self, actor: int, start: int, address: str) -> Sender:
        self.address = address
        self.senders.append(Sender(self._group, actor, start, address))
        return self.senders[-1]

    def start_learner(self, learner: int, address: str, key: str) -> ActorProcess:
        raise NotImplementedError("There is one learner.")

    def start_evaluator(self, address: str) -> ActorProcess:
        raise NotImplementedError("There is no evaluator.")

    def start_replay(self, address: str, key: str) -> ActorProcess:
        raise NotImplementedError("There is no replay.")


def send(group: UnrollGroup, actor: int, start: int, address: str) -> NoReturn:
    """Sends a group of unrolls as fast as the learner takes it, until the learner ends; fetches weights before each.

    Args:
        group: group of unrolls.
        actor, start, address: as for `Launcher`.
    """
    end_with(address)
    devices.configure_actor()
    weights = PulledWeights(address)
    sender = UnrollSender(reverb.Client(address), actor, start, own_machine(address))
    while True:
        group.version = weights.latest.version
        sender.send([group])
