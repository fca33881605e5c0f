"""Actors in processes that share weights by a relay; each writes to files what it fetched and what it took."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from repro.acting import weights_relay
from repro.acting.remote import PUBLISHED_SPEC, PulledWeights
from repro.acting.weights import WeightsSnapshot
from repro.acting.weights_relay import WeightsRelay

ADDRESS, TOKEN = "10.0.0.1:5", 77
PARTS, SIZE = 4, 20_000
SIGNATURE = [PUBLISHED_SPEC, *PARTS * [tf.TensorSpec([SIZE], tf.int64)]]


def weights_of(version: int, token: int = TOKEN) -> list[tf.Tensor]:
    """Returns weights that are all equal to their version."""
    return [tf.constant(np.array([version, token])), *(tf.constant(np.full(SIZE, version)) for _ in range(PARTS))]


def append(path: Path, *values: object) -> None:
    """Appends a line of numbers to a file atomically."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, (" ".join(map(str, values)) + "\n").encode())
    os.close(file)


def lines(path: Path) -> list[tuple[int, ...]]:
    """Returns the lines that `append` wrote."""
    return [tuple(map(int, line.split())) for line in path.read_text().splitlines()] if path.exists() else []


def publish(folder: Path, version: int) -> None:
    """Publishes a version to actors that run `follow`."""
    (folder / "next").write_text(str(version))
    os.replace(folder / "next", folder / "newest")


def follow(folder: Path, index: int, wait_seconds: float, hangs_at: int = -1) -> None:
    """Takes every version that is published in a folder, until the process is killed.

    Args:
        folder: folder for the files `fetched`, with lines of actor and version, and `taken_<index>`, with lines of the
            published version and the lowest and the highest version among the weights.
        index: index of the actor.
        wait_seconds: value for `WAIT_SECONDS`.
        hangs_at: version whose fetch hangs until there is a file `go_on`.
    """
    weights_relay.SHARED_MEMORY, weights_relay.WAIT_SECONDS = folder / "memory", wait_seconds
    relay, held = WeightsRelay(ADDRESS, TOKEN, SIGNATURE), -1

    def fetch() -> list[tf.Tensor]:
        version = newest()
        append(folder / "fetched", index, version)
        while version == hangs_at and not (folder / "go_on").exists():
            time.sleep(0.01)
        return weights_of(version)

    def newest() -> int:
        return int((folder / "newest").read_text())

    (folder / f"ready_{index}").touch()
    while True:
        version = newest()
        if version > held:
            (found, _), *parts = relay.get(version, fetch)
            held = int(found)
            versions = [held, *(int(x) for part in parts for x in (np.min(part), np.max(part)))]
            append(folder / f"taken_{index}", version, min(versions), max(versions))
        time.sleep(0.002)


def pull(folder: Path, index: int, address: str) -> None:
    """Takes every version of a learner's weights until the process is killed; writes `taken_<index>` like `follow`."""
    weights_relay.SHARED_MEMORY, weights_relay.WAIT_SECONDS = folder / "memory", 1000.0
    pulled, held = PulledWeights(address), WeightsSnapshot(-1, ())
    while True:
        latest = pulled.latest
        if latest is not held:
            held = latest
            values = [held.version, *(int(x) for value in held.values for x in (np.min(value), np.max(value)))]
            append(folder / f"taken_{index}", held.version, min(values), max(values))
        time.sleep(0.02)


def come_and_go(folder: Path, index: int, times: int) -> None:
    """Joins and leaves a relay several times.

    The file `joined` gets a line for each time, with the actor, the version of its weights, and whether the relay that
    it joined still exists.
    """
    weights_relay.SHARED_MEMORY = folder / "memory"
    for _ in range(times):
        relay = WeightsRelay(ADDRESS, TOKEN, SIGNATURE[:1])
        (published,) = relay.get(3, lambda: weights_of(3)[:1])
        there = relay._lock is not None and os.path.samestat(
            os.fstat(relay._lock), os.stat(relay._folder / weights_relay.LOCK)
        )
        append(folder / "joined", index, int(published[0]), int(there))
        relay.close()
