"""Joins a Ray cluster; needs the extra `[cluster]`."""

from __future__ import annotations

import os
import signal
import sys
from types import ModuleType

AUTO = "auto"
"""The cluster that this machine is part of; where there is none, one that begins and ends with the process."""

JOINED = "joined"
"""The cluster of which this process is a task."""

CLIENT = "ray://"
"""What an address of Ray's client server begins with; host and port follow."""

OWN_PROCESS = {"max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
"""Options of what is a process of its own, on as many machines as there are.

They are those of actors, as Ray has them, not of tasks: of a task whose machine is gone Ray says nothing before the
connection times out, which takes minutes.
"""

SKIPPED_LINES = "RAY_DEDUP_LOGS_SKIP_REGEX"
"""Variable of Ray's: lines of it that do not come on the screen. What they say of processes that end, the run says."""


class ClusterError(ValueError):
    """There is no cluster to work on; the message says why."""


def join(address: str) -> ModuleType:
    """Returns Ray, connected; the signals' handlers stay as they are, which Ray would replace.

    Args:
        address: `AUTO`, `JOINED`, or as `ray.init` takes it: `ray://<host>:10001`, `<host>:6379`, or `local` for a new
            one.

    Raises:
        ClusterError: Ray is not installed, there is no cluster at the address, or one of a client lacks the port.
    """
    if address.startswith(CLIENT) and not address.rpartition(":")[2].isdecimal():
        raise ClusterError(f"{address} has no port: Ray's client server has {CLIENT}<host>:10001 by default.")
    os.environ.setdefault(SKIPPED_LINES, ".")
    try:
        import ray
    except ImportError:
        raise ClusterError("Ray is not installed: .venv/bin/pip install -e .[cluster]") from None
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
    """Returns in a line why a process of the cluster ended, by an error of Ray's: what it raised, or what befell it."""
    lines = [*str(error).strip().splitlines(), "without a reason"]
    if type(error).__name__.startswith("RayTaskError"):
        return lines[-2]  # of a traceback
    line = next((line for line in lines if " because " in line), lines[0])
    return f"{type(error).__name__}: {line.split('. ')[0].rstrip('.')}"


def leave() -> None:
    """Lets the cluster go, if this process joined one; one that began with the process ends."""
    if (ray := sys.modules.get("ray")) is not None:
        ray.shutdown()


def _init(ray: ModuleType, address: str) -> None:
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
