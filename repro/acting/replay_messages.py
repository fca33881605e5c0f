"""What a learner and a replay in a process of its own tell each other by two queues of the learner's server.

The replay, each time that it was started, asks for what was saved, has a server with it, and says where that is and
what it holds; asked to save, it sends the files. No folder need be shared.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import reverb
import tensorflow as tf

from repro.quiet import suppress_stderr

TO_REPLAY, FROM_REPLAY, REPLAY = "to_replay", "from_replay", "replay"
"""Names of the queues, and of the table of where the replay is: port of the learner's machine, and the learner's token,
a random number: another learner may come to its address."""
REPLAY_SPEC = tf.TensorSpec([2], tf.int64)
MAX_WAITING = 4
"""Messages in a queue."""
CHUNK_BYTES = 16 << 20
"""Bytes of a file in a message."""
SPECS = [tf.TensorSpec([4], tf.int64), tf.TensorSpec([None], tf.uint8), tf.TensorSpec([None], tf.uint8)]


class Kind(enum.IntEnum):
    """BEGIN: asks for files. SERVES: the server is at `text`. HOLDS: `number` sequences were written since the start.
    SAVE: asks for files. FILE: `data` follows in the file `text`. END: no file follows; `number` as in HOLDS."""

    BEGIN = 0
    SERVES = 1
    HOLDS = 2
    SAVE = 3
    FILE = 4
    END = 5


class Message(NamedTuple):
    """token: the learner's. start: how often the replay was started before. For the rest see `Kind`."""

    token: int
    start: int
    kind: Kind
    number: int = 0
    text: str = ""
    data: np.ndarray = np.zeros(0, np.uint8)


def make_tables() -> list[reverb.Table]:
    """The tables, for the learner's server."""
    newest = reverb.Table(
        REPLAY,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=1,
        rate_limiter=reverb.rate_limiters.MinSize(1),
        signature=[REPLAY_SPEC],
    )
    queues = [reverb.Table.queue(name, MAX_WAITING, signature=SPECS) for name in (TO_REPLAY, FROM_REPLAY)]
    return [newest, *queues]


def find_replay(client: reverb.Client) -> tuple[int, int]:
    """Port of the learner's machine that leads to the replay, and the learner's token."""
    with suppress_stderr():
        (sample,) = client.sample(REPLAY, 1, emit_timesteps=False)
    port, token = (int(x) for x in sample.data[0].ravel())
    return port, token


def find_address(address: str) -> str:
    """Waits for the replay; its address for writers, given that of the learner's server."""
    host, (port, _) = address.rsplit(":", 1)[0], find_replay(reverb.Client(address))
    replay = f"{host}:{port}"
    reverb.Client(replay).server_info()
    return replay


def send(client: reverb.Client, queue: str, message: Message) -> None:
    """Sends a message; waits while the queue is full."""
    header = np.array([message.token, message.start, message.kind, message.number], np.int64)
    text = np.frombuffer(message.text.encode(), np.uint8)
    client.insert([header, text, message.data], {queue: 1.0})


def receive(client: reverb.Client, queue: str) -> Message | None:
    """The next message; None where none waits."""
    if not client.server_info()[queue].current_size:
        return None
    with suppress_stderr():
        (sample,) = client.sample(queue, 1, emit_timesteps=False)
    (header,), (text,), (data,) = sample.data
    token, start, kind, number = (int(x) for x in header)
    return Message(token, start, Kind(kind), number, text.tobytes().decode(), data)


def file_messages(token: int, start: int, folder: Path, number: int) -> Iterator[Message]:
    """The files of a folder, none where it does not exist, and the end."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(folder))
            with path.open("rb") as file:
                while data := file.read(CHUNK_BYTES):
                    yield Message(token, start, Kind.FILE, 0, name, np.frombuffer(data, np.uint8))
                if not path.stat().st_size:
                    yield Message(token, start, Kind.FILE, 0, name)
    yield Message(token, start, Kind.END, number)


def write_file(folder: Path, message: Message) -> None:
    """Appends what a message has of a file."""
    path = folder / message.text
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(message.data.tobytes())
