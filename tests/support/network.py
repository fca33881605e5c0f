"""Machines as network namespaces with own addresses, on a switch that can lose, delay and block packets."""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
"""Constants of Linux's header `if_tun.h` for a network device whose frames a process reads and writes."""
CLONE_NEWNET = 0x40000000
DEVICE = "repro"
MTU = 9000
"""Bytes of a packet; with large packets the switch has fewer of them."""
LARGEST_FRAME = MTU + 100
ADDRESSES = ("10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.4")
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class Cable:
    """Cable of one machine.

    is_up: whether packets pass.
    delay: delay of each packet in seconds, in both directions.
    loss: probability that a packet is lost.
    sent: bytes that the machine has sent so far.
    """

    is_up: bool = True
    delay: float = 0.0
    loss: float = 0.0
    sent: int = 0


class Machines:
    """Namespaces on a switch, which is a thread of this process.

    Args:
        names: names of existing namespaces; machine i gets `ADDRESSES[i]`.

    Attributes:
        names: names of the namespaces.
        cables: cable of each machine, which tests may change.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.cables = [Cable() for _ in names]
        self._taps = [_open_tap(name) for name in names]
        self._ports: dict[bytes, int] = {}  # address of a device to its machine
        self._closed = threading.Event()
        for name, address in zip(names, ADDRESSES):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", DEVICE)
            _ip("-n", name, "link", "set", DEVICE, "mtu", str(MTU))
            for device in ("lo", DEVICE):
                _ip("-n", name, "link", "set", device, "up")
        self._thread = threading.Thread(target=self._switch, daemon=True)
        self._thread.start()

    def pids(self, machine: int) -> list[int]:
        """Returns the ids of a machine's processes."""
        found = subprocess.run(["ip", "netns", "pids", self.names[machine]], capture_output=True, text=True, check=True)
        return [int(pid) for pid in found.stdout.split()]

    def lose(self, machine: int) -> None:
        """Cuts a machine off and kills all of its processes."""
        self.cables[machine].is_up = False
        for pid in self.pids(machine):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        for tap in self._taps:
            os.close(tap)

    def _switch(self) -> None:
        rng, count = random.Random(0), 0
        under_way: list[tuple[float, int, int, bytes]] = []  # heap ordered by time of arrival
        while not self._closed.is_set():
            wait = min(0.1, max(0.0, under_way[0][0] - time.monotonic())) if under_way else 0.1
            for tap in select.select(self._taps, [], [], wait)[0]:
                source = self._taps.index(tap)
                frame = os.read(tap, LARGEST_FRAME)
                self._ports[frame[6:12]] = source
                for target in self._targets(source, frame[:6]):
                    ends = self.cables[source], self.cables[target]
                    if all(end.is_up and rng.random() >= end.loss for end in ends):
                        count += 1
                        ends[0].sent += len(frame)
                        due = time.monotonic() + sum(end.delay for end in ends)
                        heapq.heappush(under_way, (due, count, target, frame))
            while under_way and under_way[0][0] <= time.monotonic():
                _, _, target, frame = heapq.heappop(under_way)
                with suppress(OSError):  # its queue is full: the packet is lost
                    os.write(self._taps[target], frame)

    def _targets(self, source: int, address: bytes) -> list[int]:
        """Returns the machines that a frame is for."""
        if address in self._ports:
            return [self._ports[address]]
        return [machine for machine in range(len(self._taps)) if machine != source]


@contextmanager
def machines(count: int) -> Iterator[Machines]:
    """Makes `count` machines; they and all of their processes are removed afterwards."""
    names = [f"repro-{os.getpid()}-{i}" for i in range(count)]
    try:
        for name in names:
            _ip("netns", "add", name)
        made = Machines(names)
        try:
            yield made
        finally:
            for machine in range(count):
                made.lose(machine)
            made.close()
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def refusal() -> str | None:
    """Says why machines cannot be made here; None if they can."""
    try:
        with machines(1):
            return None
    except FileNotFoundError:
        return "There is no command ip."
    except (subprocess.CalledProcessError, OSError) as error:
        return f"Network namespaces are not permitted: {error}"


def _open_tap(name: str) -> int:
    """Opens a device in a namespace, which the calling thread enters temporarily."""
    with open("/proc/thread-self/ns/net") as here:
        enter(name)
        try:
            tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TAP | IFF_NO_PI))
        finally:
            _enter(here.fileno())
    return tap


def enter(name: str) -> None:
    """Moves this thread, and what it starts from now on, to a machine."""
    with open(f"/run/netns/{name}") as there:
        _enter(there.fileno())


def _enter(namespace: int) -> None:
    if _LIBC.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
