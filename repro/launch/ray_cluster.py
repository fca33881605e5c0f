"""Connects to a Ray cluster; requires the extra `[cluster]`."""

from __future__ import annotations

import os
import signal
import sys
from types import ModuleType

AUTO = "auto"
"""Address of the cluster that this machine belongs to; if there is none, of a new one that ends with the process."""

JOINED = "joined"
"""Address of the cluster on which this process itself runs."""

CLIENT = "ray://"
"""Prefix of the addresses of Ray's client server, followed by host and port."""

OWN_PROCESS = {"max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
"""Options of processes on the cluster, which are spread over all machines.

They are options of Ray's actors, not of Ray's tasks, because Ray reports the loss of a task's machine only when the
connection times out, which takes minutes.
"""

SKIPPED_LINES = "RAY_DEDUP_LOGS_SKIP_REGEX"
"""Ray's environment variable for lines not to print; the run itself reports processes that end."""


class ClusterError(ValueError):
    """There is no usable cluster; the message gives the reason."""


def join(address: str) -> ModuleType:
    """Connects to a cluster and returns the module `ray`; signal handlers, which Ray would replace, are kept.

    Args:
        address: `AUTO`, `JOINED`, or an address for `ray.init`: `ray://<host>:10001`, `<host>:6379`, or `local` for a
            new cluster.

    Raises:
        ClusterError: Ray is not installed, there is no cluster at the address, or a `ray://` address has no port.
    """
    if address.startswith(CLIENT) and not address.rpartition(":")[2].isdecimal():
        raise ClusterError(f"{address} has no port; the default of Ray's client server is {CLIENT}<host>:10001.")
    os.environ.setdefault(SKIPPED_LINES, ".")
    try:
        import ray
    except ImportError:
        raise ClusterError("Ray is not installed; install it with: .venv/bin/pip install -e .[cluster]") from None
    if address == JOINED:
        return ray
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        try:
            _init(ray, address)
        except ConnectionError:
            if address != AUTO:
                raise
            _init(ray, "local")
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise ClusterError(f"no Ray cluster at {address} ({reason}).") from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return ray


def reason_of(error: Exception) -> str:
    """Returns a line that says why a process of the cluster ended, given Ray's error: its exception or its fate."""
    lines = [*str(error).strip().splitlines(), "without a reason"]
    if type(error).__name__.startswith("RayTaskError"):
        return lines[-2]  # last line of a traceback
    line = next((line for line in lines if " because " in line), lines[0])
    return f"{type(error).__name__}: {line.split('. ')[0].rstrip('.')}"


def leave() -> None:
    """Disconnects from the cluster, if this process joined one; a cluster that this process started ends."""
    if (ray := sys.modules.get("ray")) is not None:
        ray.shutdown()


def _init(ray: ModuleType, address: str) -> None:
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
