"""On which machines a run's learners and actors are, and what was lost there; without TensorFlow."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

REACH_SECONDS = 30.0
"""Longest wait for the way to a server."""


def own_address(server: str) -> str:
    """Returns the address that this machine has on its way to a server, given as host and port.

    Raises:
        OSError: there is no way.
    """
    host, port = server.rsplit(":", 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # which sends nothing
        probe.connect((host, int(port)))
        return str(probe.getsockname()[0])


def check_reached(host: str, port: int) -> None:
    """Checks the way to a server of Reverb's, whose calls would wait for ever.

    Raises:
        OSError: there is no way, or no server.
    """
    try:
        socket.create_connection((host, port), timeout=REACH_SECONDS).close()
    except OSError as error:
        raise OSError(f"this machine does not reach port {port} of {host} ({error})") from error


def machine_number(address: str) -> int:
    """Returns the number that an address (IPv4) stands for."""
    return int(ipaddress.IPv4Address(address))


def own_machine(server: str) -> int:
    """Returns the number of this machine, by the address that it has on its way to a server; see `own_address`."""
    return machine_number(own_address(server))


def with_own_machine(machines: Set[int], home: str | None) -> np.ndarray:
    """Returns the numbers of machines of actors and of the learner, int64 [N], for a checkpoint.

    Args:
        machines: that actors played on, and those of the learner before.
        home: address of the learner's, see `Launcher`.
    """
    own = {machine_number(home)} if home is not None else set()
    return np.array(sorted(machines | own), np.int64)


def describe_totals(
    home: str | None, states: Sequence[Mapping[str, Any]], games: int, unrolls: int, sequences: int = 0
) -> dict[str, Any]:
    """Totals of the whole run: `lost`, where something was, and `machines`, where there can have been several.

    Args:
        home: see `with_own_machine`.
        states: of all learners, whose `machines` are what that returned.
        games, unrolls, sequences: that were lost, the last from a replay.
    """
    counts = {"games": games, "unrolls": unrolls} | ({"sequences": sequences} if sequences else {})
    lost = {"lost": counts} if unrolls or sequences else {}
    if home is None:
        return lost
    return {"machines": len({int(machine) for state in states for machine in state["machines"]}), **lost}
