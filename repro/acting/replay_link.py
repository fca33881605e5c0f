"""The connection between a learner and a replay in a process of its own; it ends when either of them does.

The process connects when it starts, receives the files of a checkpoint, starts a server with them, and reports its port
and from then on how many sequences were written. When asked to save, it sends files back. No shared folder is needed.
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
"""Time without an answer from the other machine, or without a read by the other process, after which a connection has
ended. It is long, since a network or a disk that stands still may recover."""
CONNECT_SECONDS = 60.0
CHUNK_BYTES = 1 << 20
OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, DEAD_SECONDS // 10),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * DEAD_SECONDS),
)


class Kind(enum.IntEnum):
    """Kind of a message.

    SERVES: the server has the port `number`.
    WRITTEN: `number` sequences were written since it serves; also a sign of life.
    SAVE: the process is to save and send the files.
    FILE: `number` bytes of the file `text` follow.
    END: no file follows; `number` as in WRITTEN.
    FAILED: the process could not save; `text` says why.
    """

    SERVES = 0
    WRITTEN = 1
    SAVE = 2
    FILE = 3
    END = 4
    FAILED = 5


class Message(NamedTuple):
    """A message; `Kind` says what its number and text are."""

    kind: Kind
    number: int = 0
    text: str = ""


class LinkEndedError(Exception):
    """The other side is gone, or does not know the key."""


class Link:
    """One end of a connection. Messages may be sent from any thread, but received by only one.

    Args:
        connected: the connected socket.
        key: key that both ends must know.
        is_learner: whether this is the learner's end.

    Attributes:
        other_host: address of the other machine.

    Raises:
        LinkEndedError: the other side is gone, or does not know the key.
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
            raise LinkEndedError(f"the other side did not prove that it has the run's key ({error})") from error

    def send(self, message: Message) -> None:
        """Sends a message without a file.

        Raises:
            LinkEndedError: the other side is gone.
        """
        with self._sending:
            self._send(message)

    def send_files(self, folder: Path | None, number: int = 0) -> None:
        """Sends the files of a folder, none for None, and then END with a number.

        Raises:
            LinkEndedError: the other side is gone.
            OSError: a file cannot be read; the connection cannot be used any more.
        """
        if folder is not None:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                self._send_file(path, str(path.relative_to(folder)))
        self.send(Message(Kind.END, number))

    def receive(self) -> Message:
        """Waits for a message.

        Raises:
            LinkEndedError: the other side is gone.
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
        """Writes the file whose bytes follow a message.

        Args:
            message: a message of kind FILE.
            folder: folder that the file's name is relative to.
            writing: context of each wait for this machine's disk, during which nothing is received.

        Raises:
            LinkEndedError: the other side is gone, or the name is not in the folder.
            OSError: the file cannot be written or exists already; the connection cannot be used any more.
        """
        path = folder / message.text
        if not path.resolve().is_relative_to(folder.resolve()):
            raise LinkEndedError(f"the other side sent {message.text}, which is outside its folder")
        left = message.number
        with writing():
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("xb")  # another process may have linked a file of a checkpoint there
        try:
            while left:
                with _ending():
                    chunk = self._socket.recv(min(left, CHUNK_BYTES))
                if not chunk:
                    raise LinkEndedError("the other side closed it in the middle of a file")
                with writing():
                    file.write(chunk)
                left -= len(chunk)
        finally:
            with writing():  # a network disk may write all of it only now
                file.close()

    def close(self) -> None:
        """Ends the connection, from any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    @contextlib.contextmanager
    def _ended_after(self, seconds: float) -> Iterator[None]:
        """Ends the connection if the block takes longer than `seconds`."""
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
    """Raises LinkEndedError in place of a connection's own errors."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise LinkEndedError(str(error) or "the other side closed it") from error


def connect(address: str, key: str) -> Link:
    """Returns a connection to the learner.

    Args:
        address: host and port.
        key: key of the learner.

    Raises:
        LinkEndedError: the other side is gone, or does not know the key.
        OSError: nobody listens at the address.
    """
    host, port = address.rsplit(":", 1)
    return Link(socket.create_connection((host, int(port)), CONNECT_SECONDS), key, is_learner=False)
