"""The connection of a replay in a process of its own with the learner, which ends when either of them does.

The replay connects when it is started, is sent the files of a checkpoint, has a server with them, and says where that
is, and from then on how many sequences were written; asked to save, it sends files back. No folder need be shared.
"""

from __future__ import annotations

import contextlib
import enum
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import reverb
import tensorflow as tf

from repro.quiet import suppress_stderr

REPLAY = "replay"
"""Name of the table of the learner's server with the port of its machine that leads to the replay."""
REPLAY_SPEC = tf.TensorSpec([1], tf.int64)
DEAD_SECONDS = 60
"""Without an answer of the other machine, after which a connection has ended."""
PIECE_BYTES = 1 << 20
RETRY_SECONDS = 1.0
_HEADER = struct.Struct("!BQI")
_MAX_TEXT = 1 << 16


class Kind(enum.IntEnum):
    """What a message says.

    BEGIN: the process is there; `number`: how often it was started before, `text`: the key that it was given.
    SERVES: the server has this port.
    HOLDS: so many sequences were written since it serves; also a sign of life.
    SAVE: files are asked for.
    FILE: so many bytes follow of the file `text`.
    END: no file follows; `number` as in HOLDS.
    FAILED: there are no files; `text` says why.
    """

    BEGIN = 0
    SERVES = 1
    HOLDS = 2
    SAVE = 3
    FILE = 4
    END = 5
    FAILED = 6


class Message(NamedTuple):
    """See `Kind`."""

    kind: Kind
    number: int = 0
    text: str = ""


class LinkEndedError(Exception):
    """The other side is gone."""


class Link:
    """One end of a connection. Messages may be sent from any thread, and are received by one.

    Args:
        connected: the socket.

    Attributes:
        other_host: address of the other machine.

    Raises:
        OSError: it has ended.
    """

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, DEAD_SECONDS // 2)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, DEAD_SECONDS // 6)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * DEAD_SECONDS)
        self.other_host = str(connected.getpeername()[0])
        self._socket = connected
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        """Sends a message without a file.

        Raises:
            LinkEndedError: see there.
        """
        with self._sending:
            self._send(message)

    def send_files(self, folder: Path | None, number: int = 0) -> int:
        """Sends the files of a folder, none for None, and the end; returns their bytes.

        Raises:
            LinkEndedError: see there.
            OSError: a file cannot be read; the connection is of no use then.
        """
        total = 0
        for path in sorted(folder.rglob("*")) if folder else ():
            if folder and path.is_file():
                with path.open("rb") as file, self._sending:
                    size = os.fstat(file.fileno()).st_size
                    self._send(Message(Kind.FILE, size, str(path.relative_to(folder))))
                    self._send_bytes(file, size)
                    total += size
        self.send(Message(Kind.END, number))
        return total

    def receive(self, seconds: float | None = None) -> Message:
        """Waits for a message.

        Args:
            seconds: for at most so long.

        Raises:
            LinkEndedError: see there; or what came is no message, or none came in time.
        """
        try:
            self._socket.settimeout(seconds)
            kind, number, length = _HEADER.unpack(self._receive(_HEADER.size))
            if length > _MAX_TEXT:
                raise LinkEndedError("what came is no message")
            message = Message(Kind(kind), number, self._receive(length).decode())
            self._socket.settimeout(None)
        except (OSError, ValueError) as error:
            raise LinkEndedError(str(error)) from error
        return message

    def receive_file(self, message: Message, folder: Path, on_piece: Callable[[], None] = lambda: None) -> None:
        """Writes the file whose bytes follow.

        Args:
            message: a FILE.
            folder: that its name is in.
            on_piece: called for every piece that came.

        Raises:
            LinkEndedError: see there.
            OSError: it cannot be written; the connection is of no use then.
        """
        path = folder / message.text
        if not path.resolve().is_relative_to(folder.resolve()):
            raise OSError(f"{message.text} is not in the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        left = message.number
        with path.open("wb") as file:
            while left:
                try:
                    piece = self._socket.recv(min(left, PIECE_BYTES))
                except OSError as error:
                    raise LinkEndedError(str(error)) from error
                if not piece:
                    raise LinkEndedError("it ended in a file")
                on_piece()
                file.write(piece)
                left -= len(piece)

    def close(self) -> None:
        """Ends the connection, from any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _send(self, message: Message) -> None:
        text = message.text.encode()
        try:
            self._socket.sendall(_HEADER.pack(message.kind, message.number, len(text)) + text)
        except OSError as error:
            raise LinkEndedError(str(error)) from error

    def _send_bytes(self, file: BinaryIO, size: int) -> None:
        while size:
            piece = file.read(min(size, PIECE_BYTES))
            if not piece:
                raise OSError(f"{file.name} became shorter")
            try:
                self._socket.sendall(piece)
            except OSError as error:
                raise LinkEndedError(str(error)) from error
            size -= len(piece)

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise LinkEndedError("it ended")
            data += piece
        return data


def connect(address: str) -> Link:
    """Returns a connection to the learner.

    Args:
        address: host and port.

    Raises:
        OSError: nobody is there.
    """
    host, port = address.rsplit(":", 1)
    return Link(socket.create_connection((host, int(port)), timeout=DEAD_SECONDS))


def make_table() -> reverb.Table:
    """Returns the table, for the learner's server."""
    return reverb.Table(
        REPLAY,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=1,
        rate_limiter=reverb.rate_limiters.MinSize(1),
        signature=[REPLAY_SPEC],
    )


def publish_port(client: reverb.Client, port: int) -> None:
    """Says where the replay is, in the learner's process."""
    client.insert([np.array([port], np.int64)], {REPLAY: 1.0})


def find_address(address: str) -> str:
    """Waits until there is a replay; returns its address for writers, given that of the learner's server."""
    with suppress_stderr():
        (sample,) = reverb.Client(address).sample(REPLAY, 1, emit_timesteps=False)
    replay = f"{address.rsplit(':', 1)[0]}:{int(sample.data[0].ravel()[0])}"
    client = reverb.Client(replay)
    while True:
        with contextlib.suppress(RuntimeError):  # the connection ends when there is one
            client.server_info()
            return replay
        time.sleep(RETRY_SECONDS)
