"""The machines of a run's learners and actors, and what was lost there; imports no TensorFlow."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

REACH_SECONDS = 30.0
"""Longest wait for a connection to a server."""


def own_address(server: str) -> str:
    """Returns the address of this machine on its route to a server, given as host and port.

    Raises:
        OSError: there is no route.
    """
    host, port = server.rsplit(":", 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # sends nothing
        probe.connect((host, int(port)))
        return str(probe.getsockname()[0])


def check_reached(host: str, port: int) -> None:
    """Checks that a Reverb server can be reached, since its calls would wait forever.

    Raises:
        OSError: there is no route, or no server.
    """
    try:
        socket.create_connection((host, port), timeout=REACH_SECONDS).close()
    except OSError as error:
        raise OSError(f"this machine cannot reach port {port} of {host} ({error})") from error


def machine_number(address: str) -> int:
    """Returns an IPv4 address as a number."""
    return int(ipaddress.IPv4Address(address))


def own_machine(server: str) -> int:
    """Returns the number of this machine's address on its route to a server; see `own_address`."""
    return machine_number(own_address(server))


def with_own_machine(machines: Set[int], home: str | None) -> np.ndarray:
    """Returns the numbers of machines of actors and of the learner, int64 [N], for a checkpoint.

    Args:
        machines: numbers of the machines that actors played on, and of the learner's earlier ones.
        home: address of the learner's machine, see `Launcher`; None if all actors are on it.
    """
    own = {machine_number(home)} if home is not None else set()
    return np.array(sorted(machines | own), np.int64)


def describe_totals(
    home: str | None, states: Sequence[Mapping[str, Any]], games: int, unrolls: int, sequences: int = 0
) -> dict[str, Any]:
    """Returns totals of the whole run: `lost`, if something was, and `machines`, if there may have been several.

    Args:
        home: see `with_own_machine`.
        states: states of all learners, with `machines` from `with_own_machine`.
        games, unrolls, sequences: numbers of lost games, unrolls, and sequences of a replay.
    """
    counts = {"games": games, "unrolls": unrolls} | ({"sequences": sequences} if sequences else {})
    lost = {"lost": counts} if unrolls or sequences else {}
    if home is None:
        return lost
    return {"machines": len({int(machine) for state in states for machine in state["machines"]}), **lost}
