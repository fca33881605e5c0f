"""The connection of a replay in a process of its own with the learner, which ends when either of them does.

The process connects when it is started, is sent the files of a checkpoint, has a server with them, and says where that
is, and from then on how many sequences were written; asked to save, it sends files back. No folder need be shared.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import NamedTuple

DEAD_SECONDS = 600
"""After which a connection has ended whose other machine answers nothing, or whose other process reads nothing: that
may come back, as a network or a disk that stood still."""
CONNECT_SECONDS = 60.0
CHUNK_BYTES = 1 << 20
OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, DEAD_SECONDS // 10),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * DEAD_SECONDS),
)


class Kind(enum.IntEnum):
    """What a message says.

    SERVES: the server has the port `number`.
    WRITTEN: so many sequences were written since it serves; also a sign of life.
    SAVE: files are asked for.
    FILE: so many bytes follow of the file `text`.
    END: no file follows; `number` as in WRITTEN.
    FAILED: there are no files; `text` says why.
    """

    SERVES = 0
    WRITTEN = 1
    SAVE = 2
    FILE = 3
    END = 4
    FAILED = 5


class Message(NamedTuple):
    """See `Kind`."""

    kind: Kind
    number: int = 0
    text: str = ""


class LinkEndedError(Exception):
    """The other side is gone, or does not know the key."""


class Link:
    """One end of a connection. Messages may be sent from any thread, and are received by one.

    Args:
        connected: the socket.
        key: that both ends must know.
        is_learner: whether this is the learner's end.

    Attributes:
        other_host: address of the other machine.

    Raises:
        LinkEndedError: see there.
    """

    def __init__(self, connected: socket.socket, key: str, is_learner: bool) -> None:
        self._socket = connected
        self._sending = threading.Lock()
        steps = (deliver_challenge, answer_challenge) if is_learner else (answer_challenge, deliver_challenge)
        try:
            for option in OPTIONS:
                connected.setsockopt(*option)
            connected.settimeout(None)
            self.other_host = str(connected.getpeername()[0])
            self._connection = Connection(os.dup(connected.fileno()))
            with self._ended_after(CONNECT_SECONDS):
                for step in steps:
                    step(self._connection, key.encode())
        except (AssertionError, AuthenticationError, EOFError, OSError) as error:
            self.close()
            raise LinkEndedError(f"the other side does not show the key ({error})") from error

    def send(self, message: Message) -> None:
        """Sends a message without a file.

        Raises:
            LinkEndedError: see there.
        """
        with self._sending:
            self._send(message)

    def send_files(self, folder: Path | None, number: int = 0) -> None:
        """Sends the files of a folder, none for None, and the end.

        Raises:
            LinkEndedError: see there.
            OSError: a file cannot be read; the connection is of no use then.
        """
        if folder is not None:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                self._send_file(path, str(path.relative_to(folder)))
        self.send(Message(Kind.END, number))

    def receive(self) -> Message:
        """Waits for a message.

        Raises:
            LinkEndedError: see there.
        """
        with _ending():
            kind, number, text = json.loads(self._connection.recv_bytes())
        return Message(Kind(kind), number, text)

    def receive_file(
        self,
        message: Message,
        folder: Path,
        writing: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """Writes the file whose bytes follow.

        Args:
            message: a FILE.
            folder: that its name is in.
            writing: entered while this machine's disk is waited for, and nothing is received.

        Raises:
            LinkEndedError: see there, or the name is not in the folder.
            OSError: it cannot be written, or is there already; the connection is of no use then.
        """
        path = folder / message.text
        if not path.resolve().is_relative_to(folder.resolve()):
            raise LinkEndedError(f"the other side sends {message.text}, which is not in its folder")
        left = message.number
        with writing():
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("xb")  # another process may have linked a file of a checkpoint there
        try:
            while left:
                with _ending():
                    chunk = self._socket.recv(min(left, CHUNK_BYTES))
                if not chunk:
                    raise LinkEndedError("it ended in a file")
                with writing():
                    file.write(chunk)
                left -= len(chunk)
        finally:
            with writing():  # a disk of another machine may write it all now
                file.close()

    def close(self) -> None:
        """Ends the connection, from any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    @contextlib.contextmanager
    def _ended_after(self, seconds: float) -> Iterator[None]:
        """Ends the connection with somebody who says nothing for so long."""
        timer = threading.Timer(seconds, self.close)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _send_file(self, path: Path, name: str) -> None:
        with path.open("rb") as file, self._sending:
            size = path.stat().st_size
            self._send(Message(Kind.FILE, size, name))
            if size:
                with _ending():
                    self._socket.sendfile(file, count=size)

    def _send(self, message: Message) -> None:
        with _ending():
            self._connection.send_bytes(json.dumps(message).encode())


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """Says of errors of a connection that it has ended."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise LinkEndedError(str(error) or "it ended") from error


def connect(address: str, key: str) -> Link:
    """Returns a connection to the learner.

    Args:
        address: host and port.
        key: of the learner.

    Raises:
        LinkEndedError: see there.
        OSError: nobody is there.
    """
    host, port = address.rsplit(":", 1)
    return Link(socket.create_connection((host, int(port)), CONNECT_SECONDS), key, is_learner=False)
