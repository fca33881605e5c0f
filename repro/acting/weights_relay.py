"""Weights that cross the network once for all of a learner's actors on a machine, which share them as a file in memory.

Each actor still asks the learner itself for the number of the newest version, before each unroll, and takes that
version or a newer one, as it would alone. If the file has it, the actor reads it there. If not, one actor fetches it
and writes the file under a lock, while the others wait; one that has waited for `WAIT_SECONDS` fetches for itself. No
actor serves another: one that is killed or stopped holds up the others only by its lock, which the kernel frees when
its process ends.

A snapshot is written to a file of another name, which then replaces the old one, so that readers always see a single
version. The file belongs to one user, whose actors trust each other, and to one process of a learner.

Every actor holds a shared lock on the file's folder. A folder without a lock is removed by the last actor that ends by
itself, by an ending learner on its own machine, or by the next actor of this user that starts, whichever its learner.
So what killed actors leave behind on another machine stays until then.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from repro.aligned import ALIGNMENT
from repro.files import join_folder, remove_folder_if_unused, remove_unused_folders, try_flock
from repro.memory import as_tensor

SHARED_MEMORY = Path("/dev/shm")
"""Parent of the folders; the folder of temporary files where it does not exist."""
WEIGHTS, PARTIAL, LOCK = "weights", "partial", "lock"
"""Files of a folder: the newest snapshot, the next one while it is written, and what its writer locks."""
WAIT_SECONDS = 5.0
"""Longest wait for an actor that fetches, since it may be stopped."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02
"""Seconds between two checks of a waiting actor; they double each time, up to the longest."""


class WeightsRelay:
    """An actor's access to the file. If there can be none, for lack of memory or permission, it always fetches.

    Args:
        address: address of the learner's server.
        token: random number of the learner's process.
        signature: specs of the tensors that are fetched, the first of which holds the version and the token.

    Attributes:
        token: see above.
    """

    def __init__(self, address: str, token: int, signature: Sequence[tf.TensorSpec]) -> None:
        self.token = token
        self._specs = [(tuple(spec.shape), np.dtype(spec.dtype.as_numpy_dtype)) for spec in signature]
        sizes = [int(np.prod(shape)) * dtype.itemsize for shape, dtype in self._specs]
        self._ends = np.cumsum([size + -size % ALIGNMENT for size in sizes]).tolist()  # of the tensors in the file
        self._waits = True  # False after a wait or a write in vain
        self._folder = _base() / _name(address, token)
        self._lock: int | None = None
        remove_unused()
        with contextlib.suppress(OSError):
            joined = _join(self._folder)
            self._leave = weakref.finalize(self, _leave, self._folder, joined)  # at the process's end, too
            self._lock = joined[1]
            _relays.add(self)

    def get(self, version: int, fetch: Callable[[], Sequence[tf.Tensor]]) -> Sequence[tf.Tensor]:
        """Returns weights of a version or of a newer one.

        Args:
            version: version that the learner has published.
            fetch: returns the learner's newest weights, as in the signature.
        """
        if self._lock is None:
            return fetch()
        end, pause = time.monotonic() + WAIT_SECONDS, SHORTEST_PAUSE
        while True:
            if (found := self._read(version)) is not None:
                self._waits = True
                return found
            if try_flock(self._lock, fcntl.LOCK_EX):
                self._waits = True
                try:
                    return self._read(version) or self._fetch_and_write(fetch)
                finally:
                    fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._waits = self._waits and time.monotonic() < end
            if not self._waits:
                return fetch()
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def close(self) -> None:
        """Removes the folder unless other actors have it."""
        if self._lock is not None:
            self._lock = None
            self._leave()

    def _read(self, version: int) -> list[tf.Tensor] | None:
        """The file's weights, in memory that all readers share; None if there are none as new as `version`."""
        try:
            memory = np.asarray(np.memmap(self._folder / WEIGHTS, mode="c"))  # "c": the tensors must be writable
        except OSError:
            return None
        if memory[:8].view(np.int64)[0] < version:
            return None
        arrays = [
            memory[start : start + int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)
            for start, (shape, dtype) in zip([0, *self._ends], self._specs)
        ]
        return [as_tensor(array) for array in arrays]

    def _fetch_and_write(self, fetch: Callable[[], Sequence[tf.Tensor]]) -> Sequence[tf.Tensor]:
        """Returns what `fetch` does, and writes it to the file unless it is from another learner, now at this address.

        The lock must be held.
        """
        values = fetch()
        if int(values[0][1]) == self.token:
            try:
                self._write(values)
            except OSError:
                self._waits = False
                with contextlib.suppress(OSError):
                    os.unlink(self._folder / PARTIAL)
        return values

    def _write(self, values: Sequence[tf.Tensor]) -> None:
        partial = self._folder / PARTIAL
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            for start, value in zip([0, *self._ends], values):
                file.seek(start)
                file.write(value.numpy().tobytes())
            file.truncate(self._ends[-1])
            file.flush()
            os.fsync(file.fileno())  # or a file on a disk could be empty after a loss of power
        os.replace(partial, self._folder / WEIGHTS)


_relays: weakref.WeakSet[WeightsRelay] = weakref.WeakSet()


def close_all() -> None:
    """Closes all relays of this process, which is about to end without a shutdown of the interpreter."""
    for relay in tuple(_relays):
        relay.close()


def remove_unused() -> None:
    """Removes the folders of this user's actors that no running actor uses."""
    remove_unused_folders(_base(), _prefix())


def _base() -> Path:
    return SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())


def _prefix() -> str:
    return f"repro-weights-{os.geteuid()}-"


def _name(address: str, token: int) -> str:
    """Name of the folder of a learner's process; the address keeps learners out that copy another one's token."""
    return _prefix() + hashlib.sha256(f"{address} {token}".encode()).hexdigest()[:16]


def _join(path: Path) -> tuple[int, int]:
    """Joins a folder; returns descriptors of it, with a shared lock, and of its lock's file.

    Raises:
        OSError: see `join_folder`.
    """
    directory = join_folder(path)
    try:
        return directory, os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        os.close(directory)
        raise


def _leave(path: Path, joined: tuple[int, int]) -> None:
    """Closes what `_join` returned, and removes the folder unless other actors have it."""
    directory, lock = joined
    remove_folder_if_unused(path, directory)
    os.close(lock)
    os.close(directory)
