"""Forwards a port of this machine to a gRPC server that may end and start again elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import threading

PIECE_BYTES = 1 << 18
CONNECT_SECONDS = 30.0
"""Longest wait for the server."""
EMPTY_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The first bytes from an HTTP/2 server. A client that has received them waits for answers; one that has not connects
again and again, Reverb's samplers without a pause."""


class Relay:
    """A port that outlasts its server: gRPC clients wait at it, and go on once there is a server again.

    Bytes are passed on as they come. Connections end when their server is gone, even if its machine no longer responds.
    A client that connects meanwhile waits as for a server that does not answer, and its connection ends when there is a
    server: Reverb's writers and samplers then connect again by themselves, other calls raise RuntimeError.

    Args:
        host: address to listen on, of one address family, since each family would have a port of its own.

    Attributes:
        port: port that it listens on.
    """

    def __init__(self, host: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._target: tuple[str, int] | None = None
        self._connections: set[asyncio.Task] = set()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._connect, host, 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="relay")
        self._thread.start()

    def forward_to(self, address: str | None) -> None:
        """Ends all connections, and forwards new ones to the server at an address, or lets them wait for None."""
        with contextlib.suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(self._set_target, address)

    def close(self) -> None:
        """Ends all connections and frees the port."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _set_target(self, address: str | None) -> None:
        host, _, port = (address or "").rpartition(":")
        self._target = (host, int(port)) if address else None
        for connection in self._connections:
            connection.cancel()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # sockets close in the loop's next round

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, target = asyncio.current_task(), self._target
        assert task is not None, "it is one"
        self._connections.add(task)  # ended by `_set_target`
        try:
            with contextlib.suppress(asyncio.CancelledError, OSError), contextlib.closing(writer):
                await (_forward(reader, writer, target) if target else _keep_waiting(reader, writer))
        finally:
            self._connections.discard(task)


async def _keep_waiting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Lets a client wait until it gives up."""
    writer.write(EMPTY_SETTINGS)
    while await reader.read(PIECE_BYTES):
        pass


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: tuple[str, int]) -> None:
    async with asyncio.timeout(CONNECT_SECONDS):
        there_reader, there_writer = await asyncio.open_connection(*target)
    with contextlib.closing(there_writer):
        both = [_pass_on(reader, there_writer), _pass_on(there_reader, writer)]
        tasks = [asyncio.ensure_future(one) for one in both]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in tasks:
                one.cancel()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
